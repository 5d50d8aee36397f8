"""Adds the runs that an experiment plans for itself: the next levels of a search, one more repeat of every trial.

What is missing is worked out from what is stored, under the experiment's lock, each time anew. So it may be called
again, by several at once and after a crash, and adds nothing twice. The statistics and the order of a search are in
experiments.search.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import Max

from experiments.comparison import results_of
from experiments.models import EXPERIMENT_OPEN, Experiment, Run, Trial
from experiments.search.missing import Missing, missing_runs
from experiments.search.seen import Settings, TrialSeen, key_of
from experiments.search.stored import is_planning, plan_stored, see, spec_of
from experiments.selectors import trials_with_runs
from experiments.services.feasibility import Feasible, check_feasible
from experiments.services.freezing import store_runs, store_trials
from experiments.services.placing import request_placement
from runners.document import SpecError
from runners.matrix import Cell, Plan, PlannedRun, cell_of, order_of, requests_seed
from runners.spec import ExperimentSpec


@transaction.atomic
def extend_experiment(experiment_id: int) -> bool:
    """Adds what is wanted next; says whether the experiment has more to come, by these runs or by those under way.

    Where it has not, its outcome says why. Of an experiment that plans nothing, or has ended, nothing is to come.
    """
    spec = Experiment.objects.values_list("spec", flat=True).filter(pk=experiment_id).first()
    if spec is None or not is_planning(spec):
        return False
    experiment = Experiment.objects.select_for_update(no_key=True, of=("self",)).select_related("project")
    found = experiment.get(pk=experiment_id)
    return found.state in EXPERIMENT_OPEN and _Extending(found).extend()


@dataclass
class _Extending:
    """One look at an experiment that is locked. What settings were found to be possible is looked up once."""

    experiment: Experiment
    judged: dict[str, bool] = field(default_factory=dict)

    def extend(self) -> bool:
        entries = trials_with_runs(self.experiment.pk)
        trials = see(entries, results_of(entries))
        spec = spec_of(self.experiment)
        planned = plan_stored(spec, trials, self._is_possible)
        under_way = any(trial.is_open for trial in trials)
        missing = missing_runs(planned.step, trials)
        if not missing:
            if not under_way:
                self._conclude(planned.step.done or "no more runs are wanted")
            return under_way
        room = spec.budget.max_runs - sum(len(trial.runs) for trial in trials)
        # one more repeat of only some of the trials would pair with nothing
        missing = missing[: max(0, room)] if spec.search is not None or room >= len(missing) else []
        if not missing and not under_way:
            self._conclude(f"its budget of {spec.budget.max_runs} runs is used up: {planned.said}")
        try:
            return self._add(spec, missing, trials) or under_way
        except SpecError as error:
            # a model or the nodes are gone since
            if not under_way:
                self._conclude(f"no more runs could be planned: {error}; {planned.said}")
            return under_way

    def _conclude(self, outcome: str) -> None:
        Experiment.objects.filter(pk=self.experiment.pk).update(outcome=outcome)

    def _is_possible(self, settings: Settings) -> bool:
        """Whether the document holds with these settings, and some node takes it."""
        key = key_of(settings)
        if key not in self.judged:
            try:
                self._feasible([self._cell(0, settings)])
                self.judged[key] = True
            except SpecError:
                self.judged[key] = False
        return self.judged[key]

    def _cell(self, index: int, settings: Settings) -> Cell:
        return cell_of(self.experiment.document, index, settings)

    def _feasible(self, cells: Sequence[Cell]) -> Feasible:
        plan = Plan(cells[0].spec, tuple(cells), ())
        return check_feasible(plan, self.experiment.project)

    def _add(self, spec: ExperimentSpec, missing: Sequence[Missing], trials: Sequence[TrialSeen]) -> bool:
        """Stores the runs, and the trials that they are the first of, behind all that there are. False without any.

        Raises SpecError, before anything is stored, where one can't run any more.
        """
        if not missing:
            return False
        indexes: dict[int | str, Missing] = {one.trial or key_of(one.settings): one for one in missing}
        known = {trial.id: trial.index for trial in trials}
        fresh = itertools.count(len(trials))
        cells: dict[int, Cell] = {}
        of_missing: dict[int | str, int] = {}
        for key, one in indexes.items():
            index = known[one.trial] if one.trial is not None else next(fresh)
            cells[index], of_missing[key] = self._cell(index, one.settings), index
        found = self._feasible(list(cells.values()))
        new = [cell for index, cell in sorted(cells.items()) if index >= len(trials)]
        stored = {trial.index: trial for trial in Trial.objects.filter(experiment=self.experiment)}
        stored |= {trial.index: trial for trial in store_trials(self.experiment, new)}
        by_repeat = defaultdict(list)
        for one in missing:
            by_repeat[one.repeat].append(of_missing[one.trial or key_of(one.settings)])
        store_runs(self.experiment, self._in_order(spec, by_repeat), cells, stored, found)
        transaction.on_commit(request_placement)
        return True

    def _in_order(self, spec: ExperimentSpec, by_repeat: dict[int, list[int]]) -> list[PlannedRun]:
        last = Run.objects.filter(experiment=self.experiment).aggregate(Max("position"))["position__max"]
        position = itertools.count(0 if last is None else last + 1)
        return [
            PlannedRun(next(position), trial, repeat, requests_seed(spec.seed, repeat))
            for repeat, wanted in sorted(by_repeat.items())
            for trial in order_of(spec.seed, repeat, wanted)
        ]
