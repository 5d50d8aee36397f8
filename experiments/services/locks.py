"""The two locks of the state machine: a run's row, and one for placing."""

from __future__ import annotations

from django.db import connection

from experiments.models import Run

# Any constant that no other advisory lock of this database has.
PLACING = 0x1AB_0001


def lock_run(run_id: int) -> Run:
    """The run as it is now; nobody else changes its state before this transaction ends.

    Taken before anything else is written, so that two transactions never wait for each other. Raises Run.DoesNotExist.
    """
    locked = Run.objects.select_for_update(no_key=True, of=("self",))
    return locked.select_related("experiment").get(pk=run_id)


def lock_placing() -> None:
    """One placer at a time, until this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [PLACING])
