"""How a system of the catalog is run: what its page says is a document that goes through."""

from __future__ import annotations

import pytest
import yaml
from control_plane import document

from experiments.chip_ways import ways_of
from runners.chips import ChipRecord, load_catalog
from runners.matrix import plan_experiment

CATALOG: dict[str, ChipRecord] = {record.chip_id: record for record in load_catalog()}
SYSTEMS = sorted(record.chip_id for record in CATALOG.values() if record.system and record.system.parts)


@pytest.mark.parametrize("chip_id", SYSTEMS)
def test_every_way_to_run_a_system_is_a_part_of_a_document(chip_id: str) -> None:
    ways = ways_of(CATALOG[chip_id], CATALOG.get)
    assert len(ways) == 2
    for way in ways:
        plan_experiment(document(**yaml.safe_load(way.text)))


def test_unlike_parts_are_the_two_pools_with_all_their_chips():
    first, second = ways_of(CATALOG["composite-rubin-lpx"], CATALOG.get)
    pools = yaml.safe_load(second.text)["placement"]["disaggregate"]
    assert pools["attention"] == {"chip": "vr-nvl72", "count": 72}
    assert pools["ffn"] == {"chip": "groq3-lpx", "count": 256}
    assert yaml.safe_load(first.text)["placement"]["disaggregate"]["kind"] == "prefill_decode"


def test_a_part_that_the_catalog_has_lost_counts_as_one_chip():
    way = ways_of(CATALOG["composite-trainium-wse"], lambda _: None)[0]
    assert yaml.safe_load(way.text)["placement"]["disaggregate"]["prefill"] == {"chip": "trainium3", "count": 1}


def test_a_single_chip_needs_no_word_on_how_to_run_it():
    assert ways_of(CATALOG["h100-sxm"], CATALOG.get) == []
