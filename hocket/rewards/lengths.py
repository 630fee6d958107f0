"""Scores of a length by its place within a group."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.core.segments import segment_extreme


def spread_length(length: Tensor, solved: Tensor, group: Tensor, size: int) -> Tensor:
    """`c = 1/2 - (l - min_g l)/(max_g l - min_g l)` for right answers, `min(0, c)` for wrong ones, `[N]` float64.

    All 0 in a group of equal lengths. Kimi k1.5 (arXiv 2501.12599, section 2.3.3).
    """
    tokens = length.double()
    shortest = segment_extreme(tokens, group, size, largest=False)[group]
    width = segment_extreme(tokens, group, size, largest=True)[group] - shortest
    score = 0.5 - (tokens - shortest) / width.clamp(min=1.0)
    score = torch.where(solved, score, score.clamp(max=0.0))
    return torch.where(width > 0, score, torch.zeros_like(score))
