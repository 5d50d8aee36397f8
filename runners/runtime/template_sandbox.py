"""A jinja environment for templates nobody vouches for: no way out of it, and no way to fill memory or to run on.

On top of jinja's own sandbox, every loop round and call costs one of a fixed number of steps, and what could build a
huge value at one stroke (`*`, `~`, `replace`, nested lists turned to text …) is checked first. That stops a template
made to hurt as far as is practical; it is no proof. What templates mean is chat_template.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Template, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from runners.runtime.template_filters import FILTERS, REMOVED, charged, check_format_text, join, percent_format, replace
from runners.runtime.template_limits import (
    MAX_CHARS,
    MAX_ITEMS,
    bounded_concat,
    check_size,
    spend_chars,
    spend_step,
    weighed,
)

_UNBOUNDED_METHODS = frozenset({"ljust", "rjust", "center", "zfill", "expandtabs", "translate"})
_BOUNDED_METHODS: dict[str, Callable[..., str]] = {"replace": replace, "join": join}


class BoundedSandbox(ImmutableSandboxedEnvironment):
    """jinja's sandbox with bounds. Compile with `compile_bounded`, render inside `bounded_rendering`."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})
    concat = staticmethod(bounded_concat)  # jinja joins every buffer with it

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, _GenerationTag],
            optimized=False,  # or constants would be computed while compiling, outside of a budget
            finalize=weighed,
        )
        self.globals.pop("lipsum")
        for name in REMOVED:
            del self.filters[name]
        self.filters = {name: charged(function) for name, function in (self.filters | FILTERS).items()}

    def compile_bounded(self, source: str) -> Template:
        """A template whose loops and concatenations are counted. Raises jinja2.TemplateError for bad syntax."""
        tree = _Counting().visit(self.parse(source))
        return Template.from_code(self, self.compile(tree), self.make_globals(None))

    def step(self) -> bool:
        """What a loop calls once a round. It does nothing: `call` counts it."""
        return True

    def join_texts(self, *parts: object) -> str:
        """`a ~ b ~ …`."""
        return bounded_concat(str(weighed(part)) for part in parts)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        spend_step()
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, str) and name in _BOUNDED_METHODS:
            return spend_chars(_BOUNDED_METHODS[name](owner, *args, **kwargs))
        return spend_chars(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            return spend_chars(percent_format(left, right))
        check_size(_result_size(operator, left, right))
        return spend_chars(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr in _UNBOUNDED_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        check_format_text(value.__self__)

        def format_text(*args: Any, **kwargs: Any) -> str:
            weighed([args, kwargs])
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

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        step = nodes.Call(nodes.EnvironmentAttribute("step"), [], [], None, None, lineno=node.lineno)
        if node.test is None:
            node.body.insert(0, nodes.ExprStmt(step, lineno=node.lineno))
        else:  # a round that the test skips costs a step too
            node.test = nodes.And(step, node.test, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        joining = nodes.EnvironmentAttribute("join_texts")
        return nodes.Call(joining, node.nodes, [], None, None, lineno=node.lineno)


def _result_size(operator: str, left: Any, right: Any) -> int:
    """How large the result of an operator will be: characters, items scaled to the same limit, or bits."""
    if operator == "**":
        return left.bit_length() * abs(right) if isinstance(left, int) and isinstance(right, int) else 0
    sizes = [len(side) if isinstance(side, str | bytes | list | tuple) else None for side in (left, right)]
    scale = MAX_CHARS // MAX_ITEMS if any(isinstance(side, list | tuple) for side in (left, right)) else 1
    if operator == "+":
        return scale * sum(size or 0 for size in sizes)
    if sizes == [None, None]:
        return sum(side.bit_length() for side in (left, right) if isinstance(side, int))
    times = next((side for side in (left, right) if isinstance(side, int)), 0)
    return scale * (sizes[0] or sizes[1] or 0) * times
