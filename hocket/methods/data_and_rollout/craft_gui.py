"""CRAFT-GUI: an agent on screens learns short, plain tasks first, by a graded reward (Nong et al., arXiv:2508.11360).

Tasks are put in stages by how hard their recorded trajectories are, by length and kinds of actions, and the stages are
trained in turn (`DifficultyStages`). A move is graded by its form, its kind and its arguments (`GradedMoves`), and what
was understood of a page by a judge, or by rule (`Understood`). Of the paper the abstract was at hand: the rule of the
stages and all weights are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from hocket.core.columns import ACTIONS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.curriculum.weighted import Members
from hocket.methods.base.grpo import GRPO
from hocket.rewards.judging import JudgedBy
from hocket.rewards.moves import PLAN, argument_match, attempts, made, parsed
from hocket.stages import Curriculum, LedgerView, Reward, Task
from hocket.types import Scenario, Trajectory

COSTS: Mapping[str, float] = {"click": 1.0, "type": 2.0, "say": 2.0}
"""What a move adds to the difficulty, by its first word."""


def difficulty(plan: Sequence[str], costs: Mapping[str, float] = COSTS) -> float:
    """The sum over moves of what their kind costs, 1 for a kind that is not named: longer is harder, so is typing."""
    return sum(costs.get(move.partition(" ")[0], 1.0) for move in plan)


def stages_of(difficulties: Sequence[float], count: int) -> list[int]:
    """The stage of each task, 0 to `count - 1`: in order of difficulty, as many to each stage as can be.

    Monotone: what is easier is in no later stage. Equals keep their order.
    """
    order = sorted(range(len(difficulties)), key=lambda place: (difficulties[place], place))
    found = [0] * len(order)
    for rank, place in enumerate(order):
        found[place] = rank * count // len(order)
    return found


@dataclass(frozen=True)
class DifficultyStages(Curriculum):
    """A pool of tasks in stages by difficulty, trained in turn: CRAFT-GUI (arXiv 2508.11360).

    Each stage but the last lasts `per_stage` scenarios, drawn in passes over its tasks; the last, for the rest of the
    run, is followed by nothing, and asks all tasks of the pool.

    Attributes:
        prompts: scenarios per step. stages: how many, the last of all tasks not counted. per_stage: scenarios of each.
        pool: how many tasks take part, those of `Shuffled`'s first pass; all of a smaller task.
        order: `staged`, or `shuffled`: all tasks from the start, the comparison of the paper.
    """

    prompts: int = 16
    stages: int = 3
    per_stage: int = 160
    pool: int = 256
    order: Literal["staged", "shuffled"] = "staged"
    _found: _Sorted = field(default_factory=lambda: _Sorted(), init=False, repr=False, compare=False)

    reads_metadata: ClassVar[frozenset[str]] = frozenset({PLAN})

    def __post_init__(self) -> None:
        if min(self.prompts, self.stages, self.per_stage, self.pool) < 1:
            raise ValueError(
                f"prompts, stages, per_stage and pool must be at least 1, not {self.prompts}, {self.stages}, "
                f"{self.per_stage} and {self.pool}"
            )
        if self.order not in ("staged", "shuffled"):
            raise ValueError(f"order must be staged or shuffled, not {self.order!r}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        members = Members(task, self.pool, ledger, key)
        stages = self._found.of(members, self.stages)
        return [members[self._place(stages, asked + number, key)] for number in range(count)]

    def stage_at(self, position: int) -> int | None:
        """The stage of the scenario at `position` of the run; None where all tasks are asked."""
        stage = position // self.per_stage
        return stage if self.order == "staged" and stage < self.stages else None

    def _place(self, stages: Sequence[int], position: int, key: Key) -> int:
        stage = self.stage_at(position)
        among = [place for place, own in enumerate(stages) if stage is None or own == stage]
        begun = 0 if self.order == "shuffled" else min(position // self.per_stage, self.stages) * self.per_stage
        turn, place = divmod(position - begun, len(among))
        order = key.derive("stage", -1 if stage is None else stage, turn).numpy().permutation(len(among))
        return among[int(order[place])]


class _Sorted:
    """The stages of a pool's tasks, which take long to make and never change; copies begin anew."""

    def __init__(self) -> None:
        self._members: Members | None = None
        self._stages: list[int] = []

    def __reduce__(self) -> tuple[type[_Sorted], tuple[()]]:
        return _Sorted, ()

    def of(self, members: Members, count: int) -> list[int]:
        """Theirs, by place.

        Raises:
            ConfigurationError: for more stages than tasks.
        """
        old = self._members
        if count > members.size:
            raise ConfigurationError(
                f"curriculum: {members.size} tasks make no {count} stages; set curriculum.stages to {members.size} or "
                "less"
            )
        if old is None or old.task is not members.task or (old.size, old.key) != (members.size, members.key):
            plans = [members[place].metadata[PLAN] for place in range(members.size)]
            self._members, self._stages = members, stages_of([difficulty(plan) for plan in plans], count)
        return self._stages


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
        "stages": "thirds of a pool of 256 (curriculum.pool), 160 scenarios each, then all; reviews of the paper name "
        "stages of 1 to 3, 4 to 8 and more moves",
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
