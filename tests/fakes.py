"""Small stand-ins for the parts a test does not want to run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.types import Evaluation, Quantity, Scenario, Score, Trajectory, Turn


class TablePolicy:
    """A softmax over `actions` per observed state, in float64; a decision's state is its turn's first observation."""

    def __init__(
        self, states: int, actions: int, *, seed: int = 0, chunk: int = 10**9, level: Level = Level.TRAJECTORY
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.name, self.version, self.granularity, self.chunk = "policy", 0, level, chunk
        self.module = nn.ParameterDict(
            {
                "logits": nn.Parameter(torch.randn(states, actions, generator=generator, dtype=torch.float64)),
                "value": nn.Parameter(torch.randn(states, generator=generator, dtype=torch.float64)),
            }
        )
        self.default_lr = 0.1
        self.evaluated = 0

    latents = True
    """It reads states whatever a model would have thought."""

    def centralise(self) -> None:
        """Its states are whole as they are."""

    def require(self, needs: frozenset[Quantity]) -> None:
        pass

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        return list(torch.split(decisions, self.chunk)) if len(decisions) else []

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: TablePolicy | None = None,
    ) -> Evaluation:
        decisions = torch.arange(batch.decisions) if decisions is None else decisions
        self.evaluated += len(decisions)
        states = torch.tensor([int(np.asarray(o).reshape(-1)[0]) for o in batch.observation])[batch.turn[decisions]]
        table = torch.log_softmax(self.module["logits"][states], -1)
        spread = lambda values: torch.zeros(batch.decisions, dtype=torch.float64).index_copy(0, decisions, values)  # noqa: E731
        logp = table.gather(1, batch.action[decisions].long()[:, None])[:, 0]
        kl = None
        if reference is not None:
            other = torch.log_softmax(reference.module["logits"][states], -1)
            kl = spread((table.exp() * (table - other)).sum(-1))
        return Evaluation(
            logp=spread(logp),
            entropy=spread(-(table.exp() * table).sum(-1)),
            value=spread(self.module["value"][states]),
            kl_exact=kl,
        )

    def final_values(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.trajectories, dtype=torch.float64)

    def frozen_copy(self) -> TablePolicy:
        other = TablePolicy(*self.module["logits"].shape)
        other.module.load_state_dict(self.module.state_dict())
        return other

    def save(self, folder: Path) -> None:
        torch.save(self.module.state_dict(), folder / "table.pt")

    def load(self, folder: Path) -> None:
        self.module.load_state_dict(torch.load(folder / "table.pt"))


def told(number: int, length: int, *, right: bool) -> dict[str, Any]:
    """What recipes may read of an answer of `length` tokens besides its numbers."""
    label = "4" if right else str(5 + number % 2)
    return {
        "text": f"<think>2 + 2 = {label}</think><answer>{label}</answer>",
        "trace": f"<think>2 + 2 = {label}</think><answer>{label}</answer>",
        "label": label,
        "embedding": [1.0 + number % 3, 1.0, float(right)],
        "history": {"rewards": [0.5]},
        "metadata": {"budget": 4, "group": "a"},
        "origin": None,
        "pieces": ["two "] * length,
        "exit": number,
        "forced_values": [0.25, 0.5, float(right)],
        "beliefs": [0.25],
        "tool_calls": number % 3,
        "accuracy_with": 0.75,
        "accuracy_without": 0.25,
    }


def random_trajectories(
    seed: int, *, groups: int = 3, samples: int = 4, states: int = 5, actions: int = 4, longest: int = 6
) -> list[Trajectory]:
    """Groups of one-turn trajectories with random lengths, actions, rewards and behaviour log-probs."""
    generator = np.random.default_rng(seed)
    found = []
    for group in range(groups):
        for sample in range(samples):
            length = int(generator.integers(1, longest + 1))
            turn = Turn(
                agent="policy",
                policy="policy",
                observation=np.array([generator.integers(states)]),
                action=generator.integers(actions, size=length),
                logp=-generator.uniform(0.2, 3.0, size=length).astype(np.float32),
            )
            reward = Score(float(generator.integers(0, 2)))
            info = told(sample, length, right=reward.value == 1.0)
            found.append(
                Trajectory(Scenario(f"s{group}"), [turn], sample=sample, scores={"correct": reward}, info=info)
            )
    return found
