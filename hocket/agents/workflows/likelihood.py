"""The likelihood of a given text as the answer of a recorded turn, by teacher forcing with an imposed prefix."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hocket.agents.workflows.team import Actor
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.engine.requests import ContextFull, Request, Sample
from hocket.types import Decoding, Turn

Asked = tuple[Turn, Sequence[int]]
"""A recorded turn, and the token ids that are imposed in place of its response."""

KEY = Key.of(0).derive("likelihood")
"""The key of every request, since nothing is drawn."""


async def likelihoods(actors: Mapping[str, Actor], questions: Sequence[Asked]) -> list[NDArray[np.float32] | None]:
    """The log-probs `[L]` of each continuation after its turn's prompt, under the current policy.

    At the turn's sampling temperature, of the uncut vocabulary. None where the context has no room for it, and for
    turns of roles that do not learn. Equal questions are computed once.

    Raises:
        ConfigurationError: when an engine does not return the log-probs of imposed tokens.
    """
    requests: dict[tuple[str, Request], None] = {}
    wanted: list[tuple[str, Request] | None] = []
    for turn, tokens in questions:
        actor = actors.get(turn.role)
        learnt = actor is not None and actor.learns and actor.policy == turn.policy and len(tokens) > 0
        entry = (turn.role, _request(turn, tokens)) if learnt else None
        wanted.append(entry)
        if entry is not None:
            requests.setdefault(entry)
    async with AsyncExitStack() as live:
        for engine in {id(actor.engine): actor.engine for actor in actors.values()}.values():
            await live.enter_async_context(engine.episode())
        answers = await asyncio.gather(*(_answer(actors[role], request) for role, request in requests))
    known = dict(zip(requests, answers, strict=True))
    return [None if entry is None else known[entry] for entry in wanted]


def _request(turn: Turn, tokens: Sequence[int]) -> Request:
    """Requests only the imposed tokens, after the turn's whole context."""
    context = [int(token) for link in turn.context()[:-1] for part in (link.observation, link.action) for token in part]
    context += [int(token) for token in turn.observation]
    decoding = replace(turn.decoding or Decoding(), max_tokens=len(tokens), stop=(), mask=None)
    return Request(tuple(context), decoding, KEY, tuple(int(token) for token in tokens), tuple(turn.prompt))


async def _answer(actor: Actor, request: Request) -> NDArray[np.float32] | None:
    try:
        sample: Sample = await actor.engine.submit(request)
    except ContextFull:
        return None
    if sample.logp is None or len(sample.logp) < len(request.prefix):
        raise ConfigurationError(
            f"the engine of policy {actor.policy!r} tells no log-probs of imposed tokens, of which beliefs are made; "
            "use engine.kind local or vllm"
        )
    return np.asarray(sample.logp[: len(request.prefix)], np.float32)
