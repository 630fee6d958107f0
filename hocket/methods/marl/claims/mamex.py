"""Claims of equilibria of optimistic tables."""

from __future__ import annotations

import itertools

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array
from hocket.methods.marl.mamex.markov_games import MarkovGame, coarse_equilibrium, doors, gap, rumours, strangers
from hocket.methods.marl.mamex.method import MAMEX, OptimisticTable, loss

claim = Claims("mamex", "recalled")


def gaps(game: MarkovGame, solver: OptimisticTable, steps: int, seed: int = 0) -> Array:
    """The gap of what was played in each round."""
    state, found = solver.init(game, Key.of(seed)), []
    for step in range(steps):
        state, _ = solver.step(game, state, Key.of(seed).derive(step))
        found.append(-game.value(solver.answer(game, state)))
    return np.array(found)


def growth(found: Array) -> float:
    """The log-log slope of the summed gaps over their last three quarters: 1 where they stay as they are."""
    summed, rounds = found.cumsum(), np.arange(1, len(found) + 1)
    late = rounds > len(found) / 4
    return float(np.polyfit(np.log(rounds[late]), np.log(summed[late] + 1e-12), 1)[0])


@claim("Nobody gains much by leaving what regret matching finds; where interests are opposed it is worth the value.")
def nobody_gains_much_by_leaving_what_regret_matching_finds_where() -> Finding:
    draw, worst, apart = Key.of(1).derive("tables").numpy(), 0.0, 0.0
    for _ in range(20):
        pay = draw.uniform(size=(2, 6, 5))
        worst = max(worst, gap(pay, coarse_equilibrium(pay)))
        one = draw.uniform(-1, 1, (2, 2))
        found = coarse_equilibrium(np.stack([one, -one]), 4000)
        low, high = one.min(1).max(), one.max(0).min()  # A saddle, or the mixed value of a table of two by two.
        mixed = (one[0, 0] * one[1, 1] - one[0, 1] * one[1, 0]) / (one[0, 0] + one[1, 1] - one[0, 1] - one[1, 0])
        apart = max(apart, abs(float((found * one).sum()) - (low if low >= high else mixed)))
    return below(0.03, gap=worst, from_value=apart)


@claim("A gap is what the better-off deviation gains against what the other was told to play.")
def a_gap_is_what_the_better_off_deviation_gains_against_what_the() -> Finding:
    """Told (0, 0) and (1, 1) evenly, who is paid for differing gains a half by either move; told (0, 0), all."""
    differ = 1 - np.eye(2)
    even, sure = np.eye(2) / 2, np.diag([1.0, 0.0])
    pay = np.stack([differ, np.zeros((2, 2))])
    second = pay[::-1].transpose(0, 2, 1)
    return below(1e-12, even=abs(gap(pay, even) - 0.5), sure=abs(gap(pay, sure) - 1), second=abs(gap(second, sure) - 1))


@claim("A hypothesis loses by what it thought unlikely, and pays eta for what it is behind the best.")
def a_hypothesis_loses_by_what_it_thought_unlikely_and_pays_eta_for() -> Finding:
    game, losses = strangers(3, 12), np.zeros(12)
    walks = [game.walk(37 * episode % 256, Key.of(episode)) for episode in range(5)]
    for walk, step in itertools.product(walks, range(2)):
        state, after, (own, other) = walk.states[step], walk.states[step + 1], walk.moves[step]
        losses -= np.log(game.candidates[:, state, own, other, after])
    summed = sum(loss(game, walk) for walk in walks)
    table = (game.payoffs - 0.3 * (losses - losses.min())[:, None, None, None]).max(0)
    found = OptimisticTable(eta=0.3).table(game, losses)
    return below(1e-12, losses=float(np.abs(summed - losses).max()), table=float(np.abs(found - table).max()))


@claim("Before the first round all pairs are played alike; what a hypothesis rules out costs it 12 ln 10, no more.")
def before_the_first_round_all_pairs_are_played_alike_what_a() -> Finding:
    game, ruled, worst = doors(3), 0, 0.0
    start = OptimisticTable().init(game, Key.of(0))
    pairs = len(game.policies) ** 2
    even = start["mixture"].shape == (pairs,) and float(np.abs(start["mixture"] - 1 / pairs).max()) < 1e-15
    for pair in range(pairs):
        walk = game.walk(pair, Key.of(pair))
        for kind, found in enumerate(loss(game, walk)):
            due = 0.0
            for step, (own, other) in enumerate(walk.moves):
                chance = float(game.candidates[kind, walk.states[step], own, other, walk.states[step + 1]])
                ruled += chance == 0
                due += -np.log(chance) if chance else 12 * np.log(10)
            worst = max(worst, abs(float(found) - due))
    return below(1e-9, even, ruled > 0, off=worst)


@claim("Summed gaps grow more slowly than rounds behind doors, and the gap goes there and among strangers.")
def summed_gaps_grow_more_slowly_than_rounds_behind_doors_and_the() -> Finding:
    behind = [gaps(doors(6), OptimisticTable(rounds=400), 120, seed) for seed in range(4)]
    among = [gaps(strangers(3, 12), OptimisticTable(rounds=400), 60, seed) for seed in range(3)]
    grown, late = [growth(one) for one in behind], [float(one[-20:].mean()) for one in behind + among]
    return Finding(max(grown) < 0.8 and max(late) < 0.02, say(growth=grown, late=late))


@claim("Without hope no door is tried, and the gap stays; a dear loss leaves only what is likeliest, hope among it.")
def without_hope_no_door_is_tried_and_the_gap_stays_a_dear_loss() -> Finding:
    game = doors(3)
    hoping, dear = (gaps(game, OptimisticTable(eta=eta, rounds=400), 60) for eta in (0.1, 1e6))
    without = gaps(game, OptimisticTable(optimistic=False, rounds=400), 60)
    return Finding(
        hoping[-1] < 0.02 and dear[-1] < 0.02 and without.min() > 0.15 and abs(growth(without) - 1) < 1e-6,
        say(hoping=float(hoping[-1]), dear=float(dear[-1]), without=float(without[-1])),
    )


@claim(
    "A large eta fails where exploring is needed: behind that door it gives up at the first failures and never tries "
    "again, so summed gaps grow as rounds do; a small one finds it. In each of 6 draws, with two rumours and with six."
)
def a_large_eta_fails_where_exploring_is_needed_behind_that_door_it() -> Finding:
    late, slopes = dict[float, list[float]](), dict[float, list[float]]()
    for eta in (0.01, 1e6):
        runs = [gaps(rumours(n), OptimisticTable(eta=eta, rounds=200), 60, seed) for n in (2, 6) for seed in range(6)]
        late[eta], slopes[eta] = [float(one[-1]) for one in runs], [growth(one) for one in runs]
    grows = min(slopes[1e6]) > 0.98 and max(slopes[0.01]) < 0.5
    said = {"small": max(late[0.01]), "large": min(late[1e6]), "slopes": [max(slopes[0.01]), min(slopes[1e6])]}
    return Finding(grows and max(late[0.01]) < 0.02 and min(late[1e6]) > 0.05, say(**said))


claim.spares("mixture / mixture.sum() -> mixture", "it sums to 1 but for rounding")
claim.solved(MAMEX, {"optimistic": False}, better={"value": 1, "regret": -1})
