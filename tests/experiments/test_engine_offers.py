"""Engines that nodes offer: what a document may ask of them, and where its runs then go."""

from __future__ import annotations

from typing import Any

import pytest
from api_client import member
from control_plane import person, ready_node, submit
from modelled_node import modelled_node

from experiments.engine_offers import EngineDemand, EngineOffer, has_engine, offers_of
from experiments.models import Attempt
from experiments.services.placing import place_runs
from hardware.messages import OfferedEngine
from hardware.models import Node
from labsite.accounts.models import Project, Role, User
from runners.document import FieldError, SpecError

pytestmark = pytest.mark.django_db

MODEL = "smollm2-135m-instruct"
LLAMA = {"kind": "managed", "name": "llamacpp", "version": "b1", "settings": ["max_num_seqs", "threads"]}
OFFICE = {"kind": "external", "name": "office", "models": ["another-model"]}


def offering(name: str, *engines: dict[str, Any], **fields: Any) -> Node:
    node = ready_node(name, **fields)
    node.engines = [OfferedEngine.model_validate(engine).model_dump() for engine in engines]
    node.save()
    return node


@pytest.fixture
def researcher(project: Project) -> User:
    return person(project)


def faults(project: Project, user: User, engine: dict[str, Any], **changes: Any) -> dict[str, FieldError]:
    with pytest.raises(SpecError) as caught:
        submit(project, user, engine=engine, **changes)
    return {error.field: error for error in caught.value.errors}


@pytest.mark.parametrize(
    ("asked", "is_there"),
    [
        (EngineDemand(), True),
        (EngineDemand(model=MODEL), True),
        (EngineDemand("builtin", "llamacpp", MODEL), True),
        (EngineDemand("builtin", "vllm", MODEL), False),
        (EngineDemand("managed", "llamacpp", MODEL), True),
        (EngineDemand("external", "llamacpp", MODEL), False),
        (EngineDemand("external", "office", MODEL), False),
        (EngineDemand("external", "office", "another-model"), True),
    ],
)
def test_a_node_has_an_engine_by_kind_and_name_and_an_endpoint_only_for_its_models(
    asked: EngineDemand, is_there: bool
) -> None:
    offers = offers_of([OfferedEngine.model_validate(one).model_dump() for one in (LLAMA, OFFICE)])
    assert has_engine(asked, offers) is is_there
    assert has_engine(EngineDemand(), ()) and not EngineOffer("managed", "x").serves(EngineDemand())


def test_an_engine_that_no_node_offers_is_refused_with_those_that_are(project: Project, researcher: User) -> None:
    offering("one", LLAMA, OFFICE)
    found = faults(project, researcher, {"kind": "managed", "name": "vllm"})
    assert set(found) == {"engine.name"} and found["engine.name"].allowed == ["llamacpp", "office"]
    found = faults(project, researcher, {"kind": "external", "name": "llamacpp"})
    assert found["engine.kind"].allowed == ["builtin", "managed"]
    found = faults(project, researcher, {"kind": "external", "name": "office"})
    assert found["model"].allowed == ["another-model"]
    assert "needs the name" in faults(project, researcher, {"kind": "managed"})["engine.name"].message


def test_settings_that_an_engine_has_no_place_for_are_refused_by_field(project: Project, researcher: User) -> None:
    offering("one", LLAMA)
    engine = {"kind": "managed", "name": "llamacpp", "max_num_seqs": 4, "threads": 2, "weights": "int8",
              "scheduler": {"chunked_prefill": False}}  # fmt: skip
    found = faults(project, researcher, engine)
    assert set(found) == {"engine.weights", "engine.scheduler"}
    assert "llamacpp takes max_num_seqs, threads" in found["engine.weights"].message
    engine = {"kind": "managed", "name": "llamacpp", "max_num_seqs": 4, "threads": 2}
    assert submit(project, researcher, engine=engine).runs.count() > 0


def test_only_what_is_built_in_can_be_modelled(project: Project, researcher: User) -> None:
    modelled_node()
    found = faults(project, researcher, {"kind": "external", "name": "office"}, nodes={"labels": {"kind": "modelled"}})
    assert found["engine.kind"].allowed == ["builtin"]


def test_engines_that_are_compared_run_on_a_node_that_has_both(project: Project, researcher: User) -> None:
    ready_node("plain")
    both = offering("both", LLAMA)
    submit(
        project,
        researcher,
        engine={"name": "llamacpp"},
        matrix={"engine.kind": ["builtin", "managed"]},
        repeats=1,
    )
    assert place_runs() == 1
    (attempt,) = Attempt.objects.all()
    assert attempt.node_id == both.pk


def test_a_nodes_engines_are_told_without_what_starts_them(project: Project) -> None:
    offering("one", LLAMA, project=project)
    (told,) = member(project, Role.VIEWER).get("/nodes/one").json()["engines"]
    assert told == {
        "kind": "managed", "name": "llamacpp", "version": "b1", "dialect": "", "models": [], "problem": "",
        "settings": ["max_num_seqs", "threads"],
    }  # fmt: skip
