"""Black-box attacks on what a team observes, and training under them as a defence.

After Constrained Black-Box Attacks Against Multi-Agent Reinforcement Learning. The attacks are worlds: any task takes
`?attack=views&budget=0.3` (`Attacked` of `hocket.methods.marl.black_box_marl_attacks.observation_attack`), so a trained
team is measured under one by playing it there. The attacker has observations alone, and makes the agents' views
contradict each other; or it has nothing, and shifts them apart. `Misled` seats a team in such a world while it trains,
by default with noise of the same budget: the defence that an attack is measured against.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from hocket.core.errors import ConfigurationError
from hocket.methods.marl.black_box_marl_attacks.observation_attack import Attacked
from hocket.methods.marl.ippo import IPPO
from hocket.rollout.joint import JointPlayer
from hocket.stages import Hook, HookContext, Player


@dataclass(frozen=True)
class Misled(Hook):
    """The team trains in `Attacked`; evaluation is in the world as it is.

    Attributes:
        attack: `views`, `fixed` or `noise`. budget: the largest change of a number that is seen.
    """

    attack: str = "noise"
    budget: float = 0.3

    def check(self, run: HookContext) -> None:
        super().check(run)
        if not isinstance(run.player, JointPlayer):
            raise ConfigurationError(
                f"recipe {run.method} perturbs what agents of a joint world see, and task {run.task.name} is none; use "
                "mpe:spread"
            )
        Attacked(run.player.world, self.attack, self.budget)

    def seat(self, player: Player, run: HookContext, step: int, memory: object) -> Player:
        own = cast(JointPlayer, player)
        return replace(own, world=Attacked(own.world, self.attack, self.budget), _open=[])


BLACK_BOX_MARL_ATTACKS = IPPO.but(
    name="black-box-marl-attacks",
    title="Training a team against black-box attacks on what it observes",
    source="Constrained Black-Box Attacks Against Multi-Agent Reinforcement Learning",
    catalogue_ids=("black-box-marl-attacks",),
    axes=("system", "analysis", "team"),
    formula="attack:  o + b s,  s in {-1, 1}^D that makes |M (o + b s) + c|^2 large,  M_ij o_i + c_ij = o_j fitted;  "
    "defence:  IPPO on o + b s with s by chance",
    conventions={
        **IPPO.conventions,
        "attack": "derived from the abstract's description: linear maps between views by ridge regression on 1000 "
        "joint observations of random play, residuals over the deviation of what is predicted",
        "budget": "the largest change of any number, in the units of the world",
        "no access": "views too large and too small in turn",
        "defence": "random signs of the same budget in training; evaluation is clean unless the task names an attack",
    },
    task="mpe:spread?agents=2",
    hooks=(Misled(),),
)
