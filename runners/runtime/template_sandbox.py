"""A jinja environment for templates nobody vouches for: no way out of it, and no way to fill memory or to run on.

On top of jinja's own sandbox, every loop round and call costs one of a fixed number of steps, and what could build a
huge text or list at one stroke (`*`, `~`, `replace`, nested lists turned to text …) is checked first. The bounds are
far above what any chat needs; they aim at a template made to hurt, and are no proof. What templates mean is
chat_template.py's.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from string import Formatter
from typing import Any, cast

from jinja2 import Template, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError
from jinja2.visitor import NodeTransformer

MAX_STEPS = 500_000
"""Loop rounds and calls of one rendering, together."""

MAX_CHARS = 1 << 24
"""The longest text that a template may build, the result included."""

MAX_CHARS_IN_ALL = 1 << 30
"""The sum of all texts that a rendering builds on its way."""

MAX_ITEMS = 1_000_000
"""The longest list, and the most values of a nested one, that a template may handle."""

MAX_SECONDS = 10.0
"""A last resort for steps that are slow; a chat takes milliseconds."""

_WIDE_PERCENT = re.compile(r"%[^%a-zA-Z]*(\*|\d{5})")
"""A `%` conversion with a width of five digits, or one given as an argument."""

_UNBOUNDED_METHODS = {"ljust", "rjust", "center", "zfill", "expandtabs", "translate"}
_UNBOUNDED_FILTERS = ("batch", "center", "pprint", "slice", "urlize", "wordwrap", "xmlattr")


@dataclass(slots=True)
class _Budget:
    steps: int
    chars: int
    deadline_s: float


_budget: ContextVar[_Budget | None] = ContextVar("template_budget", default=None)


class TemplateLimitError(SecurityError):
    """A template that builds or runs more than is allowed."""


@contextmanager
def bounded_rendering() -> Iterator[None]:
    """Give what is rendered inside its own budget of steps and seconds."""
    token = _budget.set(_Budget(MAX_STEPS, MAX_CHARS_IN_ALL, time.monotonic() + MAX_SECONDS))
    try:
        yield
    finally:
        _budget.reset(token)


class BoundedSandbox(ImmutableSandboxedEnvironment):
    """jinja's sandbox with the bounds above. Compile with `compile_bounded`, render inside `bounded_rendering`."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, _GenerationTag],
            optimized=False,
            finalize=_weighed,
        )
        self.concat = _concat
        self.globals.pop("lipsum")
        for name in _UNBOUNDED_FILTERS:
            del self.filters[name]
        self.filters = {name: _charged(function) for name, function in (self.filters | _FILTERS).items()}

    def compile_bounded(self, source: str) -> Template:
        """A template whose loops and concatenations are counted. Raises jinja2.TemplateError for bad syntax."""
        tree = _Counting().visit(self.parse(source))
        return Template.from_code(self, self.compile(tree), self.make_globals(None))

    def step(self) -> str:
        """Called once a loop round; `call` counts it."""
        return ""

    def join_texts(self, *parts: object) -> str:
        return _concat(str(_weighed(part)) for part in parts)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        _spend_step()
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, str) and name in _BOUNDED_METHODS:
            return _spend_chars(_BOUNDED_METHODS[name](owner, *args, **kwargs))
        return _spend_chars(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            return _spend_chars(_percent_format(left, right))
        _check_size(_result_size(operator, left, right))
        return _spend_chars(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr in _UNBOUNDED_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        for _, _, width, _ in Formatter().parse(value.__self__):
            if width and ("{" in width or re.search(r"\d{5}", width)):
                raise TemplateLimitError("a format text with a huge width")

        def format_text(*args: Any, **kwargs: Any) -> str:
            _weighed([args, kwargs])
            return wrapped(*args, **kwargs)

        return format_text


class _GenerationTag(Extension):
    """`{% generation %} … {% endgeneration %}`, which marks a model's own words for training: its body, here."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Counting(NodeTransformer):
    """Puts a counted step into every loop, and turns `a ~ b` into a call of `join_texts`."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        step = nodes.Call(nodes.EnvironmentAttribute("step"), [], [], None, None)
        node.body.insert(0, nodes.ExprStmt(step).set_lineno(node.lineno))
        if node.test is not None:  # a round that the test skips costs a step too: the step's text is empty, so false
            node.test = nodes.And(nodes.Not(step), node.test).set_lineno(node.lineno)
        return node.set_lineno(node.lineno)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        self.generic_visit(node)
        joined = nodes.Call(nodes.EnvironmentAttribute("join_texts"), node.nodes, [], None, None)
        return cast(nodes.Call, joined.set_lineno(node.lineno))


def _spend_step() -> None:
    budget = _budget.get()
    if budget is None:
        return
    budget.steps -= 1
    if budget.steps < 0:
        raise TemplateLimitError(f"more than {MAX_STEPS} steps")
    if time.monotonic() > budget.deadline_s:
        raise TemplateLimitError(f"more than {MAX_SECONDS:g} seconds")


def _spend_chars(value: Any) -> Any:
    budget = _budget.get()
    if budget is not None and isinstance(value, str):
        budget.chars -= len(value)
        if budget.chars < 0:
            raise TemplateLimitError(f"texts of more than {MAX_CHARS_IN_ALL} characters in all")
    return value


def _charged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose text is counted; what jinja noted on the function (`pass_context` …) stays."""

    @wraps(function)
    def charged(*args: Any, **kwargs: Any) -> Any:
        return _spend_chars(function(*args, **kwargs))

    return charged


def _check_size(size: int, most: int = MAX_CHARS) -> None:
    if size > most:
        raise TemplateLimitError(f"a value of size {size}; at most {most}")


def _result_size(operator: str, left: Any, right: Any) -> int:
    """How large the result of an operator will be: characters, items scaled to the same limit, or bits."""
    if operator == "**":
        return int(abs(left).bit_length() * abs(right)) if isinstance(left, int) and isinstance(right, int) else 0
    sizes = [len(side) if isinstance(side, str | bytes | list | tuple) else None for side in (left, right)]
    scale = MAX_CHARS // MAX_ITEMS if any(isinstance(side, list | tuple) for side in (left, right)) else 1
    if operator == "+":
        return scale * sum(size or 0 for size in sizes)
    if sizes == [None, None]:
        return sum(side.bit_length() for side in (left, right) if isinstance(side, int))
    times = next((side for side in (left, right) if isinstance(side, int)), 0)
    return scale * (sizes[0] or sizes[1] or 0) * times


def _weighed(value: Any) -> Any:
    """The value itself, if its text would be of bearable size: a list that holds itself twice, and so on, is not."""
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return value
    num_values, num_chars, rest = 0, 0, [value]
    while rest:
        item = rest.pop()
        num_values += 1
        if isinstance(item, str):
            num_chars += len(item)
        elif isinstance(item, Mapping):
            rest += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            rest += item
        _check_size(num_values + len(rest), MAX_ITEMS)
        _check_size(num_chars)
    return value


def _concat(parts: Iterable[str]) -> str:
    kept, size = [], 0
    for part in parts:
        size += len(part)
        _check_size(size)
        kept.append(part)
    return "".join(kept)


def _replace(text: object, old: str, new: str, count: int | None = None) -> str:
    text, limit = str(_weighed(text)), -1 if count is None else count
    _check_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new, limit)


def _join(items: Iterable[Any], separator: object = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        items = [item[attribute] for item in items]
    texts, separator = [str(_weighed(item)) for item in items], str(separator)
    _check_size(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


def _indent(text: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    _check_size(width if isinstance(width, int) else 0, 100)
    prefix = width if isinstance(width, str) else " " * width
    lines = str(_weighed(text)).splitlines(keepends=True)
    put = [prefix + line if (index or first) and (blank or line.strip()) else line for index, line in enumerate(lines)]
    return _concat(put)


def _percent_format(text: str, values: Any) -> str:
    if _WIDE_PERCENT.search(text):
        raise TemplateLimitError("a format text with a huge width")
    result = text % _weighed(values)
    _check_size(len(result))
    return result


def _format(text: object, *args: Any, **kwargs: Any) -> str:
    return _percent_format(str(text), kwargs or args)


def _sum(items: Iterable[Any], attribute: str | int | None = None, start: int | float = 0) -> int | float:
    if not isinstance(start, int | float):
        raise TemplateLimitError("a sum of anything but numbers")
    return sum((item[attribute] if attribute is not None else item for item in items), start)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    _check_size(indent or 0, 100)
    if isinstance(value, Undefined):
        raise TypeError("an undefined value has no JSON")
    return json.dumps(
        _weighed(value), ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _string(value: object) -> str:
    return str(_weighed(value))


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "replace": _replace, "join": _join, "indent": _indent, "format": _format, "sum": _sum, "tojson": _to_json,
    "string": _string,
}  # fmt: skip

_BOUNDED_METHODS: Mapping[str, Callable[..., str]] = {
    "replace": _replace, "join": lambda separator, items: _join(items, separator)
}  # fmt: skip
