"""An experiment's runs as a table: one row each, with its settings and every figure of its summary.

A setting is the column `settings.<path>`. A figure is `<metric>_<unit>` with its percentiles `<metric>_p95_<unit>` and
`<metric>_n`, how many requests it rests on. A percentile with too few samples behind it is left out, as it is greyed
on the pages. What the cost model says of measured runs is `modelled_<metric>_<unit>` with its band, and the residual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import QuerySet

from experiments.exports.columns import Column, Kind, Row, kind_of_values
from experiments.models import Experiment, Run, Trial
from experiments.predictions import read_prediction
from experiments.selectors import RunOnNode, runs_on_nodes

PIECE = 100
# What a summary holds beside its figures is not read: distributions are large.
METRICS = "summary__metrics"

FIXED: tuple[tuple[Column, Callable[[RunOnNode], Any]], ...] = (
    (Column("experiment_id", Kind.INT), lambda one: one.run.experiment_id),
    (Column("run_id", Kind.INT), lambda one: one.run.pk),
    (Column("trial", Kind.INT), lambda one: one.run.trial.index),
    (Column("repeat", Kind.INT), lambda one: one.run.repeat),
    (Column("position", Kind.INT), lambda one: one.run.position),
    (Column("state", Kind.TEXT), lambda one: one.run.state),
    (Column("valid", Kind.BOOL), lambda one: one.run.valid),
    (Column("invalid_reasons", Kind.JSON), lambda one: one.run.reasons),
    (Column("reason", Kind.TEXT), lambda one: one.run.reason),
    (Column("node", Kind.TEXT), lambda one: one.node),
    (Column("modelled", Kind.BOOL), lambda one: one.modelled),
    (Column("attempts", Kind.INT), lambda one: one.run.attempts_made),
    (Column("created_at", Kind.TIME), lambda one: one.run.created_at),
    (Column("started_at", Kind.TIME), lambda one: one.run.started_at),
    (Column("ended_at", Kind.TIME), lambda one: one.run.ended_at),
)
UNIT_NAMES = {"/": "_per_", "$": "usd"}
PREDICTION_COLUMNS = (
    Column("prediction_state", Kind.TEXT),
    Column("prediction_why_not", Kind.TEXT),
    *(
        Column(name, Kind.FLOAT)
        for metric, unit in (("output_throughput", "_tok_per_s"), ("tpot", "_s"), ("ttft", "_s"))
        for name in (f"modelled_{metric}{unit}", f"modelled_{metric}_low{unit}", f"modelled_{metric}_high{unit}",
                     f"residual_{metric}")
    ),
)  # fmt: skip


def run_columns(experiment: Experiment) -> tuple[Column, ...]:
    """The columns that any of its runs has something for."""
    settings = [trial.settings for trial in Trial.objects.filter(experiment=experiment)]
    paths = dict.fromkeys(path for one in settings for path in one)
    columns = [column for column, _ in FIXED]
    columns += [
        Column(f"settings.{path}", kind_of_values(one[path] for one in settings if path in one)) for path in paths
    ]
    figures: dict[str, Kind] = {}
    for metrics in _metrics(experiment):
        figures |= {name: Kind.INT if name.endswith("_n") else Kind.FLOAT for name in figures_of(metrics)}
    columns += [Column(name, kind) for name, kind in figures.items()]
    return (*columns, *(PREDICTION_COLUMNS if _is_predicted(experiment) else ()))


def run_pieces(experiment: Experiment) -> Iterator[list[Row]]:
    """The runs in their order, at most PIECE at a time."""
    after = -1
    while True:
        rows = _runs(experiment).filter(position__gt=after).order_by("position")[:PIECE]
        found = runs_on_nodes(rows)
        if not found:
            return
        metrics = dict(Run.objects.filter(pk__in=[one.run.pk for one in found]).values_list("pk", METRICS))
        yield [_row(one, metrics.get(one.run.pk) or {}) for one in found]
        after = found[-1].run.position


def _row(one: RunOnNode, metrics: dict[str, Any]) -> Row:
    fixed = {column.name: value(one) for column, value in FIXED}
    settings = {f"settings.{path}": value for path, value in one.run.trial.settings.items()}
    return fixed | settings | figures_of(metrics) | predicted_of(one.run.prediction, metrics)


def figures_of(metrics: dict[str, Any]) -> dict[str, float | int | None]:
    """A summary's metrics as columns."""
    figures: dict[str, float | int | None] = {}
    for name, metric in metrics.items():
        unit = column_unit(metric["unit"])
        figures[f"{name}{unit}"] = metric["value"]
        for percentile, found in metric["percentiles"].items():
            figures[f"{name}_{percentile}{unit}"] = found["value"] if found["enough"] else None
        figures[f"{name}_n"] = metric["n"]
    return figures


def predicted_of(stored: dict[str, Any] | None, metrics: dict[str, Any]) -> dict[str, float | str | None]:
    """A prediction as columns; none where there is none."""
    if stored is None:
        return {}
    found = read_prediction(stored, metrics)
    values: dict[str, float | str | None] = {"prediction_state": found.state, "prediction_why_not": found.why_not}
    for name, beside in found.metrics.items():
        unit = column_unit(beside.unit)
        values |= {f"modelled_{name}{unit}": beside.predicted, f"modelled_{name}_low{unit}": beside.low,
                   f"modelled_{name}_high{unit}": beside.high, f"residual_{name}": beside.residual}  # fmt: skip
    return values


def _is_predicted(experiment: Experiment) -> bool:
    return Run.objects.filter(experiment=experiment, prediction__isnull=False).exists()


def column_unit(unit: str) -> str:
    """`tok/s` as `_tok_per_s`, `$` as `_usd`; nothing for a number without a unit."""
    for sign, word in UNIT_NAMES.items():
        unit = unit.replace(sign, word)
    return f"_{unit}" if unit else ""


def _runs(experiment: Experiment) -> QuerySet[Run]:
    return Run.objects.filter(experiment=experiment).select_related("trial").defer("spec", "summary")


def _metrics(experiment: Experiment) -> Iterator[dict[str, Any]]:
    rows = Run.objects.filter(experiment=experiment, summary__isnull=False).order_by("position")
    for metrics in rows.values_list(METRICS, flat=True).iterator(chunk_size=PIECE):
        yield metrics or {}
