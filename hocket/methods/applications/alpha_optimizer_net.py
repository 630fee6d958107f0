"""Portfolios by deep RL in industry: what a back-test must be tested for (arXiv:2403.07916).

The agent is proprietary and the paper discloses no algorithm, so there is no recipe. What it asks for is: costs and
constraints in the market (`hocket.zoo.joint.market`), and strict statistics of back-tests
(`hocket.apps.studies.backtests`). A difference of Sharpe ratios has a block bootstrap interval, a ratio that was picked
among several trials is deflated, and data is split in time:

    hocket backtest returns.csv --baseline equal
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

ALPHA_OPTIMIZER_NET = Analysis(
    name="alpha-optimizer-net",
    title="Industry-grade deep reinforcement learning for portfolio optimisation",
    where="docs/applications.md",
    kind="application",
)
