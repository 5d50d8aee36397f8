"""`inference-lab ladder` against a real web server."""

from __future__ import annotations

from typing import Any

import pytest
from api_client import member
from cli_terminal import Terminal
from control_plane import ready_node, submit, team
from ended_runs import BEGIN, end_run

from labsite.accounts.models import Role

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_shows_each_steps_gain_with_its_interval_and_the_total(
    live_server: Any, redis_url: str, terminal: Terminal
) -> None:
    project = team()
    node = ready_node("bench")
    terminal.env = {"LAB_URL": live_server.url, "LAB_TOKEN": str(member(project, Role.VIEWER).token)}
    steps = [{"label": "8-bit weights", "set": {"engine.weights": "int8"}}]
    ladder = submit(project, design={"kind": "ladder", "steps": steps}, matrix={}, repeats=3)
    for run in ladder.runs.select_related("trial"):
        end_run(run, node, 100.0 + 50 * run.trial.index + run.repeat, "output_throughput", BEGIN)
    said = terminal.good("ladder", ladder.pk)
    for part in ("baseline", "8-bit weights", "+49.5%", "better", "all together"):
        assert part in said.out, part
    found = terminal.good("ladder", ladder.pk, "--json").json
    assert found["ladders"][0]["rungs"][1]["gain"]["difference"] == pytest.approx(50)
    plain = submit(project)
    refused = terminal.run("ladder", plain.pk)
    assert refused.status == 3 and "no ladder" in refused.err
    assert "speed" in terminal.run("ladder", ladder.pk, "--metric", "speed").err
