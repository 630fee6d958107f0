"""Agents: each keeps a conversation with its policy, and every answer is recorded as a `Turn` with exact tokens."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from hocket.agents.workflows.candidates import Candidate, Judge, chosen, judged
from hocket.agents.workflows.chat import Tokens, Tools
from hocket.agents.workflows.chat_format import ChatFormat
from hocket.agents.workflows.episode import Episode
from hocket.agents.workflows.message_history import MessageHistory
from hocket.agents.workflows.reply import Reply
from hocket.core.candidates import Branching
from hocket.core.columns import CALL, CONVERSATION
from hocket.core.errors import ConfigurationError, HocketError, nearest
from hocket.core.keys import Key
from hocket.core.media import reader_of
from hocket.engine.requests import Engine, Request, Sample
from hocket.types import Assignment, Decoding, Message, Scenario, Turn


@dataclass(frozen=True)
class Actor:
    """The player of a role: the policy's name, its engine, its chat template, and overrides of `Decoding`.

    Where nobody `learns` (a model behind an endpoint), decisions count as imposed: they are context for the others
    and carry no credit.
    """

    policy: str
    engine: Engine
    chat: ChatFormat
    decoding: Mapping[str, Any] = field(default_factory=dict)
    learns: bool = True

    def __post_init__(self) -> None:
        known = {setting.name for setting in fields(Decoding)}
        for name in self.decoding:
            if name not in known:
                raise ConfigurationError(f"decoding.{name} is not a setting of Decoding{nearest(name, known)}")


Verifier = Callable[[str, Scenario], float | None]
"""The verdict on an answer to a scenario, 1 for a right one."""

Labeller = Callable[[str, Scenario], str | None]
"""The final answer in a text as a word, by which answers to a scenario agree or differ; None without one."""

Piece = str | Reply | Message | Sequence[str | Reply | Message]
"""The input of an agent: text (a user message), another agent's reply, a chat message, or a list of these.

Texts and replies side by side in a list make one user message, a line each.
"""


@dataclass(frozen=True)
class _State:
    """Where a conversation stands: its messages, its tokens, its last turn, and the place of the call that led here."""

    messages: tuple[Message, ...] = ()
    tokens: Tokens = ()
    last: Turn | None = None
    place: int = -1


@dataclass(frozen=True)
class _Call:
    """One question to the policy: all messages, the ids that are new, and the turn they extend."""

    messages: tuple[Message, ...]
    observation: Tokens
    parent: Turn | None
    place: int
    request: Request
    state: str | None
    number: int


class Agent:
    """One role in one episode, with a conversation of its own.

    `await agent("text")` opens the conversation; called again with new messages only, it goes on: a child turn whose
    observation is exactly what is new. Messages that begin with a system message or hold an assistant's message are a
    whole history: if they continue this conversation it goes on too, otherwise a new branch is opened. A branch is
    also opened when the chat template rewrites the past.

    Calls are ordered, and draw their keys, when they are written down (`agent(...)`), not when they are answered; so
    calls given to `asyncio.gather` keep their order. Calls made while another one is pending start from the same
    state; the conversation then goes on from the one asked last.
    """

    def __init__(
        self,
        role: str,
        actor: Actor,
        episode: Episode,
        *,
        system: str | None = None,
        tools: Tools | None = None,
        key: Key | None = None,
    ) -> None:
        self.role = role
        self._key = key or episode.key
        self._actor = actor
        self._episode = episode
        self._system = system
        self._tools = tools
        self._usual = episode.assignment.decoding
        if actor.decoding:
            self._usual = replace(self._usual, **actor.decoding)
        self._state = _State()
        self._conversation = episode.conversation(role)
        self._calls = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, the agent's own replies included."""
        return self._state.messages

    @property
    def decoding(self) -> Decoding:
        """How it samples where a call does not say otherwise: the assignment's way, with its seat's overrides."""
        return self._usual

    @property
    def sees(self) -> bool:
        """Whether its model reads pictures."""
        return reader_of(getattr(self._actor.chat, "tokenizer", None)) is not None

    def fresh(self, *, system: str | None = None, tools: Tools | None = None, alike: bool = False) -> Agent:
        """An agent of the same role with an empty conversation; this one stays as it is.

        With `alike` it draws the same in all samples of the scenario, so that what others make of its answers is
        compared under equal prompts.
        """
        return Agent(
            self.role,
            self._actor,
            self._episode,
            system=self._system if system is None else system,
            tools=self._tools if tools is None else tools,
            key=self._episode.common if alike else self._key,
        )

    def encoded(self, text: str, after: Sequence[int] = ()) -> Tokens:
        """Ids of a text, to be imposed in a `prefix` that begins with the ids `after`."""
        return self._actor.chat.encode(text, after)

    def __call__(
        self, *pieces: Piece, prefix: Sequence[int] = (), state: str | None = None, decoding: Decoding | None = None
    ) -> Coroutine[Any, Any, Reply]:
        """Asks the policy; await the result.

        Args:
            pieces: the agent's new messages, or a complete history (see the class).
            prefix: response tokens imposed before sampling begins; recorded as forced.
            state: a key naming the state this turn starts from, for grouping.
            decoding: how to sample, instead of the assignment's decoding with the seat's overrides.

        Raises:
            LimitReached: when the episode has no turn or token left.
            ConfigurationError: when the chat template refuses the messages.
        """
        return self._episode.given(self.role, self._answered(self._question(pieces, prefix, state, decoding)))

    def candidates(
        self, *pieces: Piece, score: Judge, state: str | None = None, decoding: Decoding | None = None
    ) -> Coroutine[Any, Any, Reply]:
        """Asks for several answers to one question, scores each, and goes on with one; see the module `candidates`.

        How many are drawn, and which is taken, the rollout says; where it says one (evaluation does), this is a plain
        call and nothing is scored. The first candidate is the answer that a plain call would have given.

        Args:
            pieces, state, decoding: as in a plain call.
            score: what a reply is worth; it must leave the episode as it is, since only one reply is executed.
        """
        return self._episode.given(self.role, self._chosen(pieces, score, state, decoding))

    async def _chosen(
        self, pieces: Sequence[Piece], score: Judge, state: str | None, decoding: Decoding | None
    ) -> Reply:
        call = self._question(pieces, (), state, decoding)
        branching = self._episode.assignment.option(Branching) or Branching()
        if branching.candidates == 1:
            return await self._answered(call)
        keys = [call.request.key.derive("candidate", number) for number in range(1, branching.candidates)]
        requests = [call.request, *(replace(call.request, key=key) for key in keys)]
        samples = await asyncio.gather(*(self._episode.sample(self._actor.engine, request) for request in requests))
        turns = [self._turn(call, sample) for sample in samples]
        replies = [Reply(turn.text, turn.action, turn.finish, turn) for turn in turns]
        rewards = [await judged(score, reply, branching) for reply in replies]
        taken = chosen(rewards, branching)
        self._episode.candidates += [
            Candidate(call.place, number, turn, reward, number == taken)
            for number, (turn, reward) in enumerate(zip(turns, rewards, strict=True))
        ]
        return self._taken(call, turns[taken])

    def _question(
        self, pieces: Sequence[Piece], prefix: Sequence[int], state: str | None, decoding: Decoding | None
    ) -> _Call:
        """A question, with its place and key."""
        decoding = decoding or self._usual
        messages, observation, parent = self._extended(_messages(pieces))
        context = observation if parent is None else self._state.tokens + observation
        place, longest = self._episode.begin(self.role, decoding.max_tokens)
        key = self._key.derive(self.role, self._conversation, self._calls)
        if longest < decoding.max_tokens:
            decoding = replace(decoding, max_tokens=longest)
        request = Request(context, decoding, key, tuple(prefix), messages)
        call = _Call(messages, observation, parent, place, request, state, self._calls)
        self._calls += 1
        return call

    async def _answered(self, call: _Call) -> Reply:
        again = self._episode.again((self.role, self._conversation, call.number), call.place, call.messages)
        if again is not None:
            return self._taken(call, again)
        sample = await self._episode.sample(self._actor.engine, call.request)
        return self._taken(call, self._turn(call, sample))

    def _taken(self, call: _Call, turn: Turn) -> Reply:
        """Goes on from an answer."""
        self._episode.record(call.place, turn)
        if call.place > self._state.place:
            message: Message = {"role": "assistant", "content": turn.text}
            tokens = call.request.tokens + tuple(turn.action.tolist())
            self._state = _State((*call.messages, message), tokens, turn, call.place)
        return Reply(turn.text, turn.action, turn.finish, turn)

    def _extended(self, new: tuple[Message, ...]) -> tuple[tuple[Message, ...], Tokens, Turn | None]:
        """All messages, the ids that are new, and the turn they extend (None opens a conversation or a branch)."""
        if not new:
            raise HocketError(f"agent {self.role!r} was called without a message; pass text or chat messages")
        past, last, chat = self._state.messages, self._state.last, self._actor.chat
        if last is None or _whole(new):
            new = headed(new, self._system)
            if last is None or len(new) <= len(past) or new[: len(past)] != past:
                return new, chat.opening(new, self._tools), None
            new = new[len(past) :]
        messages = (*past, *new)
        grown = chat.grown(past[:-1], last.action.tolist(), new, self._tools, past[-1])
        if grown is None:
            return messages, chat.opening(messages, self._tools), None
        return messages, grown, last

    def _turn(self, call: _Call, sample: Sample) -> Turn:
        text = sample.text
        if text is None:
            text = self._actor.chat.reply_text(sample.tokens.tolist(), call.observation)
        imposed = np.zeros(len(sample.tokens), np.bool_)
        imposed[: len(sample.forced)] = sample.forced
        return Turn(
            agent=self.role,
            role=self.role,
            policy=self._actor.policy,
            observation=np.asarray(call.observation, np.int64),
            action=sample.tokens,
            logp=sample.logp,
            version=sample.written_by,
            forced=imposed | (not self._actor.learns),
            parent=call.parent,
            state=call.state,
            finish=sample.finish,
            text=text,
            prompt=MessageHistory.of(call.messages, call.parent),
            decoding=call.request.decoding,
            extras={CONVERSATION.name: self._conversation, CALL.name: call.number, **sample.extras},
        )


class Team:
    """One agent per role, as attributes (`team.planner`) or items (`team["planner"]`).

    Attributes:
        assignment: the scenario and how it is sampled, with hint and prefix.
        key: for the workflow's own draws (`team.key.derive("shuffle").numpy()`); never use a global generator.
        common_key: likewise, for draws that all samples of the scenario share.
    """

    def __init__(
        self,
        agents: Mapping[str, Agent],
        assignment: Assignment,
        key: Key,
        verifier: Verifier | None = None,
        common_key: Key | None = None,
        labeller: Labeller | None = None,
    ) -> None:
        self._agents = dict(agents)
        self._verifier = verifier
        self._labeller = labeller
        self.assignment = assignment
        self.key = key
        self.common_key = common_key or key

    def prompted(self, prompts: Mapping[str, str]) -> Team:
        """The team with these system prompts, by role; its agents' conversations are empty."""
        agents = {role: agent.fresh(system=prompts.get(role)) for role, agent in self._agents.items()}
        return Team(agents, self.assignment, self.key, self._verifier, self.common_key, self._labeller)

    def verify(self, answer: str | Reply, scenario: Scenario | None = None) -> float:
        """The task's verdict on an answer to the scenario of this episode (or another), 0 without an opinion.

        Raises:
            ConfigurationError: when the task has no verifier.
        """
        if self._verifier is None:
            raise ConfigurationError(
                "the workflow asks the task to verify an answer, but the task has no verify(text, scenario); give it "
                "one, or choose another task"
            )
        return float(self._verifier(str(answer), scenario or self.assignment.scenario) or 0.0)

    def label(self, answer: str | Reply, scenario: Scenario | None = None) -> str | None:
        """The final answer in a reply as a word, as the task reads it; the whole text where the task does not say."""
        if self._labeller is None:
            return str(answer).strip() or None
        return self._labeller(str(answer), scenario or self.assignment.scenario)

    def __getitem__(self, role: str) -> Agent:
        try:
            return self._agents[role]
        except KeyError:
            raise ConfigurationError(f"the workflow has no role {role!r}{nearest(role, self._agents)}") from None

    def __getattr__(self, role: str) -> Agent:
        if role.startswith("_"):
            raise AttributeError(role)
        return self[role]


def headed(messages: tuple[Message, ...], system: str | None) -> tuple[Message, ...]:
    """The messages with a system prompt in front, unless they bring their own."""
    if system is None or (messages and messages[0]["role"] == "system"):
        return messages
    return ({"role": "system", "content": system}, *messages)


def _whole(messages: tuple[Message, ...]) -> bool:
    """Whether messages to a running conversation are a whole history instead of the new messages."""
    return messages[0]["role"] == "system" or any(message["role"] == "assistant" for message in messages)


def _messages(pieces: Sequence[Piece]) -> tuple[Message, ...]:
    messages: list[Message] = []
    for piece in pieces:
        if isinstance(piece, (str, Reply)):
            messages.append({"role": "user", "content": str(piece)})
        elif isinstance(piece, Mapping):
            messages.append(_message(piece))
        elif isinstance(piece, Sequence):
            messages.extend(_listed(piece))
        else:
            _message(piece)
    return tuple(messages)


def _message(piece: object) -> Message:
    """A chat message, if it is one."""
    if isinstance(piece, Mapping) and isinstance(piece.get("role"), str):
        return piece
    if inspect.iscoroutine(piece):
        raise TypeError("an agent was given a reply that is not there yet; await the call first")
    raise TypeError(
        f"an agent was given {piece!r}; give it text, a reply, a message such as {{'role': 'user', 'content': '..'}}, "
        "or a list of these"
    )


def _listed(pieces: Sequence[str | Reply | Message]) -> list[Message]:
    messages: list[Message] = []
    lines: list[str] = []
    for piece in [*pieces, None]:
        if isinstance(piece, (str, Reply)):
            lines.append(str(piece))
            continue
        if lines:
            messages.append({"role": "user", "content": "\n".join(lines)})
            lines = []
        if piece is not None:
            messages.append(_message(piece))
    return messages
