"""The form's groups of what serves: the engine, the chips that it lies on, and a model that is only a shape.

Fields of a kind (of speculation, of disaggregation) are there for that kind alone, or where the kinds are compared.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.form.drawing import Drawing, typed
from experiments.form.kinds import NONE, keys_in_use, kinds_in_use, usual
from experiments.form.offer import Offer
from experiments.form.parts import Field, Group
from experiments.form.settings import leaves
from runners.dotted import read
from runners.spec import ShapeSpec
from runners.spec.placement import ROLES

APART = ("engine.speculation.", "engine.prefix_tiers.")
LAYOUT = {
    "tensor_parallel": "Tensor parallel",
    "data_parallel": "Data parallel",
    "pipeline_parallel": "Pipeline parallel",
    "expert_parallel": "Expert parallel",
}
FROM_RECORD = "of node or chip"
SPECULATION = {"max_draft": "Draft tokens at most", "layers": "Layers that draft", "acceptance": "Acceptance"}
TIERS = {"host": "Host memory", "remote": "Remote store"}
TIER = (("capacity_bytes", "capacity", "B"), ("bytes_per_s", "bandwidth", "B/s"), ("latency_s", "latency", "s"))


def shape_groups(drawing: Drawing, offer: Offer) -> list[Group]:
    """What a model is made of, where the document types it."""
    if not isinstance(read(drawing.document, "model.shape"), Mapping):
        return []
    fields = [drawing.choice("model.shape.like", "Like", offer.shapes, default="no other")]
    for key in ShapeSpec.model_fields:
        path = f"model.shape.{key}"
        if key != "like":
            stands = usual(path, drawing.document)
            fields.append(drawing.setting(path, key, default="" if stands is None else typed(stands)))
    return [Group("Shape of the model", tuple(fields), "random weights; empty is as the model it is like, or as usual")]


def engine_groups(drawing: Drawing, offer: Offer) -> list[Group]:
    plain = [one for one in leaves("engine", drawing.document) if not one.path.startswith(APART)]
    return [
        Group("Engine", tuple(drawing.plain(one) for one in plain), "of every trial"),
        drawing.folded("speculation", "Speculation", _speculation(drawing, offer), "on modelled nodes"),
        drawing.folded("tiers", "Prefix-cache tiers", _tiers(drawing), "on modelled nodes"),
    ]


def placement_groups(drawing: Drawing, offer: Offer) -> list[Group]:
    return [
        drawing.folded("placement", "Placement", _placement(drawing), "replicas and parallelism, on modelled nodes"),
        drawing.folded("disaggregation", "Disaggregation", _pools(drawing, offer), "unlike chips, on modelled nodes"),
    ]


def _speculation(drawing: Drawing, offer: Offer) -> list[Field]:
    path = "engine.speculation"
    fields = [drawing.kind(path, "Kind")]
    for key in keys_in_use(path, drawing.document):
        if key == "model":
            fields.append(drawing.choice(f"{path}.model", "Model that drafts", (*offer.models, *offer.shapes)))
        else:
            fields.append(drawing.setting(f"{path}.{key}", SPECULATION[key]))
    return fields


def _tiers(drawing: Drawing) -> list[Field]:
    fields = []
    for name, label in TIERS.items():
        path = f"engine.prefix_tiers.{name}"
        fields.append(drawing.optional(path, label))
        if read(drawing.document, path) is not None:
            fields += [drawing.setting(f"{path}.{key}", f"{label}: {what}", unit) for key, what, unit in TIER]
    return fields


def _placement(drawing: Drawing) -> list[Field]:
    fields = []
    if NONE in kinds_in_use("placement.disaggregate", drawing.document):
        fields.append(drawing.setting("placement.replicas", "Replicas"))
        fields += [drawing.setting(f"placement.{key}", label) for key, label in LAYOUT.items()]
        fields += _link(drawing, "placement.link")
    fields.append(drawing.kind("placement.router", "Router"))
    fields += [
        drawing.setting("placement.router.overlap_weight", "Weight of cached prompts")
        for _ in keys_in_use("placement.router", drawing.document)
    ]
    return fields


def _pools(drawing: Drawing, offer: Offer) -> list[Field]:
    path = "placement.disaggregate"
    keys = keys_in_use(path, drawing.document)
    fields = [drawing.kind(path, "Kind")]
    for role in (role for roles in ROLES.values() for role in roles if role in keys):
        name = "FFN" if role == "ffn" else role.capitalize()
        fields.append(drawing.choice(f"{path}.{role}.chip", f"{name}: chip", offer.chips))
        fields.append(drawing.setting(f"{path}.{role}.count", f"{name}: chips"))
        fields += [drawing.setting(f"{path}.{role}.{key}", f"{name}: {label.lower()}") for key, label in LAYOUT.items()]
    if "link" in keys:
        fields += _link(drawing, f"{path}.link")
    labels = {"stream": "KV sent by", "micro_batches": "Micro-batches"}
    fields += [drawing.setting(f"{path}.{key}", label) for key, label in labels.items() if key in keys]
    return fields


def _link(drawing: Drawing, path: str) -> list[Field]:
    return [
        drawing.setting(f"{path}.bytes_per_s", "Link bandwidth", "B/s", default=FROM_RECORD),
        drawing.setting(f"{path}.latency_s", "Link latency", "s", default=FROM_RECORD),
    ]
