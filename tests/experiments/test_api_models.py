"""/api/v1/models: registering, listing and retiring models, and experiments that name them."""

from __future__ import annotations

from typing import Any

import pytest
from api_client import Caller
from control_plane import document, person, ready_node, team
from django.http import HttpResponse

from experiments.models import Experiment, RegisteredModel, Run
from experiments.services import place_runs
from hardware.models import Node
from labsite.accounts.models import AuditEntry, Role
from runners.models import REGISTRY, ModelEntry

pytestmark = pytest.mark.django_db
SHIPPED = "smollm2-135m-instruct"
SHAPE = {
    "layers": 2, "hidden_size": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 128, "vocab_size": 259,
    "tied_embeddings": True, "max_model_len": 2048, "parameters": 100_000,
}  # fmt: skip


def entry(name: str = "tiny", **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "title": "A tiny model",
        "format": "gguf",
        "files": [{"name": "tiny.gguf", "bytes": 1000, "sha256": "a" * 64}],
        "source": {"kind": "local", "path": "/models/tiny.gguf"},
        "shape": SHAPE,
        **changes,
    }


@pytest.fixture
def operator() -> Caller:
    return Caller(person(team(), Role.OPERATOR))


def delete(caller: Caller, path: str) -> HttpResponse:
    return caller.call("DELETE", path)


def node(name: str, **fields: Any) -> Node:
    found = ready_node(name)
    Node.objects.filter(pk=found.pk).update(**fields)
    return found


def memory(size: int) -> dict[str, Any]:
    return {"memory": {"usable_bytes": size}}


def told() -> list[tuple[str, str]]:
    """What the audit log has of models."""
    entries = AuditEntry.objects.filter(object_type="registeredmodel").order_by("id")
    return list(entries.values_list("action", "object_name"))


def names(caller: Caller, query: str = "") -> list[str]:
    return [model["name"] for model in caller.get(f"/models{query}").json()["items"]]


def test_a_registered_model_is_read_back_whole_with_who_holds_it(operator: Caller) -> None:
    answer = operator.post("/models", entry())
    assert answer.status_code == 201
    node("rack1", models_held=[{"name": "tiny", "sha256": "a" * 64}])
    node("rack2", models_held=[{"name": "tiny", "sha256": "b" * 64}])
    model = operator.get("/models/tiny").json()
    assert model["nodes"] == ["rack1"]
    assert (model["bytes"], model["sha256"], model["files"]) == (1000, "a" * 64, entry()["files"])
    assert (model["format"], model["source"], model["shape"]) == ("gguf", entry()["source"], SHAPE)
    assert (model["shipped"], model["retired"], model["registered_by"]) == (False, False, operator.user.username)
    assert model | {"nodes": []} == answer.json()
    assert operator.get(f"/models/{SHIPPED}").json()["shipped"]


def test_registering_is_in_the_audit_log(operator: Caller) -> None:
    operator.post("/models", entry())
    delete(operator, "/models/tiny")
    assert told() == [
        ("model.register", "tiny"), ("model.retire", "tiny"),
    ]  # fmt: skip


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER])
def test_only_operators_register_and_retire(operator: Caller, role: Role) -> None:
    operator.post("/models", entry())
    other = Caller(person(team(), role))
    assert other.post("/models", entry("more")).status_code == 403
    assert delete(other, "/models/tiny").status_code == 403
    assert names(other) == [SHIPPED, "tiny"]


def test_an_entry_that_lies_is_refused_with_its_fields(operator: Caller) -> None:
    answer = operator.post("/models", entry("../x", files=[{"name": "../a.gguf", "bytes": -1, "sha256": "x"}]))
    assert answer.status_code == 422
    assert {fault["field"] for fault in answer.json()["errors"]} == {
        "name", "files.0.name", "files.0.bytes", "files.0.sha256",
    }  # fmt: skip
    assert not RegisteredModel.objects.exists()


def test_the_same_entry_again_is_the_same_model(operator: Caller) -> None:
    assert operator.post("/models", entry()).json() == operator.post("/models", entry()).json()
    assert RegisteredModel.objects.count() == len(told()) == 1


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (entry(files=[{"name": "tiny.gguf", "bytes": 1000, "sha256": "b" * 64}]), "with other files"),
        (entry(title="Another"), "another description"),
        (entry(SHIPPED), "shipped with the lab"),
    ],
)
def test_a_taken_name_is_refused(operator: Caller, second: dict[str, Any], words: str) -> None:
    operator.post("/models", entry())
    answer = operator.post("/models", second)
    assert answer.status_code == 409 and words in answer.json()["detail"]
    assert ModelEntry.from_dict(RegisteredModel.objects.get().entry).title == "A tiny model"


def test_a_retired_model_is_named_no_more_and_its_name_stays_with_its_files(operator: Caller) -> None:
    operator.post("/models", entry())
    assert delete(operator, "/models/tiny").status_code == delete(operator, "/models/tiny").status_code == 204
    assert names(operator) == [SHIPPED] and names(operator, "?retired=true") == [SHIPPED, "tiny"]
    assert operator.get("/models/tiny").json()["retired"]
    refused = operator.post("/experiments", document(model="tiny"))
    assert refused.status_code == 422 and "was retired" in refused.json()["errors"][0]["message"]
    other = operator.post("/models", entry(files=[{"name": "tiny.gguf", "bytes": 1000, "sha256": "b" * 64}]))
    assert other.status_code == 409 and "retired" in other.json()["detail"]
    assert operator.post("/models", entry(title="Back")).json()["retired"] is False
    assert names(operator) == [SHIPPED, "tiny"]


def test_a_shipped_model_is_never_retired_and_an_unknown_one_is_not_found(operator: Caller) -> None:
    assert delete(operator, f"/models/{SHIPPED}").status_code == 409
    assert delete(operator, "/models/none").status_code == operator.get("/models/none").status_code == 404


def test_the_list_is_searched_sorted_and_paged(operator: Caller) -> None:
    for index in range(5):
        file = {"name": "m.gguf", "bytes": 100 + index % 2, "sha256": f"{index}" * 64}
        operator.post("/models", entry(f"model-{index}", files=[file]))
    assert names(operator, "?search=MODEL-3") == ["model-3"]
    assert names(operator, "?format=safetensors") == []
    for sort in ("name", "-name", "bytes", "-bytes"):
        whole, found, cursor = names(operator, f"?sort={sort}"), [], ""
        while cursor is not None:
            page = operator.get(f"/models?sort={sort}&limit=2{cursor and f'&cursor={cursor}'}").json()
            found += [model["name"] for model in page["items"]]
            cursor = page["next"]
        assert found == whole and len(whole) == 6
    cursor = operator.get("/models?limit=1").json()["next"]
    assert operator.get(f"/models?sort=-bytes&cursor={cursor}").status_code == 422
    assert operator.get("/models?cursor=made-up").status_code == 422


def test_an_unknown_model_is_refused_with_those_there_are(operator: Caller) -> None:
    operator.post("/models", entry())
    (fault,) = operator.post("/experiments", document(model="none")).json()["errors"]
    assert fault["field"] == "model" and fault["allowed"]["registered"] == [SHIPPED, "tiny"]
    assert "llama-3-8b" in fault["allowed"]["shapes, with random weights"]


def test_a_run_carries_the_whole_entry_to_its_node(operator: Caller) -> None:
    ready_node()
    operator.post("/models", entry())
    assert operator.post("/experiments", document(model="tiny")).status_code == 201
    model = Run.objects.get().spec["model"]
    assert ModelEntry.from_dict(model["entry"]).to_dict() == ModelEntry.from_dict(entry()).to_dict()
    assert (model["name"], model["sha256"]) == ("tiny", "a" * 64)


def test_a_model_may_be_an_axis_and_its_own_context_binds(operator: Caller) -> None:
    ready_node()
    operator.post("/models", entry())
    work = document()["workload"] | {"input_len": {"dist": "fixed", "tokens": 3000}}
    answer = operator.post("/experiments", document(matrix={"model": [SHIPPED, "tiny"]}, workload=work))
    (fault,) = answer.json()["errors"]
    assert "tiny takes 2048 in all" in fault["message"]


def test_a_model_that_no_node_can_hold_is_refused_with_the_numbers(operator: Caller) -> None:
    node("small", facts=memory(10_000_000_000))
    operator.post("/models", entry(shape=SHAPE | {"parameters": 70_000_000_000}))
    (fault,) = operator.post("/experiments", document(model="tiny")).json()["errors"]
    assert fault["field"] == "model" and fault["allowed"] == {"small": "10,000,000,000 bytes"}
    assert "needs at least 140,0" in fault["message"] and "small has 10,000,000,000 bytes" in fault["message"]
    ready_node("unknown")
    assert operator.post("/experiments", document(model="tiny")).status_code == 201


def test_placement_takes_the_holder_passes_over_the_small_and_minds_priority(operator: Caller) -> None:
    node("empty", facts=memory(10**12))
    holder = node("holder", models_held=[{"name": SHIPPED, "sha256": REGISTRY[SHIPPED].sha256}])
    node("small", facts=memory(1000))
    low = operator.post("/experiments", document()).json()["id"]
    high = operator.post("/experiments", document()).json()["id"]
    Experiment.objects.filter(pk=high).update(priority=5)
    place_runs()
    placed = dict(Run.objects.filter(state="assigned").values_list("experiment_id", "attempts__node__slug"))
    assert placed == {high: holder.slug, low: "empty"}
