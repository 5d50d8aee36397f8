"""Systems of modelled chips from submission to claim: how many chips they take, what is impossible, what is frozen."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from control_plane import live_attempt, ready_node, submit, team
from modelled_node import finish_run

from experiments.models import Experiment, Run
from experiments.services import claim, place_runs
from hardware.models import Chip, Node
from hardware.services import edit_chip, load_catalog
from labsite.accounts.models import User
from runners.document import SpecError
from runners.spec import RunSpec

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]
MODELLED = {"labels": {"kind": "modelled"}}
LOAD = {
    "kind": "synthetic",
    "input_len": {"dist": "fixed", "tokens": 512},
    "output_len": {"dist": "fixed", "tokens": 32},
    "arrival": {"kind": "closed", "max_concurrency": 4},
    "num_requests": 32,
}
PREFILL_DECODE = {
    "kind": "prefill_decode",
    "prefill": {"chip": "trainium3", "count": 8, "tensor_parallel": 4},
    "decode": {"chip": "h100-sxm", "count": 2},
}


def lab_node(name: str = "lab", **fields: Any) -> Node:
    load_catalog()
    pools = [{"chip": "any", "count": 64}]
    return ready_node(name, **{"kind": "modelled", "chip_id": "h100-sxm", "pools": pools, **fields})


def system(**disaggregate: Any) -> dict[str, Any]:
    return {"model": "llama-3-8b", "placement": {"disaggregate": {**PREFILL_DECODE, **disaggregate}}}


def refused(**changes: Any) -> dict[str, tuple[str, Any]]:
    with pytest.raises(SpecError) as caught:
        submit(team(), **changes)
    assert not Experiment.objects.exists()
    return {error.field: (error.message, error.allowed) for error in caught.value.errors}


def claimed(run: Run) -> RunSpec:
    place_runs()
    attempt = live_attempt(run)
    return claim(attempt.node, run.pk, attempt.number)


# What is taken


def test_chips_are_counted_when_it_is_submitted() -> None:
    lab_node()
    experiment = submit(team(), **system())
    assert RunSpec.model_validate(experiment.runs.get().spec).chip_counts == {"trainium3": 8, "h100-sxm": 2}


def test_auto_counts_the_fewest_chips_that_hold_the_model() -> None:
    lab_node()
    axis = {"engine.weights": ["bf16", "nvfp4"]}
    experiment = submit(team(), model="llama-3-70b", chip="h100-sxm", matrix=axis, placement={"replicas": 3})
    counts = [run.spec["chip_counts"] for run in experiment.runs.order_by("trial__index")]
    assert counts == [{"h100-sxm": 6}, {"h100-sxm": 3}]


def test_where_any_chip_will_do_each_nodes_own_is_counted_and_those_that_can_not_take_nothing() -> None:
    lab_node("small", chip_id="groq3-lpu", pools=[])
    lab_node("large", chip_id="b200-sxm", pools=[])
    run = submit(team(), model="llama-3-70b", nodes=MODELLED).runs.get()
    assert set(run.spec["chip_counts"]) == {"b200-sxm"}
    assert claimed(run).chips.keys() == {"b200-sxm"}


def test_a_run_goes_to_the_node_that_offers_enough_chips() -> None:
    lab_node("few", pools=[{"chip": "h100-sxm", "count": 4}])
    lab_node("many", pools=[{"chip": "h100-sxm", "count": 8}])
    run = submit(team(), model="llama-3-8b", chip="h100-sxm", placement={"replicas": 8}).runs.get()
    place_runs()
    assert live_attempt(run).node.slug == "many"


def test_the_claim_freezes_all_chips_and_links_of_the_system() -> None:
    link = {"between": ["trainium3", "h100-sxm"], "bytes_per_s": 25e9, "latency_s": 1e-5}
    other = {"between": ["wse3", "h100-sxm"], "bytes_per_s": 1e9, "latency_s": 0.0}
    lab_node(links=[link, other], usd_per_hour=3.0)
    run = submit(team(), **system()).runs.get()
    spec = claimed(run)
    assert spec.chips.keys() == {"trainium3", "h100-sxm"} and spec.chips["trainium3"]["chip_id"] == "trainium3"
    assert spec.chip == spec.chips["h100-sxm"] and spec.usd_per_hour == 3.0
    assert [one.model_dump(mode="json") for one in spec.links] == [link]
    assert live_attempt(run).chip == Chip.objects.get(chip_id="h100-sxm", current=True)


def test_any_chip_is_frozen_under_the_nodes_own_id() -> None:
    lab_node()
    spec = claimed(submit(team(), nodes=MODELLED).runs.get())
    assert (spec.chip_id, set(spec.chips)) == ("any", {"h100-sxm"})


def test_a_pool_follows_the_current_version_of_its_chip_at_the_claim() -> None:
    lab_node()
    run = submit(team(), **system()).runs.get()
    chip = Chip.objects.get(chip_id="trainium3", current=True)
    sources = [{"field": "*", "source": "tried", "confidence": "low"}]
    edit_chip(chip, {**chip.record, "notes": "measured again", "sources": sources}, by=User.objects.create_user("root"))
    assert claimed(run).chips["trainium3"]["notes"] == "measured again"


def test_runs_of_one_repeat_with_other_pools_may_be_on_another_node() -> None:
    lab_node("a", pools=[{"chip": "trainium3", "count": 8}])
    lab_node("b", pools=[{"chip": "trainium2", "count": 8}])
    axis = {"placement.disaggregate.prefill.chip": ["trainium3", "trainium2"]}
    experiment = submit(team(), **system(), matrix=axis)
    assert place_runs() == 2
    nodes = {run.trial.settings["placement.disaggregate.prefill.chip"]: live_attempt(run).node.slug
             for run in experiment.runs.select_related("trial")}  # fmt: skip
    assert nodes == {"trainium3": "a", "trainium2": "b"}


# What is refused


def test_an_unknown_chip_of_a_pool_is_told_at_the_pool() -> None:
    lab_node()
    message, allowed = refused(**system(decode={"chip": "h100-smx"}))["placement.disaggregate.decode.chip"]
    assert "no chip 'h100-smx'" in message and "h100-sxm" in allowed


def test_a_chip_of_an_axis_is_told_at_the_axis() -> None:
    lab_node()
    axis = {"placement.disaggregate.decode.chip": ["h100-sxm", "h100-smx"]}
    assert "matrix.placement.disaggregate.decode.chip" in refused(**system(), matrix=axis)


def test_chips_that_no_node_offers_are_told() -> None:
    lab_node(pools=[{"chip": "trainium2", "count": 64}])
    message, allowed = refused(**system())["nodes"]
    assert "chip: trainium3 and h100-sxm" in message
    assert allowed["chip"] == ["h100-sxm", "trainium2"]


@pytest.mark.parametrize("nodes", [{"names": ["real"]}, {"labels": {"kind": "measured"}}])
def test_a_measured_node_that_is_asked_for_says_that_it_takes_no_system(nodes: dict[str, Any]) -> None:
    lab_node()
    ready_node("real")
    assert set(refused(**system(), nodes=nodes)) == {"placement.disaggregate.kind"}


def test_more_chips_than_the_node_offers_are_told_with_how_many_it_does() -> None:
    lab_node(pools=[{"chip": "trainium3", "count": 4}])
    message, allowed = refused(**system())["placement.disaggregate.prefill.count"]
    assert "8 x trainium3" in message and "4" in allowed


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model": "llama-3-8b", "placement": {"tensor_parallel": 3}}, "placement.tensor_parallel"),
        ({"model": "llama-3-8b", "placement": {"pipeline_parallel": 64}}, "placement.pipeline_parallel"),
        ({"model": "llama-3-8b", "placement": {"expert_parallel": 4}}, "placement.expert_parallel"),
        ({"model": "llama-3-8b", "placement": {"tensor_parallel": 16}}, "placement.tensor_parallel"),
        ({"model": "llama-3-70b", "placement": {"tensor_parallel": 1}}, "model"),
        (
            system(prefill={"chip": "trainium3", "count": 6, "tensor_parallel": 4}),
            "placement.disaggregate.prefill.count",
        ),
        (system(decode={"chip": "groq3-lpx"}), "engine.weights"),
    ],
)
def test_an_impossible_system_is_refused_by_the_figure_at_fault(changes: dict[str, Any], field: str) -> None:
    lab_node()
    found = refused(chip="h100-sxm", **changes)
    assert set(found) == {field}
    assert found[field][1]


def test_a_model_that_fits_no_chip_is_told_with_the_bytes() -> None:
    lab_node()
    message, allowed = refused(model="llama-3-70b", chip="h100-sxm", placement={"tensor_parallel": 1})["model"]
    assert "141,1" in message and "72,000,000,000 bytes" in allowed


def test_a_speculative_chip_of_a_pool_needs_leave() -> None:
    lab_node()
    message, _ = refused(**system(decode={"chip": "jalapeno"}))["allow_speculative"]
    assert message.startswith("jalapeno: its vendor has not disclosed")
    assert submit(team(), **system(decode={"chip": "jalapeno"}), allow_speculative=True).runs.count() == 1


def test_planning_at_submission_loads_no_torch() -> None:
    code = "import sys, experiments.topologies; sys.exit('torch' in sys.modules)"
    django = f"import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'labsite.settings'; django.setup(); {code}"
    assert subprocess.run([sys.executable, "-c", django], check=False).returncode == 0


# From the document to the figures


def test_a_system_of_two_pools_runs_and_its_figures_count_all_of_its_chips(redis_url: str) -> None:
    lab_node()
    run = finish_run(submit(team(), **system(), workload=LOAD).runs.get(), redis_url)
    assert (run.state, run.valid) == ("succeeded", True), run.reason
    metrics = {name: metric["value"] for name, metric in run.summary["metrics"].items()}
    assert metrics["output_throughput_per_chip"] == pytest.approx(metrics["output_throughput"] / 10)
    assert 0 < metrics["interconnect_tax"] < 1
    facts = run.final_attempt.report["facts"]
    assert facts["system"]["chips"] == 10 and set(facts["phases"]) == {"prefill", "decode"}
    assert facts["transfers"]["count"] == 32 + 4  # requests and those of the warm-up


def test_a_run_without_a_price_of_its_own_costs_what_the_catalog_says(redis_url: str) -> None:
    lab_node()
    experiment = submit(team(), model="llama-3-8b", chip="h100-sxm", placement={"replicas": 2}, workload=LOAD)
    run = finish_run(experiment.runs.get(), redis_url)
    facts, record = run.final_attempt.report["facts"], run.spec["chip"]
    assert run.spec["usd_per_hour"] is None and facts["usd_per_hour"] == pytest.approx(2 * record["usd_per_hour"])
    metrics = {name: metric["value"] for name, metric in run.summary["metrics"].items()}
    per_token = metrics["cost_per_million_output_tokens"] * 1e-6
    assert per_token == pytest.approx(facts["usd_per_hour"] / 3600 / metrics["output_throughput"])
    assert metrics["energy_per_output_token"] > 0
    assert metrics["mean_power"] == pytest.approx(metrics["energy_per_output_token"] * metrics["output_throughput"])


def test_a_run_that_an_earlier_version_has_queued_is_placed_and_claimed() -> None:
    lab_node()
    run = submit(team(), chip="h100-sxm").runs.get()
    plain = {"replicas": 1, "tensor_parallel": 1, "pipeline_parallel": 1, "disaggregate": "none"}
    earlier = {"engine": {"speculation": {"kind": "none"}}, "placement": {**plain, "router": {"policy": "round_robin"}}}
    added = ("chip_counts", "chips", "links", "draft")
    spec = {key: value for key, value in run.spec.items() if key not in added}
    spec["engine"] = {key: spec["engine"][key] for key in ("weights", "kv_cache", "max_num_seqs")} | earlier["engine"]
    Run.objects.filter(pk=run.pk).update(spec=spec | {"placement": earlier["placement"]})
    assert claimed(run).placement.is_plain
