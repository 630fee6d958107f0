"""XRPO: targeted exploration and exploitation of rollouts (Bamba et al., arXiv:2510.06672).

Samples are drawn in rounds, the next ones where they most narrow what is known of the success rate (`Rounds`); a
question that nobody has solved is asked again with worked examples from similar solved ones. Right answers that the
policy found unlikely get more credit, within bounds (`NoveltyGuided`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import Column
from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.core.segments import segment_mean
from hocket.core.signals import RIGHT, right
from hocket.credit.refinement import Refined
from hocket.methods.base.grpo import GRPO
from hocket.rollout.allocation import allocate
from hocket.rollout.groups import groups
from hocket.rollout.remembering import RememberingRollout
from hocket.rollout.replay_store import worth
from hocket.stages import Grade, LedgerView, More, Play, State
from hocket.types import Assignment, Experience, Scenario, Trajectory


def half_width(seen: Outcomes, further: NDArray[np.int64], z: float = 1.96) -> NDArray[np.float64]:
    """Half the width of the normal interval `z sqrt(m (1 - m) / n)` for the success rate after `further` samples more.

    m is the posterior's mean, taken to stay as it is.
    """
    spread: NDArray[np.float64] = z * seen.spread / np.sqrt(np.maximum(seen.samples + further, 1))
    return spread


def priorities(seen: Outcomes, most: int, total: int, explore: float) -> NDArray[np.float64]:
    """What 0 to `most` further samples of a scenario are worth, `[most + 1]`; concave.

    Each is worth the cut of the half width and `explore sqrt(ln(1 + T) / n)`, n the samples before it (of none the
    bonus of one), T those of all scenarios so far.
    """
    counts = np.arange(most + 1)
    cut = half_width(seen, counts[:1]) - half_width(seen, counts)
    bonus = explore * np.sqrt(math.log(1 + total) / np.maximum(seen.samples + counts[:-1], 1))
    found: NDArray[np.float64] = cut + np.concatenate([[0.0], np.cumsum(bonus)])
    return found


def similarity(one: str, other: str) -> float:
    """The cosine of two texts' counts of three letters in a row, in [0, 1]: in the place of an embedding's."""
    left, other_counts = (Counter(text[n : n + 3] for n in range(len(text) - 2)) for text in (one, other))
    dot = sum(count * other_counts[part] for part, count in left.items())
    norms = [math.sqrt(sum(count**2 for count in counts.values())) for counts in (left, other_counts)]
    return dot / (norms[0] * norms[1]) if dot else 0.0


@dataclass(frozen=True)
class Rounds(RememberingRollout):
    """`samples` per scenario on average: `start` of each, the rest in `rounds`, by what they tell (`priorities`).

    XRPO (arXiv 2510.06672). A round's samples are shared out exactly, by what is known of each scenario in this step.
    One whose samples have all failed is asked, from the second round on, with `examples` worked examples: the answers
    to the most similar questions among the last `solved` that were solved, with a line for each under its prompt. What
    was said with examples is on-policy behind the prompt it was given, of source `helped`; the ledger is not told.

    Attributes:
        explore: weight of the bonus for scenarios that were sampled little.
        metrics: `rollout/fewest` and `rollout/most` samples of a scenario, `rollout/with_examples` samples.
    """

    samples: int = 8
    start: int = 4
    rounds: int = 2
    explore: float = 0.01
    examples: int = 2
    solved: int = 256

    def __post_init__(self) -> None:
        if not 1 <= self.start <= self.samples or self.rounds < 1 or self.examples < 0 or self.solved < 1:
            raise ValueError(
                f"start must lie in 1..samples, rounds and solved be at least 1, examples at least 0, not {self.start} "
                f"of {self.samples}, {self.rounds}, {self.solved} and {self.examples}"
            )
        if self.explore < 0:
            raise ValueError(f"explore must be at least 0, not {self.explore}")

    def init(self) -> State:
        return {"solved": {}}

    async def collect_with(
        self,
        state: State,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> tuple[Experience, State]:
        """The groups in the order asked."""
        found = await groups(play, [replace(one, samples=self.start) for one in asked])
        await score([one for group in found for one in group])
        left = (self.samples - self.start) * len(asked)
        for number in range(self.rounds):
            share = left // (self.rounds - number)
            left -= share
            await self._round(state, asked, found, share, play, score)
        sizes = [len(group) for group in found]
        helped = sum(one.source == "helped" for group in found for one in group)
        metrics = {"rollout/fewest": float(min(sizes)), "rollout/most": float(max(sizes))}
        metrics["rollout/with_examples"] = float(helped)
        experience = Experience([one for group in found for one in group], metrics=metrics)
        return experience, self._after(state, asked, found)

    async def _round(
        self,
        state: State,
        asked: Sequence[Assignment],
        found: list[list[Trajectory]],
        share: int,
        play: Play,
        score: Grade,
    ) -> None:
        """One round: so many further samples, joined to their groups."""
        if not share:
            return
        seen = [Outcomes(len(group), sum(map(_right, group))) for group in found]
        total = sum(one.samples for one in seen)
        counts = allocate(np.stack([priorities(one, share, total, self.explore) for one in seen]), 0, share).tolist()
        wanted = [
            (place, self._asked(state, asked[place], found[place], count))
            for place, count in enumerate(counts)
            if count > 0
        ]
        played = await groups(play, [one for _, one in wanted])
        await score([one for group in played for one in group])
        for (place, _), group in zip(wanted, played, strict=True):
            found[place] += group

    def _asked(self, state: State, asking: Assignment, group: Sequence[Trajectory], count: int) -> Assignment:
        further = replace(asking, samples=count, first=asking.first + len(group))
        told = [] if any(map(_right, group)) else self._examples(state, asking.scenario)
        if not told:
            return further
        hint = "\n".join(told)
        return replace(further, hint=hint if asking.hint is None else f"{asking.hint}\n{hint}", source="helped")

    def _examples(self, state: State, scenario: Scenario) -> list[str]:
        """Worked examples of the most similar solved questions, the most similar last."""
        own = _question(scenario)
        known = [(similarity(own, q), place, q, a) for place, (q, a) in enumerate(state["solved"].items()) if q != own]
        best = sorted(known)[-self.examples :] if self.examples else []
        return [f"{question} {answer}" for _, _, question, answer in best]

    def _after(self, state: State, asked: Sequence[Assignment], found: Sequence[Sequence[Trajectory]]) -> State:
        solved: dict[str, str] = dict(state["solved"])
        for asking, group in zip(asked, found, strict=True):
            first = next((one for one in group if _right(one)), None)
            if first is not None and _question(asking.scenario):
                solved.pop(_question(asking.scenario), None)
                solved[_question(asking.scenario)] = first.answer
        return {"solved": dict(list(solved.items())[-self.solved :])}


def _right(one: Trajectory) -> bool:
    return one.failure is None and worth(one) >= RIGHT


def _question(scenario: Scenario) -> str:
    """The last message of the prompt."""
    return str(scenario.messages[-1]["content"]) if scenario.messages else ""


def novelty_bonus(advantage: Tensor, eta: Tensor, weight: float, most: float) -> Tensor:
    """`min(weight (1 - eta), most A)` where eta < 1 and A > 0, else 0; same shape."""
    bonus = torch.minimum(weight * (1 - eta), most * advantage)
    return torch.where((eta < 1) & (advantage > 0), bonus, torch.zeros_like(bonus))


@dataclass(frozen=True)
class NoveltyGuided(Refined):
    """Right answers that are less likely than their group's mean get more credit, at most `most` times more.

    XRPO (arXiv 2510.06672): `eta_i = exp(s_i - mean_g s)`, s the mean log-prob of an answer's decisions under the
    policy that sampled it, and `A + min(weight (1 - eta), most A)` where eta < 1. A trajectory with an unknown log-prob
    is left as it is. The form with the minimum is recalled from reviews.
    """

    weight: float = 2.5
    most: float = 0.5

    adds: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight < 0 or self.most < 0:
            raise ValueError(f"weight and most must be at least 0, not {self.weight} and {self.most}")

    def refine(self, batch: Batch) -> Occurrences:
        seen, size = batch.occurrences, batch.trajectories
        used = seen.weight != 0
        known = batch.logp[Column.BEHAVIOUR.name]
        told = segment_mean(known.present[seen.decision][used].double(), seen.trajectory[used], size) == 1.0
        score = segment_mean(known.values[seen.decision][used].double(), seen.trajectory[used], size)
        group = GroupBy("scenario")(batch)
        middle = segment_mean(score[told], group.index[told], group.size)[group.index]
        eta = torch.where(told & right(batch), (score - middle).exp(), torch.ones_like(score))
        advantage = seen.advantage.double()
        bonus = novelty_bonus(advantage, eta[seen.trajectory], self.weight, self.most)
        return replace(seen, advantage=advantage + torch.where(used, bonus, 0.0))


XRPO = GRPO.but(
    name="xrpo",
    title="XRPO: samples where they tell most, examples where all fail, credit for what is new",
    source="Bamba et al., XRPO: Targeted Exploration and Exploitation, arXiv:2510.06672, and public reviews of it",
    family="data-and-rollout",
    catalogue_ids=("xrpo",),
    axes=("data", "rollout", "credit"),
    formula="next sample to argmax of the cut of z sqrt(p(1-p)/n) + lambda sqrt(ln(1+T)/n);  A_i += min(2.5 (1 - "
    "eta_i), 0.5 A_i) for right answers of eta_i = exp(s_i - mean s) < 1",
    conventions={
        **GRPO.conventions,
        "interval": "normal, around the posterior mean (1 + s)/(2 + n) of this step's samples; chosen here",
        "exploration": "lambda = 0.01; chosen here",
        "examples": "2, the most similar solved questions by letters in threes, with the answers given; the paper "
        "compares embeddings",
        "s": "mean log-prob per decision under the policy that sampled",
        "novelty": "2.5 and 0.5; the form with the minimum is recalled",
    },
    note="that fewer rollouts than GRPO's reach the same accuracy was not seen in small worlds",
    task="sums",
    rollout=Rounds(),
    credit=NoveltyGuided(of=GRPO.credit),
)
