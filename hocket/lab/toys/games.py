"""Games of preferences between a handful of answers: matrices of wins, equilibria, and recipes minimised on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.bandit import Bandit

CYCLE = torch.tensor([[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]], dtype=torch.float64)
"""Rock, paper, scissors with some luck."""

UNEVEN = torch.tensor([[0.5, 0.9, 0.4], [0.1, 0.5, 0.9], [0.6, 0.1, 0.5]], dtype=torch.float64)
"""A cycle with win rates .9, .9 and .6, so that its equilibrium is not uniform."""


def random_game(size: int, *names: str | int) -> Tensor:
    """A random matrix of win rates, `[size, size]` float64: above and below the diagonal they sum to 1."""
    noise = torch.from_numpy(Key.of(0).derive("games", size, *names).numpy().random((size, size)))
    return (noise - noise.T + 1) / 2


def rule_of(matrix: Tensor) -> Callable[[str, str, str], float]:
    """The win rates as a rule of texts that are the answers' numbers."""
    return lambda prompt, one, other: float(matrix[int(one), int(other)])


def exploitability(matrix: Tensor, policy: Tensor) -> float:
    """What the best answer to a policy wins beyond 1/2: half of the symmetric game's duality gap."""
    return float((matrix @ policy).max() - 0.5)


def regularised_gap(matrix: Tensor, policy: Tensor, reference: Tensor, tau: float) -> float:
    """The duality gap of the game with payoff P(y > y') - tau KL(pi || ref) + tau KL(pi' || ref), at (pi, pi)."""
    won = matrix @ policy
    best = tau * torch.logsumexp(reference.log() + won / tau, 0)  # The best answer's worth, its own charge taken off.
    value = policy @ won - tau * (policy * (policy / reference).log()).sum()
    return 2 * float(best - value)


@dataclass(frozen=True)
class GameBandit(Bandit):
    """A bandit whose answers are their numbers as text, for recipes that compare texts."""

    def document(self, logp: Tensor) -> dict[str, Any]:
        document = super().document(logp)
        for row, answer in zip(document["trajectories"], self.answers().tolist(), strict=True):
            row["text"], row["info"] = str(answer), {"prompt": "?"}
        return document
