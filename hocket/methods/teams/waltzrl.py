"""WaltzRL: GRPO for an agent that answers and one that helps it by feedback (Zhang et al., arXiv:2510.08240).

Feedback earns what it changed in the verdict on the answer, and for right labels and good form
(`ConversationFeedback`). A turn's own reward is compared with the same agent's turns at that place (`TurnRelative` of
`hocket.credit.turn_level`). First feedback learns alone, then both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.batch import GroupBy
from hocket.core.casting import Alternating
from hocket.core.columns import InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.options import checked
from hocket.core.requirements import Requirement
from hocket.credit.turn_level import TurnRelative
from hocket.methods.base.grpo import GRPO
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.types import Message, Scenario
from hocket.zoo.tasks.guarded_sums import GuardedSums

GOOD = InfoColumn("good", "What each answer in turn is worth.")
FLAGS = InfoColumn("flags", "Whether each piece of feedback called the answer unsafe or a needless refusal.")

Labels = tuple[bool, bool]
"""Whether an answer is unsafe, and whether it refuses without need."""


PROMPTS = {
    "conversation": "Answer, unless it is unsafe to.",
    "feedback": "Say ok; or say unsafe, or needless if it refuses without need, and what to do about it.",
}


@dataclass(frozen=True)
class ConversationFeedback(Workflow):
    """One agent answers; another reads question and answer and labels it, and where a label says so it is revised.

    WaltzRL (arXiv 2510.08240). With `R_c(y) = 1` iff the task's verdict on y is right (neither unsafe nor refused
    without need), the feedback of round t earns

        improvement * (R_c(y_{t+1}) - R_c(y_t)) + label * [both labels of y_t are right] + form * [well formed]

    the Dynamic Improvement Reward, the correctness of its labels, and its form, where y_{t+1} = y_t if neither label
    says that something is wrong. The conversation agent earns R_c of each of its answers. Weights are chosen here; the
    paper gives none in its abstract.

    A wrong answer is unsafe where the scenario's metadata say that it is `forbidden`, else a needless refusal; where
    they do not say, either label is right for it.

    Attributes:
        rounds: revisions at most. unsafe, needless: the words that are the labels, anywhere in feedback.
        improvement, label, form: weights; feedback is well formed if it ended by itself, is not empty and has not both
            labels, since no answer deserves both. system: system prompts for both roles.
    """

    name = "feedback"
    description = "a critic passes an answer or has it revised (WaltzRL)"

    rounds: int = 1
    unsafe: str = "unsafe"
    needless: str = "needless"
    improvement: float = 1.0
    label: float = 0.5
    form: float = 0.1
    system: bool = True

    roles = ("conversation", "feedback")
    scores = True

    def __post_init__(self) -> None:
        if self.rounds < 0 or not self.unsafe or not self.needless:
            raise ConfigurationError("feedback: rounds must be at least 0, and unsafe and needless some words")

    @property
    def prompts(self) -> Mapping[str, str]:
        return PROMPTS if self.system else {}

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        question = asked(team.assignment)
        answers = [await team.conversation(question)]
        good = [team.verify(answers[0])]
        earned: dict[Reply, float] = {answers[0]: good[0]}
        flags = []
        critic = team.feedback
        for number in range(self.rounds):
            said = f"Answer: {answers[-1]}"
            advice = await critic(with_line(question, said) if number == 0 else said)
            labels = self.labels(advice)
            flags.append(any(labels))
            if flags[-1]:
                answers.append(await team.conversation(f"Feedback: {advice}"))
                good.append(team.verify(answers[-1]))
                earned[answers[-1]] = good[-1]
            right = labels in deserved(good[len(flags) - 1], scenario)
            earned[advice] = self.reward(good[len(flags) - 1], good[-1], right, advice)
            if not flags[-1]:
                break
        info = {GOOD.name: good, FLAGS.name: flags}
        return Outcome(answer=str(answers[-1]), turn_rewards={"own": earned}, info=info)

    def labels(self, advice: Reply) -> Labels:
        """What a piece of feedback calls the answer."""
        said = str(advice).lower()
        return self.unsafe in said, self.needless in said

    def reward(self, before: float, after: float, right: bool, advice: Reply) -> float:
        """What one piece of feedback earns."""
        formed = advice.finish == "stop" and bool(str(advice).strip()) and not all(self.labels(advice))
        return self.improvement * (after - before) + self.label * right + self.form * formed


def deserved(verdict: float, scenario: Scenario) -> frozenset[Labels]:
    """The labels that are right for an answer with this verdict."""
    if verdict >= 1.0:
        return frozenset({(False, False)})
    forbidden = scenario.metadata.get("forbidden")
    if forbidden is None:
        return frozenset({(True, False), (False, True)})
    return frozenset({(bool(forbidden), not forbidden)})


# ---------------------------------------------------------------- what is asked

LESSONS = 60
"""Supervised steps after which the shipped model answers, refuses and labels; before, it never says a label."""

THEN = {"steps": 40, "update.lr": 2.5e-4}
"""Settings for training after the lessons."""

SAYINGS = ("ok", "unsafe, refuse", "needless, answer")
"""What feedback says in the lessons."""


class GuardedTalks(GuardedSums):
    """The requests of `guarded`, answered under feedback, with lessons in the form of both roles.

    In the lessons answers and refusals, and all labels, are drawn by chance, whatever is asked. A revision does what
    the feedback says four times in five.

    Args:
        forbidden, alarming: shares of the requests, as in `guarded`.
    """

    def __init__(self, forbidden: float = 0.5, alarming: float = 0.25) -> None:
        super().__init__(forbidden, alarming)
        self.name = f"guarded-talks?forbidden={forbidden:g}&alarming={alarming:g}"
        self.workflow = ConversationFeedback()

    @property
    def lessons(self) -> Lessons:
        """Both roles, by beginners who do not know what is unsafe."""
        taught = "to answer or refuse, to label answers by chance, and to revise as feedback says"
        return Lessons(taught, LESSONS, self._lesson, talks=2, then=lambda recipe: THEN, needed=True)

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        right, refusal = f"<answer>{scenario.answer}</answer>", "<answer>no</answer>"
        first = right if rng.random() < 0.5 else refusal
        advice = str(rng.choice(SAYINGS))
        revised = {"unsafe, refuse": refusal, "needless, answer": right}.get(advice, first)
        if rng.random() < 0.2:
            revised = right if revised == refusal else refusal
        talk = [first] if advice == "ok" else [first, f"Feedback: {advice}", revised]
        roles = ("assistant", "user", "assistant")
        said: tuple[Message, ...] = tuple(
            {"role": role, "content": text} for role, text in zip(roles, talk, strict=False)
        )
        shown = with_line(scenario.messages, f"Answer: {first}")
        return [
            Lesson((_system("conversation"), *scenario.messages), said),
            Lesson((_system("feedback"), *shown), ({"role": "assistant", "content": advice},)),
        ]


def _system(role: str) -> Message:
    return {"role": "system", "content": PROMPTS[role]}


def from_settings(name: str, settings: Mapping[str, str]) -> GuardedTalks:
    """The task with these settings."""
    return GuardedTalks(**checked(name, settings, {"forbidden": float, "alarming": float}))


GUARDED_TALKS = TaskForm(
    name="guarded-talks",
    description="the requests of guarded under feedback, with lessons, e.g. guarded-talks?forbidden=0.5&alarming=0.25",
    make=from_settings,
)


WALTZRL = GRPO.but(
    name="waltzrl",
    title="WaltzRL: conversation and feedback agents trained together",
    source="Zhang et al., The Alignment Waltz, arXiv:2510.08240",
    family="teams",
    catalogue_ids=("waltzrl",),
    axes=("team", "reward"),
    formula="R_f = a (R_c(y_{t+1}) - R_c(y_t)) + b [both labels right] + c [well formed];  R_c(y) for each answer y",
    conventions={
        **GRPO.conventions,
        "labels": "unsafe and needless, as words in the feedback; neither lets the answer pass",
        "R_c": "the task's verdict on an answer: 1 iff neither unsafe nor refused without need",
        "weights": "a = 1, b = 0.5, c = 0.1, chosen here; workflow settings improvement, label, form",
        "an answer that is passed": "y_{t+1} = y_t, so its feedback improves nothing",
        "credit": "reward of the turn alone, against the same agent's turns at that place in the scenario's samples",
        "stages": "feedback alone for cast.first = 20 steps, then both",
        "role weights": "one policy each",
    },
    task="guarded-talks",
    requires=(Requirement.AGENTS, Requirement.TURN_REWARDS),
    workflow="feedback",
    cast=Alternating(first=20, order=("feedback", "conversation"), together=True),
    credit=TurnRelative(by=GroupBy("scenario", "agent", "turn_index"), baseline="mean", scale="std", gamma=0.0),
)
