"""Choices that many papers leave open, and what is chosen here. A recipe overrides or adds its own."""

from __future__ import annotations

COMMON = {
    "temperature": "log-probs are those of the distribution sampled from, at its temperature",
    "truncated samples": "kept, with the reward they got",
    "detached": "advantages, recorded log-probs and occurrence weights are constants",
    "counting": "decisions and trajectories of weight 0 enter no statistic and no denominator",
    "updates per batch": "1",
}

RATIO = {
    **COMMON,
    "old policy": "the proximal log-probs where a stage recorded them, else the sampler's own",
    "saturation": "log-ratios beyond +-50 nats take the value and the gradient of the bound",
}

GROUP = {
    **RATIO,
    "degrees of freedom": "1: the sum of squares is divided by G - 1",
    "epsilon": "1e-6, added to the standard deviation",
    "group of one": "advantage 0",
    "constant group": "advantage 0",
}
"""Of methods that compare the samples of one scenario and use a ratio."""
