"""What the lab tells webhooks: one delivery for each that asked, written in the transaction of the change itself.

    experiment.done         every run of it has ended
    experiment.cancelled    somebody, or its spent budget, has ended it
    run.failed              a run failed for good: no retry is left
    run.invalid             a run succeeded, but its figures don't count: the reasons are in the payload
    node.lost               a node was silent for longer than its lease; one that serves every project tells every one
    webhook.test            somebody asked for it

A delivery's key makes its event unique, so that telling it twice tells it once. Sending is in webhook_sending.
"""

from __future__ import annotations

import secrets
from typing import Any, Literal, get_args

from django.conf import settings
from django.db.models import Count
from django.utils import timezone

from experiments.models import Experiment, ExperimentState, Run
from experiments.webhook_models import Webhook, WebhookDelivery
from hardware.models import Node

Event = Literal["experiment.done", "experiment.cancelled", "run.failed", "run.invalid", "node.lost"]
EVENTS: tuple[Event, ...] = get_args(Event)

EXPERIMENT_EVENTS: dict[str, Event] = {
    ExperimentState.DONE: "experiment.done",
    ExperimentState.CANCELLED: "experiment.cancelled",
}


def tell_experiment_ended(experiment_id: int) -> None:
    """To be called where an experiment has become done or cancelled, in that transaction."""
    experiment = Experiment.objects.select_related("project").get(pk=experiment_id)
    event = EXPERIMENT_EVENTS[experiment.state]
    rows = Run.objects.filter(experiment=experiment).order_by().values_list("state")
    told = _experiment(experiment) | {"runs": dict(rows.annotate(Count("pk")))}
    _tell(event, experiment.project_id, f"{event}:{experiment.pk}", {"experiment": told})


def tell_run(run_id: int, event: Literal["run.failed", "run.invalid"]) -> None:
    """To be called where a run has failed, or its results have been found invalid, in that transaction."""
    run = Run.objects.select_related("experiment__project", "trial", "final_attempt__node").get(pk=run_id)
    attempt = run.final_attempt
    told = {
        "id": run.pk,
        "state": run.state,
        "reason": run.reason,
        "invalid_reasons": run.reasons,
        "settings": run.trial.settings,
        "repeat": run.repeat,
        "node": attempt.node.slug if attempt and attempt.node else None,
        "attempts": run.attempts_made,
        "url": f"{settings.LAB_URL}/runs/{run.pk}/",
    }
    key = f"{event}:{run.pk}:{attempt.number if attempt else 0}"
    _tell(event, run.experiment.project_id, key, {"run": told, "experiment": _experiment(run.experiment)})


def tell_node_lost(node: Node) -> None:
    """To be called where a node has become lost, in that transaction; `last_seen_at` is when it last spoke."""
    seen = node.last_seen_at.isoformat() if node.last_seen_at else None
    told = {"slug": node.slug, "name": node.name, "kind": node.kind, "last_seen_at": seen}
    _tell("node.lost", node.project_id, f"node.lost:{node.pk}:{seen}", {"node": told})


def tell_test(webhook: Webhook) -> WebhookDelivery:
    """A delivery that tells nothing, for this webhook alone, also where it is switched off."""
    payload = _payload("webhook.test", {"webhook": {"id": webhook.pk, "url": webhook.url}})
    return WebhookDelivery.objects.create(
        webhook=webhook,
        event="webhook.test",
        key=f"webhook.test:{secrets.token_hex(8)}",
        payload=payload,
        next_try_at=timezone.now(),
    )


def _tell(event: Event, project_id: int | None, key: str, data: dict[str, Any]) -> None:
    """For the webhooks of the project that asked for this event; without a project, those of every one."""
    asked = Webhook.objects.filter(active=True, events__contains=[event])
    if project_id is not None:
        asked = asked.filter(project_id=project_id)
    hooks = list(asked.values_list("pk", flat=True))
    if not hooks:
        return
    payload, now = _payload(event, data), timezone.now()
    WebhookDelivery.objects.bulk_create(
        [WebhookDelivery(webhook_id=pk, event=event, key=key, payload=payload, next_try_at=now) for pk in hooks],
        ignore_conflicts=True,
    )


def _payload(event: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"type": event, "timestamp": timezone.now().isoformat(), "data": data}


def _experiment(experiment: Experiment) -> dict[str, Any]:
    return {
        "id": experiment.pk,
        "name": experiment.name,
        "project": experiment.project.slug,
        "state": experiment.state,
        "reason": experiment.reason,
        "url": f"{settings.LAB_URL}/experiments/{experiment.pk}/",
    }
