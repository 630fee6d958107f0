"""MARDPG: scenarios of a platform as agents with one goal, messages and one critic (Zhao et al., arXiv:2407.02759).

Each agent's actor is deterministic, `a_i = mu_i(h_i, o_i)`: o_i is what its scenario shows now, h_i an LSTM of the log
of the session, in which every agent writes what it saw and did (Feng et al., arXiv:1809.06260, whose method this is).
The critic `Q(h_1, o_1, a_1, .., h_N, o_N, a_N)` learns the common reward by temporal differences, and each actor climbs
it by `grad mu_i grad_{a_i} Q`. `objective.values.central = false` with `objective.values.messages = false` is two
agents alone: DDPG on an agent's own pay, by what it has seen and done itself.

The task `campaign` is our own, in the place of a shop's logs: one campaign bids in a feed and in a search. The formula
is recalled. Ours are: an LSTM and a critic for each policy, where the paper's agents have them in common; both agents
act at every moment, where a user is in one scenario at a time; an LSTM reads the whole log from its beginning.
"""

from __future__ import annotations

from hocket.methods.applications.mardpg_ads.values import SessionValues
from hocket.methods.marl.maddpg import MADDPG
from hocket.objectives.action_values import TeamCriticLoss
from hocket.rollout.joint_transitions import JointTransitions
from hocket.update.following import FollowingStep
from hocket.update.parts import Pace

MARDPG_ADS = MADDPG.but(
    name="mardpg-ads",
    title="Multi-agent recurrent deterministic policy gradient for scenarios of one platform",
    source="Multi-Scenario Combination Based on Multi-Agent Reinforcement Learning to Optimize the Advertising "
    "Recommendation System, Zhao et al., arXiv:2407.02759",
    catalogue_ids=("mardpg-ads",),
    axes=("team", "policy", "environment"),
    formula="L_i = (Q_i(h, o, a) - y)^2 - Q_i(h, o, a_1..mu_i(h_i, o_i)..a_N) + 0.01 u_i^2,  mu_i = tanh(u_i),  "
    "h_j = LSTM(log of o, a),  y = mean_j r_j + gamma Q-_i(h', o', mu-_1(h'_1, o'_1)..mu-_N(h'_N, o'_N)),  "
    "w- <- w- + tau (w - w-)",
    conventions={
        **MADDPG.conventions,
        "rows": "moments of the whole team, 128 of them for each gradient, drawn independently, each with its log",
        "updates": "a gradient of every agent for every ten decisions",
        "actions": "vectors; acted with Gaussian noise of deviation 0.3 in units of half the range, the first 200 "
        "uniform",
        "reward": "the mean over agents",
        "critics": "of each agent its own on the team's reward; the paper's agents have one in common",
        "messages": "entries of the log: what an agent saw, did and got; an LSTM of 16 units for each actor and critic",
        "actor's outputs": "before tanh, their square is held down by 0.01",
        "slow copies": "of actor and critic, tau 0.02, after every gradient",
        "discount": "1; sessions are short",
        "world": "a campaign in a feed and a search, of our own, stands in for a shop's logs",
    },
    task="campaign",
    store=JointTransitions(rows=128, gamma=1.0, ratio=0.1, begin=200),
    objective=TeamCriticLoss(SessionValues(), coefficient=1.0),
    update=FollowingStep(lr=3e-3, clip_norm=None, rate=0.02, paces={"actor": Pace(lr=1e-3)}),
)
