"""All writes about experiments, runs and attempts, but for the records (experiments.recorder).

Every change of a run's or an attempt's state takes the run's row lock first and then changes the row only where it
is still in the state it is meant to leave, so that of two changers one wins and the other learns of it.
"""

from experiments.services.attempts import claim, confirm_ended, finish_attempt, lose_attempt
from experiments.services.cancelling import cancel_experiment, cancel_run, stop_experiment
from experiments.services.placing import place_runs, request_placement
from experiments.services.reaping import reap
from experiments.services.submit import find_submission, submit_experiment

__all__ = [
    "cancel_experiment",
    "cancel_run",
    "claim",
    "confirm_ended",
    "find_submission",
    "finish_attempt",
    "lose_attempt",
    "place_runs",
    "reap",
    "request_placement",
    "stop_experiment",
    "submit_experiment",
]
