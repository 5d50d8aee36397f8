"""A full disk under a node's home: nothing is torn or lost, the run ends with the reason, and work goes on with room.

The disk is a small one of each test's own; where none can be mounted these tests are left out (see conftest).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_lab import Lab
from small_disk import fill, mounted

from hardware.models import Node
from runners.agent.home import NodeHome
from runners.agent.last_words import LastWords
from runners.agent.run_process import Ending
from runners.events import EVENT, Log, Report
from runners.spool import RESERVE, AttemptKey, SpoolFull, SpoolReader, SpoolWriter, keep_reserve

KEY = AttemptKey(1, 1)
ENDING = Ending("failed", "for a reason", retry=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    with mounted(place):
        yield place


def line(text: str) -> Log:
    return Log(wall_s=0.0, level="info", source="test", message=text)


def read(path: Path) -> list[str]:
    return [EVENT.validate_json(text).kind for text in SpoolReader(path).read(100_000, 1 << 30)]


def test_what_does_not_fit_leaves_no_part_and_the_report_takes_the_room_kept_for_it(disk: Path) -> None:
    assert keep_reserve(disk)
    writer = SpoolWriter(disk / "1-1.jsonl")
    writer.append([line("first")])
    fill(disk)
    with pytest.raises(SpoolFull, match="No space left") as caught:
        for _ in range(100):
            writer.append([line("x" * 8000)] * 10)
    assert not caught.value.retry
    whole = writer.events
    writer.close_with(Report(outcome="failed", error="full " * 20_000))
    assert read(disk / "1-1.jsonl") == ["log"] * whole + ["report"]
    assert not (disk / RESERVE).exists() and not keep_reserve(disk)


def test_without_any_room_the_last_word_waits_and_is_said_once_there_is_some(disk: Path) -> None:
    home = NodeHome(disk)
    words = LastWords(home)
    ballast = fill(disk)
    home.spool(KEY).touch()
    assert not words.say(KEY, ENDING)
    assert not words.say(KEY, Ending("failed", "another reason", retry=True))
    assert words.retry() == [] and list(words.unsaid) == [KEY]
    assert "too little room" in words.fault and "0 bytes are free" in words.fault
    ballast.unlink()
    words = until_said(words)
    (report,) = (EVENT.validate_json(text) for text in SpoolReader(home.spool(KEY)).read(10, 1 << 20))
    assert isinstance(report, Report) and report.error == "for a reason"


def until_said(words: LastWords) -> LastWords:
    words._again_s = words._reserve_s = 0.0
    assert words.retry() == [KEY] and not words.unsaid and words.fault == ""
    return words


def test_a_file_that_could_not_be_written_whole_leaves_no_draft(disk: Path) -> None:
    home = NodeHome(disk)
    fill(disk)
    before = sorted(path.name for path in disk.iterdir())
    with pytest.raises(OSError, match="No space left"):
        home.write_json("spool/1-1.spec.json", {"key": "x" * 100_000})
    assert sorted(path.name for path in disk.iterdir()) == before
    assert list(home.spool_dir.iterdir()) == []


def test_an_agent_outlives_a_full_disk_fails_the_run_with_the_reason_and_goes_on_with_room(
    lab: Lab, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "home_of", lambda name: disk / name)
    node, agent = lab.join("n1")
    lab.wait_for((disk / "n1" / "spool" / RESERVE).exists)
    ballast = fill(disk)
    run = lab.submit(node, retries=0)
    lab.wait(lambda: lab.state_of(run) == "failed")
    run.refresh_from_db()
    assert "No space left" in run.reason or "no room" in run.reason
    lab.wait(lambda: Node.objects.get(pk=node.pk).fault)
    later = lab.submit(node)
    ballast.unlink()
    lab.wait(lambda: lab.state_of(later) == "succeeded")
    assert Node.objects.get(pk=node.pk).fault == ""
    assert agent.popen.poll() is None and "Traceback" not in agent.said()
