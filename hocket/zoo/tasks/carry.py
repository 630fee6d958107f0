"""Fetch and carry in words: task `carry`; how a team plans there, and a script that plays all its parts.

The script reads what it is asked and nothing else. It deals out what is to be done, objects to a plan where one subtask
in other hands would end it sooner, and does what the plan gives it; without a plan it goes for what is nearest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hocket.agents.environments.reading import LastLine
from hocket.core.columns import ACTIONS, LIMIT, MESSAGES
from hocket.core.components import to_plain
from hocket.core.keys import Key
from hocket.stages import Split
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.solitary import played
from hocket.types import Scenario, Trajectory
from hocket.zoo.carry import HOME, Carries, Carry

PLAN, NOW = "Plan:", "Now:"
WRITE = "Write the plan, a line for each: who does what, in which order."
APPRAISE = "Say agree, or give SUBTASK to NAME."
AGREE = "agree"

Plan = Mapping[str, Sequence[str]]
"""The subtasks of every agent, in its order."""


# ---------------------------------------------------------------- what is asked


def plan_text(plan: Plan) -> str:
    """A plan as it is written: a line for each agent."""
    return "\n".join(f"{agent}: {', '.join(subtasks)}" for agent, subtasks in plan.items())


def drafting(situation: str, plan: str = "", news: Sequence[str] = (), objection: str = "") -> str:
    """What whoever writes a plan is asked: the plan so far, what happened since, what somebody objects to it."""
    lines = [situation, *([f"{PLAN}\n{plan}"] if plan else []), *([f"News: {' '.join(news)}"] if news else [])]
    return "\n".join([*lines, *([f"Objection: {objection}"] if objection else []), WRITE])


def appraising(situation: str, plan: str) -> str:
    """What those who read a plan are asked."""
    return f"{situation}\n{PLAN}\n{plan}\n{APPRAISE}"


def following(seen: str, plan: str, subtask: str = "", state: str = "") -> str:
    """What an agent that acts sees besides: the plan, and which of its subtasks is first now."""
    line = f"\n{NOW} {subtask}{f' ({state})' if state else ''}." if subtask else ""
    return f"{seen}\n{PLAN}\n{plan}{line}" if plan else seen


# ---------------------------------------------------------------- a script for all parts


@dataclass(frozen=True)
class CarryQuestion:
    """What a question of this task tells.

    Attributes:
        size: rooms in a row. places, holds: by agent. todo: subtasks and how they stand. me: who is asked to act.
        here: things that it sees. now: the subtask that it has now. plan: the plan in the question, by agent.
    """

    size: int
    places: Mapping[str, int]
    holds: Mapping[str, str | None]
    todo: Mapping[str, str]
    me: str
    here: Sequence[str]
    now: str
    plan: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(question: str) -> CarryQuestion:
        """Reads a question."""
        stand = {name: (int(room), held) for name, room, held in re.findall(r"(\w+) in (\d+) with (\w+)\.", question)}
        todo = _after("To do: ", question).rstrip(".")
        named = re.findall(r"(fetch \w+|search \d+)(?: \(([^)]*)\))?", todo)
        plan = {name: re.findall(r"fetch \w+|search \d+", _after(f"\n{name}: ", question)) for name in stand}
        return CarryQuestion(
            size=int(re.findall(r"(\d+) a row", question)[0]),
            places={name: room for name, (room, _) in stand.items()},
            holds={name: None if held == "nothing" else held for name, (_, held) in stand.items()},
            todo=dict(named),
            me=_after("You: ", question).partition(" ")[0],
            here=re.findall(r"\w+", _after("Here: ", question)),
            now=(re.findall(rf"{NOW} (fetch \w+|search \d+)", question) or [""])[0],
            plan={name: tuple(subtasks) for name, subtasks in plan.items()},
        )

    def apart(self, first: int, second: int) -> int:
        """Steps from room to room."""
        (up, left), (down, right) = (divmod(room - 1, self.size) for room in (first, second))
        return abs(up - down) + abs(left - right)

    def room(self, subtask: str) -> int:
        """Where a subtask leads first; home where its thing is carried."""
        numbers = re.findall(r"\d+", subtask + self.todo.get(subtask, ""))
        return int(numbers[0]) if numbers else HOME

    def bound(self, subtask: str) -> str | None:
        """Who alone can do it, as it carries the thing."""
        return next((name for name, held in self.holds.items() if held and subtask == f"fetch {held}"), None)


def _after(mark: str, text: str) -> str:
    """The rest of the line after a mark; empty without it."""
    return f"\n{text}".partition(mark)[2].partition("\n")[0]


def answer(question: str) -> str:
    """What the script says to any question of this task."""
    heard = CarryQuestion.of(question)
    if question.endswith(WRITE):
        return plan_text(drafted(heard, _after("Objection: ", question)))
    return objection(heard) if question.endswith(APPRAISE) else move(heard)


def drafted(heard: CarryQuestion, objection: str = "") -> dict[str, list[str]]:
    """A plan that keeps what is planned already, does what was objected, and gives each other subtask to
    the agent that it delays least.

    Each agent's subtasks are in the order in which the next is always the nearest.
    """
    mine: dict[str, list[str]] = {name: [] for name in heard.places}
    owner = {subtask: name for name, subtasks in heard.plan.items() for subtask in subtasks}
    handovers = re.findall(r"give (fetch \w+|search \d+) to (\w+)", objection)
    owner |= {subtask: name for subtask, name in handovers if name in mine}
    new = list[str]()
    for subtask in heard.todo:
        known = heard.bound(subtask) or owner.get(subtask)
        (new if known is None else mine[known]).append(subtask)
    for subtask in new:
        ends = {name: length(heard, {**mine, name: [*mine[name], subtask]}) for name in mine}
        mine[min(ends, key=lambda name: ends[name])].append(subtask)
    return {name: nearest_first(heard, name, subtasks)[0] for name, subtasks in mine.items()}


def nearest_first(heard: CarryQuestion, name: str, subtasks: Sequence[str]) -> tuple[list[str], int]:
    """An agent's subtasks, the nearest next, what it carries before all; and the steps that they take."""
    place, steps, order, left = heard.places[name], 0, list[str](), list(subtasks)
    while left:
        subtask = min(left, key=lambda task: (heard.bound(task) is None, heard.apart(place, heard.room(task))))
        left.remove(subtask)
        order.append(subtask)
        there = heard.room(subtask)
        steps += heard.apart(place, there)
        place = there
        if subtask.startswith("fetch"):
            steps += 1 if heard.bound(subtask) else heard.apart(there, HOME) + 2
            place = HOME
    return order, steps


def length(heard: CarryQuestion, plan: Plan) -> tuple[int, int]:
    """The steps until the last agent is through, and those of all agents together."""
    each = [nearest_first(heard, name, subtasks)[1] for name, subtasks in plan.items()]
    return max(each), sum(each)


def objection(heard: CarryQuestion) -> str:
    """The one subtask that in other hands shortens the plan most; `agree` where none does."""
    best, proposal = length(heard, heard.plan), AGREE
    for name, subtasks in heard.plan.items():
        for subtask in subtasks:
            for other in heard.plan:
                if other != name and heard.bound(subtask) is None:
                    rest = [task for task in subtasks if task != subtask]
                    steps = length(heard, {**heard.plan, name: rest, other: [*heard.plan[other], subtask]})
                    if steps < best:
                        best, proposal = steps, f"give {subtask} to {other}"
    return proposal


def move(heard: CarryQuestion) -> str:
    """The next move of an agent: home with what it carries, else for its subtask, else for what is nearest."""
    place = heard.places[heard.me]
    if heard.holds[heard.me]:
        return "drop" if place == HOME else f"go {HOME}"
    free = [task for task in heard.todo if heard.bound(task) is None]
    subtask = heard.now or min(free, key=lambda task: heard.apart(place, heard.room(task)), default="")
    if not subtask:
        return "wait"
    thing = subtask.partition(" ")[2]
    return f"take {thing}" if thing in heard.here else f"go {heard.room(subtask)}"


# ---------------------------------------------------------------- the task

DOUBT = 0.1
"""How often a beginner goes anywhere."""


class CarryTask(EnvironmentTask):
    """Fetch and carry without end: scenario n has seed 2n in training and 2n + 1 in evaluation.

    A scenario's metadata say its `world`, in plain form. Success is what each earned.
    """

    def scenario(self, split: Split, number: int) -> Scenario:
        scenario = super().scenario(split, number)
        return replace(scenario, metadata={"world": to_plain(self.workflow.world)})

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 160}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Besides, whether all is `home`, the `steps` of the episode, and `messages` about plans where there were."""
        made = sum(action is not None for action in ACTIONS.get(trajectory, []))
        figures = {"home": float(not LIMIT.present(trajectory)), "steps": made / len(self.workflow.world.agents)}
        if MESSAGES.present(trajectory):
            figures["messages"] = float(MESSAGES.get(trajectory))
        return {**super().describe(trajectory), **figures}

    @property
    def lessons(self) -> Lessons:
        """What the script says in all parts, a quarter of the episodes without plans, some moves going anywhere."""
        return Lessons(
            "to deal out what is to be done, to object to plans, and to act by them or alone, with doubts",
            LESSONS,
            self._lesson,
            talks=8,
            then=lambda recipe: {"steps": 20, "curriculum.prompts": 8, "update.lr": 2.5e-4, "evaluation.n": 40},
            needed=True,
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
        world = self.workflow.world
        assert isinstance(world, Carries)
        carry = world.make(scenario)
        carry.reset(Key.of(scenario.seed).derive("environment"))
        exchanges = list[tuple[str, str]]()
        plans = rng.random() < 0.75
        plan = _talked(carry, "", (), exchanges) if plans else ""
        while carry.acting:
            moves = {}
            for seat in carry.acting:
                question = question_for(carry, seat, plan)
                moves[seat] = answer(question)
                exchanges.append((question, moves[seat]))
                if rng.random() < DOUBT:
                    moves[seat] = f"go {int(rng.integers(1, world.size**2 + 1))}"
            carry.act(moves)
            if plans and carry.progress and carry.acting:
                plan = _talked(carry, plan, [sentence for _, sentence in carry.progress], exchanges)
        return [
            Lesson(({"role": "user", "content": prompt},), ({"role": "assistant", "content": reply},))
            for prompt, reply in exchanges
        ]


def question_for(carry: Carry, seat: str, plan: str) -> str:
    """The question to an agent that acts, with the plan where there is one."""
    can = carry.subtasks(seat)
    mine = re.findall(r"fetch \w+|search \d+", _after(f"\n{seat}: ", f"\n{plan}"))
    first = next((subtask for subtask in mine if subtask in can), "")
    return following(carry.observe(seat).told(), plan, first, can.get(first, ""))


def _talked(carry: Carry, plan: str, news: Sequence[str], exchanges: list[tuple[str, str]]) -> str:
    """The plan that comes of a talk of the script with itself, of two rounds at most."""

    def heard(question: str) -> str:
        exchanges.append((question, answer(question)))
        return exchanges[-1][1]

    carry.share()
    situation = carry.situation(carry.agents[0])
    plan = heard(drafting(situation, plan, news))
    for _ in range(2):
        view = heard(appraising(situation, plan))
        if view == AGREE:
            break
        plan = heard(drafting(situation, plan, news, view))
    return plan


LESSONS = 120
"""Supervised steps after which the shipped model plays its parts, more or less."""

SETTINGS = {"size": int, "things": int, "known": int, "team": int, "surprise": int, "length": int, "radio": bool}


def from_settings(name: str, settings: Mapping[str, str]) -> CarryTask:
    """The task with settings of the world and of how it is played."""
    flow = played(name, settings, Carries, SETTINGS)
    return CarryTask(replace(flow, reading=flow.reading or LastLine(), instruct=False))


CARRY = TaskForm(
    name="carry",
    description="agents bring things home through rooms, e.g. carry?size=4&things=5&surprise=6; see capo-coop-plan",
    make=from_settings,
)
