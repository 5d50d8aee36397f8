"""The main path in a browser: write an experiment, watch it run on the real runtime, read the comparison."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Locator, Page, Route, expect
from whole_lab import WholeLab

from browser.visit import (
    RUN_MS,
    assert_shows_every_sample,
    points_shown,
    shifts_seen,
    wait_for_end,
    wait_for_points,
    watch_shifts,
)

WITHOUT_REPEATS = """\
name: Precision, seen in a browser
model: smollm2-135m-instruct
nodes: {names: [local]}
workload:
  kind: text
  input_len: {dist: fixed, tokens: 16}
  output_len: {dist: fixed, tokens: 8}
  arrival: {kind: closed, max_concurrency: 4}
  duration_s: 7
  warmup: {num_requests: 4}
  sampling: {temperature: 0.0, ignore_eos: true}
matrix: {engine.weights: [bf16, int8]}
baseline: {engine.weights: bf16}
budget: {max_run_seconds: 300}
repeats: """
REPEATS = 2
INTERVAL = re.compile(r"\d – \S*\d")


def test_an_experiment_is_written_watched_through_a_reload_and_compared(page: Page, lab: WholeLab) -> None:
    experiment_id = write_and_submit(page)
    run_id = watch_the_first_run_through_a_reload(page, lab)
    wait_for_end(page)
    assert_shows_every_sample(page, lab, run_id)
    expect(page.locator("#state .tag.succeeded")).to_be_visible()
    expect(page.get_by_role("heading", name="Percentiles")).to_be_visible()

    page.get_by_role("link", name="Precision, seen in a browser").click()
    expect(page.locator("#experiment-state")).to_have_text("done", timeout=RUN_MS)
    expect(page.locator("#progress-text")).to_have_text("4 of 4 runs ended")
    assert lab.get(f"/experiments/{experiment_id}")["counts"]["succeeded"] == 4, reasons_of(lab, experiment_id)
    expect(page.locator("#results .dot.succeeded[data-run-dot]")).to_have_count(4)
    page.locator("#results .dot[data-run-dot]").last.click()
    wait_for_end(page)
    assert_shows_every_sample(page, lab, int(page.url.split("/")[-2]))

    page.goto(f"/experiments/{experiment_id}/")
    open_comparison(page)
    assert_compares_as_the_api_does(page, lab, experiment_id)


def test_a_modelled_comparison_has_its_medians_and_says_what_they_are(page: Page, lab: WholeLab) -> None:
    document = {
        "name": "Modelled",
        "model": "smollm2-135m-instruct",
        "nodes": {"names": ["modelled"]},
        "workload": {"kind": "synthetic", "arrival": {"kind": "closed", "max_concurrency": 4}, "num_requests": 40},
        "matrix": {"engine.weights": ["bf16", "int8"]},
        "baseline": {"engine.weights": "bf16"},
        "repeats": 2,
    }
    experiment = lab.post("/experiments", document)
    # A server slow enough that runs end while the page still waits for the table.
    page.route("**/results", answer_late)
    page.goto(f"/experiments/{experiment['id']}/")
    expect(page.locator("#experiment-state")).to_have_text("done", timeout=RUN_MS)
    # The table has come without a reload, and its chart is drawn.
    expect(page.locator("#results .dot.succeeded[data-run-dot]")).to_have_count(4)
    expect(page.locator("#results tbody .num.lead small")).to_have_text([re.compile(r"\d – .*\d")] * 2)
    expect(page.locator("#results .chart .main-svg").first).to_be_visible()
    open_comparison(page)
    expect(page.locator("table.compare thead .tag.modelled")).to_have_count(2)
    for cell in cells(page, "Output throughput").all():
        expect(cell).to_contain_text(re.compile(r"\d ?k?.?tok/s"))
        expect(cell.locator("small").first).to_have_text(re.compile(r"\d – .*\d"))
    chart = page.locator(".chart .main-svg").first
    expect(chart).to_be_visible()
    page.get_by_label("Against").select_option(index=1)
    expect(page).to_have_url(re.compile(r"baseline=\d+"))
    expect(chart).to_be_visible()


def write_and_submit(page: Page) -> int:
    """The id of the experiment, submitted after its check has first objected and then agreed."""
    page.get_by_role("link", name="New", exact=True).click()
    editor, check = page.get_by_label("Document"), page.locator("#check")
    editor.fill(WITHOUT_REPEATS)
    expect(check).to_contain_text("Not ready")
    expect(check.locator(".errors code")).to_have_text(["repeats"])
    editor.press_sequentially(str(REPEATS))
    expect(check.get_by_role("heading")).to_have_text("4 runs")
    expect(check.locator("tbody td.mono")).to_have_text(["bf16", "int8"])
    page.get_by_role("button", name="Submit").click()
    expect(page).to_have_url(re.compile(r"/experiments/\d+/$"))
    expect(page.locator("[data-run-dot]")).to_have_count(4)
    return int(page.url.split("/")[-2])


def watch_the_first_run_through_a_reload(page: Page, lab: WholeLab) -> int:
    """From the experiment's page to the run that is under way; points come, and are all there again after a reload."""
    page.locator("#now a").first.click(timeout=RUN_MS)
    run_id = int(page.url.split("/")[-2])
    before = wait_for_points(page, 3)
    watch_shifts(page)
    assert wait_for_points(page, before + 6) > before
    assert shifts_seen(page) == []
    before = points_shown(page)
    page.reload()
    assert lab.run(run_id)["state"] == "running"
    assert wait_for_points(page, before) >= before
    return run_id


def reasons_of(lab: WholeLab, experiment_id: int) -> list[str]:
    trials = lab.get(f"/experiments/{experiment_id}")["trials"]
    return [run["reason"] for trial in trials for run in trial["runs"]]


def answer_late(route: Route) -> None:
    time.sleep(2)
    route.continue_()


def open_comparison(page: Page) -> None:
    page.get_by_role("main").get_by_role("link", name="Compare", exact=True).click()
    expect(page).to_have_url(re.compile(r"/compare/\?trials="))


def cells(page: Page, name: str) -> Locator:
    """The cells of the comparison's row of that name, one a trial."""
    row = page.locator("table.compare tr", has=page.get_by_role("rowheader", name=name, exact=True))
    return row.get_by_role("cell")


def assert_compares_as_the_api_does(page: Page, lab: WholeLab, experiment_id: int) -> None:
    """Each trial has its median and its interval, or the reasons why runs of it don't count: where this machine was
    busy with other things meanwhile, they must say so."""
    trials = lab.get(f"/compare?experiment={experiment_id}")["trials"]
    assert [trial["settings"] for trial in trials] == [{"engine.weights": weights} for weights in ("bf16", "int8")]
    for i, trial in enumerate(trials):
        for run in trial["runs"]:
            assert run["output_tokens"] > 0
            assert run["valid"] == (run["reasons"] == [])
        valid = sum(run["valid"] for run in trial["runs"])
        shown, throughput = cells(page, "Valid runs").nth(i), cells(page, "Output throughput").nth(i)
        expect(shown).to_contain_text(f"{valid} of {REPEATS}")
        for reason in {reason for run in trial["runs"] for reason in run["reasons"]}:
            expect(shown).to_contain_text(reason)
        if valid:
            expect(throughput).to_contain_text("tok/s")
            expect(throughput.locator("small").first).to_have_text(INTERVAL if valid > 1 else "single value")
