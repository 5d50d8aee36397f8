"""What happens is told to the webhooks that asked for it, once, and only if it happened."""

from __future__ import annotations

import pytest
from control_plane import live_attempt, ready_node, store_report, submit, team
from django.db import transaction

from experiments.models import Run
from experiments.services import finish_attempt, lose_attempt, place_runs, reap, stop_experiment
from experiments.services.follow_up import keep_results, settle_experiment
from experiments.services.webhook_events import EVENTS, tell_test
from experiments.webhook_models import Webhook, WebhookDelivery
from labsite.accounts.models import Project

pytestmark = pytest.mark.django_db


@pytest.fixture
def webhook(project: Project) -> Webhook:
    return hook(project)


def hook(project: Project, *events: str, **fields: object) -> Webhook:
    return Webhook.objects.create(
        project=project, url="http://hook.example/", secret="whsec_AAAA", events=list(events or EVENTS), **fields
    )


def told(webhook: Webhook) -> list[str]:
    return list(WebhookDelivery.objects.filter(webhook=webhook).order_by("pk").values_list("event", flat=True))


def ended_run(project: Project, outcome: str, **document: object) -> Run:
    ready_node()
    run = submit(project, **document).runs.get()
    place_runs()
    attempt = live_attempt(run)
    store_report(attempt, outcome)
    finish_attempt(attempt.pk)
    keep_results(run.pk)
    settle_experiment(run.experiment_id)
    return run


def test_a_failed_run_and_the_end_of_its_experiment_are_told(project: Project, webhook: Webhook) -> None:
    run = ended_run(project, "failed")
    assert told(webhook) == ["run.failed", "experiment.done"]
    failed, done = WebhookDelivery.objects.order_by("pk")
    assert failed.payload["type"] == "run.failed"
    assert failed.payload["data"]["run"]["id"] == run.pk
    assert failed.payload["data"]["experiment"]["name"] == "an experiment"
    assert done.payload["data"]["experiment"]["state"] == "done"
    assert done.payload["data"]["experiment"]["runs"] == {"failed": 1}
    assert (failed.state, failed.attempts) == ("pending", 0)
    assert failed.next_try_at is not None


def test_a_run_whose_figures_do_not_count_is_told_with_its_reasons(project: Project, webhook: Webhook) -> None:
    ended_run(project, "succeeded")
    delivery = WebhookDelivery.objects.get(event="run.invalid")
    assert "too_few_requests" in delivery.payload["data"]["run"]["invalid_reasons"]


def test_results_that_are_computed_again_are_told_once(project: Project, webhook: Webhook) -> None:
    run = ended_run(project, "succeeded")
    keep_results(run.pk)
    assert told(webhook).count("run.invalid") == 1


def test_a_run_that_is_tried_again_has_not_failed(project: Project, webhook: Webhook) -> None:
    ready_node()
    run = submit(project, retries=1).runs.get()
    place_runs()
    lose_attempt(live_attempt(run).pk, "silent")
    assert told(webhook) == []


def test_a_cancelled_experiment_is_told_once(project: Project, webhook: Webhook) -> None:
    ready_node()
    experiment = submit(project)
    assert stop_experiment(experiment.pk, "because")
    assert not stop_experiment(experiment.pk, "again")
    settle_experiment(experiment.pk)
    assert told(webhook) == ["experiment.cancelled"]


def test_a_lost_node_is_told_to_those_whom_it_serves(project: Project, webhook: Webhook) -> None:
    other = hook(team())
    reap()
    ready_node(seen_s_ago=60, project=project)
    shared = ready_node(seen_s_ago=60)
    # The reaper has watched all the while.
    from_the_start = "UPDATE experiments_controlheartbeat SET seen_at = seen_at - interval '120 s' WHERE name = %s"
    with transaction.get_connection().cursor() as cursor:
        cursor.execute(from_the_start, ["reaper-since"])
    reap()
    assert told(webhook) == ["node.lost"] * 2
    (only,) = WebhookDelivery.objects.filter(webhook=other)
    assert only.payload["data"]["node"]["slug"] == shared.slug


def test_only_what_was_asked_for_is_told_and_only_to_active_webhooks_of_the_project(project: Project) -> None:
    deaf, narrow, stranger = hook(project, active=False), hook(project, "run.failed"), hook(team())
    ended_run(project, "failed")
    assert [told(one) for one in (deaf, narrow, stranger)] == [[], ["run.failed"], []]


def test_a_change_that_is_rolled_back_is_not_told(project: Project, webhook: Webhook) -> None:
    ready_node()
    experiment = submit(project)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        stop_experiment(experiment.pk, "because")
        _ = 1 / 0
    assert told(webhook) == []


def test_a_test_goes_to_one_webhook_alone(project: Project, webhook: Webhook) -> None:
    other = hook(project)
    tell_test(webhook)
    tell_test(webhook)
    assert (told(webhook), told(other)) == (["webhook.test"] * 2, [])
