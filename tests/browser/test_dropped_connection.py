"""A connection or an attempt that dies in mid-run: the open page goes on, and holds every point once."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect
from whole_lab import WholeLab

from browser.visit import Errors, assert_shows_every_sample, points_shown, wait_for_end, wait_for_points


def document(duration_s: float) -> dict[str, Any]:
    return {
        "name": "Watched",
        "model": "smollm2-135m-instruct",
        "nodes": {"names": ["local"]},
        "engine": {"threads": 1},
        "workload": {
            "kind": "synthetic",
            "input_len": {"dist": "fixed", "tokens": 16},
            "output_len": {"dist": "fixed", "tokens": 8},
            "arrival": {"kind": "closed", "max_concurrency": 2},
            "duration_s": duration_s,
            "warmup": {"num_requests": 1},
        },
        "budget": {"max_run_seconds": 300},
        "repeats": 1,
    }


def open_run(page: Page, lab: WholeLab, duration_s: float) -> int:
    """The page of a run that is under way and shows its first points."""
    (run_id,) = lab.submit(document(duration_s))
    page.goto(f"/runs/{run_id}/")
    wait_for_points(page, 4)
    page.evaluate("window.sameVisit = true")
    return run_id


def test_a_page_survives_the_web_process_and_misses_no_point(page: Page, lab: WholeLab, errors: Errors) -> None:
    errors.expect("WebSocket connection to .* failed")
    errors.expect(r"/steps\?.*ERR_CONNECTION_REFUSED")  # asked every few seconds, and again later
    run_id = open_run(page, lab, duration_s=15)
    lab.kill("web")
    expect(page.locator("#connection")).to_have_attribute("data-state", "lost")
    before = points_shown(page)
    lab.wait_for_restart("web")
    expect(page.locator("#connection")).to_have_attribute("data-state", "live", timeout=60_000)
    assert wait_for_points(page, before + 1) > before
    wait_for_end(page)
    assert_shows_every_sample(page, lab, run_id)
    assert len(lab.run(run_id)["attempts"]) == 1
    assert page.evaluate("window.sameVisit") is True


def test_a_run_that_is_tried_again_shows_the_points_of_its_last_attempt_alone(page: Page, lab: WholeLab) -> None:
    run_id = open_run(page, lab, duration_s=6)
    lab.kill("server")
    wait_for_end(page)
    assert [one["state"] for one in lab.run(run_id)["attempts"]] == ["failed", "succeeded"]
    assert_shows_every_sample(page, lab, run_id)
    expect(page.locator("#state")).to_contain_text("retried")
    assert page.evaluate("window.sameVisit") is True
