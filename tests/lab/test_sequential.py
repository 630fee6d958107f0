"""Backward induction in games of turns."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.methods.teams.mac_spgg.sequential import backward_induction

LAW = settings(max_examples=60, deadline=None, derandomize=True)


@LAW
@given(st.lists(st.integers(-3, 3), min_size=8, max_size=8), st.lists(st.integers(-3, 3), min_size=8, max_size=8))
def test_backward_induction_against_brute_force(first: list[int], second: list[int]) -> None:
    """Two players, two and four actions: an equilibrium is a first move and an answer to each first move."""
    actions = (0.0, 1.0)
    utility = {(a, b): (float(first[int(2 * a + b)]), float(second[int(2 * a + b)])) for a in actions for b in actions}
    found = backward_induction(2, actions, lambda play: utility[play[0], play[1]])
    plays = set()
    for answers in [(x, y) for x in actions for y in actions]:
        if all(utility[a, answers[int(a)]][1] == max(utility[a, b][1] for b in actions) for a in actions):
            best = max(utility[a, answers[int(a)]][0] for a in actions)
            plays |= {(a, answers[int(a)]) for a in actions if utility[a, answers[int(a)]][0] == best}
    assert found.plays == plays
    assert found.unique == (len(plays) == 1 and all(len({utility[a, b][1] for b in actions}) == 2 for a in actions))
