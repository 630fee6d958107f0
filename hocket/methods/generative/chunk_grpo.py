"""Chunk-GRPO: consecutive denoising steps are clipped together (Luo et al., arXiv:2510.21583).

Steps at which the state changes alike form a chunk, and the unit of the clipped surrogate is the chunk: its ratio is
the geometric mean of its steps' ratios, so one step's ratio is not clipped for another's sake. `ChunkedSampling` is
Flow-GRPO's rollout with the chunks as segments of a turn; `ChunkSurrogate` weighs every chunk alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.noise_laws import FlowSDE, Window
from hocket.methods.base.flow_grpo import FLOW_GRPO
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.rollout.noisy_sampling import NoisySampling
from hocket.stages import Grade, LedgerView, More, Play
from hocket.types import Assignment, Evaluation, Experience, Terms, Trajectory


def relative_changes(before: NDArray[np.floating], after: NDArray[np.floating]) -> NDArray[np.float64]:
    """|x_t+1 - x_t| / |x_t| in the L1 norm of every step, `[L]`, for states `[L, D]` before and after."""
    size = np.abs(before.astype(np.float64)).sum(1)
    result: NDArray[np.float64] = np.abs(after.astype(np.float64) - before).sum(1) / np.maximum(size, 1e-12)
    return result


def chunks_of(changes: Sequence[float], count: int) -> list[int]:
    """The chunk of every step, `[L]` from 0: `count` runs of steps whose log-changes are nearest to their run's mean.

    With as many chunks as steps, or more, every step is one.
    """
    values = np.log(np.maximum(np.asarray(changes, np.float64), 1e-12))
    size, count = len(values), min(count, len(values))
    sums, squares = (np.concatenate([[0.0], np.cumsum(power)]) for power in (values, values**2))

    def spread(start: int, end: int) -> float:
        return float(squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start))

    best = {(0, 0): (0.0, 0)}
    for used in range(1, count + 1):
        for end in range(used, size + 1):
            ways = [
                (best[start, used - 1][0] + spread(start, end), start)
                for start in range(used - 1, end)
                if (start, used - 1) in best
            ]
            best[end, used] = min(ways)
    borders, end = [], size
    for used in range(count, 0, -1):
        end = best[end, used][1]
        borders.append(end)
    return [int(place) for place in np.searchsorted(sorted(borders), np.arange(size), side="right") - 1]


@dataclass(frozen=True)
class ChunkedSampling(NoisySampling):
    """`NoisySampling`, with the steps of every turn in `chunks` segments, by their mean changes over the batch."""

    chunks: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chunks < 1:
            raise ValueError(f"chunks must be at least 1, not {self.chunks}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        async def chunked(assignments: Sequence[Assignment]) -> list[Trajectory]:
            result = await play(assignments)
            turns = [turn for trajectory in result for turn in trajectory.turns if len(turn)]
            if turns:
                changes = np.mean([relative_changes(turn.observation["state"], turn.action) for turn in turns], axis=0)
                segment = np.array(chunks_of(changes.tolist(), self.chunks), np.int64)
                for turn in turns:
                    turn.segment = segment
            return result

        return await super().collect(asked, play=chunked, score=score, ledger=ledger, key=key, more=more)


@dataclass(frozen=True)
class ChunkSurrogate(ClippedSurrogate):
    """The clipped surrogate with one ratio a chunk, and every chunk of a sample weighted alike: 1/N sum_i 1/K_i sum_j.

    A chunk is a segment of a turn; its terms are those of its decisions, which are equal, divided by their number.
    """

    ratio: str = "segment"  # type: ignore[assignment]

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        terms, occurrences = super().__call__(now, batch), batch.occurrences
        decision = occurrences.decision
        place = torch.stack([occurrences.trajectory, batch.turn[decision], batch.segment[decision]])
        counted = occurrences.weight != 0
        _, chunk, sizes = torch.unique(place[:, counted], dim=1, return_inverse=True, return_counts=True)
        owner = torch.zeros(len(sizes), dtype=torch.long).scatter(0, chunk, occurrences.trajectory[counted])
        per_trajectory = torch.bincount(owner, minlength=batch.trajectories)
        samples = (per_trajectory > 0).sum().clamp(min=1)
        share = 1.0 / (samples * per_trajectory[owner] * sizes).double()
        weight = torch.zeros(len(occurrences), dtype=torch.float64)
        weight[counted] = occurrences.weight[counted].double() * share[chunk]
        return replace(terms, weight=weight.to(terms.weight.dtype))


CHUNK_GRPO = FLOW_GRPO.but(
    name="chunk-grpo",
    title="Sample by step, optimise by chunk: chunk-level GRPO of flow samplers",
    source="Luo et al., arXiv:2510.21583",
    catalogue_ids=("chunk-grpo",),
    axes=("credit", "objective", "policy"),
    formula="rho_j = (prod_{t in chunk j} r_it)^(1/|j|),  L = -1/N sum_i 1/K sum_j min(rho_j A_i, clip(rho_j) A_i)",
    conventions={
        **FLOW_GRPO.conventions,
        "chunks": "three, over all ten steps; borders where the logarithm of the relative L1 change of the state, mean "
        "over the step's samples, is split with the least squares within chunks",
        "weights of chunks": "equal; the paper's sampling of chunks by weight is left out",
        "noisy steps": "all",
    },
    rollout=ChunkedSampling(samples=8, law=FlowSDE(0.7), window=Window(), chunks=3),
    objective=ChunkSurrogate(low=0.2, high=0.2),
)
