"""The steps of an attempt as a chart needs them: in a span of the run's clock, at most so many places.

Where the span holds more steps than places, each place shows the largest step among those it stands for, and says how
many they are: peaks stay, and a narrower span gives the steps themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import connection

from runners.events import Step

PLACES = 600

_SPAN = """
SELECT count(*), min(start_s), max(start_s) FROM experiments_step
WHERE run_id = %(run)s AND attempt = %(attempt)s AND start_s >= %(low)s AND start_s <= %(high)s
    AND (%(engine)s::text IS NULL OR data->>'engine' = %(engine)s)
"""

# Of each place, and of each engine at it, the step with the most tokens, the longest among equals.
_PLACES = """
SELECT DISTINCT ON (place, engine) count(*) OVER (PARTITION BY place, engine), data
FROM (
    SELECT data, seq, data->>'engine' AS engine, least(%(places)s - 1,
        floor(coalesce((start_s - %(first)s) / nullif(%(last)s - %(first)s, 0), 0) * %(places)s)) AS place
    FROM experiments_step
    WHERE run_id = %(run)s AND attempt = %(attempt)s AND start_s >= %(first)s AND start_s <= %(last)s
        AND (%(engine)s::text IS NULL OR data->>'engine' = %(engine)s)
) AS placed
ORDER BY place, engine,
    (data->>'prefill_tokens')::int + (data->>'decode_tokens')::int DESC, (data->>'duration_s')::float DESC, seq
"""

_ALL = """
SELECT 1, data FROM experiments_step
WHERE run_id = %(run)s AND attempt = %(attempt)s AND start_s >= %(low)s AND start_s <= %(high)s
    AND (%(engine)s::text IS NULL OR data->>'engine' = %(engine)s)
ORDER BY start_s, seq
"""

# Of the latest steps: that of all would be read for every question of a page.
_ENGINES = """
SELECT DISTINCT engine FROM (
    SELECT data->>'engine' AS engine FROM experiments_step
    WHERE run_id = %s AND attempt = %s ORDER BY seq DESC LIMIT 1000
) AS latest WHERE engine IS NOT NULL ORDER BY engine
"""


@dataclass(frozen=True)
class ShownStep:
    """A step, and how many steps it stands for (1: itself alone)."""

    steps: int
    step: Step


def shown_steps(
    run_id: int,
    attempt: int,
    low_s: float = float("-inf"),
    high_s: float = float("inf"),
    places: int = PLACES,
    engine: str | None = None,
) -> list[ShownStep]:
    """The attempt's steps that start in `low_s … high_s`, in order, of one engine or of all: at most `places` of each
    engine."""
    span = {"run": run_id, "attempt": attempt, "low": low_s, "high": high_s, "engine": engine}
    with connection.cursor() as cursor:
        cursor.execute(_SPAN, span)
        count, first, last = cursor.fetchone()
        if count > places:
            cursor.execute(_PLACES, span | {"first": first, "last": last, "places": places})
        else:
            cursor.execute(_ALL, span)
        return [_shown(*row) for row in cursor.fetchall()]


def latest_engines(run_id: int, attempt: int) -> list[str]:
    """The engines of the attempt's latest steps, by name; none where it has one that needs no name."""
    with connection.cursor() as cursor:
        cursor.execute(_ENGINES, [run_id, attempt])
        return [engine for (engine,) in cursor.fetchall()]


def _shown(steps: int, data: dict[str, Any] | str) -> ShownStep:
    # A raw cursor gives JSON as text.
    return ShownStep(steps, Step.model_validate_json(data) if isinstance(data, str) else Step.model_validate(data))
