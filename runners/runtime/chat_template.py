"""A model's chat templates: a chat, with the tools it may call, as the text that the model was trained on.

Templates are jinja as transformers understands them. They come with a model's files, so they render in a sandbox.
It counts no tokens and reads no files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import Template, TemplateError

from runners.runtime.model_file import ModelFileError, shown
from runners.runtime.template_limits import bounded_rendering
from runners.runtime.template_sandbox import BoundedSandbox

MAX_TEMPLATE_CHARS = 1 << 20
"""The longest template that is compiled; published ones have up to 30 thousand characters."""

_DEFAULT, _TOOL_USE = "default", "tool_use"


class TextError(ValueError):
    """Text that can't be encoded, a token id that isn't in the vocabulary, or a chat the template refuses."""

    retry = False


class ChatTemplates:
    """The templates of one model by name; `sources` is empty for a model that chats with nobody.

    `special_texts` are the texts a template may refer to, such as `bos_token`. Safe to use from several threads.
    """

    def __init__(self, path: Path, sources: Mapping[str, str], special_texts: Mapping[str, str]) -> None:
        """Compile every template. Raises ModelFileError naming the one that is no jinja."""
        self._path, self._special_texts = path, dict(special_texts)
        environment = BoundedSandbox()
        environment.globals |= {"raise_exception": _refuse, "strftime_now": _strftime_now}
        self._templates = {name: _compile(environment, path, name, source) for name, source in sources.items()}

    def __bool__(self) -> bool:
        return bool(self._templates)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        more: Mapping[str, Any],
    ) -> str:
        """The chat's text. `more` are further names the template may look at. Raises TextError."""
        given = {"messages": messages, "tools": tools, "add_generation_prompt": add_generation_prompt}
        if taken := sorted(more.keys() & {*given, *self._special_texts}):
            raise TextError(f"chat: {', '.join(taken)} can't be set for the template")
        template = self._choose(tools)
        try:
            with bounded_rendering():
                return template.render(**{"documents": None, **self._special_texts, **more, **given})
        except (
            TemplateError,
            TypeError,
            ValueError,
            LookupError,
            ArithmeticError,
            AttributeError,
            RecursionError,
        ) as error:
            told = f"{type(error).__name__}: {error}"
            raise TextError(f"chat: the model's template refuses it: {shown(told, 300)}") from error

    def _choose(self, tools: Sequence[Mapping[str, Any]] | None) -> Template:
        """As transformers does: the one for tools if there are any and it exists, else the default, else the only."""
        names = [_TOOL_USE] if tools and _TOOL_USE in self._templates else [_DEFAULT]
        if len(self._templates) == 1:
            names += list(self._templates)
        for name in names:
            if name in self._templates:
                return self._templates[name]
        if not self._templates:
            raise TextError(f"chat: {self._path.name} has no chat template; send a plain completion")
        have = shown(", ".join(self._templates), 200)
        raise TextError(f"chat: {self._path.name} has no default chat template, only {have}")


def _compile(environment: BoundedSandbox, path: Path, name: str, source: str) -> Template:
    part = "chat template" if name == _DEFAULT else f"chat template {shown(name)}"
    if len(source) > MAX_TEMPLATE_CHARS:
        raise ModelFileError(path, part, f"at most {MAX_TEMPLATE_CHARS} characters", str(len(source)))
    try:
        return environment.compile_bounded(source)
    except (TemplateError, AttributeError, TypeError, ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ModelFileError(path, part, "a jinja template", shown(str(error), 200)) from error


def _refuse(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _strftime_now(form: str) -> str:
    if len(form) > 200:
        raise TemplateError("a time format of more than 200 characters")
    return datetime.now().strftime(form)
