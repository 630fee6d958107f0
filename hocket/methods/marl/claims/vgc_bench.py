"""VGC-Bench's claims."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hocket.hooks.meta_solvers import nash, uniform
from hocket.hooks.past_selves import Pool
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.methods.marl.claims.pytag import _odds, _parts, _task
from hocket.methods.marl.pytag.world import SpielTable
from hocket.methods.marl.vgc_bench import FICTITIOUS_PLAY, VGC_BENCH
from hocket.train.aio import run_async
from hocket.train.loop import train_step

claim = Claims("vgc-bench", "arXiv:2506.10326")
Floats = NDArray[np.float64]

CYCLE = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
"""Rock, paper, scissors."""


@functools.cache
def _kuhn() -> Floats:
    """What each pure strategy of both seats earns against each, over both seats, `[M, M]`."""
    game = cast(SpielTable, _task("kuhn_poker").world).worlds[0].loaded
    keys: list[list[tuple[str, int]]] = [[], []]

    def visit(state: Any) -> None:
        if state.is_terminal():
            return
        if not state.is_chance_node():
            key = state.information_state_string()
            if key not in [name for name, _ in keys[state.current_player()]]:
                keys[state.current_player()].append((key, len(state.legal_actions())))
        for action in state.legal_actions():
            visit(state.child(action))

    visit(game.new_initial_state())
    plans = [
        [
            dict(zip([key for key, _ in seat], moves, strict=True))
            for moves in itertools.product(*(range(n) for _, n in seat))
        ]
        for seat in keys
    ]

    def value(state: Any, pair: tuple[dict[str, int], dict[str, int]]) -> float:
        if state.is_terminal():
            return float(state.returns()[0])
        if state.is_chance_node():
            return float(sum(chance * value(state.child(action), pair) for action, chance in state.chance_outcomes()))
        chosen = pair[state.current_player()][state.information_state_string()]
        return value(state.child(state.legal_actions()[chosen]), pair)

    start = game.new_initial_state()
    return np.array([[value(start, (first, second)) for second in plans[1]] for first in plans[0]])


def _played(table: Floats, mix: Callable[[Floats], Floats], rounds: int) -> list[float]:
    """NashConv of both players' mixtures after every round, in which both add a best response to the other's.

    `mix` gives the weights of a player's list by what its members earn against the other's members.
    """
    lists, gaps = ([0], [0]), []
    for _ in range(rounds):
        inside = table[np.ix_(*lists)]
        rows, columns = (np.zeros(size) for size in table.shape)
        np.add.at(rows, lists[0], mix(inside))
        np.add.at(columns, lists[1], mix(-inside.T))
        gaps.append(float((table @ columns).max() - (rows @ table).min()))
        lists[0].append(int((table @ columns).argmax()))
        lists[1].append(int((rows @ table).argmin()))
    return gaps


def _latest(inside: Floats) -> Floats:
    return np.asarray(np.eye(len(inside))[-1])


@claim(
    "With exact best responses double oracle ends at NashConv 0 in rock-paper-scissors and Kuhn poker and fictitious "
    "play comes near it, while play against the latest self cycles, as exploitable at the end as at first.",
    "section 4",
)
def double_oracle_ends_at_an_equilibrium_and_the_latest_self_cycles() -> Finding:
    last: dict[str, list[float]] = {}
    for name, table in (("rock-paper-scissors", CYCLE), ("kuhn", _kuhn())):
        oracle = _played(table, lambda inside: nash(inside)[0], 40)
        even = _played(table, lambda inside: uniform(len(inside)), 400)
        latest = _played(table, _latest, 40)
        last[name] = [min(oracle), even[-1], even[4], min(latest[5:])]
    held = all(oracle < 1e-7 and even < 0.25 < naive and even < early for oracle, even, early, naive in last.values())
    return Finding(held, say(oracle_even_early_latest=last))


@claim(
    "The payoff table's rows are what former selves earn against each other, and who is met is drawn by its Nash "
    "mixture: of two selves, the one that always loses is never met.",
    "derived",
)
def who_is_met_is_drawn_by_the_nash_mixture() -> Finding:
    hook = cast(Any, VGC_BENCH.hooks[0])
    parts = _parts(VGC_BENCH, "kuhn_poker", curriculum__prompts=4)
    memory = run_async(hook.before(parts, 1, {}))
    memory = run_async(hook.before(parts, 6, memory))
    pool: Pool = memory["policy"]
    pool.payoffs = [[0.0, 1.0], [-1.0, 0.0]]
    first = {name for step in range(1, 30) for name in hook.seat(parts.player, parts, step, memory).seats.values()}
    pool.payoffs = [[0.0, -1.0], [1.0, 0.0]]
    second = {name for step in range(1, 30) for name in hook.seat(parts.player, parts, step, memory).seats.values()}
    return Finding(
        (first, second) == ({"policy", "policy@0"}, {"policy", "policy@5"}),
        say(met=" then ".join(" ".join(sorted(names)) for names in (first, second))),
    )


@claim(
    "In Kuhn poker 40 steps against either mixture come nearer to equilibrium than even odds.",
    slow=True,
)
def in_kuhn_poker_both_come_nearer_to_equilibrium_than_even_odds() -> Finding:
    from open_spiel.python.algorithms.exploitability import nash_conv
    from open_spiel.python.policy import TabularPolicy

    game = cast(SpielTable, _task("kuhn_poker").world).worlds[0].loaded
    gaps: dict[str, float] = {}
    for recipe in (VGC_BENCH, FICTITIOUS_PLAY):
        parts = _parts(recipe, "kuhn_poker")
        for step in range(1, 41):
            run_async(train_step(parts, step))
        tabular = TabularPolicy(game)
        for state in tabular.states:
            row = tabular.policy_for_key(state.information_state_string())
            for action, chance in _odds(cast(Any, parts.lead.policy), state).items():
                row[action] = chance
        gaps[recipe.name] = float(nash_conv(game, tabular))
    even = float(nash_conv(game, TabularPolicy(game)))
    return Finding(max(gaps.values()) < even, say(NashConv=gaps, of_even_odds=even))


def _met(shipped: ShippedRun) -> dict[str, float]:
    """How many steps had a former self in a seat."""
    count = 0
    for result in shipped.results:
        assert result.experience is not None
        count += any("@" in turn.policy for game in result.experience.trajectories for turn in game.turns)
    return {"steps with a former self": float(count)}


claim.shipped(VGC_BENCH, "hooks", steps=6, sees=_met)
