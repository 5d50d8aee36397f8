"""Whether a model's file is quantised itself, by the types of its matrices. Reads headers alone."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from runners.quality_figures import Reference
from runners.runtime.tensor_file import TensorFile, open_tensor_file

UNQUANTISED = ("F32", "F16", "BF16")


def describe_reference(path: Path, weights: str) -> Reference:
    """The reference that the file at `path` makes. Raises ModelFileError."""
    return reference_of(open_tensor_file(path), weights)


def reference_of(file: TensorFile, weights: str) -> Reference:
    """Labelled with its commonest quantised type where quantised types hold at least half of its matrices' values."""
    counts = Counter[str]()
    for record in file.tensors.values():
        if len(record.shape) >= 2:
            counts[record.type_name] += math.prod(record.shape)
    quantised = {name: count for name, count in counts.items() if name not in UNQUANTISED}
    is_quantised = 2 * sum(quantised.values()) >= sum(counts.values()) > 0
    label = max(quantised, key=lambda name: quantised[name]) if is_quantised else None
    return Reference(weights=weights, label=label, types=dict(counts))
