"""Sirius: behaviour cloning of deployments that a person watches, weighted by who acted (Liu et al., arXiv:2211.08416).

A decision is a demonstration, the robot's own, a person's who took over, or one of the robot's just before that. With
P(c) the share of a kind in the data and P*(c) the share that it is to have, its likelihood is weighted by P*(c) / P(c):

    P*(intervention) = 1/2,  P*(before one) = 0,  P*(demonstration) = P(demonstration),  P*(robot) = what is left.

`KindWeights` is that weight, as a credit. Training and deployment alternate: `hocket.methods.control.sirius.deployment`
plays a trained run in `gates:point` beside a scripted person, and writes what happened for the next training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.stored_rows import KIND
from hocket.methods.base.bc import BC
from hocket.rollout.transitions import Transitions
from hocket.stages import Credit

DEMONSTRATION, ROBOT, INTERVENTION, BEFORE = 1, 2, 3, 4
"""Kinds of decisions: of a person who shows the task, of the robot, of a person who took over, of the robot before."""


def weights(kinds: Tensor, interventions: float) -> Tensor:
    """P*(c) / P(c) of every decision, `[T]` float64, where P is the share of its kind among these."""
    share = torch.bincount(kinds, minlength=BEFORE + 1).double() / max(len(kinds), 1)
    target = torch.zeros_like(share)
    target[DEMONSTRATION] = share[DEMONSTRATION]
    target[INTERVENTION] = min(interventions, 1 - float(share[DEMONSTRATION])) if share[INTERVENTION] else 0.0
    target[ROBOT] = (1 - target[DEMONSTRATION] - target[INTERVENTION]).clamp(min=0.0)
    return torch.where(share > 0, target / share.clamp(min=1e-12), torch.zeros_like(share))[kinds]


@dataclass(frozen=True)
class KindWeights(Credit):
    """Weights of stored decisions by their kind; see the module. Those just before an intervention do not count.

    Attributes:
        interventions: the share that interventions are to have, P*, as far as demonstrations leave it.
    """

    interventions: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.interventions <= 1:
            raise ValueError(f"interventions must lie in [0, 1], not {self.interventions}")

    def __call__(self, batch: Batch) -> Occurrences:
        occurrences = batch.occurrences
        kinds = KIND.read(batch, "sirius")[occurrences.decision]
        weight = weights(kinds, self.interventions).to(occurrences.weight.dtype)
        return replace(occurrences, weight=occurrences.weight * weight, advantage=torch.ones_like(weight))


SIRIUS = BC.but(
    name="sirius",
    title="Learning on the job, from interventions",
    source="Liu et al., Robot Learning on the Job, arXiv:2211.08416",
    catalogue_ids=("sirius",),
    axes=("data", "objective", "team"),
    formula="L = -mean P*(c) / P(c) log pi(a | s),  P* = 1/2 of interventions, 0 before one, P of demonstrations, else "
    "of the robot",
    conventions={
        **BC.conventions,
        "shares": "P(c) is that of the rows drawn for a step",
        "memory": "the deployment drops the robot's oldest decisions first where more than 20,000 are kept",
        "policy": "a Gaussian of one observation; the authors' is a mixture over a history of pictures",
    },
    note="on rows of one deployment, half of which are demonstrations, it is behind plain cloning (58 to 79 % of "
    "episodes alone), for the robot's decisions then get no weight; ahead of it from the second deployment on",
    task="gates:point",
    store=Transitions(gradients_per_step=200, begin=1),
    credit=KindWeights(),
)
