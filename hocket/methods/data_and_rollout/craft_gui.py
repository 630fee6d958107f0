"""CRAFT-GUI: an agent on screens learns short, plain tasks first, by a graded reward (Nong et al., arXiv:2508.11360).

Tasks are put in stages by how hard their recorded trajectories are, by length and kinds of actions, and the stages are
trained in turn (`DifficultyStages`). A move is graded by its form, its kind and its arguments (`GradedMoves`), and what
was understood of a page by a judge, or by rule (`Understood`). Of the paper the abstract was at hand: the rule of the
stages and all weights are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.core.columns import ACTIONS
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.curriculum.difficulty_stages import Staged
from hocket.methods.base.grpo import GRPO
from hocket.rewards.judging import JudgedBy
from hocket.rewards.moves import PLAN, argument_match, attempts, made, parsed
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

COSTS: Mapping[str, float] = {"click": 1.0, "type": 2.0, "say": 2.0}
"""What a move adds to the difficulty, by its first word."""


def difficulty(plan: Sequence[str], costs: Mapping[str, float] = COSTS) -> float:
    """The sum over moves of what their kind costs, 1 for a kind that is not named: longer is harder, so is typing."""
    return sum(costs.get(move.partition(" ")[0], 1.0) for move in plan)


@dataclass(frozen=True)
class DifficultyStages(Staged):
    """A pool of tasks in stages by the difficulty of their recorded moves: CRAFT-GUI (arXiv 2508.11360)."""

    reads_metadata: ClassVar[frozenset[str]] = frozenset({PLAN})

    def difficulty(self, scenario: Scenario) -> float:
        return difficulty(scenario.metadata[PLAN])


@dataclass(frozen=True)
class GradedMoves(Reward):
    """The mean over a recorded plan's moves of the best grade that was earned while each was wanted: CRAFT-GUI.

    A move earns `form` where it can be read, `kind` besides where it is of the wanted kind, and then `arguments` times
    the share of its arguments that are right. The wanted move earns their sum, what was never tried 0. Trying again
    adds nothing by itself, so that it never pays to put off what is wanted.
    """

    form: float = 0.1
    kind: float = 0.3
    arguments: float = 0.6
    name: str = "grade"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    reads_metadata: ClassVar[frozenset[str]] = frozenset({PLAN})

    def __post_init__(self) -> None:
        if min(self.form, self.kind, self.arguments) < 0:
            raise ValueError(
                f"form, kind and arguments must be at least 0, not {self.form}, {self.kind} and {self.arguments}"
            )

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [self.graded(ACTIONS.get(one, []), one.scenario.metadata[PLAN]) for one in trajectories]

    def graded(self, actions: Sequence[str | None], plan: Sequence[str]) -> float:
        """The grade of an episode."""
        tried = zip(attempts(actions, plan), plan, strict=True)
        best = (max((self.grade(move, wanted) for move in moves), default=0.0) for moves, wanted in tried)
        return math.fsum(best) / len(plan)

    def grade(self, move: str | None, wanted: str) -> float:
        """The grade of a move."""
        if made(move, wanted):
            return self.form + self.kind + self.arguments
        said, due = parsed(move), parsed(wanted)
        if said is None or due is None:
            return 0.0
        return self.form + (self.kind + self.arguments * argument_match(said, due)) * (said[0] == due[0])


@dataclass(frozen=True)
class Understood(Reward):
    """The share of what the plan says aloud that was said so; no opinion where it says nothing.

    What stands for a judge of how a page was understood where a run has none.
    """

    name: str = "understood"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    reads_metadata: ClassVar[frozenset[str]] = frozenset({PLAN})

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.share(ACTIONS.get(one, []), one.scenario.metadata[PLAN]) for one in trajectories]

    def share(self, actions: Sequence[str | None], plan: Sequence[str]) -> float | None:
        """The share in an episode."""
        tried = zip(attempts(actions, plan), plan, strict=True)
        said = [any(made(move, wanted) for move in moves) for moves, wanted in tried if wanted.startswith("say ")]
        return sum(said) / len(said) if said else None


ASK = (
    "An agent was shown a page and asked to do what its first line says. Here are the page and the agent's last reply. "
    "Does the reply show that the page was understood?\n\nPage:\n{prompt}\n\nReply:\n{text}\n"
)

CRAFT_GUI = GRPO.but(
    name="craft-gui",
    title="CRAFT-GUI: stages by difficulty and graded rewards for agents on screens",
    source="Nong et al., CRAFT-GUI, arXiv:2508.11360 (abstract)",
    family="data-and-rollout",
    catalogue_ids=("craft-gui",),
    axes=("data", "reward", "policy"),
    formula="R = [done] + 1/K sum_k max (0.1 [form] + [kind] (0.3 + 0.6 arguments)) + 0.2 understood, the best move "
    "while the k-th of K was wanted;  "
    "stage(task) = its third by d = sum over its K moves of the cost of their kind",
    conventions={
        **GRPO.conventions,
        "difficulty": "1 for a click, 2 for typing or saying, summed over the recorded moves; ours",
        "stages": "thirds of all of a finite task and of 256 of an endless one (curriculum.pool), 160 scenarios each, "
        "then all; reviews of the paper name stages of 1 to 3, 4 to 8 and more moves",
        "weights": "form 0.1, kind 0.3, arguments 0.6 of a move; 1 for all done; 0.2 for what was understood; ours",
        "judge": "--judge; by rule the share of things to be said that were said",
        "recorded moves": "the scenario's metadata `plan`",
        "screens": "what the agent is shown is text here",
    },
    note="on pages in words the staged order takes fewer rollouts than a uniform mix where success alone is paid; with "
    "the graded reward it takes as many, of fewer moves; pictures of screens are not read",
    task="screens",
    requires=(Requirement.TURNS,),
    curriculum=DifficultyStages(),
    rewards=(GradedMoves(), JudgedBy(Understood(), ASK, name="understood", weight=0.2)),
)
