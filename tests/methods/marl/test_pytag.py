"""Games at a table by OpenSpiel's rules."""

from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.methods.marl.claims.pytag import _Chance, _even, _exact, _fresh, _played, _task
from hocket.methods.marl.pytag.world import SpielTable

SPIEL = ("tic_tac_toe", "kuhn_poker", "kuhn_poker&players=3", "leduc_poker", "connect_four", "goofspiel&num_cards=4")


def test_every_ply_is_openspiels():
    import pyspiel

    wrong, plies = Counter[str](), 0
    for name in SPIEL:
        table = cast(SpielTable, _task(name).world)
        room, rng = cast(Any, table.open(8)), Key.of(2).numpy()
        room.reset(range(8), range(20, 28))
        live, earned = np.ones(8, bool), np.zeros((8, len(table.agents)))
        while live.any():
            legal, acting = np.stack(room.allowed(), 1), room.acting()
            for slot in np.flatnonzero(live).tolist():
                wrong += _compared(room, table, slot, legal[slot], acting[slot])
            plies += int(acting[live].sum())
            chosen = (rng.random(legal.shape) * legal).argmax(2)
            moved = room.step(list(chosen.T), live)
            earned += np.where(live[:, None], moved.rewards, 0.0)
            live = live & ~moved.terminated.all(1)
        for slot, game in enumerate(room.games):
            again = table.worlds[0].loaded.new_initial_state()
            for action in _history(game.state, pyspiel):
                again.apply_actions(action) if isinstance(action, list) else again.apply_action(action)
            wrong["returns"] += again.returns() != earned[slot].tolist() or not again.is_terminal()
    assert not sum(wrong.values())
    assert plies > 300


def _compared(
    room: Any, table: SpielTable, slot: int, legal: NDArray[np.bool_], acting: NDArray[np.bool_]
) -> Counter[str]:
    """What differs from the state's own words, in one copy."""
    state, wrong = room.games[slot].state, Counter[str]()
    for player in range(len(table.agents)):
        moves = state.legal_actions(player)
        turn = bool(moves) if state.is_simultaneous_node() else state.current_player() == player
        wrong["mover"] += turn != bool(acting[player])
        if turn:
            wrong["legal"] += np.flatnonzero(legal[player]).tolist() != list(moves)
        hidden = "IMPERFECT" in str(table.worlds[0].loaded.get_type().information)
        tensor = state.information_state_tensor(player) if hidden else state.observation_tensor(player)
        seen = np.concatenate([tensor, np.eye(len(table.agents))[player]]).astype(np.float32)
        wrong["seen"] += not np.array_equal(room.seen()[player][slot], seen)
    return wrong


def _history(state: Any, pyspiel: Any) -> list[Any]:
    """Moves in order; those made at once as lists."""
    if "SIMULTANEOUS" not in str(state.get_game().get_type().dynamics):
        return list(state.history())
    again, found = state.get_game().new_initial_state(), list[Any]()
    left = list(state.history())
    while left:
        size = state.num_players() if again.is_simultaneous_node() else 1
        part, left = left[:size], left[size:]
        found.append(part if again.is_simultaneous_node() else part[0])
        again.apply_actions(part) if again.is_simultaneous_node() else again.apply_action(part[0])
    return found


def test_games_of_two_to_four_players_take_turns():
    task = _task("kuhn_poker&players=2-4")
    table, counts = cast(SpielTable, task.world), Counter[int]()
    for one in _played(_fresh(task), task, 300):
        (place,) = {int(n) for turn in one.turns for n in np.asarray(turn.observation)[:, -3:].argmax(1)}
        count = table.numbers[place]
        counts[count] += 1
        assert len(one.turns) <= count
        assert {turn.agent for turn in one.turns} <= set(table.worlds[place].agents)
        assert len(one.turns) < count or np.sum(np.asarray(one.scores["reward"].value)) == 0
    assert min(counts[n] for n in (2, 3, 4)) > 50


def test_equal_seeds_are_equal_games():
    for name, against in (("leduc_poker", ""), ("tic_tac_toe", "random+mcts"), ("kuhn_poker", "mcts")):
        task = _task(name, against)
        policy = _fresh(task)
        narrow, wide = (_played(policy, task, 12, width=width) for width in (1, 32))
        for one, other in zip(narrow, wide, strict=True):
            assert one.scores["reward"].value.tolist() == other.scores["reward"].value.tolist()
            assert all(np.array_equal(a.action, b.action) for a, b in zip(one.turns, other.turns, strict=True))


def test_chance_earns_what_the_tree_says():
    task = _task("kuhn_poker", "random")
    table, off = cast(SpielTable, task.world), []
    exact = _exact(table, lambda state: _even(state), lambda state: _even(state))
    by_seat: dict[int, list[float]] = {0: [], 1: []}
    for one in _played(_Chance(), task, 8000, width=512):
        seat = int(np.asarray(one.turns[0].observation)[0, -2:].argmax()) if one.turns else 0
        if one.turns:
            by_seat[seat].append(float(np.sum(np.asarray(one.scores["reward"].value))))
    for seat, values in by_seat.items():
        error = float(np.std(values)) / len(values) ** 0.5
        off.append(abs(fmean(values) - exact[seat]) / error)
    even = abs(exact[0] + exact[1]) < 1e-12 and abs(exact[0]) > 0.05
    assert max(off) < 4
    assert even
