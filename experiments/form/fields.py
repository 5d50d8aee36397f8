"""The form as the page draws it: groups of fields with their values, read from the document.

Here are what is asked, where it runs, the workload and its limits; engines and chips are in experiments.form.systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.form.changes import ARRIVALS, COUNTS, EACH, ENDS, LENGTHS, PAUSES, TYPED, objective
from experiments.form.drawing import LABELS, Drawing
from experiments.form.drawn_design import draw_design
from experiments.form.drawn_planning import draw_planning
from experiments.form.kinds import workloads_in_use
from experiments.form.offer import Offer
from experiments.form.parts import Axis, Field, Form, Group, Option
from experiments.form.settings import axis_settings, leaves
from experiments.form.systems import engine_groups, placement_groups, shape_groups
from runners.display import setting_value
from runners.document import FieldError
from runners.dotted import read

__all__ = ["Axis", "Field", "Form", "Group", "Option", "draw_form"]

PERCENTILES = (EACH, "p50", "p90", "p95", "p99")
OBJECTIVES = (("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("e2el_s", "E2EL"))
_END_OPTIONS = (Option("num_requests", "a number of requests"), Option("duration_s", "a time"))
_ENDS_SHOWN = {"num_requests": ("Requests", ""), "duration_s": ("Duration", "s")}

BY_HAND = ("engine.kind", "engine.name")
"""Which engines there are, a node's operator says: values to begin with can't be offered."""


def draw_form(document: Mapping[str, Any], offer: Offer, faults: Sequence[FieldError] = ()) -> Form:
    """The form of a parsed document, which may be incomplete or wrong; each fault stands at its field."""
    drawing = Drawing(document, faults)
    groups = (
        Group("Question", (drawing.text("name", "Name"), drawing.text("question", "Question"), _tags(drawing))),
        Group("What runs where", tuple(_places(drawing, offer))),
        *shape_groups(drawing, offer),
        Group("Arrivals", tuple(_arrivals(drawing)), "who sends requests, and how many"),
        *_session_groups(drawing),
        Group("Prompts and answers", tuple(_lengths(drawing)), "in tokens"),
        Group("Service objective", tuple(_objectives(drawing)), "in seconds; empty where there is none", True),
        *engine_groups(drawing, offer),
        *placement_groups(drawing, offer),
        Group("Repeats and limits", tuple(_limits(drawing))),
    )
    addable = tuple(
        one.path for one in axis_settings(document) if one.path not in BY_HAND and drawing.is_addable(one.path)
    )
    design = draw_design(drawing, addable, faults)
    return Form(groups, tuple(drawing.axis(path) for path in drawing.axes), addable, design)


def _tags(drawing: Drawing) -> Field:
    tags = drawing.document.get("tags")
    value = ", ".join(str(tag) for tag in tags) if isinstance(tags, list) else ""
    return drawing.field("tags:", "tags", "Tags", value=value, wide=True, default="none; parted by commas")


def _places(drawing: Drawing, offer: Offer) -> list[Field]:
    chip = drawing.choice("chip", "Chip", offer.chips, default="any")
    speculative = drawing.setting("allow_speculative", "Allow chips whose vendors have not disclosed all")
    return [_model(drawing, offer), _nodes(drawing, offer), chip, speculative]


def _model(drawing: Drawing, offer: Offer) -> Field:
    options = [Option(name, name, "With weights") for name in offer.models]
    options += [Option(name, name, "Published shapes, random weights") for name in offer.shapes]
    options.append(Option(TYPED, TYPED, "Published shapes, random weights"))
    typed = isinstance(read(drawing.document, "model.shape"), Mapping)
    return drawing.field("model:", "model", "Model", value=TYPED if typed else None, options=tuple(options))


def _nodes(drawing: Drawing, offer: Offer) -> Field:
    nodes = drawing.document.get("nodes")
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
    return drawing.field("nodes:", "nodes", "Nodes", value=value, options=tuple(options), state=state)


def _arrivals(drawing: Drawing) -> list[Field]:
    kind = read(drawing.document, "workload.arrival.kind")
    end = next((one for one in ENDS if read(drawing.document, f"workload.{one}") is not None), "num_requests")
    return [
        drawing.setting("workload.kind", "Workload"),
        drawing.field("arrival:workload.arrival", "workload.arrival.kind", "Arrivals", options=_kinds(ARRIVALS)),
        *(drawing.below("workload.arrival", key) for key in _keys(drawing, "workload.arrival", ARRIVALS, kind)),
        *(() if kind == "stages" else _end(drawing, end)),
        drawing.setting("workload.warmup.num_requests", "Warm-up requests"),
        drawing.setting("workload.sampling.temperature", "Temperature"),
        drawing.setting("workload.sampling.ignore_eos", "Ignore end of text"),
    ]


def _end(drawing: Drawing, end: str) -> tuple[Field, ...]:
    return (
        drawing.field("end:", "workload", "Ends after", value=end, options=_END_OPTIONS),
        drawing.setting(f"workload.{end}", *_ENDS_SHOWN[end]),
    )


def _session_groups(drawing: Drawing) -> list[Group]:
    """How requests follow each other, where the workload is of sessions."""
    kinds, groups = workloads_in_use(drawing.document), []
    if "conversation" in kinds:
        path = "workload.conversation"
        fields = [
            *_variants(drawing, "count", f"{path}.turns", "Turns", COUNTS),
            *_variants(drawing, "pause", f"{path}.think_time_s", "Think time", PAUSES),
        ]
        groups.append(Group("Conversations", tuple(fields), "a person’s turns, each with all before it"))
    if "agent" in kinds:
        path = "workload.agent"
        fields = [
            *_variants(drawing, "count", f"{path}.calls", "Calls", COUNTS),
            *_variants(drawing, "pause", f"{path}.tool_time_s", "Tool time", PAUSES),
            *_variants(drawing, "length", f"{path}.tool_result_tokens", "Tool result", LENGTHS),
            drawing.setting(f"{path}.fan_out", "Side by side"),
        ]
        groups.append(Group("Agents’ tasks", tuple(fields), "calls of the model, with tools in between"))
    return groups


def _variants(
    drawing: Drawing, control: str, path: str, label: str, variants: Mapping[str, dict[str, Any]]
) -> list[Field]:
    """A distribution: which one, and its keys."""
    kind = read(drawing.document, f"{path}.dist")
    default = "fixed" if read(drawing.document, path) is None else ""
    chosen = drawing.field(f"{control}:{path}", f"{path}.dist", label, options=_kinds(variants), default=default)
    return [chosen, *(drawing.below(path, key, label) for key in _keys(drawing, path, variants, kind))]


def _lengths(drawing: Drawing) -> list[Field]:
    fields = []
    for path, label in (("workload.input_len", "Prompt"), ("workload.output_len", "Answer")):
        fields += _variants(drawing, "length", path, label, LENGTHS)
    shared = "workload.shared_prefix"
    fields.append(drawing.optional(shared, "Shared prefix"))
    if read(drawing.document, shared) is not None:
        fields += [drawing.below(shared, key) for key in ("groups", "prefix_tokens", "share")]
    thinking = "workload.thinking"
    fields.append(drawing.optional(thinking, "Thinking"))
    if read(drawing.document, thinking) is not None:
        fields += [drawing.below(thinking, key) for key in ("factor", "effort", "in_history")]
    return fields


def _objectives(drawing: Drawing) -> list[Field]:
    fields = []
    for key, label in OBJECTIVES:
        path = f"slo.{key}"
        bound, seconds = objective(read(drawing.document, path))
        value = "" if seconds is None else setting_value(seconds)
        fields.append(drawing.field(f"slo:{key}", path, label, value=value, unit="s"))
        options = tuple(Option(one, one) for one in PERCENTILES)
        fields.append(drawing.field(f"slo:{key}.of", f"{path}.of", f"{label} binds", value=bound, options=options))
    return fields


def _limits(drawing: Drawing) -> list[Field]:
    return [
        *draw_planning(drawing),
        drawing.setting("seed", "Seed"),
        drawing.setting("retries", "Retries of a run"),
        drawing.setting("budget.max_runs", "Runs at most"),
        drawing.setting("budget.max_seconds", "Experiment at most", "s"),
        drawing.setting("budget.max_run_seconds", "One run at most", "s"),
    ]


def _keys(drawing: Drawing, path: str, variants: Mapping[str, Mapping[str, Any]], kind: Any) -> list[str]:
    if kind is None and read(drawing.document, path) is None:
        kind = next(iter(variants)) if variants is ARRIVALS else "fixed"
    known = {one.path.rsplit(".", 1)[-1] for one in leaves("workload", drawing.document) if one.path.startswith(path)}
    return sorted(known, key=list(LABELS).index) if kind in variants else []


def _kinds(variants: Mapping[str, Any]) -> tuple[Option, ...]:
    return tuple(Option(kind, kind) for kind in variants)
