"""From a body to what the engine takes: prompts, and words that must not come out, as token ids.

Tokenising is slow for long texts, so this runs in a thread; it touches nothing but the tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runners.runtime.serving.errors import bad_field
from runners.runtime.serving.plain_tools import tell_of_tools
from runners.runtime.serving.protocol.chat import ChatBody, ChatTextFields
from runners.runtime.serving.protocol.completions import CompletionBody
from runners.runtime.serving.protocol.fields import Prompt
from runners.runtime.tokenizer import TextError, Tokenizer


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """`text` is empty where the client gave token ids, and no one asks for their text."""

    ids: tuple[int, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class PromptEncoder:
    """`context_len` is the most tokens of a prompt and its output; `template_takes_tools` as ChatFormat has it."""

    tokenizer: Tokenizer
    context_len: int
    template_takes_tools: bool = True

    def of_completion(self, body: CompletionBody) -> list[EncodedPrompt]:
        encoded = self.of_texts(body.prompt, "prompt", add_special=body.add_special_tokens)
        if not body.echo:
            return encoded
        return [EncodedPrompt(prompt.ids, prompt.text or self.tokenizer.decode(prompt.ids)) for prompt in encoded]

    def of_chat(self, body: ChatBody) -> list[EncodedPrompt]:
        text = self.chat_text(body)
        ids = self.encode(text, "messages", add_special=body.add_special_tokens)
        return [self._checked(EncodedPrompt(ids, text), "messages")]

    def of_texts(self, prompts: Sequence[Prompt], field: str, *, add_special: bool) -> list[EncodedPrompt]:
        """Raises ApiError 400 for an empty prompt, an id outside the vocabulary, and a text that can't fit the context:
        that one is not tokenised at all."""
        encoded = [
            EncodedPrompt(self.encode(prompt, field, add_special=add_special), prompt)
            if isinstance(prompt, str)
            else EncodedPrompt(prompt)
            for prompt in prompts
        ]
        return [self._checked(prompt, field) for prompt in encoded]

    def chat_text(self, body: ChatTextFields) -> str:
        """Raises ApiError 400 for a chat that the model's template refuses."""
        messages, tools = body.template_messages(), body.offered_tools
        if not self.template_takes_tools:
            messages, tools = tell_of_tools(messages, tools), []
        try:
            text = self.tokenizer.apply_chat_template(
                messages,
                tools=tools or None,
                add_generation_prompt=body.add_generation_prompt and not body.continue_final_message,
                **body.chat_template_kwargs,
            )
        except TextError as error:
            raise bad_field("messages", str(error), code="invalid_value") from error
        return _left_open(text, str(messages[-1]["content"])) if body.continue_final_message else text

    def bad_token_ids(self, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Each word as it begins a text and as it follows a space, which most vocabularies spell otherwise."""
        banned: list[tuple[int, ...]] = []
        for index, word in enumerate(words):
            bare = self._ids(word.lstrip(), f"bad_words.{index}")
            spaced = self._ids(f" {word.lstrip()}", f"bad_words.{index}")
            if not bare:
                raise bad_field(f"bad_words.{index}", "holds nothing but space", code="invalid_value")
            banned += [bare] if spaced[-len(bare) :] == bare else [bare, spaced]
        return tuple(dict.fromkeys(banned))

    def encode(self, text: str, field: str, *, add_special: bool) -> tuple[int, ...]:
        """Raises ApiError 400 for a text that can't fit the context, without tokenising it."""
        most_bytes, size = self.context_len * self.tokenizer.longest_token_bytes, len(text.encode("utf-8", "replace"))
        if size > most_bytes:
            message = f"has {size} bytes; no text of more than {most_bytes} fits the model's context"
            raise bad_field(field, message, code="context_length_exceeded")
        return self._ids(text, field, add_special=add_special)

    def _ids(self, text: str, field: str, *, add_special: bool = False) -> tuple[int, ...]:
        try:
            return tuple(self.tokenizer.encode(text, add_special=add_special))
        except TextError as error:
            raise bad_field(field, str(error), code="invalid_value") from error

    def _checked(self, prompt: EncodedPrompt, field: str) -> EncodedPrompt:
        if not prompt.ids:
            raise bad_field(field, "is empty; allowed: at least one token", code="invalid_value")
        if (highest := max(prompt.ids)) >= self.tokenizer.vocab_size:
            allowed = f"0 to {self.tokenizer.vocab_size - 1}"
            raise bad_field(field, f"there is no token {highest}; allowed: {allowed}", code="invalid_value")
        return prompt


def _left_open(text: str, content: str) -> str:
    """The chat's text up to the end of its last message's content, which templates may have stripped. Raises ApiError
    400 for a template that does not show it."""
    bare = content.rstrip()
    at = text.rfind(bare.lstrip())
    if at < 0:
        raise bad_field("continue_final_message", "the model's template does not show the last message as it is")
    end, space = at + len(bare.lstrip()), content[len(bare) :]
    return text[: end + len(space)] if text.startswith(space, end) else text[:end]
