"""The body of /v1/chat/completions, and the part of it that makes a chat's text, which /tokenize takes too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from runners.runtime.sequence import Structure
from runners.runtime.serving.errors import bad_field
from runners.runtime.serving.protocol.body import INT64_MAX
from runners.runtime.serving.protocol.chat_messages import Message
from runners.runtime.serving.protocol.generation import MAX_LOGPROBS, GenerationBody
from runners.runtime.serving.protocol.tools import MAX_TOOLS, Tool, ToolChoice, ToolChoiceField, forced_structure

MAX_MESSAGES = 4096
MAX_TEMPLATE_KWARGS = 64
# What the server itself gives to a template.
RESERVED_KWARGS = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})


class ChatTextFields(BaseModel):
    """What a chat template sees. `continue_final_message` leaves the last message open, for the model to go on with."""

    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    tools: list[Tool] = Field(default=[], max_length=MAX_TOOLS)
    tool_choice: ToolChoiceField = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False
    chat_template_kwargs: dict[str, Any] = Field(default={}, max_length=MAX_TEMPLATE_KWARGS)

    @property
    def choice(self) -> ToolChoice:
        """OpenAI's default: `auto` with tools, `none` without."""
        return (self.tool_choice or ToolChoice("auto")) if self.tools else ToolChoice("none")

    @property
    def offered_tools(self) -> list[dict[str, Any]]:
        """What the template is told of; nothing where none may be called."""
        return [] if self.choice.kind == "none" else [tool.for_template() for tool in self.tools]

    def template_messages(self) -> list[dict[str, Any]]:
        """Raises ApiError 400 for arguments of a tool call that are no JSON object."""
        return [message.for_template(f"messages.{i}") for i, message in enumerate(self.messages)]

    def check_text(self) -> None:
        """Raises ApiError 400."""
        for index, message in enumerate(self.messages):
            message.check(f"messages.{index}")
        if reserved := RESERVED_KWARGS & self.chat_template_kwargs.keys():
            name = sorted(reserved)[0]
            raise bad_field(f"chat_template_kwargs.{name}", "is what the server gives; allowed: any other name")
        if self.continue_final_message:
            self._check_continued()
        self._check_tools()

    def _check_continued(self) -> None:
        if self.add_generation_prompt and "add_generation_prompt" in self.model_fields_set:
            raise bad_field("continue_final_message", "is not allowed beside add_generation_prompt: true")
        last = self.messages[-1]
        if last.role != "assistant" or not (last.content or "").strip():
            raise bad_field("continue_final_message", "needs a last message of role assistant that has content")

    def _check_tools(self) -> None:
        names = [tool.function.name for tool in self.tools]
        if repeated := next((name for i, name in enumerate(names) if name in names[:i]), None):
            raise bad_field("tools", f"names the function {repeated!r} twice; allowed: a name of its own each")
        if self.tool_choice is None or not self.tool_choice.forced:
            return
        if not self.tools:
            raise bad_field("tool_choice", "asks for a call and there are no tools; allowed: none, auto")
        if self.tool_choice.kind == "named" and self.tool_choice.name not in names:
            name = self.tool_choice.name[:80]
            raise bad_field("tool_choice", f"names the function {name!r}; allowed: {', '.join(names)[:500]}")


class ChatBody(ChatTextFields, GenerationBody):
    REFUSED: ClassVar[Mapping[str, tuple[object, ...]]] = {
        **GenerationBody.REFUSED,
        "functions": ([],),
        "function_call": ("none", "auto"),
        "modalities": (["text"],),
        "audio": (),
        "prediction": (),
        "web_search_options": (),
        "documents": ([],),
        "echo": (False,),
        "include_reasoning": (True,),
    }

    max_completion_tokens: int | None = Field(default=None, ge=1, le=INT64_MAX)
    logprobs: bool = False
    top_logprobs: int = Field(default=0, ge=0, le=MAX_LOGPROBS)
    parallel_tool_calls: bool = True

    @property
    def num_logprobs(self) -> int | None:
        return self.top_logprobs if self.logprobs else None

    @property
    def has_structure(self) -> bool:
        return self.choice.forced or super().has_structure

    @property
    def structure(self) -> Structure | None:
        if self.choice.forced:
            return forced_structure(self.tools, self.choice, parallel=self.parallel_tool_calls)
        return super().structure

    def check(self) -> None:
        super().check()
        self.check_text()
        if self.top_logprobs and not self.logprobs:
            raise bad_field("top_logprobs", "is allowed only with logprobs: true")
        if self.choice.forced and (asked := super().structure) is not None:
            raise bad_field("tool_choice", f"asks for a call, which {asked.field} would not allow")
