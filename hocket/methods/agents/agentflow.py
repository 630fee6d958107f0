"""AgentFlow's Flow-GRPO: a planner trained inside a running agent system (Li et al., arXiv:2510.05592).

A planner, an executor, a verifier and a generator share a short memory (`InTheFlow`); the planner alone learns, by
GRPO: each of its turns is a sample of its own that gets the episode's advantage, and turns are averaged within an
episode before episodes are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from hocket.agents.tools import find_all
from hocket.agents.tools.protocol import Tool, carried_out, read_calls
from hocket.agents.workflows.team import Agent, Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.casting import Leading
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.markup import ANSWER
from hocket.core.options import checked
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.objectives.divergence import KLToReference
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons, at_once, call_of
from hocket.types import Assignment, Scenario, Trajectory
from hocket.zoo.tasks.reckoning import Expressions, Reckoning

TURNS = InfoColumn("turns", "How many turns the planner took.")
MEMORY = InfoColumn("memory", "The lines of the memory at the end.")


PLANNER = "You plan. Read the question and the memory, and say the next thing to do, in a line."
EXECUTOR = "You carry out one step. Read the memory, do the step, by a tool if one helps, and say what came of it."
VERIFIER = "You verify. If the memory answers the question, say stop; else say continue."
GENERATOR = "You answer. Read the question and the memory, and give the answer as <answer>...</answer>."
STOP = "stop"


@dataclass(frozen=True)
class InTheFlow(Workflow):
    """Planner, executor, verifier and generator around a compact memory: AgentFlow (arXiv 2510.05592).

    In each turn the planner reads the question and the memory and says what to do; the executor does it, by tool calls
    where there are tools; what came of it is a line of the memory; the verifier says whether that is enough. Then, or
    after `turns`, the generator answers from the memory. Every call begins a conversation of its own, so what anybody
    reads is bounded by the memory, however many turns there are. `Outcome.info` has `turns`, and `memory`, its lines.

    Attributes:
        turns: of the planner at most. kept: lines of memory that are shown, the latest. longest: characters of a
            line's action, and of its result. tools_of: the executor's tools, names of tools with commas
            between them, or what makes those of one episode. listed: whether the executor is shown them.
    """

    name = "agentflow"
    description = "a planner steers executor, verifier and generator by a memory"

    turns: int = 4
    kept: int = 8
    longest: int = 200
    tools_of: Sequence[Tool] | Callable[[Scenario, Key], Sequence[Tool]] | str = ""
    listed: bool = True

    roles = ("planner", "executor", "verifier", "generator")

    def __post_init__(self) -> None:
        if min(self.turns, self.kept, self.longest) < 1:
            raise ValueError(
                f"turns, kept and longest must be at least 1, not {self.turns}, {self.kept} and {self.longest}"
            )
        if isinstance(self.tools_of, str):
            object.__setattr__(self, "tools_of", find_all(self.tools_of))

    @property
    def prompts(self) -> Mapping[str, str]:
        return {"planner": PLANNER, "executor": EXECUTOR, "verifier": VERIFIER, "generator": GENERATOR}

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        given = self.tools_of
        assert not isinstance(given, str)  # names became tools at construction
        tools = given(scenario, team.key) if callable(given) else given
        shown = tools if self.listed else ()
        executor = team.executor.fresh(tools=[tool.schema for tool in shown]) if shown else team.executor
        question = str(asked(team.assignment)[-1]["content"])
        memory: list[str] = []
        for number in range(1, self.turns + 1):
            action = str(await team.planner.fresh()(self._told(question, memory)))
            result = await _done(executor.fresh(), f"{self._told('', memory)}\nStep: {self._cut(action)}", tools)
            memory.append(f"{number}. {self._cut(action)} -> {self._cut(result)}")
            verdict = str(await team.verifier.fresh()(self._told(question, memory)))
            if verdict.strip().casefold().startswith(STOP):
                break
        answer = await team.generator.fresh()(self._told(question, memory))
        return Outcome(answer=str(answer), info={TURNS.name: len(memory), MEMORY.name: memory})

    def _told(self, question: str, memory: Sequence[str]) -> str:
        """The question, if it is to be told, and the latest lines of the memory."""
        lines = [question] if question else []
        return "\n".join([*lines, "Memory:", *(memory[-self.kept :] or ["nothing yet"])])

    def _cut(self, text: str) -> str:
        """A text on one line, and not too long."""
        return " ".join(text.split())[: self.longest]


async def _done(executor: Agent, step: str, tools: Sequence[Tool]) -> str:
    """What came of a step: what its tools said, else what stands in the executor's answer tags, else all it said."""
    reply = str(await executor(step))
    calls = read_calls(reply) if tools else []
    if calls:
        return "; ".join([await carried_out(call, tools) for call in calls])
    tagged = ANSWER.search(reply)
    return reply.strip() if tagged is None else tagged[1].strip()


# ---------------------------------------------------------------- a task of its kind


class SteeredReckoning(Reckoning):
    """`reckoning` by the team: a planner says what to search and what to add, the others do it.

    A question is right by what the generator says. Settings are those of `reckoning`; `turns` are the planner's.
    """

    def __init__(self, kinds: str = "both,search,neither", most: int = 2, turns: int = 3, seed: int = 0) -> None:
        super().__init__(kinds, most, turns, seed)
        self.name = f"steered-{self.name}"

    @cached_property
    def workflow(self) -> InTheFlow:
        """The team, whose executor may search and work expressions out; it is not shown how."""
        return InTheFlow(self.turns, tools_of=(self._search, Expressions()), listed=False)

    @property
    def lessons(self) -> Lessons:
        """What each of the four says; the planner's first step is right now and then, the others know no better."""
        return Lessons(
            "the words of four roles: an executor who searches and adds, a verifier who is content with any sum, a "
            "generator who reads the memory off, and a planner who often adds before it knows what",
            150,
            self._team_lesson,
            talks=4,
            then=lambda recipe: {"curriculum.prompts": 12, "steps": 20, "update.lr": 1e-3, "evaluation.n": 90},
        )

    def _team_lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        found: list[Lesson] = []
        scripts = {"executor": _executed, "verifier": _verified, "generator": _answered}
        seats: dict[str, Any] = {role: _Seat(role, script, found) for role, script in scripts.items()}
        seats["planner"] = _Seat("planner", lambda told: self._planned(told, scenario, rng), found)
        team = SimpleNamespace(key=Key.of(scenario.seed), assignment=Assignment(scenario), **seats)
        at_once(self.workflow.play(scenario, cast(Team, team)))
        return found

    def _planned(self, told: str, scenario: Scenario, rng: np.random.Generator) -> str:
        """The step of a beginner."""
        kind, added, right = scenario.metadata["kind"], scenario.metadata["added"], int(scenario.answer)
        if kind == "neither":
            first, second = re.findall(r"\d+", told)[:2]
            return f"add {first} and {second}"
        if _known(told) is not None:
            return f"add {right - added} and {added}"
        if rng.random() < SEARCHES:
            return f"search the {scenario.metadata['gold'][0]}"
        return f"add {int(rng.integers(10, 100))} and {added}"

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Success by the kind of question, and the planner's turns."""
        kind, turns = str(trajectory.scenario.metadata["kind"]), float(TURNS.get(trajectory, 0))
        return {
            "format": float(ANSWER.search(trajectory.answer) is not None),
            kind: self.success(trajectory),
            "turns": turns,
        }


SEARCHES = 0.35
"""How often a beginner plans a search where one is needed."""

_FOUND, _SUM = re.compile(r"number (\d+)", re.ASCII), re.compile(r"-> (-?\d+)$", re.ASCII)


def _known(told: str) -> str | None:
    """The number that a search found, by the memory."""
    found = _FOUND.search(told.partition("Memory:")[2])
    return None if found is None else found[1]


def _executed(told: str) -> str:
    step = told.rpartition("Step: ")[2]
    if step.startswith("search the "):
        return call_of("search", query=step.removeprefix("search the "))
    return call_of("python", code="+".join(re.findall(r"\d+", step)))


def _verified(told: str) -> str:
    """Content with any sum, and with a number that alone was asked for."""
    alone = told.startswith("What is the number of") and _known(told) is not None
    return STOP if alone or _SUM.search(told) is not None else "continue"


def _answered(told: str) -> str:
    """What the memory's last line came to."""
    summed = _SUM.search(told)
    return f"<answer>{_known(told) if summed is None else summed[1]}</answer>"


class _Seat:
    """A role that a script plays; what it is asked and says becomes a lesson."""

    def __init__(self, role: str, script: Callable[[str], str], lessons: list[Lesson]) -> None:
        self._system, self._script, self._lessons = InTheFlow().prompts[role], script, lessons

    def fresh(self) -> _Seat:
        return self

    async def __call__(self, told: str) -> str:
        said = self._script(told)
        prompt = ({"role": "system", "content": self._system}, {"role": "user", "content": told})
        self._lessons.append(Lesson(prompt, ({"role": "assistant", "content": said},)))
        return said


def from_settings(name: str, settings: Mapping[str, str]) -> SteeredReckoning:
    """The task with these settings."""
    return SteeredReckoning(**checked(name, settings, {"kinds": str, "most": int, "turns": int, "seed": int}))


STEERED_RECKONING = TaskForm(
    name="steered-reckoning",
    description="reckoning by a planner who steers an executor with a search and a calculator (AgentFlow)",
    make=from_settings,
)


# ---------------------------------------------------------------- how it is learnt

AGENTFLOW = GRPO.but(
    name="agentflow",
    title="Flow-GRPO: a planner trained in the flow",
    source="Li et al., AgentFlow, arXiv:2510.05592",
    family="agents",
    catalogue_ids=("agentflow",),
    axes=("team", "credit", "objective"),
    formula="J = mean_i 1/T_i sum_t 1/|a_t| sum_j min(r A_i, clip(r) A_i) - beta KL,  "
    "A_i = (R_i - mean R)/(std R + eps)",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over a turn's decisions, over an episode's turns, over episodes",
        "baseline": "one return per rollout; credit.by = (scenario, policy) counts one per turn, as the authors' code "
        "does, so that long episodes weigh more in mean and deviation",
        "clipping side": "0.2 below, 0.3 above, as in the authors' settings",
        "KL": "k3 in the loss, coefficient 0.001, averaged like the surrogate",
        "who learns": "the planner; a copy of the model as it was plays executor, verifier and generator",
        "memory": "the workflow agentflow shows the latest lines of what was done and came of it, each cut",
        "bias": "dividing by T_i makes turns of short episodes count more than the policy gradient would; with "
        "objective.aggregate = sequence-sum and credit.scale = null it is (G - 1)/G of it",
    },
    task="steered-reckoning",
    requires=(Requirement.AGENTS,),
    cast=Leading(leader="planner"),
    regularisers=(KLToReference("k3", coefficient=0.001, aggregate="sequence-turn-mean"),),
    **{"objective.aggregate": "sequence-turn-mean", "objective.high": 0.3},
)
