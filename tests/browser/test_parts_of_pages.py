"""Parts that the server draws again: an answer that is no part never takes a part's place."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from whole_lab import WholeLab

from browser.visit import Errors


@pytest.fixture
def experiment(page: Page, lab: WholeLab) -> Page:
    """The page of an experiment of twelve quick runs that has just been submitted."""
    page.goto("/experiments/new/")
    page.locator("#example").select_option("modelled")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Modelled: batching on an H100")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="Trials")).to_be_visible()
    return page


def test_a_refused_edit_leaves_the_live_page_whole(experiment: Page, errors: Errors) -> None:
    errors.expect("status of 422")
    address = experiment.url
    experiment.get_by_text("Name, question, tags, priority").click()
    experiment.get_by_label("Priority", exact=True).fill("1000")
    experiment.get_by_role("button", name="Save").click()
    expect(experiment.get_by_role("alert")).to_contain_text("1000 is no priority")
    expect(experiment).to_have_url(address)
    # Ends of runs draw the table again: it is still there when all have ended.
    expect(experiment.locator("#progress-text")).to_have_text("12 of 12 runs ended", timeout=120_000)
    expect(experiment.locator("#results .dot.succeeded[data-run-dot]")).to_have_count(12)
    expect(experiment.locator("header.top")).to_have_count(1)


def test_who_is_signed_out_meanwhile_gets_the_page_for_signing_in_as_a_whole(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="Nodes")).to_be_visible()
    page.context.clear_cookies()
    page.wait_for_url("**/accounts/login/**", timeout=30_000)
    expect(page.locator("header.top")).to_have_count(1)
    expect(page.get_by_label("User name")).to_have_count(1)
