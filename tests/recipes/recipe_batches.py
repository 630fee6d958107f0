"""Small packed batches, and a recipe's loss and gradient on them, for the recipes' tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from fakes import told
from torch import Tensor

from hocket.core.batch import Batch, Occurrences, RecordedNumbers
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.methods.group_relative.optimal_token_baseline import ENERGY
from hocket.methods.group_relative.tw_grpo import DIVERGENCE
from hocket.methods.preference.representation_reward_reranking import STATES
from hocket.recipe import Recipe
from hocket.types import Evaluation, Scenario, Score, Source, Trajectory, Turn

torch.set_num_threads(1)


def sample(scenario: str, reward: float, length: int, *, source: Source = "own", truncated: bool = False) -> Trajectory:
    """One answer of `length` tokens."""
    turn = Turn(
        agent="agent",
        policy="policy",
        observation=np.zeros(2, np.int64),
        action=np.zeros(length, np.int64),
        logp=-np.ones(length, np.float32),
    )
    scores = {"reward": Score(reward)}
    return Trajectory(
        Scenario(scenario),
        [turn],
        scores=scores,
        source=source,
        truncated=truncated,
        terminated=not truncated,
        info=told(length, length, right=reward > 0),
    )


def packed(trajectories: Sequence[Trajectory], seed: int = 0) -> Batch:
    """Packed with every column a recipe may read; float64 throughout."""
    batch = pack(trajectories)
    noise, size = Key.of(seed).numpy(), batch.decisions

    def column(scale: float = 1.0) -> Tensor:
        return torch.from_numpy(noise.normal(size=size) * scale)

    known = torch.ones(size, dtype=torch.bool)
    behaviour, proximal, reference = -column().abs(), column(0.02), column(0.1)
    return batch.but(
        logp={
            "behaviour": RecordedNumbers(behaviour, known),
            "proximal": RecordedNumbers(behaviour + proximal, known),
            "reference": RecordedNumbers(behaviour + reference, known),
        },
        value=column(),
        entropy=column().abs(),
        annotations={DIVERGENCE.name: column().abs(), ENERGY.name: column().abs(), STATES.name: column()[:, None]},
        final_value=torch.zeros(batch.trajectories, dtype=torch.float64),
    )


def without_proximal(batch: Batch) -> Batch:
    """As a batch is when no stage reads the proximal policy."""
    return batch.but(logp={name: column for name, column in batch.logp.items() if name != "proximal"})


def result(
    recipe: Recipe, batch: Batch, logp: Tensor, value: Tensor | None = None
) -> tuple[float, Tensor, Occurrences]:
    """Loss, gradient in the current log-probs `[T]`, and the credited occurrences."""
    credited, _ = recipe.compute_credit(batch, recipe.init(), {})
    leaf = logp.clone().requires_grad_()
    now = Evaluation(leaf, entropy=batch.entropy, value=batch.value if value is None else value)
    total = torch.stack([terms.total() for terms in recipe.loss(now, credited)]).sum()
    # A loss of values alone does not depend on the log-probs.
    gradient = torch.autograd.grad(total, [leaf])[0] if total.requires_grad else torch.zeros_like(leaf)
    return float(total.detach()), gradient, credited.occurrences
