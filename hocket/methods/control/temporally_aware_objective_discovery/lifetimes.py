"""Discovers a drift that knows how much of training is done, as `hocket.lab.discover` does one that does not.

    python -m hocket.methods.control.temporally_aware_objective_discovery.lifetimes --generations 200 --seed 0 --out
    drift.json

With `--blind` the network is not told the time, on the same bandits and with the same noise.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.discover import Bandits, Penalty, Strategy
from hocket.methods.control.temporally_aware_objective_discovery.timed_drift import TIMED_FEATURES, timed_drift
from hocket.objectives.learnt_drift import write_drift

PAIRS = 12
"""Of mirrored candidates in a generation."""


@dataclass(frozen=True)
class Timed:
    """A penalty of log-ratio and advantage, both `[P, K]`, and of the share of a run that lies before."""

    rule: Callable[[Tensor, Tensor, float], Tensor]

    def __call__(self, log_ratio: Tensor, advantage: Tensor) -> Tensor:
        """As at the beginning."""
        return self.rule(log_ratio, advantage, 0.0)


@dataclass(frozen=True)
class Lifetimes(Bandits):
    """`Bandits` that tell `Timed` penalties the time, from 0 at the first batch to 1 at the last."""

    iterations: int = 20

    def returns(self, penalty: Penalty | None, candidates: int, bandits: int, key: Key) -> Tensor:
        if not isinstance(penalty, Timed):
            return super().returns(penalty, candidates, bandits, key)
        rule, steps = penalty.rule, itertools.count()

        def told(log_ratio: Tensor, advantage: Tensor) -> Tensor:
            return rule(log_ratio, advantage, next(steps) // self.epochs / max(1, self.iterations - 1))

        return super().returns(told, candidates, bandits, key)


@dataclass(frozen=True)
class TimedStrategy(Strategy):
    """`Strategy` for networks that are told the time."""

    def start(self, key: Key) -> Tensor:
        """Small random weights: `[16 H + H]`."""
        return torch.from_numpy(key.numpy().normal(scale=0.1, size=(TIMED_FEATURES + 1) * self.hidden))

    def unpacked(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """`inner` `[..., 16, H]` and `outer` `[..., H]`."""
        inner, outer = torch.split(weights, [TIMED_FEATURES * self.hidden, self.hidden], -1)
        return inner.reshape(*weights.shape[:-1], TIMED_FEATURES, self.hidden), outer

    def penalty(self, weights: Tensor) -> Penalty:
        inner, outer = self.unpacked(weights)
        return Timed(partial(timed_drift, inner=inner, outer=outer))

    def run(
        self, family: Bandits, generations: int, key: Key, told: Callable[[int, Tensor], None] | None = None
    ) -> Tensor:
        weights = self.start(key.derive("start"))
        speed = torch.zeros_like(weights)
        for generation in range(generations):
            slope = self.slope(weights, family, key.derive("generation", generation))
            speed = self.momentum * speed + (1 - self.momentum) * slope
            weights = weights + self.lr * speed
            if told is not None:
                told(generation + 1, weights)
        return weights


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m hocket.methods.control.temporally_aware_objective_discovery.lifetimes",
        description=__doc__.split("\n")[0],
    )
    parser.add_argument("--generations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blind", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("drift.json"))
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    strategy = Strategy(pairs=PAIRS) if given.blind else TimedStrategy(pairs=PAIRS)
    began = time.perf_counter()
    weights = strategy.run(Lifetimes(), given.generations, Key.of(given.seed).derive("discover"))
    inner, outer = strategy.unpacked(weights)
    write_drift(given.out, inner, outer, generations=given.generations, seed=given.seed)
    print(f"{given.out} written after {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
