"""GET /api/v1/nodes, /chips and /models."""

from __future__ import annotations

import pytest
from api_client import Caller, assert_people_only, member, refused
from control_plane import ready_node, submit, team

from experiments.models import Run
from experiments.services import place_runs
from hardware.services import load_catalog
from labsite.accounts.models import Project, Role
from runners.models import REGISTRY

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    load_catalog()
    return team()


@pytest.fixture
def caller(project: Project) -> Caller:
    return member(project, Role.VIEWER)


@pytest.mark.parametrize(
    "path", ["/nodes", "/nodes/x", "/chips", "/chips/h100-sxm", "/models", "/shapes", "/shapes/llama-3-8b"]
)
def test_only_people_with_a_token_may(path: str) -> None:
    assert_people_only("GET", path)


def test_nodes_are_those_of_ones_projects_and_of_all(caller: Caller, project: Project) -> None:
    ready_node("own", project=project)
    ready_node("open")
    ready_node("foreign", project=team())
    assert [node["slug"] for node in caller.get("/nodes").json()["items"]] == ["open", "own"]
    assert caller.get("/nodes/own").json()["project"] == project.slug
    refused(caller.get("/nodes/foreign"), 404)
    refused(caller.get("/nodes/nowhere"), 404)


def test_a_node_tells_what_it_is_and_does(caller: Caller, project: Project) -> None:
    node = ready_node("busy", kind="modelled", chip_id="h100-sxm", labels={"rack": "a1"}, usd_per_hour=2.5)
    submit(project, chip="h100-sxm")
    place_runs()
    found = caller.get("/nodes/busy").json()
    assert (found["kind"], found["chip"], found["usd_per_hour"]) == ("modelled", "h100-sxm", 2.5)
    assert found["labels"] == {"rack": "a1", "kind": "modelled", "chip": "h100-sxm", "name": node.slug}
    assert found["current_run"] == Run.objects.get(state="assigned").id


def test_a_modelled_node_tells_what_it_offers(caller: Caller) -> None:
    link = {"between": ["h100-sxm", "wse3"], "bytes_per_s": 5e10, "latency_s": 1e-6}
    ready_node("system", kind="modelled", chip_id="h100-sxm", pools=[{"chip": "wse3", "count": 4}], links=[link])
    ready_node("real")
    found = caller.get("/nodes/system").json()
    assert found["pools"] == [{"chip": "h100-sxm", "count": 1024}, {"chip": "wse3", "count": 4}]
    assert found["links"] == [link]
    assert caller.get("/nodes/real").json()["pools"] == []


def test_nodes_are_found_by_a_chip_that_they_offer(caller: Caller) -> None:
    ready_node("own", kind="modelled", chip_id="wse3")
    ready_node("pooled", kind="modelled", chip_id="h100-sxm", pools=[{"chip": "wse3", "count": 4}])
    ready_node("everything", kind="modelled", chip_id="h100-sxm", pools=[{"chip": "any", "count": 4}])
    ready_node("other", kind="modelled", chip_id="h100-sxm")

    def names(chip: str) -> list[str]:
        return [node["slug"] for node in caller.get(f"/nodes?chip={chip}").json()["items"]]

    assert names("wse3") == ["everything", "own", "pooled"]
    assert names("trainium3") == ["everything"]
    assert names("abacus") == []


def test_shapes_come_with_their_sizes_their_source_and_where_they_run(caller: Caller) -> None:
    listed = caller.get("/shapes?sort=-parameters&limit=200").json()["items"]
    sizes = [shape["parameters"] for shape in listed]
    assert sizes == sorted(sizes, reverse=True)
    dense = caller.get("/shapes/llama-3-8b").json()
    assert (dense["shape"]["layers"], dense["measurable"], dense["why_not_measurable"]) == (32, True, "")
    assert dense["source"] and dense["confidence"]
    latent = next(shape for shape in listed if shape["shape"]["kv_latent_dim"])
    assert latent["measurable"] is False and "latent attention" in latent["why_not_measurable"]
    assert [shape["name"] for shape in caller.get("/shapes?search=LLAMA-3-8b").json()["items"]] == ["llama-3-8b"]
    refused(caller.get("/shapes/gpt-9"), 404)


def test_another_projects_run_on_an_open_node_stays_hidden(caller: Caller) -> None:
    ready_node("open")
    submit(team())
    place_runs()
    assert Run.objects.filter(state="assigned").exists()
    assert caller.get("/nodes/open").json()["current_run"] is None


def test_a_nodes_secrets_are_not_told(caller: Caller) -> None:
    ready_node("open")
    assert not {"api_digest", "broker_digest", "broker_username"} & set(caller.get("/nodes/open").json())


def test_chips_come_with_their_figures_and_sources(caller: Caller) -> None:
    listed = caller.get("/chips").json()["items"]
    assert "h100-sxm" in [chip["chip_id"] for chip in listed]
    chip = caller.get("/chips/h100-sxm").json()
    assert chip["record"]["memory"]["bandwidth_bytes_per_s"] > 0
    assert chip["record"]["sources"]
    refused(caller.get("/chips/abacus"), 404)


def test_models_come_with_their_licence_and_where_they_are_held(caller: Caller) -> None:
    node = ready_node("holder")
    node.models_held = [{"name": "smollm2-135m-instruct", "sha256": REGISTRY["smollm2-135m-instruct"].sha256}]
    node.save()
    model = next(one for one in caller.get("/models").json()["items"] if one["name"] == "smollm2-135m-instruct")
    assert (model["licence"], model["nodes"]) == ("Apache-2.0", ["holder"])
    assert model["shape"]["layers"] == 30


@pytest.mark.parametrize("path", ["/nodes/%00", "/chips/%00", "/nodes/a%20b", "/chips/" + "x" * 101])
def test_a_name_that_none_could_have_is_refused(caller: Caller, path: str) -> None:
    assert refused(caller.get(path), 422)["errors"][0]["allowed"]
