"""Which pole lengths to train PPO on, so that the networks balance them all: MBTL, and only what it chooses is trained.

    hocket solve --method mbtl --world examples/poles.py:POLES --steps 3

A training takes some seconds. Nobody knows what training everything would give, so the optimum is put at 1.
"""

import tempfile
from dataclasses import dataclass, field

import numpy as np

import hocket
from hocket.methods.control.mbtl.bench import balanced, pole_task
from hocket.methods.control.mbtl.method import Contexts, spaced

LENGTHS = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4]
"""Half lengths, in metres."""


@dataclass(frozen=True, eq=False)
class Poles(Contexts):
    """A row of the table is measured when it is asked for."""

    known: dict[int, np.ndarray] = field(default_factory=dict)

    def row(self, place: int) -> np.ndarray:
        """Shares of 200 decisions that a network trained at this place keeps each pole up."""
        if place not in self.known:
            with tempfile.TemporaryDirectory() as folder:
                run = hocket.train(task=pole_task(LENGTHS[place]), recipe="ppo", steps=8, seed=1, runs=folder)
                self.known[place] = balanced(run.policy, LENGTHS)
            print(f"trained at {LENGTHS[place]} m:", self.known[place].round(2))
        return self.known[place]

    def rows(self, trained):
        """Of those trained, `[K, N]`."""
        found = [self.row(int(place)) for place in np.flatnonzero(trained)]
        return np.reshape(found, (len(found), len(LENGTHS)))

    @property
    def optimum(self) -> float:
        """All poles up to the end."""
        return 1.0


POLES = Poles("poles on demand", np.zeros((0, len(LENGTHS))), spaced(LENGTHS))
