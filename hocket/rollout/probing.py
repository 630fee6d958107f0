"""Pictures that are learnt from by probes: noise is added to a finished picture, and a decision undoes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hocket.core.keys import Key
from hocket.core.noise_laws import FlowODE, NoiseLaw
from hocket.rollout.noisy_sampling import NoisySampling
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class Probes:
    """What is learnt of a picture x0: an option of an `Assignment`.

    Probe k is at noise level t_k of x = (1 - t) x0 + t z, and its decision is the velocity z - x0. Its log-prob is
    -|z - x0 - v(x, t)|^2, in nats up to a constant: minus the denoising error, summed over all dimensions. Levels and
    noise are drawn for every scenario, and all its samples share them.

    Attributes:
        count: probes of a picture. least, most: levels are drawn evenly between these, one in each of `count` parts.
    """

    count: int = 4
    least: float = 0.0
    most: float = 1.0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"probes must be at least 1, not {self.count}")
        if not 0.0 <= self.least < self.most <= 1.0:
            raise ValueError(f"levels lie in [0, 1], and least below most, not {self.least} and {self.most}")


@dataclass(frozen=True)
class Probing(Rollout):
    """`samples` independent samples of every scenario, whose decisions are probes (see `Probes`).

    Attributes:
        probes, least, most: see `Probes`.
        law, steps: of the sampler, see `NoisySampling`. Without noise in its steps, samples differ by their first.
        base: whether the policy before training samples; else the policy does.
    """

    plays: ClassVar[str] = NoisySampling.plays
    retrospective: ClassVar[bool] = True

    samples: int = 8
    probes: int = 4
    least: float = 0.0
    most: float = 1.0
    law: NoiseLaw = FlowODE()
    steps: int | None = None
    base: bool = False

    def __post_init__(self) -> None:
        self._options()

    @property
    def plays_reference(self) -> bool:
        return self.base

    def _options(self) -> tuple[NoisySampling, Probes]:
        return NoisySampling(self.samples, self.law, steps=self.steps), Probes(self.probes, self.least, self.most)

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
        sampling, option = self._options()
        probed = [
            replace(item, actor="reference" if self.base else item.actor, options=(*item.options, option))
            for item in asked
        ]
        return await sampling.collect(probed, play=play, score=score, ledger=ledger, key=key, more=more)
