"""Tasks that are evaluated on another: which scenarios, whose verdicts, and what is left out of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.rewards.score import grade
from hocket.run import _settings as run_settings
from hocket.tasks import evaluated_on, find
from hocket.tasks.data import Data, from_rows
from hocket.tasks.lessons import lessons_of
from hocket.train.aio import run_async
from hocket.train.known_names import resolved
from hocket.train.task_settings import with_task_settings
from hocket.types import Scenario, Trajectory, Turn


def answered(scenario: Scenario, text: str) -> Trajectory:
    return Trajectory(scenario, [Turn("a", "p", np.zeros(0, int), np.arange(3), text=text)])


ROWS = [{"prompt": f"question {n}", "answer": n} for n in range(20)]
UNSEEN = [{"prompt": f"unseen {n}", "answer": n, "more": "x"} for n in range(4)]


def test_all_rows_of_the_other_are_evaluated_and_each_task_judges_its_own(tmp_path: Path) -> None:
    path = tmp_path / "unseen.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in UNSEEN))
    task = find(f"sums?eval_task={path}%3Fextract=number")
    assert (task.size("train"), task.size("eval")) == (None, 4)
    assert [task.scenario("eval", n).prompt for n in range(4)] == [f"unseen {n}" for n in range(4)]
    asked = task.scenario("train", 3)
    assert asked == find("sums").scenario("train", 3)
    mine, other = answered(asked, f"<answer>{asked.answer}</answer>"), answered(task.scenario("eval", 2), "It is 2")
    wrong = answered(asked, f"It is {asked.answer}")
    assert [task.success(one) for one in (mine, other, wrong)] == [1, 1, 0]
    run_async(grade([mine, other, wrong], task.rewards, key=Key.of(0)))
    assert [one.scores["correct"].value for one in (mine, other, wrong)] == [1, 1, 0]
    assert other.scenario.id == "evaluation/unseen:3"
    assert (task.describe(other)["format"], task.describe(wrong)["format"]) == (1, 0)


def test_rows_that_say_their_split_are_evaluated_where_they_say_so() -> None:
    rows = [{**row, "split": "test" if n else "train"} for n, row in enumerate(UNSEEN)]
    task = evaluated_on(ROWS, rows)
    assert [task.scenario("eval", n).answer for n in range(task.size("eval") or 0)] == [1, 2, 3]


def test_prompts_to_evaluate_on_are_not_trained_on() -> None:
    task = evaluated_on(ROWS, [*UNSEEN, ROWS[3], ROWS[4]])
    trained = {task.scenario("train", n).prompt for n in range(task.size("train") or 0)}
    before = from_rows(ROWS)
    kept = {before.scenario("train", n).prompt for n in range(before.size("train") or 0)}
    assert trained == kept - {"question 3", "question 4"}
    assert any("2 rows whose prompt is in the data to evaluate on" in remark for remark in task.remarks)  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match=r"all .* rows of data to train on are in the data to evaluate on"):
        evaluated_on(ROWS, ROWS)


def test_lessons_and_examples_are_the_training_tasks() -> None:
    task = evaluated_on("calculator", UNSEEN)
    assert lessons_of(task) is not None
    assert lessons_of(evaluated_on(ROWS, UNSEEN)) is None
    pairs = [{"prompt": f"p{n}", "chosen": "a", "rejected": "b"} for n in range(4)]
    assert list(evaluated_on(pairs, pairs[:1]).example.columns)  # type: ignore[attr-defined]


def test_tasks_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="task gym:CartPole-v1 is not in words"):
        find("sums?eval_task=gym:CartPole-v1")
    with pytest.raises(ConfigurationError, match="are played in different ways"):
        find("sums?eval_task=maze")
    with pytest.raises(ConfigurationError, match="there is no task 'nosuch'"):
        find("sums?eval_task=nosuch")


def test_data_to_evaluate_on_alone_is_not_trained_on() -> None:
    task = from_rows(ROWS, eval_share=1)
    assert isinstance(task, Data)
    assert (task.size("train"), task.size("eval")) == (0, 20)
    with pytest.raises(ConfigurationError, match="only rows to evaluate on; name it with --eval-task"):
        task.scenario("train", 0)


def test_flags_go_into_the_name_of_the_task() -> None:
    pairs = [
        ("task", "a.jsonl?extract=number"),
        ("eval_task", "b.csv?x=1&y=%2"),
        ("columns.prompt", "ask"),
        ("seed", 1),
    ]
    name = "a.jsonl?extract=number&eval_task=b.csv%3Fx%3D1%26y%3D%252&prompt=ask"
    assert with_task_settings(pairs) == [("seed", 1), ("task", name)]
    assert with_task_settings([("seed", 1)]) == [("seed", 1)]
    with pytest.warns(RuntimeWarning, match="taken as"):
        others = resolved([("data.val_files", "b.parquet"), ("input_key", "ask"), ("dataset_name", "a/b")])
    assert others == [("eval_task", "b.parquet"), ("columns.prompt", "ask"), ("task", "hub:a/b")]


def test_rows_from_python_have_columns_and_another_task_too() -> None:
    rows: Any = [{"ask": f"What is 1 + {n}?", "answer": n + 1} for n in range(1, 9)]
    settings, name, task = run_settings(rows, [("eval_task", UNSEEN), ("columns.prompt", "ask"), ("seed", 3)])
    assert (settings, name) == ([("task", "data?eval_task=data"), ("seed", 3)], "data?eval_task=data")
    assert task.size("eval") == 4
    assert str(task.scenario("train", 0).prompt).startswith("What is 1 + ")
