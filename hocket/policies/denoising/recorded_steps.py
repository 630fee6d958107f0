"""What samplers have in common as policies: log-densities of recorded denoising steps, in nats, float64.

A row of an observation is one step: the state it began with, the noise level, the three coefficients of its noise law
(see `hocket.core.noise_laws`), the scale of guidance, and the prompt. The decision is the next state;
its log-density is that of all dimensions together, so it grows with their number, as do its differences.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.noise_laws import HALF_LOG_TAU, log_density
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity

GIVES = frozenset({Quantity.LOGP, Quantity.ENTROPY, Quantity.KL_EXACT})


def step_type(pixels: int, words: tuple[int, ...]) -> np.dtype[Any]:
    """The type of a recorded step: of states of so many numbers, with prompts of a shape."""
    return np.dtype(
        [
            ("coefficients", "<f8", (3,)),
            ("guidance", "<f8"),
            ("level", "<f8"),
            ("state", "<f4", (pixels,)),
            ("words", "<i4", words),
        ]
    )


class StepPolicy(ABC):
    """A sampler as a policy. Decisions are next states `[T, D]`; a turn is the recorded steps of one sample.

    A subclass gives `velocities`, `row_type`, `save` and `load`, and sets `_module`.

    Attributes:
        block: pictures in every pass of the network, the last one filled up: products of one shape give a row the same
            bits in whatever company. chunk: decisions in one forward and backward pass.
    """

    granularity = Level.DECISION
    block: int
    chunk: int
    _module: nn.Module

    def __init__(self, name: str) -> None:
        self.name, self.version = name, 0
        self._cache: tuple[object, NDArray[Any], Tensor] | None = None

    @property
    @abstractmethod
    def row_type(self) -> np.dtype[Any]:
        """The type of a recorded step, see `step_type`."""

    @property
    def reads_guidance(self) -> bool:
        """Whether the network itself reads the scale of guidance, in the place of a second pass without the prompt."""
        return False

    @abstractmethod
    def velocities(self, state: Tensor, level: Tensor, words: Tensor, guidance: Tensor) -> Tensor:
        """One pass of the network over `block` states `[B, D]`, levels `[B]`, prompts (0 is none), scales `[B]`.

        Scales are for networks that read them.
        """

    @abstractmethod
    def save(self, folder: Path) -> None: ...

    @abstractmethod
    def load(self, folder: Path) -> None: ...

    def require(self, needs: frozenset[Quantity]) -> None:
        """Raises `ConfigurationError` for what a sampler does not give, such as values."""
        if missing := sorted(quantity.value for quantity in needs - GIVES):
            raise ConfigurationError(
                f"policy {self.name!r} is a sampler of pictures, which gives no {missing[0]}; use flow-grpo, "
                "dance-grpo, mix-grpo or grpo"
            )

    # ------------------------------------------------------------ predictions

    def predictions(self, state: Tensor, level: Tensor, words: Tensor, guidance: Tensor) -> Tensor:
        """Predictions `[B, D]` float32 for states `[B, D]`, levels and scales `[B]`, and prompts.

        Row i has the same bits whatever the other rows are.
        """
        result = self._blocks(state, level, words, guidance)
        guided = torch.nonzero(guidance != 1.0).flatten()
        if self.reads_guidance or not len(guided):
            return result
        free = self._blocks(state[guided], level[guided], torch.zeros_like(words[guided]), guidance[guided])
        scale = guidance[guided].to(result.dtype)[:, None]
        return result.index_copy(0, guided, free + scale * (result[guided] - free))

    def _blocks(self, *columns: Tensor) -> Tensor:
        device = next(self._module.parameters()).device
        state, level, words, guidance = columns
        parts = []
        for start in range(0, len(state), self.block):
            rows = slice(start, start + self.block)
            count = len(state[rows])
            values = (state[rows], level[rows].float(), words[rows].long(), guidance[rows].float())
            parts.append(self.velocities(*(_filled(value, self.block).to(device) for value in values))[:count].cpu())
        return torch.cat(parts) if parts else torch.zeros_like(state)

    def means(self, rows: NDArray[Any]) -> Tensor:
        """The means of the next states of recorded steps `[B]`, `[B, D]` float32."""
        read = {name: torch.from_numpy(np.ascontiguousarray(rows[name])) for name in rows.dtype.names or ()}
        result = self.predictions(read["state"], read["level"], read["words"], read["guidance"])
        factors = read["coefficients"].float()
        return factors[:, :1] * read["state"] + factors[:, 1:2] * result

    # ------------------------------------------------------------ learning

    @property
    def module(self) -> nn.Module:
        return self._module

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        return [decisions[start : start + self.chunk] for start in range(0, len(decisions), self.chunk)]

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        """See `Policy.evaluate`. Temperatures are in the recorded deviations already.

        Raises:
            ValueError: for `KL_EXACT` without a sampler as reference.
        """
        wanted, size = frozenset(needs), batch.decisions
        places = torch.arange(size) if decisions is None else decisions
        rows = self._rows(batch, places)
        deviation = torch.from_numpy(rows["coefficients"][:, 2].copy())
        mean = self.means(rows)

        def scattered(values: Tensor) -> Tensor:
            return values.new_zeros(size).index_put((places,), values)

        kl = None
        if Quantity.KL_EXACT in wanted:
            if not isinstance(reference, StepPolicy):
                raise ValueError("an exact KL needs a sampler as reference")
            with torch.no_grad():
                other = reference.means(rows)
            kl = scattered(((mean - other).double() / deviation[:, None]).square().sum(1) / 2)
        entropy = mean.shape[1] * (deviation.log() + HALF_LOG_TAU + 0.5)
        logp = log_density(batch.action[places], mean, deviation)
        return Evaluation(scattered(logp), entropy=scattered(entropy), kl_exact=kl)

    def _rows(self, batch: Batch, places: Tensor) -> NDArray[Any]:
        """The recorded steps of decisions."""
        chosen = places
        if (taken := batch.taken) is not None:
            batch, chosen = taken.whole, taken.decision[places]
        if self._cache is None or self._cache[0] is not batch.observation:
            kind = self.row_type
            mine = torch.zeros(batch.turns, dtype=torch.bool)
            held: list[NDArray[Any]] = []
            for turn, steps in enumerate(batch.observation):
                if steps.dtype == kind:
                    mine[turn] = True
                    held.append(steps)
            row = torch.cumsum(mine[batch.turn].long(), 0) - 1
            self._cache = batch.observation, np.concatenate(held) if held else np.zeros(0, kind), row
        _, rows, row = self._cache
        result: NDArray[Any] = rows[row[chosen].numpy()]
        return result

    def final_values(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.trajectories)

    def frozen_copy(self) -> Self:
        other = copy.copy(self)
        other._module = copy.deepcopy(self._module).requires_grad_(False)
        other._cache = None
        return other


def _filled(values: Tensor, size: int) -> Tensor:
    """Rows `[B, ...]` repeated up to `size`."""
    count = len(values)
    return values if count == size else torch.cat([values, values[:1].expand(size - count, *values.shape[1:])])
