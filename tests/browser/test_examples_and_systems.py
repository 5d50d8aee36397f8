"""From an example to its experiment by one click, and the run of several engines as its page shows it."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from whole_lab import WholeLab


def test_an_example_runs_by_one_click(page: Page, lab: WholeLab) -> None:
    page.goto("/examples/")
    page.get_by_role("button", name="Run it: Modelled: batching on an H100").click()
    page.wait_for_url("**/experiments/*/")
    expect(page.locator("h1")).to_have_text("Modelled: batching on an H100")
    lab.wait(lambda: lab.get(f"/experiments/{page.url.rstrip('/').rsplit('/', 1)[-1]}")["state"] == "done", 180)


def test_the_steps_of_several_engines_are_lanes_or_those_of_the_one_chosen(page: Page, lab: WholeLab) -> None:
    document = {
        "name": "two replicas",
        "model": "llama-3-8b",
        "nodes": {"labels": {"kind": "modelled"}},
        "placement": {"replicas": 2},
        "workload": {
            "kind": "synthetic",
            "arrival": {"kind": "closed", "max_concurrency": 4},
            "num_requests": 16,
        },
        "repeats": 1,
    }
    experiment = lab.post("/experiments", document)
    lab.wait(lambda: lab.get(f"/experiments/{experiment['id']}")["state"] == "done", 180)
    page.goto(f"/runs/{experiment['trials'][0]['runs'][0]['id']}/")
    expect(page.locator("#system")).to_contain_text("2 engines on 1 × h100-sxm each")
    steps = page.locator("#chart-steps")
    lanes = steps.locator(".ytick")
    expect(lanes).to_have_count(2)
    assert sorted(lanes.all_text_contents()) == ["serve-0", "serve-1"]
    page.get_by_label("Engine").select_option("serve-1")
    expect(steps).to_contain_text("tokens a step")
    expect(page.locator("#chart-kv-engines .legendtext")).to_have_text(["serve-0", "serve-1"])
