"""What was seen of a world's transitions, and what may be thought of them: estimates and draws from a posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, ExactEpisode, TabularMDP
from hocket.lab.exact.solver import State


@dataclass(frozen=True)
class TransitionCounts:
    """How often each transition was seen, `[S, A, S]`."""

    seen: Array

    @staticmethod
    def none(world: TabularMDP) -> TransitionCounts:
        """Before the first episode."""
        return TransitionCounts(np.zeros_like(world.transition))

    @staticmethod
    def of(state: State) -> TransitionCounts:
        """Those that a solver remembers."""
        return TransitionCounts(state["seen"])

    @property
    def state(self) -> State:
        return {"seen": self.seen}

    def plus(self, episode: ExactEpisode) -> TransitionCounts:
        """With those of an episode."""
        counts = self.seen.copy()
        np.add.at(counts, (episode.states[:-1], episode.actions, episode.states[1:]), 1)
        return TransitionCounts(counts)

    def mean(self, prior: float = 0.0) -> Array:
        """The posterior's mean under a Dirichlet prior; for 0 the shares seen, even ones of nothing."""
        weight = self.seen + prior
        total = weight.sum(-1, keepdims=True)
        mean: Array = np.divide(weight, total, out=np.full_like(weight, 1 / weight.shape[-1]), where=total > 0)
        return mean

    def drawn(self, prior: float, key: Key, count: int | None = None) -> Array:
        """A draw of all transitions from the posterior, `[S, A, S]`, or `count` of them, `[count, S, A, S]`."""
        shape = self.seen.shape if count is None else (count, *self.seen.shape)
        noise = key.numpy().standard_gamma(np.broadcast_to(self.seen + prior, shape))
        # A gamma variable of a small shape may round to 0 everywhere; the mean then stands for the row.
        total = noise.sum(-1, keepdims=True)
        mean = np.broadcast_to(self.mean(prior), shape)
        draws: Array = np.where(total > 1e-280, noise / np.maximum(total, 1e-280), mean)
        return draws
