"""Independent samples of a sampler whose steps have the noise of a law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hocket.core.keys import Key
from hocket.core.noise_laws import FlowSDE, NoiseLaw, Window
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class Sampling:
    """How a sampler samples: an option of an `Assignment`.

    Attributes:
        law: the noise of steps. window: the steps that have it. steps: of a sample; None is the sampler's own number.
        unguided: whether what is learnt is the prediction without guidance, where samples are guided. Behaviour
            log-probs are then evaluated by the learner.
        same_noise: whether the samples of a scenario begin with the same noise.
    """

    law: NoiseLaw = FlowSDE()
    window: Window = Window()
    steps: int | None = None
    unguided: bool = False
    same_noise: bool = False

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")


@dataclass(frozen=True)
class NoisySampling(Rollout):
    """`samples` independent samples of every scenario, whose denoising steps are decisions.

    Attributes:
        law, window, steps, unguided, same_noise: see `Sampling`.
        moving: how many steps the window moves on after every `every` training steps, from its `first` (Mix-GRPO's
            sliding window, arXiv:2507.21802); after the last place it begins anew. 0 leaves it.
    """

    plays: ClassVar[str] = "pictures"

    samples: int = 8
    law: NoiseLaw = FlowSDE()
    window: Window = Window()
    steps: int | None = None
    unguided: bool = False
    same_noise: bool = False
    moving: int = 0
    every: int = 25

    def __post_init__(self) -> None:
        if self.samples < 1 or self.moving < 0 or self.every < 1:
            raise ValueError("samples and every must be at least 1, and moving at least 0")
        if self.moving and self.window.count is None:
            raise ValueError("a window that moves needs a count")
        self.sampling()

    def sampling(self) -> Sampling:
        """The option of its assignments."""
        return Sampling(self.law, self.window, self.steps, self.unguided, self.same_noise)

    def at(self, step: int) -> NoisySampling:
        """With the window of `step`."""
        if not self.moving or self.window.count is None:
            return self
        # The last place is reached where the sampler has that many steps; `Window.of` moves back what goes beyond.
        places = max(1, ((self.steps or 10) - self.window.count - self.window.first) // self.moving + 1)
        first = self.window.first + self.moving * ((step - 1) // self.every % places)
        return replace(self, window=replace(self.window, first=first))

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        option = self.sampling()
        trajectories = await play(
            [replace(item, samples=self.samples, options=(*item.options, option)) for item in asked]
        )
        await score(trajectories)
        return Experience(trajectories)
