"""`engines.toml` in a node's home: the engines that its operator lets experiments name.

    [managed.llamacpp]
    command = ["llama-server", "--model", "{model_path}", "--port", "{port}", "--parallel", "{max_num_seqs}"]
    version_command = ["llama-server", "--version"]
    dialect = "llamacpp"

    [external.office]
    base_url = "http://10.0.0.5:8000"
    model = "Qwen/Qwen3-8B"
    serves = ["qwen3-8b"]
    dialect = "vllm"
    api_key_file = "/etc/lab/office.key"

A document names them and nothing else: addresses, commands and keys never leave the node. All keys are described at
their classes. Nothing is started or asked here.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from runners.engines.commands import BadCommand, check_command

ENGINES_FILE = "engines.toml"
MOST_ENGINES = 50
MAX_KEY_BYTES = 16 * 1024
NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{0,99}$")

DialectName = Literal["openai", "vllm", "sglang", "llamacpp", "lab"]
Prompts = Literal["auto", "ids", "text"]


class BadEngineList(Exception):
    """The operator's list can't be used as it is written."""


class KeyMissing(Exception):
    """The key of an external engine is not where the list says."""


def _is_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is no address; allowed: http(s)://HOST[:PORT][/PATH], what comes before /v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("holds a user, a password or a query; a key goes into api_key_file or api_key_env")
    return text.rstrip("/").removesuffix("/v1")


class _Listed(BaseModel):
    """`dialect` says whose fields its /v1/completions takes: plain OpenAI's, or those of an engine that takes more.
    `prompts` are sent as token ids or as text; `auto` sends ids where the engine answers to them. `metrics` is the path
    of its Prometheus metrics, empty where it has none."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(pattern=NAME.pattern)
    dialect: DialectName = "openai"
    prompts: Prompts = "auto"
    metrics: str = Field(default="/metrics", pattern=r"^(/.*)?$")


class ExternalEngine(_Listed):
    """An OpenAI-compatible endpoint that somebody else started. `model` is the name that it knows its model by,
    `serves` the lab's names of the models that these are the weights of: the operator vouches for that."""

    kind: Literal["external"] = "external"
    base_url: Annotated[str, AfterValidator(_is_address)]
    model: str = Field(min_length=1, max_length=300)
    serves: tuple[str, ...] = Field(min_length=1, max_length=100)
    api_key_file: Path | None = None
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")

    @model_validator(mode="after")
    def has_one_key(self) -> Self:
        if self.api_key_file is not None and self.api_key_env is not None:
            raise ValueError("api_key_file and api_key_env: at most one of them")
        return self

    def api_key(self) -> str | None:
        """The key, None where it needs none. Raises KeyMissing."""
        if self.api_key_env is not None:
            key = os.environ.get(self.api_key_env, "").strip()
            where = f"the environment variable {self.api_key_env}"
        elif self.api_key_file is not None:
            where = f"the file of api_key_file of {self.name}"
            try:
                with self.api_key_file.open("rb") as file:
                    key = file.read(MAX_KEY_BYTES).decode().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise KeyMissing(f"{where} can't be read: {getattr(error, 'strerror', None) or error}") from error
        else:
            return None
        if not key or not key.isascii() or not key.isprintable():
            raise KeyMissing(f"{where} holds no key: one line of printable characters is needed")
        return key


class ManagedEngine(_Listed):
    """A command that the node starts for each run and stops after it. `command` takes the placeholders of
    runners.engines.commands; `version_command` says its version on its first line. `model` is the name that it serves
    the model by. It is ready when `health` answers with status 200."""

    kind: Literal["managed"] = "managed"
    command: tuple[str, ...] = Field(min_length=1, max_length=200)
    version_command: tuple[str, ...] = Field(default=(), max_length=50)
    environment: dict[str, str] = Field(default_factory=dict, max_length=100)
    model: str = Field(default="{model}", min_length=1, max_length=300)
    health: str = Field(default="/health", pattern=r"^/.*$")
    ready_within_s: float = Field(default=300.0, gt=0, le=7200)

    @model_validator(mode="after")
    def command_can_be_filled(self) -> Self:
        try:
            check_command(self.command)
        except BadCommand as error:
            raise ValueError(f"command: {error}") from error
        return self


Engine = ExternalEngine | ManagedEngine
TYPES: Mapping[str, type[ExternalEngine] | type[ManagedEngine]] = {
    "external": ExternalEngine,
    "managed": ManagedEngine,
}


def read_engines(path: Path) -> dict[str, Engine]:
    """The engines by name; none where there is no such file. Raises BadEngineList with every fault."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadEngineList(f"{path} can't be read: {error}") from error
    try:
        return parse_engines(text)
    except BadEngineList as error:
        raise BadEngineList(f"{path}: {error}") from error


def parse_engines(text: str) -> dict[str, Engine]:
    """Raises BadEngineList with every fault. Values are not repeated in it: they may be secrets."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadEngineList(f"is no TOML: {error}") from error
    faults: list[str] = []
    engines: dict[str, Engine] = {}
    for kind, name, table in _tables(content, faults):
        if name in engines:
            faults.append(f"{kind}.{name}: another engine has this name; each is named once")
            continue
        try:
            engines[name] = TYPES[kind].model_validate({"name": name, **table})
        except ValidationError as error:
            faults += [f"{kind}.{name}{_told(one)}" for one in error.errors(include_input=False, include_url=False)]
    if len(engines) > MOST_ENGINES:
        faults.append(f"{len(engines)} engines; at most {MOST_ENGINES}")
    if faults:
        raise BadEngineList("; ".join(faults))
    return engines


def _tables(content: Mapping[str, Any], faults: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for kind, named in content.items():
        if kind not in TYPES or not isinstance(named, dict):
            faults.append(f"{kind}: no such part; allowed are tables [managed.NAME] and [external.NAME]")
            continue
        for name, table in named.items():
            if not isinstance(table, dict):
                faults.append(f"{kind}.{name}: is no table; allowed: [{kind}.NAME] and its keys below")
            elif {"name", "kind"} & table.keys():
                faults.append(f"{kind}.{name}: name and kind are said by the table's heading alone")
            else:
                yield kind, name, table


def _told(fault: Mapping[str, Any]) -> str:
    where = "".join(f".{part}" for part in fault["loc"])
    return f"{where}: {str(fault['msg']).removeprefix('Value error, ')}"
