"""A public good: payoffs by hand, who reads what, and what an answer costs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workflows_cases import earned

from hocket.methods.teams.mac_spgg.method import PublicGood, PublicGoods
from hocket.testing import rehearse
from hocket.types import Scenario

LAW = settings(max_examples=60, deadline=None, derandomize=True)


@LAW
@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=5),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from([None, 0.0, 1.0, 3.0]),
)
def test_payoffs_by_hand(contributions: list[float], bonus: float, threshold: float | None) -> None:
    found = PublicGood(1.5, 1.0, bonus, threshold)(contributions)
    total, agents = sum(contributions), len(contributions)
    met = threshold is None or total >= threshold
    for own, payoff in zip(contributions, found, strict=True):
        assert payoff == pytest.approx(1.5 / agents * total - own + (bonus * own if met else 0.0))
    # What one adds, the others get too.
    more = [*contributions[:-1], contributions[-1] + 0.25]
    after = PublicGood(1.5, 1.0, bonus, threshold)(more)
    assert all(b >= a for a, b in zip(found[:-1], after[:-1], strict=True))


QUESTION = Scenario("q", "2 + 2?", answer="4")


def right(text: str, scenario: Scenario) -> float:
    return float(text == scenario.answer)


def test_only_the_last_answer_may_be_shown_and_quality_may_cost() -> None:
    flow = PublicGoods(agents=3, effort="quality", shown="last", bonus=0.0)
    replies = {"agent_1": ["4"], "agent_2": ["5"], "agent_3": ["4"]}
    (played,) = rehearse(flow, QUESTION, replies, verifier=right)
    assert str(played.turns[2].prompt[-1]["content"]) == "2 + 2?\nAgent 2: 5"
    assert earned(played, "payoff") == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("wrong", [{"agents": 1}, {"effort": "time"}, {"shown": "none"}])
def test_public_goods_refuses_nonsense(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PublicGoods(**wrong)  # type: ignore[arg-type]
