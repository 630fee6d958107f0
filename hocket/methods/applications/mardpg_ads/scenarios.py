"""One campaign that bids in two scenarios, a feed and a search, whose users and budget they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.methods.applications.mardpg_ads.session import SessionLog

Floats = NDArray[np.float64]

SCENARIOS = ("feed", "search")

RATES = ((0.5, 2.5), (1.0, 9.0))
"""Clicks that all of a moment's impressions bring, least and most, in each scenario."""

FADES = 0.7
"""What is left of the users' interest from moment to moment."""

ENTRY = 3
"""Numbers of an entry for each scenario: its rate, its bid, and the share of its impressions that it bought."""


@dataclass(frozen=True)
class Campaign:
    """Sessions of `length` moments; in each, impressions come up for auction in both scenarios.

    An action in [-1, 1] is a bid b in [0, 1]. Market prices are uniform in [0, 1] and winners pay them, so a bid buys
    the share b of the impressions for b^2 / 2. The bought share times the rate is paid, as clicks. Rates are drawn
    anew for every moment.

    `interaction` k is how far the scenarios depend on each other. A share k of the budget is common, and the rest is
    half the feed's and half the search's own, which is spent first. Where both want more of what is common than is
    left, each gets the same part of what it wants. The search's rate is multiplied by 1 - k + 2 k I, I the interest of
    users, which becomes `FADES` I + (1 - `FADES`) s with s the share that the feed has bought.

    A scenario sees its rate without I, what it may spend, the share of the session that is over, and a log of all
    moments before: rate, bid and share of its own, then of the other.

    Attributes:
        interaction: in [0, 1]. budget: a moment, in units of the highest price of all impressions of one scenario.
    """

    interaction: float = 1.0
    length: int = 6
    budget: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.interaction <= 1 or self.length < 1 or not self.budget > 0:
            raise ConfigurationError(
                f"task campaign needs an interaction in [0, 1], a length of at least 1 and a budget above 0, not "
                f"{self.interaction}, {self.length} and {self.budget}"
            )

    @property
    def name(self) -> str:
        return "campaign"

    @property
    def agents(self) -> tuple[str, ...]:
        return SCENARIOS

    @property
    def seats(self) -> tuple[Seat, ...]:
        log = SessionLog(3, self.length, 2 * ENTRY, ENTRY)
        return (Seat(log.observations, 1, discrete=False, sight_form=log),) * 2

    @property
    def joint(self) -> int:
        return 0

    def open(self, width: int) -> JointEnvironment:
        return Sessions(self, width)


class Sessions(JointEnvironment):
    """Sessions in as many copies.

    Attributes:
        rates: of all moments, `[B, T + 1, 2]`. own, common: what is left of the budget, `[B, 2]` and `[B]`. interest:
            `[B]`. log: `[B, T, 2, ENTRY]`.
    """

    def __init__(self, world: Campaign, width: int) -> None:
        self.world, self.time = world, np.zeros(width, np.int64)
        self.rates, self.interest = np.zeros((width, world.length + 1, 2)), np.zeros(width)
        self.own, self.common = np.zeros((width, 2)), np.zeros(width)
        self.log = np.zeros((width, world.length, 2, ENTRY))

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        world = self.world
        total, low = world.length * world.budget, np.array(RATES)[:, 0]
        for slot, seed in zip(slots, seeds, strict=True):
            draw = Key.of(seed).derive("campaign").numpy()
            self.rates[slot] = low + (np.array(RATES)[:, 1] - low) * draw.random((world.length + 1, 2))
            self.own[slot], self.common[slot] = (1 - world.interaction) * total / 2, world.interaction * total
            self.interest[slot], self.time[slot], self.log[slot] = 0.0, 0, 0.0
        return {}

    def _current_rates(self) -> Floats:
        """The rates of the moment, `[B, 2]`."""
        rates: Floats = self.rates[np.arange(len(self.time)), self.time]
        return rates

    def spent(self, wanted: Floats) -> tuple[Floats, Floats]:
        """What is spent of one's own and of the common budget, `[B, 2]` each, where so much is `wanted`, `[B, 2]`."""
        first = np.minimum(wanted, self.own)
        more = wanted - first
        part = np.minimum(1.0, self.common / np.maximum(more.sum(1), 1e-12))
        return first, more * part[:, None]

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        k, rows, rates = self.world.interaction, np.arange(len(live)), self._current_rates()
        bids = (np.clip(np.stack([np.asarray(action)[:, 0] for action in actions], 1), -1, 1) + 1) / 2
        wanted = bids**2 / 2
        private, common = self.spent(wanted)
        share = bids * (private + common) / np.maximum(wanted, 1e-12)
        paid = share * rates
        paid[:, 1] *= 1 - k + 2 * k * self.interest
        place = np.minimum(self.time, self.world.length - 1)
        entry = np.stack([rates, bids, share], -1)
        self.log[rows, place] = np.where(live[:, None, None], entry, self.log[rows, place])
        self.own = self.own - private * live[:, None]
        self.common = self.common - common.sum(1) * live
        self.interest = np.where(live, FADES * self.interest + (1 - FADES) * share[:, 0], self.interest)
        self.time = self.time + live
        over = np.repeat((self.time >= self.world.length)[:, None], 2, 1)
        return Moved(paid, over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        width, length = len(self.time), self.world.length
        rates, filled = self._current_rates(), (np.arange(length) < self.time[:, None]).astype(np.float64)
        sights = []
        for agent in range(2):
            may = (self.own[:, agent] + self.common) / (length * self.world.budget)
            numbers = np.stack([rates[:, agent], may, self.time / length], 1)
            entries = self.log[:, :, [agent, 1 - agent]].reshape(width, length, -1)
            log = np.concatenate([filled[..., None], entries], -1).reshape(width, -1)
            sights.append(np.concatenate([numbers, log], 1).astype(np.float32))
        return sights
