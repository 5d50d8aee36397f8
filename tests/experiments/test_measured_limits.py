"""What a measured node does not take is refused at submission by the field that asks for it."""

from __future__ import annotations

from typing import Any

import pytest
from control_plane import document, ready_node, submit, team

from experiments.measured_limits import measured_limits
from experiments.models import Experiment
from runners.document import SpecError, validate_document

POOLS = {"prefill": {"chip": "a"}, "decode": {"chip": "b"}}
TIER = {"capacity_bytes": 1e9, "bytes_per_s": 1e9}
ASKED: list[tuple[dict[str, Any], str]] = [
    ({"engine": {"profile": "vllm"}}, "engine.profile"),
    ({"engine": {"weights": "fp8"}}, "engine.weights"),
    ({"engine": {"kv_cache": "fp8"}}, "engine.kv_cache"),
    ({"engine": {"speculation": {"kind": "ngram", "acceptance": 0.5}}}, "engine.speculation.kind"),
    ({"engine": {"prefix_tiers": {"host": TIER}}}, "engine.prefix_tiers.host"),
    ({"engine": {"prefix_tiers": {"remote": TIER}}}, "engine.prefix_tiers.remote"),
    ({"placement": {"replicas": 2}}, "placement.replicas"),
    ({"placement": {"tensor_parallel": 2}}, "placement.tensor_parallel"),
    ({"placement": {"data_parallel": 2}}, "placement.data_parallel"),
    ({"placement": {"pipeline_parallel": 2}}, "placement.pipeline_parallel"),
    ({"placement": {"expert_parallel": 2}}, "placement.expert_parallel"),
    ({"placement": {"link": {"bytes_per_s": 1e9}}}, "placement.link"),
    ({"placement": {"router": {"policy": "kv_aware"}}}, "placement.router.policy"),
    ({"placement": {"disaggregate": {"kind": "prefill_decode", **POOLS}}}, "placement.disaggregate.kind"),
]


@pytest.mark.parametrize(("changes", "field"), ASKED)
def test_each_setting_of_modelled_nodes_is_told_by_its_field(changes: dict[str, Any], field: str) -> None:
    (fault,) = measured_limits(validate_document(document(**changes)))
    assert fault.field == field
    assert "modelled ones take it" in fault.message and fault.allowed


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"engine": {"weights": "int8", "speculation": {"kind": "none", "acceptance": 0.5}}},
        {"placement": {"tensor_parallel": 1, "disaggregate": {"kind": "none", **POOLS}}},
        {"workload": document()["workload"] | {"shared_prefix": {"groups": 2, "prefix_tokens": 8}}},
    ],
)
def test_what_asks_for_nothing_more_is_taken(changes: dict[str, Any]) -> None:
    assert not list(measured_limits(validate_document(document(**changes))))


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_url")
def test_a_document_for_measured_nodes_is_refused_with_every_such_field_and_the_axes_among_them() -> None:
    ready_node()
    with pytest.raises(SpecError) as caught:
        submit(team(), matrix={"engine.weights": ["bf16", "fp8"]}, placement={"replicas": 2, "tensor_parallel": 4})
    assert {error.field for error in caught.value.errors} == {
        "matrix.engine.weights", "placement.replicas", "placement.tensor_parallel",
    }  # fmt: skip
    assert not Experiment.objects.exists()
