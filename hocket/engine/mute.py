"""The engine of a policy that writes nothing: a scorer is trained on recorded answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hocket.core.errors import ConfigurationError
from hocket.engine.requests import Request, Sample


class MuteEngine:
    """Refuses every request; implements `hocket.engine.requests.Engine`.

    Args:
        name: of the policy.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @asynccontextmanager
    async def episode(self) -> AsyncIterator[None]:
        yield

    async def submit(self, request: Request) -> Sample:
        raise self._refusal()

    def sample(self, requests: list[Request]) -> list[Sample]:
        raise self._refusal()

    def _refusal(self) -> ConfigurationError:
        return ConfigurationError(
            f"policy {self._name!r} is a scorer and writes no answers; train it on recorded ones (rollout "
            "hocket.rollout.Preferences, Labelled, Ranked or LabelledSteps)"
        )
