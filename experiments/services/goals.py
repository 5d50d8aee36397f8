"""Whether the figures that decide on an experiment's next runs are there to decide by."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.analysis.compare import COMPARED
from runners.document import FieldError
from runners.spec import ExperimentSpec, ParetoSearch, RepeatsUntil, SettingsSearch

BY_OBJECTIVE = frozenset({"goodput", "goodput_share", "token_goodput", "energy_per_useful_answer"})
"""Figures that there are only with an SLO."""
DIRECTED = [name for name, (_, more_is_better) in COMPARED.items() if more_is_better is not None]


def goal_faults(spec: ExperimentSpec) -> Iterator[FieldError]:
    """Figures that nobody knows, that have no better direction, or that need an objective the document lacks."""
    if isinstance(spec.repeats, RepeatsUntil) and spec.search is None:
        yield from _faults("repeats.until.metric", spec.repeats.until.metric, list(COMPARED), spec)
    if isinstance(spec.search, SettingsSearch):
        yield from _faults("search.optimize", spec.search.optimize, DIRECTED, spec)
    if isinstance(spec.search, ParetoSearch):
        for place, name in enumerate(spec.search.pareto.metrics):
            yield from _faults(f"search.pareto.metrics.{place}", name, DIRECTED, spec)


def _faults(field: str, name: str, known: list[str], spec: ExperimentSpec) -> Iterator[FieldError]:
    if name not in known:
        message = f"{name} has no better direction" if name in COMPARED else f"no figure is named {name}"
        yield FieldError(field, message, known)
    elif name in BY_OBJECTIVE and not any(spec.slo.model_dump().values()):
        yield FieldError(field, f"{name} counts what meets an objective, and the document has none", "an slo")
