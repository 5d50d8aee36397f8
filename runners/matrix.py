"""From a document to its trials and the order of its runs. Pure: the same document always gives the same plan.

Which values the trials have is in `runners.designs`; here each one's document is made and checked.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runners.designs import TrialPlan, count_trials, matches, plan_trials, same
from runners.document import FieldError, SpecError, document_errors, validate_document
from runners.document_errors import Found, merge_errors
from runners.dotted import read
from runners.search_probes import probes, search_faults, starts_of, where_searched
from runners.spec import ExperimentSpec, LadderDesign, Setting

MAX_TRIALS = 400
MAX_VALUES_TRIED = 20
AXIS_ROOTS = ("model", "chip", "engine", "placement", "workload")
SHAPE_FIELD = "model.shape."


@dataclass(frozen=True)
class Cell:
    """One trial: its values by path of all that differs between trials, the document with them applied, and on a ladder
    what its rung is called."""

    index: int
    settings: dict[str, Setting]
    spec: ExperimentSpec
    label: str = ""


@dataclass(frozen=True)
class PlannedRun:
    """One repeat of a trial. `position` is its place in the experiment's queue."""

    position: int
    trial_index: int
    repeat: int
    seed: int


@dataclass(frozen=True)
class Plan:
    """The trials and runs to begin with. Of a search there are no runs yet: `cells` are then what its document is
    checked at, and `searched` the combinations of the matrix that it searches, each by itself."""

    spec: ExperimentSpec
    cells: tuple[Cell, ...]
    runs: tuple[PlannedRun, ...]
    searched: tuple[dict[str, Setting], ...] = ()


def plan_experiment(document: Mapping[str, Any]) -> Plan:
    """Checks the whole document, every cell of its matrix included. Raises SpecError with all that is wrong."""
    spec = _base_spec(document)
    errors = _axis_errors(spec, document)
    trials = count_trials(spec)
    if trials > MAX_TRIALS:
        errors.append(FieldError("matrix", f"{trials} combinations", f"at most {MAX_TRIALS}"))
    if errors:
        raise SpecError(errors)
    cells = _cells(spec, document)
    if not cells:
        raise SpecError(
            [FieldError("exclude", "every combination of the matrix is excluded", "at least one trial left")]
        )
    searched = () if spec.search is None else tuple(trial.axes for trial in plan_trials(spec))
    _check_budget(spec, len(searched) or len(cells))
    if spec.baseline and not any(matches(cell.settings, spec.baseline) for cell in cells):
        raise SpecError([FieldError("baseline", "no trial of the matrix has these settings")])
    return Plan(spec, cells, _interleave(len(cells), spec.first_repeats, spec.seed), searched)


def _check_budget(spec: ExperimentSpec, trials: int) -> None:
    """Raises SpecError where the runs to begin with are too many."""
    repeats = 1 if spec.search is not None else spec.first_repeats
    if trials * repeats > spec.budget.max_runs:
        message = f"{trials} trials × {repeats} repeats are {trials * repeats} runs"
        raise SpecError([FieldError("matrix", message, f"at most budget.max_runs = {spec.budget.max_runs}")])


def _base_spec(document: Mapping[str, Any]) -> ExperimentSpec:
    """The document as typed. What it leaves to its axes (the model, say) has the first value of the axis."""
    spec, found = document_errors(document)
    if spec is None:
        firsts = starts_of(document) | {path: values[0] for path, values in _axes(document).items()}
        missing = {one.error.field for one in found if one.kind == "missing"} & firsts.keys()
        if missing:
            filled = apply_settings(document, {path: firsts[path] for path in missing}, keep_matrix=True)
            spec, found = document_errors(filled)
    if spec is None:
        raise SpecError(merge_errors([*found, *_value_errors(document)]))
    return spec


def _axes(document: Mapping[str, Any]) -> dict[str, list[Any]]:
    matrix = document.get("matrix")
    named = matrix.items() if isinstance(matrix, Mapping) else ()
    return {path: values for path, values in named if isinstance(values, list) and 0 < len(values) <= MAX_TRIALS}


def _value_errors(document: Mapping[str, Any]) -> list[Found]:
    """Faults in the axes' values of a document that is refused for others: each value tried alone, so that all is
    told at once. Whether values go together is not asked here."""
    errors: list[Found] = []
    for path, values in _axes(document).items():
        for value in values[:MAX_VALUES_TRIED]:
            try:
                _, found = document_errors(apply_settings(document, {path: value}))
            except SpecError:
                continue  # this path holds no keys in a document that is refused anyway
            errors += [
                Found(one.kind, FieldError(f"matrix.{path}", one.error.message, one.error.allowed))
                for one in found
                if one.error.field == path and one.kind != "impossible_combination"
            ]
    return errors


def _axis_errors(spec: ExperimentSpec, document: Mapping[str, Any]) -> list[FieldError]:
    errors = []
    for path in spec.matrix:
        if path.startswith(SHAPE_FIELD) and isinstance(spec.model, str):
            message = f"{spec.model} is a model by its name, which has no shape to vary"
            errors.append(FieldError(f"matrix.{path}", message, "model: {shape: {like: …}} and axes of its fields"))
        elif not _may_be_axis(path):
            errors.append(FieldError(f"matrix.{path}", "this path can't be an axis", [f"{r}…" for r in AXIS_ROOTS]))
    for label, mappings in (("exclude", spec.exclude), ("baseline", (spec.baseline,) if spec.baseline else ())):
        for index, mapping in enumerate(mappings):
            where = f"{label}.{index}" if label == "exclude" else label
            for path, value in mapping.items():
                if path not in spec.matrix:
                    errors.append(FieldError(f"{where}.{path}", "not an axis of the matrix", sorted(spec.matrix)))
                elif not any(same(value, other) for other in spec.matrix[path]):
                    errors.append(FieldError(f"{where}.{path}", "not a value of this axis", list(spec.matrix[path])))
            if not mapping:
                errors.append(FieldError(where, "an empty mapping would match every trial", "at least one path"))
    return [*errors, *_step_errors(spec), *search_faults(spec, document, _may_be_axis)]


def _step_errors(spec: ExperimentSpec) -> list[FieldError]:
    """Of a ladder: steps that set what may not be compared, or what the matrix sets."""
    steps = spec.design.steps if isinstance(spec.design, LadderDesign) else ()
    errors = []
    for place, step in enumerate(steps):
        for path in step.set:
            where = f"design.steps.{place}.set.{path}"
            if path in spec.matrix:
                errors.append(FieldError(where, "the matrix has this path as an axis", "a path that is no axis"))
            elif not _may_be_axis(path):
                errors.append(FieldError(where, "this path can't be set by a step", [f"{r}…" for r in AXIS_ROOTS]))
    return errors


def _may_be_axis(path: str) -> bool:
    """`model` and `chip` whole, and every field below the other roots and below `model.shape`."""
    root, _, below = path.partition(".")
    if root in ("model", "chip"):
        return not below or path.startswith(SHAPE_FIELD)
    return root in AXIS_ROOTS and bool(below)


def _cells(spec: ExperimentSpec, document: Mapping[str, Any]) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    errors: dict[tuple[str, str], FieldError] = {}
    for trial in _checked_trials(spec, document):
        try:
            cell = validate_document(apply_settings(document, trial.sets))
            cells.append(Cell(len(cells), _told_apart(spec, trial, cell), cell, trial.label))
        except SpecError as error:
            shown = ", ".join(f"{path} = {value}" for path, value in trial.sets.items())
            for one in error.errors:
                field = field_that_sets(one.field, spec)
                message = one.message if field else f"{one.message} (with {shown})"
                errors.setdefault((field or one.field, message), FieldError(field or one.field, message, one.allowed))
    if errors:
        raise SpecError(list(errors.values())[:50])
    return tuple(cells)


def _checked_trials(spec: ExperimentSpec, document: Mapping[str, Any]) -> Iterator[TrialPlan]:
    """The trials; of a search what each of its searches may set, one thing at a time."""
    for trial in plan_trials(spec):
        if spec.search is None:
            yield trial
        else:
            yield from (TrialPlan(trial.axes, trial.axes | probe) for probe in probes(spec, document))


def cell_of(document: Mapping[str, Any], index: int, settings: Mapping[str, Setting]) -> Cell:
    """One trial of a document with these values by path. Raises SpecError where they don't go together."""
    return Cell(index, dict(settings), validate_document(apply_settings(document, settings)))


def _told_apart(spec: ExperimentSpec, trial: TrialPlan, cell: ExperimentSpec) -> dict[str, Setting]:
    """A trial's settings. Every rung of a ladder has the value of all that any step sets, its own or the document's."""
    if not isinstance(spec.design, LadderDesign):
        return trial.sets
    whole = cell.model_dump(mode="json")
    return trial.axes | {path: trial.sets.get(path, _scalar_at(whole, path)) for path in spec.design.paths}


def _scalar_at(document: Mapping[str, Any], path: str) -> Setting:
    found = read(document, path)
    return found if isinstance(found, str | int | float | bool) else None


def field_that_sets(path: str, spec: ExperimentSpec) -> str | None:
    """Where the document says the value of a path that trials set."""
    if path in spec.matrix:
        return f"matrix.{path}"
    if searched := where_searched(path, spec):
        return searched
    steps = spec.design.steps if isinstance(spec.design, LadderDesign) else ()
    return next((f"design.steps.{place}.set.{path}" for place, step in enumerate(steps) if path in step.set), None)


def apply_settings(
    document: Mapping[str, Any], settings: Mapping[str, Setting], *, keep_matrix: bool = False
) -> dict[str, Any]:
    """The document of one cell: `settings` set at their dotted paths, the matrix and what belongs to it taken out."""
    left_out = () if keep_matrix else ("matrix", "exclude", "baseline", "design", "search")
    cell = copy.deepcopy({key: value for key, value in document.items() if key not in left_out})
    for path, value in settings.items():
        *parents, leaf = path.split(".")
        here: Any = cell
        for part in parents:
            here = here.setdefault(part, {}) if isinstance(here, dict) else None
            if not isinstance(here, dict):
                raise SpecError([FieldError(path, f"{part} holds no keys, so this path can't be set")])
        here[leaf] = value
    return cell


def _interleave(trials: int, repeats: int, seed: int) -> tuple[PlannedRun, ...]:
    """Repeat by repeat, every trial once in each, in a seeded order of its own: A/B/B/A…, so drift hits all alike."""
    runs: list[PlannedRun] = []
    for repeat in range(repeats):
        for trial in order_of(seed, repeat, range(trials)):
            runs.append(PlannedRun(len(runs), trial, repeat, requests_seed(seed, repeat)))
    return tuple(runs)


def order_of(seed: int, repeat: int, trials: Iterable[int]) -> list[int]:
    """In which order one repeat of these trials runs."""
    order = list(trials)
    random.Random(f"{seed}:{repeat}").shuffle(order)
    return order


def requests_seed(seed: int, repeat: int) -> int:
    """What decides the requests of all runs of one repeat, whenever they were planned."""
    return random.Random(f"{seed}:{repeat}:requests").getrandbits(48)
