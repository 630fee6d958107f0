"""A pool is the whole of a finite task; of an endless one it is a part, and a run says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hocket
from hocket.core.keys import Key
from hocket.curriculum.level_bandit import LevelBandit
from hocket.curriculum.pool import OF_ENDLESS, left_out
from hocket.curriculum.random_order import Shuffled
from hocket.curriculum.remembering import RememberingCurriculum
from hocket.curriculum.scenario_worth import Weighted
from hocket.methods.data_and_rollout.craft_gui import DifficultyStages
from hocket.methods.data_and_rollout.srpo import Unsolved
from hocket.methods.group_relative.kimi_k1_5 import ByFailure, EasyToHard
from hocket.recipes import find
from hocket.tasks import find as find_task
from hocket.train.config import configure
from hocket.train.ledger import Ledger
from hocket.train.rows import left_out as said_of
from hocket.types import Scenario

RECIPES: tuple[str, ...] = (
    "kimi-k1-5",
    "kimi-k1-5-long",
    "repo-replay",
    "repo-replay-mixed",
    "ar3po",
    "arpo-gui",
    "avatar",
    "cures",
)
RECIPES += ("erpo", "knapsack-rl", "mmr1-vas", "srpo", "craft-gui")
ALL = 700


class Rows:
    name = "rows"

    def __init__(self, size: int | None) -> None:
        self.count = size

    def size(self, split: str) -> int | None:
        return self.count

    def scenario(self, split: str, number: int) -> Scenario:
        told = {"difficulty": number % 5, "level": number % 3, "plan": ["click 1"] * (1 + number % 4)}
        return Scenario(f"q{number}", metadata=told)


POOLED: dict[str, Callable[..., Any]] = {
    "weighted": Weighted,
    "by failure": ByFailure,
    "unsolved": Unsolved,
    "stages": lambda **more: EasyToHard(per_stage=234, then=ByFailure(**more), **more),
    "stages of moves": lambda **more: DifficultyStages(per_stage=234, **more),
    "levels": LevelBandit,
}


def asked_of(curriculum: Any, task: Any, count: int) -> set[str]:
    """What is asked in so many questions, 10 a step."""
    ledger, key, found = Ledger(), Key.of(3), set[str]()
    state = curriculum.init() if isinstance(curriculum, RememberingCurriculum) else None
    for asked in range(0, count, 10):
        if state is None:
            chosen = curriculum(task, asked, 10, ledger, key)
        else:
            chosen, state = curriculum.ask_with(state, task, asked, 10, ledger, key)
        found |= {one.id for one in chosen}
    return found


@pytest.mark.parametrize("name", POOLED)
def test_all_of_a_finite_task_is_asked(name: str) -> None:
    task = Rows(ALL)
    # A level or a stage is asked in passes of its own, so that after some questions more than one each all have come.
    assert asked_of(POOLED[name](), task, 2 * ALL) == {f"q{n}" for n in range(ALL)}
    assert len(asked_of(POOLED[name](pool=60), task, 2 * ALL)) == 60


@pytest.mark.parametrize("name", POOLED)
def test_a_part_of_an_endless_task_comes_again(name: str) -> None:
    assert len(asked_of(POOLED[name](), Rows(None), 4 * OF_ENDLESS)) == OF_ENDLESS
    with pytest.raises(ValueError, match="pool"):
        POOLED[name](pool=0)


def test_recipes_leave_no_row_out() -> None:
    task: Any = Rows(ALL)
    assert {name: left_out(find(name).curriculum, task) for name in RECIPES} == {name: [] for name in RECIPES}


def test_what_is_left_out_is_said() -> None:
    endless, finite = Rows(None), Rows(ALL)
    (one,) = left_out(EasyToHard(), endless)  # type: ignore[arg-type]
    assert one == f"task rows is endless, and {OF_ENDLESS} of its scenarios take part, which come again and again " + (
        "(curriculum.pool)"
    )
    (one,) = left_out(Weighted(pool=64), finite)  # type: ignore[arg-type]
    assert "64 of the 700 training scenarios of task rows take part" in one
    assert left_out(Weighted(pool=ALL), finite) == left_out(Shuffled(), endless) == []  # type: ignore[arg-type]
    config = configure([("task", "sums"), ("evaluation.n", 50)], find_task("sums"))
    (one,) = said_of(config, finite)  # type: ignore[arg-type]
    assert one.startswith("evaluation measures the first 50 of the 700 unseen scenarios of task rows")
    assert said_of(configure([("task", "sums")], find_task("sums")), finite) == []  # type: ignore[arg-type]


def test_a_run_that_ends_before_it_weighs_says_so() -> None:
    task: Any = Rows(ALL)
    short = configure([("task", "sums"), ("recipe", "cures"), ("evaluation.n", ALL), ("steps", 10)], find_task("sums"))
    prompts = short.recipe.curriculum.prompts
    (one,) = said_of(short, task)
    assert one.startswith(f"the curriculum uses the history of scenarios once it has drawn each of the {ALL}, and 10")
    assert f"steps draw {10 * prompts};" in one
    assert said_of(replace(short, steps=ALL // prompts + 1), task) == []


def test_a_run_says_it_once(tmp_path: Path) -> None:
    small: dict[str, Any] = {"curriculum.prompts": 2, "rollout.samples": 2, "decoding.max_tokens": 4, "threads": 1}
    small |= {"evaluation.n": 1, "runs": str(tmp_path), "run": "a"}
    hocket.train("sums", recipe="erpo", steps=2, **small)
    assert (tmp_path / "a" / "messages.txt").read_text().count(f"{OF_ENDLESS} of its scenarios take part") == 1
