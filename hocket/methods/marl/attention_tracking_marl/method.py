"""Scalable policies for multi-agent control: attention over targets, soft values, and a mask (Hsu et al., 2020).

In `track:targets` pursuers share a network of action values and act by its softmax (`SoftChoiceValues`), drawn anew
also after training: pursuers that see alike then do not all do the same, without any message. The network reads a row
for each target by attention (`TargetAttention`), so that weights know no number of targets or pursuers. Learnt with
four of each, it plays with twenty; a mask lets each pursuer attend to as many targets as in training, the nearest ones:

    hocket train --recipe attention-tracking-marl --run four
    hocket eval runs/four --task "track:targets?agents=20&targets=20&mask=4"

Values learn by soft double Q-learning, as in the authors' code (christopher-hsu/scalableMARL), which has the mask too.
Ours are: softmax and entropy have one temperature; the mean over the next action is exact; layers are normalised before
attention, which has one head up to a width of 32, with one perceptron after the sum; rows, rates and discount. Drawn
moves help where pursuers begin at one place; where they begin apart, as in the authors' world, the likeliest moves
track a little more.
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.credit.reinforce import Uniform
from hocket.methods.base.conventions import STORED
from hocket.methods.marl.attention_tracking_marl.soft_values import SoftChoiceValues
from hocket.objectives.action_values import CriticLoss
from hocket.recipe import Recipe
from hocket.rollout.transitions import Transitions
from hocket.update.following import FollowingStep

ATTENTION_TRACKING = Recipe(
    name="attention-tracking-marl",
    title="Attention over targets and soft double Q-learning for many pursuers",
    source="Scalable Reinforcement Learning Policies for Multi-Agent Control, Hsu et al., arXiv:2011.08055",
    family="multi-agent",
    catalogue_ids=("attention-tracking-marl",),
    axes=("policy", "team", "environment"),
    survives=("agent count",),
    formula="h = sum_j x_j,  x_j += sum_l softmax_l(q_j . k_l / sqrt(d)) v_l;  L = sum_k huber(Q_k(h, a) - y),  y = r "
    "+ gamma sum_a' pi(a'|s') (min_k Q-_k(s', a') - alpha log pi(a'|s')),  pi = softmax((Q_1 + Q_2) / (2 alpha)),  "
    "Q- <- Q- + tau (Q - Q-)",
    conventions={
        **STORED,
        "updates": "a gradient for every ten decisions, each on 128 rows drawn anew from all that is kept",
        "loss": "half the square up to 1, linear beyond",
        "slow copies": "of both networks, tau 0.005, after every gradient",
        "temperature": "0.1 of softmax and entropy, fixed; the authors' is 0.4 of the entropy, and 0.5 of the softmax "
        "of the mean of both values",
        "agents": "one network for all, without numbers; the team's pay is everybody's",
        "numbers": "four pursuers and four targets; the authors' code draws one to four of each",
        "mask": "the nearest targets, as believed",
    },
    task="track:targets",
    requires=(Requirement.AGENTS,),
    store=Transitions(size=200_000, rows=128, gamma=0.95, ratio=0.1, begin=1000),
    credit=Uniform(),
    objective=CriticLoss(SoftChoiceValues(), coefficient=1.0, shape="huber"),
    update=FollowingStep(lr=1e-3, clip_norm=10.0, rate=0.005),
)
