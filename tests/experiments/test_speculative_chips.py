"""Chips of modelled nodes at submission: what is not disclosed, formats without units, systems of unlike chips."""

from __future__ import annotations

from typing import Any

import pytest
from control_plane import person, ready_node, submit, team
from django.test import Client
from modelled_node import finish_run, modelled_node, text_of

from experiments.models import Experiment, Run
from experiments.services import place_runs
from runners.document import SpecError
from runners.spec import RunSpec

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


def refused(**changes: Any) -> dict[str, tuple[str, Any]]:
    with pytest.raises(SpecError) as caught:
        submit(team(), **changes)
    assert not Experiment.objects.exists()
    return {error.field: (error.message, error.allowed) for error in caught.value.errors}


@pytest.mark.parametrize("asked", [{"chip": "jalapeno"}, {"nodes": {"labels": {"kind": "modelled"}}}])
def test_an_undisclosed_chip_is_refused_until_speculation_is_allowed(asked: dict[str, Any]) -> None:
    modelled_node(chip_id="jalapeno")
    errors = refused(**asked)
    assert set(errors) == {"allow_speculative"}
    message, allowed = errors["allow_speculative"]
    assert "jalapeno: its vendor has not disclosed memory.capacity_bytes" in message
    assert "allow_speculative: true" in allowed
    experiment = submit(team(), allow_speculative=True, **asked)
    assert RunSpec.model_validate(experiment.runs.get().spec).allow_speculative
    place_runs()
    assert Run.objects.get().state == "assigned"


def test_a_speculative_chip_takes_no_run_that_another_modelled_node_can_take() -> None:
    modelled_node("a", "jalapeno")
    ready_node("b", kind="modelled", chip_id="h100-sxm")
    run = submit(team(), nodes={"labels": {"kind": "modelled"}}).runs.get()
    place_runs()
    assert run.attempts.get().node.slug == "b"


def test_a_chip_without_units_for_the_weights_is_refused_by_the_weights() -> None:
    modelled_node(chip_id="groq3-lpx")
    errors = refused(chip="groq3-lpx")
    assert set(errors) == {"engine.weights"}
    message, allowed = errors["engine.weights"]
    assert message == "groq3-lpx: dense_tflops has no units for bf16 weights, only fp8" and "bf16" in allowed
    errors = refused(chip="groq3-lpx", matrix={"engine.weights": ["bf16", "int8"]})
    assert set(errors) == {"matrix.engine.weights"}
    assert submit(team(), chip="groq3-lpx", engine={"weights": "int8"}).runs.count() == 1


@pytest.mark.parametrize("allow", [False, True])
def test_a_system_of_unlike_chips_is_refused_by_its_parts(allow: bool) -> None:
    modelled_node(chip_id="composite-rubin-lpx")
    errors = refused(chip="composite-rubin-lpx", allow_speculative=allow)
    if allow:
        assert "1 x vr-nvl72, 1 x groq3-lpx" in errors["chip"][0]
    else:
        assert set(errors) <= {"chip", "allow_speculative"} and errors


def test_a_run_on_another_chip_than_the_h100_ends_with_its_results(redis_url: str) -> None:
    modelled_node(chip_id="wse3")
    run = finish_run(submit(team(), chip="wse3").runs.get(), redis_url)
    assert run.state == "succeeded" and run.summary


def test_a_run_on_stand_ins_says_so_with_its_band_and_is_not_valid(redis_url: str) -> None:
    modelled_node(chip_id="jalapeno")
    project = team()
    run = finish_run(submit(project, chip="jalapeno", allow_speculative=True).runs.get(), redis_url)
    assert run.state == "succeeded" and run.valid is False and "speculative_chip" in str(run.reasons)
    client = Client()
    client.force_login(person(project))
    page = text_of(client.get(f"/runs/{run.pk}/"))
    assert '<span class="tag speculative">speculative</span>' in page
    assert "dense_tflops.bf16" in page and "The truth may be 0.500 to 2.00 times each" in page
