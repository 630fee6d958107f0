"""Outside agents in training: each episode has a door of its own, and every call through it is recorded as a turn."""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass

from msgspec import UNSET

from hocket.agents.workflows.episode import LimitReached
from hocket.agents.workflows.foreign import Correspondent, History
from hocket.agents.workflows.reply import Reply
from hocket.apps.serve.app import build_app
from hocket.apps.serve.backend import Caller, Job
from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.event_loop import across
from hocket.apps.serve.host import ApplicationHost
from hocket.apps.serve.refusals import Refusal, template_refusals
from hocket.apps.serve.spelling import Delta, Spelling
from hocket.apps.serve.wire import AssistantMessage, ChatMessage, ChatRequest, RewardReport, ToolCall, template_message
from hocket.core.errors import ConfigurationError, HocketError
from hocket.engine.requests import ContextFull
from hocket.types import Message

BOUNDS = Bounds(requests=100_000, connections=4096, tokens=2**20, work_seconds=None)
"""Of the server inside a training process: agents are the user's own, and episodes have limits of their own."""

REMEMBERED = 10_000
"""Ended episodes that are still told from unknown ones."""

PART = 8
"""Tokens of one event of a stream."""


@dataclass(frozen=True)
class Replies:
    """What was answered to a request: a reply per choice."""

    name: str
    who: Correspondent
    prompt_tokens: int
    replies: tuple[Reply, ...]


class AgentSession:
    """One episode as its outside agent sees it; made in the loop in which the episode is played.

    Args:
        correspondents: who answers, by role. A request names the role as its model; the only role has any name.

    Attributes:
        reward, answer: as reported, None where not.
        stopped: the limit of the episode that a call has reached. broken: a mistake of the configuration that it met.
    """

    def __init__(self, correspondents: Mapping[str, Correspondent]) -> None:
        self.reward: float | None = None
        self.answer: str | None = None
        self.stopped: HocketError | None = None
        self.broken: ConfigurationError | None = None
        self._correspondents = correspondents
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()  # Calls made in it are the episode's own.
        self._named: dict[str, tuple[bytes, asyncio.Task[Replies]]] = {}
        self._finished: dict[bytes, Replies] = {}
        self._tasks: set[asyncio.Task[Replies]] = set()
        self._given: dict[object, str] = {}
        self._count = 0
        self._ended = False

    async def answered(self, caller: Caller, body: bytes, request: ChatRequest) -> Replies:
        """The answer to a request; called from another loop."""
        try:
            return await across(self._loop, lambda: self._shared(caller, body, request), self._context)
        except (asyncio.CancelledError, RuntimeError):
            if self._ended:
                raise closed() from None
            raise

    def end(self) -> None:
        """Gives up what is still being answered."""
        self._ended = True
        for task in self._tasks:
            task.cancel()

    async def _shared(self, caller: Caller, body: bytes, request: ChatRequest) -> Replies:
        """The answer, which a request that is sent again shares with the first one."""
        digest = hashlib.blake2b(body, digest_size=16).digest()
        if caller.retry is None:
            if caller.again and digest in self._finished:
                return self._finished[digest]
            # Given up when the client leaves.
            self._finished[digest] = replies = await self._begun(request)
            return replies
        first, task = self._named.get(caller.retry, (digest, None))
        if first != digest:
            raise Refusal(422, "this idempotency key was used for another request", code="idempotency_key_reused")
        if task is None or task.cancelled() or (task.done() and task.exception() is not None):
            task = self._begun(request)
            self._named[caller.retry] = digest, task
        return await asyncio.shield(task)

    def _begun(self, request: ChatRequest) -> asyncio.Task[Replies]:
        task = asyncio.get_running_loop().create_task(self._write(request))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Replies]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # Seen, also where the client has left.

    async def _write(self, request: ChatRequest) -> Replies:
        """Answers a request: a turn per choice."""
        who = self._asked(request.model)
        messages = [self._as_given(message) for message in request.messages]
        with template_refusals():
            history = who.read(messages, request.shown_tools())
        self._count += 1
        name = f"{self._count}"
        try:
            replies = await _together(who, history, request)
        except (LimitReached, ContextFull) as limit:
            self.stopped = limit
            raise Refusal(400, str(limit), code="episode_limit") from None
        except ConfigurationError as error:
            self.broken = error
            raise
        answer = Replies(name, who, len(history.context), tuple(replies))
        for place, reply in enumerate(answer.replies if request.offers_tools else ()):
            deltas = spelt(answer, place, request)
            if deltas[-1].calls:
                text = "".join(delta.text for delta in deltas)
                self._given[_signature(text, deltas[-1].calls)] = reply.text
        return answer

    def _asked(self, model: str) -> Correspondent:
        only = next(iter(self._correspondents.values())) if len(self._correspondents) == 1 else None
        correspondent = self._correspondents.get(model, only)
        if correspondent is None:
            roles = ", ".join(self._correspondents)
            raise Refusal(404, f"no role is called {model!r}: {roles}", code="model_not_found", param="model")
        return correspondent

    def _as_given(self, message: ChatMessage) -> Message:
        """A message for the template. A call of a tool that was written here is shown as it was written."""
        if isinstance(message, AssistantMessage) and message.tool_calls:
            text = template_message(message)["content"]
            written = self._given.get(_signature(text, message.tool_calls))
            if written is not None:
                return {"role": "assistant", "content": written}
        return template_message(message)


async def _together(who: Correspondent, history: History, request: ChatRequest) -> list[Reply]:
    """A reply per choice. When one fails, all do."""
    tasks: list[asyncio.Task[Reply]] = []
    try:
        for _ in range(request.choices):
            tasks.append(asyncio.create_task(who.write(history, longest=request.longest, stops=request.stops)))
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _signature(text: str, calls: Sequence[ToolCall]) -> object:
    return text, tuple((call.id, call.function.name, call.function.arguments) for call in calls)


def spelt(answer: Replies, index: int, request: ChatRequest) -> list[Delta]:
    """One reply as the client gets it: at once, or in parts where it is streamed."""
    reply = answer.replies[index]
    spelling = Spelling(
        answer.who.chat,
        index,
        stops=request.stops,
        tools=request.offers_tools,
        prompt=reply.turn.observation.tolist(),
        name=f"{answer.name}_{index}",
        logprobs=bool(request.logprobs),
    )
    tokens, logp = reply.tokens.tolist(), reply.turn.logp
    part, deltas = (PART if request.stream else max(1, len(tokens))), []
    for start in range(0, len(tokens), part):
        known = None if logp is None else logp[start : start + part].tolist()
        spelling.take(tokens[start : start + part], known)
        if start + part < len(tokens):
            deltas.append(spelling.delta())
    return [*deltas, spelling.last("length" if reply.finish == "length" else "stop")]


def closed() -> Refusal:
    """What calls of an ended episode are told."""
    return Refusal(410, "the episode has ended", code="episode_closed")


@dataclass(frozen=True)
class AgentEndpoint:
    """Where an outside agent asks.

    Attributes:
        base_url: for clients of chat completions; it names the episode, so any key will do. api_key: names it too, for
            those who use the server's plain address. reward_url: takes `{"reward": number}` by POST.
    """

    base_url: str
    api_key: str
    reward_url: str


class Gate:
    """A `Backend` for the outside agents of a run, and the server in front of it.

    Args:
        roles: names under which models answer.

    Attributes:
        starting: held by an agent that is being started.

    Raises:
        ConfigurationError: when starlette and uvicorn are not installed.
    """

    def __init__(self, roles: Sequence[str]) -> None:
        self._roles = list(roles)
        self._open: dict[str, AgentSession] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self.starting = asyncio.Lock()
        self._host = ApplicationHost(lambda: build_app(self, BOUNDS, episodes=True), bounds=BOUNDS)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The server's event loop, in a thread of its own."""
        return self._host.loop

    def close(self) -> None:
        """Stops the server."""
        self._host.close()

    @contextmanager
    def opened(self, session: AgentSession) -> Iterator[AgentEndpoint]:
        """A door for one episode, closed at the end."""
        name = secrets.token_hex(16)
        self._open[name] = session
        address = self._host.address
        try:
            yield AgentEndpoint(f"{address}/e/{name}/v1", name, f"{address}/e/{name}/reward")
        finally:
            del self._open[name]
            self._ended[name] = None
            while len(self._ended) > REMEMBERED:
                self._ended.popitem(last=False)
            session.end()

    # ------------------------------------------------------------ the backend

    def admit(self, caller: Caller) -> None:
        self._session(caller)

    def models(self) -> list[str]:
        return self._roles

    def weights(self) -> str:
        return "training"

    def report(self, caller: Caller, report: RewardReport) -> None:
        session = self._session(caller)
        if report.reward is not UNSET:
            if not math.isfinite(report.reward):
                raise Refusal(400, "the reward must be a finite number", code="invalid_value", param="reward")
            session.reward = report.reward
        if report.answer is not UNSET:
            session.answer = report.answer

    async def open(self, caller: Caller, body: bytes, request: ChatRequest) -> Job:
        if request.alternatives:
            raise Refusal(400, "in training top_logprobs can only be 0", code="invalid_value", param="top_logprobs")
        session = self._session(caller)
        answer = await session.answered(caller, body, request)
        version = answer.replies[0].turn.version
        weights = "outside" if version is None or not len(version) else f"version-{int(version[0])}"
        number = f"chatcmpl-{(caller.episode or caller.key or '')[:12]}-{answer.name}"
        return Job(number, answer.who.role, weights, answer.prompt_tokens, _deltas(answer, request))

    def _session(self, caller: Caller) -> AgentSession:
        name = caller.episode or caller.key
        if name is None:
            raise Refusal(401, "send the episode's key: authorization: Bearer KEY", code="invalid_api_key")
        session = self._open.get(name)
        if session is not None:
            return session
        if name in self._ended:
            raise closed()
        if caller.episode is None:
            raise Refusal(401, "this key belongs to no episode", code="invalid_api_key")
        raise Refusal(404, "there is no such episode", code="unknown_episode")


async def _deltas(answer: Replies, request: ChatRequest) -> AsyncGenerator[Delta, None]:
    for index in range(len(answer.replies)):
        for delta in spelt(answer, index, request):
            yield delta
