"""Claims about bidding under a budget."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.exact.mdp import Array
from hocket.methods.applications.rlb_bidding import (
    CLICK_RATES,
    KIND_SHARES,
    LARGEST_PRICE,
    PRICE_SHARES,
    RLB_BIDDING,
    Auctions,
    BudgetBidder,
    auctions,
    best_bids,
    linear_bids,
    policy_of,
)

claim = Claims("rlb-bidding", "arXiv:1701.02490")


@functools.cache
def _solved(horizon: int, budget: int, small: int = 0) -> tuple[Auctions, Array, Array]:
    """A world, the values `[T, B + 1]` that the method ends with, and its policy."""
    world, solver, key = auctions(horizon, budget), BudgetBidder(small=small), Key.of(0)
    state = solver.init(world, key)
    for number in range((small or horizon) + 1):
        state, _ = solver.step(world, state, key.derive(number))
    return world, state["values"], solver.answer(world, state)


def _enumerated(left: int, budget: int) -> float:
    """The best expected clicks by trying every bid at every node of the tree of impressions and prices."""
    if left == 0:
        return 0.0
    total = 0.0
    for rate, share in zip(CLICK_RATES, KIND_SHARES, strict=True):
        best = 0.0
        for bid in range(min(budget, LARGEST_PRICE) + 1):
            value = sum(
                weight
                * (rate + _enumerated(left - 1, budget - price) if price <= bid else _enumerated(left - 1, budget))
                for price, weight in enumerate(PRICE_SHARES)
                if weight
            )
            best = max(best, float(value))
        total += share * best
    return total


@claim("On few auctions and a small budget it is what enumeration of all bids finds.", "equation 3")
def on_few_auctions_it_is_what_enumeration_finds() -> Finding:
    off = [
        abs(_solved(4, 4)[1][left, budget] - _enumerated(left, budget))
        for left, budget in itertools.product(range(3), range(5))
    ]
    world, _, policy = _solved(3, 4)
    off.append(abs(world.value(policy) - _enumerated(3, 4)))
    return Finding(max(off) < 1e-12, say(off=max(off), cases=len(off)))


@claim("Its policy is worth the optimum of the world, which a solver of any decision process computes from the arrays.")
def its_policy_is_worth_the_optimum() -> Finding:
    gaps = []
    for horizon, budget in ((1, 1), (7, 30), (40, 20), (25, 60)):
        world, _, policy = _solved(horizon, budget)
        gaps.append(abs(world.value(policy) - world.optimum))
    return Finding(max(gaps) < 1e-10, say(gap=max(gaps)))


@claim("V rises with the auctions left and with the budget, ever more slowly; bids rise with the click rate.")
def values_rise_with_auctions_and_budget() -> Finding:
    _, values, _ = _solved(40, 20)
    more, budget = np.diff(values, axis=0).min(), np.diff(values, axis=1)
    bids = np.stack([best_bids(row) for row in values])
    holds = (
        more >= 0
        and budget.min() >= 0
        and np.diff(budget[1:], axis=1).max() < 1e-3
        and np.diff(bids, axis=2).min() >= 0
    )
    return Finding(bool(holds), say(least_by_auctions=float(more), least_by_budget=float(budget.min())))


@claim("In episodes spend never exceeds the budget, and clicks are what the values say within four standard errors.")
def spend_never_exceeds_the_budget() -> Finding:
    world, values, _ = _solved(40, 20)
    draw, count = Key.of(1).derive("episodes").numpy(), 4000
    left, clicks = np.full(count, 20), np.zeros(count)
    for later in reversed(range(40)):
        kind = draw.choice(3, count, p=KIND_SHARES)
        bid = best_bids(values[later])[left, kind]
        price = draw.choice(len(PRICE_SHARES), count, p=PRICE_SHARES)
        won = price <= bid
        left = left - won * price
        clicks += won * (draw.random(count) < CLICK_RATES[kind])
    off = abs(clicks.mean() - world.optimum) / (clicks.std() / count**0.5)
    return Finding(bool(left.min() >= 0 and off < 4), say(least_left=int(left.min()), standard_errors=float(off)))


@claim(
    "At tight budgets it earns 4 % more than the best of linear bidding and more, at a loose one as much.", slow=True
)
def at_tight_budgets_it_earns_more_than_linear_bidding() -> Finding:
    gains = {}
    for horizon, budget in ((40, 10), (40, 20), (12, 80)):
        world, _, policy = _solved(horizon, budget)
        tuned = max(world.value(policy_of(world, linear_bids(world, slope))) for slope in np.geomspace(0.25, 40, 30))
        gains[f"{horizon}x{budget}"] = world.value(policy) / tuned - 1
    tight = min(gains["40x10"], gains["40x20"])
    return Finding(tight > 0.04 and 0 <= gains["12x80"] < 1e-3, say(**gains))


@claim("A network of the gains of the last 15 of 60 auctions loses less than 2 % of the table's clicks.", slow=True)
def a_network_loses_less_than_two_percent() -> Finding:
    losses = []
    for budget in (15, 30, 60):
        world, _, policy = _solved(60, budget, 15)
        losses.append(1 - world.value(policy) / world.optimum)
    return Finding(max(losses) < 0.02 and min(losses) >= -1e-12, say(losses=losses))


claim.solved(RLB_BIDDING, {"opportunity": False}, better={"value": 1, "regret": -1})
