"""What a control's new value does to the document: the changes to make, by the control's name.

A value is taken as it was typed. Whether it is allowed the check of the document says, which names the field; a number
that is none is kept as text, so that nothing typed is lost.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from experiments.form.designs import add_step, remove_step, set_design, set_label, set_values
from experiments.form.kinds import COMPARED, KINDS, OPTIONAL, SHAPE, axes_of, kind_of, starts_of, usual
from experiments.form.planning import set_planned, set_planning
from experiments.form.rewrite import REMOVED, Change, apply
from experiments.form.scalars import scalar
from experiments.form.settings import Setting, default_kind, setting
from runners import shapes
from runners.document import SpecError, document_errors
from runners.dotted import read

EACH = "each request"
TYPED = "a shape of one’s own"
MOST_CHOICES = 5
ARRIVALS: dict[str, dict[str, Any]] = {
    "closed": {"kind": "closed", "max_concurrency": 8},
    "open": {"kind": "open", "request_rate": 1.0},
    "stages": {
        "kind": "stages",
        "stages": [{"duration_s": 60.0, "request_rate": 1.0}, {"duration_s": 60.0, "request_rate": 2.0}],
    },
}
LENGTHS: dict[str, dict[str, Any]] = {
    "fixed": {"dist": "fixed", "tokens": 128},
    "uniform": {"dist": "uniform", "min_tokens": 64, "max_tokens": 256},
    "lognormal": {"dist": "lognormal", "median_tokens": 128, "sigma": 0.5, "max_tokens": 1024},
}
COUNTS: dict[str, dict[str, Any]] = {
    "fixed": {"dist": "fixed", "count": 4},
    "uniform": {"dist": "uniform", "min_count": 2, "max_count": 8},
}
PAUSES: dict[str, dict[str, Any]] = {
    "fixed": {"dist": "fixed", "value_s": 1.0},
    "uniform": {"dist": "uniform", "min_s": 1.0, "max_s": 10.0},
    "exponential": {"dist": "exponential", "mean_s": 5.0, "max_s": 60.0},
    "lognormal": {"dist": "lognormal", "median_s": 5.0, "sigma": 0.5, "max_s": 60.0},
}
ENDS: dict[str, tuple[str, Any]] = {"num_requests": ("duration_s", 64), "duration_s": ("num_requests", 60.0)}

Document = Mapping[str, Any]


def changes_for(name: str, value: str, document: Document) -> list[Change]:
    """The changes that the control `name`, set to `value`, stands for. Raises KeyError for a control there is not."""
    kind, _, rest = name.partition(":")
    return _KINDS[kind](rest, value, document)


def _set(path: str, value: str, document: Document) -> list[Change]:
    """A plain setting. Emptied, it is taken out, so that the default holds."""
    keys = tuple(path.split("."))
    if not value.strip():
        return [Change(keys, REMOVED)]
    typed = _typed(value, setting(path, document))
    parent = ".".join(keys[:-1])
    kind = default_kind(parent) if parent and read(document, parent) is None else None
    # A length or an arrival that the document leaves out needs its kind beside the key.
    return [Change(keys, typed)] if kind is None else [Change(keys[:-1], {**kind, keys[-1]: typed})]


def _typed(value: str, about: Setting) -> Any:
    """The choice that reads like this, a number where one may stand, else the text."""
    for choice in about.choices:
        if _as_text(choice) == value.strip():
            return choice
    if about.takes_numbers or about.only_choices:
        return scalar(value)
    return value


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _nodes(rest: str, value: str, document: Document) -> list[Change]:
    """`kind=measured` and other labels, a node's name, or nothing for any node."""
    key, is_label, wanted = value.partition("=")
    if not value:
        return [Change(("nodes",), {})]
    return [Change(("nodes",), {"labels": {key: wanted}} if is_label else {"names": [value]})]


def _variant(variants: Mapping[str, dict[str, Any]]) -> Callable[[str, str, Document], list[Change]]:
    """Another kind of arrival or length: its keys with sensible values, and no axis over the keys of the old kind."""

    def change(path: str, value: str, document: Document) -> list[Change]:
        if value not in variants:
            return [Change((*path.split("."), "kind" if path.endswith("arrival") else "dist"), value)]
        gone = [axis for axis in axes_of(document) if axis.startswith(f"{path}.")]
        gone = [axis for axis in gone if axis.removeprefix(f"{path}.") not in variants[value]]
        kept = [change for axis in gone for change in _remove_axis(axis, document)]
        return [Change(tuple(path.split(".")), dict(variants[value])), *kept]

    return change


def _kind(path: str, value: str, document: Document) -> list[Change]:
    """Another kind of what keeps the keys of all kinds in one mapping: what it needs is added, what only the old one
    used goes, with the axes over it. Back at the first kind nothing of it stays."""
    key, uses = KINDS[path]
    used = uses.get(value, ()) if value else ()
    before = uses.get(kind_of(path, document), ())
    gone = [f"{path}.{one}" for one in before if one not in used]
    kept = [change for axis in axes_of(document) if _is_below(axis, gone) for change in _remove_axis(axis, document)]
    keys = tuple(path.split("."))
    if not value or value == next(iter(uses)):
        return [Change(keys, REMOVED), *kept]
    taken = [Change(tuple(one.split(".")), REMOVED) for one in gone if read(document, one) is not None]
    added = [Change((*keys, name), start) for name, start in starts_of(path, value, document).items()]
    return [Change((*keys, key), value), *taken, *added, *kept]


def _arrival(path: str, value: str, document: Document) -> list[Change]:
    """Another kind of arrival. Stages say themselves how long the load lasts; any other kind must be told."""
    changes = _variant(ARRIVALS)(path, value, document)
    given = [end for end in ENDS if read(document, f"workload.{end}") is not None]
    if value == "stages":
        axes = [f"workload.{end}" for end in ENDS if f"workload.{end}" in axes_of(document)]
        gone = [change for axis in axes for change in _remove_axis(axis, document)]
        return [*changes, *(Change(("workload", end), REMOVED) for end in given), *gone]
    if value in ARRIVALS and not given:
        return [*changes, Change(("workload", "num_requests"), ENDS["num_requests"][1])]
    return changes


def _is_below(axis: str, paths: list[str]) -> bool:
    return any(axis == path or axis.startswith(f"{path}.") for path in paths)


def _optional(path: str, value: str, document: Document) -> list[Change]:
    """What a document may leave out altogether: there with values to start from, or gone with the axes over it."""
    start = OPTIONAL[path]
    if value:
        return [Change(tuple(path.split(".")), dict(start))]
    axes = [axis for axis in axes_of(document) if _is_below(axis, [path])]
    kept = [change for axis in axes for change in _remove_axis(axis, document)]
    parent = read(document, path.rpartition(".")[0])
    alone = path.startswith("engine.prefix_tiers.") and isinstance(parent, Mapping) and len(parent) == 1
    return [Change(tuple(path.split("."))[: -1 if alone else None], REMOVED), *kept]


def _model(rest: str, value: str, document: Document) -> list[Change]:
    """A model by its name; or TYPED, a shape of one's own, which starts as the published one that was named."""
    if value != TYPED:
        axes = [axis for axis in axes_of(document) if _is_below(axis, ["model.shape"])]
        kept = [change for axis in axes for change in _remove_axis(axis, document)]
        return [Change(("model",), value or REMOVED), *kept]
    if isinstance(read(document, "model.shape"), Mapping):
        return []
    named = document.get("model")
    shape = {"like": named} if named in shapes.names() else dict(SHAPE)
    return [Change(("model",), {"shape": shape})]


def _end(rest: str, value: str, document: Document) -> list[Change]:
    """Whether requests or seconds end the workload: one key for the other."""
    other, start = ENDS[value]
    gone = _remove_axis(f"workload.{other}", document) if f"workload.{other}" in axes_of(document) else []
    return [Change(("workload", other), REMOVED), Change(("workload", value), start), *gone]


def _slo(name: str, value: str, document: Document) -> list[Change]:
    """`ttft_s` is the objective in seconds, `ttft_s.of` what it binds: each request, or a percentile."""
    key, _, part = name.partition(".")
    present = read(document, f"slo.{key}")
    bound, seconds = objective(present)
    if part:
        return [Change(("slo", key), seconds if value == EACH else {value: seconds})] if seconds is not None else []
    if not value.strip():
        return [Change(("slo", key), REMOVED)]
    return [Change(("slo", key), scalar(value) if bound == EACH else {bound: scalar(value)})]


def objective(value: Any) -> tuple[str, Any]:
    """What an objective binds, and its seconds; of several percentiles the first."""
    if isinstance(value, Mapping):
        return next(iter(value.items()), (EACH, None))
    return EACH, value


def _tags(rest: str, value: str, document: Document) -> list[Change]:
    tags = [tag.strip() for tag in value.split(",") if tag.strip()]
    return [Change(("tags",), tags or REMOVED)]


# The matrix


def values_of(text: str) -> list[Any]:
    """The values of an axis as typed, parted by commas."""
    return [scalar(part) for part in text.split(",") if part.strip()]


def _axis(path: str, value: str, document: Document) -> list[Change]:
    """An axis's values. Without any, the axis goes; a baseline or an exclusion of a value that is gone goes too."""
    values = values_of(value)
    if not values:
        return _remove_axis(path, document)
    return [Change(("matrix", path), values), *_forget(path, document, values)]


def _remove(path: str, value: str, document: Document) -> list[Change]:
    return _remove_axis(path, document)


def _remove_axis(path: str, document: Document) -> list[Change]:
    rest = {axis for axis in axes_of(document) if axis != path}
    return [Change(("matrix", path) if rest else ("matrix",), REMOVED), *_forget(path, document, [])]


def _forget(path: str, document: Document, values: list[Any]) -> list[Change]:
    """Takes out of `baseline` and `exclude` what names values of the axis that are not there any more."""

    def stays(rule: Any) -> bool:
        return not isinstance(rule, Mapping) or path not in rule or rule[path] in values

    changes = []
    baseline = document.get("baseline")
    if isinstance(baseline, Mapping) and not stays(baseline):
        changes.append(Change(("baseline", path) if len(baseline) > 1 else ("baseline",), REMOVED))
    exclude = document.get("exclude")
    if isinstance(exclude, list) and not all(stays(rule) for rule in exclude):
        kept = [rule for rule in exclude if stays(rule)]
        changes.append(Change(("exclude",), kept or REMOVED))
    return changes


def _add_axis(rest: str, value: str, document: Document) -> list[Change]:
    """An axis over a path, with values to start from. A length that the document leaves out gets its kind with it."""
    if not value:
        return []
    parent = value.rpartition(".")[0]
    kind = default_kind(parent) if parent and read(document, parent) is None else None
    left_out = [] if kind is None else [Change(tuple(parent.split(".")), kind)]
    return [*left_out, Change(("matrix", value), start_values(setting(value, document), document))]


def _add_step(rest: str, value: str, document: Document) -> list[Change]:
    """A step that sets a path to the second of the values from which an axis over it would start: the other one."""
    values = start_values(setting(value, document), document) if value else [None]
    return add_step(rest, value, document, values[-1])


def start_values(about: Setting, document: Document) -> list[Any]:
    """All choices, of many the present one and the next, each if it goes with the rest of the document; or the present
    number and its double (its half, where the double is too large)."""
    present = read(document, about.path)
    value = usual(about.path, document) if present is None else present
    value = about.default if value is None else value
    if about.only_choices:
        return _fitting(about, value, document)
    key = about.path.rpartition(".")[2]
    if key in COMPARED and not value:
        return list(COMPARED[key])
    if isinstance(value, int | float) and not isinstance(value, bool):
        shrinks = value * 2 > about.most or key.startswith("min_")
        other = (value // 2 if isinstance(value, int) else value / 2) if shrinks else value * 2
        return [value, other if value else 1]
    return [1] if value is None or isinstance(value, list | dict) else [value]


def _fitting(about: Setting, present: Any, document: Document) -> list[Any]:
    choices = list(about.choices)
    if len(choices) > MOST_CHOICES:
        at = choices.index(present) if present in choices else 0
        choices = [choices[at], choices[(at + 1) % len(choices)]]
    known = _faults(document)
    fit = [choice for choice in choices if _faults(_with(document, about.path, choice)) <= known]
    return fit or choices


def _with(document: Document, path: str, value: Any) -> Document:
    changed = copy.deepcopy(dict(document))
    apply(changed, Change(tuple(path.split(".")), value))
    return changed


def _faults(document: Document) -> set[tuple[str, str]]:
    try:
        _, found = document_errors(document)
    except SpecError as error:
        return {(fault.field, fault.message) for fault in error.errors}
    return {(one.error.field, one.error.message) for one in found}


_KINDS: dict[str, Callable[[str, str, Document], list[Change]]] = {
    "set": _set,
    "nodes": _nodes,
    "arrival": _arrival,
    "count": _variant(COUNTS),
    "pause": _variant(PAUSES),
    "length": _variant(LENGTHS),
    "kind": _kind,
    "optional": _optional,
    "model": _model,
    "end": _end,
    "slo": _slo,
    "tags": _tags,
    "axis": _axis,
    "axis-remove": _remove,
    "axis-add": _add_axis,
    "design": set_design,
    "planning": set_planning,
    "planned": set_planned,
    "step-label": set_label,
    "step-set": set_values,
    "step-remove": remove_step,
    "step-add": _add_step,
}
