"""Events of several engines and of the client, told in one order."""

from __future__ import annotations

from runners.events import AnyEvent, Log, Step
from runners.load.system import Ended
from runners.load.timeline import Timeline


def step(name: str, end_s: float) -> Step:
    return Step(
        index=0, start_s=end_s - 1.0, duration_s=1.0, prefill_tokens=0, decode_tokens=1, running=1, waiting=0,
        kv_used_blocks=1, kv_cached_blocks=0, kv_free_blocks=0, kv_used_slots=1, engine=name,
    )  # fmt: skip


def note(text: str) -> Log:
    return Log(wall_s=0.0, level="info", source="test", message=text)


def steps_of(engine: int, *ends_s: float) -> Ended:
    return Ended(engine, [step(f"e{engine}", end_s) for end_s in ends_s], ends_s, {})


def texts(events: list[AnyEvent]) -> list[str]:
    return [f"{event.engine}@{event.start_s + 1.0:g}" if isinstance(event, Step) else event.message  # type: ignore[union-attr]
            for event in events]  # fmt: skip


def test_events_come_in_the_order_of_time_then_of_engines_then_of_the_client() -> None:
    told: list[AnyEvent] = []
    timeline = Timeline(told.extend, 2)
    timeline.add(2.0, note("client"))
    timeline.add_steps(steps_of(1, 1.0, 2.0, 3.0))
    timeline.add(2.0, note("of engine 1"), 1)
    timeline.add_steps(steps_of(0, 2.0))
    assert told == []
    timeline.tell(note("then"))
    assert texts(told) == ["e1@1", "e0@2", "e1@2", "of engine 1", "client", "e1@3", "then"]


def test_steps_of_several_engines_are_numbered_as_they_are_told() -> None:
    told: list[AnyEvent] = []
    timeline = Timeline(told.extend, 2)
    for engine, end_s in ((1, 2.0), (0, 1.0)):
        timeline.add_steps(steps_of(engine, end_s))
    timeline.tell()
    timeline.add_steps(steps_of(0, 3.0))
    timeline.tell()
    assert [event.index for event in told if isinstance(event, Step)] == [1, 2, 3]
    assert timeline.take_steps() == told and timeline.take_steps() == []


def test_nothing_is_told_where_nothing_happened() -> None:
    calls: list[object] = []
    Timeline(calls.append, 1).tell()
    assert calls == []
