"""Two agents with half of a map each agree on a route; and one agent alone, for comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Agent, Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core.columns import MESSAGES, InfoColumn
from hocket.core.markup import ANSWER
from hocket.types import Message, Scenario

Route = tuple[str, ...]

ROUTE_AGREED = InfoColumn("agreed", "Whether the pair agreed on one route.")

SYSTEM = (
    "You and your partner see different parts of a maze. Talk until you agree on one route, and give it as "
    "<answer>east, south, ..</answer>. The first route that both of you give is taken."
)
ALONE = "Find a route through the maze and give it as <answer>east, south, ..</answer>."

_WORDS = {"north": "north", "east": "east", "south": "south", "west": "west"}
_WORDS |= {"up": "north", "right": "east", "down": "south", "left": "west"}
_MOVE = re.compile(rf"\b({'|'.join(_WORDS)})\b", re.IGNORECASE)
_AGREES = re.compile(r"\bagreed?\b", re.IGNORECASE)
_REFUSES = re.compile(r"\b(disagree\w*|(not|cannot|never|\w+n't)\s+(\w+\s+)?agreed?)\b", re.IGNORECASE)


def route_in(text: str) -> Route | None:
    """The moves in a message: in its last answer tags, else of a message of nothing but moves; None without any."""
    tagged = ANSWER.findall(text)
    said = tagged[-1] if tagged else text
    moves = tuple(_WORDS[word.lower()] for word in _MOVE.findall(said))
    if tagged:
        return moves or None
    rest = _MOVE.sub(" ", said)
    return moves if moves and not re.search(r"\w", rest) else None


def agrees(text: str) -> bool:
    """Whether a message accepts what its partner proposed, without giving a route of its own."""
    return route_in(text) is None and bool(_AGREES.search(text)) and not _REFUSES.search(text)


@dataclass
class Agreement:
    """What is agreed so far. A route is agreed when one gives it and it is the other's latest, or is accepted.

    Attributes:
        routes: the latest of each speaker.
    """

    routes: dict[str, Route] = field(default_factory=dict)

    def hear(self, speaker: str, text: str) -> Route | None:
        """The route that this message settles, if it does."""
        others = {who: route for who, route in self.routes.items() if who != speaker}
        own = route_in(text)
        if own is not None:
            self.routes[speaker] = own
            return own if own in others.values() else None
        return next(iter(others.values())) if others and agrees(text) else None


def agreed_route(transcript: Sequence[tuple[str, str]]) -> Route | None:
    """The first route that is agreed in a transcript of speakers and messages."""
    talk = Agreement()
    return next((route for who, text in transcript if (route := talk.hear(who, text)) is not None), None)


@dataclass(frozen=True)
class SplitMap(Workflow):
    """Alice and Bob talk in turn, each seeing half of a map, until both gave one route: the collaboration gap.

    After "The Collaboration Gap" (arXiv 2511.02687). The maps are `metadata["halves"]`, two texts, and
    `metadata["map"]`, the whole. The answer is the agreed route in tags, none where they did not agree, and the task's
    verdict on it the reward. `info` has `agreed` and `messages`.

    With `relay` r the first r messages, of both sides, are the role `opener`'s, which then hands over the dialogue as
    it stands: relay inference. To mix a pair, give the roles different models.

    Attributes:
        see: `halves` is the pair; `merged` is one agent with both halves, and `whole` one with the map, who answer in
            one message that is read in the same way.
        messages: of a dialogue at most. relay: the first messages that are the opener's.
        system: told to all, None for nothing; of one agent alone it is `alone`.
    """

    name = "split-map"
    description = "two with half of a map each agree on a route, e.g. split-map?relay=2"

    see: Literal["halves", "merged", "whole"] = "halves"
    messages: int = 10
    relay: int = 0
    system: str | None = SYSTEM
    alone: str | None = ALONE

    scores = True

    def __post_init__(self) -> None:
        if self.see not in ("halves", "merged", "whole"):
            raise ValueError(f"see must be 'halves', 'merged' or 'whole', not {self.see!r}")
        if self.messages < 2 or not 0 <= self.relay <= self.messages:
            raise ValueError(
                f"messages must be at least 2 and relay in 0 to messages, not {self.messages} and {self.relay}"
            )
        pair = ("opener", "alice", "bob") if self.relay else ("alice", "bob")
        object.__setattr__(self, "roles", pair if self.see == "halves" else ("policy",))

    @property
    def prompts(self) -> Mapping[str, str]:
        said = self.system if self.see == "halves" else self.alone
        return {} if said is None else dict.fromkeys(self.roles, said)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        if self.see != "halves":
            return await self._solo(scenario, team)
        halves: Sequence[str] = scenario.metadata["halves"]
        talk, lines = Agreement(), _Lines(team, asked(team.assignment), halves)
        for number in range(self.messages):
            side = number % 2
            reply = await lines.say(side, "opener" if number < self.relay else ("alice", "bob")[side])
            route = talk.hear(("alice", "bob")[side], reply.text)
            if route is not None:
                return _outcome(team, route, number + 1)
        return _outcome(team, None, self.messages)

    async def _solo(self, scenario: Scenario, team: Team) -> Outcome:
        about = scenario.metadata
        parts = [f"Part {number}:\n{half}" for number, half in enumerate(about["halves"], 1)]
        maps = parts if self.see == "merged" else [about["map"]]
        reply = await team.policy(with_line(asked(team.assignment), "\n".join(maps)))
        return _outcome(team, route_in(reply.text), 1)


class _Lines:
    """The dialogue as each side sees it. Whoever speaks for a side is told all that the side said and heard."""

    def __init__(self, team: Team, question: tuple[Message, ...], halves: Sequence[str]) -> None:
        self._team = team
        self._told = [with_line(question, f"You see:\n{half}") for half in halves]
        self._agents: dict[tuple[int, str], Agent] = {}
        self._last: Reply | None = None

    async def say(self, side: int, role: str) -> Reply:
        """The next message of a side, spoken by a role."""
        if self._last is not None:
            heard = f"{('Alice', 'Bob')[1 - side]}: {self._last}"
            opened = any(message["role"] == "assistant" for message in self._told[side])
            new: Message = {"role": "user", "content": heard}
            self._told[side] = (*self._told[side], new) if opened else with_line(self._told[side], heard)
        agent = self._agents.setdefault((side, role), self._team[role].fresh())
        reply = await agent(*self._told[side])
        said: Message = {"role": "assistant", "content": reply.text}
        self._told[side], self._last = (*self._told[side], said), reply
        return reply


def _outcome(team: Team, route: Route | None, messages: int) -> Outcome:
    answer = None if route is None else f"<answer>{', '.join(route)}</answer>"
    verdict = 0.0 if answer is None else team.verify(answer)
    return Outcome(
        answer, rewards={"task": verdict}, info={ROUTE_AGREED.name: route is not None, MESSAGES.name: messages}
    )
