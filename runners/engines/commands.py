"""The command line of a managed engine: an argument list with placeholders, filled with the values of one run.

No shell sees it, so a value can't become another argument. Braces that are meant as such are doubled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from string import Formatter

SETTINGS = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "block_size",
    "threads",
    "weights",
    "kv_cache",
)
"""Placeholders that are fields of `engine`: a document may set those alone that the command takes."""

VALUES = {
    "model_path": "the model's file or folder on the node",
    "model": "the model's name in the lab",
    "host": "the address to listen at",
    "port": "the free port to listen at",
    "max_model_len": "tokens of the workload's longest prompt and output together",
    "total_tokens": "max_num_seqs × max_model_len: the context of all sequences",
}
NEEDED = ("port",)


class BadCommand(Exception):
    """A command that can't be filled."""


def placeholders(parts: Iterable[str]) -> set[str]:
    """The names between braces. Raises BadCommand where braces don't pair, or ask for more than a name."""
    found: set[str] = set()
    for part in parts:
        try:
            fields = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(part)]
        except ValueError as error:
            raise BadCommand(f"{error}; braces that are no placeholder are doubled: {{{{ }}}}") from error
        for name, spec, conversion in fields:
            if name is None:
                continue
            if spec or conversion or not name.isidentifier():
                raise BadCommand(f"{{{name}}} is no placeholder; allowed: {', '.join([*VALUES, *SETTINGS])}")
            found.add(name)
    return found


def check_command(command: Sequence[str]) -> None:
    """Raises BadCommand where a placeholder is unknown or one that is needed is missing."""
    found = placeholders(command)
    if unknown := sorted(found - {*VALUES, *SETTINGS}):
        raise BadCommand(f"no such placeholder: {', '.join(unknown)}; allowed: {', '.join([*VALUES, *SETTINGS])}")
    if missing := [name for name in NEEDED if name not in found]:
        raise BadCommand(f"needs the placeholder {{{missing[0]}}}, so that the node can say where it listens")


def settings_taken(command: Sequence[str]) -> list[str]:
    """The fields of `engine` that the command has placeholders for; `total_tokens` holds max_num_seqs."""
    found = placeholders(command)
    taken = found | ({"max_num_seqs"} if "total_tokens" in found else set())
    return [name for name in SETTINGS if name in taken]


def fill(parts: Sequence[str], values: Mapping[str, object]) -> list[str]:
    """The arguments with their values. Raises BadCommand where one has none."""
    try:
        return [part.format_map(values) for part in parts]
    except KeyError as error:
        raise BadCommand(f"there is no value for {{{error.args[0]}}}") from error


def digest(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The SHA-256 of how an engine is started, as listed: the same digest, the same command. Of its environment only
    the names count, as values may be secrets."""
    return hashlib.sha256(json.dumps([list(command), sorted(environment)]).encode()).hexdigest()
