"""A learnt dispatching rule for job shops whose state is a solver's: RL on constraint programming (arXiv:2306.05747).

The environment is a model of the job shop whose time windows are propagated after every decision; what is seen are
these windows, and what may be chosen is what they leave. A network learns which operation comes next. It is trained on
small instances and schedules larger ones, for the pointer's weights depend on no size.

The world is `shop:6x6` of `hocket.zoo.joint.shop`, with earliest starts along jobs and machines where the paper's
solver propagates more. The paper names an off-the-shelf learner supported by a solver's solutions, and here RLOO learns
alone, so the row is no recipe: `hocket train --task shop:6x6 --recipe rloo`.
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

CP_RL_JSSP = Analysis(
    name="cp-rl-jssp",
    title="An End-to-End Reinforcement Learning Approach for Job-Shop Scheduling Problems Based on Constraint "
    "Programming",
    where="docs/applications.md",
    kind="application",
)
