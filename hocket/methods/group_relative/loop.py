"""LOOP: PPO with the mean of the other samples as baseline, for agents of many turns (Chen et al., arXiv:2502.01600).

GRPO with a leave-one-out mean, no deviation and several clipped epochs on a batch; neither critic nor reference, so one
copy of the model. What the environment says is no decision. All pieces are GRPO's own.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO
from hocket.rollout.independent import Independent
from hocket.update.gradient import GradientStep

LOOP = GRPO.but(
    name="loop",
    title="Leave-One-Out PPO",
    source="Chen et al., Reinforcement Learning for Long-Horizon Interactive LLM Agents, arXiv:2502.01600",
    catalogue_ids=("loop",),
    formula="A_i = R_i - 1/(K-1) sum_{j != i} R_j,  L = -1/N sum_i 1/n_i sum_t min(r_it A_i, clip(r_it) A_i)",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "no deviation is taken",
        "epsilon": "none",
        "aggregation": "mean over the decisions that the agent made in a trajectory, then over trajectories",
        "KL": "none: no reference and no critic, one set of weights",
        "environment tokens": "observations, never decisions; imposed ones have weight 0",
        "updates per batch": "2 epochs of 2 mini-batches (the paper leaves the numbers open)",
    },
    task="calculator",
    rollout=Independent(samples=6),
    update=GradientStep(epochs=2, minibatches=2),
    **{"credit.scale": None, "credit.leave_one_out": True},
)
