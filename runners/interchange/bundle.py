"""The bundle: an experiment whole in one zip file, for another lab to take in and come to the same figures.

    manifest.json           format, lab, and of every other member its SHA-256 and size
    experiment.json         name, question, tags, document, spec, trials, and its runs without their records
    runs/<n>/<kind>.jsonl   the records of run n's final attempt: request, sample, step, log, status
    figures.json            the comparison as the lab shows it, for people; a lab that takes the bundle computes its own

The manifest is the last member, as hashes are known only then. What is read is checked against it first: names, sizes
counted while they are unpacked, hashes. Nothing is written anywhere.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from runners.interchange.errors import BadFile
from runners.interchange.lines import MAX_LINE_BYTES, parse_line

FORMAT = "inference-lab bundle 1"
MANIFEST, EXPERIMENT, FIGURES = "manifest.json", "experiment.json", "figures.json"
KINDS = ("request", "sample", "step", "log", "status")
MAX_MEMBERS = 30_000
MAX_TOTAL_BYTES = 16 << 30
"""Of all members unpacked."""
MAX_RATIO = 100
"""Unpacked bytes over packed ones of the whole file; JSON lines of numbers reach about 30."""
MAX_JSON_BYTES = 64 << 20
PIECE_BYTES = 1 << 18
_RECORDS = re.compile(rf"runs/(0|[1-9]\d{{0,5}})/({'|'.join(KINDS)})\.jsonl")


def is_bundle(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def member_of(run: int, kind: str) -> str:
    return f"runs/{run}/{kind}.jsonl"


# Writing


class _Outlet:
    """A file that only grows; what was written is taken away and not kept."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def bundle_bytes(lab: str, members: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    """The zip file in pieces, of `members` (name, its bytes in pieces), which are asked for one after another."""
    outlet = _Outlet()
    hashes: dict[str, dict[str, Any]] = {}
    with zipfile.ZipFile(outlet, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, pieces in members:
            digest, size = hashlib.sha256(), 0
            with archive.open(_entry(name), "w", force_zip64=True) as member:
                for piece in pieces:
                    digest.update(piece)
                    size += len(piece)
                    member.write(piece)
                    yield outlet.take()
            hashes[name] = {"sha256": digest.hexdigest(), "bytes": size}
        manifest = {"format": FORMAT, "lab": lab, "members": hashes}
        archive.writestr(_entry(MANIFEST), json.dumps(manifest, indent=1).encode())
    yield outlet.take()


def _entry(name: str) -> zipfile.ZipInfo:
    """Always of one date, so that the same experiment gives the same bytes."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


# Reading


class Bundle:
    """A bundle that was found whole: every member is what its manifest says. Raises BadFile, when made, where not."""

    def __init__(self, path: Path) -> None:
        try:
            self._archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, OSError) as error:
            raise BadFile("", f"is no whole zip file: {error}") from error
        try:
            self._sizes = self._checked(path.stat().st_size)
            for name in self._sizes:
                self._check_hash(name)
        except BaseException:
            self._archive.close()
            raise

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    @property
    def lab(self) -> str:
        return str(self._manifest.get("lab", ""))[:100]

    def experiment(self) -> dict[str, Any]:
        return parse_line(self._whole(EXPERIMENT), EXPERIMENT)

    def lines(self, run: int, kind: str) -> Iterator[tuple[str, bytes]]:
        """(place, line) of the run's records of one kind; none where it has no such member."""
        name = member_of(run, kind)
        if name not in self._sizes:
            return
        with self._archive.open(name) as member:
            number = 0
            while line := member.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise BadFile(f"{name} line {number}", f"is longer than {MAX_LINE_BYTES} bytes")
                yield f"{name} line {number}", line

    def _checked(self, packed: int) -> dict[str, int]:
        """Names and sizes by the manifest, which must be those of the archive, and within bounds."""
        names = self._archive.namelist()
        if len(names) > MAX_MEMBERS:
            raise BadFile("", f"holds {len(names)} members", f"at most {MAX_MEMBERS}")
        if len(set(names)) != len(names):
            raise BadFile("", "holds two members of one name")
        if MANIFEST not in names:
            raise BadFile("", f"is a zip file without {MANIFEST}", "a bundle of an inference lab")
        self._manifest = parse_line(self._whole(MANIFEST), MANIFEST)
        if self._manifest.get("format") != FORMAT:
            raise BadFile(f"{MANIFEST} format", f"{self._manifest.get('format')!r:.60} is not known", FORMAT)
        told = self._manifest.get("members")
        if not isinstance(told, dict) or set(told) != set(names) - {MANIFEST}:
            raise BadFile(f"{MANIFEST} members", "names other members than the file holds")
        if EXPERIMENT not in told:
            raise BadFile("", f"holds no {EXPERIMENT}")
        for name in told:
            if name not in (EXPERIMENT, FIGURES) and not _RECORDS.fullmatch(name):
                raise BadFile(f"{name!r:.80}", "is no member of a bundle", "runs/<n>/<kind>.jsonl")
        sizes = {name: _size_of(name, one) for name, one in told.items()}
        total = sum(sizes.values())
        if total > MAX_TOTAL_BYTES or total > max(packed, 1) * MAX_RATIO:
            raise BadFile("", f"unpacks from {packed} to {total} bytes", f"at most {MAX_RATIO} times, and 16 GiB")
        return sizes

    def _check_hash(self, name: str) -> None:
        digest, left = hashlib.sha256(), self._sizes[name]
        try:
            with self._archive.open(name) as member:
                while piece := member.read(PIECE_BYTES):
                    left -= len(piece)
                    if left < 0:
                        break
                    digest.update(piece)
        except _UNREADABLE as error:
            raise BadFile(name, f"can't be unpacked: {error}") from error
        if left:
            raise BadFile(name, "is not as large as the manifest says")
        if digest.hexdigest() != self._manifest["members"][name]["sha256"]:
            raise BadFile(name, "is not what the manifest says: its SHA-256 differs")

    def _whole(self, name: str) -> bytes:
        try:
            with self._archive.open(name) as member:
                return _bounded(member, name)
        except _UNREADABLE as error:
            raise BadFile(name, f"can't be unpacked: {error}") from error


_UNREADABLE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError)
"""RuntimeError is what zipfile raises for an encrypted member."""


def _bounded(member: IO[bytes], name: str) -> bytes:
    found = member.read(MAX_JSON_BYTES + 1)
    if len(found) > MAX_JSON_BYTES:
        raise BadFile(name, f"is larger than {MAX_JSON_BYTES} bytes")
    return found


def _size_of(name: str, told: Any) -> int:
    size = told.get("bytes") if isinstance(told, dict) else None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise BadFile(f"{MANIFEST} {name}", "states no size")
    if not isinstance(told.get("sha256"), str):
        raise BadFile(f"{MANIFEST} {name}", "states no SHA-256")
    return size
