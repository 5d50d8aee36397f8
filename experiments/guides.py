"""Markdown texts as HTML that is safe to show: no HTML of the text's own, and nothing but the tags of prose."""

from __future__ import annotations

from dataclasses import dataclass

import nh3
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt

TAGS = {
    "p", "ul", "ol", "li", "strong", "em", "code", "pre", "a", "br", "h2", "h3", "h4", "blockquote", "table", "thead",
    "tbody", "tr", "th", "td",
}  # fmt: skip
LOWEST = 4


@dataclass(frozen=True)
class Guide:
    """`title` is the text's first line, `body` the rest as HTML whose headings stand below a heading of the page."""

    title: str
    body: SafeString


def read_guide(text: str) -> Guide:
    first, _, rest = text.lstrip().partition("\n")
    return Guide(first.lstrip("# ").strip(), render(rest))


def render(text: str) -> SafeString:
    """CommonMark and tables, each heading one level lower."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 1, LOWEST)}"
    rendered = markdown.renderer.render(tokens, markdown.options, {})
    # What nh3 gives is what a browser may have.
    return SafeString(nh3.clean(rendered, tags=TAGS, attributes={"a": {"href", "title"}}))
