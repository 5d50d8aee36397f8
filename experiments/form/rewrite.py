"""Changes single values in a document's text and leaves the rest, comments and order included, as it was written.

What the rewritten text says is compared with what was asked for; where the text can't be rewritten that way, the
changed document is written anew as JSON (which is YAML), without its comments.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from experiments.form.settings import in_order
from runners.document import SpecError, parse_text

WIDE = 10_000


class _Removed:
    def __repr__(self) -> str:
        return "REMOVED"


REMOVED: Final = _Removed()


@dataclass(frozen=True)
class Change:
    """`value` goes to the place that the keys of `path` lead to; REMOVED takes the last key out.

    A key may itself hold dots, as those of the matrix do.
    """

    path: tuple[str, ...]
    value: Any


def write(document: Mapping[str, Any]) -> str:
    """A stored document as text that reads back as the same document."""
    ordered = in_order(document)
    text = yaml.dump(ordered, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDE)
    # PyYAML leaves a few words bare that our dialect takes for numbers, 1e3 among them.
    return text if _same(parse_text(text), document) else _as_json(ordered)


class _Dumper(yaml.SafeDumper):
    """Short lists and innermost mappings in one line, as people write them here."""

    def represent_short(self, node: yaml.CollectionNode) -> yaml.CollectionNode:
        children = [child for pair in node.value for child in (pair if isinstance(pair, tuple) else (pair,))]
        node.flow_style = bool(children) and all(isinstance(child, yaml.ScalarNode) for child in children)
        return node


_Dumper.add_representer(dict, lambda dumper, value: dumper.represent_short(dumper.represent_dict(value)))
_Dumper.add_representer(list, lambda dumper, value: dumper.represent_short(dumper.represent_list(value)))


def rewrite(text: str, changes: Sequence[Change]) -> str:
    """The text with the changes made, in order. Raises SpecError or TextError as runners.document.parse_text does."""
    document = parse_text(text) if text.strip() else {}
    wanted = copy.deepcopy(document)
    for change in changes:
        apply(wanted, change)
    if _same(wanted, document):
        return text
    rewritten = _rewrite_in_place(text, changes)
    try:
        if rewritten is not None and _same(parse_text(rewritten), wanted):
            return rewritten
    except SpecError:  # ruamel quotes by other rules than ours in a few cases; the text below follows ours
        pass
    return _as_json(wanted)


def _same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Alike to the type: 1, 1.0 and true are three values."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _as_json(document: Mapping[str, Any]) -> str:
    """Readable characters stand as they are. Others are escaped, as YAML takes some for line breaks and refuses more;
    but not those past 16 bits, whose two escapes in JSON would be two characters to YAML."""
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return "".join(one if one.isprintable() or one == "\n" or one > "\uffff" else json.dumps(one)[1:-1] for one in text)


def apply(document: dict[str, Any], change: Change) -> None:
    """Makes the change in a parsed document. What stands in the way of the path and is no mapping is replaced."""
    *parents, leaf = change.path
    here: Any = document
    for key in parents:
        if not isinstance(here.get(key), Mapping):
            if change.value is REMOVED:
                return
            here[key] = type(here)()
        here = here[key]
    if change.value is REMOVED:
        here.pop(leaf, None)
    else:
        here[leaf] = change.value


def _rewrite_in_place(text: str, changes: Sequence[Change]) -> str | None:
    format = YAML()
    format.preserve_quotes = True
    format.width = WIDE
    try:
        document = format.load(text)
        if not isinstance(document, CommentedMap):
            document = CommentedMap()
        for change in changes:
            apply(document, Change(change.path, _flow(change.value)))
        output = io.StringIO()
        format.dump(document, output)
    except (YAMLError, ValueError):  # text that ruamel reads by other rules than parse_text did
        return None
    return output.getvalue()


def _flow(value: Any) -> Any:
    """Mappings and lists in one line, as people write them here."""
    if isinstance(value, Mapping):
        mapping = CommentedMap({key: _flow(item) for key, item in value.items()})
        mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, list | tuple):
        sequence = CommentedSeq(_flow(item) for item in value)
        sequence.fa.set_flow_style()
        return sequence
    return value
