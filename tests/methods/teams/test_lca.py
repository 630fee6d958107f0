"""LCA: what is noted of an episode, and what rankings are fitted to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.methods.teams.claims.lca import talk
from hocket.methods.teams.lca import STATES, NotingPlayer, RankedPotentials
from hocket.rewards.judge import features
from hocket.train.aio import run_async
from hocket.types import Assignment, Message, Scenario, Trajectory, Turn


class Shown:
    """A player whose episode has turns that were shown these messages."""

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        shown: list[tuple[Message, ...]] = [
            ({"role": "system", "content": "Debate."}, {"role": "user", "content": "1+1?"}),
            ({"role": "user", "content": "1+1?"}, {"role": "assistant", "content": None}, {"role": "tool"}),
        ]
        none = np.zeros(1, np.int64)
        return [Trajectory(one.scenario, [Turn("a", "p", none, none, prompt=m) for m in shown]) for one in assignments]


def test_all_messages_that_an_agent_was_shown_are_noted() -> None:
    (one,) = run_async(NotingPlayer(Shown()).play([Assignment(Scenario("s"))], key=Key.of(0)))
    assert STATES.get(one) == ["Debate.\n1+1?", "1+1?\n\n"]


def test_pairs_of_states_are_fitted_in_order_to_whether_the_first_is_ranked_higher() -> None:
    asked: dict[str, list[tuple[str, str]]] = {}

    def rule(role: str, one: str, other: str, number: int) -> float:
        asked.setdefault(role, []).append((one, other))
        return float(one > other)

    stage = RankedPotentials(rule=rule, comparisons=12)
    _, state = stage(talk(1.0, 0.0, 1.0), stage.init())
    assert sorted(asked) == ["agent_0", "agent_1"]
    for role, pairs in asked.items():
        sides = (features([pair[side] for pair in pairs], stage.buckets, stage.orders) for side in (0, 1))
        assert torch.equal(state["pairs"][role], torch.stack(list(sides), 1))
        assert state["chances"][role].tolist() == [float(one > other) for one, other in pairs]
