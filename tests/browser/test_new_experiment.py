"""The form and the text of a new experiment follow each other as a person works in both."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from whole_lab import WholeLab


@pytest.fixture
def editor(page: Page) -> Page:
    page.goto("/experiments/new/")
    page.locator("#example").select_option("modelled")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Modelled: batching on an H100")
    return page


def wait_for_text(page: Page, part: str) -> None:
    page.wait_for_function("part => document.getElementById('document').value.includes(part)", arg=part)


def test_a_change_in_the_form_is_written_into_the_text_and_comments_stay(editor: Page) -> None:
    editor.get_by_label("Requests", exact=True).fill("96")
    editor.get_by_label("Requests", exact=True).press("Tab")
    wait_for_text(editor, "num_requests: 96")
    assert editor.locator("#document").input_value().startswith("# A chip that is not at hand")
    expect(editor.locator("#verdict")).to_contain_text("12 runs")


def test_a_change_in_the_text_is_shown_by_the_form_and_counted(editor: Page) -> None:
    text = editor.locator("#document").input_value()
    editor.locator("#document").fill(text.replace("repeats: 2", "repeats: 5").replace("[1, 8, 32]", "[1, 8]"))
    expect(editor.get_by_label("Repeats", exact=True)).to_have_value("5")
    expect(editor.get_by_label("engine.max_num_seqs", exact=True)).to_have_value("1, 8")
    expect(editor.locator("#verdict")).to_contain_text("20 runs")


def test_a_setting_is_compared_and_compared_no_more(editor: Page) -> None:
    editor.get_by_label("Add a setting to compare").select_option("engine.block_size")
    expect(editor.locator("#verdict")).to_contain_text("60 runs")
    editor.get_by_label("Remove engine.block_size").click()
    expect(editor.locator("#verdict")).to_contain_text("12 runs")
    assert "engine.block_size" not in editor.locator("#document").input_value()


def test_another_arrival_brings_its_own_fields(editor: Page) -> None:
    editor.get_by_label("Arrivals").select_option("open")
    expect(editor.get_by_label("Request rate")).to_have_value("1.0")
    wait_for_text(editor, "kind: open")


def test_a_fault_stands_at_its_field_and_keeps_what_was_typed(editor: Page) -> None:
    repeats = editor.get_by_label("Repeats", exact=True)
    repeats.fill("many")
    repeats.press("Enter")
    expect(editor.locator("#verdict")).to_contain_text("not ready")
    expect(repeats).to_have_value("many")
    expect(repeats).to_have_attribute("aria-invalid", "true")
    assert editor.url.endswith("/experiments/new/")


def test_a_text_that_cannot_be_read_stills_the_form_until_it_can(editor: Page) -> None:
    text = editor.locator("#document").input_value()
    editor.locator("#document").fill("name: [")
    expect(editor.get_by_label("Repeats", exact=True)).to_be_disabled()
    editor.locator("#document").fill(text)
    expect(editor.get_by_label("Repeats", exact=True)).to_be_enabled()


def test_what_was_typed_last_is_in_what_is_submitted(editor: Page, lab: WholeLab) -> None:
    editor.get_by_label("Name", exact=True).fill("Typed last")
    editor.get_by_role("button", name="Submit").click()
    editor.wait_for_url("**/experiments/*/")
    expect(editor.get_by_role("heading", name="Typed last")).to_be_visible()
    assert lab.rows("SELECT count(*) FROM experiments_experiment WHERE name = 'Typed last'") == [(1,)]
    lab.post(f"/experiments/{editor.url.rstrip('/').rsplit('/', 1)[1]}/cancel")


def test_a_kind_of_disaggregation_brings_its_pools_and_what_was_unfolded_stays_so(editor: Page) -> None:
    tiers, pools = editor.locator("#group-tiers"), editor.locator("#group-disaggregation")
    expect(pools).not_to_have_attribute("open", "")
    tiers.locator("summary").click()
    pools.locator("summary").click()
    pools.get_by_label("Kind").select_option("prefill_decode")
    expect(pools.get_by_label("Prefill: chip", exact=True)).to_have_value("h100-sxm")
    wait_for_text(editor, "kind: prefill_decode")
    expect(tiers).to_have_attribute("open", "")
    pools.get_by_label("Kind").select_option("none (default)")
    expect(pools.get_by_label("Prefill: chip", exact=True)).to_have_count(0)
    assert "disaggregate" not in editor.locator("#document").input_value()
