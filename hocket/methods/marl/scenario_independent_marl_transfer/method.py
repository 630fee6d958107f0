"""Scenario-independent transfer: one policy for skirmishes of any number of units (arXiv:2402.08184).

Where observations list units and actions name foes, a network is of one scenario. In `InfluenceMaps` of
`hocket.methods.marl.scenario_independent_marl_transfer.influence` what is seen, the joint state and what can be done
have the same sizes in every skirmish, so that weights are carried from one to another:

    hocket train --recipe ippo --task "skirmish:3v3?influence=7&ids=false" --run few
    hocket train --recipe ippo --task "skirmish:5v5?influence=7&ids=false" --model few

`ScenarioCurriculum` does so within a run: the team begins in small skirmishes and goes on to larger ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.methods.marl.ippo import IPPO
from hocket.methods.marl.scenario_independent_marl_transfer.influence import InfluenceMaps
from hocket.rollout.joint import JointPlayer
from hocket.stages import Hook, HookContext, Player
from hocket.zoo.joint.skirmish import Skirmish


@dataclass(frozen=True)
class ScenarioCurriculum(Hook):
    """The team's first steps are in smaller skirmishes, one after the other, and the others in the run's own.

    A smaller skirmish has the settings of the run's own but for the numbers of units. Returns that training reports of
    it are of its soldiers alone, over the number of all.

    Attributes:
        sides: how many there are on each side, in the order in which they are played. steps: of each.
    """

    sides: tuple[int, ...] = (2, 3)
    steps: int = 10

    def __post_init__(self) -> None:
        if self.steps < 1 or min(self.sides, default=1) < 1:
            raise ValueError(f"steps and sides must be at least 1, not {self.steps} and {self.sides}")

    def check(self, run: HookContext) -> None:
        super().check(run)
        player = run.player
        if not isinstance(player, JointPlayer) or player.identified or not isinstance(player.world, InfluenceMaps):
            raise ConfigurationError(
                f"recipe {run.method} carries weights from skirmish to skirmish, and task {run.task.name} is seen by "
                'another number of units otherwise; use "skirmish:5v5?influence=7&ids=false"'
            )
        last = cast(Skirmish, player.world.world)
        if max(self.sides, default=0) > min(last.count, last.foes):
            raise ConfigurationError(
                f"hooks.0.sides = {list(self.sides)}: a scenario before {last.name} has no more units than it; use "
                "smaller ones"
            )

    def seat(self, player: Player, run: HookContext, step: int, memory: object) -> Player:
        place = (step - 1) // self.steps
        if place >= len(self.sides):
            return player
        joint = cast(JointPlayer, player)
        world, side = cast(InfluenceMaps, joint.world), self.sides[place]
        smaller = replace(cast(Skirmish, world.world), count=side, foes=side)
        return replace(joint, world=replace(world, world=smaller), _open=[])


SCENARIO_INDEPENDENT = IPPO.but(
    name="scenario-independent-marl-transfer",
    title="Transfer among scenarios by influence maps",
    source="Nipu et al., arXiv:2402.08184",
    catalogue_ids=("scenario-independent-marl-transfer",),
    axes=("policy", "data", "team"),
    survives=("agent count",),
    formula="o_i = (own_i, I_soldiers(c), I_foes(c)),  I_k(c) = sum_{u of k, known} health_u / full_u * "
    "(1/2)^(|c - place_u|_max),  c over cells around i;  actions: moves, an attack at the nearest foe;  theta of "
    "scenario k + 1 begins at that of scenario k;  all else as ippo",
    conventions={
        **IPPO.conventions,
        "learner": "independent PPO, whose agents have no numbers",
        "influence": "halves with each cell; soldiers and foes in a map each",
        "attack": "at the nearest foe in reach, of equals the weakest",
        "curriculum": "10 steps of two against two, 10 of three against three, then the task's own",
        "foes": "of half a soldier's health, so that a team learns within a minute",
    },
    note="skirmishes of one type of unit on a grid stand in for StarCraft's, of several",
    task="skirmish:5v5?influence=7&ids=false&strength=2",
    requires=(Requirement.AGENTS,),
    hooks=(ScenarioCurriculum(),),
)
