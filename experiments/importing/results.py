"""When an imported run's figures are computed: at once where it is small, else by the reaper, which looks for ended
runs without results. So no request to the lab holds a million records in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django.db import transaction

from experiments.services.follow_up import keep_results

AT_ONCE = 20_000
"""Requests of one import up to which its figures are there when it answers."""


def results_after_commit(requests: Sequence[tuple[int, int]]) -> None:
    """`requests`: (run id, how many were stored) of the runs that have any."""
    if sum(count for _, count in requests) > AT_ONCE:
        return
    for run_id, _ in requests:
        transaction.on_commit(partial(keep_results, run_id))
