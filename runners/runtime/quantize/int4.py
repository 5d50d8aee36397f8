"""Asymmetric int4 in groups of 32 inputs: each group of a row has a least value and a step (float16), and 16 levels.

This is the grid of ggml's Q4_1 (levels min + step · 0 … 15), rounded to the nearest level, without any calibration. It
gives the numbers that such weights stand for; it packs nothing.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

GROUP = 32
LEVELS = 15
_SMALLEST_STEP = 2.0**-24  # float16's least number
_LARGEST = 65504.0  # float16's greatest


def round_to_int4(weight: torch.Tensor) -> torch.Tensor:
    """float32 weights (rows, columns) as int4 would hold them, float32. Groups run along a row; the last may be short.

    A weight that lies on such a grid already comes back as it is, up to float16's rounding of its steps.
    """
    rows, columns = weight.shape
    short = -columns % GROUP
    # The last value repeated: it widens no group.
    padded = F.pad(weight[:, None], (0, short), mode="replicate")[:, 0] if short else weight
    groups = padded.reshape(rows, -1, GROUP)
    least = _as_float16(groups.amin(dim=-1, keepdim=True))
    step = _as_float16((groups.amax(dim=-1, keepdim=True) - least) / LEVELS).clamp_min_(_SMALLEST_STEP)
    levels = ((groups - least) / step).round_().clamp_(0, LEVELS)
    return (levels * step + least).reshape(rows, -1)[:, :columns].contiguous()


def _as_float16(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-_LARGEST, _LARGEST).to(torch.float16).to(torch.float32)
