"""WirelessMathLM: mathematics of wireless communications, learnt from a checker's verdicts (arXiv:2509.23219).

The paper builds a bank of problems from papers, each with an answer that can be checked: choices, formulas with a blank
to fill in, and whole equations. Base models learn from it by GRPO alone, paid 1 for a right answer and 0 else; they are
not tuned before. There is no new estimator: what is new is the bank, and that algebra judges the answers.

The bank here is generated: ten closed forms with drawn letters (`questions.py`). Lessons stand in for the texts that a
base model has read; in half of them the answer has a slip. The checker and its grammar are ours (`formulas.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.methods.applications.wirelessmathlm.formulas import BLANK, same
from hocket.methods.base.grpo import GRPO
from hocket.rewards.opinions import Opinions
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory


@dataclass(frozen=True)
class FormulaMatch(Reward):
    """1 if the tagged answer is the scenario's formula in any form, else 0; None for a scenario without answer.

    Where the metadata have a `frame`, what counts is the formula with the answer in its blank.
    """

    name: str = "correct"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.verify(trajectory.answer, trajectory.scenario) for trajectory in trajectories)

    def verify(self, text: str, scenario: Scenario) -> float | None:
        """The verdict on one completion."""
        if scenario.answer is None:
            return None
        answer = tagged(text)
        frame = str(scenario.metadata.get("frame", BLANK))
        return float(answer is not None and same(answer, str(scenario.answer), frame))


WIRELESSMATHLM = GRPO.but(
    name="wirelessmathlm",
    title="GRPO on closed forms that algebra checks",
    source="WirelessMathLM, arXiv:2509.23219",
    catalogue_ids=("wirelessmathlm",),
    axes=("data", "reward", "environment"),
    formula="r_i = 1 if simplify(given_i - known) = 0 else 0,  A_i = (r_i - mean_g r)/(std_g r + eps),  L as grpo",
    conventions={
        **GRPO.conventions,
        "checker": "ours: two formulas are refuted by their values at three points, and equal where sympy finds that "
        "the difference vanishes for positive letters; what takes it over 3 s is wrong",
        "problems": "generated, in the place of 4,027 from papers",
        "base": "lessons, half of them with a slip, stand in for a base model's reading",
    },
    task="wireless",
    rewards=(FormulaMatch(),),
)
