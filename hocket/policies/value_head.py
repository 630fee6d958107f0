"""A value of a language model's hidden states, and its file beside the model's."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

FILE = "value_head.safetensors"


class ValueHead(nn.Module):
    """A linear value of a hidden state, zero at first so that it does not disturb the start of training."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, hidden: Tensor) -> Tensor:
        """Values `[...]` of hidden states `[..., H]`, in fp32."""
        return (hidden.float() * self.weight).sum(-1) + self.bias

    def save(self, folder: Path) -> None:
        """Writes the weights into a policy's folder."""
        from safetensors.torch import save_file

        save_file(self.state_dict(), folder / FILE)

    def load(self, folder: Path) -> None:
        """Reads what `save` wrote."""
        from safetensors.torch import load_file

        self.load_state_dict(load_file(folder / FILE))


def has_value_head(folder: Path) -> bool:
    """Whether a policy with a value head was saved there."""
    return (folder / FILE).is_file()
