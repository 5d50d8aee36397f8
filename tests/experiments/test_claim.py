"""Claiming: ASSIGNED → RUNNING by the one node that the attempt was given to, once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from control_plane import chip, live_attempt, ready_node, submit, team
from django.db import connection

from experiments.errors import ClaimRefused
from experiments.models import Attempt, Experiment, Run, RunState
from experiments.services import cancel_run, claim, lose_attempt, place_runs
from runners.spec import RunSpec

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


def assigned_run(**changes: object) -> tuple[Experiment, Attempt]:
    experiment = submit(team(), **changes)
    place_runs()
    return experiment, live_attempt(experiment.runs.get())


def test_a_claim_starts_the_run_and_gives_its_spec() -> None:
    node = ready_node(chip_id=chip().chip_id, usd_per_hour=1.5)
    _, attempt = assigned_run()
    spec = claim(node, attempt.run_id, attempt.number)
    attempt.refresh_from_db()
    run = Run.objects.get(pk=attempt.run_id)
    assert (attempt.state, run.state) == ("running", "running")
    assert attempt.claimed_at and run.started_at
    assert spec.run_id == run.pk
    assert node.chip is not None and spec.chip == node.chip.record
    assert spec.chip["chip_id"] == "test-chip"
    assert spec.usd_per_hour == 1.5
    assert RunSpec.model_validate(run.spec) == spec
    assert attempt.chip == node.chip


def test_a_price_in_the_document_stands_before_the_nodes() -> None:
    node = ready_node(usd_per_hour=1.5)
    _, attempt = assigned_run(cost={"usd_per_hour": 4})
    assert claim(node, attempt.run_id, attempt.number).usd_per_hour == 4


def test_the_same_message_twice_starts_one_run() -> None:
    node = ready_node()
    _, attempt = assigned_run()
    claim(node, attempt.run_id, attempt.number)
    with pytest.raises(ClaimRefused, match="is running, not assigned"):
        claim(node, attempt.run_id, attempt.number)


def test_of_claims_at_the_same_moment_one_wins() -> None:
    node = ready_node()
    _, attempt = assigned_run()

    def try_claim(_: int) -> bool:
        try:
            claim(node, attempt.run_id, attempt.number)
        except ClaimRefused:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(try_claim, range(12))) == 1


def test_another_node_can_not_claim_it() -> None:
    ready_node()
    _, attempt = assigned_run()
    with pytest.raises(ClaimRefused, match="never given to node"):
        claim(ready_node(), attempt.run_id, attempt.number)


def test_an_attempt_that_does_not_exist_can_not_be_claimed() -> None:
    with pytest.raises(ClaimRefused):
        claim(ready_node(), 987654321, 1)


def test_a_late_message_of_a_lost_attempt_is_refused() -> None:
    node = ready_node()
    _, attempt = assigned_run()
    lose_attempt(attempt.pk, "for this test")
    with pytest.raises(ClaimRefused, match="is lost, not assigned"):
        claim(node, attempt.run_id, attempt.number)


def test_a_cancelled_run_can_not_be_claimed() -> None:
    node = ready_node()
    experiment, attempt = assigned_run()
    cancel_run(experiment.owner, attempt.run)
    with pytest.raises(ClaimRefused, match="is cancelled, not assigned"):
        claim(node, attempt.run_id, attempt.number)


def test_cancel_against_claim_ends_in_one_of_two_ways() -> None:
    """Either the claim is refused, or the run runs and its end is ordered: never a run that escapes the cancel."""
    node = ready_node()
    for _ in range(8):
        experiment, attempt = assigned_run()

        def try_claim(attempt: Attempt = attempt) -> bool:
            try:
                claim(node, attempt.run_id, attempt.number)
            except ClaimRefused:
                return False
            finally:
                connection.close()
            return True

        def cancel(experiment: Experiment = experiment, attempt: Attempt = attempt) -> None:
            cancel_run(experiment.owner, Run.objects.get(pk=attempt.run_id))
            connection.close()

        with ThreadPoolExecutor(2) as pool:
            claimed, cancelled = pool.submit(try_claim), pool.submit(cancel)
            cancelled.result()
        run = Run.objects.get(pk=attempt.run_id)
        assert run.cancel_requested_at is not None
        assert run.state == (RunState.RUNNING if claimed.result() else RunState.CANCELLED)
        lose_attempt(attempt.pk, "the node is needed again")
