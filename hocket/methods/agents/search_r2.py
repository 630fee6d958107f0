"""Search-R2: an actor whose searches a refiner accepts, or cuts and has regenerated (He et al., arXiv:2602.03647).

After an attempt the discriminator accepts or rejects it; of a rejected one the trimmer names the first wrong step,
what went before is kept and the actor goes on from there (`ActorRefiner`). All three are one policy, and every decision
of an episode is credited with what the refined attempt earned: a right answer, and up to as much again for the share of
its searches that brought something needed (`EvidenceReward`). The lessons of `refined-lookup` teach a beginner's play
of all three roles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hocket.agents.tools import find_all
from hocket.agents.tools.protocol import Call, Tool, carried_out, read_calls
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.tool_loop import ToolCallRecord
from hocket.agents.workflows.tool_use import ToolsOf, tools_for
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.columns import CALLS, TOOL_CALLS, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.options import checked
from hocket.methods.agents.search_r1 import SEARCH_R1
from hocket.rewards.normalised_match import NormalisedMatch
from hocket.rewards.opinions import Opinions
from hocket.stages import Reward
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons, call_of
from hocket.types import Message, Scenario, Trajectory
from hocket.zoo.tasks.lookup import Lookup

JUDGE = "Is this right throughout? Answer yes or no."
TRIM = "Which is the first wrong step? Answer with its number."

REFINED = InfoColumn("refined", "How often an attempt was cut and regenerated.")


@dataclass(frozen=True)
class Step:
    """A reply of the actor, with the calls in it and what they brought."""

    said: str
    made: tuple[ToolCallRecord, ...] = ()

    @property
    def messages(self) -> list[Message]:
        """As the actor's history has it."""
        return [
            {"role": "assistant", "content": self.said},
            *({"role": "tool", "content": one.result} for one in self.made),
        ]


@dataclass(frozen=True)
class ActorRefiner(Workflow):
    """Attempts that are accepted, or cut and regenerated: the smoothed mixture policy of Search-R2.

    `q(y') = p(accept | y') pi(y') + sum_y pi(y) (1 - p(accept | y)) sum_c p(c | y) [y'_<c = y_<c] pi(y'_>=c | y_<c)`,
    where steps are replies with what their calls brought. `discriminator` and `trimmer` read the numbered steps under
    the question. A verdict accepts whose answer (in tags or not) is yes; a cut that is no number, or out of range, is
    at the first step. `Outcome.info` has the calls of the attempt that counts, and how often it was `refined`.

    Attributes:
        tools_of: as in `ToolUse`. turns: steps of an attempt at most. rounds: refinements at most.
    """

    name = "actor-refiner"
    description = "an attempt is accepted, or cut at its first wrong step and regenerated (Search-R2)"

    tools_of: ToolsOf | str | None = None
    turns: int = 4
    rounds: int = 1

    roles = ("actor", "discriminator", "trimmer")

    def __post_init__(self) -> None:
        if self.turns < 1 or self.rounds < 0:
            raise ConfigurationError(
                f"workflow actor-refiner: turns must be at least 1 and rounds at least 0, not {self.turns} and "
                f"{self.rounds}"
            )
        if isinstance(self.tools_of, str):
            object.__setattr__(self, "tools_of", find_all(self.tools_of))

    def equipped(self, tools: ToolsOf) -> ActorRefiner:
        return self if self.tools_of is not None else replace(self, tools_of=tools)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        assert not isinstance(self.tools_of, str)  # names became tools at construction
        given: ToolsOf = find_all("calculator") if self.tools_of is None else self.tools_of
        tools, asks, refined = tools_for(given, scenario, team.key), asked(team.assignment), 0
        steps = await self._continued(team, asks, [], tools)
        while refined < self.rounds:
            question = str(asks[-1]["content"])
            if accepts(str(await team.discriminator.fresh()(reviewed(question, steps, JUDGE)))):
                break
            cut = cut_of(str(await team.trimmer.fresh()(reviewed(question, steps, TRIM))), len(steps))
            steps = await self._continued(team, asks, steps[: cut - 1], tools)
            refined += 1
        made = [one for step in steps for one in step.made]
        info = {TOOL_CALLS.name: len(made), CALLS.name: [one.plain for one in made], REFINED.name: refined}
        return Outcome(answer=steps[-1].said, info=info)

    async def _continued(
        self, team: Team, asks: Sequence[Message], kept: Sequence[Step], tools: Sequence[Tool]
    ) -> list[Step]:
        """An attempt that begins with the steps that are kept."""
        actor, steps = team.actor.fresh(), list(kept)
        while True:
            history = [*asks, *(message for step in steps for message in step.messages)]
            reply = await actor(history)
            calls = read_calls(reply.text, cut=reply.finish == "length") if len(steps) + 1 < self.turns else []
            results = [await carried_out(call, tools) for call in calls]
            made = [ToolCallRecord(call, result, len(steps)) for call, result in zip(calls, results, strict=True)]
            steps.append(Step(reply.text, tuple(made)))
            if not calls:
                return steps


def reviewed(question: str, steps: Sequence[Step], asks: str) -> str:
    """What a refiner is asked: the question, the attempt with its steps numbered, and what it is to say of it."""
    told = (f"{n}. {' -> '.join((one.said, *(made.result for made in one.made)))}" for n, one in enumerate(steps, 1))
    return "\n".join((question, *told, asks))


def accepts(verdict: str) -> bool:
    """Whether a verdict is a yes."""
    return (tagged(verdict) or verdict).strip().casefold() == "yes"


def cut_of(said: str, steps: int) -> int:
    """The step from which is regenerated, 1 at the earliest."""
    number = re.fullmatch(r"\d{1,6}", (tagged(said) or said).strip())
    place = int(number[0]) if number else 1
    return place if 1 <= place <= steps else 1


@dataclass(frozen=True)
class EvidenceReward(Reward):
    """`m (1 + evidence u)`: m whether the answer is right, u the share of the calls that brought something needed.

    Needed is what the scenario's metadata name under `gold` (articles, by the titles that results begin with) and
    `entities`; where they name nothing, or nothing was called, u is 0. No opinion without a known answer.
    """

    evidence: float = 1.0
    name: str = "correct"
    weight: float = 1.0

    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.judge(one) for one in trajectories)

    def judge(self, trajectory: Trajectory) -> float | None:
        """What one attempt earns."""
        right = NormalisedMatch().verify(trajectory.answer, trajectory.scenario)
        return None if right is None else right * (1 + self.evidence * useful(trajectory))


def useful(trajectory: Trajectory) -> float:
    """The share of an attempt's calls whose result holds an article or a fact that its question needs."""
    calls: Sequence[Any] = CALLS.get(trajectory, ())
    told = trajectory.scenario.metadata
    needed = [f"{title}: " for title in told.get("gold", ())] + [str(one) for one in told.get("entities", ())]
    return sum(any(one in str(call["result"]) for one in needed) for call in calls) / len(calls) if calls else 0.0


GUESSES = 0.2
"""Of a beginner's flawed attempts, how many guess; the others take a detour."""


class RefinedLookup(Lookup):
    """`lookup` of two hops whose lessons teach all three roles: beginners who search, judge and cut.

    Args:
        skill: how often a beginner does what is right; else an attempt takes a detour or guesses, a verdict is tossed,
            a cut falls anywhere. digits, seed: as in `Lookup`.
    """

    def __init__(self, skill: float = 0.4, digits: int = 2, seed: int = 0) -> None:
        super().__init__(hops=2, digits=digits, seed=seed)
        if not 0 <= skill <= 1:
            raise ConfigurationError(f"refined-lookup: skill is a share in [0, 1], not {skill}")
        self.name, self.skill = f"refined-lookup?skill={skill}&digits={digits}", skill

    @property
    def lessons(self) -> Lessons:
        """An attempt of a beginner, and a verdict and a cut of such an attempt."""
        return Lessons(
            "how to search, and detours and guesses; verdicts and cuts, of which some are tossed",
            160,
            self._lesson,
            talks=3,
            then=lambda recipe: {"curriculum.prompts": 8, "steps": 30},
            needed=True,
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        attempt, _ = self.attempt(scenario, rng)
        shown, wrong = self.attempt(scenario, rng)
        verdict = wrong is None if rng.random() < self.skill else bool(rng.integers(2))
        cut = int(rng.integers(len(shown))) if wrong is None or rng.random() >= self.skill else wrong
        question = str(scenario.prompt)
        told = tuple(message for step in attempt for message in step.messages)
        return [
            Lesson(scenario.messages, told),
            _said(reviewed(question, shown, JUDGE), "yes" if verdict else "no"),
            _said(reviewed(question, shown, TRIM), str(cut + 1)),
        ]

    def attempt(self, scenario: Scenario, rng: np.random.Generator) -> tuple[list[Step], int | None]:
        """What a beginner does, and the place of the first step that is not needed or wrong; None where none is."""
        gold, answer = scenario.metadata["gold"], str(scenario.answer)
        flaw = None if rng.random() < self.skill else int(rng.integers(len(gold) + 1))
        queries, guesses = list(gold), flaw is not None and bool(rng.random() < GUESSES)
        if guesses:
            queries, answer = gold[:flaw], str(rng.integers(10 ** (self.digits - 1), 10**self.digits))
        elif flaw is not None:
            names = list(self.facts.keeps if flaw == 0 else self.facts.numbers)
            queries.insert(flaw, names[int(rng.integers(len(names)))])
        steps = [
            Step(
                call_of("search", query=one),
                (ToolCallRecord(Call("search", {"query": one}), self.search.answer(one), place),),
            )
            for place, one in enumerate(queries)
        ]
        return [*steps, Step(f"<answer>{answer}</answer>")], flaw


def _said(asked: str, said: str) -> Lesson:
    prompt: Message = {"role": "user", "content": asked}
    return Lesson((prompt,), ({"role": "assistant", "content": said},))


SETTINGS = {"skill": float, "digits": int, "seed": int}


def from_settings(name: str, settings: Mapping[str, str]) -> RefinedLookup:
    """The task with these settings."""
    return RefinedLookup(**checked(name, settings, SETTINGS))


REFINED_LOOKUP = TaskForm(
    name="refined-lookup",
    description="lookup whose lessons also teach to judge and cut attempts, e.g. refined-lookup?skill=0.6",
    make=from_settings,
    drawn_as="refined_lookup",
)

SEARCH_R2 = SEARCH_R1.but(
    name="search-r2",
    title="Search-R2: an actor and a refiner that cuts and has regenerated",
    source="He et al., Search-R2, arXiv:2602.03647; the reward's form from the abstract and recalled",
    catalogue_ids=("search-r2",),
    axes=("rollout", "credit", "reward", "team"),
    formula="q(y') = p(accept | y') pi(y') + sum_y pi(y) (1 - p(accept | y)) sum_c p(c | y) pi(y'_>=c | y_<c);  "
    "R = [right] (1 + share of useful calls);  all decisions of an episode with GRPO's advantage",
    conventions={
        **SEARCH_R1.conventions,
        "retrieved tokens": "tool messages between the actor's replies: observation, never decisions",
        "step": "a reply of the actor and what its calls brought; the cut is at a step, the paper's at a position",
        "rejected steps": "stay decisions of the episode, credited with what came of it: the gradient of the mixture's "
        "expected reward needs them",
        "policy": "one for all three roles",
        "process reward": "rewards.0.evidence = 1 times the share of calls that brought an article or fact known to be "
        "needed, in place of a judge's opinion; only with a right answer",
        "rounds": "workflow.rounds = 1 refinement",
        "start": "lessons of all three roles (--lessons 160); a model that was never asked to judge says no",
    },
    task="refined-lookup",
    workflow="actor-refiner",
    rewards=(EvidenceReward(),),
)
