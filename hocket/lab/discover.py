"""Discovers a drift: evolution strategies over short runs on a family of two-state bandits.

    python -m hocket.lab.discover --generations 100 --seed 0 --out drift.json

A run begins at the uniform policy over a few actions in each of two states. In each of some iterations it draws a
handful of actions per state, sees noisy rewards, and takes many gradient steps on that one batch: without a drift it
runs after the noise. A drift is worth the exact return of the policies it ends with. All runs of a generation, of every
candidate on every bandit, are one set of tensors; candidates meet the same bandits and the same noise.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.objectives.learnt_drift import FEATURES, network_drift, write_drift

Penalty = Callable[[Tensor, Tensor], Tensor]
"""f of log-ratio and advantage, both `[P, K]`."""


@dataclass(frozen=True)
class Bandits:
    """A family of two-state bandits, and how a run on one goes.

    Attributes:
        actions: per state. samples: drawn per state and iteration. noise: deviation of a reward about its mean; means
            are standard normal.
        iterations: batches per run. epochs: gradient steps per batch. lr: of those steps, on logits.
    """

    actions: int = 5
    samples: int = 4
    noise: float = 2.0
    iterations: int = 40
    epochs: int = 8
    lr: float = 0.5

    def returns(self, penalty: Penalty | None, candidates: int, bandits: int, key: Key) -> Tensor:
        """Exact expected reward of the last policy, mean over bandits, for each of P candidates: `[P]`."""
        states, draw = 2, key.numpy()
        means = torch.from_numpy(draw.normal(size=(bandits * states, self.actions)))
        logits = torch.zeros(candidates, bandits * states, self.actions, dtype=torch.float64)
        for _ in range(self.iterations):
            uniform = torch.from_numpy(draw.random((bandits * states, self.samples)))
            noise = torch.from_numpy(draw.normal(scale=self.noise, size=(bandits * states, self.samples)))
            logits = self._learnt(logits, means, uniform, noise, penalty)
        return (torch.softmax(logits, -1) * means).sum(-1).mean(-1)

    def _learnt(self, logits: Tensor, means: Tensor, uniform: Tensor, noise: Tensor, penalty: Penalty | None) -> Tensor:
        """The logits after one batch and all its gradient steps; `[P, S, A]`."""
        candidates, states, _ = logits.shape
        old = torch.log_softmax(logits, -1)
        action = (old.exp().cumsum(-1)[..., None, :] < uniform[None, :, :, None]).sum(-1).clamp(max=self.actions - 1)
        reward = means.expand(candidates, -1, -1).gather(-1, action) + noise
        advantage = (reward - reward.mean(-1, keepdim=True)) / (reward.std(-1, keepdim=True) + 1e-8)
        before, flat = old.gather(-1, action), (candidates, states * self.samples)
        for _ in range(self.epochs):
            leaf = logits.detach().requires_grad_()
            log_ratio = (torch.log_softmax(leaf, -1).gather(-1, action) - before).clamp(-50, 50)
            gain = log_ratio.exp() * advantage
            total = gain.sum()
            if penalty is not None:
                total = total - penalty(log_ratio.reshape(flat), advantage.reshape(flat)).sum()
            (slope,) = torch.autograd.grad(total, leaf)
            logits = (logits + self.lr * slope / self.samples).clamp(-50, 50)
        return logits


@dataclass(frozen=True)
class Strategy:
    """Evolution strategies with mirrored noise and ranks for fitness (Salimans et al. 2017, arXiv 1703.03864).

    Attributes:
        pairs: of mirrored candidates. deviation: of their noise. lr, momentum: of the ascent.
        hidden: units of the network. bandits: per generation.
    """

    pairs: int = 16
    deviation: float = 0.2
    lr: float = 0.2
    momentum: float = 0.9
    hidden: int = 8
    bandits: int = 16

    def start(self, key: Key) -> Tensor:
        """Small random weights: `[8 H + H]`."""
        return torch.from_numpy(key.numpy().normal(scale=0.1, size=FEATURES * self.hidden + self.hidden))

    def unpacked(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """`inner` `[..., 8, H]` and `outer` `[..., H]`."""
        cut = FEATURES * self.hidden
        return weights[..., :cut].reshape(*weights.shape[:-1], FEATURES, self.hidden), weights[..., cut:]

    def penalty(self, weights: Tensor) -> Penalty:
        """The drift of each candidate's `weights` `[P, ...]`."""
        inner, outer = self.unpacked(weights)
        return lambda log_ratio, advantage: network_drift(log_ratio, advantage, inner, outer)

    def slope(self, weights: Tensor, family: Bandits, key: Key) -> Tensor:
        """The estimated ascent direction at `weights`, from one generation."""
        half = torch.from_numpy(key.derive("noise").numpy().normal(size=(self.pairs, len(weights))))
        noise = torch.cat([half, -half])
        fitness = family.returns(
            self.penalty(weights + self.deviation * noise), len(noise), self.bandits, key.derive("bandits")
        )
        ranks = fitness.argsort().argsort().double() / (len(noise) - 1) - 0.5
        return (ranks[:, None] * noise).mean(0) / self.deviation

    def run(
        self, family: Bandits, generations: int, key: Key, told: Callable[[int, Tensor], None] | None = None
    ) -> Tensor:
        """The weights after `generations`, which `told` sees as they come."""
        weights, speed = self.start(key.derive("start")), torch.zeros(FEATURES * self.hidden + self.hidden)
        for generation in range(generations):
            slope = self.slope(weights, family, key.derive("generation", generation))
            speed = self.momentum * speed + (1 - self.momentum) * slope
            weights = weights + self.lr * speed
            if told is not None:
                told(generation + 1, weights)
        return weights


def compared(family: Bandits, penalties: Sequence[Penalty | None], bandits: int, key: Key) -> Tensor:
    """Returns of several drifts on the same fresh bandits: `[D]`."""
    return torch.stack([family.returns(penalty, 1, bandits, key)[0] for penalty in penalties])


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m hocket.lab.discover", description=__doc__.split("\n\n")[0])
    parser.add_argument("--generations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("drift.json"))
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    family, strategy, key = Bandits(), Strategy(), Key.of(options.seed).derive("discover")
    began = time.perf_counter()

    def report(generation: int, weights: Tensor) -> None:
        if generation % 25 == 0 or generation == options.generations:
            learnt, none = compared(family, [strategy.penalty(weights[None]), None], 256, key.derive("validation"))
            print(f"generation {generation}: return {learnt:.3f}, without a drift {none:.3f}")

    weights = strategy.run(family, options.generations, key, report)
    inner, outer = strategy.unpacked(weights)
    write_drift(options.out, inner, outer, generations=options.generations, seed=options.seed)
    print(f"{options.out} written after {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
