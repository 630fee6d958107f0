"""Control: a small network that acts in an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from hocket.core.keys import Key
from hocket.stages import Player, Policy, Task
from hocket.train.kinds.network import Network

if TYPE_CHECKING:
    from hocket.tasks.gym import GymTask


class Control(Network):
    """Vectors of observations in, actions out; tasks are those of `hocket.tasks.gym`, or have their members."""

    name = "control"

    def policy(self, task: Task, name: str, key: Key) -> Policy:
        from hocket.policies.control import ControlPolicy

        return ControlPolicy.for_task(cast("GymTask", task), name=name, key=key)

    def player(self, task: Task, policy: Any) -> Player:
        from hocket.rollout.vector import VectorPlayer

        return VectorPlayer(cast("GymTask", task), policy)


CONTROL = Control()
