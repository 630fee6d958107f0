"""EDGE-GRPO: GRPO with advantages scaled by confidence, and wrong answers continued (Zhang et al., arXiv:2507.21848).

`EntropyScaled` enlarges what answers of low entropy earn or lose; `GuidedCorrection` replaces some wrong answers by
what the policy says after a cue to look again, so that fewer groups are all wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import Column, InfoColumn
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.segments import segment_mean
from hocket.core.signals import RIGHT
from hocket.credit.refinement import Refined, mean_by_trajectory
from hocket.methods.base.conventions import ENTROPY
from hocket.methods.base.grpo import GRPO
from hocket.rollout.dynamic import total
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Trajectory

CORRECTED = InfoColumn("corrected", "True for an answer that goes on from a wrong one.")


Encode = Callable[[str], Sequence[int]]
"""From text to the ids of its tokens."""


CUES = (
    " Wait, something is wrong here.",
    " Wait, something is wrong here. After checking, the right answer is {answer}.",
)
"""To look again, and to look again knowing the answer."""


@dataclass(frozen=True)
class GuidedCorrection(Rollout):
    """`samples` per scenario, and some of the wrong ones continued after a cue: EDGE-GRPO (arXiv 2507.21848).

    Of each group's wrong single-turn answers, `share` (rounded up, the first by number) are played again: the answer
    without its closing token, then a cue, imposed; what follows is sampled and scored, and takes the wrong answer's
    place in the group. So a group of wrong answers may hold a right one before its rewards are compared. Imposed tokens
    carry no credit: only the continuation is learnt. (The authors' code asks every wrong answer again, and also puts
    the answer in without sampling.) The wrong answers that were replaced are discarded.

    Attributes:
        samples: per scenario, at least 2. share: of the wrong answers that are continued, in [0, 1].
        success: an answer is wrong if the sum of its scores is below this.
        cues: texts, one of which is drawn for each; `{answer}` stands for the scenario's answer.
        tokens: tokens imposed before the cue's, for policies that have no texts.
        metrics: `rollout/corrected` counts continuations, `rollout/corrected_right` those that came out right.
    """

    samples: int = 8
    share: float = 0.5
    success: float = RIGHT
    cues: tuple[str, ...] = CUES
    tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"samples must be at least 2, not {self.samples}")
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must lie in [0, 1], not {self.share}")

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
        """The groups with their corrected members in place; what was replaced is discarded."""
        first = await play([replace(asking, samples=self.samples) for asking in asked])
        if len(first) != len(asked) * self.samples:
            raise HocketError(f"{len(asked) * self.samples} trajectories were asked for and {len(first)} came back")
        await score(first)
        chosen = [
            number
            for start in range(0, len(first), self.samples)
            for number in self._wrong(first, range(start, start + self.samples))
        ]
        encode = getattr(getattr(play, "tokenizer", None), "encode", None)
        again = [self._continued(asked[n // self.samples], first[n], encode, key) for n in chosen]
        second = await play(again) if again else []
        for trajectory in second:
            CORRECTED.write(trajectory, True)
        if second:
            await score(second)
        kept, replaced = list(first), []
        for number, trajectory in zip(chosen, second, strict=True):
            if trajectory.failure is None:
                replaced.append(kept[number])
                kept[number] = trajectory
        right = sum(self._right(trajectory) for trajectory in second)
        metrics = {"rollout/corrected": float(len(second)), "rollout/corrected_right": float(right)}
        return Experience(kept, replaced, metrics)

    def _right(self, trajectory: Trajectory) -> bool:
        return sum(total(one) for one in trajectory.scores.values()) >= self.success

    def _wrong(self, trajectories: Sequence[Trajectory], group: range) -> list[int]:
        """Which members of a group are continued."""
        wrong = [n for n in group if not self._right(trajectories[n]) and continuable(trajectories[n])]
        return wrong[: math.ceil(self.share * len(wrong))]

    def _continued(self, asking: Assignment, wrong: Trajectory, encode: Encode | None, key: Key) -> Assignment:
        """One sample that begins with the wrong answer and a cue, which only players of texts can spell."""
        said = wrong.turns[0]
        drawn = key.derive("cue", wrong.scenario.id, wrong.sample).numpy()
        cue = self.cues[int(drawn.integers(len(self.cues)))] if self.cues else ""
        spelt = encode(cue.replace("{answer}", str(wrong.scenario.answer))) if encode is not None and cue else ()
        prefix = (*(int(token) for token in said.action[: len(said) - 1]), *self.tokens, *spelt)
        room = replace(asking.decoding, max_tokens=asking.decoding.max_tokens + len(prefix))
        return replace(
            asking,
            samples=1,
            first=asking.first + self.samples + wrong.sample,
            prefix=prefix,
            decoding=room,
        )


def continuable(trajectory: Trajectory) -> bool:
    """Whether an answer can go on: one turn of tokens that ended by itself."""
    if trajectory.failure is not None or len(trajectory.turns) != 1 or trajectory.truncated:
        return False
    turn = trajectory.turns[0]
    return len(turn) > 0 and turn.action.ndim == 1 and np.issubdtype(turn.action.dtype, np.integer)


def entropy_factor(entropy: Tensor, average: Tensor, low: float, high: float) -> Tensor:
    """`clip(average / H, low, high)`, same shape; 1 where both are 0."""
    ratio = torch.where(entropy > 0, average / entropy.clamp(min=1e-300), torch.full_like(entropy, torch.inf))
    return torch.where((entropy <= 0) & (average <= 0), 1.0, ratio).clamp(low, high)


@dataclass(frozen=True)
class EntropyScaled(Refined):
    """`A_i <- A_i mean(H) / H_i`, H_i the mean entropy of trajectory i's decisions: EDGE-GRPO (arXiv 2507.21848).

    A confident sample's credit grows, an undecided one's shrinks, and no sign changes; 0 stays 0. The public code takes
    the mean of H over the whole batch, as here, and leaves the factor unbounded; `low` and `high` are our guard against
    an entropy near 0 (its code holds the same two numbers, commented out).

    Attributes:
        over: where the mean of H is taken: the `batch` or the `group` of the scenario.
        low, high: bounds of the factor.
    """

    over: Literal["batch", "group"] = "batch"
    low: float = 0.1
    high: float = 10.0

    adds: ClassVar[frozenset[Column]] = frozenset({Column.ENTROPY})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.over not in ("batch", "group"):
            raise ValueError(f"over must be 'batch' or 'group', not {self.over!r}")
        if not 0 < self.low <= 1 <= self.high:
            raise ValueError(f"low and high must satisfy 0 < low <= 1 <= high, not {self.low} and {self.high}")

    def refine(self, batch: Batch) -> Occurrences:
        seen = batch.occurrences
        entropy, counted = mean_by_trajectory(self.entropy(batch), batch)
        groups = (GroupBy("scenario") if self.over == "group" else GroupBy())(batch)
        average = segment_mean(entropy[counted], groups.index[counted], groups.size)[groups.index]
        factor = entropy_factor(entropy, average, self.low, self.high)
        return replace(seen, advantage=seen.advantage * factor[seen.trajectory])


EDGE_GRPO = GRPO.but(
    name="edge-grpo",
    title="Entropy-driven GRPO with guided error correction",
    source="Zhang et al., EDGE-GRPO, arXiv:2507.21848",
    catalogue_ids=("edge-grpo",),
    axes=("credit", "rollout"),
    formula="A_i <- A_i mean_batch(H) / H_i, H_i sample i's mean entropy;  wrong samples continued after a cue",
    conventions={
        **GRPO.conventions,
        "entropy": ENTROPY,
        "factor": "mean over the batch's samples; between 0.1 and 10 (a guard that the public code has commented out)",
        "mean entropy": "of a sample's own decisions; the public code's mean runs over the padding too, so that short "
        "samples seem more certain",
        "correction": "half of each group's wrong answers, rounded up, replaced by their continuation",
        "imposed tokens": "the wrong answer and the cue carry no credit and count in no denominator",
        "cue": "to look again, or to look again with the right answer, drawn evenly: rollout.cues",
    },
    rollout=GuidedCorrection(samples=8, share=0.5),
    credit=EntropyScaled(of=GRPO.credit),
)
