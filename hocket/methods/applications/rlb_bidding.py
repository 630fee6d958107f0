"""Real-time bidding under a budget by dynamic programming: RLB (Cai et al., arXiv:1701.02490).

With t auctions and a budget of b left, an impression x comes with a click rate theta(x), and a bid of a wins where the
market price d is at most a, at the price d (second price). With m(d) the distribution of prices,

    V(t, b) = E_x[ max_a  sum_{d <= a} m(d) (theta(x) + V(t-1, b-d)) + sum_{d > a} m(d) V(t-1, b) ],

so the best bid is the largest d <= b with `theta(x) + V(t-1, b-d) - V(t-1, b) >= 0`: what a click is worth beyond what
the price would have bought later. Many auctions are too many for a table. Then the programme runs for the last `small`
auctions, a network is fitted to the gains `D(t, b) = V(t, b+1) - V(t, b)` as a function of the budget an auction,
`b / t`, and of `1 / t`, and it bids before. The paper fits D as a function of t and b, and maps large ones to small.

The world `auctions:TxB` has planted prices and click rates in the place of the paper's logs. It is a tabular decision
process, whose optimum other code computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.solver import EpisodicSolver, SolverMethod, State
from hocket.lab.exact.worlds import WorldFamily
from hocket.policies.control_networks import Perceptron

CLICK_RATES = np.array([0.02, 0.08, 0.3])
"""Of the kinds of impressions."""

KIND_SHARES = np.array([0.5, 0.35, 0.15])
"""How often each kind comes."""

LARGEST_PRICE = 8
PRICE_SHARES = np.array([0.0, *(0.7 ** np.arange(LARGEST_PRICE))])
PRICE_SHARES = PRICE_SHARES / PRICE_SHARES.sum()
"""How likely each market price from 0 to `LARGEST_PRICE` is; a price is at least 1."""


@dataclass(frozen=True, eq=False)
class Auctions(TabularMDP):
    """A state is a budget left and a kind of impression, `budget * kinds + kind`; an action is a bid.

    A bid above the budget counts as the budget. What is paid for is the click rate of what is won.

    Attributes:
        budget: at the start.
    """

    budget: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget < 1:
            raise ConfigurationError(f"{self.name}: a budget of {self.budget} buys nothing; take at least 1")


def auctions(horizon: int, budget: int) -> Auctions:
    """`horizon` auctions and a `budget`, in whole units of price."""
    kinds, bids = len(CLICK_RATES), LARGEST_PRICE + 1
    states = (budget + 1) * kinds
    transition, reward = np.zeros((states, bids, states)), np.zeros((states, bids))
    for left, kind, bid in np.ndindex(budget + 1, kinds, bids):
        state, chance = left * kinds + kind, 0.0
        for price in range(1, min(bid, left) + 1):
            after = (left - price) * kinds
            transition[state, bid, after : after + kinds] += PRICE_SHARES[price] * KIND_SHARES
            chance += PRICE_SHARES[price]
        transition[state, bid, left * kinds : (left + 1) * kinds] += (1 - chance) * KIND_SHARES
        reward[state, bid] = chance * CLICK_RATES[kind]
    start = np.zeros(states)
    start[budget * kinds :] = KIND_SHARES
    return Auctions(transition, reward, start, horizon, name=f"auctions:{horizon}x{budget}", budget=budget)


AUCTIONS = WorldFamily(
    name="auctions", description="auctions by budget: bids for impressions", make=auctions, size=(40, 20)
)


def best_bids(values: Array) -> Array:
    """The best bid `[B + 1, kinds]` of each budget, by the values `[B + 1]` of what is left for later auctions."""
    bids = np.zeros((len(values), len(CLICK_RATES)), np.int64)
    for price in range(1, LARGEST_PRICE + 1):
        lost = np.full(len(values), np.inf)
        lost[price:] = values[price:] - values[:-price]
        bids = np.where(lost[:, None] <= CLICK_RATES, price, bids)
    return np.asarray(bids, np.int64)


def earlier_values(values: Array, bids: Array) -> Array:
    """The values `[B + 1]` with one auction more, by these bids in it."""
    total = np.zeros_like(bids, dtype=np.float64) + values[:, None]
    for price in range(1, LARGEST_PRICE + 1):
        won = bids >= price
        later = np.full(len(values), -np.inf)
        later[price:] = values[:-price]
        gain = CLICK_RATES + np.where(won, later[:, None], 0.0) - values[:, None]
        total += np.where(won, PRICE_SHARES[price] * gain, 0.0)
    return np.asarray(total @ KIND_SHARES, np.float64)


def policy_of(world: Auctions, bids: Array) -> Array:
    """Certain bids `[H, B + 1, kinds]`, H - t steps before the end, as a policy `[H, S, A]`."""
    chosen: Array = np.eye(world.actions)[bids.reshape(len(bids), -1)]
    return chosen


def linear_bids(world: Auctions, slope: float) -> Array:
    """A bid in proportion to the click rate, whatever is left, `[H, B + 1, kinds]`: what most bidders do."""
    bid = np.minimum(np.floor(slope * CLICK_RATES / (CLICK_RATES @ KIND_SHARES)), LARGEST_PRICE).astype(np.int64)
    return np.asarray(np.broadcast_to(bid, (world.horizon or 0, world.budget + 1, len(bid))), np.int64)


@dataclass(frozen=True)
class BudgetBidder(EpisodicSolver):
    """See the module; a step adds one auction to the table, or fits the network.

    Attributes:
        small: auctions in the table; all where 0. opportunity: whether a bid weighs what its price would buy later;
            without, it wins all that it can.
        hidden, fits, lr: units of both layers, steps and learning rate of the network's fit.
    """

    world = Auctions
    small: int = 0
    opportunity: bool = True
    hidden: int = 24
    fits: int = 1500
    lr: float = 1e-2

    def __post_init__(self) -> None:
        if self.small < 0 or self.hidden < 1 or self.fits < 1 or not self.lr > 0:
            raise ConfigurationError(
                f"method.small = {self.small}, method.hidden = {self.hidden}, method.fits = {self.fits}, method.lr = "
                f"{self.lr}: small is at least 0, hidden and fits at least 1, lr positive"
            )

    def init(self, world: Auctions, key: Key) -> State:
        assert world.horizon is not None
        return {"values": np.zeros((world.horizon, world.budget + 1)), "known": np.ones((), np.int64)}

    def step(self, world: Auctions, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        values, known = state["values"].copy(), int(state["known"])
        table, error = self.small or len(values), 0.0
        if known < min(table, len(values)):
            values[known] = earlier_values(values[known - 1], best_bids(self._weighed(values[known - 1])))
            known += 1
        elif known < len(values):
            gains, error = fitted_gains(values[:known], len(values), self, key)
            values[known:, 1:] = gains.cumsum(1)
            known = len(values)
        return {"values": values, "known": np.asarray(known)}, {"auctions": float(known), "error": error}

    def answer(self, world: Auctions, state: State) -> Array:
        values, known = state["values"], int(state["known"])
        # Before the table is complete the earliest auctions bid as the first one in it.
        later = [values[min(left, known - 1)] for left in reversed(range(len(values)))]
        return policy_of(world, np.stack([best_bids(self._weighed(row)) for row in later]))

    def _weighed(self, values: Array) -> Array:
        return values if self.opportunity else np.zeros_like(values)


def fitted_gains(values: Array, auctions_left: int, settings: BudgetBidder, key: Key) -> tuple[Array, float]:
    """The gains D(t, b) `[T - small, B]` of t = small to T - 1 by a network fitted to the table, and its mean error.

    `values` are V(t, b) of t = 0 to small - 1. Gains lie between 0 and the highest click rate.
    """
    small, budget = values.shape[0], values.shape[1] - 1
    left = np.repeat(np.arange(1, small), budget)
    rows, wanted = _features(left, np.tile(np.arange(budget), small - 1)), np.diff(values[1:], axis=1).ravel()
    sizes = (rows.shape[1], settings.hidden, settings.hidden, 1)
    network = Perceptron(sizes, last_gain=1.0, key=key.derive("gains")).double()
    top, target = float(CLICK_RATES.max()), torch.from_numpy(wanted)
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, settings.fits)
    inputs, loss = torch.from_numpy(rows), torch.zeros(())
    for _ in range(settings.fits):
        optimiser.zero_grad()
        loss = ((top * torch.sigmoid(network(inputs).squeeze(-1)) - target) ** 2).mean()
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        left = np.repeat(np.arange(small, auctions_left), budget)
        rows_asked = torch.from_numpy(_features(left, np.tile(np.arange(budget), auctions_left - small)))
        gains = top * torch.sigmoid(network(rows_asked).squeeze(-1)).numpy().reshape(-1, budget)
    return np.asarray(gains, np.float64), float(loss.detach()) ** 0.5


def _features(left: NDArray[np.int64], budget: NDArray[np.int64]) -> Array:
    """What the network reads of t auctions and a budget: logarithms of the budget an auction, and 1 / t."""
    return np.stack([np.log((budget + 0.5) / left), np.sqrt((budget + 0.5) / left), 1 / left], 1).astype(np.float64)


RLB_BIDDING = SolverMethod(
    name="rlb-bidding",
    description="bids for impressions under a budget by dynamic programming, or a network of its gains",
    solver=BudgetBidder(),
    world="auctions:40x20",
    steps=40,
    source="Cai et al., Real-Time Bidding by Reinforcement Learning in Display Advertising, arXiv:1701.02490",
)
