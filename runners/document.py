"""From text to an ExperimentSpec, or to a list of errors that name field, value and what is allowed.

Reads YAML (its safe subset: no tags, no anchors) and JSON, within limits on size and depth. Knows which parts of
SPEC.md's document are not yet supported, so that they are refused by name. Checks no stored state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from runners.spec import ExperimentSpec

MAX_BYTES = 64 * 1024
MAX_DEPTH = 12
MAX_VALUES = 5_000

# Values and keys of the document that a later version will take: path → what is refused ("*" = whatever isn't allowed).
LATER_VALUES: dict[str, tuple[str, ...]] = {
    "engine.kind": ("external", "managed"),
    "engine.kernels": ("native",),
    "engine.weights": ("int4", "fp8", "fp16", "w4a16", "q4_0", "q4_1", "q8_0", "nvfp4", "mxfp4"),
    "engine.activations": ("int16",),
    "engine.kv_cache": ("fp8", "int8", "int4", "fp16"),
    "engine.scheduler.policy": ("slo", "priority", "sjf", "edf"),
    "engine.scheduler.itl_target_s": ("*",),
    "engine.speculation.kind": ("ngram", "draft", "self"),
    "placement.replicas": ("*",),
    "placement.tensor_parallel": ("*",),
    "placement.pipeline_parallel": ("*",),
    "placement.disaggregate": ("*",),
    "placement.router.policy": ("least_loaded", "kv_aware"),
    "workload.kind": ("conversation", "agent", "trace"),
    "workload.arrival.kind": ("stages",),
    "workload.classes": ("*",),
    "workload.shared_prefix": ("*",),
    "quality": ("*",),
    "cost.watts": ("*",),
    "design": ("one_at_a_time", "ladder"),
    "search": ("*",),
    "repeats": ("until",),
    "order": ("sequential", "random"),
}
LATER_KEYS = frozenset(
    {
        "shape",
        "allow_speculative",
        "workload.trace",
        "workload.name",
        "workload.time_scale",
        "workload.stages",
        "workload.arrival.stages",
        "engine.speculation.max_draft",
        "engine.speculation.model",
        "engine.speculation.layers",
        "engine.name",
        "placement.router.overlap_weight",
        "placement.link",
    }
)


@dataclass(frozen=True)
class FieldError:
    """One thing wrong with a document. `allowed` says what would have been taken, where that can be said."""

    field: str
    message: str
    allowed: Any = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class SpecError(ValueError):
    """The document is refused whole; `errors` has every fault found. A retry of the same text makes no sense."""

    def __init__(self, errors: list[FieldError]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{error.field or 'document'}: {error.message}" for error in errors))


class _PlainLoader(yaml.SafeLoader):
    """SafeLoader without aliases (a small text could stand for a huge document) and without repeated keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=self.peek_event().start_mark)
        event = self.peek_event()
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(problem=f"tags are not allowed ({event.tag})", problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call]
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem=f"key {key!r} is not text", problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key!r} is given twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


# Dates stay text and `on`/`off`/`yes`/`no` stay words: YAML 1.2's core schema, and what JSON would hold.
_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_text(text: str) -> dict[str, Any]:
    """A YAML or JSON text as a mapping. Raises SpecError when it is too large, too deep, or not plain data."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SpecError([FieldError("", f"the document is larger than {MAX_BYTES} bytes", f"at most {MAX_BYTES} bytes")])
    try:
        document = yaml.load(text, Loader=_PlainLoader)  # noqa: S506 - a SafeLoader with less in it
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SpecError([FieldError("", f"{where}{error.problem or 'not valid YAML'}")]) from error
    except (yaml.YAMLError, ValueError) as error:
        raise SpecError([FieldError("", f"not valid YAML: {error}")]) from error
    except RecursionError as error:
        raise SpecError([FieldError("", "the document is nested too deep", f"at most {MAX_DEPTH} levels")]) from error
    if not isinstance(document, dict):
        raise SpecError([FieldError("", "the document must be a mapping of keys to values")])
    return document


def check_limits(document: Mapping[str, Any]) -> None:
    """Raises SpecError when a parsed document is deeper or larger than any sensible one."""
    level: list[Any] = [document]
    values = 0
    for _ in range(MAX_DEPTH):
        values += len(level)
        if values > MAX_VALUES:
            raise SpecError([FieldError("", "the document holds too many values", f"at most {MAX_VALUES} values")])
        level = [child for value in level for child in _children(value)]
        if not level:
            break
    if level:
        raise SpecError([FieldError("", "the document is nested too deep", f"at most {MAX_DEPTH} levels")])
    if len(json.dumps(document, default=str)) > MAX_BYTES:
        raise SpecError([FieldError("", "the document is too large", f"at most {MAX_BYTES} bytes")])


def _children(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def validate_document(document: Mapping[str, Any]) -> ExperimentSpec:
    """The typed document. Raises SpecError with every fault that the types can see."""
    check_limits(document)
    try:
        return ExperimentSpec.model_validate(document)
    except ValidationError as error:
        raise SpecError(field_errors(error, document)) from error


def field_errors(error: ValidationError, document: Mapping[str, Any]) -> list[FieldError]:
    """pydantic's errors with dotted paths into the document, and with what is allowed there."""
    found: dict[tuple[str, str], FieldError] = {}
    for item in error.errors(include_url=False):
        path = _path(item["loc"], document, missing=item["type"] == "missing")
        context = item.get("ctx", {})
        if "field" in context:
            path = f"{path}.{context['field']}".lstrip(".")
        one = _field_error(path, item, context)
        found.setdefault((one.field, one.message), one)
    return list(found.values())


def _field_error(path: str, item: Any, context: dict[str, Any]) -> FieldError:
    kind, value = item["type"], item.get("input")
    if kind == "extra_forbidden":
        message = "not yet supported" if path in LATER_KEYS else "unknown key"
        return FieldError(path, message)
    if kind == "missing":
        return FieldError(path, "this key is required")
    allowed = context.get("allowed", context.get("expected", context.get("expected_tags")))
    if allowed is None:
        bounds = {key: context[key] for key in ("ge", "gt", "le", "lt", "max_length", "min_length", "pattern") if key in context}
        allowed = bounds or None
    later_path = path.removesuffix(".kind") if path.endswith(".kind.kind") else path
    words = LATER_VALUES.get(later_path, ())
    # A union's tag is reported at the union itself, with the whole mapping as the value.
    if kind == "union_tag_invalid":
        words = LATER_VALUES.get(f"{path}.kind", ())
        value = context.get("tag")
        path = f"{path}.{str(context.get('discriminator', 'kind')).strip(chr(39))}"
    if words and ("*" in words or value in words or (isinstance(value, dict) and any(word in value for word in words))):
        return FieldError(path, f"{_shown(value)} is not yet supported", allowed)
    return FieldError(path, f"{item['msg']} (got {_shown(value)})" if kind != "impossible_combination" else item["msg"], allowed)


def _path(loc: tuple[int | str, ...], document: Any, missing: bool) -> str:
    """The dotted path of an error. Parts of `loc` that name a union's member are not in the document and are left out."""
    parts: list[str] = []
    here = document
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        if isinstance(here, Mapping) and part in here:
            parts.append(str(part))
            here = here[part]
        elif isinstance(here, list | tuple) and isinstance(part, int) and part < len(here):
            parts.append(str(part))
            here = here[part]
        elif missing and last:
            parts.append(str(part))
    return ".".join(parts)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "…"
