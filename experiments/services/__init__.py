"""All writes about experiments, runs and attempts, but for the records (experiments.recorder).

Every change of a run's or an attempt's state takes the run's row lock first and then changes the row only where it
is still in the state it is meant to leave, so that of two changers one wins and the other learns of it.
"""

from experiments.services.attempts import claim, confirm_ended, finish_attempt, lose_attempt
from experiments.services.cancelling import cancel_experiment, cancel_run, stop_experiment
from experiments.services.cloning import clone_document, clone_experiment
from experiments.services.deleting import delete_experiment, purge_deleted, restore_experiment
from experiments.services.editing import Edit, edit_experiment
from experiments.services.pausing import pause_experiment, resume_experiment
from experiments.services.placing import place_runs, request_placement
from experiments.services.predicting import start_predicting
from experiments.services.reaping import reap
from experiments.services.submit import Submission, submit_experiment, submit_once
from experiments.services.webhook_sending import forget_deliveries, start_sending
from experiments.services.webhooks import change_webhook, create_webhook, delete_webhook, try_webhook

__all__ = [
    "Edit",
    "Submission",
    "cancel_experiment",
    "cancel_run",
    "change_webhook",
    "claim",
    "clone_document",
    "clone_experiment",
    "confirm_ended",
    "create_webhook",
    "delete_experiment",
    "delete_webhook",
    "edit_experiment",
    "finish_attempt",
    "forget_deliveries",
    "lose_attempt",
    "pause_experiment",
    "place_runs",
    "purge_deleted",
    "reap",
    "request_placement",
    "restore_experiment",
    "resume_experiment",
    "start_predicting",
    "start_sending",
    "stop_experiment",
    "submit_experiment",
    "submit_once",
    "try_webhook",
]
