"""CPMobius: a coach invents the problems by which a player learns, without labelled training data (arXiv:2602.02979).

The player learns by GRPO from agreement among its own answers (`CoachPlayer`, `unique_majority`) on problems it solves
some of the time (`WithinBand`); the coach is paid what the player's accuracy on held-out problems gained
(`LearningProgress`), which is known only after the player's update.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.batch import GroupBy
from hocket.core.casting import Separate
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.credit.reinforce import ReturnToGo
from hocket.credit.turn_level import TurnRelative
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.cpmobius.deferred import DeferredReward
from hocket.methods.teams.cpmobius.per_role import Apart
from hocket.objectives.divergence import KLToReference
from hocket.stages import Curriculum, Grade, LedgerView, More, Play, Rollout, Split, State, Task
from hocket.types import Assignment, Experience, Scenario, Trajectory

INVENT = "invent"
"""The entry of `Scenario.metadata` that asks a workflow to have a problem written."""


INSTRUCTION = "Write one problem, neither too easy nor too hard, that has a single short answer. Write nothing else."


@dataclass(frozen=True)
class Invented(Curriculum):
    """`prompts` scenarios per step that ask for a problem in the same words; nothing of the task is shown.

    CPMobius (arXiv 2602.02979). The task's `eval` split still measures.
    """

    prompts: int = 8
    instruction: str = INSTRUCTION
    needs_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.prompts < 1 or not self.instruction:
            raise ValueError("prompts must be at least 1, and instruction some words")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        return [
            Scenario(f"invented {place}", self.instruction, metadata={INVENT: True})
            for place in range(asked, asked + count)
        ]


@dataclass(frozen=True)
class WithinBand(Rollout):
    """Keeps the episodes whose `share` of good attempts lies in [low, high], and asks on until the batch is full.

    CPMobius (arXiv 2602.02979 and the authors' code): every episode is a problem and several attempts at it; the
    workflow says in the column `share` how many of them were rewarded. Missing episodes are asked from the curriculum,
    or afresh of the same scenarios where that gives none. After `max_rounds` a step goes on with what it has (the code
    asks on); with nothing at all, with the episodes first asked, unless it may be `empty`. Episodes without a share are
    kept.

    Attributes:
        samples: episodes per scenario. low, high: the band, both ends included. column: in the episode's info.
        empty: a step may keep none.
    """

    samples: int = 1
    low: float = 0.2
    high: float = 0.8
    max_rounds: int = 4
    column: str = "share"
    empty: bool = False

    def __post_init__(self) -> None:
        if self.samples < 1 or self.max_rounds < 1:
            raise ValueError(f"samples and max_rounds must be at least 1, not {self.samples} and {self.max_rounds}")
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"low and high must be shares in order, not {self.low} and {self.high}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """As many episodes as were asked; metrics count rounds and the share that was kept."""
        wanted = self.samples * len(asked)
        kept: list[Trajectory] = []
        rest: list[Trajectory] = []
        drawn: Counter[str] = Counter()
        pending, rounds = list(asked), 0
        while pending and rounds < self.max_rounds and len(kept) < wanted:
            rounds += 1
            played = await self._played(pending, drawn, play)
            for one in played:
                (kept if self._fits(one) else rest).append(one)
            missing = -(-(wanted - len(kept)) // self.samples)
            if missing > 0 and rounds < self.max_rounds:
                pending = list(more(missing)) if more is not None else pending[:missing]
        share = len(kept) / max(1, len(kept) + len(rest))
        if not kept and not self.empty:
            kept, rest = rest, []
        chosen, left = kept[:wanted], [*kept[wanted:], *rest]
        await score([*chosen, *left])
        return Experience(chosen, left, {"rollout/rounds": float(rounds), "rollout/kept": share})

    async def _played(self, pending: Sequence[Assignment], drawn: Counter[str], play: Play) -> list[Trajectory]:
        """The episodes of each assignment, numbered on from those drawn before."""
        assignments = []
        for asking in pending:
            first = asking.first + drawn[asking.scenario.id]
            assignments.append(replace(asking, samples=self.samples, first=first))
            drawn[asking.scenario.id] += self.samples
        return list(await play(assignments))

    def _fits(self, trajectory: Trajectory) -> bool:
        share = trajectory.info.get(self.column)
        return trajectory.failure is None and (share is None or self.low <= share <= self.high)


SHARE = InfoColumn("share", "The share of attempts that were right.")
PROBLEM = InfoColumn("problem", "The problem that the coach set.")


def unique_majority(answers: Sequence[str | None]) -> list[float]:
    """1 for the most frequent answer if there is only one such, else -1; -1 for every tied or missing answer."""
    counts = Counter(answer for answer in answers if answer is not None)
    most = max(counts.values(), default=0)
    winners = {answer for answer, count in counts.items() if count == most}
    return [1.0 if answer in winners and len(winners) == 1 else -1.0 for answer in answers]


@dataclass(frozen=True)
class CoachPlayer(Workflow):
    """The coach writes a problem and the player solves it `solutions` times afresh: CPMobius (arXiv 2602.02979).

    Scenarios that ask for a problem (`hocket.curriculum.Invented`) are played so; any other the player answers once,
    which is how evaluation sees it. The player earns `unique_majority` of its answers, without a label; the column
    `share` is the share of attempts that earned 1. The coach earns nothing here (`hocket.rewards.LearningProgress` pays
    it once the player has learnt), or with `adversarial` at once 1 - share, how often the player failed.

    Subclass it for problems that are not the coach's own words: `problem` makes one of what it said, `attempt` asks
    the player.

    Attributes:
        alike: the coach draws alike in all samples of a scenario, so that these share one choice of the coach.
    """

    name = "coach-player"
    description = "one writes problems from which another learns (CPMobius)"

    solutions: int = 16
    alike: bool = False
    adversarial: bool = False

    roles = ("coach", "player")
    scores = True

    def __post_init__(self) -> None:
        if self.solutions < 2:
            raise ValueError(f"solutions must be at least 2, not {self.solutions}")

    def problem(self, said: str, team: Team) -> str:
        """The problem that the coach means; draws come from `team.key`."""
        return said

    def attempt(self, problem: str, team: Team) -> Coroutine[Any, Any, Reply]:
        """One solution, in a conversation of its own."""
        return team.player.fresh()(problem, state=problem)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        if not scenario.metadata.get(INVENT):
            answer = await team.player(asked(team.assignment))
            return Outcome(answer=str(answer))
        coach = team.coach.fresh(alike=True) if self.alike else team.coach
        said = await coach(asked(team.assignment))
        problem = self.problem(str(said), team)
        attempts = await asyncio.gather(*(self.attempt(problem, team) for _ in range(self.solutions)))
        rewards = unique_majority([team.label(one) for one in attempts])
        share = sum(reward > 0 for reward in rewards) / len(rewards)
        earned: dict[Reply, float] = dict(zip(attempts, rewards, strict=True))
        if self.adversarial:
            earned[said] = 1 - share
        return Outcome(
            answer=str(attempts[0]), turn_rewards={"own": earned}, info={SHARE.name: share, PROBLEM.name: problem}
        )


@dataclass(frozen=True)
class LearningProgress(DeferredReward):
    """`r = scale (accuracy after - accuracy before)`, for `policy` alone: what its turns taught the others.

    CPMobius (arXiv 2602.02979, and the authors' code): the Coach is paid for its whole batch with what the Player
    gained on labelled problems held out, here the first `problems` of the task's `train` split, answered greedily:
    nobody trains on that, the problems being the Coach's, and `eval` is for what measures the run itself. While
    trajectories are scored it has no opinion; it is settled once the others have learnt, and `policy` learns
    then. With a reward of exactly 0 `policy` does not learn in that step.

    Attributes:
        policy: whose turns are paid. problems: measured on, at every step. split: of the task, whose problems they
            are. scale: of the change.
        momentum: the running mean of the progress of earlier steps is taken off (a step counts this much less than the
            next one), so that less progress than usual is bad; the first step only sets it. None, as in the paper,
            takes nothing off.
    """

    policy: str = "coach"
    problems: int = 40
    scale: float = 100.0
    momentum: float | None = None
    split: Split = "train"
    name: str = "progress"
    weight: float = 1.0

    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.problems < 1:
            raise ValueError(f"problems must be at least 1, not {self.problems}")
        if self.momentum is not None and not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1) or be null, not {self.momentum}")

    def settled(self, before: float, after: float, state: State) -> tuple[float | None, State]:
        """The reward of a step, None for none, and the memory of the running mean (empty at first)."""
        gained = self.scale * (after - before)
        if self.momentum is None:
            return gained or None, state
        total, weight = state.get("sum", 0.0), state.get("weight", 0.0)
        reward = gained - total / weight if weight else 0.0
        keep, add = self.momentum, 1 - self.momentum
        return reward or None, {"sum": keep * total + add * gained, "weight": keep * weight + add}


CPMOBIUS = GRPO.but(
    name="cpmobius",
    title="CPMobius: Coach and Player without data",
    source="Li et al., arXiv:2602.02979, and the authors' code",
    family="teams",
    catalogue_ids=("cpmobius",),
    axes=("team", "data", "reward"),
    formula="Player: GRPO on r = +1 for the one most frequent of n answers, else -1;  "
    "Coach: A = 100 (accuracy after - accuracy before the Player's update) on every problem of the batch",
    conventions={
        **GRPO.conventions,
        "labels": "only of the first 40 problems of the task's train split, which nobody trains on, answered greedily "
        "(rewards.0.problems, rewards.0.split); the eval split measures the run",
        "batch": "8 problems of 16 solutions each; 256 in the code",
        "band": "0.2 to 0.8 of the solutions rewarded; asked for 4 times at most, then with what there is, never empty",
        "ties, no answer": "-1",
        "Coach": "no baseline, as a group of one has none; on tables it needs rewards.0.momentum, a running mean, "
        "and an entropy bonus to beat a uniform Coach",
        "no progress": "the Coach is not updated where the change is exactly 0",
        "KL": "k3 in the loss, coefficient 0.001; the code's entropy bonus for the Coach, 0.01, is left out",
        "role weights": "one policy each",
    },
    note="without a baseline, as the paper has it, the Coach does not beat a uniform one on tables; there it takes "
    "rewards.0.momentum and an entropy bonus; one step of the shipped base model seldom changes its accuracy on 40 "
    "problems, and then the Coach does not learn",
    requires=(Requirement.AGENTS, Requirement.TURN_REWARDS),
    workflow="coach-player",
    cast=Separate(),
    curriculum=Invented(prompts=8),
    rollout=WithinBand(samples=1, low=0.2, high=0.8),
    rewards=(LearningProgress(),),
    credit=Apart(
        role="coach",
        own=ReturnToGo(),
        credit=TurnRelative(by=GroupBy("scenario", "agent", "state"), baseline="mean", scale="std", gamma=0.0),
    ),
    regularisers=(KLToReference("k3", coefficient=0.001, aggregate="sequence-mean"),),
)
