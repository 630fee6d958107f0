"""The market: accounts, prices that nobody moves or knows, and what is refused."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.zoo.joint import market
from hocket.zoo.joint.market import Market, Portfolios, planted_scores, weights_of

LIVE = np.ones(3, bool)


def _book(world):
    book = Portfolios(world, 3)
    book.reset(range(3), [1, 3, 5])
    return book


def test_equal_weights_earn_the_mean_return_less_the_cost_of_coming_back_to_them():
    world = Market(cost=0.01)
    book = _book(world)
    first = book.step([np.zeros((3, 4))], LIVE).rewards[:, 0] / 100
    returns = np.stack([world.path(seed)[world.window] for seed in (1, 3, 5)])
    assert first == pytest.approx(returns.mean(1))
    drifted = 0.25 * (1 + returns) / (1 + returns.mean(1))[:, None]
    assert book.weights == pytest.approx(drifted)
    book.step([np.zeros((3, 4))], LIVE)
    assert book.costs == pytest.approx(0.01 * np.abs(0.25 - drifted).sum(1))


def test_weights_are_shares_whatever_the_action():
    weights = weights_of(np.array([[0, 0, 0, 0], [900, -900, 0, 5], [-50, -50, -49, -50]]))
    assert weights.sum(1) == pytest.approx(1)
    assert (weights >= 0).all()
    assert weights[1, 0] == pytest.approx(1)


def test_grants_and_taxes_follow_score_and_return():
    book = _book(Market(regulated=True, cost=0.0))
    low, high = int(planted_scores().argmin()), int(planted_scores().argmax())
    book.step([50.0 * np.eye(4)[[low] * 3]], LIVE)
    assert book.taxes == pytest.approx(0.03 * planted_scores().mean())
    book.step([50.0 * np.eye(4)[[high] * 3]], LIVE)
    assert book.taxes == pytest.approx(0)
    assert (book.grants >= 0).all()


def test_an_episode_of_stocks_is_a_run_of_recorded_days():
    if importlib.util.find_spec("skfolio") is None:
        pytest.skip("skfolio is not installed")
    world = Market("sp500", begin=2015, end=2016, length=10)
    path, panel = world.path(7), world.panel
    assert path.shape == (12, 20)
    start = next(day for day in range(len(panel)) if np.array_equal(panel[day], path[0]))
    assert np.array_equal(panel[start : start + 12], path)
    assert 450 < len(panel) < 520


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("market:bonds", "there is no task 'market:bonds'"),
        ("market:gaussian?length=1", "needs 2 periods"),
        ("market:gaussian?cost=0.5", r"a cost in \[0, 0.5\)"),
        ("market:sp500?begin=1980", "has prices from 1990 to 2022; begin = 1980"),
        ("market:sp500?begin=2022&end=2022&length=400", "has 249 days from 2022 to 2022"),
        ("market:sp500?regulated=true", "regulated"),
    ],
)
def test_bad_settings_are_one_sentence(name, message):
    if "sp500" in name and importlib.util.find_spec("skfolio") is None:
        pytest.skip("skfolio is not installed")
    with pytest.raises(ConfigurationError, match=message):
        tasks.find(name)


def test_stocks_without_the_package_say_what_to_install(monkeypatch):
    monkeypatch.setattr(market.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="pip install --no-deps skfolio"):
        market.stock_returns.__wrapped__(1990, 2014)
