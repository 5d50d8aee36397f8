"""What the command line says without a lab: help, version, completion, wrong use, and a lab that is not there."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cli_terminal import Terminal

from runners.cli.account import Account, check_url, find_account, keep_account
from runners.cli.app import COMMANDS, main
from runners.cli.errors import WrongUse
from runners.cli.models import models_app
from runners.cli.options import read_changes
from runners.cli.session import clean
from runners.cli.submit import read_document

NOWHERE = {"LAB_URL": "http://127.0.0.1:9", "LAB_TOKEN": "lab_x"}


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("LAB_URL", raising=False)
    monkeypatch.delenv("LAB_TOKEN", raising=False)


def test_every_command_has_help_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    of_models = [["models", str(command.name)] for command in models_app.registered_commands]
    for command in [[name] for name in COMMANDS] + of_models:
        assert main([*command, "--help"]) == 0
        assert "--json" in capsys.readouterr().out, command


def test_it_starts_without_the_labs_heavy_parts() -> None:
    heavy = {"django", "torch", "numpy", "aiohttp", "transformers", "huggingface_hub", "gguf"}
    program = f"import sys, runners.cli.app; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_fault_of_its_own_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unexpected() -> None:
        raise KeyError("trials")

    monkeypatch.setattr("runners.cli.change.session_of", lambda context: unexpected())
    assert main(["pause", "1"]) == 70
    assert "KeyError: 'trials'" in capsys.readouterr().err
    monkeypatch.setenv("LAB_DEBUG", "1")
    with pytest.raises(KeyError):
        main(["pause", "1"])


def test_version_and_no_command(terminal: Terminal) -> None:
    assert terminal.process("--version").out.startswith("inference-lab ")
    assert terminal.process().status == 2


def test_bash_completes_commands_and_options(terminal: Terminal) -> None:
    script = terminal.env | {"_INFERENCE_LAB_COMPLETE": "source_bash"}
    assert "complete -o default -F" in Terminal(terminal.home, script).process().out
    asked = {"_INFERENCE_LAB_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    offered = Terminal(terminal.home, asked | {"COMP_WORDS": "inference-lab re"}).process().out.split()
    assert offered == ["replay", "resume", "restore"]
    options = {"COMP_WORDS": "inference-lab submit --w", "COMP_CWORD": "2"}
    assert Terminal(terminal.home, asked | options).process().out.split() == ["--wait", "--watch"]


def test_without_an_account_it_says_how_to_get_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 2
    assert "inference-lab login" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["nothing"], ["show"], ["show", "x"], ["show", "0"], ["list", "--limit", "0"], ["compare"],
     ["compare", "1", "--trials", "1"], ["export", "1", "--run"], ["export", "1", "secrets"],
     ["export", "1", "--attempt", "1"], ["edit", "1"], ["submit", "/nowhere/at/all.yaml"], ["submit", "/"],
     ["clone", "1", "--set", "nothing"], ["clone", "1", "--set", "=1"], ["clone", "1", "--set", "a=[1"],
     ["wait", "1", "--timeout", "-1"], ["login"], ["login", "nonsense"]],
)  # fmt: skip
def test_wrong_use_ends_with_2(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)
    assert main(arguments) == 2


@pytest.mark.parametrize("arguments", [["nothing"], ["show", "x"], ["list", "--limit", "0"], ["list", "--secret"]])
def test_a_faulty_line_is_one_json_object_where_json_is_asked_for(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--json"]) == 2
    said = capsys.readouterr()
    told = json.loads(said.err)
    assert said.out == ""
    assert told["exit"] == 2
    assert told["detail"]


def test_signing_in_without_a_token_says_that_there_is_none(terminal: Terminal) -> None:
    said = terminal.run("login", "http://127.0.0.1:9", given="\n")
    assert said.status == 2
    assert "no token was given" in said.err


def test_a_lab_that_is_not_there_ends_with_4(terminal: Terminal) -> None:
    terminal.env = NOWHERE
    said = terminal.process("login", NOWHERE["LAB_URL"], "--json", given="lab_x\n")
    assert (said.status, said.out) == (4, "")
    told = json.loads(said.err)
    assert (told["exit"], told["errors"]) == (4, [])
    assert "can't be reached" in told["detail"]


def test_an_account_is_kept_for_its_owner_alone_and_for_its_lab_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    path = keep_account(Account("https://lab.example", "lab_secret"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert find_account() == Account("https://lab.example", "lab_secret")
    with pytest.raises(WrongUse, match="no token for"):
        find_account("https://other.example")
    monkeypatch.setenv("LAB_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("LAB_TOKEN", "lab_other")
    assert find_account() == Account("http://127.0.0.1:1", "lab_other")


@pytest.mark.parametrize("content", ["url = ", "url = 5", "", 'url = "https://a"\ntoken = 5', "\x00"])
def test_a_broken_account_file_is_told(content: str) -> None:
    path = keep_account(Account("https://lab.example", "lab_secret"))
    path.write_text(content)
    with pytest.raises(WrongUse):
        find_account()


@pytest.mark.parametrize(
    "url",
    ["", "lab.example", "ftp://lab.example", "http://", "http://a b", "http://u:p@lab", 'http://a"', "http://a?b"],
)
def test_what_is_no_address_of_a_lab_is_refused(url: str) -> None:
    with pytest.raises(WrongUse):
        check_url(url)


def test_control_characters_of_names_do_not_reach_the_terminal() -> None:
    assert clean("a\x1b[31mb\x07\u202ec\u2028d\ne") == "a [31mb  c d\ne"


def test_values_are_yaml_and_paths_are_dotted() -> None:
    assert read_changes(["a.b=3", "c=[x, y]", "d=text with = sign", "e=", "f=null"]) == {
        "a.b": 3, "c": ["x", "y"], "d": "text with = sign", "e": None, "f": None,
    }  # fmt: skip


def test_a_document_is_sent_as_it_was_written_unless_it_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("name: x  # mine\nmatrix:\n  engine.weights: [bf16]\n")
    assert read_document(str(file), None) == (file.read_bytes(), {"Content-Type": "application/yaml"})
    content, kind = read_document(str(file), ["engine.block_size=16", "matrix.engine.weights=[int8, bf16]"])
    assert kind == {"Content-Type": "application/json"}
    assert json.loads(content) == {
        "name": "x", "engine": {"block_size": 16}, "matrix": {"engine.weights": ["int8", "bf16"]},
    }  # fmt: skip
    with pytest.raises(WrongUse, match="holds no keys"):
        read_document(str(file), ["name.first=y"])


def test_a_file_that_is_no_document_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_bytes(b"#" * (2 * 1024 * 1024 + 1))
    with pytest.raises(WrongUse, match="larger than"):
        read_document(str(file), None)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(WrongUse, match="UTF-8"):
        read_document(str(file), ["a=1"])
