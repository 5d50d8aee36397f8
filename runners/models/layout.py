"""Which files of a folder in Hugging Face layout make up the model: those that the runtime reads, and no others.

A repository also holds weights in other formats, pictures and words; a model's entry lists none of them. What a loader
reads and the entry doesn't list would change the model unseen, so a folder with such a file is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
BESIDE_WEIGHTS = frozenset(
    {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "chat_template.jinja",
    }
)
MORE_TEMPLATES = "additional_chat_templates/"


def model_files(names: Iterable[str]) -> list[str]:
    """Those of the names that make up the model, sorted. A single weights file wins over an index, as in the loader."""
    there = set(names)
    return sorted(name for name in there if _is_beside(name) or name in _weights(there))


def unlisted(listed: Iterable[str], there: Iterable[str]) -> list[str]:
    """Names that are there and that a loader would read, but that the model doesn't list. Shards are read by the index
    alone, which is listed itself."""
    own = set(listed)
    return sorted(name for name in set(there) - own if _is_beside(name) or name in (SINGLE, INDEX))


def _is_beside(name: str) -> bool:
    return name in BESIDE_WEIGHTS or (name.startswith(MORE_TEMPLATES) and name.endswith(".jinja"))


def _weights(there: set[str]) -> set[str]:
    if SINGLE in there:
        return {SINGLE}
    shards = {name for name in there if name.endswith(".safetensors") and "/" not in name}
    return {INDEX, *(name for name in shards if not name.startswith("consolidated"))} & there
