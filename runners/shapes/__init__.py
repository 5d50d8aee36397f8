"""Shapes of models without weights: those of published models, by name, and those that a document types.

get("llama-3-70b").to_mapping()     what the cost model and a model of random weights are built from
resolve(document's model)           the same of a typed shape, with its name and hash
"""

from runners.shapes.catalog import CATALOG, ShapeCatalogError, UnknownShape, get, load_shapes, names
from runners.shapes.measurable import why_not_measurable
from runners.shapes.record import LatentAttention, Mixture, Shape, ShapeRecord, SlidingWindow
from runners.shapes.resolve import NamedShape, resolve, shape_hash

__all__ = [
    "CATALOG",
    "LatentAttention",
    "Mixture",
    "NamedShape",
    "Shape",
    "ShapeCatalogError",
    "ShapeRecord",
    "SlidingWindow",
    "UnknownShape",
    "get",
    "load_shapes",
    "names",
    "resolve",
    "shape_hash",
    "why_not_measurable",
]
