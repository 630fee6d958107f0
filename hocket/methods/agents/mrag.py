"""mRAG: a coordinator and its agents learn from the best of their own trajectories (arXiv:2506.10844).

A coordinator says turn by turn who is called, with what: a planner, a searcher whose finds count once it has verified
them, a reasoner, a validator, and a generator, which writes the response from what was verified (`Coordinated`). Of
`T` whole trajectories of a question those that score highest teach every agent what it did in them, `max sum log p(a_i
| x)` over all actions but the generator's, which stays as it was (`BestPaths`, `Kept`).

Agents, rule of selection and weights of the score are those of the authors' code (`muktac5/CIIR-LiveRAG`): relevance,
correctness and faithfulness as 1 : 4 : 1, the highest alone and three of equals at most, and no question on which all
score alike or one of the three is nowhere over one half. There model judges give these; here the answer is known,
what was verified too, and what has no answer in tags is not relevant. The lessons of `team-lookup` teach the forms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hocket.agents.tools import find_all
from hocket.agents.tools.protocol import Call, Tool, carried_out
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.tool_loop import ToolCallRecord
from hocket.agents.workflows.tool_use import ToolsOf, tools_for
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core import sums
from hocket.core.casting import Shared
from hocket.core.columns import CALLS, TOOL_CALLS, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.options import checked
from hocket.core.requirements import Requirement
from hocket.methods.base.sft import SFT
from hocket.rewards.normalised_match import NormalisedMatch
from hocket.rewards.opinions import Opinions
from hocket.rollout.dynamic import total
from hocket.rollout.groups import groups
from hocket.stages import Grade, LedgerView, More, Play, Reward, Rollout
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.types import Assignment, Experience, Message, Scenario, Trajectory
from hocket.zoo.tasks.lookup import Lookup

AGENTS = "planner, searcher: WHAT, reasoner, generator, validator"
CALL = f"Call {AGENTS}; or finish."
UNKNOWN = f"error: call {AGENTS}; or finish"
PLAN, REASON, ANSWER = "Plan the searches.", "What is to be found next?", "Answer."
KEEP, DROP, NOTHING = "keep", "drop", "nothing"

VERIFIED = InfoColumn("verified", "What the searcher verified, in order; the generator knows nothing else.")
CALLED = InfoColumn("called", "Whom the coordinator called, in order, as it was written.")

# ---------------------------------------------------------------- the team


def briefed(question: str, known: Sequence[str], asks: str) -> str:
    """What an agent is told: the question, what was verified, what it is to do."""
    return "\n".join((question, *known, asks))


def judging(response: str) -> str:
    """What the validator is asked of a response."""
    return f"Answer: {tagged(response) or response}. Right? yes or no."


def called(reply: str) -> tuple[str, str]:
    """Whom a coordinator calls, and with what."""
    name, _, what = reply.strip().partition(":")
    return name.strip().casefold(), " ".join(what.split())


@dataclass(frozen=True)
class Coordinated(Workflow):
    """A coordinator calls agents until it finishes; the last response of the generator is the answer.

    The coordinator's conversation goes on, and it is told what each agent said; the others are told the question and
    what was verified so far, afresh each time, except that a searcher's talk goes on while it searches: it writes a
    query, and of what was found it says `keep` (it counts as verified), `drop`, or another query.

    Attributes:
        tools_of: as in `ToolUse`; the first is what is searched, and without any nothing is found. calls: of the
            coordinator at most. queries: of the searcher in a call at most. settled: the generator's temperature, where
            sampling is warmer.
    """

    name = "coordinated"
    description = "a coordinator calls planner, searcher, reasoner, generator and validator (mRAG); task team-lookup"

    tools_of: ToolsOf | str | None = None
    calls: int = 10
    queries: int = 2
    settled: float = 0.1

    roles = ("coordinator", "planner", "searcher", "reasoner", "generator", "validator")

    def __post_init__(self) -> None:
        if self.calls < 1 or self.queries < 1 or self.settled < 0:
            raise ConfigurationError(
                f"workflow coordinated: calls and queries are at least 1 and settled at least 0, not {self.calls}, "
                f"{self.queries} and {self.settled}"
            )
        if isinstance(self.tools_of, str):
            object.__setattr__(self, "tools_of", find_all(self.tools_of))

    def equipped(self, tools: ToolsOf) -> Coordinated:
        return self if self.tools_of is not None else replace(self, tools_of=tools)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        assert not isinstance(self.tools_of, str)  # names became tools at construction
        tools = () if self.tools_of is None else tools_for(self.tools_of, scenario, team.key)
        course = _Course(self, team, tools)
        told = briefed(course.question, (), CALL)
        while len(course.called) < self.calls:
            reply = str(await team.coordinator(told))
            course.called.append(reply.strip())
            name, what = called(reply)
            if name == "finish":
                break
            told = await course.answered(name, what)
        return course.outcome()


class _Course:
    """One episode while it is played.

    Attributes:
        known: what was verified. made: every search. response: the generator's last one. called: by the coordinator.
    """

    def __init__(self, flow: Coordinated, team: Team, tools: Sequence[Tool]) -> None:
        self.flow, self.team, self.tools = flow, team, tools
        self.question = str(team.assignment.scenario.messages[-1]["content"])
        self.known: list[str] = []
        self.made: list[ToolCallRecord] = []
        self.called: list[str] = []
        self.response = ""

    async def answered(self, name: str, what: str) -> str:
        """What the coordinator is told of an agent that it called."""
        if name == "searcher":
            found = await self.searched(what)
            return "\n".join(found) or NOTHING
        if name == "generator":
            usual = self.team.assignment.decoding
            way = replace(usual, temperature=min(usual.temperature, self.flow.settled))
            self.response = str(await self.team.generator.fresh()(self._briefed(ANSWER), decoding=way))
            return self.response
        asks = {"planner": PLAN, "reasoner": REASON, "validator": judging(self.response)}
        return str(await self.team[name].fresh()(self._briefed(asks[name]))) if name in asks else UNKNOWN

    async def searched(self, what: str) -> list[str]:
        """What the searcher finds and verifies."""
        searcher, told = self.team.searcher.fresh(), self._briefed(f"Find {what}.")
        query = str(await searcher(told)).strip()
        for _ in range(self.flow.queries):
            result = await self.found(query)
            said = str(await searcher(result)).strip()
            if said == KEEP:
                new = [line for line in result.splitlines() if line not in self.known]
                self.known += new
                return new
            if said == DROP:
                break
            query = said
        return []

    async def found(self, query: str) -> str:
        """What a search brings; nothing where the task has none."""
        if not self.tools:
            return "nothing found"
        call = Call(self.tools[0].name, {"query": query})
        self.made.append(ToolCallRecord(call, await carried_out(call, self.tools), len(self.called) - 1))
        return self.made[-1].result

    def _briefed(self, asks: str) -> str:
        return briefed(self.question, self.known, asks)

    def outcome(self) -> Outcome:
        info = {TOOL_CALLS.name: len(self.made), CALLS.name: [one.plain for one in self.made]}
        info |= {VERIFIED.name: list(self.known), CALLED.name: self.called}
        return Outcome(answer=self.response, info=info)


@dataclass(frozen=True)
class Kept(Shared):
    """One policy plays all roles but those of `still`, which a copy of the model as it was plays each."""

    still: tuple[str, ...] = ("generator",)

    def policy(self, role: str) -> str | None:
        return role if role in self.still else None

    def learning(self, policies: Sequence[str], step: int) -> frozenset[str]:
        return frozenset(policies) - set(self.still) or frozenset(policies)


# ---------------------------------------------------------------- what a response is worth


@dataclass(frozen=True)
class Relevant(Reward):
    """Whether a response answers at all: there is something in its answer tags."""

    name: str = "relevant"
    weight: float = 1 / 6
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(float(bool((tagged(one.answer) or "").strip())) for one in trajectories)


@dataclass(frozen=True)
class Faithful(Reward):
    """The share of the answer's words that stand in what was verified; 0 without an answer."""

    name: str = "faithful"
    weight: float = 1 / 6
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(map(self.judge, trajectories))

    def judge(self, trajectory: Trajectory) -> float:
        """Of one trajectory."""
        said = re.findall(r"\w+", (tagged(trajectory.answer) or "").casefold())
        known = set(re.findall(r"\w+", " ".join(VERIFIED.get(trajectory, ())).casefold()))
        return sum(word in known for word in said) / len(said) if said else 0.0


MEASURES = (NormalisedMatch(weight=4 / 6), Faithful(), Relevant())
"""What the score is made of, what matters most first."""

# ---------------------------------------------------------------- which trajectories teach


@dataclass(frozen=True)
class BestPaths(Rollout):
    """Of `samples` trajectories of a question those of the highest score, at most `most` of them.

    The score is the weighted sum of `measures`; among equals those come first that are better by the measures in turn,
    then those drawn first. Nothing is kept of a question on which all score alike, or on which some measure is over
    `half` in none. Failed trajectories are never kept; a step may keep none.

    Attributes:
        samples: T. most: kept of equals. half: see above. measures: rewards by name and weight, in their order.
    """

    samples: int = 8
    most: int = 3
    half: float = 0.5
    measures: tuple[tuple[str, float], ...] = tuple((one.name, one.weight) for one in MEASURES)

    def __post_init__(self) -> None:
        if self.samples < 1 or self.most < 1 or not self.measures:
            raise ConfigurationError(
                f"rollout.samples = {self.samples} and rollout.most = {self.most} must be at least 1, and "
                "rollout.measures name a reward"
            )
        object.__setattr__(self, "measures", tuple((name, weight) for name, weight in self.measures))

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
        """The best of every question."""
        played = await groups(play, [replace(one, samples=self.samples) for one in asked])
        everything = [one for group in played for one in group]
        await score(everything)
        good = [one for group in played for one in self.best(group)]
        kept = {id(one) for one in good}
        rest = [one for one in everything if id(one) not in kept]
        share, mean = (
            len(good) / max(1, len(everything)),
            sums.mean([*map(self.value, everything)]) if everything else 0.0,
        )
        return Experience(good, rest, {"rollout/kept": share, "rollout/score": mean})

    def best(self, group: Sequence[Trajectory]) -> list[Trajectory]:
        """What is kept of the trajectories of one question."""
        whole = [one for one in group if one.failure is None]
        values = [self.value(one) for one in whole]
        if not whole or max(values) - min(values) <= NEAR:
            return []
        if any(max(column) <= self.half for column in zip(*map(self.measured, whole), strict=True)):
            return []
        top = [one for one, value in zip(whole, values, strict=True) if max(values) - value <= NEAR]
        return sorted(top, key=self.measured, reverse=True)[: self.most]

    def value(self, trajectory: Trajectory) -> float:
        """Its score."""
        return sum(weight * part for (_, weight), part in zip(self.measures, self.measured(trajectory), strict=True))

    def measured(self, trajectory: Trajectory) -> tuple[float, ...]:
        """Its measures; one without an opinion counts 0."""
        scores = (trajectory.scores.get(name) for name, _ in self.measures)
        return tuple(0.0 if one is None else total(one) for one in scores)


NEAR = 1e-9
"""Scores no further apart are equal: sums of weights are not exact."""


# ---------------------------------------------------------------- lessons


class TeamLookup(Lookup):
    """`lookup` of two hops whose lessons teach all roles of `coordinated` as beginners play them.

    Args:
        skill: how often each decision of a beginner is what it should be; the generator's always is. digits, seed: as
            in `Lookup`.
    """

    def __init__(self, skill: float = 0.8, digits: int = 2, seed: int = 0) -> None:
        super().__init__(hops=2, digits=digits, seed=seed)
        if not 0 <= skill <= 1:
            raise ConfigurationError(f"team-lookup: skill is a share in [0, 1], not {skill}")
        self.name, self.skill = f"team-lookup?skill={skill}&digits={digits}", skill

    @property
    def lessons(self) -> Lessons:
        """What each role is asked and says in an episode of beginners."""
        return Lessons(
            "how a team searches: whom to call and what each says, with mistakes of everybody but the generator",
            160,
            lambda scenario, rng: _Beginners(self, scenario, rng).talks(),
            talks=TALKS,
            then=lambda recipe: {"curriculum.prompts": 8, "steps": 8, "update.lr": 5e-4},
            needed=True,
        )

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 32}


TALKS = 6
"""Conversations of an episode of beginners, more or less."""


class _Beginners:
    """One episode in which every decision but the generator's is wrong now and then, and what is said in it."""

    def __init__(self, task: TeamLookup, scenario: Scenario, rng: np.random.Generator) -> None:
        self.task, self.rng, self.question = task, rng, str(scenario.prompt)
        self.gold, self.number = list(scenario.metadata["gold"]), str(scenario.answer)
        self.known: list[str] = []
        self.said: list[Lesson] = []
        self.coordinator: list[Message] = [_user(briefed(self.question, (), CALL))]
        self.response = ""

    def talks(self) -> list[Lesson]:
        """All conversations, the coordinator's last."""
        person, thing = self.gold
        plan = self.planned() if self.right() else person
        self.find(person)
        ahead = thing if "then" in plan and self.found(person) else "" if self.found(person) else person
        if self.rng.random() < REASONED:
            ahead = self.reasoned()
        if ahead and self.right():
            self.find(ahead)
        self.generated()
        if self.rng.random() < VALIDATED and self.validated() == "no":
            self.find(self.missing() or thing)
            self.generated()
        self.say("finish")
        return [*self.said, Lesson(tuple(self.coordinator[:1]), tuple(self.coordinator[1:]))]

    def right(self) -> bool:
        """Whether the next decision is what it should be."""
        return bool(self.rng.random() < self.task.skill)

    def found(self, name: str) -> bool:
        return any(line.startswith(f"{name}: ") for line in self.known)

    def missing(self) -> str:
        """What is to be found next; nothing where all is known."""
        return next((name for name in self.gold if not self.found(name)), "")

    def any_name(self) -> str:
        names = [*self.task.facts.keeps, *self.task.facts.numbers]
        return names[int(self.rng.integers(len(names)))]

    def say(self, text: str, told: str | None = None) -> None:
        """A message of the coordinator, and what it is told of it."""
        self.coordinator.append({"role": "assistant", "content": text})
        if told is not None:
            self.coordinator.append(_user(told))

    def ask(self, name: str, asks: str, said: str) -> str:
        """A call of an agent that says something and no more."""
        prompt = _user(briefed(self.question, self.known, asks))
        self.said.append(Lesson((prompt,), ({"role": "assistant", "content": said},)))
        self.say(name, said)
        return said

    def planned(self) -> str:
        person = self.gold[0]
        return self.ask("planner", PLAN, f"{person}, then what {person} keeps" if self.right() else person)

    def reasoned(self) -> str:
        """What the reasoner wants to be found; empty where it sees nothing."""
        missing = self.missing() or NOTHING
        said = self.ask("reasoner", REASON, missing if self.right() else NOTHING)
        return "" if said == NOTHING else said

    def generated(self) -> None:
        seen = re.search(r"number (\d+)", " ".join(self.known))
        guess = str(self.rng.integers(10 ** (self.task.digits - 1), 10**self.task.digits))
        self.response = self.ask("generator", ANSWER, f"<answer>{seen[1] if seen else guess}</answer>")

    def validated(self) -> str:
        good = self.found(self.gold[1])
        return self.ask("validator", judging(self.response), "yes" if good is self.right() else "no")

    def find(self, what: str) -> None:
        """A call of the searcher, which writes two queries at most."""
        prompt = _user(briefed(self.question, self.known, f"Find {what}."))
        talk: list[Message] = []
        query, kept = what if self.right() else self.any_name(), ""
        for last in (False, True):
            result = self.task.search.answer(query)
            sound = result.startswith(f"{what}: ") is self.right()
            said = KEEP if sound else DROP if last or query == what else what
            talk += [{"role": "assistant", "content": query}, _user(result), {"role": "assistant", "content": said}]
            query, kept = said, result if said == KEEP else ""
            if said in (KEEP, DROP):
                break
            del talk[-1]
        self.said.append(Lesson((prompt,), tuple(talk)))
        new = [line for line in kept.splitlines() if line not in self.known]
        self.known += new
        self.say(f"searcher: {what}", "\n".join(new) or NOTHING)


REASONED, VALIDATED = 0.4, 0.5
"""How often beginners call the reasoner, and the validator."""


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


SETTINGS = {"skill": float, "digits": int, "seed": int}


def from_settings(name: str, settings: Mapping[str, str]) -> TeamLookup:
    """The task with these settings."""
    return TeamLookup(**checked(name, settings, SETTINGS))


TEAM_LOOKUP = TaskForm(
    name="team-lookup",
    description="lookup whose lessons teach a coordinator and its agents, e.g. team-lookup?skill=0.9; see mrag",
    make=from_settings,
    drawn_as="team_lookup",
)

MRAG = SFT.but(
    name="mrag",
    title="mRAG: agents of retrieval learn from the best of their own trajectories",
    source="Salemi et al., CIIR@LiveRAG 2025, arXiv:2506.10844, and the authors' code",
    family="teams",
    catalogue_ids=("mrag",),
    axes=("team", "rollout", "environment"),
    formula="L = -1/sum n sum_x sum_{tau in best_x} sum_{t of all agents but the generator} log pi(a_t | s_t);  "
    "best_x: of 8 samples those with max (relevant + 4 correct + faithful)/6, 3 of equals at most",
    conventions={
        **SFT.conventions,
        "agents": "coordinator, planner, searcher, reasoner, validator in one policy; no summariser, as articles are "
        "a sentence each; a second call of the generator revises",
        "generator": "the model as it was, at temperature 0.1 or the run's where that is lower; never learnt from",
        "measures": "right; the share of the answer's words in what was verified; an answer in tags. The paper's are "
        "said by a judge model",
        "kept": "best of 8 by (relevant + 4 correct + faithful)/6, 3 of equals at most, ordered by correct, faithful, "
        "relevant; none where all score alike or a measure is nowhere over one half",
        "tokens learnt": "the agents' own alone; observations are not decisions",
        "rounds": "every step samples with the weights as they are; the paper samples once, before it trains",
        "temperature": "1; the paper samples at 0.7",
        "start": "lessons of all roles (--lessons 160)",
    },
    task="team-lookup",
    requires=(Requirement.AGENTS, Requirement.TURNS),
    workflow="coordinated",
    cast=Kept(),
    rewards=MEASURES,
    rollout=BestPaths(),
)
