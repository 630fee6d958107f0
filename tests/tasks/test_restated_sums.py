"""Sums that are asked anew: the solver reads its own questions, and lessons keep the answer."""

from __future__ import annotations

import numpy as np
import pytest

from hocket import tasks
from hocket.methods.data_and_rollout.clpo.task import EASIER, OTHERWISE, easier, otherwise, taught, terms_of, value_of
from hocket.tasks.arithmetic import expression_of, question_of


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("What is 45 + 37?", [45, 37]),
        (" What is -5 - 3 + 100? ", [-5, -3, 100]),
        ("What is 45?", None),
        ("What is 45 + 37", None),
        ("What is 45 * 37?", None),
        ("45 + 37", None),
    ],
)
def test_questions_of_two_terms_or_more_are_read(question: str, terms: list[int] | None) -> None:
    assert terms_of(question) == terms
    assert value_of(question) == (None if terms is None else str(sum(terms)))


def test_lessons_keep_the_answer_and_an_easier_sum_has_fewer_steps() -> None:
    task, rng = tasks.find("restated-sums"), np.random.default_rng(0)
    for number in range(100):
        scenario = task.scenario("train", number)
        terms = terms_of(str(scenario.prompt))
        assert terms is not None
        for lesson in taught(terms, rng):
            asked, said = (str(side[0]["content"]) for side in (lesson.prompt, lesson.said))
            if asked.startswith((EASIER, OTHERWISE)):
                assert value_of(said.rpartition("</think>")[2]) == scenario.answer
            else:
                assert said.endswith(f"<answer>{scenario.answer}</answer>")


def test_an_easier_sum_has_its_first_step_done() -> None:
    assert easier([45, 37]) == [75, 7]
    assert easier([45, -30, 2]) == [15, 2]
    assert easier([4, 7]) is None
    assert otherwise([1, 2, -3]) == [1, -3, 2]
    assert question_of(expression_of(otherwise([5, -7]))) == "What is -7 + 5?"
