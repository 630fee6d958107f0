"""Teams of whom one may be a traitor, beside the normal form, by enumeration."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from hocket.methods.marl.bardec_pomdp.betrayal import Betrayal


def by_normal_form(game: Betrayal, watching: bool) -> float:
    """Max-min over mixtures of all pure joint plans of two members with two moves in two rounds."""
    firsts = list(itertools.product(range(2), repeat=2))
    later = list(itertools.product(range(2), repeat=4 if watching else 1))
    plans = [(first, second) for first in firsts for second in itertools.product(later, repeat=2)]
    # A traitor's plan: its first move, and its second by the other's first.
    answers = list(itertools.product(range(2), repeat=3))

    def second_of(plan, member, seen):
        return plan[1][member][2 * seen[0] + seen[1] if watching else 0]

    def earned(plan, member=None, answer=None):
        first = list(plan[0])
        if member is not None:
            first[member] = answer[0]
        second = [second_of(plan, one, first) for one in range(2)]
        if member is not None:
            second[member] = answer[1 + first[1 - member]]
        return game.pay[tuple(first)] + game.pay[tuple(second)]

    honest = np.array([earned(plan) for plan in plans])
    against = [np.array([[earned(plan, m, a) for plan in plans] for a in answers]) for m in range(2)]
    share = game.prior / 2
    rows = [np.concatenate([-of, np.tile(np.eye(2)[m], (len(answers), 1))], 1) for m, of in enumerate(against)]
    found = linprog(
        -np.concatenate([(1 - game.prior) * honest, [share, share]]),
        A_ub=np.concatenate(rows),
        b_ub=np.zeros(2 * len(answers)),
        A_eq=[[1.0] * len(plans) + [0.0, 0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * len(plans) + [(None, None)] * 2,
    )
    return -float(found.fun)


@pytest.mark.parametrize("watching", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_sequence_form_is_the_normal_form(seed, watching):
    rng = np.random.default_rng(seed)
    game = Betrayal(rng.normal(size=(2, 2)), 2, float(rng.uniform(0.2, 0.9)))
    assert game.security(watching=watching) == pytest.approx(by_normal_form(game, watching), abs=1e-7)


def tables(rng, members, moves, histories):
    drawn = {history: rng.dirichlet(np.ones(moves), members) for history in histories}
    return lambda history: drawn[history]


def test_no_team_that_draws_its_moves_apart_earns_more():
    rng = np.random.default_rng(5)
    game = Betrayal(rng.normal(size=(2, 2, 2)), 2, 0.4)
    best, blind = game.security(), game.security(watching=False)
    assert blind <= best + 1e-9
    worst = [game.worst(tables(rng, 3, 2, game.histories())) for _ in range(20)]
    assert max(worst) <= best + 1e-9


def test_posteriors_are_the_shares_of_what_happens():
    rng = np.random.default_rng(1)
    game = Betrayal(rng.normal(size=(2, 2, 2)), 3, 0.6)
    histories = list(game.histories())
    team, traitor = tables(rng, 3, 2, histories), tables(rng, 3, 2, histories)
    counts = {}
    for _ in range(40_000):
        who = int(rng.integers(3)) if rng.random() < 0.6 else 3
        history = ()
        for _round in range(2):
            ours, theirs = team(history), traitor(history)
            moves = tuple(int(rng.random() < (theirs if m == who else ours)[m, 1]) for m in range(3))
            history = (*history, moves)
        counts.setdefault(history, np.zeros(4))[who] += 1
    furthest = 0.0
    for history, seen in counts.items():
        likely = game.joint(team, traitor, history)
        furthest = max(furthest, float(np.abs(seen / 40_000 - likely).max()))
        for member in range(3):
            believed = game.posterior(team, traitor, history, member)
            assert believed[member] == 0
            assert believed.sum() == pytest.approx(1)
            others = np.delete(likely, member)
            assert np.delete(believed, member) == pytest.approx(others / others.sum())
    assert furthest < 0.01
    assert sum(game.joint(team, traitor, h).sum() for h in histories if len(h) == 2) == pytest.approx(1)


def test_the_worst_case_is_the_least_over_the_traitors_plans():
    rng = np.random.default_rng(2)
    game = Betrayal(rng.normal(size=(2, 2)), 2, 0.5)
    team = tables(rng, 2, 2, game.histories())
    for member in range(2):
        least = np.inf
        for answer in itertools.product(range(2), repeat=3):
            total = 0.0
            for other in range(2):
                first = (answer[0], other) if member == 0 else (other, answer[0])
                chance = team(())[1 - member, other]
                for last in range(2):
                    mine = answer[1 + other]
                    second = (mine, last) if member == 0 else (last, mine)
                    total += chance * team((first,))[1 - member, last] * (game.pay[first] + game.pay[second])
            least = min(least, total)
        assert game.betrayed(team, member) == pytest.approx(least)
