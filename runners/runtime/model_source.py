"""Where a model comes from: a file, a folder, or a shape alone, whose weights are drawn. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.runtime.loading.shape_config import config_of_shape
from runners.runtime.models.config import ModelConfig
from runners.shapes import shape_hash


@dataclass(frozen=True, slots=True)
class RandomModel:
    """A model of random weights. `shape` is flat, with the keys that a registered model's shape has; equal shapes have
    equal weights."""

    shape: Mapping[str, Any]

    @classmethod
    def from_json(cls, text: str) -> RandomModel:
        """Raises ValueError for what is no shape, UnsupportedShape for one that the runtime has no decoder for."""
        shape = json.loads(text)
        if not isinstance(shape, dict):
            raise ValueError(f"a shape is an object, not {type(shape).__name__}")
        model = cls(shape)
        model.config()
        return model

    def to_json(self) -> str:
        return json.dumps(dict(self.shape), sort_keys=True, separators=(",", ":"))

    def config(self) -> ModelConfig:
        """Raises UnsupportedShape."""
        return config_of_shape(self.shape)

    @property
    def seed(self) -> str:
        return shape_hash(self.shape)


ModelSource = Path | str | RandomModel
"""A str is a path."""
