"""Networks of agents that turn with their world (van der Pol et al., arXiv:2110.04495).

Where a world looks the same however it is turned, so may a team's policy, `pi(K_g a | L_g s) = pi(a | s)`, and then
need not learn for every heading anew. To turn a team's state is to turn what each agent sees, to turn the edges along
which messages pass, and to exchange agents; so a network keeps to it that is made of equivariant layers, sends messages
that depend on edges, and is the same for all agents. Each agent decides by itself from its own and its neighbours'
messages.

`OverSets` of `hocket.policies.control_sets` is that network, with quarter turns. `Equivariant` asks for it and measures
in every step how far the policy is from turning with its world. All else is independent PPO.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.core.evaluating import policy_decisions
from hocket.core.outcomes import StepResult
from hocket.core.policy_parts import PolicyPart
from hocket.core.requirements import Requirement
from hocket.core.worlds import Plane, Slots
from hocket.methods.marl.ippo import IPPO
from hocket.policies.control import ControlPolicy
from hocket.policies.control_parts import ControlPart, PartHost
from hocket.policies.control_sets import TURNS, beside, turned, turned_moves, unturned
from hocket.stages import Hook, HookContext

ROWS = 512
"""Decisions of a step by which it is measured."""


@dataclass(frozen=True)
class EquivariantNetworks(ControlPart):
    """Networks that turn with their world, as `network.body = equivariant` has them."""

    needed: ClassVar[str] = "networks with the body equivariant"
    advice: ClassVar[str] = "choose a task such as mpe:spread?graph=true"

    def begin(self, host: PartHost) -> None:
        if host.network.body == "equivariant":
            return
        if host.module.critic is not None or host.action_form is not None:
            raise ConfigurationError(
                f"policy {host.name!r} has a critic, or actions in parts, of another body than equivariant; train it "
                "anew"
            )
        host.network = replace(host.network, body="equivariant")
        host.remake_actor()


@dataclass(frozen=True)
class Equivariant(Hook):
    """Policies have networks that turn with their world; `symmetry/gap` is the most by which a probability does not."""

    policy_parts: ClassVar[tuple[PolicyPart, ...]] = (EquivariantNetworks(),)

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        """Measures the policies that learn, on what they saw."""
        if result.batch is not None:
            gaps = []
            for name, policy in run.trained.items():
                own = cast(ControlPolicy, policy)
                rows = own.observed(result.batch)[policy_decisions(result.batch, name)][:ROWS]
                gaps.append(gap(own, rows))
            result.metrics["symmetry/gap"] = max(gaps)
        return memory


def gap(policy: ControlPolicy, rows: Tensor) -> float:
    """The largest `|pi(K_g a | L_g o) - pi(a | o)|` over turns, actions and observations `[B, O]`."""
    plane, slots = policy.sight.plane, policy.sight.slots
    assert plane is not None
    assert slots is not None
    seen, moves = turns_of(plane, slots, rows.shape[1])
    actor = policy.module.actor
    with torch.no_grad():
        now = torch.softmax(actor(rows), -1)
        there = (torch.softmax(actor(rows @ seen[turn].T.to(rows)), -1) for turn in range(TURNS))
        gaps = [(one - now @ moves[turn].T.to(now)).abs().max() for turn, one in enumerate(there)]
    return float(torch.stack(gaps).max()) if len(rows) else 0.0


def turns_of(plane: Plane, slots: Slots, size: int) -> tuple[Tensor, Tensor]:
    """L `[4, O, O]`, what the turns do to what is seen, and K `[4, A, A]`, what they do to actions.

    Args:
        size: of what a policy is shown, O; what stands behind the rows tells agents apart, and does not turn.
    """
    rows = [turned(slots.size, plane.others)] * slots.count
    rest = size - slots.own - slots.count * slots.size
    return beside(turned(slots.own, plane.own), *rows, unturned(rest)), turned_moves(plane.moves)


MULTI_AGENT_MDP_HOMOMORPHIC_NETWORKS = IPPO.but(
    name="multi-agent-mdp-homomorphic-networks",
    title="Multi-agent MDP homomorphic networks: policies that turn with their world",
    source="van der Pol et al., Multi-Agent MDP Homomorphic Networks, arXiv:2110.04495",
    catalogue_ids=("multi-agent-mdp-homomorphic-networks",),
    axes=("policy", "team"),
    formula="as ippo;  every layer is  W = mean_g K_g^-1 W L_g,  so that  pi(K_g a | L_g s) = pi(a | s);  "
    "h_i = tanh(W_o o_i),  m_ij = tanh(W_m [e_ij, o_j]),  pi_i = softmax(f([h_i, mean_j m_ij])),  "
    "e_ij where neighbour j is from agent i",
    conventions={
        **IPPO.conventions,
        "group": "the four quarter turns, as the paper's",
        "weights": "the whole matrix is stored, and projected whenever it is used; the paper stores coordinates in a "
        "basis of the equivariant ones. Ours begin with orthogonal rows or columns",
        "hidden units": "a regular representation: a turn permutes them in fours, and tanh acts on each",
        "messages": "one round, along edges of a graph whose neighbours are those within `reach`; the mean over "
        "neighbours. A message is computed by whom it reaches, from what its sender sees, to the same numbers",
        "critic": "each agent's own, of the same body, whose value no turn changes",
        "agents": "the world's task tells them apart by a one-hot number, which no turn changes; with ids=false agents "
        "are interchangeable too, as in the paper",
        "world": "cooperative navigation stands in for the paper's drones and traffic lights, so agents are exchanged "
        "by where they are, not by a table",
    },
    task="mpe:spread?graph=true&ids=false",
    requires=(Requirement.AGENTS,),
    hooks=(Equivariant(),),
)
