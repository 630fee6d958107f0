"""DQN: action values by their own backup (Mnih et al., Nature 2015), with the changes that became usual.

`ChoiceValues` of `hocket.policies.action_values` is the policy: a network of action values, acted on epsilon-greedily,
and a slow copy of it. The backup takes the slow value of the action that the learnt network prefers (van Hasselt et
al., arXiv:1509.06461). `dqn-duelling` splits values into those of states and advantages of actions (Wang et al.,
arXiv:1511.06581). `store.steps` joins n decisions, `store.take` = `prioritised` draws by errors (arXiv:1511.05952).
"""

from __future__ import annotations

from hocket.credit.reinforce import Uniform
from hocket.methods.base.conventions import STORED
from hocket.objectives.action_values import CriticLoss
from hocket.policies.action_values import ChoiceValues
from hocket.recipe import Recipe
from hocket.rollout.transitions import Transitions
from hocket.update.following import FollowingStep

DQN = Recipe(
    name="dqn",
    title="Deep Q-network, with double backups",
    source="Mnih et al., Nature 518 (2015); double backups van Hasselt et al., arXiv:1509.06461",
    family="value-based",
    axes=("objective", "policy", "data"),
    formula="L = huber(Q(s, a) - y),  y = r + gamma Q-(s', argmax_a' Q(s', a')),  Q- <- Q every C gradients",
    conventions={
        **STORED,
        "loss": "half the square up to 1, linear beyond",
        "slow copies": "of the network, copied every 250 gradients",
        "learning rate": "falls to 0 in a line over the run, without which late collapses are common on CartPole",
        "exploration": "epsilon falls from 1 to 0.05 in a line over 5,000 decisions; log-probs are exact",
    },
    task="gym:CartPole-v1",
    store=Transitions(size=100_000, rows=64, begin=500),
    credit=Uniform(),
    objective=CriticLoss(ChoiceValues(), coefficient=1.0, shape="huber"),
    update=FollowingStep(lr=1e-3, clip_norm=10.0, schedule="linear", rate=1.0, follow_every=250),
)


DQN_DUELLING = DQN.but(
    name="dqn-duelling",
    title="Deep Q-network with values of states and advantages of actions",
    source="Wang et al., arXiv:1511.06581",
    formula=DQN.formula + ",  Q(s, a) = V(s) + A(s, a) - mean_b A(s, b)",
    **{"objective.values.duelling": True},
)
