"""What a queued run is said to wait for."""

from __future__ import annotations

import pytest
from control_plane import ready_node, submit, team

from experiments.models import Run
from experiments.services import place_runs
from experiments.waiting import explain_waiting
from hardware.models import Node

pytestmark = pytest.mark.django_db


def why(state: str) -> str:
    ready_node("rack1")
    run = submit(team()).runs.select_related("experiment").get()
    Node.objects.update(state=state)
    return explain_waiting([run])[run.pk]


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("online", "waiting for its turn: rack1 is free"),
        ("busy", "waiting for its turn: rack1 is busy"),
        ("registered", "no node that matches is up: rack1 has not joined yet"),
        ("lost", "no node that matches is up: rack1 is lost"),
        ("draining", "no node that matches is up: rack1 is draining"),
        ("retired", "no node that matches is registered any more"),
    ],
)
def test_the_sentence_names_the_node_and_what_keeps_it(state: str, sentence: str) -> None:
    assert why(state) == sentence


def test_a_node_with_a_fault_is_given_nothing_and_the_run_says_why() -> None:
    ready_node("rack1")
    Node.objects.update(fault="its disk is full")
    run = submit(team()).runs.select_related("experiment").get()
    assert place_runs() == 0
    assert explain_waiting([run])[run.pk] == "no node that matches is up: rack1 can take no run (its disk is full)"


def test_only_queued_runs_wait() -> None:
    ready_node("rack1")
    run = submit(team()).runs.select_related("experiment").get()
    Run.objects.update(state="running")
    run.refresh_from_db()
    assert explain_waiting([run]) == {}
