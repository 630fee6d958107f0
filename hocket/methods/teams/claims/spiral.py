"""SPIRAL's claims."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from hocket.core.keys import Key
from hocket.lab.claims import harness
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.methods.base.reinforce import REINFORCE_BASELINE
from hocket.methods.teams.spiral import SPIRAL
from hocket.recipe import Recipe

claim = Claims("spiral", "arXiv:2506.24119 and the released code")


def game(first: float, second: float, turns: int = 3) -> dict[str, Any]:
    """A game of two roles that alternate, each paid at its last turn."""
    places = range(turns)
    paid = {max(n for n in places if n % 2 == seat): won for seat, won in ((0, first), (1, second))}
    agents = [("first", "second")[n % 2] for n in places]
    row = {"group": "game", "scores": {}, "logp": [-0.7] * turns, "turn": list(places), "agent": agents}
    return {**row, "turn_scores": [{"reward": paid.get(n, 0.0)} for n in places]}


def inspect_rows(recipe: Recipe, games: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a recipe makes of games that were asked for in this order."""
    return harness.inspect_rows(recipe, [{**one, "id": f"{number:04}"} for number, one in enumerate(games)])


@claim("A role's turns get what it earned less the mean of its earlier games, decayed by 0.95 from 0, game by game.")
def a_roles_turns_get_what_it_earned_less_the_mean_of_its_earlier() -> Finding:
    outcomes = [(1.0, -1.0), (-1.0, 1.0), (1.0, -0.5)]
    found = inspect_rows(SPIRAL, [game(*one) for one in outcomes])["advantages"]
    baselines, wanted = [0.0, 0.0], []
    for one in outcomes:
        wanted.append([one[n % 2] - baselines[n % 2] for n in range(3)])
        baselines = [0.95 * old + 0.05 * new for old, new in zip(baselines, one, strict=True)]
    return below(EXACT, off_by_hand=gap(found, wanted))


@claim("A game's own outcome is not in its baseline, nor a later one's.", "derived")
def a_games_own_outcome_is_not_in_its_baseline_nor_a_later_ones() -> Finding:
    def first(own: float, later: float) -> float:
        rows = [game(0.5, 0.5), game(own, 0.0), game(later, 0.0)]
        return float(inspect_rows(SPIRAL, rows)["advantages"][1][0])

    moved = abs(first(1.0, 0.0) - first(0.0, 0.0) - 1)
    return below(EXACT, beyond_its_own=moved, by_a_later_one=abs(first(1.0, 1.0) - first(1.0, 0.0)))


@claim("Where one role wins more often, its good games keep small advantages; one baseline for both inflates them.")
def where_one_role_wins_more_often_its_good_games_keep_small() -> Finding:
    rng = Key.of(0).derive("claims", "spiral").numpy()
    wins = (rng.random(400) < 0.8) * 2.0 - 1.0
    rows = [game(float(won), -float(won), turns=2) for won in wins]
    ours = inspect_rows(SPIRAL, rows)["advantages"][200:]
    means = [fmean(row[seat] for row in ours) for seat in (0, 1)]
    raw = float(wins[200:].mean())
    return Finding(max(map(abs, means)) < 0.15 < raw, say(mean_by_role=str(means), mean_reward_of_the_first=raw))


@claim("With one role and one turn it is REINFORCE with a baseline that moves within the batch.", "derived")
def with_one_role_and_one_turn_it_is_reinforce_with_a_baseline_that() -> Finding:
    rows = [{"group": "g", "scores": {"reward": reward}, "logp": [-1.0]} for reward in (1.0, 0.0, 1.0)]
    ours, plain = (inspect_rows(one, rows)["advantages"] for one in (SPIRAL, REINFORCE_BASELINE))
    return below(EXACT, off_by_hand=gap(ours, [[1.0], [-0.05], [1 - 0.0475]]), plain=gap(plain, [[1.0], [0.0], [1.0]]))
