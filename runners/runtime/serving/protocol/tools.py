"""Tools that a chat may call, and which of them it must: the fields `tools` and `tool_choice`.

A call that must be made is drawn under a JSON schema, so that it is always valid: a list of {name, parameters} where
any of the tools will do, the parameters alone where one is named.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from runners.runtime.sequence import Structure

MAX_TOOLS = 128
MAX_CALLS = 16


class Function(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")
    name: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")
    type: Literal["function"]
    function: Function

    def for_template(self) -> dict[str, Any]:
        """As the client gave it: what templates print."""
        return self.model_dump(exclude_unset=True)


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """`name` only where one tool is named."""

    kind: Literal["none", "auto", "required", "named"]
    name: str = ""

    @property
    def forced(self) -> bool:
        return self.kind in ("required", "named")


def _tool_choice(value: object) -> object:
    match value:
        case "none" | "auto" | "required":
            return ToolChoice(value)
        case {"type": "function", "function": {"name": str(name)}}:
            return ToolChoice("named", name)
        case _:
            allowed = 'none, auto, required or {"type": "function", "function": {"name": …}}'
            raise ValueError(f"must be {allowed}")


ToolChoiceField = Annotated[ToolChoice | None, BeforeValidator(_tool_choice)]


def forced_structure(tools: list[Tool], choice: ToolChoice, *, parallel: bool) -> Structure:
    """What the output must match where `choice` is required or named."""
    if choice.kind == "named":
        (tool,) = [tool for tool in tools if tool.function.name == choice.name]
        return Structure("json_schema", json.dumps(_parameters(tool), ensure_ascii=False), field="tools")
    schema = {
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_CALLS if parallel else 1,
        "items": {"anyOf": [_call_schema(tool, index) for index, tool in enumerate(tools)]},
        "$defs": {
            _definition(i): _moved(_parameters(tool), f"#/$defs/{_definition(i)}") for i, tool in enumerate(tools)
        },
    }
    return Structure("json_schema", json.dumps(schema, ensure_ascii=False), field="tools")


def _parameters(tool: Tool) -> dict[str, Any]:
    return tool.function.parameters or {"type": "object", "properties": {}, "additionalProperties": False}


def _definition(index: int) -> str:
    return f"tool_{index}"


def _call_schema(tool: Tool, index: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "name": {"enum": [tool.function.name]},
            "parameters": {"$ref": f"#/$defs/{_definition(index)}"},
        },
        "required": ["name", "parameters"],
        "additionalProperties": False,
    }


def _moved(schema: Any, root: str) -> Any:
    """The schema with its own references (`#…`) pointing to where it now stands."""
    if isinstance(schema, list):
        return [_moved(item, root) for item in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _moved(value, root) for key, value in schema.items()}
    target = schema.get("$ref")
    if isinstance(target, str) and target.startswith("#"):
        moved["$ref"] = root + target[1:]
    return moved
