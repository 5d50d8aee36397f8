"""A node's noise from its stored runs: what counts, where it is kept, and where it is shown and used."""

from __future__ import annotations

import numpy as np
import pytest
from api_client import Caller, member
from control_plane import chip, ready_node
from ended_runs import ended, measured

from experiments.models import Experiment, NoiseHistory, Run
from experiments.node_noise import measure_history, noise_of
from experiments.services.follow_up import keep_results
from experiments.services.noise import refresh_noise
from hardware.models import Node
from labsite.accounts.models import Project, Role

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_url")]
METRIC = "output_throughput"


@pytest.fixture
def node() -> Node:
    return ready_node("bench")


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project, Role.VIEWER)


def refresh(experiment: Experiment) -> None:
    refresh_noise(experiment.runs.latest("ended_at").pk)


def test_a_nodes_noise_rests_on_its_valid_runs_of_equal_settings(project: Project, node: Node) -> None:
    made = [ended(project, node, [[90.0, 110.0]], day=day) for day in range(4)]
    ended(project, ready_node("other"), [[1.0, 100.0]], day=5)
    ended(project, node, [[50.0]], day=6, engine={"max_num_seqs": 3})
    bad = ended(project, node, [[1.0, 500.0]], day=7)
    Run.objects.filter(experiment=bad).update(valid=False)
    noise = measure_history(node.pk)[METRIC]
    assert (noise.runs, noise.settings, noise.experiments, noise.within_freedom) == (8, 1, 4, 4)
    assert noise.within == pytest.approx(0.02**0.5)
    assert noise.between == 0
    assert (noise.oldest[:10], noise.newest[:10]) == ("2026-01-01", "2026-01-04")
    began = made[3].runs.earliest("started_at").started_at
    assert measure_history(node.pk, before=began)[METRIC].runs == 6


def test_runs_of_other_code_are_no_repeats(project: Project, node: Node) -> None:
    one = ended(project, node, [[100.0]])
    other = ended(project, node, [[50.0]], day=1)
    assert measure_history(node.pk)[METRIC].runs == 2
    run = other.runs.get()
    Run.objects.filter(pk=run.pk).update(spec={**run.spec, "code_revision": "another"})
    assert measure_history(node.pk) == {}
    assert one.runs.get().spec["code_revision"] != "another"


def test_it_is_kept_with_a_runs_results_and_computed_again_to_the_same(
    project: Project, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ended(project, node, [[90.0, 110.0]])
    run = made.runs.latest("ended_at")
    # the figures of these runs are set: there are no records to compute them of
    monkeypatch.setattr("experiments.services.follow_up.store_results", lambda run: None)
    for _ in range(2):
        keep_results(run.pk)
        assert NoiseHistory.objects.get().node_id == node.pk
        assert noise_of([node.pk]) == {node.pk: measure_history(node.pk)}


def test_a_modelled_node_has_no_noise(project: Project) -> None:
    modelled = ready_node("modelled", kind="modelled", chip_id=chip().chip_id)
    asked = {"nodes": {"labels": {"kind": "modelled"}}, "chip": "test-chip"}
    refresh(ended(project, modelled, [[90.0, 110.0]], **asked))
    assert not NoiseHistory.objects.exists()


def test_the_api_and_the_nodes_page_show_it(browser, caller: Caller, project: Project, node: Node) -> None:
    assert caller.get("/nodes/bench").json()["noise"] == {}
    refresh(ended(project, node, [[90.0, 110.0]]))
    found = caller.get("/nodes/bench").json()["noise"]
    assert set(found) == {METRIC}
    assert found[METRIC]["within"] == pytest.approx(0.02**0.5)
    assert (found[METRIC]["runs"], found[METRIC]["between"], found[METRIC]["newest"][:4]) == (2, None, "2026")
    page = browser.get("/nodes/bench/").content.decode()
    assert 'id="noise"' in page and "14.1 %" in page


def test_trials_without_repeats_are_compared_beside_it(caller: Caller, project: Project, node: Node) -> None:
    refresh(ended(project, node, [[99.0, 101.0, 100.0]]))
    lone = ended(project, node, [[100.0], [120.0]], day=1)
    (row,) = caller.get(f"/compare?experiment={lone.pk}").json()["differences"]
    assert row["noise_floor"] == pytest.approx(noise_of([node.pk])[node.pk][METRIC].floor(1, across=False))
    assert "3 runs of 1 setting in 1 experiment," in row["noise_source"]
    assert row["is_difference"] is False


def test_a_noisy_past_holds_a_verdict_back_but_the_checked_runs_do_not_raise_their_own_bar(
    caller: Caller, project: Project, node: Node
) -> None:
    rng = np.random.default_rng(1)
    for day in range(4):
        ended(project, node, [measured(rng, 100 * (1 + 0.2 * (-1) ** day), 3, spread=0.001)], day=day)
    after = ended(project, node, [measured(rng, 85, 3, spread=0.001)], day=8)
    (finding,) = caller.get(f"/experiments/{after.pk}/check?baseline=last:3").json()["findings"]
    assert finding["noise_floor"] > 0.3
    assert finding["outcome"] == "inconclusive"


def test_a_quiet_past_lets_a_planted_regression_be_seen(caller: Caller, project: Project, node: Node) -> None:
    rng = np.random.default_rng(1)
    for day in range(4):
        ended(project, node, [measured(rng, 100, 4)], day=day)
    after = ended(project, node, [measured(rng, 90, 4)], day=8)
    refresh(after)
    (finding,) = caller.get(f"/experiments/{after.pk}/check?baseline=last:8").json()["findings"]
    assert (finding["outcome"], finding["n_before"]) == ("regressed", 8)
    assert finding["noise_floor"] < 0.05
