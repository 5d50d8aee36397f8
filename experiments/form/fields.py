"""The form as the page draws it: groups of fields with their values, read from the document.

A field's name says to experiments.form.changes what its change does. A setting that is an axis of the matrix is
shown there and can't be set twice; a value that a control can't show is left to the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.form.changes import ARRIVALS, EACH, ENDS, LENGTHS, axes_of, objective, read
from experiments.form.offer import Offer
from experiments.form.settings import Setting, axis_settings, leaves, setting
from runners.display import setting_value
from runners.document import FieldError

PERCENTILES = (EACH, "p50", "p90", "p95", "p99")
OBJECTIVES = (("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("e2el_s", "E2EL"))
LABELS = {
    "tokens": "Tokens",
    "min_tokens": "From",
    "max_tokens": "To at most",
    "median_tokens": "Median",
    "sigma": "Sigma of the log",
    "max_concurrency": "Users at once",
    "request_rate": "Request rate",
    "burstiness": "Burstiness",
}
UNITS = {"request_rate": "req/s"}


@dataclass(frozen=True)
class Option:
    value: str
    label: str


@dataclass(frozen=True)
class Field:
    """`state` says why it can't be changed here: it is an axis (`compared`), or written otherwise (`text`)."""

    name: str
    path: str
    label: str
    value: str = ""
    options: tuple[Option, ...] = ()
    unit: str = ""
    default: str = ""
    state: str = ""
    wide: bool = False
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Axis:
    path: str
    values: str
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    title: str
    fields: tuple[Field, ...]
    note: str = ""
    in_pairs: bool = False


@dataclass(frozen=True)
class Form:
    """`readable` is False where the text is no mapping, so that there is nothing to show."""

    groups: tuple[Group, ...] = ()
    axes: tuple[Axis, ...] = ()
    addable: tuple[str, ...] = ()
    readable: bool = True

    @property
    def controls(self) -> list[Field]:
        """Every control that a browser sends, those of the axes among them."""
        fields = [field for group in self.groups for field in group.fields]
        axes = [Field(f"axis:{axis.path}", axis.path, axis.path, axis.values) for axis in self.axes]
        return [*fields, *axes, Field("axis-add:", "matrix", "")]


def draw_form(document: Mapping[str, Any], offer: Offer, faults: Sequence[FieldError] = ()) -> Form:
    """The form of a parsed document, which may be incomplete or wrong; each fault stands at its field."""
    drawing = _Drawing(document, faults)
    groups = (
        Group("Question", (drawing.text("name", "Name"), drawing.text("question", "Question"), drawing.tags())),
        Group("What runs where", tuple(drawing.places(offer))),
        Group("Arrivals", tuple(drawing.arrivals()), "who sends requests, and how many"),
        Group("Prompts and answers", tuple(drawing.lengths()), "in tokens"),
        Group("Service objective", tuple(drawing.objectives()), "in seconds; empty where there is none", True),
        Group("Engine", tuple(drawing.plain(one) for one in leaves("engine", document)), "of every trial"),
        Group("Repeats and limits", tuple(drawing.limits())),
    )
    addable = tuple(one.path for one in axis_settings(document) if drawing.is_addable(one.path))
    return Form(groups, tuple(drawing.axis(path) for path in drawing.axes), addable)


class _Drawing:
    def __init__(self, document: Mapping[str, Any], faults: Sequence[FieldError]) -> None:
        self.document = document
        self.axes = axes_of(document)
        self._faults = faults

    # Single fields

    def text(self, path: str, label: str) -> Field:
        return self._field(f"set:{path}", path, label, wide=True)

    def plain(self, about: Setting, label: str = "", unit: str = "") -> Field:
        options: tuple[Option, ...] = ()
        if about.only_choices:
            options = tuple(_option(choice) for choice in about.choices)
        default = "" if about.default is None else _option(about.default).label
        label = label or about.path.split(".")[-1]
        return self._field(f"set:{about.path}", about.path, label, options=options, default=default, unit=unit)

    def setting(self, path: str, label: str = "", unit: str = "") -> Field:
        return self.plain(setting(path, self.document), label, unit)

    def tags(self) -> Field:
        tags = self.document.get("tags")
        value = ", ".join(str(tag) for tag in tags) if isinstance(tags, list) else ""
        return self._field("tags:", "tags", "Tags", value=value, wide=True, default="none; parted by commas")

    def axis(self, path: str) -> Axis:
        values = self.axes[path]
        shown = ", ".join(setting_value(value) for value in values) if isinstance(values, list) else str(values)
        return Axis(path, shown, (*self._errors(f"matrix.{path}"), *self._errors(path)))

    def is_addable(self, path: str) -> bool:
        """Not an axis yet, and of the two ends of a workload the one that the document has."""
        parent, _, key = path.rpartition(".")
        other_end = parent == "workload" and key in ENDS and read(self.document, path) is None
        return path not in self.axes and not other_end

    def model(self, offer: Offer) -> Field:
        return self._field("set:model", "model", "Model", options=tuple(Option(name, name) for name in offer.models))

    def chip(self, offer: Offer) -> Field:
        options = (Option("any", "any"), *(Option(name, name) for name in offer.chips))
        return self._field("set:chip", "chip", "Chip", options=options, default="any")

    def nodes(self, offer: Offer) -> Field:
        nodes = self.document.get("nodes")
        labels = nodes.get("labels") if isinstance(nodes, Mapping) else None
        names = nodes.get("names") if isinstance(nodes, Mapping) else None
        value, state = "", "" if nodes in (None, {}) else "text"
        if isinstance(labels, Mapping) and len(labels) == 1 and not names:
            ((key, wanted),) = labels.items()
            value, state = f"{key}={wanted}", ""
        elif isinstance(names, list) and len(names) == 1 and not labels:
            value, state = str(names[0]), ""
        options = [Option("", "any node of one kind")]
        options += [Option(f"{key}={one}", f"{key}: {one}") for key, found in offer.labels.items() for one in found]
        options += [Option(name, name) for name in offer.nodes]
        return self._field("nodes:", "nodes", "Nodes", value=value, options=tuple(options), state=state)

    # Groups

    def places(self, offer: Offer) -> list[Field]:
        speculative = self.setting("allow_speculative", "Allow chips whose vendors have not disclosed all")
        return [self.model(offer), self.nodes(offer), self.chip(offer), speculative]

    def arrivals(self) -> list[Field]:
        kind = read(self.document, "workload.arrival.kind")
        end = next((one for one in ENDS if read(self.document, f"workload.{one}") is not None), "num_requests")
        return [
            self.setting("workload.kind", "Text"),
            self._field("arrival:workload.arrival", "workload.arrival.kind", "Arrivals", options=_kinds(ARRIVALS)),
            *(self._below("workload.arrival", key) for key in self._keys("workload.arrival", ARRIVALS, kind)),
            self._field("end:", "workload", "Ends after", value=end, options=_END_OPTIONS),
            self.setting(f"workload.{end}", *_ENDS_SHOWN[end]),
            self.setting("workload.warmup.num_requests", "Warm-up requests"),
            self.setting("workload.sampling.temperature", "Temperature"),
            self.setting("workload.sampling.ignore_eos", "Ignore end of text"),
        ]

    def lengths(self) -> list[Field]:
        fields = []
        for path, label in (("workload.input_len", "Prompt"), ("workload.output_len", "Answer")):
            kind = read(self.document, f"{path}.dist")
            options = _kinds(LENGTHS)
            default = "fixed" if read(self.document, path) is None else ""
            fields.append(self._field(f"length:{path}", f"{path}.dist", label, options=options, default=default))
            fields += [self._below(path, key, label) for key in self._keys(path, LENGTHS, kind)]
        return fields

    def objectives(self) -> list[Field]:
        fields = []
        for key, label in OBJECTIVES:
            path = f"slo.{key}"
            bound, seconds = objective(read(self.document, path))
            value = "" if seconds is None else setting_value(seconds)
            fields.append(self._field(f"slo:{key}", path, label, value=value, unit="s"))
            options = tuple(Option(one, one) for one in PERCENTILES)
            of = self._field(f"slo:{key}.of", f"{path}.of", f"{label} binds", value=bound, options=options)
            fields.append(of)
        return fields

    def limits(self) -> list[Field]:
        return [
            self.setting("repeats", "Repeats"),
            self.setting("seed", "Seed"),
            self.setting("retries", "Retries of a run"),
            self.setting("budget.max_runs", "Runs at most"),
            self.setting("budget.max_seconds", "Experiment at most", "s"),
            self.setting("budget.max_run_seconds", "One run at most", "s"),
        ]

    def _below(self, parent: str, key: str, of: str = "") -> Field:
        label = LABELS.get(key, key)
        shown = f"{of}: {label.lower()}" if of else label
        return self.setting(f"{parent}.{key}", shown, UNITS.get(key, ""))

    def _keys(self, path: str, variants: Mapping[str, Mapping[str, Any]], kind: Any) -> list[str]:
        if kind is None and read(self.document, path) is None:
            kind = next(iter(variants)) if variants is ARRIVALS else "fixed"
        known = {one.path.rsplit(".", 1)[-1] for one in leaves("workload", self.document) if one.path.startswith(path)}
        return sorted(known, key=list(LABELS).index) if kind in variants else []

    def _field(
        self,
        name: str,
        path: str,
        label: str,
        *,
        value: str | None = None,
        options: tuple[Option, ...] = (),
        unit: str = "",
        default: str = "",
        state: str = "",
        wide: bool = False,
    ) -> Field:
        if value is None:
            found = read(self.document, path)
            if isinstance(found, list | dict):
                value, state = "", "text"
            else:
                value = "" if found is None else setting_value(found)
        if path in self.axes:
            value, state = "", "compared"
        if options and value and value not in {option.value for option in options}:
            options = (*options, Option(value, value))
        return Field(name, path, label, value, options, unit, default, state, wide, self._errors(path))

    def _errors(self, path: str) -> tuple[str, ...]:
        return tuple(fault.message for fault in self._faults if fault.field == path)


_END_OPTIONS = (Option("num_requests", "a number of requests"), Option("duration_s", "a time"))
_ENDS_SHOWN = {"num_requests": ("Requests", ""), "duration_s": ("Duration", "s")}


def _option(choice: Any) -> Option:
    shown = ("on" if choice else "off") if isinstance(choice, bool) else setting_value(choice)
    return Option(setting_value(choice), shown)


def _kinds(variants: Mapping[str, Any]) -> tuple[Option, ...]:
    return tuple(Option(kind, kind) for kind in variants)
