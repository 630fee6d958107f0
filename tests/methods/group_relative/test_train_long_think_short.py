"""Budgets read from scenarios."""

from __future__ import annotations

import pytest
from rewards_cases import shaped_returns

from hocket.core.errors import ConfigurationError
from hocket.methods.group_relative.train_long_think_short import BudgetLength, with_line


def test_budget_is_read_from_the_scenario():
    answers = [("a", 1.0, 2, True), ("a", 0.0, 4, True), ("a", 1.0, 8, True)]
    told = {"info": {"metadata": {"budget": 4}}}
    assert shaped_returns(BudgetLength(weight=0.5, correct=2.0), answers, **told) == [2.25, 0.5, 2.0]
    assert shaped_returns(BudgetLength(shape="flat"), answers, **told) == [2.0, 1.0, 1.0]
    with pytest.raises(ConfigurationError, match="ShrinkingBudget"):
        shaped_returns(BudgetLength(), answers, info={"metadata": {}})


SYSTEM, ASKED, ANSWERED = ({"role": role, "content": role[0]} for role in ("system", "user", "assistant"))
TOLD = {"role": "user", "content": "u\nL"}


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ((SYSTEM, ASKED, ANSWERED), (SYSTEM, TOLD, ANSWERED)),
        ((ASKED, ASKED, ANSWERED), (ASKED, TOLD, ANSWERED)),
        ((SYSTEM,), (SYSTEM, {"role": "user", "content": "L"})),
        ("u", "u\nL"),
        (None, None),
    ],
)
def test_the_budget_stands_under_the_last_user_message(prompt, wanted):
    assert with_line(prompt, "L") == wanted
    assert with_line("u", "") == "u"
