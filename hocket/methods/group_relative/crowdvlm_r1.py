"""CrowdVLM-R1: GRPO for counting, paid by how near the guess is (arXiv:2504.03724).

Instead of right or wrong, `Closeness` pays the more the smaller the relative error is, down to a cut; a point for the
form of the answer is added. Shown on counts asked in text.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.numerals import number, spelled
from hocket.methods.base.grpo import GRPO
from hocket.rewards.key_steps import OrderedStages
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import EXTRACTIONS, Extraction, check_extraction, known_of
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory


def closeness(guess: float, truth: float, *, top: float = 1.5, cut: float = 0.5) -> float:
    """`top - gap` if `gap = |guess - truth| / |truth| < cut`, else 0; a truth of 0 has gap 0 or infinity."""
    gap = abs(guess - truth) / abs(truth) if truth else (0.0 if guess == truth else float("inf"))
    return top - gap if gap < cut else 0.0


@dataclass(frozen=True)
class Closeness(Reward):
    """The fuzzy count reward of CrowdVLM-R1 (arXiv 2504.03724), as in its released script; see `closeness`.

    The guess is the number extracted from the text, 0 is given without one. The truth is the scenario's answer, or
    what its metadata call `key`; without a truth there is no opinion.
    """

    top: float = 1.5
    cut: float = 0.5
    extract: Extraction = "answer-tag"
    key: str = "answer"
    name: str = "closeness"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_extraction(self.extract)
        if not 0 < self.cut <= self.top:
            raise ConfigurationError(f"cut must lie between 0 and top = {self.top}, not {self.cut}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.grade(trajectory.text, trajectory.scenario) for trajectory in trajectories)

    def grade(self, text: str, scenario: Scenario) -> float | None:
        """The reward of one text."""
        truth = number_of(known_of(scenario, self.key))
        if truth is None:
            return None
        guess = number_of(EXTRACTIONS[self.extract](text))
        return 0.0 if guess is None else closeness(guess, truth, top=self.top, cut=self.cut)


def number_of(value: Any) -> float | None:
    """A number, or the number that a whole text spells; None for anything else."""
    found = None if value is None or isinstance(value, bool) else number(spelled(value))
    return None if found is None or not -sys.float_info.max <= found <= sys.float_info.max else float(found)


CROWDVLM_R1 = GRPO.but(
    name="crowdvlm-r1",
    title="Fuzzy Group Relative Policy Reward for counting",
    source="CrowdVLM-R1, arXiv:2504.03724",
    catalogue_ids=("crowdvlm-r1",),
    axes=("reward", "policy"),
    formula="r_i = (1.5 - gap_i)[gap_i < 0.5] + [format],  gap_i = |y - y_i|/y,  then A_i as in GRPO",
    conventions={
        **GRPO.conventions,
        "cut": "rewards.0.cut = 0.5, rewards.0.top = 1.5, as released: the reward falls from above 1 to 0 at the cut",
        "no number": "closeness 0",
        "truth of 0": "gap 0 for the exact guess, else infinite",
        "format": "<think>, </think>, <answer> and </answer> in this order, weight 1 (shaping.0)",
        "KL": "coefficient 0",
    },
    note="shown on counts asked in text; images come with their modality",
    rewards=(Closeness(),),
    shaping=(OrderedStages(),),
)
