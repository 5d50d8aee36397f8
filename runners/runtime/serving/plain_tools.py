"""Tools for a chat template that knows none: told in the system message, calls and results as plain messages.

The words ask for Hermes' format, which `tool_calls.tagged` reads. How well a model that was not trained for tools
follows them is another matter; a call that is forced is valid all the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runners.runtime.serving.tool_calls.tagged import END, START

WORDS = (
    "You may call functions. These are their signatures, one JSON object a line:\n{functions}\n"
    "To call a function, answer with nothing but a JSON object of its name and its arguments between tags:\n"
    '{start}{{"name": "…", "arguments": {{…}}}}{end}'
)


def tell_of_tools(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the tools in the system message, and with calls and their results as text."""
    told = [_as_text(message) for message in messages]
    if not tools:
        return told
    lines = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    words = WORDS.format(functions=lines, start=START, end=END)
    if told and told[0]["role"] == "system":
        return [{"role": "system", "content": f"{told[0]['content']}\n\n{words}".strip()}, *told[1:]]
    return [{"role": "system", "content": words}, *told]


def _as_text(message: Mapping[str, Any]) -> dict[str, Any]:
    """A call and its result as text; any other message as it is."""
    if message["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{message['content']}\n</tool_response>"}
    if "tool_calls" not in message:
        return dict(message)
    calls = [START + json.dumps(call["function"], ensure_ascii=False) + END for call in message["tool_calls"]]
    content = "\n".join(text for text in (message["content"], *calls) if text)
    return {"role": message["role"], "content": content}
