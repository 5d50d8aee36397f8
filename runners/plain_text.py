"""Which texts people may give as names and as questions: what a reader can see, in the order in which it is stored.

Characters that are invisible, or that turn the text around them, make one name look like another or a sentence say
what it does not. Letters of every script are welcome; a page shows them as text, never as markup.
"""

from __future__ import annotations

import re
import unicodedata

MOST_MARKS = 8
"""Marks on one letter: more than any script puts there, and few enough that they stay on their own line."""

NAME_RULE = f"printable characters, not blanks alone, at most {MOST_MARKS} marks on a letter"
TEXT_RULE = f"printable characters and line breaks, at most {MOST_MARKS} marks on a letter"
_BREAKS = frozenset("\n\r\t")
# A joiner and a non-joiner shape the letters of several scripts.
_JOINERS = frozenset("\u200c\u200d")
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def is_name(text: str) -> bool:
    """One line that can be seen."""
    return text.isprintable() and not text.isspace() and not _is_piled_up(text)


def is_text(text: str) -> bool:
    """Any number of lines, without signs that steer how the rest is shown."""
    seen = (one in _BREAKS or one in _JOINERS or unicodedata.category(one) not in _UNSEEN for one in text)
    return all(seen) and not _is_piled_up(text)


def _is_piled_up(text: str) -> bool:
    kinds = "".join("m" if unicodedata.category(one).startswith("M") else "." for one in text)
    return re.search(f"m{{{MOST_MARKS + 1}}}", kinds) is not None
