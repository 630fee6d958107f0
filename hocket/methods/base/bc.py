"""Behaviour cloning: maximum likelihood of recorded decisions (Pomerleau, Neural Computation 1991).

The decisions are read from a file (`store.data` of `hocket.rollout.transitions.Transitions`), nothing is sampled
(`Offline`), and the loss is that of supervised fine-tuning.
"""

from __future__ import annotations

from hocket.credit.reinforce import Uniform
from hocket.methods.base.conventions import STORED
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.recipe import Recipe
from hocket.rollout.offline import Offline
from hocket.rollout.transitions import Transitions
from hocket.update.gradient import GradientStep

BC = Recipe(
    name="bc",
    title="Behaviour cloning",
    source="Pomerleau, Neural Computation 3 (1991)",
    family="supervised",
    axes=("objective", "data"),
    formula="L = -mean log pi(a | s), (s, a) of the data",
    conventions={
        **STORED,
        "updates": "500 gradients a step",
        "actions": "of a Gaussian policy as recorded, beyond the range too",
    },
    task="gym:CartPole-v1",
    rollout=Offline(),
    store=Transitions(gradients_per_step=500, begin=1),
    credit=Uniform(),
    objective=NegativeLogLikelihood(aggregate="token-mean"),
    update=GradientStep(lr=1e-3, clip_norm=None),
)
