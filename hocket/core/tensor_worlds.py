"""Worlds whose copies are torch tensors on one device."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class TorchVectorEnv(Protocol):
    """N copies of one world, with all tensors on `device`. A copy that ends begins anew by itself.

    Attributes:
        copies: N. limit: the most steps of an episode.
    """

    copies: int
    device: torch.device
    limit: int

    def reset(self, seeds: Tensor) -> Tensor:
        """Begins an episode in every copy; what is seen, `[N, O]` float32.

        That of copy i is drawn from `seeds[i]` (int64, on `device`) where the world can do so.
        """
        ...

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """What is seen next `[N, O]`, rewards `[N]`, terminated and truncated `[N]` bool, and what was seen last.

        Of a copy that ended the first is of its new episode, and the last one of the old.
        """
        ...

    def close(self) -> None: ...
