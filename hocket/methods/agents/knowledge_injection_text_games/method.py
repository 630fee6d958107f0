"""Knowledge injected into text games: what worked before, and which verbs fit which objects (Chhikara et al.).

Agents of text games waste moves on what the world does not accept. Two kinds of knowledge are injected into what they
are told: a memory of the moves of this episode that were accepted, and the affordances of the objects at hand. How they
learn stays as it is; what is new is what is told, and where (`Knowledge`): in lines of the text, or as triples of a
graph. Any environment can remember; affordances come from those that have them (`devices`, `household`, an attribute
`affordances` of one's own).

There are three hosts. A language model says its moves and is told in lines. A network that scores every verb with every
object (`commands:devices`, `hocket.methods.agents.knowledge_injection_text_games.reader`) reads the text by a recurrent
unit; with a graph it also reads triples by graph attention (`commands:informed:devices?form=graph`). Both are control
policies of any recipe.

`informed:TASK` is a task that is told so, its lessons too; `--workflow informed` does it to the task of a run. Legal
moves are not listed, for a list of them leaves nothing to be known.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

from hocket.agents.environments.protocol import Environment, Observation, World
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.methods.agents.knowledge_injection_text_games.commands import Triple
from hocket.methods.base.grpo import GRPO
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lessons
from hocket.tasks.nested_task import NestedTask, found_within
from hocket.types import Scenario

Kind = Literal["both", "affordances", "memory", "none"]
Place = Literal["after", "before", "start"]
Kept = Literal["accepted", "scored"]
Form = Literal["text", "graph"]

AFFORDS, WORKED = "affords", "worked"
"""The relations of an object to a verb that fits it, and to one by which a move was accepted."""


@dataclass(frozen=True)
class Knowledge:
    """What is told besides, and where.

    Attributes:
        kind: which knowledge. at: `after` what is seen, `before` it, or at the `start` of an episode alone, when there
            is nothing to remember. kept: whether the memory holds moves that were `accepted`, as legal ones are, or
            those alone that `scored`, that is, earned more than nothing. most: of moves remembered, the latest.
        shuffled: tell wrong knowledge of the same form: each object has as many verbs as it affords, drawn from all,
            and moves are remembered with an object that is drawn.
        listed: whether legal moves are listed as well. form: lines of `text`, or triples of a `graph`.

    Raises:
        ConfigurationError: for settings out of range.
    """

    kind: Kind = "both"
    at: Place = "after"
    kept: Kept = "accepted"
    most: int = 8
    shuffled: bool = False
    listed: bool = False
    form: Form = "text"

    def __post_init__(self) -> None:
        for name, choices in (("kind", Kind), ("at", Place), ("kept", Kept), ("form", Form)):
            given = getattr(self, name)
            if given not in get_args(choices):
                known = get_args(choices)
                raise ConfigurationError(
                    f"informed: {name} is one of {', '.join(known)}, not {given!r}{nearest(str(given), known)}"
                )
        if self.most < 1:
            raise ConfigurationError(f"informed: most is how many moves are remembered, at least 1, not {self.most}")

    @property
    def affords(self) -> bool:
        """Whether affordances are told."""
        return self.kind in ("both", "affordances")

    @property
    def remembers(self) -> bool:
        """Whether moves are."""
        return self.kind in ("both", "memory")


@dataclass(frozen=True)
class InformedWorld:
    """A world whose agents are told what is known of it."""

    within: World
    knowledge: Knowledge

    @property
    def name(self) -> str:
        return self.within.name

    @property
    def agents(self) -> tuple[str, ...]:
        return self.within.agents

    @property
    def cooperative(self) -> bool:
        """As within."""
        return bool(getattr(self.within, "cooperative", False))

    @property
    def concurrent(self) -> int | None:
        """As within."""
        return getattr(self.within, "concurrent", None)

    def make(self, scenario: Scenario) -> Informed:
        return Informed(self.within.make(scenario), self.knowledge)


class Informed(Environment):
    """An environment as it is, and what is known of it in what it tells.

    Raises:
        ConfigurationError: where affordances are to be told and the environment has none.
    """

    def __init__(self, within: Environment, knowledge: Knowledge) -> None:
        if knowledge.affords and not hasattr(within.bare, "affordances"):
            raise ConfigurationError(
                f"{type(within.bare).__name__} does not say what its objects afford; set kind=memory, or give it an "
                "attribute `affordances`, the verbs by object"
            )
        self.within, self.knowledge = within, knowledge
        self.agents, self.blocking = within.agents, within.blocking
        self._key = Key.of(0)
        self._worked: Mapping[str, tuple[str, ...]] = {}
        self._begun: frozenset[str] = frozenset()

    # ------------------------------------------------------------ what is known

    @property
    def affordances(self) -> Mapping[str, tuple[str, ...]]:
        """The verbs by object that are told, wrong ones where it is `shuffled`."""
        table: Mapping[str, Sequence[str]] = getattr(self.within.bare, "affordances", {})
        if not self.knowledge.shuffled:
            return {name: tuple(verbs) for name, verbs in table.items()}
        every = _verbs(self.within.bare, table)
        return {name: self._drawn(every, len(verbs), name) for name, verbs in table.items()}

    def remembered(self, agent: str) -> tuple[str, ...]:
        """The moves that an agent is told it made, each once, the latest last."""
        worked = self._worked.get(agent, ())
        if self.knowledge.shuffled:
            worked = tuple(self._elsewhere(move, place) for place, move in enumerate(worked))
        return tuple(reversed(dict.fromkeys(reversed(worked))))[-self.knowledge.most :]

    @property
    def relations(self) -> tuple[str, ...]:
        """Those of `triples`; none where knowledge is told in lines."""
        return (AFFORDS, WORKED) if self.knowledge.form == "graph" else ()

    def triples(self, agent: str) -> tuple[Triple, ...]:
        """What an agent is told as a graph: of each object the verbs that fit, and those of moves that it made."""
        if not self.relations or self._late(agent):
            return ()
        table = self.affordances if self.knowledge.affords else {}
        fits = [(name, AFFORDS, verb) for name, verbs in table.items() for verb in verbs]
        moves = self.remembered(agent) if self.knowledge.remembers else ()
        made = [(name, WORKED, move.removesuffix(name).rstrip()) for move in moves if (name := self._object(move))]
        return (*fits, *made)

    def told(self, agent: str) -> str:
        """What an agent is told in lines besides what it sees; nothing where that is nothing."""
        if self.relations or self._late(agent):
            return ""
        lines = []
        if self.knowledge.affords:
            table = "; ".join(f"{', '.join(verbs)} {name}" for name, verbs in self.affordances.items())
            lines.append(f"Fits: {table}.")
        moves = self.remembered(agent) if self.knowledge.remembers else ()
        if moves:
            lines.append(f"Worked: {'; '.join(moves)}.")
        return "\n".join(lines)

    def _drawn(self, stock: Sequence[str], count: int, *names: str | int) -> tuple[str, ...]:
        """Some of a stock, in an order that is drawn once for the episode."""
        order = self._key.derive("wrong", *names).numpy().permutation(len(stock))
        return tuple(stock[place] for place in order[:count].tolist())

    def _late(self, agent: str) -> bool:
        """Whether it is told at the start alone, and that is over."""
        return self.knowledge.at == "start" and agent in self._begun

    @property
    def _objects(self) -> tuple[str, ...]:
        return tuple(getattr(self.within.bare, "affordances", ()))

    def _object(self, move: str) -> str | None:
        """The object that a move names, by its whole name."""
        return max((name for name in self._objects if move.endswith(f" {name}")), key=len, default=None)

    def _elsewhere(self, move: str, place: int) -> str:
        """A move with another object in the place of its own."""
        own = self._object(move)
        return move if own is None else move.removesuffix(own) + self._drawn(self._objects, 1, "move", place)[0]

    # ------------------------------------------------------------ the protocol

    def reset(self, key: Key) -> None:
        self.within.reset(key)
        self._key, self._worked, self._begun = key.derive("informed"), {}, frozenset()

    @property
    def acting(self) -> tuple[str, ...]:
        return self.within.acting

    def observe(self, agent: str) -> Observation:
        seen = self.within.observe(agent)
        told = self.told(agent)
        found = seen if self.knowledge.listed or not seen.actions else replace(seen, actions=None)
        if not told:
            return found
        news = None if seen.news is None else self._joined(seen.news, told)
        return replace(found, text=self._joined(seen.text, told), news=news)

    def _joined(self, seen: str, told: str) -> str:
        return f"{told}\n{seen}" if self.knowledge.at == "before" else f"{seen}\n{told}"

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        before = Counter(self.within.illegal)
        earned = self.within.act(moves)
        after = Counter(self.within.illegal)
        worked = dict(self._worked)
        for agent, move in moves.items():
            scored = self.knowledge.kept == "accepted" or earned.get(agent, 0.0) > 0
            if scored and after[agent] == before[agent]:
                worked[agent] = (*worked.get(agent, ()), " ".join(move.lower().split()).removesuffix("."))
        self._worked, self._begun = worked, self._begun | moves.keys()
        return earned

    @property
    def truncated(self) -> bool:
        return self.within.truncated

    @property
    def parts(self) -> Mapping[str, Mapping[str, float]]:
        return self.within.parts

    @property
    def illegal(self) -> Mapping[str, int]:
        return self.within.illegal

    def clone(self) -> Self:
        twin = copy.copy(self)
        twin.within = self.within.clone()
        return twin

    def close(self) -> None:
        self.within.close()

    @property
    def bare(self) -> Environment:
        return self.within.bare


def _verbs(environment: Environment, table: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """All verbs of a world: those that it names, else those that fit something."""
    named: Sequence[str] | None = getattr(environment, "verbs", None)
    return tuple(named or sorted({verb for verbs in table.values() for verb in verbs}))


def informed(flow: PlayEnvironment, knowledge: Knowledge) -> PlayEnvironment:
    """The play of an environment, told what is known; one that is told already stays as it is."""
    return flow if isinstance(flow.world, InformedWorld) else replace(flow, world=InformedWorld(flow.world, knowledge))


# ---------------------------------------------------------------- by name


class InformedPlay(Workflow):
    """The task's own environment, told what is known of it; settings are those of `Knowledge`.

    Raises:
        ConfigurationError: when it plays a task that is no environment.
    """

    name = "informed"
    description = "an environment whose agents are told what worked and which verbs fit; task devices, household"

    roles = ("policy",)
    scores = True

    def __init__(
        self,
        kind: str = "both",
        at: str = "after",
        kept: str = "accepted",
        most: int = 8,
        shuffled: bool = False,
        listed: bool = False,
        form: str = "text",
    ) -> None:
        self.knowledge = Knowledge(kind, at, kept, most, shuffled, listed, form)  # type: ignore[arg-type]

    def around(self, own: Workflow) -> Workflow:
        return informed(own, self.knowledge) if isinstance(own, PlayEnvironment) else self

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        raise ConfigurationError(
            "workflow informed tells what is known of an environment, and the task is none; take one such as devices "
            "or household"
        )


PREFIX = "informed:"


@dataclass(frozen=True)
class InformedTask(NestedTask):
    """A task of an environment whose agents are told what is known."""

    prefix = PREFIX

    @property
    def lessons(self) -> Lessons | None:
        """The inner task's, told the same."""
        return replace(self.inner, workflow=self.workflow).lessons


HINTS = {"kind": str, "at": str, "kept": str, "most": int, "shuffled": bool, "listed": bool, "form": str}


def from_name(name: str, settings: Mapping[str, str]) -> InformedTask:
    """The task behind the prefix; settings of `Knowledge` are taken out of its own."""
    inner, mine, named = found_within(PREFIX, name, settings, HINTS)
    flow = informed(inner.workflow, Knowledge(**mine))
    return InformedTask(flow, inner.seat, inner.measure, inner=inner, named=named)


INFORMED = TaskForm(
    name="informed:TASK",
    description="an environment whose agents are told what worked and which verbs fit, e.g. informed:devices?kind=none",
    make=from_name,
)


# ---------------------------------------------------------------- how it is learnt

KNOWLEDGE_INJECTION_TEXT_GAMES = GRPO.but(
    name="knowledge-injection-text-games",
    title="Text-game agents told what worked before and which verbs fit which objects",
    source="Chhikara et al., Knowledge-enhanced Agents for Interactive Text Games (abstract)",
    family="agents",
    catalogue_ids=("knowledge-injection-text-games",),
    axes=("policy", "data", "environment"),
    formula=f"{GRPO.formula};  pi(a | o, k),  k: moves of this episode that were accepted, verbs that fit each object; "
    "in lines of o, or triples (OBJECT, affords, VERB), (OBJECT, worked, VERB) of a graph that attention reads",
    conventions={
        **GRPO.conventions,
        "host": "a language model by GRPO; the learning rule of any recipe stays as it is with --workflow informed",
        "hosts that score moves": "control policies by any recipe, such as ppo, on commands:informed:TASK: all verbs "
        "with all objects, from the text alone, or with form=graph from triples too; graph=true has a graph without "
        "injected ones. One head of one layer of attention reads them, and a command is scored by its nodes; KG-A2C "
        "pools the graph and decodes",
        "graph": "(you, sees, OBJECT) of objects that the text names; injected (OBJECT, affords, VERB) and (OBJECT, "
        "worked, VERB)",
        "memory": "legal moves of this episode, each once, the latest 8; kept=scored holds those alone that earned",
        "affordances": "all objects at hand with the verbs that fit them at some time, by the world's own table",
        "place": "lines after what is seen, in every turn; at=before or at=start elsewhere, chosen here",
        "legal moves": "not listed (listed=true does)",
    },
    task="informed:devices",
    requires=(Requirement.TURNS,),
    workflow="informed",
)
