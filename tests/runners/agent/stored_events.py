"""Whether all that an attempt said is in the record tables, each event once."""

from __future__ import annotations

from experiments.models import Attempt, LogLine, RequestRecord, Sample, StatusRecord, StepRecord

TABLES = (RequestRecord, Sample, StepRecord, StatusRecord, LogLine)


def stored_numbers(attempt: Attempt) -> list[int]:
    """The numbers of all the attempt's stored events, sorted."""
    rows = (table.objects.filter(run_id=attempt.run_id, attempt=attempt.number) for table in TABLES)
    return sorted(seq for found in rows for seq in found.values_list("seq", flat=True))


def assert_all_stored_once(attempt: Attempt) -> None:
    attempt.refresh_from_db()
    assert attempt.events == attempt.stored_seq
    assert stored_numbers(attempt) == list(range(1, attempt.stored_seq + 1))
