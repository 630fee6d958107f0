"""Scripted engines that answer late, or only once every live workflow waits."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from hocket.agents.workflows.chat import Chat
from hocket.engine.barrier import Barrier
from hocket.engine.requests import Request, Sample
from hocket.testing import Script, ScriptedEngine


class SlowEngine(ScriptedEngine):
    """Answers after a delay that depends on the request's key and a seed, so that completion order varies."""

    def __init__(self, replies: Script, chat: Chat, seed: int) -> None:
        super().__init__(replies, chat)
        self.seed = seed

    async def submit(self, request: Request) -> Sample:
        await asyncio.sleep(float(request.key.derive("delay", self.seed).numpy().random()) * 0.005)
        return self._sample(request)


class WaitingEngine(ScriptedEngine):
    """Answers all pending requests together once every live workflow waits; remembers the batch sizes."""

    def __init__(self, replies: Script, chat: Chat, barrier: Barrier) -> None:
        super().__init__(replies, chat)
        self.batches: list[int] = []
        self.barrier = barrier
        barrier.serve(self._run)
        self._pending: list[tuple[Request, asyncio.Future[Sample]]] = []

    def episode(self) -> AbstractAsyncContextManager[None]:
        return self.barrier.episode()

    async def submit(self, request: Request) -> Sample:
        answer = asyncio.get_running_loop().create_future()
        self._pending.append((request, answer))
        async with self.barrier.waiting():
            return await answer

    def _run(self) -> bool:
        batch, self._pending = sorted(self._pending, key=lambda pair: pair[0].key), []
        if batch:
            self.batches.append(len(batch))
        for request, answer in batch:
            if not answer.done():
                answer.set_result(self._sample(request))
        return bool(batch)
