"""Claims about portfolios that are paid a Sharpe ratio."""

from __future__ import annotations

import numpy as np

from hocket.apps.studies.backtests import sharpe_difference
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, inspect_rows, say
from hocket.lab.toys.portfolios import greedy_play, investor, world_of
from hocket.methods.applications.drl_portfolio_csi300 import DRL_PORTFOLIO, SharpeReward
from hocket.methods.base.ppo import PPO
from hocket.zoo.joint.market import BEST_SHARPE, TANGENCY, Array, drawn_moments, sharpe_of, stock_returns

claim = Claims("drl-portfolio-csi300", "arXiv:2412.18563; the daily form is derived here")

TASK, STEPS = "market:gaussian", 40


def _rewards(rows: list[list[float]]) -> list[Array]:
    """What is paid for these returns by row, read off a recipe whose advantages are the rewards of single decisions."""
    recipe = PPO.but(
        name="paid", shaping=(SharpeReward(),), **{"credit.gamma": 0.0, "credit.lam": 0.0, "credit.whiten": False}
    )
    documents = [
        {
            "group": f"path {number}",
            "scores": {},
            "token_scores": {"reward": returns},
            "logp": [-1.0] * len(returns),
            "value": [0.0] * len(returns),
        }
        for number, returns in enumerate(rows)
    ]
    return [np.array(row) for row in inspect_rows(recipe, documents)["advantages"]]


def _by_hand(returns: Array) -> Array:
    mean, deviation = float(np.mean(returns)), float(np.std(returns))
    ratio = mean / deviation
    return np.array([ratio + (r - mean) / deviation - ratio / 2 * (((r - mean) / deviation) ** 2 - 1) for r in returns])


def _paths(count: int = 6) -> list[list[float]]:
    draw = Key.of(3).derive("paths").numpy()
    return [(draw.normal(0.5, 2.0, 4 + number)).tolist() for number in range(count)]


@claim("What a day is paid is the window's ratio and the day's influence on it, counted by hand.", "derived here")
def what_a_day_is_paid_is_counted_by_hand() -> Finding:
    paths = _paths()
    off = [np.abs(paid - _by_hand(np.array(path))).max() for path, paid in zip(paths, _rewards(paths), strict=True)]
    return Finding(max(off) < 1e-9, say(off=max(off)))


@claim("Its mean over a window is the window's Sharpe ratio, and a day's slope is T times the ratio's.", "derived here")
def its_mean_is_the_sharpe_ratio() -> Finding:
    off, step = [], 1e-5
    for path, paid in zip(_paths(), _rewards(_paths()), strict=True):
        returns = np.array(path)
        mean, deviation = returns.mean(), returns.std()
        off.append(abs(paid.mean() - mean / deviation))
        for day in range(len(returns)):
            ends = [returns + sign * step * np.eye(len(returns))[day] for sign in (1, -1)]
            slope = np.subtract(*[end.mean() / end.std() for end in ends]) / (2 * step)
            held = 1 / deviation - mean / deviation * (returns[day] - mean) / deviation**2
            off.append(abs(len(returns) * slope - held))
    return Finding(max(off) < 1e-6, say(off=max(off)))


@claim("Returns that do not vary are paid no huge ratio: the deviation counts as at least 0.001.", "derived here")
def returns_that_do_not_vary() -> Finding:
    (paid,) = _rewards([[0.002, 0.002, 0.002]])
    # S = 0.002 / 0.001; nothing deviates, and the second term pays S / 2 more.
    return Finding(bool(np.allclose(paid, 2.0 + 1.0)), say(paid=paid.tolist()))


@claim("The planted portfolio is the best: no other long portfolio has a higher Sharpe ratio, nor any leveraged one.")
def the_planted_portfolio_is_the_best() -> Finding:
    mean, covariance = drawn_moments()
    solved = np.linalg.solve(covariance, mean)
    others = Key.of(1).derive("weights").numpy().dirichlet(np.full(4, 0.5), 20_000)
    best = max(sharpe_of(weights, mean, covariance) for weights in others)
    off = float(np.abs(solved / solved.sum() - TANGENCY).max())
    return Finding(off < 1e-12 and best <= BEST_SHARPE + 1e-12, say(off=off, best_of_20000=best, planted=BEST_SHARPE))


def _holding(recipe: str, seed: int) -> Array:
    """The mean weights of greedy play after training, `[assets]`."""
    weights, _ = greedy_play(investor(recipe, TASK, seed, STEPS), world_of(TASK), 50)
    return np.asarray(weights.mean((0, 1)), np.float64)


@claim(
    "Trained on the Sharpe reward its portfolio is within 10 % of the tangency portfolio's ratio in each of 2 seeds, "
    "where equal weights are not.",
    slow=True,
)
def trained_on_the_sharpe_reward_it_is_near_the_tangency_portfolio() -> Finding:
    mean, covariance = drawn_moments()
    ratios = [sharpe_of(_holding("drl-portfolio-csi300", seed), mean, covariance) for seed in range(2)]
    equal = sharpe_of(np.full(4, 0.25), mean, covariance)
    return Finding(min(ratios) > 0.9 * BEST_SHARPE > equal, say(sharpe=ratios, best=BEST_SHARPE, equal=equal))


@claim("Trained on the return PPO puts most wealth into the asset of the highest mean, at half the ratio.", slow=True)
def trained_on_the_return_it_goes_to_the_highest_mean() -> Finding:
    mean, covariance = drawn_moments()
    weights = _holding("ppo", 0)
    share, ratio = float(weights[mean.argmax()]), sharpe_of(weights, mean, covariance)
    return Finding(
        share > 0.5 and ratio < 0.65 * BEST_SHARPE, say(in_highest_mean=share, sharpe=ratio, best=BEST_SHARPE)
    )


@claim(
    "On 20 US stocks, trained on 1990 to 2014 and traded daily from 2015 to 2022, neither it nor the plug-in tangency "
    "portfolio differs from equal weights before costs: intervals of the differences cover 0. Costs take from it.",
    slow=True,
)
def on_real_stocks_no_agent_differs_from_equal_weights() -> Finding:
    later = world_of("market:sp500?begin=2015&end=2022&length=2010")
    past, panel = stock_returns(1990, 2014), later.path(1)[later.window :]
    weights, net = greedy_play(investor("drl-portfolio-csi300", "market:sp500", 0, 20), later, 1)
    solved = np.maximum(np.linalg.solve(np.cov(past.T), past.mean(0)), 0)
    gross, equal = (weights[:, 0] * panel).sum(1), panel.mean(1)
    series = {"agent": gross, "tangency": panel @ (solved / solved.sum())}
    year, shown, holds = 252**0.5, dict[str, str](), bool(net.sum() < gross.sum())
    for name, mine in series.items():
        gap = sharpe_difference(mine, equal, Key.of(0).derive(name), block=20, draws=1000)
        shown[name] = f"{year * gap.value:.3f} in {year * gap.low:.3f} to {year * gap.high:.3f}"
        holds &= gap.low < 0 < gap.high
    ratios = {"equal": equal, "agent": gross, "agent after costs": net[:, 0]}
    yearly = {name: year * float(row.mean() / row.std(ddof=1)) for name, row in ratios.items()}
    return Finding(holds, say(sharpe_per_year=yearly) + f", differences per year {shown}")


claim.shipped(DRL_PORTFOLIO, "shaping")
