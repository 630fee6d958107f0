"""Tests of workflows without a model: an engine that answers from a script, and `rehearse`, which plays a workflow.

worker = Part("4")
trajectory, = rehearse(PlannerWorker(), scenario, {"planner": ["1. 2+2", "<answer>4</answer>"], "worker": worker})
assert trajectory.scores["team"].value == 1.0
worker.assert_asked("2+2")
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor, Verifier
from hocket.agents.workflows.workflow import Workflow
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.engine.requests import Request, Sample
from hocket.nano.tokenizer import build_tokenizer
from hocket.train.aio import run_async
from hocket.types import Assignment, Decoding, Message, Scenario, Trajectory

# ---------------------------------------------------------------- scripted responses


@dataclass(frozen=True)
class Cut:
    """A truncated response: `text` without an end-of-turn token."""

    text: str


@dataclass(frozen=True)
class Fails:
    """No response: the workflow gets `error`, as when an endpoint is down."""

    error: Exception = field(default_factory=lambda: HocketError("the model failed, as the script says"))


@dataclass(frozen=True)
class Hangs:
    """No response, ever. The rehearsal needs limits, or the workflow a timeout."""


@dataclass(frozen=True)
class Late:
    """A response after a delay of `seconds`."""

    seconds: float
    reply: str | Cut | Fails


Said = str | Cut | Fails | Hangs | Late
"""One answer of a script."""

Script = Callable[[Request], Said] | Sequence[Said]
"""The responses, in the order of the requests, or a function of the request."""

Improvised = Callable[[tuple[Message, ...]], Said | Awaitable[Said]]
"""A function from all messages that the model is shown to a response; it may be `async`."""


def tool_call(name: str, /, **arguments: Any) -> str:
    """The text with which a model calls a tool. A response may contain several calls, and text around them."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class Part:
    """The scripted responses of one role in a rehearsal, and a record of its calls.

    Args:
        replies: responses in the order of the calls; or one function of the messages.
        otherwise: the response to every later call; None makes a later call an error.

    Attributes:
        asked: the messages of each call so far, in the order of the calls.
    """

    def __init__(self, *replies: Said | Improvised, otherwise: Said | Improvised | None = None) -> None:
        improvises = len(replies) == 1 and callable(replies[0])
        self._replies: list[Said | Improvised] = [] if improvises else list(replies)
        self._otherwise = replies[0] if improvises else otherwise
        self.asked: list[tuple[Message, ...]] = []

    async def reply(self, request: Request) -> Said:
        """The next response.

        Raises:
            HocketError: when there is none.
        """
        self.asked.append(request.messages)
        reply = self._replies.pop(0) if self._replies else self._otherwise
        if reply is None:
            raise _run_out(len(self.asked) - 1)
        if not callable(reply):
            return reply
        response = reply(request.messages)
        return await response if inspect.isawaitable(response) else response

    @property
    def questions(self) -> list[str]:
        """The text of the last message of each call."""
        return [str(messages[-1].get("content")) for messages in self.asked]

    def assert_asked(self, *fragments: str) -> None:
        """Checks that there is one call per fragment, and that the last message of each call contains its fragment.

        Raises:
            AssertionError: with all questions, when the check fails.
        """
        texts = self.questions
        right = len(texts) == len(fragments) and all(part in text for part, text in zip(fragments, texts, strict=True))
        if not right:
            raise AssertionError(f"expected {_listed(fragments)}\nbut was asked {_listed(texts)}")

    def assert_shown(self, call: int, *messages: tuple[str, str]) -> None:
        """Checks all messages of a call, as pairs of role and content.

        Raises:
            AssertionError: when there was no such call, or its messages differ.
        """
        if not -len(self.asked) <= call < len(self.asked):
            raise AssertionError(f"there were {len(self.asked)} calls, so no call number {call}")
        shown = [(str(message["role"]), str(message.get("content"))) for message in self.asked[call]]
        if shown != list(messages):
            raise AssertionError(f"expected {_listed(messages)}\nbut call {call} showed {_listed(shown)}")

    def assert_done(self) -> None:
        """Checks that every response of the script was used.

        Raises:
            AssertionError: with the unused responses.
        """
        if self._replies:
            raise AssertionError(f"{len(self._replies)} answers were never asked for: {_listed(self._replies)}")


def _listed(items: Sequence[object]) -> str:
    return "nothing" if not items else "".join(f"\n  {number}. {item}" for number, item in enumerate(items))


# ---------------------------------------------------------------- the engine


class ScriptedEngine:
    """An engine that answers from a script. All log-probs are 0, because a script is deterministic.

    A response consists of the request's prefix, the tokens of the text and the end-of-turn token, truncated to
    `decoding.max_tokens`. A script that is a function may read the question with `chat.render(request.tokens)`.

    Attributes:
        requests: every request so far, in order.
    """

    def __init__(self, replies: Script | Part, chat: Chat, *, version: int = 0) -> None:
        self._replies = replies
        self._chat = chat
        self.version = version
        self.requests: list[Request] = []

    def episode(self) -> AbstractAsyncContextManager[None]:
        """A context without effect: nothing waits for other episodes."""
        return nullcontext()

    async def submit(self, request: Request) -> Sample:
        """The next scripted response.

        Raises:
            HocketError: when the script has run out.
        """
        if isinstance(self._replies, Part):
            self.requests.append(request)
            reply: Said = await self._replies.reply(request)
        else:
            reply = self._next(request)
        if isinstance(reply, Late):
            await asyncio.sleep(reply.seconds)
            reply = reply.reply
        if isinstance(reply, Hangs):
            await asyncio.Event().wait()
        return self._response(request, reply)

    def sample(self, requests: list[Request]) -> list[Sample]:
        """The scripted responses to all requests, in their order."""
        return [self._sample(request) for request in requests]

    def _sample(self, request: Request) -> Sample:
        return self._response(request, self._next(request))

    def _next(self, request: Request) -> Said:
        self.requests.append(request)
        if isinstance(self._replies, Part):
            raise HocketError("a Part answers workflows only; give a list or a function of the request")
        if callable(self._replies):
            return self._replies(request)
        if len(self.requests) > len(self._replies):
            raise _run_out(len(self._replies))
        return self._replies[len(self.requests) - 1]

    def _response(self, request: Request, reply: Said) -> Sample:
        """A scripted reply as a sample."""
        if isinstance(reply, Fails):
            raise reply.error
        if isinstance(reply, (Late, Hangs)):
            raise HocketError(f"{reply} needs a workflow that waits for it")
        text, end = (reply.text, ()) if isinstance(reply, Cut) else (reply, (self._chat.end_of_turn,))
        complete = (*request.prefix, *self._chat.encode(text, request.prefix), *end)
        tokens = np.array(complete[: request.decoding.max_tokens], np.int64)
        return Sample(
            tokens=tokens,
            logp=np.zeros(len(tokens), np.float32),
            finish="stop" if end and len(tokens) == len(complete) else "length",
            version=self.version,
            forced=np.arange(len(tokens)) < len(request.prefix),
        )


def _run_out(count: int) -> HocketError:
    return HocketError(f"the script has {count} replies and a further one was asked for; lengthen the script")


def rehearse(
    workflow: Workflow,
    scenario: Scenario,
    replies: Script | Part | Mapping[str, Script | Part],
    *,
    samples: int = 1,
    decoding: Decoding | None = None,
    limits: Limits | None = None,
    chat: Chat | None = None,
    seed: int = 0,
    verifier: Verifier | None = None,
) -> list[Trajectory]:
    """Plays a workflow from a script: one for all roles, or one per role.

    Args:
        workflow, scenario: what is played. samples: the number of episodes; all read from the same script.
        replies: the script. decoding: the length limit and stop strings of responses.
        limits: the limits of an episode. chat: the tokenizer and its template, the nano model's by default.
        seed: of `team.key`. verifier: the function that `team.verify` calls, such as a task's `verify`.
    """
    chat = chat or Chat(build_tokenizer())
    missing = [role for role in workflow.roles if isinstance(replies, Mapping) and role not in replies]
    if missing:
        raise ConfigurationError(f"replies has no script for role {missing[0]!r}; add one")
    common = None if isinstance(replies, Mapping) else ScriptedEngine(replies, chat)
    actors = {}
    for role in workflow.roles:
        engine = ScriptedEngine(replies[role], chat) if isinstance(replies, Mapping) else common
        assert engine is not None
        actors[role] = Actor(role, engine, chat)
    player = TextPlayer(workflow, actors, limits or Limits(), verifier=verifier)
    assignment = Assignment(scenario, samples=samples, decoding=decoding or replace(Decoding(), max_tokens=1024))
    return run_async(player.play([assignment], key=Key.of(seed)))
