"""The control worker's tasks: one more way to call the services. Idempotent, so they are never retried."""

from __future__ import annotations

from celery import shared_task

from experiments import services


@shared_task(name="experiments.tasks.place_runs", ignore_result=True)  # type: ignore[untyped-decorator]
def place_runs() -> None:
    services.place_runs()


@shared_task(name="experiments.tasks.reap", ignore_result=True)  # type: ignore[untyped-decorator]
def reap() -> None:
    services.reap()


@shared_task(name="experiments.tasks.purge_deleted", ignore_result=True)  # type: ignore[untyped-decorator]
def purge_deleted() -> None:
    services.purge_deleted()


@shared_task(name="experiments.tasks.send_webhooks", ignore_result=True)  # type: ignore[untyped-decorator]
def send_webhooks() -> None:
    services.start_sending()


@shared_task(name="experiments.tasks.predict_runs", ignore_result=True)  # type: ignore[untyped-decorator]
def predict_runs() -> None:
    services.start_predicting()


@shared_task(name="experiments.tasks.forget_deliveries", ignore_result=True)  # type: ignore[untyped-decorator]
def forget_deliveries() -> None:
    services.forget_deliveries()
