"""Spectral PO: GRPO that grades groups without a right answer by how far each got (Chen et al., arXiv:2505.11595).

`StepScores` replaces the rewards of such groups alone by a score of what stands before the first wrong step, from a
judge (`--judge`) or from equations checked in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level, LevelScores
from hocket.core.columns import PROMPT, TEXT
from hocket.core.segments import segment_count, segment_extreme
from hocket.core.signals import REWARD, RIGHT, returns
from hocket.methods.base.grpo import GRPO
from hocket.rewards.judging import Judge, picked
from hocket.stages import Shaping

_EQUATION = re.compile(r"(-?\d{1,15}) *([-+*]) *(-?\d{1,15}) *= *(-?\d{1,30})", re.ASCII)


def right_share(text: str) -> float:
    """The length of what stands before the first wrong equation, over the whole length, in [0, 1].

    A scripted judge of worked sums: steps are equations `a + b = c` (or -, *) of integers. Without any step it is 0,
    with right ones only 1.
    """
    steps = list(_EQUATION.finditer(text))
    for step in steps:
        left, sign, right, claimed = int(step[1]), step[2], int(step[3]), int(step[4])
        value = left + right if sign == "+" else left - right if sign == "-" else left * right
        if value != claimed:
            return step.start() / len(text)
    return 1.0 if steps else 0.0


FIRST_WRONG = (
    "Here are a problem and the numbered steps of an attempt at it. Which step is the first wrong one? 0 if none is."
)
_STEP = re.compile(r"[^\n]*?(?:[.;!?](?=\s)|\n|$)", re.DOTALL)


def steps_of(text: str) -> list[tuple[int, str]]:
    """Where each step begins, and the step: sentences and lines."""
    found = [
        (match.start() + len(match[0]) - len(match[0].lstrip()), match[0].strip()) for match in _STEP.finditer(text)
    ]
    return [(start, step) for start, step in found if step]


def judged_shares(judge: Judge, problems: Sequence[str], texts: Sequence[str]) -> list[float]:
    """The share of each text before its first wrong step, as a judge tells; 0 without steps or without an answer."""
    steps = [steps_of(text) for text in texts]
    asked = []
    for problem, every in zip(problems, steps, strict=True):
        listed = "\n".join(f"{number}. {step}" for number, (_, step) in enumerate(every, 1))
        numbers = [str(number) for number in range(len(every) + 1)]
        asked.append((f"{FIRST_WRONG}\n\n{problem}\n\n{listed}\n", numbers))
    told = iter(picked(judge, [one for one, every in zip(asked, steps, strict=True) if every]))
    shares = []
    for text, every in zip(texts, steps, strict=True):
        wrong = next(told) if every else None
        shares.append(0.0 if wrong is None else 1.0 if wrong == "0" else every[int(wrong) - 1][0] / len(text))
    return shares


def step_score(share: Tensor, slope: float, threshold: float) -> Tensor:
    """`1 / (1 + exp(-slope (share - threshold)))`, same shape: strictly rising in share, inside (0, 1)."""
    return torch.sigmoid(slope * (share - threshold))


@dataclass(frozen=True)
class StepScores(Shaping):
    """In groups where nobody is right, the reward is how far each solution was: spectral PO (arXiv 2505.11595).

    `s = sigmoid(slope (RTS - threshold))`, RTS the share of a solution that stands before its first wrong step, as told
    by the score `name` (of weight 0 so that it adds nothing elsewhere), else by the judge, who names the first wrong
    step, else `right_share` of the text.
    Other groups keep their rewards to the last bit. Slope and threshold are our choice; the paper's are not known.

    Attributes:
        success: the return from which on a sample counts as right.
    """

    slope: float = 5.0
    threshold: float = 0.5
    success: float = RIGHT
    name: str = "rts"
    judge: Judge | None = None

    asks_judge: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.slope > 0:
            raise ValueError(f"slope must be positive, not {self.slope}")

    def __call__(self, batch: Batch) -> Batch:
        seen = batch.occurrences
        used = segment_count(seen.trajectory[seen.weight != 0], batch.trajectories) > 0
        counted = torch.nonzero(used).flatten()
        groups = GroupBy("scenario")(batch)
        index = groups.index[counted]
        total = returns(batch)
        best = segment_extreme(total[counted], index, groups.size, largest=True)
        failed = torch.zeros(batch.trajectories, dtype=torch.bool)
        failed[counted] = (best < self.success)[index]
        if not failed.any():
            return batch
        reward = torch.where(failed, self._scores(batch, failed), self._own(batch))
        return batch.but(scores={**batch.scores, REWARD[Level.TRAJECTORY]: LevelScores(Level.TRAJECTORY, reward)})

    def _own(self, batch: Batch) -> Tensor:
        given = batch.scores.get(REWARD[Level.TRAJECTORY])
        return torch.zeros(batch.trajectories, dtype=torch.float64) if given is None else given.values

    def _scores(self, batch: Batch, failed: Tensor) -> Tensor:
        if self.name in batch.scores:
            share = torch.nan_to_num(batch.scores[self.name].values)
        else:
            texts, prompts = TEXT.read(batch, "StepScores"), PROMPT.rows(batch)
            places = torch.nonzero(failed).flatten().tolist()
            asked = [texts[place] or "" for place in places]
            told = (
                [right_share(text) for text in asked]
                if self.judge is None
                else judged_shares(self.judge, [prompts[place] or "" for place in places], asked)
            )
            share = torch.zeros(batch.trajectories, dtype=torch.float64)
            share[failed] = torch.tensor(told, dtype=torch.float64)
        return step_score(share.double(), self.slope, self.threshold)


SPECTRAL_PO = GRPO.but(
    name="spectral-po",
    title="Spectral Policy Optimisation",
    source="Chen et al., Spectral Policy Optimization: Coloring your Incorrect Reasoning in GRPO, arXiv:2505.11595",
    catalogue_ids=("spectral-po",),
    axes=("reward", "credit"),
    formula="in groups without a right answer r_i = 1/(1 + exp(-beta (RTS_i - gamma)));  then GRPO",
    conventions={
        **GRPO.conventions,
        "RTS": "length before the first wrong step over the whole length",
        "judge": "a score named rts of weight 0, else --judge, asked for the number of the first wrong sentence or "
        "line (`FIRST_WRONG`; no answer is share 0), else equations of integers checked in the text",
        "constants": "shaping.0.slope beta = 5 and shaping.0.threshold gamma = 0.5: the paper's are not known",
        "other groups": "unchanged to the last bit",
    },
    note="without --judge steps are equations checked by rule; the shipped model as judge, also after lessons (task "
    "marked-sums), gave all answers of a failed group the same share",
    shaping=(StepScores(slope=5.0, threshold=0.5),),
)
