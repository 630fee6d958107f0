"""The horizon of an episode, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import resume, rows, train, weights

from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.components import from_plain, to_plain
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.talk import TalkBench
from hocket.methods.agents.agentgym_rl import TurnHorizon
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.train.aio import run_async
from hocket.types import Assignment, Scenario

BOTH = ("whole", "parts")
RISING = st.lists(st.integers(1, 30), unique=True, max_size=4).map(sorted)


@given(RISING, st.data())
def test_it_is_the_first_horizon_whose_last_step_is_not_over(until, data):
    turns = data.draw(st.lists(st.integers(1, 40), min_size=len(until) + 1, max_size=len(until) + 1))
    horizon = TurnHorizon(tuple(turns), tuple(until))
    for step in range(1, 40):
        wanted = next((most for most, last in zip(turns, until, strict=False) if step <= last), turns[-1])
        assert horizon.at(step) == wanted


@pytest.mark.parametrize(
    ("turns", "until", "word"),
    [
        ((), (), "turns"),
        ((4,), (3,), "2 turns|1 steps"),
        ((0,), (), "turns"),
        ((1, 2), (0,), "until"),
        ((1, 2, 3), (5, 5), "rise"),
    ],
)
def test_what_cannot_be_is_refused(turns, until, word):
    with pytest.raises(ValueError, match=word):
        TurnHorizon(turns, until)


class Endless(Workflow):
    """Asks for ever, or `more` times."""

    roles = ("policy",)

    def __init__(self, more: int | None = None) -> None:
        self.more = more

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        asked = 0
        while self.more is None or asked < self.more:
            asked += 1
            await team.policy("again")
        return Outcome(rewards={"r": 1.0})


def test_an_episode_ends_at_its_horizon_or_at_the_run_s_own_limit():
    for limit, turns, wanted in ((9, 4, 4), (3, 4, 3), (None, 5, 5), (2, None, 2)):
        bench = TalkBench(Endless(), [Scenario("s", "?")], ("a", "b"), GRPO, limits=Limits(turns=limit))
        (one,) = run_async(bench.player.play([Assignment(bench.scenarios[0], turns=turns)], key=Key.of(0)))
        assert len(one.turns) == wanted
        assert one.truncated
        assert one.failure is None
        assert ("horizon" in one.info["limit"]) == (limit != wanted)


def test_a_shorter_episode_is_left_alone():
    bench = TalkBench(Endless(2), [Scenario("s", "?")], ("a", "b"), GRPO)
    (one,) = run_async(bench.player.play([Assignment(bench.scenarios[0], turns=2)], key=Key.of(0)))
    assert len(one.turns) == 2
    assert one.terminated


def test_any_recipe_takes_one_and_keeps_it_in_plain_form():
    for name in ("gigpo", "rloo", "online-dpo"):
        recipe = find(name).but(hooks=(TurnHorizon((2, 4), (7,)),))
        assert recipe.hooks[0].at(8) == 4
        assert from_plain(to_plain(recipe), Recipe).hooks == recipe.hooks
        assert recipe.but({"hooks.0.turns": (2, 6)}).hooks == (TurnHorizon((2, 6), (7,)),)
    with pytest.raises(ConfigurationError, match="turns"):
        find("agentgym-rl").but({"hooks.0.turns": (1, 2)})


def trained(row):
    return {name: value for name, value in row.items() if not name.startswith("eval/")}


def test_a_run_resumed_across_the_boundary_ends_equal(tmp_path: Path):
    more = ["--task", "maze?width=3&height=3", "--lessons", "0", "--recipe", "agentgym-rl", "--update.lr", "1e-3"]
    more += ["--hooks.0.turns", "[1,2]", "--hooks.0.until", "[1]", "--evaluation.n", "2", "--limits.turns", "2"]
    train(tmp_path, "whole", *more, steps=2)
    train(tmp_path, "parts", *more, steps=1)
    resume(tmp_path, "parts", "--steps", "2")
    left, right = (
        [{k: v for k, v in row.items() if "eval/" not in k} for row in rows(tmp_path / name)] for name in BOTH
    )
    assert left == right
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    assert left[2]["length/mean"] > left[1]["length/mean"]
