"""DoctorAgent-RL: GRPO for a doctor who questions a simulated patient (Feng et al., arXiv:2505.19630).

The reward adds up three parts: the diagnosis (`GradedDiagnosis`), what the questions brought to light
(`QuestionInformation`, in bits or as the authors' code counts) and keeping to the rules, in
`hocket.methods.agents.doctoragent_rl.reward`. The doctor alone learns, a patient that a policy plays stays as it was.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from hocket.core.casting import Leading
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.methods.agents.doctoragent_rl.casebook import agreeing
from hocket.methods.agents.doctoragent_rl.reward import Compliance, Consultation, DiagnosisQuality
from hocket.methods.base.grpo import GRPO
from hocket.rewards.judging import Judge, grades
from hocket.stages import Reward
from hocket.types import Trajectory


@dataclass(frozen=True)
class QuestionInformation(Reward):
    """What the questions brought to light.

    `bits`: log2 of the possible conditions after the complaint less log2 of those left in the end, all conditions
    being equally likely. It is bounded, however many questions are asked. `answers`, as released with DoctorAgent-RL:
    1 for every question that the patient could answer and had not answered before.
    """

    count: Literal["bits", "answers"] = "bits"
    name: str = "information"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.count not in ("bits", "answers"):
            raise ValueError(f"count must be bits or answers, not {self.count!r}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.judge(trajectory) for trajectory in trajectories]

    def judge(self, trajectory: Trajectory) -> float | None:
        """What came to light in one episode."""
        case = Consultation.of(trajectory)
        if case is None:
            return None
        if self.count == "answers":
            return float(case.kinds.count("question"))
        possible = agreeing(case.book, {symptom: case.answer(symptom) for symptom in case.complaint})
        return math.log2(len(possible) / len(case.left()))


GRADE = (
    "Here are the {what} of a patient's record and a doctor's final message. How well does the message agree with the "
    "record about the {what}?\n\nRecord: {record}\n\nMessage:\n{final}\n"
)


@dataclass(frozen=True)
class GradedDiagnosis(Reward):
    """The mean of a judge's two grades of the final message, for condition and advice, from 0 to 5 each, in [0, 1].

    As in the released evaluator of DoctorAgent-RL (arXiv 2505.19630), where a language model grades both against the
    record. 0 without a final message; without a judge `rule`. No opinion where a grade is missing.
    """

    rule: DiagnosisQuality = DiagnosisQuality()
    name: str = "diagnosis"
    weight: float = 10.0
    judge: Judge | None = None
    outside: ClassVar[bool] = False
    asks_judge: ClassVar[bool] = True

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        if self.judge is None:
            return await self.rule(trajectories, key=key)
        return await asyncio.to_thread(self._judged, self.judge, trajectories)

    def _judged(self, judge: Judge, trajectories: Sequence[Trajectory]) -> list[float | None]:
        cases = [Consultation.of(trajectory) for trajectory in trajectories]
        asked = [
            GRADE.format(what=what, record=record, final=case.final)
            for case in cases
            if case is not None and case.final is not None
            for what, record in (("condition", case.condition), ("advice", case.book[case.condition]["advice"]))
        ]
        told = iter(grades(judge, asked, scale=5))
        return [
            None if case is None else 0.0 if case.final is None else _mean(next(told), next(told)) for case in cases
        ]


def _mean(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else (one + other) / 2


DOCTOR_AGENT_RL = GRPO.but(
    name="doctoragent-rl",
    title="A doctor who asks a simulated patient",
    source="Feng et al., DoctorAgent-RL, arXiv:2505.19630, and the authors' code",
    catalogue_ids=("doctoragent-rl",),
    axes=("team", "reward", "environment"),
    formula="R = 10 (share right of condition and advice) + bits learnt - 2 malformed - 2 repeated - 1 unknown - "
    "5 [no diagnosis] - 0.2 turns;  A_i = (R_i - mean_g R)/(std_g R + eps)",
    conventions={
        **GRPO.conventions,
        "diagnosis": "two grades of 0 to 5 as released, by --judge (`GRADE`); without one by rule: 5 if the record's "
        "condition is named, 5 if its advice is",
        "information": "bits about the condition; rewards.1.count = answers pays 1 for every answered question, as "
        "released, whatever it tells",
        "compliance": "amounts as released; 0.2 a turn is ours, rewards.2.turn",
        "turn limit": "the task's; the released one draws 2 to 10 for each dialogue and tells it",
        "loss": "the doctor's tokens alone",
        "patient": "a script, or with played a copy of the model as it was; what it draws is part of the environment",
        "warm start": "--lessons 60, or plan: [{recipe: sft, ..}, {recipe: doctoragent-rl, ..}]; a toy doctor without "
        "one, who repeats questions and names what the answers exclude, collapses to guessing at once",
        "workflow": "the task's (simulated-user?desk=consultation)",
    },
    task="consultation",
    requires=(Requirement.TURNS,),
    cast=Leading(leader="agent", others="patient"),
    rewards=(GradedDiagnosis(), QuestionInformation(), Compliance()),
)
