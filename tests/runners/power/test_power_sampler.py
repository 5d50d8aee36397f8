"""The sampler beside a run: what it keeps, where a counter's reading stands, and what it says of the window."""

from __future__ import annotations

import threading

import pytest

from runners.power import PowerSampler
from runners.power.meter import Source


class Scripted:
    """A meter that answers from a list, then None."""

    covers = "a test"

    def __init__(self, source: Source, *watts: float | None) -> None:
        self.source: Source = source
        self._watts = list(watts)
        self.asked = threading.Semaphore(0)

    def read(self) -> float | None:
        self.asked.release()
        return self._watts.pop(0) if self._watts else None


class Clock:
    s = 0.0

    def __call__(self) -> float:
        return self.s


def sampled(meter: Scripted, clock: Clock, *times: float) -> PowerSampler:
    sampler = PowerSampler(meter, now=clock)
    for clock.s in times:
        sampler.take()
    return sampler


def test_a_counters_reading_stands_in_the_middle_of_its_time() -> None:
    sampler = sampled(Scripted("rapl", None, 10.0, 30.0), Clock(), 0.0, 2.0, 4.0)
    # 10 W at 1 s, 30 W at 3 s
    told = sampler.facts(1.0, 3.0)
    assert told["energy_j"] == pytest.approx(40) and told["source"] == "rapl" and told["covers"] == "a test"
    assert sampler.mean(0.0, 2.0) == 10 and sampler.mean(5.0, 6.0) is None


def test_a_reading_of_the_moment_stands_where_it_was_taken() -> None:
    sampler = sampled(Scripted("amdsmi", 10.0, 30.0), Clock(), 0.0, 2.0)
    assert sampler.facts(0.0, 2.0)["energy_j"] == pytest.approx(40)


def test_a_meter_that_is_silent_for_a_while_leaves_a_gap() -> None:
    sampler = sampled(Scripted("amdsmi", 10.0, None, None, 10.0), Clock(), 0.0, 2.0, 4.0, 6.0)
    told = sampler.facts(0.0, 6.0)
    assert (told["largest_gap_s"], told["energy_j"]) == (6.0, pytest.approx(60))


def test_without_a_window_or_a_sample_there_is_no_energy() -> None:
    assert sampled(Scripted("amdsmi", 10.0), Clock(), 0.0).facts(None, None)["energy_j"] is None
    assert sampled(Scripted("amdsmi"), Clock(), 0.0).facts(0.0, 1.0)["energy_j"] is None


def test_the_thread_reads_until_it_is_stopped_and_once_more() -> None:
    meter = Scripted("amdsmi", *[5.0] * 100_000)
    sampler = PowerSampler(meter, interval_s=0.001)
    sampler.start()
    for _ in range(3):
        assert meter.asked.acquire(timeout=20)
    sampler.stop()
    before = sampler.facts(None, None)["samples"]
    assert before >= 3
    sampler.stop()
    assert sampler.facts(None, None)["samples"] == before
