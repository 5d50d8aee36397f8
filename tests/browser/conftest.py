"""A whole lab, the system's Chromium, and pages in which every error is noticed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from whole_lab import WholeLab

from browser.visit import Errors, sign_in

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine (apt install chromium)")
    with sync_playwright() as playwright:
        # The browser that watches a run is a process of this lab, not somebody else's load on its node.
        env: dict[str, str | float | bool] = {**os.environ, "LAB_PROCESS": "1"}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), env=env)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def lab(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeLab]:
    running = WholeLab(tmp_path_factory.mktemp("lab"))
    try:
        running.start()
        yield running
    finally:
        running.clear()


@pytest.fixture
def errors() -> Iterator[Errors]:
    """What went wrong in the test's pages; anything that the test did not expect fails it."""
    found = Errors()
    yield found
    assert found.unexpected == []


@pytest.fixture
def page(chromium: Browser, lab: WholeLab, errors: Errors) -> Iterator[Page]:
    """A signed-in page of a desktop's size."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, base_url=lab.url)
    context.set_default_timeout(30_000)
    opened = context.new_page()
    errors.watch(opened)
    sign_in(opened, lab)
    yield opened
    context.close()
