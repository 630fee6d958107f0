"""MARS: self-play in which turns are compared with those of the same seat (Yuan et al., arXiv:2510.15414).

Where GRPO compares whole episodes, a turn here gets the rewards from it on, less the mean over turns of its seat, since
seats differ in what they can expect: `TurnRelative` of `hocket.credit.turn_level`. `past-selves` seats snapshots of the
policy as opponents (`PastSelves` of `hocket.hooks.past_selves`; Bansal et al., arXiv:1710.03748).
"""

from __future__ import annotations

from hocket.core.batch import GroupBy
from hocket.core.requirements import Requirement
from hocket.credit.turn_level import TurnRelative
from hocket.hooks.past_selves import PastSelves
from hocket.methods.base.conventions import PER_TURN
from hocket.methods.base.grpo import GRPO
from hocket.objectives.surrogate import ClippedSurrogate

MARS_SELF_PLAY = GRPO.but(
    name="mars-self-play",
    title="Self-play with turn-level credit, normalised by seat (MARS, also MARSHAL)",
    source="Yuan et al., arXiv:2510.15414, and the authors' code",
    family="teams",
    catalogue_ids=("mars-self-play",),
    axes=("team", "credit", "environment"),
    formula="A_k = R_k - mean R over the turns of the same seat,  R_k = sum_{j>=k} r_j over the seat's own turns",
    conventions={
        **GRPO.conventions,
        "reward": "of a turn, at its last decision; a seat is credited with its own turns' rewards alone",
        "normalisation": "mean of the batch's turns of the same role; credit.by = [scenario, role] keeps games apart",
        "degrees of freedom": "no deviation is taken; credit.scale = std divides by it",
        "epsilon": "none",
        "malformed moves": "the environment's: they lose the game at once",
        "aggregation": PER_TURN,
        "who learns": "one policy plays all seats",
    },
    note="exploitability falls, but no faster than with a baseline pooled over the seats (Kuhn poker, tic-tac-toe)",
    task="openspiel:tic_tac_toe?reading=number",
    requires=(
        Requirement.TURNS,
        Requirement.AGENTS,
    ),
    credit=TurnRelative(by=GroupBy("role"), baseline="mean", scale=None),
    objective=ClippedSurrogate(low=0.2, high=0.2, aggregate="turn-mean"),
)


PAST_SELVES = MARS_SELF_PLAY.but(
    name="past-selves",
    title="Self-play against past selves",
    source="Heinrich et al., Fictitious Self-Play, ICML 2015; Bansal et al., arXiv:1710.03748; prioritised by "
    "hooks.0.hardness: Vinyals et al., Nature 2019",
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
