"""What a server has once its model is there: tokenizer, the engine's facts, how the model writes calls and thoughts."""

from __future__ import annotations

from dataclasses import dataclass

from runners.runtime.serving.chat_format import ChatFormat
from runners.runtime.serving.messages import Ready
from runners.runtime.serving.prompts import PromptEncoder
from runners.runtime.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Loaded:
    tokenizer: Tokenizer
    facts: Ready
    format: ChatFormat

    @property
    def prompts(self) -> PromptEncoder:
        return PromptEncoder(self.tokenizer, self.facts.context_len, self.format.template_takes_tools)
