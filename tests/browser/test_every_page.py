"""Every page at the widths of a desk and a phone, light and dark: nothing wider than the screen, nothing in the
console, nothing serious that axe finds. A picture of each is kept in `.screens/` at the top of the checkout, for a
reviewer's eye."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize
from whole_lab import WholeLab

from browser.visit import Errors, sign_in

# Swagger's own page, which knows no dark.
NOT_OURS = {"/api/v1/docs"}
SIZES = (ViewportSize(width=1440, height=900), ViewportSize(width=390, height=844))
SCREENS = Path(__file__).resolve().parent.parent.parent / ".screens"
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


SYSTEM = {
    "name": "Prompts here, answers there",
    "tags": ["example-prefill-decode"],
    "model": "llama-3-8b",
    "nodes": {"labels": {"kind": "modelled"}},
    "placement": {
        "disaggregate": {
            "kind": "prefill_decode",
            "prefill": {"chip": "h100-sxm", "count": 2, "tensor_parallel": 1},
            "decode": {"chip": "mi300x", "count": 1},
        },
        "router": {"policy": "least_loaded"},
    },
    "workload": {
        "kind": "synthetic",
        "arrival": {"kind": "closed", "max_concurrency": 4},
        "num_requests": 24,
    },
    "matrix": {"workload.arrival.max_concurrency": [2, 8]},
    "repeats": 1,
}


@pytest.fixture(scope="module")
def pages(lab: WholeLab) -> list[str]:
    """The address of every page, those of an experiment with results and of the nodes among them."""
    document = {
        "name": "An experiment with a name that is rather long, as the names of experiments often are",
        "question": "Does every page fit a phone?",
        "model": "smollm2-135m-instruct",
        "nodes": {"names": ["modelled"]},
        "workload": {
            "kind": "synthetic",
            "arrival": {"kind": "closed", "max_concurrency": 4},
            "num_requests": 24,
        },
        "matrix": {"engine.weights": ["bf16", "int8"], "engine.max_num_seqs": [2, 4]},
        "repeats": 1,
    }
    experiment = lab.post("/experiments", document)
    system = lab.post("/experiments", SYSTEM)
    for one in (experiment, system):
        lab.wait(lambda one=one: lab.get(f"/experiments/{one['id']}")["state"] == "done", 180)
    trials = ",".join(str(trial["id"]) for trial in experiment["trials"])
    ((node_id,),) = lab.rows("SELECT id FROM hardware_node WHERE slug = 'local'")
    ((chip_id,),) = lab.rows("SELECT id FROM hardware_chip WHERE current AND chip_id = 'h100-sxm'")
    return [
        "/",
        "/experiments/",
        "/experiments/?deleted=true",
        "/experiments/new/",
        f"/experiments/new/?from={experiment['id']}",
        f"/experiments/{experiment['id']}/",
        f"/runs/{experiment['trials'][0]['runs'][0]['id']}/",
        f"/experiments/{system['id']}/?against=output_throughput_per_chip",
        f"/runs/{system['trials'][0]['runs'][0]['id']}/",
        "/examples/",
        "/experiments/new/?example=prefill-here-decode-there",
        "/compare/",
        f"/compare/?trials={trials}",
        "/nodes/",
        "/nodes/local/",
        "/nodes/modelled/",
        "/chips/",
        "/chips/?sort=-bandwidth_bytes_per_s&format=fp8",
        "/chips/h100-sxm/",
        "/chips/jalapeno/",
        "/chips/composite-rubin-lpx/",
        "/models/",
        "/models/smollm2-135m-instruct/",
        "/account/",
        "/api/v1/docs",
        "/admin/",
        "/admin/hardware/node/",
        "/admin/hardware/node/add/",
        f"/admin/hardware/node/{node_id}/change/",
        "/admin/hardware/chip/",
        "/admin/hardware/chip/add/",
        f"/admin/hardware/chip/{chip_id}/change/",
        "/admin/accounts/project/1/change/",
        "/admin/accounts/membership/add/",
        "/admin/experiments/webhook/",
    ]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_its_screen_and_is_accessible(
    scheme: Literal["light", "dark"],
    size: ViewportSize,
    chromium: Browser,
    lab: WholeLab,
    pages: list[str],
    errors: Errors,
) -> None:
    context = chromium.new_context(viewport=size, color_scheme=scheme, base_url=lab.url, reduced_motion="reduce")
    page = context.new_page()
    errors.watch(page)
    faults: dict[str, list[str]] = {}
    visit(page, "/accounts/login/")
    faults["/accounts/login/"] = faults_of(page, scheme, size)
    sign_in(page, lab)
    for path in pages:
        visit(page, path)
        faults[path] = faults_of(page, scheme, size)
    context.close()
    wrong = [f"{path}: {fault}" for path, found in faults.items() for fault in found]
    assert not wrong, "\n".join(wrong)


def faults_of(page: Page, scheme: str, size: ViewportSize) -> list[str]:
    """What is wrong with the page that is shown; keeps a picture of it."""
    path = urlsplit(page.url).path
    SCREENS.mkdir(exist_ok=True)
    name = path.strip("/").replace("/", "-") or "home"
    page.screenshot(path=SCREENS / f"{name}-{size['width']}-{scheme}.png", full_page=True)
    faults = [f"too wide: {wide}" for wide in page.evaluate(WIDER_THAN_THE_SCREEN)]
    if path in NOT_OURS:
        return faults
    if (page.evaluate(BRIGHTNESS) < 128) != (scheme == "dark"):
        faults.append(f"not {scheme}")
    for violation in Axe().run(page).response["violations"]:
        if violation["impact"] in ("serious", "critical"):
            where = [node["target"] for node in violation["nodes"][:3]]
            faults.append(f"{violation['id']} ({violation['impact']}): {where}")
    return faults


def visit(page: Page, path: str) -> None:
    answer = page.goto(path)
    assert answer is not None and answer.status == 200, path
    page.evaluate("document.fonts.ready")
    # Charts are drawn after the page is there; those of a run once its stored samples have come.
    for chart in page.locator("[data-figure], [data-clock]").all():
        chart.locator(".main-svg").first.wait_for()
