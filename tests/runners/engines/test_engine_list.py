"""The operator's list of engines: what it may hold, what is wrong with it, and what the lab is told of it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from runners.engines.commands import BadCommand, digest, fill, settings_taken
from runners.engines.listed import BadEngineList, ExternalEngine, KeyMissing, ManagedEngine, parse_engines, read_engines
from runners.engines.offers import EngineOffers, offer_of

LISTED = """
[managed.llamacpp]
command = ["llama-server", "--port", "{port}", "-c", "{total_tokens}", "-t", "{threads}"]
dialect = "llamacpp"
[external.office]
base_url = "http://10.0.0.5:8000/v1"
model = "Qwen/Qwen3-8B"
serves = ["qwen3-8b"]
api_key_env = "OFFICE_KEY"
"""


def test_a_list_names_engines_of_both_kinds() -> None:
    listed = parse_engines(LISTED)
    llama, office = listed["llamacpp"], listed["office"]
    assert isinstance(llama, ManagedEngine) and settings_taken(llama.command) == ["max_num_seqs", "threads"]
    assert isinstance(office, ExternalEngine) and office.base_url == "http://10.0.0.5:8000"


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    assert read_engines(tmp_path / "engines.toml") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[managed", "is no TOML"),
        ("[other.x]\na = 1", "other: no such part"),
        ("managed = 1", "managed: no such part"),
        ("[managed]\nx = 1", "managed.x: is no table"),
        ("[managed.x]\ncommand = []", "managed.x.command"),
        ('[managed.x]\ncommand = ["a"]', "needs the placeholder {port}"),
        ('[managed.x]\ncommand = ["a", "{port}", "{home}"]', "no such placeholder: home"),
        ('[managed.x]\ncommand = ["a", "{port.x}"]', "is no placeholder"),
        ('[managed.x]\ncommand = ["a", "{port"]', "braces that are no placeholder are doubled"),
        ('[managed.x]\ncommand = ["a", "{port}"]\nshell = true', "managed.x.shell"),
        ('[managed."X Y"]\ncommand = ["a", "{port}"]', "managed.X Y.name"),
        ('[external.x]\nbase_url = "file:///etc"\nmodel = "m"\nserves = ["m"]', "is no address"),
        ('[external.x]\nbase_url = "http://u:pw-secret@h"\nmodel = "m"\nserves = ["m"]', "holds a user"),
        ('[external.x]\nbase_url = "http://h"\nmodel = "m"\nserves = []', "external.x.serves"),
        (LISTED.replace("[external.office]", "[external.llamacpp]"), "each is named once"),
    ],
)
def test_every_fault_is_told_with_its_place_and_without_its_value(text: str, words: str) -> None:
    with pytest.raises(BadEngineList) as caught:
        parse_engines(text)
    assert words in str(caught.value) and "pw-secret" not in str(caught.value)


def test_values_fill_a_command_argument_by_argument() -> None:
    assert fill(["--x={port}", "{{as is}}"], {"port": "8 --shell"}) == ["--x=8 --shell", "{as is}"]
    with pytest.raises(BadCommand, match="no value for"):
        fill(["{model}"], {})


def test_a_digest_changes_with_the_command_and_not_with_values_of_its_environment() -> None:
    assert digest(["a"], {"K": "1"}) == digest(["a"], {"K": "2"}) != digest(["b"], {"K": "1"})
    assert digest(["a"], {"K": "1"}) != digest(["a"], {})


def test_a_key_comes_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    office = parse_engines(LISTED)["office"]
    assert isinstance(office, ExternalEngine)
    with pytest.raises(KeyMissing, match="OFFICE_KEY holds no key"):
        office.api_key()
    monkeypatch.setenv("OFFICE_KEY", " sk-1 ")
    assert office.api_key() == "sk-1"
    (tmp_path / "key").write_text("a\nb")
    filed = office.model_copy(update={"api_key_env": None, "api_key_file": tmp_path / "key"})
    with pytest.raises(KeyMissing, match="one line"):
        filed.api_key()


def test_the_lab_is_told_no_address_command_or_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFICE_KEY", "sk-1")
    llama, office = (offer_of(engine) for engine in parse_engines(LISTED).values())
    assert llama["problem"] == "the node has no command llama-server" or llama["problem"] == ""
    assert office == {"kind": "external", "name": "office", "dialect": "openai", "models": ["qwen3-8b"]}
    text = json.dumps([llama, office])
    assert not any(secret in text for secret in ("10.0.0.5", "--port", "sk-1", "OFFICE_KEY"))


@pytest.mark.parametrize(
    ("code", "version", "problem"),
    [
        ("print('b42'); print('built with gcc')", "b42", ""),
        ("raise SystemExit(3)", "", "its version command ended with status 3"),
        ("", "", ""),
    ],
)
def test_a_version_is_the_first_line_that_its_command_says(code: str, version: str, problem: str) -> None:
    command = [sys.executable, "-c", code]
    listed = f"[managed.x]\ncommand = {json.dumps([sys.executable, '{port}'])}\nversion_command = {json.dumps(command)}"
    told = offer_of(parse_engines(listed)["x"])
    assert (told["version"], told["problem"]) == (version, problem)


def test_offers_are_news_once_after_each_change_and_stay_while_the_list_is_faulty(tmp_path: Path) -> None:
    path = tmp_path / "engines.toml"
    offers = EngineOffers(path)

    def next_news() -> list[str] | None:
        deadline_s = time.monotonic() + 10
        while time.monotonic() < deadline_s:
            found = offers.news()
            if found is not None:
                return [one["name"] for one in found]
            if offers.is_idle:
                return None
            time.sleep(0.01)
        raise AssertionError("no answer")

    assert next_news() == []
    path.write_text(LISTED)
    assert next_news() == ["llamacpp", "office"]
    assert next_news() is None
    path.write_text(LISTED + "nonsense")
    assert next_news() is None
    path.unlink()
    assert next_news() == []
