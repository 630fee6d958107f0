"""The Markov games of MAMEX."""

from __future__ import annotations

import numpy as np

from hocket.lab.exact.mdp import Array
from hocket.methods.marl.mamex.markov_games import strangers


def test_the_table_of_a_hypothesis_is_what_its_pairs_earn() -> None:
    game, off = strangers(2, 3), 0.0

    def earned(kind: int, own: int, other: int, state: int, step: int) -> Array:
        if step == game.horizon:
            return np.zeros(2)
        moves = int(game.policies[own, step, state]), int(game.policies[other, step, state])
        onward = game.candidates[kind, state, moves[0], moves[1]]
        after = [share * earned(kind, own, other, to, step + 1) for to, share in enumerate(onward)]
        return game.reward[:, state, moves[0], moves[1]] + sum(after, np.zeros(2))

    for kind in range(3):
        for own, other in np.ndindex(len(game.policies), len(game.policies)):
            off = max(off, float(np.abs(earned(kind, own, other, 0, 0) - game.payoffs[kind, :, own, other]).max()))
    assert len(game.policies) == 8
    assert off < 1e-12
