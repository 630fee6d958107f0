"""FlickerFusion: a team that meets more others than it was trained with sees some of them at a time (arXiv:2410.15876).

Where others are seen row by row (`Slots` of `hocket.core.worlds`) an agent drops some of the rows by chance, others at
every step, and each agent others than its team. In training that makes few of what there is, so that a policy learns to
act on a part of the truth. Where more are met than ever in training, as many are dropped as there are too many, so that
what a network reads is never of a kind that it has not read; what one step hides, the next ones show.

Both are worlds: `Flickering` of `hocket.methods.marl.flickerfusion.open_team` is any world seen so, and a task asks for
it by `?flicker=2`. `Flicker` seats a team in it while it trains. A policy trained so is then played with more:

    hocket train --recipe flickerfusion --run few
    hocket eval runs/few --task "mpe:flee?ids=false&flicker=2&pursuers=5&come=2"
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.methods.marl.flickerfusion.open_team import Flickering
from hocket.methods.marl.ippo import IPPO
from hocket.rollout.joint import JointPlayer
from hocket.stages import Hook, HookContext, Player


@dataclass(frozen=True)
class Flicker(Hook):
    """The team trains in `Flickering`, where everybody sees `least` to `most` others of those that are there.

    Attributes:
        most: fewer than are met in training, so that this many are seen often; what is met later is seen so as well.
        least: at least 1.
    """

    most: int = 2
    least: int = 1

    def check(self, run: HookContext) -> None:
        super().check(run)
        if not isinstance(run.player, JointPlayer):
            raise ConfigurationError(
                f"recipe {run.method} drops some of the others that agents of a joint world see, and task "
                f"{run.task.name} is none; use mpe:flee"
            )
        Flickering(run.player.world, self.most, self.least)

    def seat(self, player: Player, run: HookContext, step: int, memory: object) -> Player:
        own = cast(JointPlayer, player)
        return replace(own, world=Flickering(own.world, self.most, self.least), _open=[])


FLICKERFUSION = IPPO.but(
    name="flickerfusion",
    title="FlickerFusion: others that come and go, some of whom are seen at a time",
    source="FlickerFusion, arXiv:2410.15876",
    catalogue_ids=("flickerfusion",),
    axes=("policy", "environment", "team"),
    survives=("agent count",),
    formula="training:  o~_i = (own, {row_j : j in K_i}),  |K_i| ~ U{1..min(n, 2)},  K_i drawn evenly at every step;  "
    "met with more:  |K_i| = min(n, 2);  all else as ippo of o~",
    conventions={
        **IPPO.conventions,
        "backbone": "independent PPO with perceptrons; the paper's are QMIX with perceptrons and with attention. A "
        "body that reads the mean of rows (--network.body sets) gains nothing by it here",
        "how many are kept": "drawn evenly; the paper's code has a table of how many are dropped of how many",
        "who is dropped": "by each agent apart, evenly; the paper's code prefers whom fewer of the team dropped",
        "flicker": "at every step, as the paper's code by default",
        "order": "rows that are kept move to the front, as in the paper's code for perceptrons",
        "world": "fleeing from pursuers who come and go stands in for MPEv2's Repel, whose source is not a package; "
        "agents themselves stay to the end",
        "range": "1 or 2 are seen of the 1 to 4 that are met, so that no number is rare in training",
        "evaluation": "of a run in its own world, all seen; a task with `flicker` drops",
    },
    task="mpe:flee?ids=false",
    requires=(Requirement.AGENTS,),
    hooks=(Flicker(),),
)
