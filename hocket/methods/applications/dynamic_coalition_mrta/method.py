"""Coalitions of robots that choose cells of a map, share what they intend, and revise it (arXiv:2412.20397).

Tasks need one to three robots at once, and nobody sees all of them. MAPPO is extended by four parts, as in the authors'
code (lcdbezerra/marl_mrt2a): an action is a cell of the map around a robot, scored by filters and masked to the tasks
it sees (`TaskMaps`); a planner walks there; the way that is left, decayed by 0.67 a cell, is a channel of the maps of
robots near by (`IntentionSharing`); and every step chooses anew (`revise` of the task). The critic reads the map of the
arena. No weight knows how many robots or tasks there are, or how large the arena is:

    hocket train --recipe dynamic-coalition-mrta --run four
    hocket eval runs/four --task "coalitions?agents=8&tasks=8&size=8"

The arena `coalitions` is smaller than the authors', and differs as its docstring says. Ours are besides: advantages by
GAE in place of returns of five steps, rewards as they are paid in place of standardised ones, no slow copy of the
critic, and layers of filters that read the mean over cells besides (`MapLayers`) in place of two U-Nets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.core.policy_parts import PolicyPart
from hocket.core.requirements import Requirement
from hocket.methods.applications.dynamic_coalition_mrta.network import SharedIntentions
from hocket.methods.base.mappo import MAPPO
from hocket.stages import Hook


@dataclass(frozen=True)
class IntentionSharing(Hook):
    """Robots read what others near them intend, which needs a task with maps, such as `coalitions`."""

    policy_parts: ClassVar[tuple[PolicyPart, ...]] = (SharedIntentions(),)


DYNAMIC_COALITION_MRTA = MAPPO.but(
    name="dynamic-coalition-mrta",
    title="Coalitions of robots by maps of actions and intentions",
    source="Bezerra et al., Learning Policies for Dynamic Coalition Formation in Multi-Robot Task Allocation, "
    "arXiv:2412.20397",
    catalogue_ids=("dynamic-coalition-mrta",),
    axes=("team", "policy", "environment"),
    survives=("agent count",),
    formula=MAPPO.formula
    + ";  pi(cell | o_i) = softmax over cells of visible tasks of filters of o_i,  intention of i: "
    "0.67^k at the k-th cell of its way,  o_i has the sum over others within reach",
    conventions={
        **MAPPO.conventions,
        "joint state": "the map of the arena alone, with robots, open tasks, intentions and the time",
        "agents": "share actor and critic, without an identity",
        "choices": "cells of open tasks in view; any cell of the map inside the arena where none is in view",
        "revision": "in every step; with `revise=false` of the task a robot keeps to a choice until it is beside it",
        "pay": "everybody's: squared levels over their sum; the authors' over the number of robots",
    },
    task="coalitions",
    requires=(Requirement.AGENTS,),
    hooks=(IntentionSharing(),),
)
