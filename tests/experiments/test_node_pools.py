"""What pages say of the chips and links that a modelled node offers, and of the shapes that may run on them."""

from __future__ import annotations

from typing import Any

import pytest
from control_plane import ready_node
from modelled_node import modelled_node, text_of

from experiments.node_pools import links_of, pools_of, pools_told
from experiments.published_shapes import shape_rows
from hardware.models import Node
from runners import shapes

pytestmark = pytest.mark.django_db(transaction=True)
POOLS = [{"chip": "wse3", "count": 4}, {"chip": "any", "count": 8}]
LINKS = [{"between": ["h100-sxm", "wse3"], "bytes_per_s": 5e10, "latency_s": 5e-6}]


def with_pools(pools: list[dict[str, Any]] = POOLS, name: str = "modelled") -> Node:
    node = modelled_node(name)
    node.pools, node.links = pools, LINKS if pools is POOLS else []
    node.save()
    return node


def test_its_own_chip_comes_first_and_all_that_have_no_pool_last():
    rows = [(row.chip_id, row.count, row.own) for row in pools_of(with_pools())]
    assert rows == [("h100-sxm", 8, True), ("wse3", 4, False), ("", 8, False)]


def test_a_measured_node_offers_no_pools():
    assert pools_of(ready_node()) == [] and pools_told(ready_node()) == ""


def test_a_list_tells_the_pools_in_a_few_words():
    assert pools_told(with_pools()) == "and every chip of the catalog"
    node = with_pools([{"chip": f"c{number}", "count": 2000} for number in range(5)], "other")
    assert pools_told(node) == "and 2\u2009000 × c0, 2\u2009000 × c1, 2\u2009000 × c2, 2 more"


def test_links_tell_their_speed():
    (link,) = links_of(with_pools())
    assert (link.between, link.bandwidth, link.latency) == (
        ("h100-sxm", "wse3"), "50.0\u00a0GB/s", "5.00\u00a0µs",
    )  # fmt: skip


def test_the_nodes_pages_show_pools_and_links(browser):
    node = with_pools()
    page = text_of(browser.get(f"/nodes/{node.slug}/"))
    assert "every other chip of the" in page and "h100-sxm and wse3" in page and "50.0 GB/s" in page
    assert "where a document names no chip" in page
    assert "and every chip of the catalog" in text_of(browser.get("/nodes/"))


def test_a_chips_page_names_the_nodes_that_offer_it_and_how_a_system_runs(browser):
    node = with_pools()
    page = text_of(browser.get("/chips/composite-rubin-lpx/"))
    assert "How to run it" in page and "kind: attention_ffn" in page and "chip: groq3-lpx, count: 256" in page
    assert node.name in text_of(browser.get("/chips/mi300x/"))
    assert "How to run it" not in text_of(browser.get("/chips/h100-sxm/"))


def test_every_published_shape_has_its_row_the_smallest_first():
    rows = shape_rows()
    assert sorted(row.name for row in rows) == shapes.names()
    assert [row.parameters for row in rows] == sorted(row.parameters for row in rows)
    found = {row.name: row for row in rows}
    # 2 x 8 KV heads x 128 x 32 layers x 2 bytes
    assert found["llama-3-8b"].kv_bytes_per_token == 131_072
    assert found["llama-3-8b"].attention == "32 heads, 8 of KV" and found["llama-3-8b"].experts == ""
    assert any("latent" in row.attention and " of " in row.experts for row in rows)


def test_the_models_page_lists_them_and_says_that_their_weights_are_random(browser):
    page = text_of(browser.get("/models/"))
    assert "llama-3-8b" in page and "131 kB" in page and "random weights" in page


def test_a_chips_page_names_experiments_that_used_it_in_a_pool(browser, finished):
    run = finished.runs.first()
    run.spec["chips"] = {"h100-sxm": {}, "wse3": {}}
    run.save()
    page = text_of(browser.get("/chips/wse3/"))
    assert f'href="/experiments/{finished.pk}/"' in page and "1 run<" in page
    assert "No experiment has used it yet" in text_of(browser.get("/chips/mi300x/"))
