"""Models from the hub: the hub's own client against a server that speaks its protocol, well and badly."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import Hub, serving
from tiny_entries import COMMIT, CONTENT, FOLDER, hub_model, left_in

from runners import models
from runners.models import DiskFull, FetchFailed, FetchStopped, HashMismatch, ModelError, SourceRefused, download
from runners.models import hub as hub_source

TINY = hub_model()
PLACE = f"tiny-{TINY.sha256[:12]}"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with serving(Hub(dict(FOLDER), COMMIT)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-home"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        yield hub


def failed(directory: Path) -> ModelError:
    with pytest.raises(ModelError) as failure:
        models.fetch(TINY, directory)
    assert left_in(directory) == set()
    return failure.value


def test_a_folder_comes_with_every_file_checked_and_nothing_else(hub: Hub, tmp_path: Path) -> None:
    hub.files["pytorch_model.bin"] = b"not asked for"
    told: list[tuple[int, int]] = []
    path = models.fetch(TINY, tmp_path / "models", lambda done, total: told.append((done, total)))
    found = {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert path == tmp_path / "models" / PLACE and found == FOLDER
    assert told == sorted(told) and told[-1] == (TINY.bytes, TINY.bytes)
    assert left_in(tmp_path / "models") == {PLACE, f"{PLACE}.json"}
    asked = len(hub.asked)
    assert models.fetch(TINY, tmp_path / "models") == path and len(hub.asked) == asked


def test_a_branch_stands_for_its_commit_and_its_files(hub: Hub, tmp_path: Path) -> None:
    commit, sizes = hub_source.resolve("owner/tiny", "main", tmp_path, lambda done, total: None)
    assert (commit, sizes) == (COMMIT, {name: len(data) for name, data in FOLDER.items()})


def test_another_content_than_registered_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.files["model.safetensors"] = b"x" * len(CONTENT)
    error = failed(tmp_path / "models")
    assert isinstance(error, HashMismatch) and not error.retry


def test_a_hub_that_no_one_answers_for_is_told_quickly_and_worth_a_retry(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        error = failed(tmp_path / "models")
    assert isinstance(error, FetchFailed) and error.retry
    assert "owner/tiny at" in str(error) and "refused" in str(error)


@pytest.mark.parametrize(
    ("status", "code", "words", "retry"),
    [
        (404, "RepoNotFound", "no such repository", False),
        (404, "RevisionNotFound", "no such revision", False),
        (403, "GatedRepo", "accepted licence", False),
        (401, "", "HF_TOKEN on this machine", False),
        (429, "", "status 429", True),
        (500, "", "owner/tiny", True),
    ],
)
def test_what_the_hub_answers_is_told_with_whether_to_try_again(
    hub: Hub, tmp_path: Path, status: int, code: str, words: str, retry: bool
) -> None:
    hub.status, hub.error_code = status, code
    error = failed(tmp_path / "models")
    assert words in str(error) and error.retry is retry


def test_a_file_that_is_gone_from_the_hub_is_named(hub: Hub, tmp_path: Path) -> None:
    del hub.files["tokenizer.json"]
    error = failed(tmp_path / "models")
    assert isinstance(error, SourceRefused) and "tokenizer.json" in str(error)


def test_offline_the_hub_is_not_asked(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    error = failed(tmp_path / "models")
    assert isinstance(error, SourceRefused) and "HF_HUB_OFFLINE" in str(error)
    assert hub.asked == []


def test_a_stop_ends_the_download_in_mid_file_and_leaves_nothing(hub: Hub, tmp_path: Path) -> None:
    hub.silent_after = 5000
    stop = threading.Event()

    def stop_in_the_middle(done: int, total: int) -> None:
        if any("model.safetensors" in path and path.startswith("GET") for path in hub.asked):
            stop.set()

    with pytest.raises(FetchStopped):
        models.fetch(TINY, tmp_path / "models", stop_in_the_middle, stop=stop)
    assert left_in(tmp_path / "models") == set()


def test_a_hub_that_falls_silent_is_given_up(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "STALL_S", 3.0)
    hub.silent_after = 0
    error = failed(tmp_path / "models")
    assert isinstance(error, FetchFailed) and "gave nothing for 3 s" in str(error)


def test_far_more_than_was_registered_is_not_taken(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "SLACK_BYTES", 0)
    # The client writes 10 MiB at a time: less than that would never be seen on the disk.
    hub.files["model.safetensors"], hub.silent_after = bytes(25_000_000), 22_000_000
    error = failed(tmp_path / "models")
    assert isinstance(error, SourceRefused) and "expected were" in str(error)


def test_several_waiting_for_one_model_fetch_it_once(hub: Hub, tmp_path: Path) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(models.fetch(TINY, tmp_path / "models"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [tmp_path / "models" / PLACE] * 3
    assert sum(path.startswith("GET") and "model.safetensors" in path for path in hub.asked) == 1


def test_a_disk_without_room_is_told_before_anything_is_asked(hub: Hub, tmp_path: Path) -> None:
    large = [file.model_copy(update={"bytes": 2**46}) for file in TINY.files]
    with pytest.raises(DiskFull):
        models.fetch(TINY.model_copy(update={"files": tuple(large)}), tmp_path / "models")
    assert hub.asked == []


def test_a_second_fetcher_can_be_stopped_while_it_waits_for_the_first(hub: Hub, tmp_path: Path) -> None:
    hub.silent_after = 5000
    first, second = threading.Event(), threading.Event()

    def run_first() -> None:
        with pytest.raises(FetchStopped):
            models.fetch(TINY, tmp_path / "models", stop=first)

    thread = threading.Thread(target=run_first)
    thread.start()
    deadline = time.monotonic() + 30
    while not hub.asked and time.monotonic() < deadline:
        time.sleep(0.05)
    with pytest.raises(FetchStopped):
        models.fetch(TINY, tmp_path / "models", lambda done, total: second.set(), stop=second)
    first.set()
    thread.join(30)
    assert not thread.is_alive() and left_in(tmp_path / "models") == set()
