"""Pages name the engine of a result wherever it is not the built-in one."""

from __future__ import annotations

import pytest
from control_plane import ready_node, submit
from django.test import Client

from experiments.engine_names import engine_label, on_engine
from experiments.models import Experiment
from hardware.messages import OfferedEngine
from labsite.accounts.models import Project, User

pytestmark = pytest.mark.django_db

LLAMA = OfferedEngine(kind="managed", name="llamacpp", version="b1", settings=["max_num_seqs"])
GONE = OfferedEngine(kind="managed", name="vllm", problem="the node has no command vllm")


@pytest.fixture
def experiment(project: Project, researcher: User) -> Experiment:
    node = ready_node("bench")
    node.engines = [LLAMA.model_dump(), GONE.model_dump()]
    node.save()
    return submit(project, researcher, engine={"kind": "managed", "name": "llamacpp"}, matrix={}, repeats=1)


def test_the_built_in_engine_goes_without_saying_and_others_do_not() -> None:
    assert engine_label({"kind": "builtin", "name": "llamacpp"}) == ""
    assert engine_label({"weights": "bf16"}) == ""
    assert on_engine("m", {"kind": "external", "name": "office"}) == "m on office (external)"


def test_an_experiment_a_run_and_a_comparison_say_which_engine_it_is(browser: Client, experiment: Experiment) -> None:
    trial, run = experiment.trials.get(), experiment.runs.get()
    for address in (f"/experiments/{experiment.pk}", f"/runs/{run.pk}", f"/compare?trials={trial.pk}"):
        page = browser.get(address, follow=True)
        assert page.status_code == 200 and "llamacpp (managed)" in page.content.decode(), address


def test_a_nodes_page_lists_its_engines_and_what_is_wrong_with_them(browser: Client, experiment: Experiment) -> None:
    page = browser.get("/nodes/bench", follow=True).content.decode()
    assert "Engines" in page and "llamacpp" in page and "b1" in page
    assert "the node has no command vllm" in page
