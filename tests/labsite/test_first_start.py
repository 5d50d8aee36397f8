"""What a start prepares: the local nodes of a new home, and those of a home from an earlier version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings

from hardware.models import Node
from hardware.services import load_catalog, register_node
from labsite.first_start import local_nodes

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]
EVERY_CHIP = [{"chip": "any", "count": 1024}]


@pytest.fixture
def home(tmp_path: Path, settings: Settings) -> Path:
    settings.LAB_HOME = tmp_path
    return tmp_path


def join_as(home: Path, name: str) -> None:
    """What a node's agent leaves behind when it has joined."""
    directory = home / "nodes" / name
    directory.mkdir(parents=True)
    (directory / "node.json").write_text(json.dumps({"url": "http://127.0.0.1:1"}))


def names(home: Path) -> list[str]:
    return [node.name for node in local_nodes(home)]


def test_a_new_home_gets_a_measured_node_and_one_that_models_every_chip(home: Path) -> None:
    call_command("prepare")
    assert {node.name: (node.kind, node.pools) for node in Node.objects.all()} == {
        "local": ("measured", []), "modelled": ("modelled", EVERY_CHIP),
    }  # fmt: skip
    assert names(home) == ["local", "modelled"]
    assert all((home / "nodes" / name / "join-token").read_text().startswith("join_") for name in names(home))


def test_the_modelled_node_of_an_earlier_version_keeps_its_name_and_offers_every_chip(home: Path) -> None:
    load_catalog()
    register_node("h100-modelled", kind="modelled", chip_id="h100-sxm")
    join_as(home, "h100-modelled")
    assert names(home) == ["local", "h100-modelled"]
    call_command("prepare")
    assert {node.name: node.pools for node in Node.objects.all()} == {"local": [], "h100-modelled": EVERY_CHIP}


def test_pools_that_an_operator_has_changed_stay_so(home: Path) -> None:
    load_catalog()
    pools = [{"chip": "wse3", "count": 4}]
    register_node("modelled", kind="modelled", chip_id="h100-sxm", pools=pools)
    join_as(home, "modelled")
    call_command("prepare")
    assert Node.objects.get(name="modelled").pools == pools
