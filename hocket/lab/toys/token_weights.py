"""Toys of several claims: token weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.policy import Tabular
from hocket.lab.world import Answer
from hocket.recipes import find

SEEDS = range(5)


def sample(group: str, reward: float, logp: Sequence[float], **more: Any) -> dict[str, Any]:
    """A trajectory of a recorded batch, entropies 1 unless given."""
    return {
        "group": group,
        "scores": {"reward": reward},
        "logp": list(logp),
        "entropy": [1.0] * len(logp),
        "tokens": list(range(len(logp))),
        **more,
    }


def document(*rows: dict[str, Any], progress: float = 0.0) -> dict[str, Any]:
    """A batch for the microscope."""
    return {"version": 1, "trajectories": list(rows), "state": {"progress": progress}}


def drawn(seed: int, groups: int = 3, size: int = 4, rewards: Sequence[float] = (0.0, 1.0)) -> dict[str, Any]:
    """A batch of random trajectories, each group with unequal rewards."""
    noise = Key.of(seed).numpy()
    rows = []
    for group in range(groups):
        for number in range(size):
            reward = rewards[number] if number < len(rewards) else float(noise.choice(rewards))
            length = int(noise.integers(1, 6))
            logp = (-noise.exponential(size=length)).tolist()
            rows.append(sample(str(group), reward, logp, entropy=noise.exponential(size=length).tolist()))
    return document(*rows)


def same(left: Any, right: Any, tolerance: float = 1e-12) -> bool:
    """Whether two nested lists of numbers are equal up to `tolerance`, relative to the larger."""
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(same(a, b, tolerance) for a, b in zip(left, right, strict=True))
    return bool(abs(left - right) <= tolerance * max(1.0, abs(left), abs(right)))


def spread(rows: Sequence[Sequence[float]]) -> list[float]:
    """The first number of each row."""
    return [row[0] for row in rows]


def shown(values: Sequence[float], digits: int = 3) -> str:
    """Numbers as text."""
    return "[" + ", ".join(f"{value:.{digits}g}" for value in values) + "]"


def logits(policy: Tabular, question: int, prefix: Answer, odds: dict[int, float], rest: float = 1e-6) -> None:
    """Sets the next token's distribution in a context; tokens not named get `rest` before normalisation."""
    row = torch.full((policy.world.tokens,), rest, dtype=torch.float64)
    for token, chance in odds.items():
        row[token] = chance
    policy.logits[policy.row(question, prefix)] = (row / row.sum()).log()


def chances(bench: Bench, question: int = 0, prefix: Answer = ()) -> Tensor:
    """The next token's distribution in a context, `[V]`."""
    return torch.softmax(bench.policy.logits.detach()[bench.policy.row(question, prefix)], -1)


def trained(bench: Bench, steps: int) -> Bench:
    """`bench` after so many steps, without readings between."""
    for _ in range(steps):
        bench.step()
    return bench


GRPO = find("grpo")
