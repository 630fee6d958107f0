"""The kind of policy that acts on pictures; a run begins from one cloned from the task's demonstrations."""

from __future__ import annotations

from typing import Any

from hocket.core.keys import Key
from hocket.methods.generative.wmpo.player import PicturePlayer, PictureSpaces, cloned, known_moves, task_key
from hocket.policies.control import ControlPolicy
from hocket.stages import Player, Policy, Task
from hocket.train.kinds.kind import ACCURACY
from hocket.train.kinds.network import Network

KIND = "acting on pictures"


class ActingOnPictures(Network):
    """A small network that acts by what it sees, two moves at a time."""

    name = KIND  # Spelt out here it would declare a workflow.
    measure = ACCURACY
    instead = "wmpo or grpo"

    def policy(self, task: Task, name: str, key: Key) -> Policy:
        policy = ControlPolicy(PictureSpaces(), key=key, name=name)
        cloned(policy, known_moves(task_key(task)), key.derive("cloning"))
        result: Any = policy
        return result  # type: ignore[no-any-return]

    def player(self, task: Task, policy: Any) -> Player:
        return PicturePlayer(policy)


ACTING_ON_PICTURES = ActingOnPictures()
