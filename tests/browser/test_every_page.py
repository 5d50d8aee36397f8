"""Every page on a phone, light and dark: nothing wider than the screen, nothing in the console."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, ViewportSize
from whole_lab import WholeLab

from browser.visit import Errors, sign_in

# Swagger's own page knows no dark.
ALWAYS_LIGHT = {"/api/v1/docs"}
PHONE = ViewportSize(width=390, height=844)
WIDER_THAN_THE_SCREEN = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const right = (element) => element.getBoundingClientRect().right;
  const wide = [...document.body.querySelectorAll("*")].filter((element) => right(element) > width + 1);
  return wide.slice(0, 5).map((element) => `${element.tagName} ${element.className} reaches ${right(element)}`);
}"""
BRIGHTNESS = """() => {
  const canvas = document.createElement('canvas').getContext('2d');
  for (const color of ["white", getComputedStyle(document.body).backgroundColor]) {
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
  }
  return canvas.getImageData(0, 0, 1, 1).data.slice(0, 3).reduce((sum, one) => sum + one, 0) / 3;
}"""


@pytest.fixture(scope="module")
def pages(lab: WholeLab) -> list[str]:
    """The address of every page, those of an experiment with results and of the nodes among them."""
    document = {
        "name": "An experiment with a name that is rather long, as the names of experiments often are",
        "question": "Does every page fit a phone?",
        "model": "smollm2-135m-instruct",
        "nodes": {"names": ["h100-modelled"]},
        "workload": {
            "kind": "synthetic",
            "arrival": {"kind": "closed", "max_concurrency": 4},
            "num_requests": 24,
        },
        "matrix": {"engine.weights": ["bf16", "int8"]},
        "repeats": 1,
    }
    experiment = lab.post("/experiments", document)
    lab.wait(lambda: lab.get(f"/experiments/{experiment['id']}")["state"] == "done", 180)
    trials = ",".join(str(trial["id"]) for trial in experiment["trials"])
    ((node_id,),) = lab.rows("SELECT id FROM hardware_node WHERE slug = 'local'")
    ((chip_id,),) = lab.rows("SELECT id FROM hardware_chip WHERE current")
    return [
        "/",
        "/experiments/",
        "/experiments/new/",
        f"/experiments/{experiment['id']}/",
        f"/runs/{experiment['trials'][0]['runs'][0]['id']}/",
        "/compare/",
        f"/compare/?trials={trials}",
        "/api/v1/docs",
        "/admin/",
        "/admin/hardware/node/",
        "/admin/hardware/node/add/",
        f"/admin/hardware/node/{node_id}/change/",
        "/admin/hardware/chip/",
        f"/admin/hardware/chip/{chip_id}/change/",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone(
    scheme: Literal["light", "dark"], chromium: Browser, lab: WholeLab, pages: list[str], errors: Errors
) -> None:
    context = chromium.new_context(viewport=PHONE, color_scheme=scheme, base_url=lab.url)
    page = context.new_page()
    errors.watch(page)
    page.goto("/accounts/login/")
    too_wide = {"/accounts/login/": page.evaluate(WIDER_THAN_THE_SCREEN)}
    sign_in(page, lab)
    for path in pages:
        visit(page, path)
        too_wide[path] = page.evaluate(WIDER_THAN_THE_SCREEN)
        is_dark = page.evaluate(BRIGHTNESS) < 128
        assert is_dark == (scheme == "dark" and path not in ALWAYS_LIGHT), path
    assert {path: wide for path, wide in too_wide.items() if wide} == {}
    context.close()


def visit(page: Page, path: str) -> None:
    answer = page.goto(path)
    assert answer is not None and answer.status == 200, path
    page.evaluate("document.fonts.ready")
    # Charts are drawn after the page is there.
    for chart in page.locator("[data-figure]").all():
        chart.locator(".main-svg").first.wait_for()
