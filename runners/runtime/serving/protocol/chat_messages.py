"""One message of a chat, and how a chat template wants it."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from runners.runtime.serving.errors import bad_field
from runners.runtime.serving.protocol.fields import Text


class FunctionCall(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    name: str
    arguments: str | dict[str, Any] = ""


class MessageToolCall(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    id: str = ""
    type: Literal["function"] = "function"
    function: FunctionCall

    def for_template(self, path: str) -> dict[str, Any]:
        """Templates print the arguments as JSON, so they are an object there. Raises ApiError 400."""
        arguments: Any = self.function.arguments or {}
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError) as error:
                raise bad_field(f"{path}.function.arguments", f"must be a JSON object: {error}") from error
        if not isinstance(arguments, dict):
            raise bad_field(f"{path}.function.arguments", "must be a JSON object")
        function = {"name": self.function.name, "arguments": arguments}
        return {"id": self.id, "type": "function", "function": function}


class Message(BaseModel):
    """`content` may be absent from an assistant's message that calls tools, and from no other."""

    model_config = ConfigDict(strict=True, extra="ignore")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Text = None
    name: str | None = None
    tool_calls: list[MessageToolCall] | None = Field(default=None, max_length=128)
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None

    def check(self, path: str) -> None:
        """Raises ApiError 400."""
        if self.tool_calls and self.role != "assistant":
            raise bad_field(f"{path}.tool_calls", f"is allowed only for role assistant (the role is {self.role})")
        if self.content is None and not self.tool_calls:
            raise bad_field(f"{path}.content", "is required", code="missing_required_parameter")

    def for_template(self, path: str) -> dict[str, Any]:
        """Chat templates know no `developer`; OpenAI treats it as `system`. Fields not given are left out, as templates
        ask whether they are there."""
        role = "system" if self.role == "developer" else self.role
        calls = [call.for_template(f"{path}.tool_calls.{i}") for i, call in enumerate(self.tool_calls or ())]
        optional: dict[str, Any] = {
            "name": self.name,
            "tool_calls": calls or None,
            "tool_call_id": self.tool_call_id,
            "reasoning_content": self.reasoning_content or self.reasoning,
        }
        given = {key: value for key, value in optional.items() if value is not None}
        return {"role": role, "content": self.content or "", **given}
