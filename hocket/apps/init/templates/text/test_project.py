"""Run `pytest` in this folder."""

from recipe import RECIPE
from reward import reward
from task import rows

from hocket import tasks


def test_the_reward_prefers_the_right_answer() -> None:
    texts = ["<answer>7</answer>", "<answer>8</answer>", "seven"]
    assert reward(texts, ["7", "7", "7"]) == [1.0, 0.1, 0.0]


def test_rows_are_a_task_with_unseen_problems() -> None:
    task = tasks.of(rows(100))
    prompts = [{task.scenario(split, n).prompt for n in range(task.size(split) or 0)} for split in ("train", "eval")]
    assert all(prompts)
    assert not prompts[0] & prompts[1]


def test_the_recipe_says_what_it_changes() -> None:
    assert RECIPE.name == "mine"
