"""Conventions that several recipes state in the same words.

A recipe's `conventions` say what its paper leaves open or codebases do differently. The dictionaries here are spread
into them; the strings are values of single entries.
"""

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


CENTRED = {"degrees of freedom": "no deviation is taken", "epsilon": "none"}
RIGHT_ANSWERS = {"right answers": "those whose return before shaping is at least 0.5 (a stage's `least`)"}
LENGTH = {"length": "decisions of all turns, imposed ones included"}


PER_TURN = "mean over the decisions of a turn, then over all turns that count"


ENTROPY = "full entropy of the policy at the batch's weights, a recorded constant"


TURNS = {
    "discount": "1; the clock ticks once per turn of the same agent",
    "turn rewards": "at their turn; the reward of the whole trajectory at each agent's last turn",
    "several agents": "turns are compared and discounted agent by agent",
    "tool output": "observation, never a decision: no gradient",
}


STORED = {
    "detached": "backups and occurrence weights are constants; critics are constants in the actor's loss",
    "aggregation": "mean over the rows of a mini-batch",
    "updates": "as many gradients after every step as it brought decisions, each on rows drawn anew from all that is "
    "kept; all parts step at the same time",
    "truncated samples": "the value of the final state is backed up",
    "rows": "drawn independently, so a row may come twice",
    "temperature": "none: actions are drawn as the head of the policy says",
}
"""Of methods that learn from a store."""
