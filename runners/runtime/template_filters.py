"""jinja's filters that could build a huge text or list at one stroke, with a check before they do.

`tojson` is as chat templates expect it (plain JSON, not escaped for HTML). Filters that no template needs and that
can't be bounded simply are named in `REMOVED`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import wraps
from string import Formatter
from typing import Any

from jinja2 import Environment, Undefined, pass_environment
from jinja2.filters import make_attrgetter

from runners.runtime.template_limits import TemplateLimitError, bounded_concat, check_size, spend_chars, weighed

REMOVED = ("batch", "center", "pprint", "slice", "urlize", "wordwrap", "xmlattr")

MAX_INDENT = 100

_WIDE_PERCENT = re.compile(r"%[^%a-zA-Z]*(\*|\d{5})")
"""A `%` conversion with a width of five digits, or one given as an argument."""


def charged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose text is counted; what jinja noted on the function (`pass_context` …) stays."""

    @wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        return spend_chars(function(*args, **kwargs))

    return counted


def check_format_text(text: str) -> None:
    """Raises TemplateLimitError for a text for `str.format` that asks for a huge or a computed width."""
    for _, _, width, _ in Formatter().parse(text):
        if width and ("{" in width or re.search(r"\d{5}", width)):
            raise TemplateLimitError("a format text with a huge width")


def percent_format(text: str, values: Any) -> str:
    """`text % values`, without a huge width."""
    if _WIDE_PERCENT.search(text):
        raise TemplateLimitError("a format text with a huge width")
    result: str = text % weighed(values)
    check_size(len(result))
    return result


def replace(text: object, old: str, new: str, count: int | None = None) -> str:
    """Every `old` (or the first `count`) in a text as `new`."""
    text, limit = str(weighed(text)), -1 if count is None else count
    check_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new, limit)


def join(separator: object, items: Iterable[Any]) -> str:
    """The items' texts with a separator between them."""
    texts, between = [str(weighed(item)) for item in items], str(separator)
    check_size(sum(map(len, texts)) + len(texts) * len(between))
    return between.join(texts)


@pass_environment
def _join(
    environment: Environment, items: Iterable[Any], separator: object = "", attribute: str | int | None = None
) -> str:
    return join(separator, items if attribute is None else map(make_attrgetter(environment, attribute), items))


@pass_environment
def _sum(environment: Environment, items: Iterable[Any], attribute: str | int | None = None, start: float = 0) -> float:
    if not isinstance(start, int | float):
        raise TemplateLimitError("a sum of anything but numbers")
    return sum(items if attribute is None else map(make_attrgetter(environment, attribute), items), start)


def _indent(text: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    check_size(width if isinstance(width, int) else len(width), MAX_INDENT)
    prefix = width if isinstance(width, str) else " " * width
    lines = str(weighed(text)).splitlines(keepends=True)
    return bounded_concat(
        prefix + line if (index or first) and (blank or line.strip()) else line for index, line in enumerate(lines)
    )


def _format(text: object, *args: Any, **kwargs: Any) -> str:
    return percent_format(str(text), kwargs or args)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    if isinstance(value, Undefined):
        raise TypeError("an undefined value has no JSON")
    check_size(len(indent) if isinstance(indent, str) else indent or 0, MAX_INDENT)
    options = {"indent": indent, "separators": separators, "sort_keys": sort_keys}
    return json.dumps(weighed(value), ensure_ascii=ensure_ascii, **options)  # type: ignore[arg-type]


def _string(value: object) -> str:
    return str(weighed(value))


FILTERS: dict[str, Callable[..., Any]] = {
    "format": _format, "indent": _indent, "join": _join, "replace": replace, "string": _string, "sum": _sum,
    "tojson": _to_json,
}  # fmt: skip
"""In the place of jinja's own of the same name."""
