"""What the engine knows of a structure that an output must match: which tokens may come next, and when it is met.

No grammar and no library here, so that a modelled node needs neither; `grammar.py` has the real one.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Allowed = NDArray[np.bool_]
"""(vocab_size,): which tokens may come next."""


class StructureError(ValueError):
    """A structure that can't be compiled, or that got too complex as the output grew; a retry does not help."""

    retry = False


class StructureState(Protocol):
    """How far one output has come. Some token is always allowed until it is `finished`."""

    @property
    def allowed(self) -> Allowed: ...

    @property
    def finished(self) -> bool:
        """The output matches, and either nothing may follow or its last token was a stop token."""

    def advance(self, token_id: int) -> None:
        """Take the output's next token, one of those allowed. Raises StructureError."""
