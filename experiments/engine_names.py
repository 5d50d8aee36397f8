"""What an engine that is not the built-in one is called where results are shown, so that nobody takes it for ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from experiments.engine_offers import BUILTIN
from experiments.models import Experiment


def engine_label(engine: Mapping[str, Any]) -> str:
    """Of an engine as a spec has it; empty for the built-in one."""
    kind = engine.get("kind") or BUILTIN
    return "" if kind == BUILTIN else f"{engine.get('name')} ({kind})"


def on_engine(what: str, engine: Mapping[str, Any]) -> str:
    """`what`, and on which engine where that is not the built-in one."""
    label = engine_label(engine)
    return f"{what} on {label}" if label else what


def unsaid_engines(experiment_ids: Iterable[int]) -> dict[int, str]:
    """By experiment, the engine of those whose trials all have one that is not the built-in one: their settings, which
    hold what differs, do not say it."""
    rows = Experiment.objects.filter(pk__in=set(experiment_ids)).exclude(spec__engine__kind=BUILTIN)
    return {
        pk: engine_label({"kind": kind, "name": name})
        for pk, kind, name in rows.values_list("pk", "spec__engine__kind", "spec__engine__name")
    }
