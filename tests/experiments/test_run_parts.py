"""Classes of traffic and stages on the run page: a row each, with the figures that are its own."""

from __future__ import annotations

from typing import Any

from django.template.loader import render_to_string

from experiments.run_parts import part_tables


def metrics(ok: float, ttft: float | None, **more: Any) -> dict[str, Any]:
    percentiles = {} if ttft is None else {"p95": {"value": ttft * 2, "enough": ok > 64}}
    return {
        "requests_ok": {"value": ok, "unit": "req", "n": int(ok), "percentiles": {}},
        "requests_failed": {"value": 0.0, "unit": "req", "n": int(ok), "percentiles": {}},
        "ttft": {"value": ttft, "unit": "s", "n": int(ok), "percentiles": percentiles},
        "goodput_share": {"value": None, "unit": "share", "n": int(ok), "percentiles": {}},
        **more,
    }


CLASSES = {"chat": metrics(100.0, 0.1), "batch": metrics(30.0, 0.4)}
WORKLOAD = {"classes": [{"name": "chat", "share": 0.75, "priority": -1}, {"name": "batch", "share": 0.25}]}


def test_a_run_of_one_kind_of_traffic_has_no_parts() -> None:
    assert part_tables({"metrics": {}}, {}) == []
    assert part_tables({"classes": {}, "stages": []}, {"classes": []}) == []


def test_each_class_says_its_share_and_only_columns_with_a_value_are_shown() -> None:
    (table,) = part_tables({"classes": CLASSES}, WORKLOAD)
    assert [(row["label"], row["about"]) for row in table["rows"]] == [
        ("chat", "75 % of the traffic, priority -1"),
        ("batch", "25 % of the traffic"),
    ]
    assert table["columns"] == ["TTFT"]
    assert [row["cells"][0]["few"] for row in table["rows"]] == [False, True]


def test_each_stage_says_its_time_and_its_level() -> None:
    stage = {"start_s": 3.0, "end_s": 13.0, "level": 4.0, "unit": "req/s", "metrics": metrics(40.0, 0.2)}
    (table,) = part_tables({"stages": [stage | {"ramp": "step"}, stage | {"ramp": "linear"}]}, {})
    assert [(row["label"], row["about"]) for row in table["rows"]] == [
        ("1", "10 s at 4 req/s"),
        ("2", "10 s ramping to 4 req/s"),
    ]


def test_a_tail_of_too_few_requests_is_greyed_and_a_modelled_figure_says_so() -> None:
    tables = part_tables({"classes": CLASSES}, WORKLOAD)
    shown = render_to_string("experiments/_parts.html", {"part_tables": tables, "modelled": True})
    assert shown.count("too few samples for p95: 30") == 1 and "too few samples for p95: 100" not in shown
    assert "; modelled" in shown and "<h2>Classes of traffic</h2>" in shown
