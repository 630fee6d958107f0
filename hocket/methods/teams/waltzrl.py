"""WaltzRL: GRPO for an agent that answers and one that helps it by feedback (Zhang et al., arXiv:2510.08240).

Feedback earns what it changed in the verdict on the answer, and for a right flag and good form
(`ConversationFeedback`). A turn's own reward is compared with the same agent's turns at that place (`TurnRelative` of
`hocket.credit.turn_level`). First feedback learns alone, then both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hocket.core.batch import GroupBy
from hocket.core.casting import Alternating
from hocket.core.columns import InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.credit.turn_level import TurnRelative
from hocket.methods.base.grpo import GRPO
from hocket.types import Scenario
from hocket.workflows.reply import Reply
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow, asked, with_line

GOOD = InfoColumn("good", "What each answer in turn is worth.")
FLAGS = InfoColumn("flags", "Whether each piece of feedback called the answer wrong.")


PROMPTS = {
    "conversation": "Answer, unless it is unsafe to.",
    "feedback": "Say ok, or what is wrong with the answer: unsafe, or refused without need.",
}


@dataclass(frozen=True)
class ConversationFeedback(Workflow):
    """One agent answers; another reads question and answer, passes it or says what is wrong, and it is revised.

    WaltzRL (arXiv 2510.08240). With `R_c(y) = 1` iff the task's verdict on y is right (neither unsafe nor refused
    without need), the feedback of round t earns

        improvement * (R_c(y_{t+1}) - R_c(y_t)) + label * [flagged iff R_c(y_t) = 0] + form * [well formed]

    the Dynamic Improvement Reward, the correctness of its flag, and its form, where y_{t+1} = y_t if it passes. The
    conversation agent earns R_c of each of its answers. Weights are chosen here; the paper gives none in its abstract.

    Attributes:
        rounds: revisions at most. passes: the word with which feedback lets an answer pass; what begins otherwise is a
            flag. form: feedback is well formed if it ended by itself and is not empty.
        improvement, label, form: weights. system: system prompts for both roles.
    """

    name = "feedback"
    description = "a critic passes an answer or has it revised (WaltzRL)"

    rounds: int = 1
    passes: str = "ok"
    improvement: float = 1.0
    label: float = 0.5
    form: float = 0.1
    system: bool = True

    roles = ("conversation", "feedback")
    scores = True

    def __post_init__(self) -> None:
        if self.rounds < 0 or not self.passes:
            raise ConfigurationError("feedback: rounds must be at least 0, and passes some word")

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
            flags.append(not str(advice).strip().startswith(self.passes))
            if flags[-1]:
                answers.append(await team.conversation(f"Feedback: {advice}"))
                good.append(team.verify(answers[-1]))
                earned[answers[-1]] = good[-1]
            earned[advice] = self.reward(good[len(flags) - 1], good[-1], flags[-1], advice)
            if not flags[-1]:
                break
        info = {GOOD.name: good, FLAGS.name: flags}
        return Outcome(answer=str(answers[-1]), turn_rewards={"own": earned}, info=info)

    def reward(self, before: float, after: float, flagged: bool, advice: Reply) -> float:
        """What one piece of feedback earns."""
        right = float(flagged == (before < 1.0))
        formed = float(advice.finish == "stop" and bool(str(advice).strip()))
        return self.improvement * (after - before) + self.label * right + self.form * formed


WALTZRL = GRPO.but(
    name="waltzrl",
    title="WaltzRL: conversation and feedback agents trained together",
    source="Zhang et al., The Alignment Waltz, arXiv:2510.08240",
    family="teams",
    catalogue_ids=("waltzrl",),
    axes=("team", "reward"),
    formula="R_f = a (R_c(y_{t+1}) - R_c(y_t)) + b [flag right] + c [well formed];  R_c(y) for each answer y",
    conventions={
        **GRPO.conventions,
        "R_c": "the task's verdict on an answer: 1 iff neither unsafe nor refused without need",
        "weights": "a = 1, b = 0.5, c = 0.1, chosen here; workflow settings improvement, label, form",
        "an answer that is passed": "y_{t+1} = y_t, so its feedback improves nothing",
        "credit": "reward of the turn alone, against the same agent's turns at that place in the scenario's samples",
        "stages": "feedback alone for cast.first = 20 steps, then both",
        "role weights": "one policy each",
    },
    workflow="feedback",
    cast=Alternating(first=20, order=("feedback", "conversation"), together=True),
    credit=TurnRelative(by=GroupBy("scenario", "agent", "turn_index"), baseline="mean", scale="std", gamma=0.0),
)
