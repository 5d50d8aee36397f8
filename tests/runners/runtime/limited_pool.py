"""An executor with fewer blocks than it has, so that sequences are preempted."""

from __future__ import annotations

from runners.runtime.torch_executor import TorchExecutor


class LimitedPool:
    """The same executor seen with fewer blocks, so that sequences are preempted."""

    def __init__(self, inner: TorchExecutor, num_blocks: int) -> None:
        self._inner = inner
        self.num_blocks, self.block_size, self.max_model_len = num_blocks, inner.block_size, inner.max_model_len
        self.vocab_size = inner.vocab_size
        self.execute, self.now = inner.execute, inner.now
