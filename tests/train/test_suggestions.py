"""What a task suggests, and what a recipe keeps to itself."""

from __future__ import annotations

import pytest

from hocket import tasks
from hocket.core.components import field_types, value_at
from hocket.methods.base.dapo import DAPO
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.recipes import all_recipes
from hocket.rewards.shaping import OverlongPenalty
from hocket.train.config import configure
from hocket.train.suggestions import changed


def configured(task: str, recipe: str | Recipe) -> Recipe:
    return configure([("task", task), ("recipe", recipe)], tasks.find(task)).recipe


@pytest.mark.parametrize(
    ("recipe", "path", "wanted"),
    [
        ("grpo", "rollout.samples", 16),
        ("two-grpo", "rollout.samples", 2),
        ("loop", "rollout.samples", 6),
        ("dr-grpo", "objective.aggregate", "constant-length"),
        ("nft", "objective.aggregate", "constant-length"),
        ("tapo-tool", "update.minibatches", 4),
        ("mdpo", "update.minibatches", all_recipes()["mdpo"].update.minibatches),
    ],
)
def test_a_task_suggests_only_what_a_recipe_leaves_open(recipe: str, path: str, wanted: object) -> None:
    assert value_at(configured("gym:CartPole-v1", recipe), path) == wanted


def test_a_user_s_recipe_keeps_what_it_states() -> None:
    mine = GRPO.but({"name": "mine", "rollout.samples": 5})
    found = configured("gym:CartPole-v1", mine)
    assert (value_at(found, "rollout.samples"), value_at(found, "update.epochs")) == (5, 10)


@pytest.mark.parametrize(
    ("recipe", "path", "wanted"),
    [
        ("lens", "shaping.0.limit", 1.0),
        ("dapo", "shaping.0.limit", 96),
        ("dapo", "shaping.0.buffer", 19),
        ("tapo-tool", "shaping.0.buffer", 48),
        ("train-long-think-short", "curriculum.start", 48),
    ],
)
def test_declared_lengths_alone_follow_the_longest_response(recipe: str, path: str, wanted: object) -> None:
    assert value_at(configured("sums", recipe), path) == wanted


def test_lengths_a_user_states_stay() -> None:
    stated = DAPO.but({"name": "mine", "shaping": (OverlongPenalty(limit=64, buffer=8),)})
    assert configured("sums", stated).shaping == stated.shaping
    assert configured("sums", DAPO.but(name="same")).shaping == configured("sums", "dapo").shaping


def test_every_horizon_is_a_length() -> None:
    for recipe in all_recipes().values():
        for stage in recipe.stages:
            names = field_types(type(stage))
            assert ("horizon" in names) == ("horizon" in stage.lengths), type(stage)


def test_changes_can_be_told() -> None:
    told = changed(configured("gym:CartPole-v1", "two-grpo"))
    assert told["update.epochs"] == (1, 10)
    assert "rollout.samples" not in told
    assert changed(GRPO) == {}
