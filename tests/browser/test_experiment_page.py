"""The experiment's page as a person uses it: its menu, its heat map, and points and trials picked for a comparison."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from whole_lab import WholeLab

DOCUMENT = {
    "name": "Picked apart",
    "model": "smollm2-135m-instruct",
    "nodes": {"names": ["modelled"]},
    "workload": {"kind": "synthetic", "arrival": {"kind": "closed", "max_concurrency": 4}, "num_requests": 24},
    "matrix": {"engine.weights": ["bf16", "int8"], "engine.max_num_seqs": [2, 4]},
    "repeats": 1,
}


@pytest.fixture(scope="module")
def experiment(lab: WholeLab) -> dict[str, Any]:
    made: dict[str, Any] = lab.post("/experiments", DOCUMENT)
    lab.wait(lambda: lab.get(f"/experiments/{made['id']}")["state"] == "done", 180)
    return made


@pytest.fixture
def opened(page: Page, experiment: dict[str, Any]) -> Page:
    page.goto(f"/experiments/{experiment['id']}/")
    page.locator("#connection[data-state=ended]").wait_for()
    page.locator("[data-figure=heat-figure] .main-svg").first.wait_for()
    return page


def test_trials_are_picked_in_the_table_and_by_their_points(opened: Page) -> None:
    compare = opened.get_by_role("button", name="Compare selected")
    expect(compare).to_be_disabled()
    opened.get_by_label(re.compile("^select trial 1:")).check()
    # the last trace of the chart is the last trial
    point = opened.locator("[data-figure=tradeoff] .scatterlayer .trace").last.locator("path.point")
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    opened.mouse.move(*middle)
    # a chart hears of a click on what it shows under the pointer
    opened.locator("[data-figure=tradeoff] .hoverlayer .hovertext").wait_for()
    opened.mouse.click(*middle)
    expect(opened.get_by_label(re.compile("^select trial 4:"))).to_be_checked()
    compare.click()
    opened.wait_for_url("**/compare/?trials=*&trials=*")


def test_the_heat_map_follows_what_is_chosen_and_the_address_keeps_it(opened: Page) -> None:
    opened.get_by_label("Metric").select_option("ttft")
    opened.wait_for_url("**metric=ttft*")
    expect(opened.get_by_role("heading", name="TTFT over the matrix")).to_be_visible()
    cells = opened.locator("[data-figure=heat-figure] .heatmap-label")
    expect(cells.filter(has_text="n = 1")).to_have_count(4)


def test_the_menu_opens_and_exports(opened: Page) -> None:
    opened.get_by_text("More", exact=True).click()
    with opened.expect_download() as download:
        opened.get_by_role("link", name="runs as csv").click()
    assert download.value.suggested_filename.endswith(".csv")


def test_a_theme_that_was_chosen_holds_against_the_systems(page: Page) -> None:
    page.goto("/account/")
    page.get_by_label("Light and dark").select_option("dark")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    page.get_by_label("Light and dark").select_option("auto")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")
