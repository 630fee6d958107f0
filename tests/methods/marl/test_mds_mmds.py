"""Best answers in game trees."""

from __future__ import annotations

from hocket.lab.exact.trees import of_openspiel
from hocket.methods.marl.claims.mds_mmds import drawn


def test_gains_are_openspiels_nash_conv():
    from open_spiel.python.algorithms.exploitability import nash_conv
    from open_spiel.python.policy import TabularPolicy

    off = {}
    for name in ("kuhn_poker", "leduc_poker"):
        import pyspiel

        game, theirs = of_openspiel(name), pyspiel.load_game(name)
        policy, table = drawn(game, 3), TabularPolicy(theirs)
        for label, row in zip(game.labels, policy, strict=True):
            state = table.states[table.state_lookup[label.partition(": ")[2]]]
            table.policy_for_key(label.partition(": ")[2])[state.legal_actions()] = row[: len(state.legal_actions())]
        gap = nash_conv(theirs, table)
        off[name] = abs(gap + game.value(policy)) + (gap < 0.1)
    assert max(off.values()) < 1e-9
