"""`traces` against a real web server: a file is added, listed, shown and removed; what is wrong is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from api_client import member
from cli_terminal import Terminal
from control_plane import team

pytestmark = pytest.mark.django_db(transaction=True)

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,4808,10\n2023-11-16 18:17:05.97,3180,8\n"


@pytest.fixture
def lab(live_server: Any, redis_url: str, terminal: Terminal) -> Terminal:
    terminal.env = {"LAB_URL": live_server.url, "LAB_TOKEN": str(member(team()).token)}
    return terminal


def test_a_file_is_added_listed_shown_and_removed(lab: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "azure.csv"
    file.write_text(AZURE)
    made = lab.good("traces", "add", "code", file, "--json").json
    assert (made["format"], made["rows"], made["duration_s"]) == ("azure", 2, 2.0)
    assert [one["name"] for one in lab.good("traces", "list", "--json").json] == ["code"]
    assert "code" in lab.good("traces", "list").out
    assert "at most 4,808 tokens" in " ".join(lab.good("traces", "show", "code").out.split())
    lab.good("traces", "remove", "code")
    assert lab.good("traces", "list", "--json").json == []


def test_wrong_lines_are_told_by_number_and_may_be_left_out(lab: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(AZURE + "yesterday,1,1\n")
    refused = lab.run("traces", "add", "code", file, "--json")
    assert refused.status != 0
    assert [fault["field"] for fault in json.loads(refused.err)["errors"]] == ["line 4"]
    assert "1 lines could not be read" in lab.good("traces", "add", "code", file, "--skip-bad-lines").out


def test_a_trace_or_file_that_is_not_there_is_told(lab: Terminal, tmp_path: Path) -> None:
    assert "no trace 'code'" in lab.run("traces", "show", "code").err
    assert "can't be read" in lab.run("traces", "add", "code", tmp_path / "none").err
