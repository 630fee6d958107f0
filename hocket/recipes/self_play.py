"""Self-play beyond the policy of the day: against the past."""

from __future__ import annotations

from hocket.hooks import PastSelves
from hocket.recipes.team_credit import MARS_SELF_PLAY

PAST_SELVES = MARS_SELF_PLAY.but(
    name="past-selves",
    title="Self-play against past selves",
    source="Heinrich et al., Fictitious Self-Play, ICML 2015; Bansal et al., arXiv:1710.03748; prioritised by "
    "cast.hardness: Vinyals et al., Nature 2019",
    family="teams",
    axes=("team",),
    formula="A_k as mars-self-play; in a share of the episodes one seat is a snapshot k ~ (1 - p_k)^h, and only the "
    "others learn",
    conventions={
        **MARS_SELF_PLAY.conventions,
        "snapshots": "before the first step and every 10 steps; the 8 kept are a uniform sample of all (reservoir)",
        "guests": "one seat, in half of the episodes; credit and its baselines see the learner's turns alone",
        "win rate": "p, of games since the snapshot was taken, the n-th before the last counting 0.99^n; 1/2 unmet",
        "hardness": "h = 0, uniform",
        "what is kept": "weights (of a LoRA policy the adapter) in every checkpoint",
        "equilibrium": "claimed of the average of the past selves, not of the last one",
    },
    note="on tables the last self is no harder to exploit than plain self-play's (rock-paper-scissors, Kuhn poker); in "
    "rock-paper-scissors the mixture of past selves is",
    hooks=(PastSelves(every=10, keep=8, share=0.5),),
)
