"""The model of the world: the next picture after a move, and whether a picture shows success."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.keys import Key
from hocket.methods.generative.wmpo.world import ACTIONS, Frames, Ints, Records

_WIDTH, _LR, _JUDGE_LR, _BATCH = 24, 3e-3, 1e-2, 64
_STAYS = 3.0
"""The logit of what is shown already, on which the network builds."""


class WorldModel(nn.Module):
    """Two convolutional networks that read pictures alone, and their optimiser.

    `next` gives the logits of the next picture's colours at every pixel, by what is shown within two cells of it and
    the move; `judge` the logit of success, a sum over all pixels.
    """

    def __init__(self, key: Key) -> None:
        super().__init__()
        sizes = ((3 + len(ACTIONS), _WIDTH, 3), (_WIDTH, _WIDTH, 3), (_WIDTH, 3, 1))
        self.next = nn.ModuleList(_layers(sizes, key.derive("next")))
        self.judge = nn.ModuleList(_layers(((3, _WIDTH, 1), (_WIDTH, 1, 1)), key.derive("judge")))
        groups: list[dict[str, Any]] = [
            {"params": self.next.parameters()},
            {"params": self.judge.parameters(), "lr": _JUDGE_LR},
        ]
        self.optimiser = torch.optim.Adam(groups, _LR)

    def logits(self, frames: Tensor, action: Tensor) -> Tensor:
        """Of the pictures after moves `[B]`, `[B, 3, SIDE, SIDE]`."""
        planes = functional.one_hot(action, len(ACTIONS)).to(frames.dtype)[..., None, None]
        inputs = torch.cat([frames, planes.expand(-1, -1, *frames.shape[2:])], 1)
        return _through(self.next, inputs) + _STAYS * (2 * frames - 1)

    def success(self, frames: Tensor) -> Tensor:
        """The logits of success, `[B]`."""
        return _through(self.judge, frames).flatten(1).sum(1)

    @torch.inference_mode()
    def imagined(self, frames: Frames, action: Ints) -> Frames:
        """The pictures after moves: the means of the predicted colours."""
        result: Frames = torch.sigmoid(self.logits(torch.from_numpy(frames), torch.from_numpy(action))).numpy()
        return result

    @torch.inference_mode()
    def judged(self, frames: Frames) -> NDArray[np.bool_]:
        """Which pictures show success, `[B]`."""
        return np.asarray(self.success(torch.from_numpy(frames)).numpy() > 0)

    def fit(self, records: Records, updates: int, key: Key) -> float:
        """Adam on the cross-entropy of next pictures and of success; returns the last loss."""
        draws, loss = key.numpy(), torch.zeros(())
        ends = np.flatnonzero(records.reached)
        for _ in range(updates):
            rows = draws.integers(0, len(records.action), _BATCH)
            before, action, after = (torch.from_numpy(column[rows]) for column in records[:3])
            pictures = functional.binary_cross_entropy_with_logits(self.logits(before, action), after, reduction="sum")
            if len(ends):  # Half of what the judge learns from are successes, which are rare.
                rows[: _BATCH // 2] = draws.choice(ends, _BATCH // 2)
            after, reached = (torch.from_numpy(column[rows]) for column in records[2:])
            verdicts = functional.binary_cross_entropy_with_logits(self.success(after), reached.float())
            loss = pictures / _BATCH + verdicts
            self.optimiser.zero_grad()
            torch.autograd.backward(loss)
            self.optimiser.step()
        return float(loss.detach())

    def held(self) -> dict[str, Any]:
        """Weights and the optimiser's memory, for a checkpoint."""
        return {"weights": dict(self.state_dict()), "optimiser": self.optimiser.state_dict()}

    def take(self, state: dict[str, Any]) -> None:
        """The inverse of `held`."""
        self.load_state_dict(state["weights"])
        self.optimiser.load_state_dict(copy.deepcopy(state["optimiser"]))


def _layers(sizes: tuple[tuple[int, int, int], ...], key: Key) -> list[nn.Conv2d]:
    generator, layers = key.torch(), []
    for inputs, outputs, kernel in sizes:
        layer: nn.Conv2d = nn.utils.skip_init(  # type: ignore[no-untyped-call]
            nn.Conv2d, inputs, outputs, kernel, padding=kernel // 2
        )
        with torch.no_grad():
            layer.weight.normal_(0.0, (2.0 / (inputs * kernel**2)) ** 0.5, generator=generator)
            assert layer.bias is not None
            layer.bias.zero_()
        layers.append(layer)
    return layers


def _through(layers: nn.ModuleList, values: Tensor) -> Tensor:
    for layer in layers[:-1]:
        values = functional.gelu(layer(values))
    result: Tensor = layers[-1](values)
    return result
