"""Curr-ReFT: GRPO on yes/no, then choice, then open questions (arXiv:2503.07065).

`FormatStages` asks the same scenarios in ever harder formats, which `FormatGrade` grades each in its way. The second
stage, `curr-reft-self`, imitates the policy's own good samples (`Selected` of `hocket.rollout.selection`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from hocket.core.keys import Key
from hocket.curriculum.random_order import Shuffled
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.sft import SFT
from hocket.rewards.verifiers import answer_text, final_answer, token_match
from hocket.rollout.selection import Selected
from hocket.stages import Curriculum, LedgerView, Reward, Task
from hocket.types import Scenario, Trajectory

Pose = Callable[[Scenario, str, Key], Scenario]
"""A scenario asked in a format."""


LETTERS = "ABCD"


@dataclass(frozen=True)
class FormatStages(Curriculum):
    """Scenarios as `Shuffled` gives them, asked in one format after another (Curr-ReFT, arXiv 2503.07065).

    Each stage but the last lasts `per_stage` scenarios. The paper moves on when a stage's data are used up.

    Attributes:
        prompts: scenarios per step. stages: formats in order.
        order: `staged`, or `shuffled`: each scenario's format is drawn, the comparison of the paper.
        pose: how a scenario is asked in a format; None asks in words, see `posed`.
    """

    prompts: int = 16
    stages: tuple[str, ...] = ("binary", "choice", "open")
    per_stage: int = 320
    order: Literal["staged", "shuffled"] = "staged"
    pose: Pose | None = None

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.per_stage < 1 or not self.stages:
            raise ValueError("prompts and per_stage must be at least 1, and stages name a format")
        if self.order not in ("staged", "shuffled"):
            raise ValueError(f"order must be staged or shuffled, not {self.order!r}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        plain = Shuffled(self.prompts)(task, asked, count, ledger, key)
        pose = self.pose or posed
        return [
            pose(scenario, self.format_at(asked + number, key), key.derive("pose", asked + number))
            for number, scenario in enumerate(plain)
        ]

    def format_at(self, position: int, key: Key) -> str:
        """The format of the scenario at `position` of the run."""
        if self.order == "shuffled":
            return self.stages[key.derive("format", position).word % len(self.stages)]
        return self.stages[min(position // self.per_stage, len(self.stages) - 1)]


def posed(scenario: Scenario, form: str, key: Key) -> Scenario:
    """The question in words as `binary` (is it 17?), `choice` (four letters) or `open` (as it is).

    Wrong answers are numbers near the right one, so a question whose answer is no whole number, or whose prompt is no
    text, stays open. The metadata tell the `format`, the id is apart from the open question's.
    """
    answer = str(scenario.answer).strip().replace(",", "")
    if form == "open" or not isinstance(scenario.prompt, str) or not answer.lstrip("+-").isdigit():
        return replace(scenario, metadata={**scenario.metadata, "format": "open"})
    rng, right = key.numpy(), int(answer)
    near = [right + int(step) for step in rng.permutation([-10, -3, -2, -1, 1, 2, 3, 10])]
    if form == "binary":
        shown, verdict = (right, "yes") if rng.random() < 0.5 else (near[0], "no")
        question, answer = f"{scenario.prompt} Is it {shown}? Answer yes or no.", verdict
    else:
        options = [int(option) for option in rng.permutation([right, *near[: len(LETTERS) - 1]])]
        listed = " ".join(f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=True))
        question, answer = f"{scenario.prompt} {listed}. Answer with the letter.", LETTERS[options.index(right)]
    return replace(
        scenario,
        id=f"{scenario.id}/{form}",
        prompt=question,
        answer=answer,
        metadata={**scenario.metadata, "format": form},
        origin=scenario.id,
    )


def chosen_share(given: str, reference: str) -> float:
    """1 for the right letters, |given| / |right| for some of them and no wrong one, else 0."""
    said, right = set(given.upper()) & set("ABCDEFGH"), set(reference.upper()) & set("ABCDEFGH")
    return len(said) / len(right) if said and said <= right else 0.0


@dataclass(frozen=True)
class FormatGrade(Reward):
    """Yes/no questions by match, choices with credit for a correct subset, open answers by the words they share.

    Curr-ReFT (arXiv 2503.07065; the grades are recalled: for boxes take `Routed("box")`). Reads the scenario's metadata
    `format` (binary, choice, open; open without one). No opinion without an answer.
    """

    name: str = "correct"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.grade(one.text, one.scenario.answer, one.scenario.metadata.get("format")) for one in trajectories]

    def grade(self, text: str, answer: Any, form: str | None = None) -> float | None:
        """The grade of one completion."""
        if answer is None:
            return None
        given, reference = final_answer(text), answer_text(answer)
        if form == "binary":
            return float(given.lower().strip(". ") == reference.lower())
        return chosen_share(given, reference) if form == "choice" else token_match(given, reference)


CURR_REFT = GRPO.but(
    name="curr-reft",
    title="Curriculum of formats: yes/no, choice, open",
    source="Curr-ReFT, arXiv:2503.07065 (recalled)",
    catalogue_ids=("curr-reft",),
    axes=("data", "reward", "policy"),
    formula="stage s in (yes/no, choice, open): GRPO on r_s = match, share of the right letters, word F1",
    conventions={
        **GRPO.conventions,
        "stages": "curriculum.per_stage = 320 scenarios each, the last for the rest of the run",
        "questions": "posed from open ones with a whole number as answer; others stay open",
        "plan": "[{recipe: curr-reft, steps: N}, {recipe: curr-reft-self, steps: M}]",
    },
    note="shown on text; its modality comes later; the shipped base answers neither yes nor a letter, so "
    "it learns from the last stage alone",
    curriculum=FormatStages(prompts=16, per_stage=320),
    rewards=(FormatGrade(),),
)


CURR_REFT_SELF = SFT.but(
    name="curr-reft-self",
    title="Rejection-sampling self-training, the second stage of Curr-ReFT",
    source="Curr-ReFT, arXiv:2503.07065 (recalled)",
    catalogue_ids=("curr-reft",),
    axes=("data", "policy"),
    formula="L = -1/sum_i n_i sum_{i: R_i >= 1/2, judge agrees} sum_t log pi(a_it | s_it)",
    conventions={
        **SFT.conventions,
        "kept": "the current policy's samples of total score rollout.least = 0.5 or more, if rollout.judge agrees",
        "data": "the task's mixture; old skills come back only if it holds them",
    },
    note="shown on text; its modality comes later",
    rollout=Selected(samples=8, least=0.5),
)
