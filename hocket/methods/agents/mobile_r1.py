"""Mobile-R1: an agent on screens learns single moves first, then whole tasks (Gu et al., arXiv:2506.20332).

After a supervised start, the first stage of GRPO asks for one move of a recorded trajectory at a time (`RecordedSteps`)
and pays the recorded move and the form, 1 each. The second plays tasks to their end and pays one verdict on the whole,
a judge's where the run has one, and the form of all moves, so that the agent may go wrong and learns to come back.
Rewards are as reviews of the paper give them. They are the recipes `mobile-r1-steps` and `mobile-r1` of a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import ClassVar

from hocket.core.columns import ACTIONS, RETURNS
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.curriculum.random_order import Shuffled
from hocket.methods.base.grpo import GRPO
from hocket.rewards.combine import WeightedSum
from hocket.rewards.judging import JudgedBy, prompt_text
from hocket.rewards.moves import PLAN, made, parsed
from hocket.stages import Curriculum, LedgerView, Reward, Task
from hocket.types import Scenario, Trajectory

STEP = "step"
"""The metadata that make an excerpt of a scenario: how many recorded moves are made before the one that is asked."""


@dataclass(frozen=True)
class RecordedSteps(Curriculum):
    """Scenarios as `Shuffled` gives them, each cut to one of its recorded moves, drawn evenly.

    The excerpt's metadata say which (`step`, from 0) and hold that move alone as `plan`. The task's world must know
    excerpts, as `screens` does: it opens after the moves before, and ends after one.
    """

    prompts: int = 16

    reads_metadata: ClassVar[frozenset[str]] = frozenset({PLAN})

    def __post_init__(self) -> None:
        Shuffled(self.prompts)

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        plain = Shuffled(self.prompts)(task, asked, count, ledger, key)
        return [cut(one, key.derive("step", asked + number)) for number, one in enumerate(plain)]


def cut(scenario: Scenario, key: Key) -> Scenario:
    """One recorded move of a scenario."""
    plan = scenario.metadata[PLAN]
    step = key.word % len(plan)
    told = {**scenario.metadata, STEP: step, PLAN: (plan[step],)}
    return replace(scenario, id=f"{scenario.id}/{step}", metadata=told, origin=scenario.id)


@dataclass(frozen=True)
class RightMove(Reward):
    """1 where the first move is the first that was recorded, kind and arguments, else 0."""

    name: str = "right"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    reads_metadata: ClassVar[frozenset[str]] = frozenset({PLAN})

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [float(made(_moves(one)[0], one.scenario.metadata[PLAN][0])) for one in trajectories]


@dataclass(frozen=True)
class Readable(Reward):
    """The share of an episode's moves whose form can be read."""

    name: str = "form"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [fmean(parsed(move) is not None for move in _moves(one)) for one in trajectories]


@dataclass(frozen=True)
class Finished(Reward):
    """1 where the world's own rewards of the episode reach 1, else 0."""

    name: str = "finished"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [float(sum(RETURNS.get(one, {}).values()) >= 1.0) for one in trajectories]


@dataclass(frozen=True)
class JudgedEpisode(JudgedBy):
    """The judge's opinion of all moves of an episode, and else that of `rule`."""

    def question(self, trajectory: Trajectory) -> str:
        moves = "\n".join("nothing" if move is None else move for move in _moves(trajectory))
        return self.ask.format(prompt=prompt_text(trajectory.scenario), text=moves, answer=trajectory.scenario.answer)


def _moves(trajectory: Trajectory) -> list[str | None]:
    """What was done, one move at least."""
    return list(ACTIONS.get(trajectory, [])) or [None]


ASK = (
    "An agent was shown a page and asked to do what its first line says. Here are the page as it was at first and all "
    "that the agent did. Is the whole task done?\n\nPage:\n{prompt}\n\nMoves:\n{text}\n"
)

MOBILE_R1_STEPS = GRPO.but(
    name="mobile-r1-steps",
    title="Mobile-R1, single moves: paid for each move alone",
    source="Gu et al., Mobile-R1, arXiv:2506.20332",
    family="agents",
    catalogue_ids=("mobile-r1",),
    axes=("reward", "data", "policy"),
    formula=f"R = [the recorded move] + [its form can be read], of one move;  {GRPO.formula}",
    conventions={
        **GRPO.conventions,
        "stages": "a plan: the task's lessons, then mobile-r1-steps, then mobile-r1",
        "recorded moves": "the scenario's metadata `plan`; one of them is drawn for each scenario",
        "form": "a click, words typed or words said; the paper's has a thought and a summary besides",
        "world's reward": "left out (combine.weights): its verdict is the rule of `finished`",
        "screens": "what the agent is shown is text here",
    },
    task="screens?strays=true&slip=0.2&spare=4",
    curriculum=RecordedSteps(),
    combine=WeightedSum({"reward": 0.0}),
    rewards=(RightMove(), Readable()),
)

MOBILE_R1 = MOBILE_R1_STEPS.but(
    name="mobile-r1",
    title="Mobile-R1, whole tasks: one verdict at the end, and the form of all moves",
    formula=f"R = [the task is done, says the judge] + mean_t [the form of move t can be read];  {GRPO.formula}",
    conventions={
        **MOBILE_R1_STEPS.conventions,
        "judge": "--judge; by rule the world's own verdict",
        "errors": "the world's (slip) besides the agent's: without slips, on tables, whole tasks taught no way back "
        "to an agent that single moves had made sure",
    },
    requires=(Requirement.TURNS,),
    curriculum=Shuffled(),
    rewards=(JudgedEpisode(Finished(), ASK, name="finished"), Readable()),
)
