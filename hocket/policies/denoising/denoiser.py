"""The policy of a sampler: log-densities of recorded denoising steps, in nats, float64.

A row of an observation is one step: the state it began with, the noise level, the three coefficients of its noise law
(see `hocket.core.noise_laws`), the scale of guidance, and the prompt. The decision is the next state;
its log-density is that of all dimensions together, so it grows with their number, as do its differences.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.noise_laws import HALF_LOG_TAU, log_density
from hocket.policies.denoising.network import FlowShape, FlowTransformer
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity

BLOCK = 32
"""Pictures in every pass of the network, the last one filled up: products of one shape give a row the same bits in
whatever company."""

_CHUNK = 8 * BLOCK
"""Decisions in one forward and backward pass."""

_MODEL = "hocket-flow"

GIVES = frozenset({Quantity.LOGP, Quantity.ENTROPY, Quantity.KL_EXACT})


def row_type(shape: FlowShape) -> np.dtype[Any]:
    """The type of a recorded step."""
    return np.dtype(
        [
            ("coefficients", "<f8", (3,)),
            ("guidance", "<f8"),
            ("level", "<f8"),
            ("state", "<f4", (shape.pixels,)),
            ("words", "<i4", (shape.phrases, shape.phrase)),
        ]
    )


class Denoiser:
    """A flow sampler as a policy. Decisions are next states `[T, D]`; a turn is the recorded steps of one sample.

    Attributes:
        shape: of its pictures and prompts. folder: where it came from, for messages.
    """

    granularity = Level.DECISION
    default_lr = 1e-4

    def __init__(self, shape: FlowShape, key: Key, name: str = "policy", folder: str = "") -> None:
        self.name, self.version, self.shape, self.folder = name, 0, shape, folder
        self._module = FlowTransformer(shape, key)
        self._cache: tuple[object, NDArray[Any], Tensor] | None = None

    @classmethod
    def from_folder(cls, folder: Path, name: str = "policy") -> Self:
        """Reads what `save` wrote.

        Raises:
            ConfigurationError: when the folder holds no sampler, or its weights are of another shape.
        """
        file = folder / "config.json"
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            shape = FlowShape.read(data)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{file} describes no sampler of pictures ({error}); use nano-flow") from error
        policy = cls(shape, Key.of(0), name, str(folder))
        policy.load(folder)
        return policy

    @property
    def module(self) -> FlowTransformer:
        return self._module

    @property
    def row_type(self) -> np.dtype[Any]:
        """The type of a recorded step, see `row_type`."""
        return row_type(self.shape)

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
        result = self._blocks(state, level, words)
        guided = torch.nonzero(guidance != 1.0).flatten()
        if not len(guided):
            return result
        free = self._blocks(state[guided], level[guided], torch.zeros_like(words[guided]))
        scale = guidance[guided].to(result.dtype)[:, None]
        return result.index_copy(0, guided, free + scale * (result[guided] - free))

    def _blocks(self, state: Tensor, level: Tensor, words: Tensor) -> Tensor:
        device = next(self._module.parameters()).device
        parts = []
        for start in range(0, len(state), BLOCK):
            rows = slice(start, start + BLOCK)
            count = len(state[rows])
            block = [_filled(values[rows]).to(device) for values in (state, level.float(), words.long())]
            parts.append(self._module(*block)[:count].cpu())
        return torch.cat(parts) if parts else torch.zeros_like(state)

    def means(self, rows: NDArray[Any]) -> Tensor:
        """The means of the next states of recorded steps `[B]`, `[B, D]` float32."""
        read = {name: torch.from_numpy(np.ascontiguousarray(rows[name])) for name in rows.dtype.names or ()}
        result = self.predictions(read["state"], read["level"], read["words"], read["guidance"])
        factors = read["coefficients"].float()
        return factors[:, :1] * read["state"] + factors[:, 1:2] * result

    # ------------------------------------------------------------ learning

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        return [decisions[start : start + _CHUNK] for start in range(0, len(decisions), _CHUNK)]

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
            ValueError: for `KL_EXACT` without a `Denoiser` as reference.
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
            if not isinstance(reference, Denoiser):
                raise ValueError("an exact KL needs a sampler as reference")
            with torch.no_grad():
                other = reference.means(rows)
            kl = scattered(((mean - other).double() / deviation[:, None]).square().sum(1) / 2)
        entropy = self.shape.pixels * (deviation.log() + HALF_LOG_TAU + 0.5)
        logp = log_density(batch.action[places], mean, deviation)
        return Evaluation(scattered(logp), entropy=scattered(entropy), kl_exact=kl)

    def _rows(self, batch: Batch, places: Tensor) -> NDArray[Any]:
        """The recorded steps of decisions."""
        chosen = places
        if (taken := batch.taken) is not None:
            batch, chosen = taken.whole, taken.decision[places]
        if self._cache is None or self._cache[0] is not batch.observation:
            kind = row_type(self.shape)
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

    def save(self, folder: Path) -> None:
        weights = {name: weight.detach().cpu().contiguous() for name, weight in self._module.state_dict().items()}
        save_file(weights, folder / "model.safetensors")
        text = json.dumps({"model_type": _MODEL, **self.shape.plain()}, indent=1)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        file = folder / "model.safetensors"
        try:
            self._module.load_state_dict(load_file(file))
        except (OSError, RuntimeError, SafetensorError) as error:
            raise ConfigurationError(f"{file} does not fit this sampler: {str(error).splitlines()[0]}") from error


def _filled(values: Tensor) -> Tensor:
    """Rows `[B, ...]` repeated up to `BLOCK`."""
    count = len(values)
    return values if count == BLOCK else torch.cat([values, values[:1].expand(BLOCK - count, *values.shape[1:])])
