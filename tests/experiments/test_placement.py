"""The pure rule of placement: which queued run goes to which free node."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.placement import Demand, FreeNode, QueuedRun, Service, assign, matches

ANYWHERE = Demand(1)
T0 = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def node(node_id: int, project_id: int | None = None, chip_id: str = "", **labels: str) -> FreeNode:
    offers = {chip_id: 1} if chip_id else {}
    return FreeNode(node_id, project_id, chip_id, {"name": f"n{node_id}", "kind": "measured", **labels}, offers=offers)


def modelled(node_id: int, chip_id: str, **offers: int) -> FreeNode:
    return replace(node(node_id, chip_id=chip_id, kind="modelled"), offers=offers)


def holder(node_id: int, *models: str, memory_bytes: int | None = None) -> FreeNode:
    return replace(node(node_id), models=frozenset(models), memory_bytes=memory_bytes)


def queue(
    experiment_id: int, count: int, demand: Demand = ANYWHERE, priority: int = 0, model: str = ""
) -> list[QueuedRun]:
    """Runs of as many repeats, so that each is free to go to any node."""
    first = experiment_id * 100
    return [QueuedRun(first + place, experiment_id, place, place, demand, priority, model) for place in range(count)]


@pytest.mark.parametrize(
    ("demand", "there", "fits"),
    [
        (Demand(1), node(1), True),
        (Demand(1), node(1, project_id=1), True),
        (Demand(1), node(1, project_id=2), False),
        (Demand(1, chips=("h100",)), node(1, chip_id="h100"), True),
        (Demand(1, chips=("h100",)), node(1, chip_id="a100"), False),
        (Demand(1, chips=("h100",)), node(1), False),
        (Demand(1, chips=("h100",), counts=(("h100", 2),)), node(1, chip_id="h100"), False),
        (Demand(1, labels=(("kind", "measured"),)), node(1), True),
        (Demand(1, labels=(("kind", "measured"), ("rack", "a"))), node(1), False),
        (Demand(1, labels=(("kind", "measured"), ("rack", "a"))), node(1, rack="a"), True),
        (Demand(1, names=("n1", "n2")), node(2), True),
        (Demand(1, names=("n1", "n2")), node(3), False),
        (Demand(1), node(1, kind="modelled"), False),
        (Demand(1, chips=("h100",)), node(1, chip_id="h100", kind="modelled"), True),
        (Demand(1, labels=(("kind", "modelled"),)), node(1, kind="modelled"), True),
        (Demand(1, names=("n1",)), node(1, kind="modelled"), True),
        (Demand(1, labels=(("rack", "a"),)), node(1, kind="modelled", rack="a"), False),
    ],
)
def test_a_node_fits_by_project_chip_labels_and_name(demand: Demand, there: FreeNode, fits: bool) -> None:
    assert matches(demand, there) is fits


ON_TWO = Demand(1, chips=("trn", "wse"), counts=(("trn", 16), ("wse", 1)))
ON_OWN = Demand(1, labels=(("kind", "modelled"),), counts=(("h100", 2), ("b200", 1)))


@pytest.mark.parametrize(
    ("demand", "there", "fits"),
    [
        (ON_TWO, modelled(1, "h100", trn=16, wse=1), True),
        (ON_TWO, modelled(1, "trn", trn=16, wse=1), True),
        (ON_TWO, modelled(1, "h100", trn=8, wse=1), False),
        (ON_TWO, modelled(1, "h100", trn=16), False),
        (ON_TWO, modelled(1, "h100", any=16), True),
        (ON_TWO, modelled(1, "h100", any=16, wse=0), False),
        (Demand(1, chips=("trn", "wse")), modelled(1, "h100", trn=1, wse=1), True),
        (ON_OWN, modelled(1, "h100", h100=2), True),
        (ON_OWN, modelled(1, "h100", h100=1, b200=8), False),
        (ON_OWN, modelled(1, "b200", b200=1), True),
        (ON_OWN, modelled(1, "a100", a100=8, h100=8), False),
        (Demand(1, labels=(("kind", "modelled"),)), modelled(1, "a100", a100=8), True),
        (replace(ON_OWN, labels=()), node(1, chip_id="a100"), True),
    ],
)
def test_a_modelled_node_fits_by_the_chips_that_it_offers(demand: Demand, there: FreeNode, fits: bool) -> None:
    assert matches(demand, there) is fits


def test_one_experiment_is_first_in_first_out() -> None:
    assert assign(list(reversed(queue(1, 4))), [node(1), node(2)]) == [(100, 1), (101, 2)]


def test_free_nodes_are_shared_between_experiments() -> None:
    assert assign(queue(1, 4) + queue(2, 4), [node(1), node(2), node(3)]) == [(100, 1), (200, 2), (101, 3)]


def test_an_experiment_with_runs_under_way_waits_for_one_without() -> None:
    assert assign(queue(1, 4) + queue(2, 4), [node(1)], {1: Service(under_way=1)}) == [(200, 1)]


def test_the_experiment_that_was_served_longest_ago_is_next() -> None:
    served = {1: Service(0, T0 + dt.timedelta(seconds=9)), 2: Service(0, T0)}
    assert assign(queue(1, 4) + queue(2, 4), [node(1)], served) == [(200, 1)]


def test_a_higher_priority_goes_before_any_other_turn() -> None:
    served = {2: Service(under_way=5, last_assigned_at=T0)}
    assert assign(queue(1, 2) + queue(2, 2, priority=1), [node(1), node(2), node(3)], served) == [
        (200, 1), (201, 2), (100, 3),
    ]  # fmt: skip
    assert assign(queue(1, 2, priority=-1) + queue(2, 1), [node(1)]) == [(200, 1)]


def test_a_free_node_that_holds_the_model_is_taken_before_one_that_is_idle_for_longer() -> None:
    assert assign(queue(1, 2, model="m"), [node(1), holder(2, "m")]) == [(100, 2), (101, 1)]


def test_no_run_waits_for_a_holder() -> None:
    assert assign(queue(1, 1, model="m"), [node(1), holder(2, "other")]) == [(100, 1)]


def test_a_repeat_stays_on_its_node_though_another_holds_the_model() -> None:
    runs = queue(1, 1, model="m")
    assert assign(runs, [node(1), holder(2, "m")], held={(1, 0, "any"): 1}) == [(100, 1)]
    assert assign(runs, [holder(2, "m")], held={(1, 0, "any"): 1}) == []


def test_a_node_that_is_known_to_be_too_small_takes_nothing() -> None:
    large = Demand(1, memory_bytes=10)
    assert assign(queue(1, 3, large), [holder(1, memory_bytes=9), holder(2, memory_bytes=10), node(3)]) == [
        (100, 2), (101, 3),
    ]  # fmt: skip


def test_a_node_skips_the_runs_that_are_not_for_its_chip() -> None:
    runs = [*queue(1, 2, Demand(1, ("a100",))), QueuedRun(150, 1, 5, 0, Demand(1, ("h100",)))]
    assert assign(runs, [node(1, chip_id="h100")]) == [(150, 1)]


def test_nothing_is_assigned_where_nothing_fits() -> None:
    assert assign(queue(1, 3, Demand(1, ("a100",))), [node(1), node(2)]) == []
    assert assign([], [node(1)]) == []
    assert assign(queue(1, 3), []) == []


def repeats(trials: int, count: int, demand: Demand = ANYWHERE) -> list[QueuedRun]:
    return [QueuedRun(100 + place, 1, place, place // trials, demand) for place in range(trials * count)]


def test_the_runs_of_one_repeat_stay_on_one_node_and_other_nodes_take_other_repeats() -> None:
    runs = repeats(trials=2, count=2)
    assert assign(runs, [node(1), node(2)]) == [(100, 1), (102, 2)]
    assert assign(runs[1:], [node(2), node(1)], held={(1, 0, "any"): 1}) == [(101, 1), (102, 2)]
    assert assign(runs[1:2], [node(2)], held={(1, 0, "any"): 1}) == []


def test_each_chip_of_an_axis_has_its_own_node() -> None:
    runs = [QueuedRun(1, 1, 0, 0, Demand(1, ("a100",))), QueuedRun(2, 1, 1, 0, Demand(1, ("h100",)))]
    assert assign(runs, [node(1, chip_id="a100"), node(2, chip_id="h100")]) == [(1, 1), (2, 2)]


@given(st.integers(1, 4), st.integers(1, 4), st.lists(st.sets(st.integers(1, 3)), min_size=1, max_size=40))
def test_whenever_nodes_become_free_no_repeat_is_ever_split(trials: int, count: int, moments: list[set[int]]) -> None:
    waiting, held, given_to = repeats(trials, count), {}, {}
    for free in moments:
        pairs = assign(waiting, [node(each) for each in sorted(free)], held=held)
        by_id = {run.run_id: run for run in waiting}
        for run_id, node_id in pairs:
            group = by_id[run_id].group
            assert given_to.setdefault(group, node_id) == node_id
            held[group] = node_id
        waiting = [run for run in waiting if run.run_id not in dict(pairs)]


CHIPS = ("", "a100", "h100")
demands = st.builds(
    Demand,
    project_id=st.integers(1, 2),
    chips=st.sampled_from(((), ("a100",), ("h100",), ("a100", "h100"))),
    names=st.sampled_from(((), ("n1", "n2"))),
    memory_bytes=st.integers(0, 2),
)
# an experiment has one priority
PRIORITIES = {1: 0, 2: 0, 3: 5, 4: -5}
models = st.sampled_from(("m1", "m2"))
queues = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30), demands, models), max_size=20).map(
    lambda rows: [
        QueuedRun(index, experiment, position, index, demand, PRIORITIES[experiment], model)
        for index, (experiment, position, demand, model) in enumerate(rows)
    ]
)
fleets = st.lists(
    st.tuples(
        st.sampled_from((None, 1, 2)), st.sampled_from(CHIPS), st.sampled_from((None, 0, 1, 2)), st.frozensets(models)
    ),
    max_size=6,
).map(
    lambda rows: [
        replace(node(index, project, chip), memory_bytes=memory, models=held)
        for index, (project, chip, memory, held) in enumerate(rows)
    ]
)


@given(queues, fleets, st.dictionaries(st.integers(1, 4), st.builds(Service, under_way=st.integers(0, 3))))
def test_any_assignment_fits_is_exclusive_in_order_and_leaves_no_node_idle_needlessly(
    queued: list[QueuedRun], fleet: list[FreeNode], served: dict[int, Service]
) -> None:
    pairs = assign(queued, fleet, served)
    runs, nodes = {run.run_id: run for run in queued}, {each.node_id: each for each in fleet}
    assert len({run_id for run_id, _ in pairs}) == len(pairs) == len({node_id for _, node_id in pairs})
    taken = {run_id for run_id, _ in pairs}
    for run_id, node_id in pairs:
        run = runs[run_id]
        assert matches(run.demand, nodes[node_id])
        earlier = [
            other
            for other in queued
            if other.experiment_id == run.experiment_id
            and other.position < run.position
            and matches(other.demand, nodes[node_id])
        ]
        assert all(other.run_id in taken for other in earlier)
    idle = [each for each in fleet if each.node_id not in {node_id for _, node_id in pairs}]
    waiting = [run for run in queued if run.run_id not in taken]
    assert not any(matches(run.demand, each) for run in waiting for each in idle)


@given(queues, fleets)
def test_no_run_waits_while_a_lower_priority_has_a_node_it_could_have_taken(
    queued: list[QueuedRun], fleet: list[FreeNode]
) -> None:
    pairs = assign(queued, fleet)
    runs, nodes = {run.run_id: run for run in queued}, {each.node_id: each for each in fleet}
    waiting = [run for run in queued if run.run_id not in dict(pairs)]
    for run_id, node_id in pairs:
        higher = [run for run in waiting if run.priority > runs[run_id].priority]
        assert not any(matches(run.demand, nodes[node_id]) for run in higher)


@given(queues, fleets)
def test_who_gets_a_node_without_the_model_found_no_free_holder(queued: list[QueuedRun], fleet: list[FreeNode]) -> None:
    runs, left = {run.run_id: run for run in queued}, {each.node_id: each for each in fleet}
    for run_id, node_id in assign(queued, fleet):
        run, chosen = runs[run_id], left[node_id]
        holders = [each for each in left.values() if matches(run.demand, each) and run.model in each.models]
        assert not holders or run.model in chosen.models
        del left[node_id]
