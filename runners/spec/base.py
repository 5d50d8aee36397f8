"""What every part of the experiment document shares: frozen mappings without unknown keys, and the kinds of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from runners.plain_text import NAME_RULE, TEXT_RULE, is_name, is_text


def _readable_name(value: str) -> str:
    if not is_name(value):
        raise PydanticCustomError("unreadable", "not a name that can be read", {"allowed": NAME_RULE})
    return value


def _readable_text(value: str) -> str:
    if not is_text(value):
        raise PydanticCustomError("unreadable", "not a text that can be read", {"allowed": TEXT_RULE})
    return value


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_readable_name)]
Tag = Annotated[str, Field(min_length=1, max_length=50), AfterValidator(_readable_name)]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
Text = Annotated[str, Field(max_length=2000), AfterValidator(_readable_text)]
SLOWEST_BYTES_PER_S = 1e6
"""Of a link or a tier: 1 MB/s, below which a figure is a slip of its unit."""
Setting = str | int | float | bool | None


def values_differ(axes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of mappings of paths to the values to try; what an axis has in place of a list of values is passed over."""
    for path, values in axes.items():
        if isinstance(values, tuple) and len({repr(value) for value in values}) != len(values):
            raise PydanticCustomError("repeated_value", "{path} lists a value twice", {"path": path, "field": path})
    return axes


class Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
