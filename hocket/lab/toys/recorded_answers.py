"""Recorded answers for the microscope, what a recipe makes of them, and figures of every seed in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.claims.harness import inspect_rows, say
from hocket.lab.microscope import RecordedBatch
from hocket.recipe import Recipe


def said(group: str, text: str, reward: float = 0.0, **more: Any) -> dict[str, Any]:
    """One recorded answer of two decisions."""
    return {"group": group, "scores": {"reward": reward}, "logp": [-1.0, -0.5], "text": text, **more}


def answer(verdict: float, decisions: int, group: str = "g", **more: Any) -> dict[str, Any]:
    """One recorded answer of so many decisions."""
    return {"group": group, "scores": {"reward": verdict}, "logp": [-1.0] * decisions, "text": "", **more}


def sample(group: str, reward: float, logp: Sequence[float], **more: Any) -> dict[str, Any]:
    """One recorded answer by its log-probs, entropies 1 unless given."""
    row = {"group": group, "scores": {"reward": reward}, "logp": list(logp), "entropy": [1.0] * len(logp)}
    return {**row, "tokens": list(range(len(logp))), **more}


def document(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Recorded answers as the microscope reads them."""
    return {"version": 1, "trajectories": [dict(row) for row in rows]}


def drawn(seed: int, groups: int = 3, size: int = 4, rewards: Sequence[float] = (0.0, 1.0)) -> dict[str, Any]:
    """A batch of random answers at the start of a run, each group with unequal rewards."""
    noise, rows = Key.of(seed).numpy(), []
    for group in range(groups):
        for number in range(size):
            reward = rewards[number] if number < len(rewards) else float(noise.choice(rewards))
            length = int(noise.integers(1, 6))
            logp = (-noise.exponential(size=length)).tolist()
            rows.append(sample(str(group), reward, logp, entropy=noise.exponential(size=length).tolist()))
    return {**document(rows), "state": {"progress": 0.0}}


def shaped(recipe: Recipe, rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """The returns that credit sees, by trajectory."""
    batch, _ = recipe.compute_credit(RecordedBatch(document(rows)).batch, recipe.init(), {})
    return [float(value) for value in returns(batch)]


def advantages(recipe: Recipe, rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """One advantage per trajectory."""
    return [row[0] for row in inspect_rows(recipe, rows)["advantages"]]


def group_relative(values: Sequence[float], epsilon: float = 1e-6) -> list[float]:
    """GRPO's advantages of one group, counted anew: (r - mean) / (std + epsilon), std with n - 1."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    return [(value - mean) / (variance**0.5 + epsilon) for value in values]


def line(values: Sequence[float]) -> str:
    """Figures of several seeds, in short."""
    return " ".join(f"{value:.3f}" for value in values)


def lines(**figures: Any) -> str:
    """Figures in a line as `say` puts them, but with every one of several values."""
    return say(**{name: _every(value) for name, value in figures.items()})


def _every(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _every(entry) for name, entry in value.items()}
    return line(value) if isinstance(value, (list, tuple)) else value


def shown(values: Sequence[float], digits: int = 3) -> str:
    """Numbers as text, to so many significant digits."""
    return "[" + ", ".join(f"{value:.{digits}g}" for value in values) + "]"
