"""Workflows without weights: an engine that answers from a script, and a rehearsal in one call.

trajectory, = rehearse(PlannerWorker(), scenario, {"planner": ["1. 2+2", "<answer>4</answer>"], "worker": ["4"]})
assert trajectory.scores["team"].value == 1.0
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace

import numpy as np

from hocket.engine.requests import Request, Sample
from hocket.errors import ConfigurationError, HocketError
from hocket.keys import Key
from hocket.nano.tokenizer import build_tokenizer
from hocket.types import Assignment, Decoding, Scenario, Trajectory
from hocket.workflows import Chat, Limits, Seat, TextPlayer, Workflow
from hocket.workflows.team import Verifier

Script = Callable[[Request], str] | Sequence[str]
"""What is answered: texts in the order of the requests, or a function of the request."""


class ScriptedEngine:
    """An engine that answers from a script, with log-prob 0 (a script is certain).

    A response is the request's prefix, then the text's tokens and the end-of-turn token, cut after
    `decoding.max_tokens`. A function as script may read the question with `chat.render(request.tokens)`.

    Attributes:
        requests: every request so far, in order.
    """

    def __init__(self, replies: Script, chat: Chat, *, version: int = 0) -> None:
        self._replies = replies
        self._chat = chat
        self.version = version
        self.requests: list[Request] = []

    def episode(self) -> AbstractAsyncContextManager[None]:
        """Nothing to wait for: every request is answered at once."""
        return nullcontext()

    async def submit(self, request: Request) -> Sample:
        """The next scripted answer.

        Raises:
            HocketError: when the script has run out.
        """
        return self._sample(request)

    def sample(self, requests: list[Request]) -> list[Sample]:
        """The scripted answers to all requests, in the order given."""
        return [self._sample(request) for request in requests]

    def _sample(self, request: Request) -> Sample:
        self.requests.append(request)
        text = self._reply(request)
        whole = (*request.prefix, *self._chat.encode(text), self._chat.end_of_turn)
        tokens = np.array(whole[: request.decoding.max_tokens], np.int64)
        return Sample(
            tokens=tokens,
            logp=np.zeros(len(tokens), np.float32),
            finish="stop" if len(tokens) == len(whole) else "length",
            version=self.version,
            forced=np.arange(len(tokens)) < len(request.prefix),
        )

    def _reply(self, request: Request) -> str:
        if callable(self._replies):
            return self._replies(request)
        if len(self.requests) > len(self._replies):
            raise HocketError(
                f"the script has {len(self._replies)} replies and a further one was asked for; lengthen the script"
            )
        return self._replies[len(self.requests) - 1]


def rehearse(
    workflow: Workflow,
    scenario: Scenario,
    replies: Script | Mapping[str, Script],
    *,
    samples: int = 1,
    decoding: Decoding | None = None,
    limits: Limits | None = None,
    chat: Chat | None = None,
    verifier: Verifier | None = None,
    seed: int = 0,
) -> list[Trajectory]:
    """Plays a workflow from a script: one for all roles, or one per role. The chat is the nano model's by default.

    `verifier` is what `team.verify` asks; a task's `verify` serves.
    """
    chat = chat or Chat(build_tokenizer())
    missing = [role for role in workflow.roles if isinstance(replies, Mapping) and role not in replies]
    if missing:
        raise ConfigurationError(f"replies has no script for role {missing[0]!r}; add one")
    common = None if isinstance(replies, Mapping) else ScriptedEngine(replies, chat)
    seats = {}
    for role in workflow.roles:
        engine = ScriptedEngine(replies[role], chat) if isinstance(replies, Mapping) else common
        assert engine is not None
        seats[role] = Seat(role, engine, chat)
    player = TextPlayer(workflow, seats, limits or Limits(), verifier=verifier)
    assignment = Assignment(scenario, samples=samples, decoding=decoding or replace(Decoding(), max_tokens=1024))
    return asyncio.run(player.play([assignment], key=Key.of(seed)))
