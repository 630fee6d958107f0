"""Answers that go on under new weights in the middle: `--order arrival --interrupt true`.

Which version of the weights wrote which tokens is all that chance decides about them. A sampler notes it for every
answer that its group's own version did not write alone, and a replay writes each part under the weights that wrote it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, cast

import numpy as np

from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor
from hocket.core.errors import ConfigurationError
from hocket.engine.batched_engine import BatchedEngine
from hocket.engine.decoding import written
from hocket.engine.requests import Engine, Interruptible, Request, ResponseStart, Sample

Plan = Sequence[tuple[int, int]]
"""Where each part of an answer begins, and the version of its policy that wrote it; empty where two were alike."""

Plans = Mapping[str, Plan]
"""By request, as `name_of` has it."""


def name_of(request: Request) -> str:
    """A request among those of its group: its key, and what it asks in short."""
    numbers = np.array([request.drawn, *request.tokens, *request.prefix], np.int64)
    return f"{request.key}-{zlib.crc32(numbers.tobytes()):08x}"


def plan_of(sample: Sample) -> Plan:
    """Which versions wrote an answer."""
    by = sample.written_by
    return [(int(start), int(by[start])) for start in [0, *(np.flatnonzero(np.diff(by)) + 1)][: len(by)]]


def with_engines(player: TextPlayer, engine_for: Callable[[Actor], Engine]) -> TextPlayer:
    """The player with other engines for those who learn, one for each that they have now."""
    made: dict[int, Engine] = {}
    actors = {}
    for role, actor in player.actors.items():
        if actor.learns:
            if id(actor.engine) not in made:
                made[id(actor.engine)] = engine_for(actor)
            actor = replace(actor, engine=made[id(actor.engine)])
        actors[role] = actor
    return replace(player, actors=actors)


def noted(player: TextPlayer, usual: Mapping[str, int], plans: dict[str, Plan]) -> TextPlayer:
    """The player that notes answers which other versions wrote than the `usual` ones, by policy."""
    return with_engines(player, lambda actor: cast(Engine, Noting(actor.engine, usual[actor.policy], plans)))


class Noting:
    """An engine whose answers are noted in `plans` where not the `usual` version alone wrote them."""

    def __init__(self, engine: Engine, usual: int, plans: dict[str, Plan]) -> None:
        self._engine, self._usual, self._plans = engine, usual, plans
        self._seen: dict[str, Plan] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def submit(self, request: Request) -> Sample:
        sample = await self._engine.submit(request)
        name, plan = name_of(request), plan_of(sample)
        if self._seen.setdefault(name, plan) != plan:
            self._plans[name] = []
        elif plan != [(0, self._usual)]:
            self._plans[name] = plan
        return sample


class Following(BatchedEngine):
    """An engine that writes every answer in the parts that `plans` names, others under the weights of the moment.

    Attributes:
        plans: of the group that is played now.

    Args:
        engine: that samples. policy: whose. holding: has the policy hold a version of its weights for a while.
    """

    masks = True

    def __init__(
        self, engine: Interruptible, policy: str, holding: Callable[[str, int], AbstractContextManager[None]]
    ) -> None:
        super().__init__(max_rows=engine.max_rows, barrier=engine.barrier)
        self._engine, self._policy, self._holding = engine, policy, holding
        self.plans: Plans = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @property
    def context_length(self) -> int | None:
        return self._engine.context_length

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        newest = self._engine.policy.version
        plans = [self.plans.get(name_of(request), [(0, newest)]) for request in requests]
        if not all(plans):
            raise ConfigurationError(
                "a group asked the same of one policy twice, and the schedule does not tell these two apart; it cannot "
                "be redone"
            )
        done: list[Sample | None] = [None] * len(requests)
        for version in sorted({version for plan in plans for _, version in plan}):
            due = [place for place, plan in enumerate(plans) if any(writer == version for _, writer in plan)]
            parts = [_part(requests[place], plans[place], version, done[place]) for place in due]
            with self._holding(self._policy, version):
                for place, sample in zip(due, self._engine.sample(parts), strict=True):
                    done[place] = sample
        return cast(list[Sample], done)


def _part(request: Request, plan: Plan, version: int, before: Sample | None) -> Request:
    """Asks for the part of an answer that a version wrote, behind what was written before."""
    begun: ResponseStart | None = None if before is None else written(before)
    end = next((start for start, writer in plan if writer > version), None)
    if end is None:
        return replace(request, begun=begun)
    decoding = replace(request.decoding, max_tokens=end)
    return replace(request, begun=begun, decoding=decoding, prefix=request.prefix[:end])
