"""The task `statutes`: its settings, its name, and what is refused; the plan of its example."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.surveys.lexpro_1 import MITIGATING, code

EXAMPLE = Path(__file__).parents[3] / "examples" / "statutes.yaml"


@pytest.mark.parametrize("name", ["statutes", "statutes?book=2", "statutes?reasoned=1&select=false"])
def test_a_task_is_found_by_its_name(name: str) -> None:
    task = tasks.find(name)
    assert task.name == name
    assert task.scenario("eval", 3) == tasks.find(name).scenario("eval", 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("statutes?reasoned=2", "reasoned = 2.0 is a share"),
        ("statutes?book=-1", "book = -1 is the number of a code"),
        ("statutes?article=3", "article"),
    ],
)
def test_bad_settings_are_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tasks.find(name)


@pytest.mark.parametrize("book", range(20))
def test_no_range_of_a_code_ends_before_it_begins(book: int) -> None:
    law = code(book)
    least = sum(law.years[name] for name in MITIGATING)
    assert sorted(law.ranges) == list(range(1, 9))
    assert all(0 < low - least <= low < high for low, high in law.ranges.values())


def test_the_example_is_the_plan_of_the_report() -> None:
    plan = yaml.safe_load(EXAMPLE.read_text())
    assert plan["task"] == "statutes"
    assert [phase["recipe"] for phase in plan["plan"]] == ["sft", "grpo"]
