"""Which tool's file this is, by what is in it; its name counts for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runners.interchange.aiperf import is_aiperf_line, is_aiperf_summary, read_aiperf_lines, read_aiperf_summary
from runners.interchange.errors import BadFile
from runners.interchange.guidellm import is_guidellm, read_guidellm
from runners.interchange.inferencex import is_inferencex, read_inferencex
from runners.interchange.json_stream import JsonFile, Part
from runners.interchange.lines import json_lines
from runners.interchange.llm_d import is_llm_d, parse_yaml, read_llm_d
from runners.interchange.results import ForeignFile
from runners.interchange.vllm_bench import is_vllm, read_vllm

KNOWN = (
    "vLLM bench JSON, AIPerf profile_export.jsonl or profile_export_aiperf.json, GuideLLM JSON, "
    "an llm-d benchmark report, InferenceX rows, or a bundle of this lab"
)
PLAIN = 200_000
"""Bytes up to which a file that is none of the large formats is parsed whole."""


def read_file(path: Path) -> ForeignFile:
    """The file as its tool means it. Raises BadFile, here or when its runs or their requests are read."""
    file = JsonFile(path)
    with path.open("rb") as opened:
        start = opened.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if not start:
        raise BadFile("", "the file is empty", KNOWN)
    if start == b"[":
        return _rows_of(file, file.root())
    if start == b"{":
        return _object(path, file)
    document = parse_yaml(path)
    if is_llm_d(document):
        return read_llm_d(document)
    raise BadFile("", "is no result file of a tool that is known here", KNOWN)


def _object(path: Path, file: JsonFile) -> ForeignFile:
    root = file.root()
    if _is_lines(file, root):
        return _lines(path)
    members = file.members(root)
    if is_guidellm(members):
        return read_guidellm(file, members)
    if is_vllm(members):
        return read_vllm(file, members)
    if is_aiperf_summary(members):
        return read_aiperf_summary(file, members)
    whole = file.value(root) if path.stat().st_size <= PLAIN else None
    if isinstance(whole, dict) and is_llm_d(whole):
        return read_llm_d(whole)
    if is_inferencex(whole):
        return read_inferencex(lambda: iter([("", whole)]))
    if is_aiperf_line(whole or {}):
        return read_aiperf_lines(path)
    raise BadFile("", "is no result file of a tool that is known here", KNOWN)


def _is_lines(file: JsonFile, root: Part) -> bool:
    """Whether another object follows the first: a file of lines."""
    return file.follows(root) == "{"


def _lines(path: Path) -> ForeignFile:
    _, first = next(json_lines(path))
    if is_aiperf_line(first):
        return read_aiperf_lines(path)
    if is_inferencex(first):
        return read_inferencex(lambda: iter(json_lines(path)))
    if "request_throughput" in first and "num_prompts" in first:
        raise BadFile("line 2", "several results of vLLM in one file", "one result a file: leave --append-result out")
    raise BadFile("line 1", "is no line of a tool that is known here", KNOWN)


def _rows_of(file: JsonFile, root: Part) -> ForeignFile:
    def rows() -> Iterator[tuple[str, Any]]:
        for number, row in enumerate(file.values(root)):
            yield f"[{number}]", row

    first = next(rows(), (None, None))[1]
    if is_inferencex(first):
        return read_inferencex(rows)
    raise BadFile("", "is a list, but not of InferenceX rows", KNOWN)
