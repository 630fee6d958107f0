"""ESG and portfolios by deep RL: what a regulated market changes (arXiv:2307.09631).

Agents that maximise their return trade in a plain market, and in a regulated one, where a portfolio gets a grant in
proportion to its return and its ESG score and pays a tax while its score is below the index's mean. The paper's scores
and exact amounts are not published: `market:gaussian?regulated=true` (`hocket.zoo.joint.market`) has planted scores
that are uncorrelated with mean returns, and states its formulas. No learner of its own, so no recipe: A2C and PPO are
those of the library.

    hocket train --task "market:gaussian?regulated=true" --recipe ppo
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

ESG_PORTFOLIO_DRL = Analysis(
    name="esg-portfolio-drl",
    title="Deep reinforcement learning for ESG financial portfolio management",
    where="docs/applications.md",
    kind="application",
)
