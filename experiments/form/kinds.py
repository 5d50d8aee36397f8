"""Settings of several kinds that keep all their keys in one mapping: which keys each kind uses, and how they start.

A kind may be an axis of the matrix; then the keys of every kind that it takes are in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runners import shapes
from runners.dotted import read
from runners.shapes import UnknownShape

Document = Mapping[str, Any]
NONE = "none"

# By the path of the mapping: the key that says the kind, and for each kind the keys that it uses.
KINDS: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "engine.speculation": (
        "kind",
        {
            "none": (),
            "ngram": ("max_draft", "acceptance"),
            "draft": ("model", "max_draft", "acceptance"),
            "self": ("layers", "max_draft", "acceptance"),
        },
    ),
    "placement.disaggregate": (
        "kind",
        {
            "none": (),
            "prefill_decode": ("prefill", "decode", "link", "stream"),
            "attention_ffn": ("attention", "ffn", "link", "micro_batches"),
        },
    ),
    "placement.router": ("policy", {"round_robin": (), "least_loaded": (), "kv_aware": ("overlap_weight",)}),
}
# What a kind can't do without, as it stands when the kind is chosen; a pool's chip is the document's.
NEEDED: dict[str, dict[str, Any]] = {
    "engine.speculation": {"acceptance": 0.7, "layers": 4},
    "placement.disaggregate": {role: {"count": "auto"} for role in ("prefill", "decode", "attention", "ffn")},
}
# Mappings that a document may leave out altogether, as they start.
OPTIONAL: dict[str, dict[str, Any]] = {
    "workload.shared_prefix": {"groups": 4, "prefix_tokens": 512},
    "workload.thinking": {"factor": 5.0, "effort": 1.0},
    "engine.prefix_tiers.host": {"capacity_bytes": 1e12, "bytes_per_s": 5e10, "latency_s": 1e-5},
    "engine.prefix_tiers.remote": {"capacity_bytes": 1e13, "bytes_per_s": 1e10, "latency_s": 1e-3},
}
# Two values worth comparing, where the document gives none and twice the default is none either.
COMPARED = {"bytes_per_s": [5e10, 1e11], "latency_s": [1e-6, 1e-5], "acceptance": [0.6, 0.8]}
SESSIONS = ("conversation", "agent")
"""Kinds of workload that have keys of their own, each in a mapping of its name."""
SHAPE = {"layers": 32, "hidden_size": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336}
ANY_CHIP = "h100-sxm"


def axes_of(document: Document) -> dict[str, Any]:
    matrix = document.get("matrix")
    return dict(matrix) if isinstance(matrix, Mapping) else {}


def kind_of(path: str, document: Document) -> str:
    """The kind that the document has at a path of KINDS; the first where it says none, or something that is no word."""
    key, uses = KINDS[path]
    mapping = read(document, path)
    said = mapping if isinstance(mapping, str) else read(mapping, key)
    return said if isinstance(said, str) else next(iter(uses))


def kinds_in_use(path: str, document: Document) -> list[str]:
    """All kinds of which trials are made: the axis's, or the document's one."""
    key, _ = KINDS[path]
    axis = axes_of(document).get(f"{path}.{key}")
    return [value for value in axis if isinstance(value, str)] if isinstance(axis, list) else [kind_of(path, document)]


def keys_in_use(path: str, document: Document) -> list[str]:
    """The keys that those kinds use, each once, in the order in which they are shown."""
    _, uses = KINDS[path]
    return list(dict.fromkeys(key for kind in kinds_in_use(path, document) for key in uses.get(kind, ())))


def workloads_in_use(document: Document) -> list[str]:
    """The kinds of workload of which trials are made."""
    axis, said = axes_of(document).get("workload.kind"), read(document, "workload.kind")
    found = axis if isinstance(axis, list) else [said]
    return [kind for kind in found if isinstance(kind, str)]


def is_used(path: str, document: Document) -> bool:
    """Whether a setting has an effect: not where it is a key of a kind that no trial has, nor how an engine lies on
    chips where pools say that."""
    for parent, (kind_key, _) in KINDS.items():
        key = path.removeprefix(f"{parent}.").partition(".")[0]
        if path.startswith(f"{parent}.") and key != kind_key:
            return key in keys_in_use(parent, document)
    session = path.removeprefix("workload.").partition(".")[0]
    if session in SESSIONS:
        return session in workloads_in_use(document)
    parent, _, key = path.rpartition(".")
    return parent not in ("placement", "placement.link") or NONE in kinds_in_use("placement.disaggregate", document)


def starts_of(path: str, kind: str, document: Document) -> dict[str, Any]:
    """What a kind that is chosen needs and the document does not give, each with a value to start from."""
    _, uses = KINDS[path]
    needed = NEEDED.get(path, {})
    missing = [key for key in uses.get(kind, ()) if key in needed and read(document, f"{path}.{key}") is None]
    chip = document.get("chip")
    pool = {"chip": chip if isinstance(chip, str) and chip != "any" else ANY_CHIP}
    return {key: pool | needed[key] if isinstance(needed[key], dict) else needed[key] for key in missing}


def usual(path: str, document: Document) -> Any:
    """What a key of a typed shape is where the document leaves it to the published shape that it names."""
    key = path.removeprefix("model.shape.")
    like = read(document, "model.shape.like")
    if key == path or not isinstance(like, str):
        return None
    try:
        return shapes.get(like).to_mapping().get(key)
    except UnknownShape:
        return None
