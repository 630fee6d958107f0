"""The Markov games of MAMEX."""

from __future__ import annotations

import numpy as np

from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.methods.marl.mamex.markov_games import rumours, strangers
from hocket.methods.marl.mamex.method import OptimisticTable


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


def test_behind_a_door_a_table_is_what_luck_makes() -> None:
    worst, told = 0.0, list[float]()
    for count in (2, 5):
        game = rumours(count)
        for kind, pay in enumerate(game.payoffs):
            luck = float(game.candidates[kind, 0, 0, 0, 3])
            told.append(luck)
            for own, other in np.ndindex(4, 4):
                (tries, first), (_, second) = divmod(own, 2), divmod(other, 2)
                agreed = ((1.0, 0.6), (0.6, 1.0))[first] if first == second else (0.0, 0.0)
                due = [0.2 * one if kind == count else 0.0 for one in agreed] if tries else [0.1 * luck] * 2
                worst = max(worst, float(np.abs(pay[:, own, other] - due).max()))
    known = [told[2] + off / 5000 for off in (1, -1, 0, 1, -1, 2, -2, 3, 0)]
    assert worst < 1e-12
    assert float(np.abs(np.array(told) - known).max()) < 1e-12


def test_metrics_of_a_round() -> None:
    game, solver, off, counts = strangers(3, 12), OptimisticTable(rounds=50), 0.0, list[int]()
    state = dict(solver.init(game, Key.of(0)))
    for step in range(12):
        table = solver.table(game, state["losses"])
        after, told = solver.step(game, state, Key.of(3).derive(step))
        state = dict(after)
        hoped = sum(float((one.reshape(-1) * state["mixture"]).sum()) for one in table) / 2
        counts.append(sum(one < min(state["losses"]) + 1 for one in state["losses"].tolist()))
        off = max(off, abs(told["hoped"] - hoped), abs(told["believed"] - counts[-1]))
    assert max(counts) > 1
    assert min(counts) < 6
    assert off < 1e-12
