"""MasHost: GRPO for a controller that builds a team of agents step by step (Yang et al., arXiv:2506.08507).

`BuiltTeam` lets it add an agent with what that one reads, delete one or stop, and pays each action for what it changed
in the answer; to the episode's advantage credit adds that reward (`EpisodeAndTurn` of `hocket.credit.turn_level`). The
agents themselves stay as they were.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.batch import GroupBy
from hocket.core.casting import Leading
from hocket.core.columns import SAID, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.credit.group import GroupRelative
from hocket.credit.turn_level import EpisodeAndTurn, TurnRelative
from hocket.methods.base.grpo import GRPO
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.nested_task import query_of
from hocket.tasks.text import TextTask
from hocket.types import Message, Scenario

GRAPH = InfoColumn("graph", "The actions that built the team, in words.")
ACTIONS_TAKEN = InfoColumn("actions", "How many actions the controller took.")
EXITED = InfoColumn("exited", "Whether the controller ended the building itself.")


CONTROLLER = "controller"
EXIT = "exit"


def without(graph: Graph, place: int) -> Graph:
    """The graph after a deletion; whoever read the deleted one reads it no more, and those behind move up."""
    rest = (member for number, member in enumerate(graph) if number != place)
    return tuple(Member(m.role, tuple(n - (n > place) for n in m.reads if n != place)) for m in rest)


MEMBERS = {
    "solver": "You solve the question. Give the answer as <answer>...</answer>.",
    "checker": "You check what others said, mend what is wrong, and give the answer as <answer>...</answer>.",
    "planner": "You say in a few lines how the question is to be solved, without solving it.",
}
_ADD = re.compile(r"(?P<role>\w+)(?: from (?P<reads>\d+(?:(?:,| and|, and)? \d+|,\d+)*))?", re.ASCII)
_DELETE = re.compile(r"delete (?P<place>\d+)", re.ASCII)


@dataclass(frozen=True)
class Member:
    """A node of the graph: who acts, and the places (from 0, all before its own) of those whose messages it reads."""

    role: str
    reads: tuple[int, ...] = ()


Graph = tuple[Member, ...]
"""A team in the order in which it was built. The last one's message is its answer."""


Step = Member | int | Literal["exit"]
"""One action of the controller: a new node with its edges, the place of one to delete, or the end."""


def read_step(text: str, graph: Graph, roles: Sequence[str], most: int) -> Step | None:
    """The action on the last line of a reply, after its thought; None for one that cannot be read or carried out.

    `solver`, `checker from 1, 2`, `delete 1` and `exit`, places from 1 and case ignored.
    """
    lines = [line.strip() for line in text.rpartition("</think>")[2].splitlines() if line.strip()]
    said = " ".join(lines[-1].casefold().split()).removesuffix(".").rstrip() if lines else ""
    if said == EXIT:
        return "exit"
    if found := _DELETE.fullmatch(said):
        place = _place(found["place"])
        return place if 0 <= place < len(graph) else None
    added = _ADD.fullmatch(said)
    if added is None or added["role"] not in roles or len(graph) >= most:
        return None
    reads = tuple(sorted({_place(number) for number in re.findall(r"\d+", added["reads"] or "")}))
    return Member(added["role"], reads) if all(0 <= place < len(graph) for place in reads) else None


def _place(number: str) -> int:
    """A place from its number, -1 for one that is no place anywhere."""
    return int(number) - 1 if len(number) < 4 else -1


def written(step: Step) -> str:
    """What a controller says for an action."""
    if isinstance(step, Member):
        return step.role + (f" from {', '.join(str(place + 1) for place in step.reads)}" if step.reads else "")
    return EXIT if isinstance(step, str) else f"delete {step + 1}"


def built(graph: Graph, said: Sequence[str | None]) -> str:
    """A graph in words, and what its agents said so far."""
    lines = ["Team:" if graph else "Team: nobody yet"]
    for place, (member, words) in enumerate(zip(graph, said, strict=True)):
        lines.append(f"{place + 1} {written(member)}" + ("" if words is None else f": {words}"))
    return "\n".join(lines)


@dataclass(frozen=True)
class BuiltTeam(Workflow):
    """A controller builds a graph of agents step by step, which then answers: MasHost (arXiv 2506.08507).

    At each step the role `controller` is told the question and the graph, and answers with one action: a node with the
    edges from earlier ones that it reads (`checker from 1, 2`), `delete 1`, or `exit`. Then every agent of the graph
    acts once, told the question and the messages it reads; the last one's message is the answer, and a team of nobody
    has none. (A controller that says nothing that can be carried out leaves the first of `members` to answer alone,
    for which no action earns anything.) The score `team` is the task's verdict on the answer, `cost` what the graph
    costs; and each action earns, as the score `step` of its turn,

        v(the team's answer with the new agent) - v(its answer before) - price      an agent that stays
        -price                                                                      any other action
        0                                                                           exit

    with v the verdict, 0 where nobody answers. So a component that improves nothing (redundant), is taken back, or
    cannot be read (irrational) costs its price, and one that spoils the answer more. Over a whole episode these sum up
    to v less the price of every action. `Outcome.info` has `graph` (its actions in words), `said` (the messages),
    `actions`, and `exited`.

    The paper's abstract gives neither the reward of an action nor weights; both are chosen here.

    Attributes:
        members: roles of the team and their system prompts, by name; each may stand in a graph several times.
        steps: actions at most. most: agents at most. longest: characters of a message that others are shown.
        live: whether an agent acts as soon as it is added, so that the controller reads what was said so far.
        cost, edge: of an agent and of an edge, in the reward of the whole. price: of an action.
    """

    name = "built-team"
    description = "a controller builds a graph of agents, which answers (MasHost)"

    members: Mapping[str, str] = field(default_factory=lambda: dict(MEMBERS))
    steps: int = 8
    most: int = 4
    longest: int = 400
    live: bool = True
    cost: float = 0.05
    edge: float = 0.01
    price: float = 0.1

    scores = True

    def __post_init__(self) -> None:
        wrong = [name for name in self.members if not re.fullmatch(r"[a-z_]\w*", name) or name in _RESERVED]
        if wrong or not self.members:
            raise ValueError(f"members are named by words in small letters, but not {', '.join(_RESERVED)}: {wrong}")
        if min(self.steps, self.most, self.longest) < 1 or min(self.cost, self.edge, self.price) < 0:
            raise ValueError("steps, most and longest must be at least 1; cost, edge and price at least 0")
        object.__setattr__(self, "roles", (CONTROLLER, *self.members))

    @property
    def prompts(self) -> Mapping[str, str]:
        known = ", ".join(self.members)
        told = (
            f"You build a team for the question. Say one action: an agent ({known}) with the numbers of those it "
            f"reads, such as {self.roles[-1]} from 1, 2; or delete 1; or {EXIT} when the team is complete."
        )
        return {CONTROLLER: told, **self.members}

    def cut(self, said: str | None) -> str:
        """A message as others are shown it."""
        return " ".join((said or "").split())[: self.longest]

    def asks(
        self, question: tuple[Message, ...], member: Member, graph: Graph, said: Sequence[str | None]
    ) -> tuple[Message, ...]:
        """What an agent is asked: the question, and what those say whom it reads."""
        heard = [f"Agent {read + 1} ({graph[read].role}): {self.cut(said[read])}" for read in member.reads]
        return with_line(question, "\n".join(heard)) if heard else question

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        building = _Building(self, team)
        exited = False
        while not exited and len(building.actions) < self.steps:
            exited = await building.step()
        await building.finish()
        return building.outcome(exited)


_RESERVED = (CONTROLLER, "delete", EXIT)


class _Building:
    """One episode while it is played: the graph, who said what, and which action added whom."""

    def __init__(self, workflow: BuiltTeam, team: Team) -> None:
        self.workflow, self.team = workflow, team
        self.question: tuple[Message, ...] = asked(team.assignment)
        self.graph: Graph = ()
        self.said: list[str | None] = []
        self.added: list[Reply] = []
        self.actions: list[Reply] = []
        self._exit: Reply | None = None
        self._understood = False

    async def step(self) -> bool:
        """Asks for an action and carries it out; whether it was the last."""
        seen = self.told()
        reply = await self.team[CONTROLLER].fresh()(with_line(self.question, seen), state=seen)
        self.actions.append(reply)
        action = read_step(reply.text, self.graph, tuple(self.workflow.members), self.workflow.most)
        self._understood |= action is not None
        if isinstance(action, Member):
            self.graph, self.added, self.said = (*self.graph, action), [*self.added, reply], [*self.said, None]
            if self.workflow.live:
                await self._act(len(self.graph) - 1)
        elif isinstance(action, int):
            self.graph = without(self.graph, action)
            del self.added[action], self.said[action]
        elif action == EXIT:
            self._exit = reply
        return action == EXIT

    async def finish(self) -> None:
        """Everybody who has not spoken speaks, side by side where nobody waits for another."""
        if not self._understood:
            self.graph, self.said = (Member(next(iter(self.workflow.members))),), [None]
        while None in self.said:
            waiting = [place for place, said in enumerate(self.said) if said is None]
            ready = [p for p in waiting if all(self.said[read] is not None for read in self.graph[p].reads)]
            await asyncio.gather(*(self._act(place) for place in ready))

    def told(self) -> str:
        """The graph in words, and what was said so far."""
        return built(self.graph, [None if said is None else self.workflow.cut(said) for said in self.said])

    async def _act(self, place: int) -> None:
        member = self.graph[place]
        asks = self.workflow.asks(self.question, member, self.graph, self.said)
        self.said[place] = str(await self.team[member.role].fresh()(asks))

    def outcome(self, exited: bool) -> Outcome:
        """How it came out."""
        flow = self.workflow
        good = [0.0, *(self.team.verify(said or "") for said in self.said)]
        earned = dict.fromkeys(self.actions, -flow.price)
        for place, reply in enumerate(self.added):
            earned[reply] += good[place + 1] - good[place]
        if self._exit is not None:
            earned[self._exit] = 0.0
        edges = sum(len(member.reads) for member in self.graph)
        return Outcome(
            answer=self.said[-1] if self.said else "",
            rewards={"team": good[-1], "cost": -(flow.cost * len(self.graph) + flow.edge * edges)},
            turn_rewards={"step": earned},
            info={
                GRAPH.name: [written(member) for member in self.graph],
                SAID.name: list(self.said),
                ACTIONS_TAKEN.name: len(self.actions),
                EXITED.name: exited,
            },
        )


# ---------------------------------------------------------------- lessons

PREFIX = "built:"
LESSONS = 100
"""Supervised steps after which the shipped model builds teams, any."""


class BuiltTask(TextTask):
    """The problems of another task in words, answered by a team that is built, with lessons in building.

    Args:
        inner: the task. named: its name, with settings.
    """

    def __init__(self, inner: TextTask, named: str) -> None:
        self.inner, self.name, self.extract = inner, PREFIX + named, inner.extract
        self.workflow = BuiltTeam()

    def size(self, split: Split) -> int | None:
        return self.inner.size(split)

    def scenario(self, split: Split, number: int) -> Scenario:
        return self.inner.scenario(split, number)

    def verify(self, text: str, scenario: Scenario) -> float | None:
        return self.inner.verify(text, scenario)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return self.inner.suggest(recipe)

    @property
    def lessons(self) -> Lessons:
        """A controller that knows what may be said and nothing else, and agents who answer, with slips."""
        return Lessons(
            "actions that can be carried out, drawn at random, to build a team, and its agents their roles",
            LESSONS,
            self._lesson,
            talks=4,
            then=lambda recipe: {"steps": 40, "curriculum.prompts": 8, "update.lr": 2.5e-4, "evaluation.n": 100},
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        """One episode of building, and what everybody says in it."""
        flow, said, found = self.workflow, list[str](), list[Lesson]()
        graph: Graph = ()
        system: Message = {"role": "system", "content": flow.prompts[CONTROLLER]}
        for _ in range(flow.steps):
            step = self._any(graph, rng)
            prompt = with_line(scenario.messages, built(graph, said))
            found.append(Lesson((system, *prompt), ({"role": "assistant", "content": written(step)},)))
            if isinstance(step, Member):
                asks = flow.asks(scenario.messages, step, graph, said)
                says = self._says(step.role, scenario, rng)
                role: Message = {"role": "system", "content": flow.members[step.role]}
                found.append(Lesson((role, *asks), ({"role": "assistant", "content": says},)))
                graph, said = (*graph, step), [*said, flow.cut(says)]
            elif isinstance(step, int):
                graph = without(graph, step)
                del said[step]
            else:
                break
        return found

    def _says(self, role: str, scenario: Scenario, rng: np.random.Generator) -> str:
        """What an agent says: a planner a word, others mostly what is right, else the answer of another problem."""
        if role == "planner":
            return PLANNED
        if rng.random() >= SLIPS:
            return str(scenario.metadata.get("demonstration") or f"<answer>{scenario.answer}</answer>")
        other = self.inner.scenario("train", int(rng.integers(self.inner.size("train") or 1 << 16)))
        return f"<answer>{other.answer}</answer>"

    def _any(self, graph: Graph, rng: np.random.Generator) -> Step:
        """An agent that reads any others, now and then one deleted, or the end; of a team of nobody an agent."""
        flow, roles = self.workflow, tuple(self.workflow.members)
        if graph and rng.random() < ENDS:
            return "exit"
        if len(graph) == flow.most or (graph and rng.random() < DELETES):
            return int(rng.integers(len(graph)))
        reads = tuple(place for place in range(len(graph)) if rng.random() < 0.5)
        return Member(roles[int(rng.integers(len(roles)))], reads)


SLIPS = 0.1
"""How often an agent is wrong in lessons. Agents do not learn afterwards, so the team gets no better than they are."""

PLANNED = "Step by step."
"""What a planner says in lessons."""

ENDS, DELETES = 0.4, 0.1
"""How often a beginner ends the building of a team of somebody, and else deletes an agent."""


def from_name(name: str, settings: Mapping[str, str]) -> BuiltTask:
    """The task behind the prefix."""
    from hocket import tasks

    named = name.removeprefix(PREFIX) + query_of(settings)
    inner = tasks.find(named)
    if not isinstance(inner, TextTask):
        raise ConfigurationError(f"task {name}: {named} is no task of answers in words; take one such as sums")
    return BuiltTask(inner, named)


BUILT = TaskForm(
    name="built:TASK",
    description="a task answered by a team that a controller builds, e.g. built:worked-sums; see mashost",
    make=from_name,
)


MASHOST = GRPO.but(
    name="mashost",
    title="MasHost: a controller builds the team (HRPO)",
    source="Yang et al., arXiv:2506.08507",
    family="teams",
    catalogue_ids=("mashost",),
    axes=("team", "search", "credit"),
    formula="A_it = (R_i - mean R)/(std R + eps) + lambda r_it,  R = v(answer) - cost,  "
    "r_it = v(answer with the new agent) - v(answer before) - price",
    conventions={
        **GRPO.conventions,
        "action": "a node and its edges in one answer of the controller, so drawn jointly; or delete, or exit",
        "state": "question, graph and messages in a conversation of its own at every step; workflow setting "
        "live = false builds first and lets agents act afterwards",
        "action reward": "ours, as the abstract gives none: the change in the verdict on the team's answer, "
        "less a price of 0.1; the price alone for what is taken back or unreadable; exit is free",
        "lambda": "1 in credit.weight, ours; absolute, neither centred nor scaled; of the action's own turn alone",
        "cost": "0.05 an agent, 0.01 an edge, in the reward of the whole; workflow settings cost, edge, price",
        "what is optimal": "the price is paid besides the cost, so lambda moves the trade between right and cheap",
        "who learns": "the controller; agents are the model as it was, or any others by --roles.solver.model",
        "what is answered": "any task in words, --task built:TASK, or --workflow built-team",
        "supervised start": "none; --lessons N teaches the shipped model what a controller may say",
    },
    task="built:worked-sums",
    requires=(
        Requirement.TURNS,
        Requirement.TURN_REWARDS,
    ),
    cast=Leading(leader="controller"),
    credit=EpisodeAndTurn(
        episode=GroupRelative(by=GroupBy("scenario"), scale="std"),
        turn=TurnRelative(by=GroupBy("scenario", "agent", "turn_index"), baseline="none", gamma=0.0),
        weight=1.0,
        apart=True,
    ),
    **{"objective.aggregate": "turn-mean"},
)
