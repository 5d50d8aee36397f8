"""The tables: as the models say, and the record tables partitioned by run."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection

from experiments.models import LogLine, Record, RequestRecord, Sample, StatusRecord, StepRecord

pytestmark = pytest.mark.django_db

RECORDS: list[type[Record]] = [RequestRecord, Sample, StepRecord, LogLine, StatusRecord]


def rows_of(sql: str, *values: object) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()


def table_of(model: type[Record]) -> str:
    return model._meta.db_table


def test_no_model_has_changed_without_a_migration() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize("model", RECORDS)
def test_a_record_table_has_sixteen_partitions_by_the_hash_of_its_run(model: type[Record]) -> None:
    ((definition,),) = rows_of("SELECT pg_get_partkeydef(%s::regclass)", table_of(model))
    assert definition == "HASH (run_id)"
    ((count,),) = rows_of("SELECT count(*) FROM pg_inherits WHERE inhparent = %s::regclass", table_of(model))
    assert count == 16


@pytest.mark.parametrize("model", RECORDS)
def test_a_record_is_keyed_by_run_attempt_and_number(model: type[Record]) -> None:
    keys = rows_of(
        "SELECT attname FROM pg_constraint, unnest(conkey) WITH ORDINALITY AS part (number, place)"
        " JOIN pg_attribute ON attnum = number WHERE conrelid = %s::regclass AND attrelid = conrelid AND contype = 'p'"
        " ORDER BY place",
        table_of(model),
    )
    assert [name for (name,) in keys] == ["run_id", "attempt", "seq"]


@pytest.mark.parametrize("model", RECORDS)
def test_the_columns_are_those_of_the_model(model: type[Record]) -> None:
    found = rows_of(
        "SELECT column_name, is_nullable FROM information_schema.columns WHERE table_name = %s", table_of(model)
    )
    fields = {
        field.column: "YES" if field.null else "NO" for field in model._meta.local_concrete_fields if field.column
    }
    assert dict(found) == fields


def test_reading_one_run_touches_one_partition() -> None:
    query = Sample.objects.filter(run_id=7, attempt=1, seq__gt=0).order_by("seq")
    plan = query.explain()
    assert plan.count("experiments_sample_") >= 1
    assert len({word for word in plan.split() if word.startswith("experiments_sample_") and "pkey" not in word}) == 1


def test_the_migrations_can_be_taken_back_and_done_again() -> None:
    for target in ("zero", "0001"):
        call_command("migrate", "experiments", target, verbosity=0)
        tables = rows_of("SELECT tablename FROM pg_tables WHERE tablename LIKE %s", "experiments_sample%")
        assert len(tables) == (0 if target == "zero" else 17)
