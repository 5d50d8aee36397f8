"""Whatever is sent, the API answers in its one shape and never fails."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from api_client import SHAPE, Caller, member
from control_plane import document, ready_node, submit, team
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.django_db

READS = ["/experiments", "/experiments/{}", "/runs/{}", "/runs/{}/requests", "/runs/{}/series", "/runs/{}/steps",
         "/runs/{}/log", "/compare", "/nodes", "/nodes/{}", "/chips", "/chips/{}", "/models"]  # fmt: skip
WRITES = ["/experiments", "/experiments/validate", "/experiments/{}/cancel", "/runs/{}/cancel"]
PARAMETERS = ["cursor", "limit", "after", "attempt", "experiment", "trials", "project", "other"]

text = st.text(max_size=12) | st.integers().map(str) | st.sampled_from(["1", "0", "2", "", "1,2", "\x00", "é"])
query = st.dictionaries(st.sampled_from(PARAMETERS), text, max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from([*document(), "matrix", "engine", "slo", "exclude", "chip"])
bodies = (
    st.dictionaries(keys, values, max_size=3).map(lambda changes: json.dumps(document(**changes)).encode())
    | values.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=60)
)
kinds = st.sampled_from(["application/json", "application/yaml", "text/plain", ""])
many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def caller() -> Caller:
    ready_node()
    project = team()
    submit(project)
    return member(project)


def path_of(pattern: str, part: str, parameters: dict[str, str]) -> str:
    asked = "&".join(f"{name}={quote(value)}" for name, value in parameters.items())
    return pattern.format(quote(part, safe="")) + (f"?{asked}" if asked else "")


def assert_well_answered(response: Any) -> None:
    assert response.status_code < 500, response.content
    if response.status_code >= 400:
        assert set(response.json()) == SHAPE


@given(st.sampled_from(READS), text, query)
@many
def test_any_read_is_well_answered(caller: Caller, pattern: str, part: str, parameters: dict[str, str]) -> None:
    assert_well_answered(caller.get(path_of(pattern, part, parameters)))


@given(st.sampled_from(WRITES), text, query, bodies, kinds)
@many
def test_any_write_is_well_answered(
    caller: Caller, pattern: str, part: str, parameters: dict[str, str], body: bytes, kind: str
) -> None:
    assert_well_answered(caller.post(path_of(pattern, part, parameters), body, kind))
