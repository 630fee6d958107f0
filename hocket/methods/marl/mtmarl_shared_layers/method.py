"""Shared layers of several tasks: layers of a task's own perceive, common ones decide (Wang et al., arXiv:2312.15674).

Teams learn several tasks at once. What an agent sees differs from task to task, so each task has a first layer of its
own, `f_k`; the layers `g` behind it, which end in the choice of an action, are those of all tasks, and so is their
gradient the sum of all tasks'. For a new task `g` is carried over and stays as it is (`frozen`), and a new first layer
is learnt:

    hocket train --recipe mtmarl-shared-layers --run several
    hocket train --recipe mtmarl-shared-layers --task together:skirmish:3v3 --model several --hooks.0.frozen true

The abstract states this much. Ours are: the critic is made alike, with layers of its own; PPO; a task with fewer
actions than another has the other's forbidden; `f_k` is one layer whose first weights are small, and `g` as many as
`network.hidden` has behind the first. With first weights of the usual size a new task began with what `g` does far from
anything it was trained for, and on one of two seeds learnt no sooner.
"""

from __future__ import annotations

from dataclasses import dataclass

from hocket.methods.marl.ippo import IPPO
from hocket.methods.marl.mtmarl_shared_layers.layers import LayersByTask
from hocket.stages import Hook


@dataclass(frozen=True)
class SharedLayers(Hook):
    """The policy has a first layer for each task of `together:`, and shares the others.

    Attributes:
        frozen: whether the shared layers stay as they are, for a new task.
    """

    frozen: bool = False

    @property
    def policy_parts(self) -> tuple[LayersByTask, ...]:
        """The networks."""
        return (LayersByTask(self.frozen),)


MTMARL_SHARED_LAYERS = IPPO.but(
    name="mtmarl-shared-layers",
    title="Shared decision layers of several tasks",
    source="Wang et al., arXiv:2312.15674, abstract",
    catalogue_ids=("mtmarl-shared-layers",),
    axes=("policy", "team"),
    formula="pi(. | o, k) = softmax g(f_k(o)),  L = sum_k L_PPO(f_k, g);  a new task k': min over f_k' alone, g kept",
    conventions={
        **IPPO.conventions,
        "agents": "share one network and none is marked",
        "tasks": "episodes of all tasks by turns; a batch's loss is the mean over all decisions, so tasks with more "
        "agents or longer episodes weigh more",
        "actions": "the last shared layer has the choices of the task with most; what a task has not is forbidden",
        "critic": "layers of its own, made alike",
    },
    note="skirmishes of one type of unit on a grid stand in for StarCraft's and football",
    task="together:skirmish:2v3+skirmish:4v3",
    hooks=(SharedLayers(),),
)
