"""One way to a decoder's configuration, whichever kind of file holds it; reads headers alone."""

from __future__ import annotations

from runners.runtime.gguf_file import GGUFFile
from runners.runtime.loading.gguf_config import read_gguf_config
from runners.runtime.loading.hf_config import read_hf_config
from runners.runtime.loading.layout import Layout, check_tensors, layout_of
from runners.runtime.models.config import ModelConfig
from runners.runtime.safetensors_folder import SafetensorsFolder


def read_config(file: GGUFFile | SafetensorsFolder) -> tuple[ModelConfig, Layout]:
    """The configuration, and where the weights lie; every tensor's presence and shape is checked against it.

    Raises ModelFileError naming the part that can't be used.
    """
    config = read_gguf_config(file) if isinstance(file, GGUFFile) else read_hf_config(file)
    layout = layout_of(file, config)
    check_tensors(file, config, layout)
    return config, layout
