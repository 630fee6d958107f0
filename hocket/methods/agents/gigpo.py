"""GiGPO: GRPO with a second comparison, among turns that began in the same state (Feng et al., arXiv:2505.10978).

To the episode's advantage it adds that of each turn, its discounted reward-to-go against all turns of the scenario's
samples that started from an equal state: `EpisodeAndTurn` of `hocket.credit.turn_level`, no further sampling and no
critic. `gigpo-unbiased` compares with other trajectories alone and divides by no deviation.
"""

from __future__ import annotations

from hocket.core.batch import GroupBy
from hocket.core.requirements import Requirement
from hocket.credit.group import GroupRelative
from hocket.credit.turn_level import EpisodeAndTurn, TurnRelative
from hocket.methods.base.conventions import TURNS
from hocket.methods.base.grpo import GRPO

GIGPO = GRPO.but(
    name="gigpo",
    title="Group-in-Group Policy Optimisation",
    source="Feng et al., arXiv:2505.10978",
    family="agents",
    catalogue_ids=("gigpo",),
    axes=("credit",),
    formula="A = (R_i - mean R)/(std R + eps) + w (g_t - mean_s g)/(std_s g + eps),  "
    "g_t = sum_{k>=t} gamma^(k-t) r_k,  s: turns that started from the same state",
    conventions={
        **GRPO.conventions,
        **TURNS,
        "discount": "credit.turn.gamma = 0.95 per turn of the same agent",
        "same state": "equal keys, within the scenario; credit.turn.similarity counts similar texts as one",
        "F": "both deviations; null in credit.episode.scale and credit.turn.scale is the authors' other form, F = 1",
        "a state seen once": "A_S = 0",
        "statistics": "of episodes over trajectories, each once; the released code takes them over its rows, one per "
        "step, so that long episodes count more in mean and deviation",
        "several visits of one trajectory": "each is a member of the state's group",
        "bias": "the paper's mean holds the turn's own return, so rare states are shrunk most; credit.turn.baseline = "
        "others with scale null leaves the own trajectory out and is exactly unbiased",
    },
    task="maze?width=3&height=3&steps=10&reading=number",
    requires=(
        Requirement.TURNS,
        Requirement.STATES,
    ),
    credit=EpisodeAndTurn(
        episode=GRPO.credit,
        turn=TurnRelative(by=GroupBy("scenario", "agent", "state"), baseline="mean", scale="std", gamma=0.95),
        weight=1.0,
    ),
)


GIGPO_UNBIASED = GIGPO.but(
    name="gigpo-unbiased",
    title="GiGPO against the other trajectories alone, without deviations",
    formula="A = R_i - mean_{j != i} R_j + w (g_t - mean of g over other trajectories' turns from the same state)",
    conventions={
        **GIGPO.conventions,
        "degrees of freedom": "no deviation is taken",
        "epsilon": "none",
        "F": "1",
        "a state seen once": "A_S = g_t: 0 as baseline is all that is known",
        "bias": "none: sums over decisions / N make the expected step (1 + w) times the policy gradient at gamma = 1",
        "aggregation": "sum over a trajectory's decisions, mean over trajectories",
    },
    **{
        "credit.episode": GroupRelative(scale=None, leave_one_out=True),
        "credit.turn.baseline": "others",
        "credit.turn.scale": None,
        "objective.aggregate": "sequence-sum",
    },
)
