"""`inference-lab show` of an experiment that plans its own next runs, against a real web server."""

from __future__ import annotations

from typing import Any

import pytest
from api_client import member
from cli_terminal import Terminal
from control_plane import ready_node, submit, team
from modelled_node import modelled_node
from searching import end, open_runs, search_through, submit_search

from experiments.services.follow_up import settle_experiment
from labsite.accounts.models import Role

pytestmark = pytest.mark.django_db(transaction=True)
SEQS = "engine.max_num_seqs"


def test_it_shows_what_each_kind_of_search_found(live_server: Any, redis_url: str, terminal: Terminal) -> None:
    project, node = team(), ready_node("bench")
    terminal.env = {"LAB_URL": live_server.url, "LAB_TOKEN": str(member(project, Role.VIEWER).token)}
    bracketed, floored = submit_search(project), submit_search(project)
    search_through(bracketed, node, limit=5)
    search_through(floored, node, limit=99)
    said = terminal.good("show", bracketed.pk).out
    for part in ("Highest load under the objective", "2 of 2", "0 of 2", "an upper bound was measured at 6"):
        assert part in said, part
    assert "at least 16" in terminal.good("show", floored.pk).out

    space = {SEQS: [1, 2, 4]}
    best = submit_search(project, search={"optimize": "output_throughput", "space": space, "confirm": 2})
    front = submit_search(project, search={"pareto": {"metrics": ["output_throughput", "ttft"], "space": space}})
    until = {"until": {"metric": "output_throughput", "interval": 0.5, "max": 3, "min": 2}}
    repeated = submit(project, repeats=until)
    for experiment in (best, front, repeated):
        while runs := open_runs(experiment):
            seqs = float(runs[0].trial.settings.get(SEQS, 1))
            end(runs[0], node, value=10 * seqs + runs[0].repeat / 10, ttft=seqs)
            settle_experiment(experiment.pk)
    for experiment, part in ((best, "runner-up"), (front, "Front: as written"), (repeated, "Half-width")):
        assert part in terminal.good("show", experiment.pk).out, part
    # that of the front is known by its settings, as in the table of runs
    assert "max_num_seqs 4" in terminal.good("show", front.pk).out.partition("Front: as written")[2]


def test_what_a_search_found_on_a_cost_model_says_so(live_server: Any, redis_url: str, terminal: Terminal) -> None:
    project = team()
    terminal.env = {"LAB_URL": live_server.url, "LAB_TOKEN": str(member(project, Role.VIEWER).token)}
    for node, modelled in ((ready_node("bench"), False), (modelled_node(), True)):
        experiment = submit_search(project)
        search_through(experiment, node, limit=5)
        said = terminal.good("show", experiment.pk).out
        assert ("modelled: the levels" in said) == modelled
