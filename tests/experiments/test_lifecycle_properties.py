"""Whatever happens, in whatever order and at the same moment: no run or node ever has two live attempts, attempts are
numbered without a gap, what has ended stays as it is, and in the end every run has ended."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from control_plane import ready_node, store_report, submit, team
from django.db import connection
from django.utils import timezone

from experiments.errors import ClaimRefused, WrongState
from experiments.models import ATTEMPT_LIVE, RUN_ENDED, Attempt, ControlHeartbeat, Experiment, Run
from experiments.services import (
    cancel_experiment,
    cancel_run,
    claim,
    finish_attempt,
    pause_experiment,
    place_runs,
    reap,
    resume_experiment,
)
from experiments.services.node_lease import renew_lease
from hardware.messages import AttemptRef, Heartbeat
from hardware.models import Node, NodeState
from hardware.services import drain, resume, retire

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]

RETRIES = 2
LONG_AGO = dt.timedelta(hours=1)


class World:
    """Two experiments and three nodes. A move picks what it moves by a number: a list of both is a story."""

    def __init__(self) -> None:
        project = team()
        self.nodes = [ready_node(project=project) for _ in range(3)]
        self.experiments = [submit(project, repeats=repeats, retries=RETRIES) for repeats in (6, 4)]
        self.runs = [run for experiment in self.experiments for run in experiment.runs.all()]
        self.ended: dict[int, str] = {}
        # the reaper has been watching all along: silence counts
        for name, seen_at in (("reaper", timezone.now()), ("reaper-since", timezone.now() - LONG_AGO)):
            ControlHeartbeat.objects.update_or_create(name=name, defaults={"seen_at": seen_at})

    def attempts(self) -> list[Attempt]:
        return list(Attempt.objects.filter(run__in=self.runs).select_related("node", "run").order_by("pk"))

    # Moves --------------------------------------------------------------------------------------------------

    def place(self, pick: int) -> None:
        place_runs()

    def watch(self, pick: int) -> None:
        reap()

    def deliver(self, pick: int) -> None:
        """A message reaches its node: in time, late, or for the second time."""
        attempts = self.attempts()
        if attempts:
            attempt = attempts[pick % len(attempts)]
            try:
                claim(attempt.node, attempt.run_id, attempt.number)
            except ClaimRefused:
                return

    def store(self, pick: int) -> None:
        """The recorder stores the report of an attempt, current or not, and says so, perhaps again."""
        claimed = [attempt for attempt in self.attempts() if attempt.claimed_at]
        if claimed:
            attempt = claimed[pick % len(claimed)]
            outcome, retry = random.Random(pick).choice(
                [("succeeded", False), ("failed", True), ("failed", False), ("cancelled", False)]
            )
            if attempt.report is None:
                store_report(attempt, outcome, retry=retry)
            finish_attempt(attempt.pk)

    def beat(self, pick: int) -> None:
        """A node speaks: what it runs, or that nothing is left of what it was told to end."""
        node = self.nodes[pick % len(self.nodes)]
        running = Attempt.objects.filter(node=node, state="running").first()
        ref = AttemptRef(run_id=running.run_id, attempt=running.number) if running else None
        told = renew_lease(node, Heartbeat(running=ref))
        gone = [AttemptRef(run_id=order.run_id, attempt=order.attempt) for order in told.cancel]
        renew_lease(node, Heartbeat(ended=gone, running=None if gone else ref))

    def silence(self, pick: int) -> None:
        node = self.nodes[pick % len(self.nodes)]
        Node.objects.filter(pk=node.pk).update(last_seen_at=timezone.now() - dt.timedelta(seconds=30))

    def cancel(self, pick: int) -> None:
        run = self.runs[pick % len(self.runs)]
        cancel_run(run.experiment.owner, run)

    def cancel_all(self, pick: int) -> None:
        experiment = self.experiments[pick % len(self.experiments)]
        cancel_experiment(experiment.owner, experiment)

    def pause_or_resume(self, pick: int) -> None:
        experiment = self.experiments[pick % len(self.experiments)]
        change = pause_experiment if pick // len(self.experiments) % 2 else resume_experiment
        # What has ended is refused.
        with suppress(WrongState):
            change(experiment.owner, experiment)

    def drain_or_resume(self, pick: int) -> None:
        node = self.nodes[pick % len(self.nodes)]
        if pick // len(self.nodes) % 2:
            drain(node)
        else:
            resume(node, busy=Attempt.objects.filter(node=node, state__in=ATTEMPT_LIVE).exists())

    # What must hold -----------------------------------------------------------------------------------------

    def check(self) -> None:
        attempts = self.attempts()
        live = [attempt for attempt in attempts if attempt.state in ATTEMPT_LIVE]
        assert len({attempt.node_id for attempt in live}) == len(live) == len({attempt.run_id for attempt in live})
        for run in Run.objects.filter(pk__in=[run.pk for run in self.runs]):
            own = [attempt for attempt in attempts if attempt.run_id == run.pk]
            assert [attempt.number for attempt in own] == list(range(1, run.attempts_made + 1))
            assert run.attempts_made <= RETRIES + 1
            states = [attempt.state for attempt in own if attempt in live]
            assert states == ([run.state] if run.state in ATTEMPT_LIVE else [])
            assert (run.ended_at is not None) is (run.state in RUN_ENDED)
            if run.final_attempt_id:
                assert run.final_attempt_id == own[-1].pk and run.state in RUN_ENDED
            assert self.ended.get(run.pk, run.state) == run.state
            if run.state in RUN_ENDED:
                self.ended[run.pk] = run.state
        for experiment in Experiment.objects.filter(pk__in=[each.pk for each in self.experiments], state="done"):
            assert not experiment.runs.exclude(state__in=RUN_ENDED).exists()

    def check_at_rest(self) -> None:
        self.check()
        busy = {attempt.node_id for attempt in self.attempts() if attempt.state in ATTEMPT_LIVE}
        for node in Node.objects.filter(pk__in=[node.pk for node in self.nodes]):
            if node.state in (NodeState.ONLINE, NodeState.BUSY):
                assert (node.state == NodeState.BUSY) is (node.pk in busy)

    def live_on(self) -> None:
        """From here on nothing goes wrong: every run ends within as many rounds as there can be attempts."""
        for pick in range(len(self.experiments)):
            self.pause_or_resume(pick)
        for _ in range(len(self.runs) * (RETRIES + 1) + 3):
            for pick in range(len(self.nodes)):
                self.drain_or_resume(pick)
                self.beat(pick)
            reap()
            for attempt in self.attempts():
                if attempt.state == "assigned":
                    claim(attempt.node, attempt.run_id, attempt.number)
                elif attempt.state == "running":
                    if attempt.report is None:
                        store_report(attempt)
                    finish_attempt(attempt.pk)
            self.check()
            if len(self.ended) == len(self.runs):
                break
        states = set(Run.objects.filter(pk__in=[run.pk for run in self.runs]).values_list("state", flat=True))
        assert states <= set(RUN_ENDED)
        reap()
        for experiment in Experiment.objects.filter(pk__in=[each.pk for each in self.experiments]):
            assert experiment.state in ("done", "cancelled")
        for node in self.nodes:
            retire(node)


MOVES: tuple[Callable[[World, int], None], ...] = (
    World.place, World.watch, World.deliver, World.deliver, World.deliver, World.store, World.beat, World.beat,
    World.silence, World.drain_or_resume, World.pause_or_resume,
)  # fmt: skip
# seldom, or every story would be over at its first few moves
STORY = MOVES * 6 + (World.cancel, World.cancel, World.cancel_all)


def tell(world: World, seed: str, length: int, after_each: Callable[[], None] = lambda: None) -> None:
    chance = random.Random(seed)
    for _ in range(length):
        chance.choice(STORY)(world, chance.randrange(60))
        after_each()


@pytest.mark.parametrize("seed", range(12))
def test_any_story_keeps_the_rules_and_comes_to_an_end(seed: int) -> None:
    world = World()
    tell(world, f"alone:{seed}", 60, world.check_at_rest)
    world.live_on()


@pytest.mark.parametrize("seed", range(6))
def test_stories_told_at_the_same_time_keep_the_rules_and_come_to_an_end(seed: int) -> None:
    world = World()

    def tell_one(teller: int) -> None:
        tell(world, f"{seed}:{teller}", 20)
        connection.close()

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(tell_one, range(5)))
    reap()
    world.check_at_rest()
    world.live_on()
