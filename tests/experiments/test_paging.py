"""Every page of a list, in any order, holds each row once; a cursor serves its own order alone."""

from __future__ import annotations

import pytest
from control_plane import ready_node
from django.core.signing import Signer
from django.db.models import QuerySet

from experiments.api.paging import PageQuery, read_page, sorts_of
from experiments.errors import BadParameter
from hardware.models import Node

pytestmark = pytest.mark.django_db

COLUMNS = {"id": "pk", "name": "name", "last_seen_at": "last_seen_at", "price": "usd_per_hour", "chip": "chip__name"}


@pytest.fixture
def nodes() -> QuerySet[Node]:
    for number in range(7):
        node = ready_node(usd_per_hour=float(number % 3), seen_s_ago=float(number % 2))
        if number > 4:
            Node.objects.filter(pk=node.pk).update(last_seen_at=None, usd_per_hour=None)
    return Node.objects.select_related("chip")


def all_pages(rows: QuerySet[Node], sort: str, limit: int) -> list[Node]:
    found: list[Node] = []
    cursor: str | None = None
    while True:
        page = read_page(rows, COLUMNS, PageQuery(sort=sort, cursor=cursor, limit=limit))
        assert len(page.items) <= limit
        found += page.items
        cursor = page.next
        if cursor is None:
            return found


@pytest.mark.parametrize("sort", sorts_of(COLUMNS))
@pytest.mark.parametrize("limit", [1, 3, 7])
def test_the_pages_together_are_the_list_in_its_order(nodes: QuerySet[Node], sort: str, limit: int) -> None:
    whole = read_page(nodes, COLUMNS, PageQuery(sort=sort, limit=200)).items
    assert len(whole) == 7
    assert all_pages(nodes, sort, limit) == whole


@pytest.mark.parametrize("sort", ["price", "-price"])
def test_rows_without_a_value_come_last(nodes: QuerySet[Node], sort: str) -> None:
    prices = [node.usd_per_hour for node in read_page(nodes, COLUMNS, PageQuery(sort=sort)).items]
    assert prices[-2:] == [None, None]
    known = [price for price in prices if price is not None]
    assert known == sorted(known, reverse=sort.startswith("-"))


def test_a_row_that_comes_meanwhile_shifts_no_page(nodes: QuerySet[Node]) -> None:
    first = read_page(nodes, COLUMNS, PageQuery(sort="-id", limit=3))
    ready_node()
    second = read_page(nodes, COLUMNS, PageQuery(sort="-id", limit=3, cursor=first.next))
    assert [node.pk for node in second.items] == [first.items[-1].pk - 1 - n for n in range(3)]


def test_a_cursor_of_another_order_is_refused(nodes: QuerySet[Node]) -> None:
    cursor = read_page(nodes, COLUMNS, PageQuery(sort="name", limit=3)).next
    with pytest.raises(BadParameter, match="made for sort=name, not for sort=-name") as refused:
        read_page(nodes, COLUMNS, PageQuery(sort="-name", cursor=cursor))
    assert (refused.value.field, refused.value.allowed) == ("cursor", "name")


@pytest.mark.parametrize("cursor", ["1", "abc:def", ":", "\x00", "é", Signer().sign_object(["name", "", "a", 1])])
def test_a_cursor_that_the_lab_did_not_make_is_refused(nodes: QuerySet[Node], cursor: str) -> None:
    with pytest.raises(BadParameter, match="no cursor of the lab"):
        read_page(nodes, COLUMNS, PageQuery(sort="name", cursor=cursor))


def test_an_unknown_order_is_refused_with_those_there_are(nodes: QuerySet[Node]) -> None:
    with pytest.raises(BadParameter) as refused:
        read_page(nodes, COLUMNS, PageQuery(sort="password"))
    assert refused.value.allowed == sorts_of(COLUMNS)
