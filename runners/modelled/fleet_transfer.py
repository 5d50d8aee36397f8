"""How long keys and values take from the engine that computed a prompt to the one that decodes its answer.

Each engine sends or receives one request's at a time, in the order in which their prefills ended.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from runners.modelled.topology import Transfer


class KvLinks:
    """What joins the engines of a prefill and a decode pool, and what has gone over it."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer
        self._free_s: dict[int, float] = defaultdict(float)
        self._count = self._bytes = 0
        self._busy_s = self._waited_s = 0.0

    def send(self, sender: int, receiver: int, num_tokens: int, begun_s: float, done_s: float) -> float:
        """When the last of a prompt of `num_tokens` tokens is there, whose prefill ran from `begun_s` to `done_s`.

        Whole, it is sent after that. By layer, a layer's part may go when the layer is computed (as in Splitwise,
        Patel et al. 2024, section 4.3): the first one after 1/layers of the prefill, and the last one's part is still
        to be sent when the prefill ends. Neither begins before both engines' links are free.
        """
        transfer = self._transfer
        size = num_tokens * transfer.bytes_per_token
        sending_s = size / transfer.bytes_per_s
        by_layer = transfer.stream == "layer"
        ready_s = begun_s + (done_s - begun_s) / transfer.layers if by_layer else done_s
        start_s = max(ready_s, self._free_s[sender], self._free_s[receiver])
        sent_s = start_s + sending_s
        if by_layer:
            sent_s = max(sent_s, done_s + sending_s / transfer.layers)
        self._free_s[sender] = self._free_s[receiver] = sent_s
        there_s = sent_s + transfer.latency_s
        self._count += 1
        self._bytes += size
        self._busy_s += sending_s
        self._waited_s += there_s - done_s
        return there_s

    def facts(self) -> dict[str, Any]:
        """`seconds` is how long links were sending, over all transfers; `waited_s` for how long requests whose prefill
        had ended waited for theirs to be there."""
        return {
            "count": self._count, "bytes": self._bytes, "seconds": self._busy_s, "waited_s": self._waited_s,
        }  # fmt: skip
