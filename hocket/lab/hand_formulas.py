"""Formulas counted anew from recorded rows, in float64 and apart from the library's own, to compare recipes with.

def loss(answers):
    return torch.cat([-(answer.logp - answer.old).exp() * answer.advantage for answer in answers]).mean(), {}

max(off(MINE, rows, loss) for rows in stale_rows("mine"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.documents import random_document
from hocket.lab.microscope import inspect
from hocket.recipe import Recipe


@dataclass(frozen=True)
class CountedAnswer:
    """A recorded answer as formulas read it: its decisions that count, `[n]`, n > 0.

    Attributes:
        row: as recorded. where: which of its decisions count, of all that it has. reward: its own score.
        logp: those of the policy, with a gradient. old: of the policy before the update, else of the one that sampled.
        behaviour, ref, entropy: as recorded; zeros where they are not. advantage: as the credit has it, a constant.
    """

    row: Mapping[str, Any]
    where: Tensor
    reward: float
    logp: Tensor
    old: Tensor
    behaviour: Tensor
    ref: Tensor
    entropy: Tensor
    advantage: Tensor


Loss = Callable[[Sequence[CountedAnswer]], tuple[Tensor, Mapping[str, Any]]]
"""The loss of the answers that count, and metrics."""

Rule = Callable[[Sequence[CountedAnswer]], Sequence[Any]]
"""Advantages of a group's members that count: a number each, or one for each of its decisions."""


def stale_rows(
    *names: str | int, count: int = 4, masked: bool = True, **settings: Any
) -> Iterator[list[dict[str, Any]]]:
    """Random answers of policies that have moved since, some of their decisions imposed; of the first, all.

    `settings` are those of `random_document`; rewards are graded in every other batch unless these say.
    """
    for number in range(count):
        key = Key.of(0).derive("by hand", *names, number)
        rows = random_document(key, **{"gap": 0.6, "graded": number % 2 == 0, "samples": 5, **settings})["trajectories"]
        rng = key.derive("imposed").numpy()
        for place, row in enumerate(rows if masked else ()):
            row["trained"] = [bool(place and draw < 0.8) for draw in rng.random(len(row["logp"]))]
        yield rows


def centred(members: Sequence[CountedAnswer]) -> list[float]:
    """Rewards less their mean."""
    middle = fmean(member.reward for member in members)
    return [member.reward - middle for member in members]


def standardised(members: Sequence[CountedAnswer], ddof: int = 1, epsilon: float = 1e-6) -> list[float]:
    """Rewards less their mean, over their deviation + epsilon; 0 of one member alone."""
    apart = centred(members)
    spread = (sum(value**2 for value in apart) / max(1, len(apart) - ddof)) ** 0.5
    return [value / (spread + epsilon) for value in apart]


def clipped(
    answers: Sequence[CountedAnswer], low: float = 0.2, high: float = 0.2, kl: float = 0.0
) -> tuple[Tensor, dict[str, float]]:
    """GRPO's loss: the mean over answers of that of min(r A, clip(r) A), plus `kl` times k3 to the reference."""
    parts = []
    for answer in answers:
        ratio, apart = (answer.logp - answer.old).exp(), answer.ref - answer.logp
        gain = torch.minimum(ratio * answer.advantage, ratio.clamp(1 - low, 1 + high) * answer.advantage)
        parts.append((kl * (apart.exp() - apart - 1) - gain).mean())
    return torch.stack(parts).mean(), {}


def off(
    recipe: Recipe,
    rows: Sequence[Mapping[str, Any]],
    loss: Loss = clipped,
    credit: Rule = standardised,
    state: Mapping[str, Any] | None = None,
) -> float:
    """How far a recipe's advantages, loss, gradient and metrics are from those counted by hand, at most.

    `state` is what its stages remember, the step and the progress of the run.
    """
    made = inspect(recipe, {"version": 1, "trajectories": [dict(row) for row in rows], "state": dict(state or {})})
    leaves = [torch.tensor(row["logp"], dtype=torch.float64, requires_grad=True) for row in rows]
    answers = [_counted(row, leaf) for row, leaf in zip(rows, leaves, strict=True)]
    by_group: dict[str, list[int]] = {}
    for place, answer in enumerate(answers):
        by_group.setdefault(answer.row["group"], []).extend([place] * bool(answer.where.any()))
    gaps = [0.0]
    for places in filter(None, by_group.values()):
        for place, value in zip(places, credit([answers[place] for place in places]), strict=True):
            actual = torch.tensor(made["advantages"][place], dtype=torch.float64)[answers[place].where]
            wanted = torch.as_tensor(value, dtype=torch.float64).detach().expand(len(actual))
            answers[place] = replace(answers[place], advantage=wanted)
            gaps.append(float((actual - wanted).abs().max()))
    total, metrics = loss([answer for answer in answers if answer.where.any()])
    slopes = torch.autograd.grad(total, leaves, allow_unused=True)
    for leaf, slope, actual in zip(leaves, slopes, made["gradient"], strict=True):
        wanted = torch.zeros_like(leaf) if slope is None else slope
        gaps.append(float((torch.tensor(actual, dtype=torch.float64) - wanted).detach().abs().max()))
    gaps += [abs(float(made["metrics"][name]) - float(value)) for name, value in metrics.items()]
    return max(*gaps, abs(float(made["loss"]) - float(total.detach())))


def _counted(row: Mapping[str, Any], leaf: Tensor) -> CountedAnswer:
    """A row without its credit."""
    where = torch.tensor(row.get("trained", [True] * len(leaf)))

    def column(*names: str) -> Tensor:
        numbers = next((row[name] for name in names if row.get(name) is not None), [0.0] * len(leaf))
        return torch.tensor(numbers, dtype=torch.float64)[where]

    old, behaviour = column("logp_proximal", "logp_behaviour", "logp"), column("logp_behaviour", "logp")
    reward, logp = float(sum(row["scores"].values())), leaf[where]
    return CountedAnswer(
        row, where, reward, logp, old, behaviour, column("logp_ref"), column("entropy"), torch.zeros(0)
    )
