"""WMPO: GRPO of a policy that reads pictures, inside a learnt model of pictures (arXiv:2511.09515).

Episodes of a real robot are dear. From true first pictures, groups of episodes are imagined: the policy chooses moves,
a model of the world draws the next picture, and a learnt judge says of every picture whether it shows success. GRPO
learns from these alone. The model first learns from demonstrations, which show no failures; a model that has seen no
failure imagines none, so it is fitted further to a few true episodes of the policy as it is. `WorldModelling` does both
and seats the player in what the model imagines; evaluation is in the true room.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from hocket.core.errors import ConfigurationError
from hocket.core.outcomes import StepResult
from hocket.methods.base.grpo import GRPO
from hocket.methods.generative.wmpo.model import WorldModel
from hocket.methods.generative.wmpo.player import ImaginedCourse, PicturePlayer, known_moves, records_of, task_key
from hocket.methods.generative.wmpo.world import Records
from hocket.rollout.dynamic import DynamicSampling
from hocket.stages import Hook, HookContext, Player, State
from hocket.types import Assignment


@dataclass(frozen=True)
class WorldModelling(Hook):
    """Fits a model of the world, and lets training episodes take place in what it imagines.

    Attributes:
        pretraining: updates of the model on demonstrations. every: steps after which it is fitted further; 0 leaves it.
        episodes: true episodes of the policy for that, one in each of so many rooms. updates: on all that is known.
    """

    pretraining: int = 400
    every: int = 5
    episodes: int = 24
    updates: int = 100

    def __post_init__(self) -> None:
        if self.pretraining < 1 or self.every < 0 or self.episodes < 1 or self.updates < 1:
            raise ValueError("pretraining, episodes and updates must be at least 1, and every at least 0")

    def check(self, run: HookContext) -> None:
        super().check(run)
        if not isinstance(run.player, PicturePlayer):
            raise ConfigurationError(
                f"recipe {run.method} imagines the pictures of task door-room, and task {run.task.name} has none of "
                "them; use --task door-room"
            )

    def begin(self, run: HookContext, earlier: State | None) -> Any:
        """The model after demonstrations; that of an earlier phase, if there was one."""
        memory = {"model": WorldModel(run.key.derive("world")), "records": known_moves(task_key(run.task)), "true": 0}
        if earlier:
            return self.restore(earlier, run)
        cast(WorldModel, memory["model"]).fit(
            cast(Records, memory["records"]), self.pretraining, run.key.derive("world", "pretraining")
        )
        return memory

    async def before(self, run: HookContext, step: int, memory: Any) -> Any:
        """Fits the model to true episodes of the present policy, where they are due."""
        if not self.every or (step - 1) % self.every:
            return memory
        first, key = memory["true"], run.key.derive("world", step)
        assignments = [Assignment(run.task.scenario("train", first + number)) for number in range(self.episodes)]
        records = memory["records"].joined(records_of(await run.player.play(assignments, key=key)))
        memory["model"].fit(records, self.updates, key.derive("fit"))
        return {**memory, "records": records, "true": first + self.episodes}

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        return replace(cast(PicturePlayer, player), course=ImaginedCourse(memory["model"]))

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        result.metrics["world/true_episodes"] = float(memory["true"])
        return memory

    def state(self, memory: Any, run: HookContext) -> State:
        columns = {name: torch.from_numpy(column) for name, column in memory["records"]._asdict().items()}
        return {"model": memory["model"].held(), "records": columns, "true": memory["true"]}

    def restore(self, state: State, run: HookContext) -> Any:
        model = WorldModel(run.key.derive("world"))
        model.take(state["model"])
        records = Records(**{name: column.numpy() for name, column in state["records"].items()})
        return {"model": model, "records": records, "true": state["true"]}


WMPO = GRPO.but(
    name="wmpo",
    title="World-Model-based Policy Optimisation",
    source="arXiv:2511.09515",
    catalogue_ids=("wmpo",),
    axes=("rollout", "policy", "environment"),
    formula=GRPO.formula + " of episodes imagined by a model of pictures, R_i = 1 if a judge of pictures says success",
    conventions={
        **GRPO.conventions,
        "constant group": "discarded and asked again, at most 3 rounds",
        "imagined pictures": "the mean of the prediction at every pixel, not a draw",
        "judge": "of every picture by itself; the first success ends an episode",
        "action chunks": "two moves from one picture",
        "fits of the model": "24 true episodes before every fifth step, beside all that is known",
    },
    note="a room of 5 x 5 pixels and small convolutional networks stand in for robots and a video model",
    task="door-room",
    rollout=DynamicSampling(samples=8, max_rounds=3),
    hooks=(WorldModelling(),),
)
