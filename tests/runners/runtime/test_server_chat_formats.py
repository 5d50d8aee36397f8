"""A model's template says how it writes calls and thoughts; its tokens come out as OpenAI's messages and deltas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_chat_model import CONTROL, TEMPLATE, write_tiny_chat_model

from runners.runtime.engine import EngineStats
from runners.runtime.serving.answers.chat import ChatAnswer
from runners.runtime.serving.chat_format import ChatFormat, ReasoningParser, ToolCallParser
from runners.runtime.serving.errors import ApiError
from runners.runtime.serving.jobs import generation_job, generation_stream
from runners.runtime.serving.loaded import Loaded
from runners.runtime.serving.messages import Ready
from runners.runtime.serving.plain_tools import tell_of_tools
from runners.runtime.serving.prompts import PromptEncoder
from runners.runtime.serving.protocol.body import parse
from runners.runtime.serving.protocol.chat import ChatBody
from runners.runtime.tokenizer import Tokenizer

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = '{"name": "add", "arguments": {"a": 1}}'
# The marks of each family in a template that prints its tools, as theirs do.
QWEN = "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}{# <tool_call> <think> #}" + TEMPLATE
LLAMA = "{% if tools %}Environment: ipython{% endif %}" + TEMPLATE
MISTRAL = "{% if tools %}[AVAILABLE_TOOLS]{% endif %}{# [TOOL_CALLS] #}" + TEMPLATE


def load(
    folder: Path, template: str = TEMPLATE, tools: ToolCallParser = "auto", reasoning: ReasoningParser = "auto"
) -> Loaded:
    tokenizer = Tokenizer.from_path(write_tiny_chat_model(folder / "tiny.gguf", template=template))
    ready = Ready(2048, EngineStats(0, 0, 0, 0, 0, 0), {})
    return Loaded(tokenizer, ready, ChatFormat.of(tokenizer, tools, reasoning))


def chat_body(**fields: Any) -> ChatBody:
    return parse(ChatBody, json.dumps({"model": "m", "messages": [USER], **fields}).encode())


def answer_of(loaded: Loaded, body: ChatBody) -> ChatAnswer:
    """An answer over one sequence that the engine would fill."""
    job = generation_job(loaded, body, "r", 0.0)
    job.streams.append(generation_stream(loaded, body, job, 0))
    return ChatAnswer("r", "m", job, body, loaded.tokenizer)


def streamed(loaded: Loaded, body: ChatBody, text: str, reason: str = "stop") -> list[Any]:
    """The choices of the events for an output that says `text`, a token at a time."""
    answer = answer_of(loaded, body)
    (stream,) = answer.job.streams
    events = []
    for token_id in loaded.tokenizer.encode(text, add_special=False):
        stream.push(token_id)
        delta = stream.take()
        assert delta is not None
        events.append(answer.chunk(0, delta))
    stream.finish(reason, None)
    last = stream.take()
    assert last is not None
    events.append(answer.chunk(0, last))
    assert sum(event["lab"]["tokens"] for event in events) == stream.num_output_tokens
    return [event["choices"][0] for event in events]


def whole(loaded: Loaded, body: ChatBody, text: str, reason: str = "stop") -> Any:
    answer = answer_of(loaded, body)
    (stream,) = answer.job.streams
    for token_id in loaded.tokenizer.encode(text, add_special=False):
        stream.push(token_id)
    stream.finish(reason, None)
    delta = stream.take()
    assert delta is not None
    return answer.whole([delta])


@pytest.mark.parametrize(
    ("template", "tool_calls", "reasoning", "takes_tools"),
    [
        (TEMPLATE, "hermes", "none", False),
        (QWEN, "hermes", "think", True),
        (LLAMA, "llama3_json", "none", True),
        (MISTRAL, "mistral", "none", True),
        ("{{ tools }}" + TEMPLATE, "none", "none", True),
        ("{# no tools #}You have no tools. {{ xml_tools }}" + TEMPLATE, "hermes", "none", False),
    ],
)
def test_the_template_tells_the_format(
    tmp_path: Path, template: str, tool_calls: str, reasoning: str, takes_tools: bool
) -> None:
    form = load(tmp_path, template).format
    assert (form.tool_calls, form.reasoning, form.template_takes_tools) == (tool_calls, reasoning, takes_tools)


def test_an_option_overrules_the_template(tmp_path: Path) -> None:
    form = load(tmp_path, QWEN, "mistral", "none").format
    assert (form.tool_calls, form.reasoning) == ("mistral", "none")


CALLING = [
    (QWEN, f"<think>\nAdd.\n</think>\n\nOne moment.\n<tool_call>\n{CALL}\n</tool_call>", "Add.", "One moment."),
    (LLAMA, '{"name": "add", "parameters": {"a": 1}}', "", ""),
    (MISTRAL, f"[TOOL_CALLS][{CALL}]", "", ""),
    (TEMPLATE, f"Well: <tool_call>{CALL}</tool_call>", "", "Well:"),
]


@pytest.mark.parametrize(("template", "text", "thought", "content"), CALLING)
def test_a_call_comes_out_of_a_stream(tmp_path: Path, template: str, text: str, thought: str, content: str) -> None:
    choices = streamed(load(tmp_path, template), chat_body(tools=[TOOL]), text)
    deltas = [choice["delta"] for choice in choices]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == thought
    assert "".join(delta.get("content") or "" for delta in deltas) == content
    (call,) = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert (call["index"], call["type"], call["function"]["name"]) == (0, "function", "add")
    assert json.loads(call["function"]["arguments"]) == {"a": 1}
    assert deltas[0]["role"] == "assistant"
    assert [choice["finish_reason"] for choice in choices[:-1]] == [None] * (len(choices) - 1)
    assert choices[-1]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(("template", "text", "thought", "content"), CALLING)
def test_a_call_comes_in_a_whole_answer(tmp_path: Path, template: str, text: str, thought: str, content: str) -> None:
    loaded = load(tmp_path, template)
    answer = whole(loaded, chat_body(tools=[TOOL]), text)
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == (content or None)
    assert choice["message"].get("reasoning_content", "") == thought
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["add"]
    # Thinking begins with the last of the six tokens that spell its mark here, and its end belongs to it.
    thought_ids = loaded.tokenizer.encode(text.split("</think>")[0] + "</think>", add_special=False)
    counted = len(thought_ids) - 5 if thought else 0
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == counted


def test_without_tools_the_same_words_are_text(tmp_path: Path) -> None:
    text = f"<tool_call>{CALL}</tool_call>"
    for body in (chat_body(), chat_body(tools=[TOOL], tool_choice="none")):
        message = whole(load(tmp_path, QWEN), body, text)["choices"][0]["message"]
        assert message == {"role": "assistant", "content": text}


def test_an_answer_cut_off_in_a_call_says_so(tmp_path: Path) -> None:
    text = f"<tool_call>{CALL}</tool_call><tool_call>" + CALL[:9]
    (choice,) = whole(load(tmp_path, QWEN), chat_body(tools=[TOOL]), text, "length")["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] == "<tool_call>" + CALL[:9]
    assert len(choice["message"]["tool_calls"]) == 1


def test_a_thought_that_the_prompt_has_opened_has_only_an_end(tmp_path: Path) -> None:
    opening = TEMPLATE + "{{ '<think>\n' }}"
    message = whole(load(tmp_path, opening), chat_body(), "so\n</think>\n\nYes")["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("so", "Yes")


def test_marks_that_are_control_tokens_are_seen_by_the_parsers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiny_chat_model.CONTROL", [*CONTROL[:1], "[TOOL_CALLS]"])
    loaded = load(tmp_path, MISTRAL)
    (mark,) = loaded.tokenizer.encode("[TOOL_CALLS]", add_special=False)
    assert loaded.tokenizer.token_bytes(mark) == b""
    (choice,) = whole(loaded, chat_body(tools=[TOOL]), f"[TOOL_CALLS][{CALL}]")["choices"]
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["add"]


def test_a_template_is_told_of_the_tools_that_may_be_called(tmp_path: Path) -> None:
    loaded = load(tmp_path, QWEN)
    assert '"name": "add"' in loaded.prompts.chat_text(chat_body(tools=[TOOL]))
    assert "add" not in loaded.prompts.chat_text(chat_body(tools=[TOOL], tool_choice="none"))


def test_a_template_that_knows_no_tools_is_told_of_them_in_words() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    messages = [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "2"},
    ]
    told = tell_of_tools(messages, [TOOL])
    assert told[0]["content"].startswith("Be brief.\n\nYou may call functions.")
    assert json.dumps(TOOL["function"]) in told[0]["content"]
    assert told[2] == {"role": "assistant", "content": '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'}
    assert told[3] == {"role": "user", "content": "<tool_response>\n2\n</tool_response>"}
    assert tell_of_tools([USER], []) == [USER]


def test_further_names_reach_the_template(tmp_path: Path) -> None:
    loaded = load(tmp_path, "{{ mood }}" + TEMPLATE)
    assert loaded.prompts.chat_text(chat_body(chat_template_kwargs={"mood": "calm"})).startswith("calm<|im_start|>")


@pytest.mark.parametrize(("content", "end"), [("so I", "so I"), ("so I  ", "so I  "), (" so I\n", "so I\n")])
def test_a_message_left_open_ends_as_it_was_written(tmp_path: Path, content: str, end: str) -> None:
    messages = [USER, {"role": "assistant", "content": content}]
    text = load(tmp_path).prompts.chat_text(chat_body(messages=messages, continue_final_message=True))
    assert text.endswith(end)


def test_a_template_that_hides_the_last_message_cannot_leave_it_open(tmp_path: Path) -> None:
    messages = [USER, {"role": "assistant", "content": "so I"}]
    with pytest.raises(ApiError) as caught:
        load(tmp_path, "{{ 'nothing' }}").prompts.chat_text(chat_body(messages=messages, continue_final_message=True))
    assert caught.value.param == "continue_final_message"


def test_a_word_is_banned_as_it_begins_a_text_and_as_it_follows_a_space(tmp_path: Path) -> None:
    encoder = load(tmp_path).prompts
    ids = encoder.tokenizer.encode
    assert encoder.bad_token_ids(["cat"]) == (tuple(ids("cat", add_special=False)),)  # the space is a token of its own
    with pytest.raises(ApiError) as caught:
        encoder.bad_token_ids(["cat", " "])
    assert caught.value.param == "bad_words.1"


def test_a_word_that_a_space_spells_otherwise_is_banned_in_both_forms(sample_model: Path) -> None:
    tokenizer = Tokenizer.from_path(sample_model)
    banned = PromptEncoder(tokenizer, 100).bad_token_ids(["Paris"])
    assert banned == (tuple(tokenizer.encode("Paris")), tuple(tokenizer.encode(" Paris")))
