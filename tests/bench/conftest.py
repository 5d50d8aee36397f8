"""Imports the runtime before any benchmark imports torch: it settles how OpenMP threads wait."""

import runners.runtime  # noqa: F401
