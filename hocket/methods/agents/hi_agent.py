"""Hi-Agent: subgoals compared at one and the same screen, by what comes of them (Wu et al., arXiv:2510.14388).

A planner names the next subgoal, an actor carries it out as one move. So an episode is a row of one-move problems, and
GRPO compares G subgoals for one situation instead of G whole episodes: samples grow with the number of moves, not with
the number of ways through it. The foresight advantage of a subgoal is its reward less that of the others, in their
deviations, and the reward is what the actor makes of it: the feedback on the moves that it tries (`Subgoals`). The
actor's moves for one subgoal are a group of their own, so both levels learn from every step, without a critic.

Rollout and credit are those of AT-GRPO, whose groups are answers to one identical prompt. From the paper's abstract are
the levels, the one-move problems and feedback from execution; the mix of feedback, form and a judge's opinion, and the
states that are visited, are chosen here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from hocket.agents.environments.protocol import Environment, Observation, same_move
from hocket.agents.workflows.environment import SEATS, PlayEnvironment
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.core import sums
from hocket.core.casting import Separate
from hocket.core.columns import ILLEGAL, LIMIT, RETURNS
from hocket.core.components import load_named
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.methods.teams.at_grpo import AT_GRPO
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.nested_task import NestedTask, found_within, turn_by_turn
from hocket.types import Message, Scenario
from hocket.zoo.household import Household, plan
from hocket.zoo.maze import Maze

PLANNER_SYSTEM = "You see a situation. Name the next subgoal in one line."
ACTOR_SYSTEM = "You see a situation and a subgoal. Make the one move that serves it."

LONGEST = 80
"""Characters of a subgoal; what is longer is cut."""


def remaining(environment: Environment) -> int:
    """The fewest moves to the end of an episode: of a maze, of a household, or what an attribute `remaining` says.

    Raises:
        ConfigurationError: where the world does not know.
    """
    if isinstance(environment, Maze):
        return environment.layout.distances[environment.cell]
    if isinstance(environment, Household):
        return len(plan(environment.house, environment.now))
    found = getattr(environment, "remaining", None)
    if not isinstance(found, int):
        raise ConfigurationError(
            f"{type(environment).__name__} does not say how many moves remain, so progress cannot be told; set "
            "feedback=reward, or give it an attribute `remaining`"
        )
    return found


def subgoal_in(reply: str) -> str:
    """The first line of a reply that is not empty, cut to `LONGEST` characters."""
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    return lines[0][:LONGEST] if lines else ""


def formed(reply: str) -> bool:
    """Whether a reply is one subgoal: one line, not too long."""
    return reply.strip() == subgoal_in(reply) != ""


class Tried(NamedTuple):
    """What came of a subgoal: the episode after the move that was taken, what it earned, and the mean feedback."""

    then: Environment
    earned: float
    worth: float


@dataclass(frozen=True)
class Subgoals(PlayEnvironment):
    """An environment of one seat, played by two roles: the planner names a subgoal, the actor makes one move for it.

    Both are asked for candidates. A move is worth its feedback and `form` if it is legal. A subgoal is worth the mean
    feedback of the moves that the actor tried for it, each on a copy of the environment; `form` if it is one line; and
    what the `judge` thinks. The episode goes on with the move taken for the subgoal taken. What the actor tried for
    another one stays in the episode as a turn that is learnt from and not carried out.

    Everybody sees the whole observation anew, so that equal situations are equal prompts.

    Attributes:
        feedback: `progress`, 1 for a move after which fewer moves remain and 0 for any other, or the `reward` that the
            environment paid. form: see above.
        judge: `FILE.py:FUNCTION` of observation and subgoal, both text, which returns a number; it may be async.
        lead: what stands before the subgoal that the actor is told.
    """

    feedback: Literal["progress", "reward"] = "progress"
    form: float = 0.1
    judge: Callable[[str, str], Any] | str | None = None
    lead: str = "Subgoal:"
    _opinion: Callable[[str, str], Any] | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.world.agents) != 1:
            raise ConfigurationError(f"subgoals are for worlds of one seat; {self.world.name} has several")
        if self.memory:
            raise ConfigurationError("subgoals need memory=false: turns are compared where they were told the same")
        if self.feedback not in ("progress", "reward"):
            raise ConfigurationError(f"feedback must be progress or reward, not {self.feedback!r}")
        if self.judge is not None:
            found = load_named(self.judge, "judge") if isinstance(self.judge, str) else self.judge
            object.__setattr__(self, "_opinion", found)
        object.__setattr__(self, "roles", ("planner", "actor"))
        # A move takes one question to the planner and, while learning, one to the actor for every subgoal.
        object.__setattr__(self, "limits", Limits(turns=None))

    @property
    def prompts(self) -> Mapping[str, str]:
        return {"planner": PLANNER_SYSTEM, "actor": ACTOR_SYSTEM}

    def situation(self, seen: Observation) -> str:
        """What the planner is told."""
        return seen.told()

    def order(self, seen: Observation, subgoal: str) -> str:
        """What the actor is told."""
        return f"{self.question(seen, True)}\n{self.lead} {subgoal}"

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        (seat,) = self.world.agents
        key = team.key if self.own_chance else Key.of(scenario.seed)
        environment = self.world.make(scenario)
        environment.reset(key.derive("environment"))
        total, moves = 0.0, 0
        while environment.acting and (self.turns is None or moves < self.turns):
            environment, earned = await self._moved(environment, team)
            total, moves = total + earned, moves + 1
        info: dict[str, Any] = {
            SEATS.name: [seat],
            RETURNS.name: {seat: total},
            ILLEGAL.name: {seat: environment.illegal.get(seat, 0)},
        }
        if environment.acting or environment.truncated:
            info[LIMIT.name] = f"the episode has used its {moves} moves"
        return Outcome(rewards={"reward": total}, info=info)

    async def _moved(self, environment: Environment, team: Team) -> tuple[Environment, float]:
        """The episode after one move, and what it earned."""
        seen = environment.observe(self.world.agents[0])
        known: dict[int, Tried] = {}

        async def foresight(subgoal: Reply) -> Mapping[str, float]:
            tried = known[id(subgoal.turn)] = await self._tried(environment, seen, subgoal, team)
            opinion = await self._judged(seen, subgoal)
            return {"team": tried.worth, "form": self.form * formed(str(subgoal)), "judge": opinion}

        subgoal = await team.planner.fresh().candidates(self.situation(seen), score=foresight, state=seen.state)
        tried = known.get(id(subgoal.turn)) or await self._tried(environment, seen, subgoal, team)
        return tried.then, tried.earned

    async def _tried(self, environment: Environment, seen: Observation, subgoal: Reply, team: Team) -> Tried:
        """What the actor makes of a subgoal, on copies."""
        made: dict[int, Tried] = {}

        def worth(reply: Reply) -> Mapping[str, float]:
            move = self.read(str(reply), seen)
            one = made[id(reply.turn)] = self._made(environment, move)
            return {"team": one.worth, "form": self.form * (same_move(move, seen.actions or (move,)) is not None)}

        told = self.order(seen, subgoal_in(str(subgoal)))
        action = await team.actor.fresh().candidates(told, score=worth, state=seen.state)
        if id(action.turn) not in made:  # One candidate is not scored.
            worth(action)
        taken = made[id(action.turn)]
        return taken._replace(worth=sums.mean([one.worth for one in made.values()]))

    def _made(self, environment: Environment, move: str) -> Tried:
        """A move on a copy, and the feedback on it."""
        after = environment.clone()
        earned = float(after.act({self.world.agents[0]: move}).get(self.world.agents[0], 0.0))
        if self.feedback == "reward":
            return Tried(after, earned, earned)
        return Tried(after, earned, float(remaining(after) < remaining(environment)))

    async def _judged(self, seen: Observation, subgoal: Reply) -> float:
        if self._opinion is None:
            return 0.0
        found = self._opinion(seen.text, subgoal_in(str(subgoal)))
        return float(await found if inspect.isawaitable(found) else found)


# ---------------------------------------------------------------- any world of one seat, by name


PREFIX = "subgoals:"


@dataclass(frozen=True)
class SubgoalTask(NestedTask):
    """A task of one seat, played by planner and actor."""

    prefix = PREFIX

    @property
    def lessons(self) -> Lessons | None:
        """The inner task's, each move as a subgoal in the planner's words and as the actor's move for it."""
        heard = _Hearing(**turn_by_turn(self.inner.workflow))
        found = replace(self.inner, workflow=heard).lessons
        if found is None:
            return None

        def play(scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
            return [lesson for talk in found.play(scenario, rng) for lesson in self._both(talk, heard)]

        return replace(found, taught=f"{found.taught}, named as subgoals and made as moves", play=play)

    def _both(self, talk: Lesson, heard: _Hearing) -> tuple[Lesson, Lesson]:
        """What planner and actor say where one policy makes a move."""
        flow, said = self.workflow, str(talk.said[0]["content"])
        assert isinstance(flow, Subgoals)
        seen = heard.seen[str(talk.prompt[-1]["content"])]
        subgoal = flow.read(said, seen)
        return (
            _lesson(PLANNER_SYSTEM, flow.situation(seen), subgoal),
            _lesson(ACTOR_SYSTEM, flow.order(seen, subgoal), said),
        )


@dataclass(frozen=True)
class _Hearing(PlayEnvironment):
    """An environment's play that remembers which observation a question was about."""

    seen: dict[str, Observation] = field(default_factory=dict, compare=False)

    def question(self, observation: Observation, first: bool, hint: str | None = None) -> str:
        told = super().question(observation, first, hint)
        self.seen[told] = observation
        return told


def _lesson(system: str, told: str, said: str) -> Lesson:
    prompt: tuple[Message, ...] = ({"role": "system", "content": system}, {"role": "user", "content": told})
    return Lesson(prompt, ({"role": "assistant", "content": said},))


SETTINGS = {"feedback": str, "form": float, "judge": str}


def from_name(name: str, settings: Mapping[str, str]) -> SubgoalTask:
    """The task behind the prefix; settings of `Subgoals` are taken out of its own.

    Raises:
        ConfigurationError: when it is no environment.
    """
    inner, mine, named = found_within(PREFIX, name, settings, SETTINGS)
    flow = Subgoals(**{**turn_by_turn(inner.workflow), **mine})
    return SubgoalTask(flow, inner.seat, inner.measure, inner=inner, named=named)


SUBGOALS = TaskForm(
    name="subgoals:TASK",
    description="an environment of one seat for a planner and an actor, e.g. subgoals:maze?width=3&height=3",
    make=from_name,
)


# ---------------------------------------------------------------- how it is learnt

HI_AGENT = AT_GRPO.but(
    name="hi-agent",
    title="A planner's subgoals compared by what the actor makes of them",
    source="Wu et al., Hi-Agent, arXiv:2510.14388 (abstract); the mix of rewards is chosen here",
    family="agents",
    catalogue_ids=("hi-agent",),
    axes=("team", "credit", "policy"),
    formula="A_i = (R_i - mean_g R)/(std_g R + 1e-8),  R(subgoal) = mean_k feedback(move k) + form + judge,  "
    "R(move) = feedback + form,  g: subgoals for one situation, moves for one subgoal",
    conventions={
        **AT_GRPO.conventions,
        "candidates": "4 subgoals for a situation and 4 moves for each; the best goes on, the earliest of equals",
        "rewards": "rollout.alpha = 1 weighs feedback; form is 0.1, setting form of the task; a judge's opinion of the "
        "subgoal is added where the task names one (judge=FILE.py:FUNCTION)",
        "feedback": "1 for a move after which fewer moves remain, by the world's own count; the paper compares with "
        "recorded steps of successful episodes. feedback=reward takes what the environment pays",
        "foresight": "the mean over the actor's moves, an unbiased estimate of what the subgoal leads to in one move",
        "states": "those that the best subgoals lead to",
        "workflow": "the task's (subgoals:TASK)",
        "own reward": "0.1 for a subgoal of one line, and for a legal move",
        "no candidates": "evaluation asks for one subgoal and one move",
        "who learns": "planner and actor, a policy each; cast hocket.core.Leading('planner', 'actor') holds the actor",
    },
    task="subgoals:maze?width=3&height=3&steps=10&reading=number",
    requires=(Requirement.AGENTS, Requirement.TURNS, Requirement.BRANCHES),
    workflow=None,
    cast=Separate(),
)
