"""What is planted in a measured run, on the real server and client, is what the run is said to be held up by."""

from __future__ import annotations

from pathlib import Path

import pytest
from measured_plants import far_away, judged, serving, slow_scheduler, tiny_spec

from experiments.analysis.bottleneck import Verdict


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    found = [tmp_path / name for name in ("server", "one", "two")]
    for folder in found:
        folder.mkdir()
    return found


def told(verdict: Verdict) -> str:
    return f"{verdict.why_not} {[(cause.kind, round(cause.score, 3), cause.says) for cause in verdict.causes]}"


async def test_a_slow_line_is_the_network_and_a_throttled_client_is_the_client(folders: list[Path]) -> None:
    spec = tiny_spec()
    async with serving(spec, folders[0]) as ready:
        async with far_away(ready, 0.15) as distant:
            network = await judged(spec, distant, folders[1])
        client = await judged(spec, ready, folders[2], throttled=True)
    assert network.kind == "network", told(network)
    assert client.kind == "client", told(client)


async def test_one_seat_for_many_users_is_the_queue(folders: list[Path]) -> None:
    spec = tiny_spec(seats=1)
    async with serving(spec, folders[0]) as ready:
        found = await judged(spec, ready, folders[1])
    assert "queue" in [cause.kind for cause in found.causes[:2]], told(found)
    assert found.kind in ("queue", "host_overhead"), told(found)


async def test_a_scheduler_that_thinks_long_is_overhead(folders: list[Path]) -> None:
    spec = tiny_spec()
    with slow_scheduler(folders[0]):
        async with serving(spec, folders[0]) as ready:
            found = await judged(spec, ready, folders[1])
    assert found.kind == "host_overhead", told(found)
