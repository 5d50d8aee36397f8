"""From an operator's registration to an agent with credentials of its own."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from django.db import connection, transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from hardware import broker
from hardware.errors import BrokerUnavailable, HardwareError, JoinRefused, UnknownNodeToken
from hardware.messages import JoinRequest
from hardware.models import Chip, JoinToken, Node
from hardware.services import (
    authenticate_node,
    ensure_broker_users,
    issue_join_token,
    join,
    register_node,
    retire,
    rotate,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


def request(token: str) -> JoinRequest:
    return JoinRequest(token=token, facts={"chip": "a chip"}, agent_version="1")


def test_a_node_is_registered_with_a_slug_of_its_name() -> None:
    node = register_node("Rack 3, Left", kind="measured", labels={"rack": "3"}, usd_per_hour=0.25)
    assert (node.slug, node.state, node.labels, node.project) == ("rack-3-left", "registered", {"rack": "3"}, None)
    assert node.all_labels() == {"rack": "3", "kind": "measured", "chip": "", "name": "rack-3-left"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "imaginary"}, "kind"),
        ({"name": "!!"}, "name"),
        ({"name": "Taken"}, "name"),
        ({"usd_per_hour": -1.0}, "usd_per_hour"),
        ({"usd_per_hour": math.inf}, "usd_per_hour"),
        ({"kind": "modelled"}, "chip"),
        ({"chip_id": "unknown"}, "chip"),
        ({"pools": [{"chip": "any", "count": 1}]}, "pools"),
        ({"links": [{"between": ["a", "a"], "bytes_per_s": 1e9}]}, "links"),
        ({"labels": {"kind": "mine"}}, "labels.kind"),
        ({"labels": {"Rack": "a"}}, "labels.Rack"),
        ({"labels": {"rack": {"row": "a"}}}, "labels.rack"),
        ({"labels": {"rack": 3}}, "labels.rack"),
        ({"labels": {"rack": ""}}, "labels.rack"),
        ({"labels": {f"l{n}": "x" for n in range(21)}}, "labels"),
    ],
)
def test_what_can_not_be_a_node_is_refused_by_field(changes: dict[str, object], field: str) -> None:
    register_node("taken", kind="measured")
    with pytest.raises(HardwareError) as caught:
        register_node(**{"name": "new", "kind": "measured", **changes})  # type: ignore[arg-type]
    assert caught.value.field == field
    assert caught.value.allowed is not None
    assert Node.objects.count() == 1


def test_a_modelled_node_offers_pools_of_chips_of_the_catalog() -> None:
    Chip.objects.create(chip_id="c", name="C", vendor="v", kind="gpu", record={"chip_id": "c"})
    pools: list[dict[str, object]] = [{"chip": "any", "count": 4}]
    node = register_node("lab", kind="modelled", chip_id="c", pools=pools)
    assert node.offers() == {"c": 4, "any": 4}
    with pytest.raises(HardwareError, match=r"pools\.0\.chip: no chip 'd'"):
        register_node("other", kind="modelled", chip_id="c", pools=[{"chip": "d", "count": 4}])


def test_a_modelled_node_stands_for_a_chip_of_the_catalog() -> None:
    Chip.objects.create(chip_id="c", name="C", vendor="v", kind="gpu", record={"chip_id": "c"})
    node = register_node("model", kind="modelled", chip_id="c")
    assert node.all_labels()["chip"] == "c"
    assert join(request(issue_join_token(node))).chip == {"chip_id": "c"}


def test_joining_gives_credentials_that_open_the_api_and_the_nodes_own_keys() -> None:
    node = register_node("alpha", kind="measured")
    answer = join(request(issue_join_token(node)))
    assert authenticate_node(answer.api_token) == node
    assert (answer.node, answer.key_prefix, answer.queue) == ("alpha", "node:alpha:", "runs")
    with redis.Redis.from_url(answer.broker_url) as client:
        assert client.set("node:alpha:x", "1")
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.set("node:beta:x", "1")
    node.refresh_from_db()
    assert (node.facts, node.agent_version) == ({"chip": "a chip"}, "1")


def test_no_secret_is_kept_in_the_database() -> None:
    node = register_node("alpha", kind="measured")
    token = issue_join_token(node)
    answer = join(request(token))
    password = answer.broker_url.split(":")[2].split("@")[0]
    kept = str([*Node.objects.values(), *JoinToken.objects.values()])
    for secret in (token, answer.api_token, password):
        assert secret not in kept
        assert hashlib.sha256(secret.encode()).hexdigest() in kept


def test_a_join_token_works_once() -> None:
    token = issue_join_token(register_node("alpha", kind="measured"))
    first = join(request(token))
    with pytest.raises(JoinRefused):
        join(request(token))
    assert authenticate_node(first.api_token)


def test_of_two_agents_with_one_token_one_joins() -> None:
    token = issue_join_token(register_node("alpha", kind="measured"))

    def try_join(_: int) -> bool:
        try:
            join(request(token))
        except JoinRefused:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(try_join, range(8))) == 1


def test_a_join_token_lives_15_minutes() -> None:
    token = issue_join_token(register_node("alpha", kind="measured"))
    record = JoinToken.objects.get()
    assert record.expires_at - record.created_at == pytest.approx(dt.timedelta(minutes=15), abs=dt.timedelta(seconds=5))
    JoinToken.objects.update(expires_at=timezone.now())
    with pytest.raises(JoinRefused):
        join(request(token))


def test_a_newer_join_token_voids_the_older() -> None:
    node = register_node("alpha", kind="measured")
    older, newer = issue_join_token(node), issue_join_token(node)
    with pytest.raises(JoinRefused):
        join(request(older))
    assert join(request(newer))


def test_a_token_that_was_never_issued_is_refused() -> None:
    for token in ("", "join_x", "\ud800", "x" * 200):
        with pytest.raises(JoinRefused):
            join(request(token)) if token != "\ud800" else join(JoinRequest.model_construct(token=token, facts={}))


def test_joining_again_ends_the_earlier_credentials() -> None:
    node = register_node("alpha", kind="measured")
    first = join(request(issue_join_token(node)))
    second = join(request(issue_join_token(node)))
    with pytest.raises(UnknownNodeToken):
        authenticate_node(first.api_token)
    assert authenticate_node(second.api_token) == node
    with redis.Redis.from_url(first.broker_url) as client, pytest.raises(redis.RedisError):
        client.ping()


def test_a_join_while_the_broker_is_down_may_be_tried_again(settings: Settings) -> None:
    node = register_node("alpha", kind="measured")
    token, url = issue_join_token(node), settings.REDIS_URL
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with pytest.raises(BrokerUnavailable):
        join(request(token))
    settings.REDIS_URL = url
    assert join(request(token)).node == "alpha"


def test_a_retired_node_is_out_for_good() -> None:
    node = register_node("alpha", kind="measured")
    answer, unused = join(request(issue_join_token(node))), issue_join_token(node)
    retire(node)
    with pytest.raises(UnknownNodeToken):
        authenticate_node(answer.api_token)
    with pytest.raises(JoinRefused):
        join(request(unused))
    with pytest.raises(HardwareError, match="retired"):
        issue_join_token(node)
    with redis.Redis.from_url(answer.broker_url) as client, pytest.raises(redis.RedisError):
        client.ping()
    assert "node-alpha" not in broker.admin_client().acl_users()


def test_rotating_stops_the_agent_and_lets_one_join_again() -> None:
    node = register_node("alpha", kind="measured")
    before = join(request(issue_join_token(node)))
    token = rotate(node)
    with pytest.raises(UnknownNodeToken):
        authenticate_node(before.api_token)
    with redis.Redis.from_url(before.broker_url) as client, pytest.raises(redis.RedisError):
        client.ping()
    assert authenticate_node(join(request(token)).api_token) == node


def test_a_node_retired_while_the_broker_was_down_loses_its_user_later(settings: Settings) -> None:
    node = register_node("alpha", kind="measured")
    join(request(issue_join_token(node)))
    url, settings.REDIS_URL = settings.REDIS_URL, "redis://127.0.0.1:1/0"
    retire(node)
    settings.REDIS_URL = url
    assert "node-alpha" in broker.admin_client().acl_users()
    ensure_broker_users()
    assert "node-alpha" not in broker.admin_client().acl_users()


def test_a_broker_that_forgot_its_users_is_healed() -> None:
    answer = join(request(issue_join_token(register_node("alpha", kind="measured"))))
    broker.delete_users(["node-alpha"])
    assert ensure_broker_users() == 1
    assert ensure_broker_users() == 0
    with redis.Redis.from_url(answer.broker_url) as client:
        assert client.ping()


@pytest.mark.parametrize("token", ["", "node_x", "lab_x"])
def test_a_token_that_no_node_has_opens_nothing(token: str) -> None:
    register_node("never-joined", kind="measured")
    with pytest.raises(UnknownNodeToken):
        authenticate_node(token)


def test_healing_the_broker_does_not_undo_a_join_that_is_not_yet_committed() -> None:
    token = issue_join_token(register_node("alpha", kind="measured"))

    def heal() -> int:
        try:
            return ensure_broker_users()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            answer = join(request(token))
            healing = pool.submit(heal)
            # it waits for this transaction, or it has not looked yet: either way it may not throw the new user out
            with redis.Redis.from_url(answer.broker_url) as client:
                assert all(client.ping() for _ in range(200))
        assert healing.result() == 0
    with redis.Redis.from_url(answer.broker_url) as client:
        assert client.ping()
