"""Filters and tags of the pages; what they write is decided in runners.display."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from django import template
from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from experiments.analysis.speculative import Band
from experiments.engine_names import engine_label
from experiments.models import Run
from experiments.predictions import prediction_of
from runners import display

register = template.Library()
register.filter("metric_name", display.name_of)
register.filter("about_metric", display.about_of)
register.filter("short_path", display.short_path)
register.filter("setting_value", display.setting_value)
register.filter("settings_label", display.settings_label)
register.filter("model_label", display.model_label)
register.filter("engine_label", engine_label)
register.filter("duration", display.duration)
register.filter("count", display.count)
register.filter("size", display.size)


@register.filter
def enters_admin(request: HttpRequest) -> bool:
    return admin.site.has_permission(request)


@register.filter
def figure(value: float | None, unit: str = "") -> str:
    return display.shown(value, unit)


@register.filter
def digits(value: float | None) -> str:
    return "–" if value is None else display.digits(value)


@register.filter
def between_samples(n: int, percentile: str) -> bool:
    """Whether a percentile (`p95`) of so many samples is interpolated between two of them."""
    place = (n - 1) * float(percentile[1:]) / 100
    return n > 0 and abs(place - round(place)) > 1e-9


@register.filter
def since(end: dt.datetime, start: dt.datetime) -> str:
    return display.duration((end - start).total_seconds())


@register.filter
def get(mapping: dict[str, Any], key: str) -> Any:
    return mapping.get(key)


@register.simple_tag
def interval(metric: dict[str, Any] | None, largest: float | None = None) -> SafeString:
    """A median with its interval beneath, or a dash: the inside of a table cell."""
    if not metric:
        return SafeString("–")
    scale = display.scale_for(metric["unit"], largest if largest is not None else metric["median"])
    value = display.shown(metric["median"], metric["unit"], scale)
    if metric.get("few") is not None:
        title = f"too few samples for this percentile: {metric['few']} in a run"
        value = format_html('<span class="few" title="{}">{}</span>', title, value)
    from_where = _from_where(metric)
    if metric.get("low") is None:
        return format_html("{}<small>{}</small>{}", value, metric.get("method") or "no interval", from_where)
    low, high = (display.digits(metric[end] * scale.factor) for end in ("low", "high"))
    return format_html("{}<small>{} – {}</small>{}", value, low, high, from_where)


def _from_where(metric: Mapping[str, Any]) -> SafeString:
    """That it is assumed, or of too few samples; of energy, what its power is from."""
    if metric.get("few") is not None:
        return format_html('<small class="few">of {} samples</small>', metric["few"])
    if metric.get("assumed"):
        return SafeString('<small><span class="tag assumed">assumed</span></small>')
    return format_html("<small>{}</small>", metric["source"]) if metric.get("source") else SafeString("")


@register.simple_tag
def band(bands: Mapping[str, Band], name: str, largest: float | None = None) -> SafeString:
    """What a figure that rests on stand-ins may be, from – to, or a dash: the inside of a table cell."""
    found = bands.get(name)
    if found is None:
        return SafeString("–")
    scale = display.scale_for(found.unit, largest if largest is not None else found.high)
    low = display.digits(found.low * scale.factor)
    return format_html("{} – {}<small>speculative band</small>", low, display.shown(found.high, found.unit, scale))


@register.simple_tag
def difference(row: dict[str, Any]) -> SafeString:
    """A difference with its sign, unit and interval beneath: the inside of a table cell."""
    ends = [abs(row[key]) for key in ("difference", "low", "high") if row[key] is not None]
    scale = display.scale_for(row["unit"], max(ends))
    value = display.with_sign(row["difference"] * scale.factor) + f"\u00a0{scale.unit}"
    if row["low"] is None:
        return format_html("{}<small>no interval</small>", value)
    low, high = (display.with_sign(row[end] * scale.factor) for end in ("low", "high"))
    return format_html("{}<small>{} … {}</small>", value, low, high)


@register.simple_tag
def signed(value: float | None) -> str:
    """A relative change in percent with its sign."""
    if value is None:
        return "–"
    return f"{display.with_sign(value * 100)}\u00a0%"


@register.simple_tag
def change(row: Mapping[str, Any]) -> SafeString:
    """A relative change with its interval, noise floor and n: no change is shown without them."""
    floor = (
        "no noise floor" if row["noise_floor"] is None else f"floor {display.digits(100 * row['noise_floor'])}\u00a0%"
    )
    if row["relative"] is None or row["low"] is None or not row["difference"]:
        return format_html("{}<small>no interval, {}, n {}</small>", signed(row["relative"]), floor, row["n"])
    low, high = (display.with_sign(100 * row["relative"] * row[end] / row["difference"]) for end in _ends(row))
    return format_html("{}<small>{} … {}, {}, n {}</small>", signed(row["relative"]), low, high, floor, row["n"])


def _ends(row: Mapping[str, Any]) -> tuple[str, str]:
    """Of a figure below 0 the ends of the relative interval are the other way round."""
    return ("low", "high") if (row["relative"] >= 0) == (row["difference"] >= 0) else ("high", "low")


@register.simple_tag
def residual(run: Run, metric: str) -> SafeString:
    """How far a measured run's figure is from what the cost model says, which is named as modelled: the inside of a
    table cell."""
    prediction = prediction_of(run)
    if prediction is None:
        return SafeString("–")
    beside = prediction.metrics.get(metric)
    if beside is None or beside.residual is None:
        return format_html('<small title="{}">no prediction</small>', prediction.why_not or "not predicted")
    value = display.shown(beside.predicted, beside.unit)
    return format_html("{}<small>of {} modelled, {}</small>", signed(beside.residual), value, prediction.state)


@register.filter
def allowed(value: Any) -> str:
    """What a field would take, in words: a list by commas, bounds as `ge 1`, choices of each key as `kind: a, b`."""
    if isinstance(value, list | tuple):
        return ", ".join(display.setting_value(item) for item in value)
    if isinstance(value, dict):
        lists = {key: item for key, item in value.items() if isinstance(item, list | tuple)}
        bounds = ", ".join(f"{key} {item}" for key, item in value.items() if key not in lists)
        return "; ".join([*([bounds] if bounds else []), *(f"{key}: {allowed(item)}" for key, item in lists.items())])
    return str(value)


@register.simple_tag
def scaled(value: float | None, unit: str, largest: float) -> str:
    """A figure in the unit that suits the largest one of its row."""
    return display.shown(value, unit, display.scale_for(unit, largest))


@register.simple_tag
def valid_count(trial: dict[str, Any]) -> str:
    return f"{sum(run['valid'] for run in trial['runs'])} of {len(trial['runs'])}"
