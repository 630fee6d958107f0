"""A controller that denoises its actions, with a critic of the state."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.noise_laws import DDPM, log_density
from hocket.policies.control_networks import Perceptron
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity

ROW = np.dtype([("state", "<f4", (2,)), ("noisy", "<f4", (2,)), ("place", "<f4"), ("coefficients", "<f8", (3,))])
"""A denoising step: the state of the world, the noisy action, the step in [0, 1], and the factors of noisy action and
predicted action in the mean of the next one, with its deviation."""

GIVES = frozenset({Quantity.LOGP, Quantity.VALUE})
_HIDDEN = 64


def coefficients(steps: int, floor: float) -> NDArray[np.float64]:
    """Factors and deviation of every step, `[steps, 3]`: DDPM's with the predicted action in place of the noise.

    `floor` is the least deviation; the last step has no other.
    """
    levels = np.linspace(0.0, 1.0, steps + 1)
    retained = np.sin(0.5 * np.pi * (0.03 + 0.97 * levels)) ** 2
    retained[-1] = 1.0
    rows = np.zeros((steps, 3))
    for place in range(steps):
        step, start = DDPM(floor).step(retained, place), retained[place]
        # The noise is (x - sqrt(start) x0) / sqrt(1 - start).
        rows[place] = (
            step.state + step.prediction / np.sqrt(1 - start),
            -step.prediction * np.sqrt(start / (1 - start)),
            step.deviation,
        )
    return rows


def noised_shares(steps: int) -> NDArray[np.float64]:
    """How much of the action is in the noisy one at each step (a cumulative product of alpha), `[steps]`."""
    result: NDArray[np.float64] = np.sin(0.5 * np.pi * (0.03 + 0.97 * np.linspace(0.0, 1.0, steps + 1)[:-1])) ** 2
    return result


class DenoisingController:
    """Decisions are denoised actions `[T, 2]`; a turn is all steps of an episode, a segment those of one action."""

    granularity = Level.TRAJECTORY
    default_lr = 3e-4

    def __init__(self, name: str, key: Key, steps: int) -> None:
        self.name, self.version, self.steps = name, 0, steps
        self.module = nn.ModuleDict(
            {
                "actor": Perceptron((5, _HIDDEN, _HIDDEN, 2), last_gain=0.1, key=key.derive("actor")),
                "critic": Perceptron((2, _HIDDEN, 1), last_gain=1.0, key=key.derive("critic")),
            }
        )

    def cloned(self, places: NDArray[np.float32], moves: NDArray[np.float32], key: Key, updates: int) -> Self:
        """Fits the actor to demonstrations: mean squared error of the action, at every step's share of noise."""
        draws, shares = key.numpy(), noised_shares(self.steps)
        optimiser = torch.optim.AdamW(self.module["actor"].parameters(), lr=2e-3, weight_decay=0.0)
        for _ in range(updates):
            chosen, step = draws.integers(0, len(places), 256), draws.integers(0, self.steps, 256)
            rows = np.zeros(256, ROW)
            rows["state"], rows["place"] = places[chosen], step / self.steps
            retained = shares[step][:, None]
            rows["noisy"] = np.sqrt(retained) * moves[chosen] + np.sqrt(1 - retained) * draws.normal(size=(256, 2))
            loss = (self.predicted(rows) - torch.from_numpy(moves[chosen])).square().mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        return self

    def predicted(self, rows: NDArray[Any]) -> Tensor:
        """Predicted actions of steps, `[B, 2]`."""
        read = np.concatenate([rows["state"], rows["noisy"], rows["place"][:, None]], 1)
        result: Tensor = self.module["actor"](torch.from_numpy(read))
        return result

    def means(self, rows: NDArray[Any]) -> Tensor:
        """The means of the next noisy actions, `[B, 2]`."""
        factors = torch.from_numpy(rows["coefficients"].copy()).float()
        return factors[:, :1] * torch.from_numpy(rows["noisy"].copy()) + factors[:, 1:2] * self.predicted(rows)

    # ------------------------------------------------------------ learning

    def require(self, needs: frozenset[Quantity]) -> None:
        """Raises `ConfigurationError` for what it does not give."""
        if missing := sorted(quantity.value for quantity in needs - GIVES):
            raise ConfigurationError(f"policy {self.name!r} denoises actions, without {missing[0]}; use dppo or grpo")

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        return [decisions] if len(decisions) else []

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        """See `Policy.evaluate`. Temperatures are in the recorded deviations already."""
        places = torch.arange(batch.decisions) if decisions is None else decisions
        rows = np.concatenate(list(batch.observation))[places.numpy()]

        def scattered(values: Tensor) -> Tensor:
            return values.new_zeros(batch.decisions).index_put((places,), values)

        deviation = torch.from_numpy(rows["coefficients"][:, 2].copy())
        logp = scattered(log_density(batch.action[places], self.means(rows), deviation))
        value = None
        if Quantity.VALUE in frozenset(needs):
            value = scattered(self.module["critic"](torch.from_numpy(rows["state"].copy()))[:, 0])
        return Evaluation(logp, value=value)

    def final_values(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.trajectories)

    def frozen_copy(self) -> Self:
        other = copy.copy(self)
        other.module = copy.deepcopy(self.module).requires_grad_(False)
        return other

    def save(self, folder: Path) -> None:
        save_file(dict(self.module.state_dict()), folder / "model.safetensors")

    def load(self, folder: Path) -> None:
        self.module.load_state_dict(load_file(folder / "model.safetensors"))
