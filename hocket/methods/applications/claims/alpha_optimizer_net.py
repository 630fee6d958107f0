"""Claims about the statistics of back-tests."""

from __future__ import annotations

import numpy as np

from hocket.apps.studies.backtests import (
    best_of_trials,
    deflated_sharpe,
    probabilistic_sharpe,
    sharpe,
    sharpe_difference,
)
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say

claim = Claims("alpha-optimizer-net", "arXiv:2403.07916; Bailey and Lopez de Prado 2012 and 2014")

KEY = Key.of(0).derive("industry")


@claim(
    "On returns without skill the interval of a random portfolio's difference from equal weights leaves out 0 in 5 % "
    "of all back-tests, within 3 points.",
    slow=True,
)
def on_returns_without_skill_false_discoveries_stay_nominal() -> Finding:
    false = {"more": 0, "less": 0}
    count = 400
    for trial in range(count):
        draw = KEY.derive("trial", trial).numpy()
        returns = 0.01 * draw.standard_normal((250, 10))
        weights = draw.dirichlet(np.full(10, 0.5))
        gap = sharpe_difference(returns @ weights, returns.mean(1), KEY.derive("blocks", trial), draws=400)
        false["more"] += gap.low > 0
        false["less"] += gap.high < 0
    rate = sum(false.values()) / count
    return Finding(0.02 <= rate <= 0.08, say(rate=rate, **false))


@claim("The best of 40 strategies without skill looks skilled in most back-tests, and deflated in at most 10 %.")
def the_best_of_many_looks_skilled() -> Finding:
    fooled, deflated = 0, 0
    for trial in range(60):
        returns = 0.01 * KEY.derive("many", trial).numpy().standard_normal((500, 40))
        best = int(sharpe(returns).argmax())
        fooled += probabilistic_sharpe(returns[:, best]) > 0.95
        deflated += deflated_sharpe(returns, best) > 0.95
    return Finding(fooled > 45 and deflated <= 6, say(plain=fooled / 60, deflated=deflated / 60))


@claim(
    "A strategy with skill, a ratio of 0.3 a period among 9 without, is found by the deflated ratio in 9 of 10 cases."
)
def a_strategy_with_skill_is_found() -> Finding:
    hits = 0
    for trial in range(60):
        returns = 0.01 * KEY.derive("skill", trial).numpy().standard_normal((500, 10))
        returns[:, 3] += 0.003
        hits += deflated_sharpe(returns, 3) > 0.9
    return Finding(hits > 0.9 * 60, say(found=hits / 60, needed_of_ten=best_of_trials([0.0, 0.09] * 5)))
