"""What a comparison, a run on its way and a sample look like at a terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from runners.cli.bottleneck import bottleneck_view
from runners.cli.compare import assumed_of, comparison_view
from runners.cli.errors import WrongUse
from runners.cli.progress import Bars, Lines, change_text, figures_text
from runners.cli.tables import chips_text, counts_text, figures_table, run_view, runs_table

BASELINE, CHANGED = {"engine.weights": "bf16"}, {"engine.weights": "int8"}


def trial(settings: dict[str, Any], low: float | None = 90.0, **more: Any) -> dict[str, Any]:
    throughput = {"median": 100.0, "low": low, "high": None if low is None else 110.0, "n": 3, "unit": "tok/s"}
    return {
        "experiment_id": 1, "settings": settings, "runs": [{"id": 7, "valid": True}], "modelled": False,
        "baseline": False, "metrics": {"output_throughput": throughput}, **more,
    }  # fmt: skip


def difference(low: float | None, high: float | None, is_difference: bool, mixed: bool = False) -> dict[str, Any]:
    return {
        "metric": "output_throughput", "settings": CHANGED, "relative": 0.25, "low": low, "high": high, "n": 3,
        "noise_floor": 0.1, "is_difference": is_difference, "method": "paired t", "mixes_modelled": mixed,
    }  # fmt: skip


def printed(renderable: Any) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(renderable)
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def shown(trials: list[Any], differences: list[Any], metric: str = "output_throughput") -> str:
    metrics = {metric: {"unit": "tok/s", "more_is_better": True}}
    return printed(comparison_view({"trials": trials, "differences": differences, "metrics": metrics}, [metric]))


def test_a_figure_is_shown_with_its_interval_and_without_one_where_there_is_none() -> None:
    text = shown([trial(BASELINE), trial(CHANGED, None)], [])
    assert "100 [90.0, 110]" in text
    assert text.count("[") == 2  # that one, and the title's


def test_a_figure_that_was_not_measured_is_a_dash_never_zero() -> None:
    row = shown([trial(BASELINE)], [], "ttft").splitlines()[2]
    assert "–" in row
    assert " 0 " not in row


def test_a_figure_of_too_few_samples_and_an_assumed_price_say_so() -> None:
    few = trial(CHANGED)
    few["metrics"]["output_throughput"] |= {"few": 12, "assumed": True}
    text = shown([few], [])
    assert "(of 12 samples alone)" in text
    assert "price or power assumed" in text


def test_what_is_assumed_is_sent_as_an_address_has_it() -> None:
    assert assumed_of(["a=2.5"], ["a=300", "b=40"]) == {
        "usd_per_hour[a]": "2.5", "watts[a]": "300", "watts[b]": "40",
    }  # fmt: skip
    with pytest.raises(WrongUse, match=r"--watts 'a'.*NODE=NUMBER"):
        assumed_of(None, ["a"])


def test_a_runs_bottleneck_is_told_with_its_arguments_and_what_to_compare() -> None:
    cause = {"kind": "queue", "name": "Queue: too few seats", "score": 0.9, "says": "90 % of the time"}
    found = {"kind": "queue", "name": cause["name"], "causes": [cause], "why_not": "", "modelled": True,
             "suggests": {"engine.max_num_seqs": [1, 2]}}  # fmt: skip
    text = printed(bottleneck_view(found))
    assert "Held up by: Queue: too few seats (modelled)" in text
    assert "compare engine.max_num_seqs: 1, 2" in text
    none = found | {"kind": None, "name": None, "causes": [], "why_not": "not enough evidence", "suggests": None}
    assert "No bottleneck (modelled): not enough evidence" in printed(bottleneck_view(none))
    assert printed(bottleneck_view(None)).strip() == ""


def test_a_modelled_trial_says_so() -> None:
    assert "weights int8 (modelled, baseline)" in shown([trial(CHANGED, modelled=True, baseline=True)], [])


@pytest.mark.parametrize(("is_difference", "verdict"), [(True, "a difference"), (False, "within the noise")])
def test_a_difference_is_called_one_only_where_the_lab_does(is_difference: bool, verdict: str) -> None:
    text = shown([], [difference(5.0, 45.0, is_difference)])
    assert "+25.0%" in text
    assert "5.00 … 45.0 tok/s" in text
    assert verdict in text


def test_a_difference_of_measured_and_modelled_figures_says_so() -> None:
    assert "a difference (measured against modelled)" in shown([], [difference(5.0, 45.0, True, mixed=True)])


def test_without_an_interval_the_verdict_is_that_there_is_none() -> None:
    assert "too few valid runs to say" in shown([], [difference(None, None, False)])
    uncalibrated = difference(None, None, False) | {"method": "uncalibrated"}
    assert "modelled error is not known" in shown([], [uncalibrated])


def test_runs_that_did_not_succeed_are_counted_beside_those_that_ended() -> None:
    counts = {"queued": 2, "assigned": 0, "running": 1, "succeeded": 3, "failed": 1, "cancelled": 0}
    assert counts_text(counts) == "4 of 7 (1 failed)"


def run(**changes: Any) -> dict[str, Any]:
    return {
        "id": 7, "state": "running", "valid": None, "reasons": [], "reason": "", "node": "alpha", "modelled": False,
        "repeat": 0, **changes,
    }  # fmt: skip


def test_a_runs_end_is_told_in_a_line_without_what_could_steer_the_terminal() -> None:
    ended = run(state="failed", valid=False, reasons=["too_few_requests"], reason="a\x1b[1m\nb", modelled=True)
    assert change_text(ended) == "run 7 failed on alpha (modelled): invalid (too_few_requests): a [1m b"


def test_a_sample_is_told_with_its_phase_and_that_it_is_modelled() -> None:
    sample = {"interval_s": 0.25, "output_tokens": 10, "in_flight": 2, "itl_p50_s": 0.0123, "phase": "warmup"}
    assert figures_text(run(modelled=True), sample) == "modelled: warming up, 40.0 tok/s, 2 in flight, ITL 12.3 ms"
    assert figures_text(run(), None) == "starting"
    assert figures_text(run(state="assigned"), None) == "assigned"


@pytest.mark.parametrize("view", [Bars, Lines])
def test_an_experiment_is_shown_from_its_first_run_to_its_last(view: Any) -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=view is Bars)
    live = view(console)
    for state, valid in [("queued", None), ("running", None), ("succeeded", None), ("succeeded", True)]:
        trials = [{"settings": CHANGED, "runs": [run(state=state, valid=valid)]}]
        live.update({"id": 3, "state": "active", "trials": trials}, {7: None})
    live.close()
    output = console.file
    assert isinstance(output, io.StringIO)
    assert "run 7 succeeded on alpha" in output.getvalue()


def test_a_runs_percentiles_and_reasons_are_shown() -> None:
    tail = {"p50": {"value": 0.5, "enough": True}, "p99": {"value": 0.9, "enough": False}}
    summary = {
        "metrics": {"ttft": {"value": 0.5, "unit": "s", "n": 9, "percentiles": tail}},
        "reasons": [{"code": "node_shared", "message": "others used 40 % of the CPU"}],
    }
    more = {"phase": "done", "trial": {"settings": CHANGED}, "experiment": {"id": 1, "name": "x"}, "started_at": None,
            "ended_at": "2026-11-30T12:00:00Z", "url": "http://lab/runs/7/", "summary": summary,
            "spec": {"model": {"name": "shape-1", "random_weights": True}}, "prediction": None}  # fmt: skip
    trace = {"requests": 80, "clipped_requests": 4, "lost_input_tokens": 900, "lost_output_tokens": 7}
    more |= {"imported": True, "attempts": [{"report": {"client": {"trace": trace}}}]}
    text = printed(run_view(run(valid=False, **more)))
    for part in (
        "not valid: node_shared",
        "others used 40 %",
        "0.500",
        "0.900",
        "weights int8",
        "shape-1 (random weights)",
        "from another tool or lab",
        "4 of 80 requests clipped to what the model takes: prompts by 900 tokens in all, answers by 7",
    ):
        assert part in text
    for odd in ([], [{"report": None}], [{"report": {"client": {"trace": "x"}}}]):
        assert "clipped" not in printed(run_view(run(**more | {"attempts": odd})))


def test_figures_stand_in_the_order_of_the_pages_whatever_order_they_came_in() -> None:
    figures = {
        name: {"value": 1.0, "unit": "s", "n": 9, "percentiles": {}} for name in ("window", "new", "itl", "ttft")
    }
    shown_names = [row.split()[0] for row in printed(figures_table(figures)).splitlines()[1:]]
    assert shown_names == ["ttft", "itl", "window", "new"]


def test_repeats_are_counted_from_one_as_on_the_pages() -> None:
    one = run(trial={"settings": CHANGED}, experiment={"id": 1, "name": "x"}, repeat=0)
    (row,) = printed(runs_table([one])).splitlines()[1:]
    assert " 1  alpha " in row


def test_a_node_shows_its_chip_or_the_pools_that_it_offers() -> None:
    pools = [{"chip": "h100-sxm", "count": 1024}, {"chip": "any", "count": 8}]
    assert chips_text({"chip_name": "H100", "pools": pools}) == "1,024 × h100-sxm, 8 × any"
    assert chips_text({"chip_name": "A Fine CPU", "pools": []}) == "A Fine CPU"
