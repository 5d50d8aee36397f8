"""Answers of /v1/chat/completions. Thoughts are given as `reasoning_content` and, as newer clients read it,
`reasoning`."""

from __future__ import annotations

from typing import Any

from runners.runtime.serving.answers.frame import Answer
from runners.runtime.serving.answers.logprobs import chat_logprobs, prompt_logprobs
from runners.runtime.serving.jobs import Job
from runners.runtime.serving.protocol.chat import ChatBody
from runners.runtime.serving.sequence_stream import Delta, SequenceStream
from runners.runtime.serving.tool_calls.call import ToolCall
from runners.runtime.tokenizer import Tokenizer


class ChatAnswer(Answer):
    ID_PREFIX, OBJECT, CHUNK_OBJECT = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, request_id: str, model: str, job: Job, body: ChatBody, tokenizer: Tokenizer) -> None:
        super().__init__(request_id, model, job)
        self._body = body
        self._tokenizer = tokenizer

    def chunk_choice(self, index: int, delta: Delta, *, first: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {"role": "assistant"} if first else {}
        if delta.text or not (delta.reasoning or delta.calls):
            shown["content"] = delta.text
        shown |= _reasoning(delta)
        if delta.calls:
            shown["tool_calls"] = [{"index": at, **_shown_call(call)} for at, call in delta.calls]
        return {"delta": shown, "logprobs": self._shown_logprobs(delta)}

    def whole_choice(self, index: int, delta: Delta) -> dict[str, Any]:
        content = delta.text or (None if delta.reasoning or delta.calls else "")
        message: dict[str, Any] = {"role": "assistant", "content": content, **_reasoning(delta)}
        if delta.calls:
            message["tool_calls"] = [_shown_call(call) for _, call in delta.calls]
        return {"message": message, "logprobs": self._shown_logprobs(delta)}

    def whole(self, deltas: list[Delta]) -> dict[str, Any]:
        answer = super().whole(deltas)
        found = self.job.streams[0].prompt_logprobs
        if found is not None:
            answer["prompt_logprobs"] = prompt_logprobs(found, self._tokenizer)
        return answer

    def finish_reason(self, stream: SequenceStream, reason: str) -> str:
        """A call that the client itself named ends with `stop`, as at OpenAI."""
        called = stream.num_calls and self._body.choice.kind != "named"
        return "tool_calls" if called and reason == "stop" else reason

    def _shown_logprobs(self, delta: Delta) -> dict[str, Any] | None:
        if not self._body.logprobs:
            return None
        return chat_logprobs(delta.logprobs, self._tokenizer)


def _reasoning(delta: Delta) -> dict[str, str]:
    return {"reasoning_content": delta.reasoning, "reasoning": delta.reasoning} if delta.reasoning else {}


def _shown_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
