"""Replays beside fresh samples."""

from __future__ import annotations

from typing import Any

import pytest

from hocket.core.errors import ConfigurationError
from hocket.curriculum.random_order import Shuffled
from hocket.lab.talk import TalkBench
from hocket.lab.toys.hops import ASKED, WAYS, Hops, last
from hocket.methods.data_and_rollout.repo_replay import REPO_REPLAY
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.rollout.alternating import AlternatingRollout
from hocket.rollout.replay_store import ReplayStore


@pytest.mark.parametrize(
    "change",
    [
        {"rollout": AlternatingRollout((REPO_REPLAY.rollout, find("grpo").rollout))},
        {"rollout.take": "oldest"},
        {"rollout.store.size": 0},
    ],
)
def test_a_rollout_that_remembers_inside_another_and_bounds_that_leave_nothing_are_refused(change):
    with pytest.raises((ConfigurationError, ValueError), match=r"\w"):
        REPO_REPLAY.but(change)


OURS = REPO_REPLAY.but({"curriculum": Shuffled(prompts=2), "rollout.samples": 4, "rollout.earlier": 4})


def bench(recipe: Recipe, seed: int = 0, lr: float = 0.1) -> TalkBench:
    """A look-up of two steps, of which one in sixteen is right at first."""
    asked = [type(one)(one.id, "", answer=" ".join(one.answer.split()[:2])) for one in ASKED]
    return TalkBench(Hops(), asked, WAYS, recipe, view=last, seed=seed, lr=lr)


def stored(made: TalkBench) -> dict[str, Any]:
    state: dict[str, Any] = made.parts.lead.memory["rollout"]
    return state


def test_no_more_is_kept_than_the_bounds_say():
    sizes, earned, oldest = list[int](), list[float](), list[int]()
    for store in (ReplayStore(size=6, scenarios=2), ReplayStore(size=6, scenarios=2, keep="best")):
        held = stored(bench(OURS.but({"rollout.store": store}), 3).run(10))["kept"].values()
        sizes += [len(one) for one in held]
        earned.append(sum(row["worth"] for one in held for row in one))
        oldest.append(min(row["step"] for one in held for row in one))
    one = bench(OURS.but({"rollout.store": ReplayStore(size=6, scenarios=1)}), 3).run(3)
    only = list(stored(one)["kept"])
    holds = sizes == [6] * 4 and earned[1] > earned[0] and (oldest[0] == 9) and (only == [ASKED[-1].id])
    assert holds
