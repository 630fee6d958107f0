"""Claims of equilibria of players who mind variance."""

from __future__ import annotations

import itertools

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array
from hocket.methods.marl.rae.games import MatrixGame, stag_hunt, trust, zero_sum
from hocket.methods.marl.rae.method import RAE, RiskAverse, answer, utility

claim = Claims("rae", "recalled")


def solved(game: MatrixGame, solver: RiskAverse, steps: int) -> tuple[Array, dict[str, float]]:
    """The mixes after so many steps, and the last figures."""
    state, key = solver.init(game, Key.of(0)), Key.of(0)
    figures: dict[str, float] = {}
    for step in range(steps):
        state, found = solver.step(game, state, key.derive(step))
        figures = dict(found)
    return solver.answer(game, state), figures


def enumerated(mean: Array, spread: Array, aversion: float) -> float:
    """The largest utility of any mix, by the conditions of optimality on every support."""
    best = max(utility(one, mean, spread, aversion) for one in np.eye(len(mean)))
    for size in range(2, len(mean) + 1):
        for support in map(list, itertools.combinations(range(len(mean)), size)):
            system = np.ones((size + 1, size + 1))
            system[:size, :size] = 2 * aversion * spread[np.ix_(support, support)]
            system[size, size] = 0
            found = np.linalg.lstsq(system, np.append(mean[support], 1.0), rcond=None)[0][:size]
            mix = np.zeros(len(mean))
            mix[support] = found
            if found.min() >= -1e-12 and abs(mix.sum() - 1) < 1e-9:
                best = max(best, utility(mix, mean, spread, aversion))
    return best


@claim("Moments are those of the enumerated pay, and an answer's utility the largest of any mix on any support.")
def moments_are_those_of_the_enumerated_pay_and_an_answers_utility() -> Finding:
    draw, off, mixed, moments = Key.of(0).derive("answers").numpy(), 0.0, 0, 0.0
    for _ in range(60):
        pay = draw.normal(size=(4, 5))
        game = MatrixGame((pay, draw.normal(size=(5, 4))), 0.1)
        mixes = np.zeros((2, 5))
        mixes[0, :4], mixes[1] = draw.dirichlet(np.ones(4)), draw.dirichlet(np.ones(5))
        mean, spread = game.moments(mixes, 0)
        met = 0.9 * mixes[1] + 0.1 / 5
        own = draw.dirichlet(np.ones(4))
        earned = own @ pay  # What this mix expects against each move of the other.
        variance = float(met @ (earned - met @ earned) ** 2)
        moments = max(moments, abs(float(own @ mean) - float(met @ earned)), abs(float(own @ spread @ own) - variance))
        found = answer(mean, spread, 0.7)
        mixed += int(found.max() < 0.999)
        off = max(off, abs(utility(found, mean, spread, 0.7) - enumerated(mean, spread, 0.7)))
    return below(1e-7, mixed > 10, moments_off=moments, utility_off=off)


@claim("So it is where seven moves meet three of the other's, and many mixes have no variance against each other.")
def so_it_is_where_seven_moves_meet_three_of_the_others_and_many() -> Finding:
    draw, off, sizes = Key.of(4).derive("flat").numpy(), 0.0, set[int]()
    for _ in range(40):
        pay = draw.normal(size=(7, 3))
        game = MatrixGame((pay, draw.normal(size=(3, 7))), 0.2)
        mixes = np.zeros((2, 7))
        mixes[1, :3] = draw.dirichlet(np.ones(3))
        mean, spread = game.moments(mixes, 0)
        found = answer(mean, spread, 1.5)
        sizes.add(int((found > 1e-6).sum()))
        off = max(off, abs(utility(found, mean, spread, 1.5) - enumerated(mean, spread, 1.5)))
    return below(1e-6, {2, 3} <= sizes, utility_off=off)


@claim("Without aversion it ends in Nash's equilibrium: in games of opposed interests nobody has anything to gain.")
def without_aversion_it_ends_in_nashs_equilibrium_in_games_of() -> Finding:
    gaps = [
        -game.value(solved(game, RiskAverse(aversion=0.0), 3000)[0])
        for game in (zero_sum(size, size + 1) for size in (2, 3, 4, 5))
    ]
    return below(0.03, largest_gap=max(gaps))


@claim("Of several equilibria with the same mean it takes the one of least variance.")
def of_several_equilibria_with_the_same_mean_it_takes_the_one_of() -> Finding:
    """Against a column that chooses evenly all rows earn 2 on average: for sure, as 1 or 3, or as 0 or 4."""
    row = np.array([[0.0, 4.0], [1.0, 3.0], [2.0, 2.0]])
    game = MatrixGame((row, np.zeros((2, 3))), tremble=1.0)  # A column whose hand always trembles is even.
    variances = [float(game.moments(np.zeros((2, 3)), 0)[1][move, move]) for move in range(3)]
    mixes, figures = solved(game, RiskAverse(aversion=0.3), 400)
    return Finding(
        variances == [4.0, 1.0, 0.0] and figures["row variance"] < 1e-3 and mixes[0, 2] > 0.98,
        say(variance=figures["row variance"], of_equilibria=variances),
    )


@claim("In a stag hunt with trembles e both go from stag to hare where g passes (1 - 4e) / (32 e (1 - e)), as by hand.")
def in_a_stag_hunt_with_trembles_e_both_go_from_stag_to_hare_where() -> Finding:
    """A little more of the stag earns 4 (1 - e) less 32 g e (1 - e) there, the hare 3; beyond, no mix of both holds."""
    kept, left = [], []
    for percent in (2, 5, 10, 20):
        shake = percent / 100 / 2  # Half of the even draws are the same move.
        switch = (1 - 4 * shake) / (32 * shake * (1 - shake))
        game = stag_hunt(percent)
        kept.append(solved(game, RiskAverse(aversion=0.9 * switch), 300)[0][:, 0].min())
        left.append(solved(game, RiskAverse(aversion=1.3 * switch), 3000)[0][:, 0].max())
    return Finding(min(kept) == 1.0 and max(left) < 0.05, say(stag_below=min(kept), stag_above=max(left)))


@claim(
    "On the line of trust, with moves found one by one, those who mind risk go home and those who do not meet far away."
)
def on_the_line_of_trust_with_moves_found_one_by_one_those_who_mind() -> Finding:
    """From the path to the far end; with all moves known the ends are the same, and far fewer are ever looked at."""
    game = trust(3)
    far, found = game.moves[0] - 1, {}
    homeward = np.array([game.pay[0][move].min() == 3.0 for move in range(game.moves[0])])
    for aversion in (0.0, 2.0):
        for grow in (True, False):
            solver = RiskAverse(aversion=aversion, first=far, grow=grow)
            mixes, figures = solved(game, solver, 600)
            found[aversion, grow] = (float(mixes[0, far]), float(mixes[0, homeward].sum()), figures["moves known"])
    same = all(abs(found[g, True][0] - found[g, False][0]) < 0.05 for g in (0.0, 2.0))
    fewer = found[2.0, True][2] < found[2.0, False][2] / 4
    return Finding(
        same and fewer and found[0.0, True][0] > 0.95 and found[2.0, True][1] > 0.95,
        say(far_without=found[0.0, True][0], home_with=found[2.0, True][1], known=found[2.0, True][2], of=54),
    )


@claim("With aversion the risk gap closes in random games of any interests.")
def with_aversion_the_risk_gap_closes_in_random_games_of_any() -> Finding:
    draw, gaps = Key.of(3).derive("games").numpy(), []
    for _ in range(6):
        game = MatrixGame((draw.normal(size=(3, 3)), draw.normal(size=(3, 3))), 0.1)
        gaps.append(solved(game, RiskAverse(aversion=2.0), 1500)[1]["risk gap"])
    return below(0.03, largest_gap=max(gaps))


@claim("A run is the module's, step by step: answers averaged since the last addition, moves added, and all figures.")
def a_run_is_the_modules_step_by_step_answers_averaged_since_the() -> Finding:
    draw, gaps, sizes = Key.of(9).derive("run").numpy(), [], []
    for grow in (True, False):
        game = MatrixGame((draw.normal(size=(3, 5)), draw.normal(size=(5, 3))), 0.1)
        solver, key = RiskAverse(aversion=0.4, first=1, grow=grow, every=2), Key.of(0)
        state, since = solver.init(game, key), 0
        mixes, known = [np.eye(3)[1], np.eye(5)[1]], [{1}, {1}] if grow else [set(range(3)), set(range(5))]
        for step in range(9):
            padded = np.stack([np.append(mixes[0], [0.0, 0.0]), mixes[1]])
            moments = [game.moments(padded, player) for player in (0, 1)]
            if grow and since == 2:
                since = 0
                for player, (mean, spread) in enumerate(moments):
                    slope = mean - 0.8 * spread @ mixes[player]
                    if max(slope) > slope @ mixes[player] + 1e-6:
                        known[player].add(int(slope.argmax()))
            answers = []
            for player, (mean, spread) in enumerate(moments):
                moves, whole = sorted(known[player]), np.zeros(len(mean))
                whole[moves] = answer(mean[moves], spread[np.ix_(moves, moves)], 0.4)
                answers.append(whole)
            mixes = [one + (to - one) / (since + 2) for one, to in zip(mixes, answers, strict=True)]
            since += 1
            state, told = solver.step(game, state, key.derive(step))
            found = solver.answer(game, state)
            padded, wanted = np.stack([np.append(mixes[0], [0.0, 0.0]), mixes[1]]), 0.0
            gaps += [float(np.abs(found - padded).max()), abs(told["moves known"] - sum(map(len, known)))]
            gaps.append(abs(int(state["made"][0]) - step - 1) + abs(int(state["made"][1]) - since))
            for player, name in enumerate(("row", "column")):
                mean, spread = game.moments(padded, player)
                own, best = mixes[player], answer(mean, spread, 0.4)
                held = [float(one @ mean - 0.4 * one @ spread @ one) for one in (best, own)]
                wanted += held[0] - held[1]
                gaps += [abs(told[f"{name} mean"] - own @ mean), abs(told[f"{name} variance"] - own @ spread @ own)]
            gaps.append(abs(told["risk gap"] - wanted))
            sizes.append(sum(map(len, known)))
    return below(1e-12, sizes[0] == 2 < sizes[8], sizes[-1] == 8, largest_difference=max(map(float, gaps)))


@claim("A first move that one of the players does not have is refused.")
def a_first_move_that_one_of_the_players_does_not_have_is_refused() -> Finding:
    game, refused = MatrixGame((np.zeros((2, 4)), np.zeros((4, 2)))), []
    for first in (0, 1, 2, 3):
        try:
            RiskAverse(first=first).init(game, Key.of(0))
        except ConfigurationError:
            refused.append(first)
    return Finding(refused == [2, 3], say(refused=str(refused)))


@claim("A move that is as good as the one that is known, and no better, is not added.")
def a_move_that_is_as_good_as_the_one_that_is_known_and_no_better() -> Finding:
    game, solver = MatrixGame((np.zeros((3, 3)), np.zeros((3, 3)))), RiskAverse(first=1, grow=True, every=1)
    mixes, figures = solved(game, solver, 4)
    return Finding(
        figures["moves known"] == 2 and mixes[:, 1].tolist() == [1.0, 1.0], say(known=figures["moves known"])
    )


claim.spares("1e-06 -> 3.9999999999999996e-05", "only makes up for rounding")
claim.spares("1e-12 -> 4e-11", "only makes up for rounding")
claim.spares("1e-09 * max(1.0, float(np.abs(spread).max())) -> 1e-09", "a trace of curvature of any size does")
claim.spares("1e-09 -> 4e-08", "a trace of curvature of any size does")
claim.spares(
    "max(1.0, float(np.abs(spread).max())) -> min(1.0, float(np.abs(spread).max()))",
    "a trace of curvature of any size does",
)
claim.spares("1.0 -> 40.0", "a trace of curvature of any size does")
claim.spares("np.abs(spread).max() -> np.abs(spread).min()", "a trace of curvature of any size does")
claim.spares("20 * count -> 20", "more steps than are ever needed")


claim.spares("slope @ own + NEGLIGIBLE -> slope @ own", "only makes up for rounding")
BACK = "only on the way: a move given up for nothing comes back, since it ends where no other does better"
claim.spares("(own[down] / (own[down] - wanted[down])).min() -> (own[down] / (own[down] - wanted[down])).max()", BACK)
claim.spares("own[down] - wanted[down] -> own[down]", BACK)
claim.spares("wanted - own -> wanted + own", BACK)
claim.spares("wanted - own -> wanted", BACK)
claim.spares("own <= TOLERANCE -> own > TOLERANCE", BACK)
claim.spares("own / own.sum() -> own", BACK)

claim.solved(RAE, {"aversion": 0.0}, world="trust:2", steps=200, settings={"aversion": 2.0, "first": 8})
