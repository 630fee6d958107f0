"""A public good, a crowd that votes, a coach and its player: what is said to whom, and what each earns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import Level
from hocket.lab.sequential import backward_induction
from hocket.methods.teams.cpmobius import INVENT, CoachPlayer, unique_majority
from hocket.methods.teams.mac_spgg import PublicGood, PublicGoods
from hocket.testing import rehearse
from hocket.types import Decoding, Scenario, Trajectory
from hocket.workflows import library
from hocket.workflows.crowd_vote import CrowdVote

LAW = settings(max_examples=60, deadline=None, derandomize=True)
QUESTION = Scenario("q", "2 + 2?", answer="4")
SHORT = Decoding(max_tokens=40)


def right(text: str, scenario: Scenario) -> float:
    return float(text == scenario.answer)


def earned(played: Trajectory, name: str) -> list[float | None]:
    score = played.scores[name]
    assert score.level is Level.TURN
    return list(score.value)  # type: ignore[arg-type]


def test_they_are_in_the_library() -> None:
    assert library.find("public-goods?agents=2&bonus=0") == PublicGoods(agents=2, bonus=0)
    assert library.find("crowd-vote?voters=5") == CrowdVote(5)
    assert library.find("coach-player?solutions=4&alike=true") == CoachPlayer(4, alike=True)


# ---------------------------------------------------------------- public goods


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


@LAW
@given(st.lists(st.integers(-3, 3), min_size=8, max_size=8), st.lists(st.integers(-3, 3), min_size=8, max_size=8))
def test_backward_induction_against_brute_force(first: list[int], second: list[int]) -> None:
    """Two players, two and four actions: an equilibrium is a first move and an answer to each first move."""
    actions = (0.0, 1.0)
    utility = {(a, b): (float(first[int(2 * a + b)]), float(second[int(2 * a + b)])) for a in actions for b in actions}
    found = backward_induction(2, actions, lambda play: utility[play[0], play[1]])
    plays = set()
    for answers in [(x, y) for x in actions for y in actions]:
        if all(utility[a, answers[int(a)]][1] == max(utility[a, b][1] for b in actions) for a in actions):
            best = max(utility[a, answers[int(a)]][0] for a in actions)
            plays |= {(a, answers[int(a)]) for a in actions if utility[a, answers[int(a)]][0] == best}
    assert found.plays == plays
    assert found.unique == (len(plays) == 1 and all(len({utility[a, b][1] for b in actions}) == 2 for a in actions))


def test_each_reads_the_earlier_answers_and_pays_for_its_length() -> None:
    flow = PublicGoods(agents=3, multiplier=1.5, cost=1.0, bonus=1.0)
    replies = {"agent_1": ["4"], "agent_2": ["I do not know"], "agent_3": ["4"]}
    (played,) = rehearse(flow, QUESTION, replies, verifier=right, decoding=SHORT)
    told = [str(turn.prompt[-1]["content"]) for turn in played.turns]
    assert told == ["2 + 2?", "2 + 2?\nAgent 1: 4", "2 + 2?\nAgent 1: 4\nAgent 2: I do not know"]
    efforts = [len(turn) / 40 for turn in played.turns]
    assert efforts[1] > efforts[0]
    assert played.info["efforts"] == efforts
    assert earned(played, "payoff") == pytest.approx([1 - efforts[0] + 1, 1 - efforts[1], 1 - efforts[2] + 1])
    assert played.answer == "4"


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


# ---------------------------------------------------------------- the crowd


@pytest.mark.parametrize(
    ("said", "answer"), [(("4", "5", "4"), "4"), (("5", "4", "3"), "5"), (("", "", "4"), "4"), (("", "", ""), "")]
)
def test_the_most_frequent_answer_counts(said: tuple[str, str, str], answer: str) -> None:
    replies = {f"voter_{n}": [text] for n, text in enumerate(said, start=1)}
    (played,) = rehearse(CrowdVote(), QUESTION, replies)
    assert played.answer == answer
    assert played.info["answers"] == {f"voter_{n}": text or None for n, text in enumerate(said, start=1)}
    assert {str(turn.prompt[-1]["content"]) for turn in played.turns} == {"2 + 2?"}


# ---------------------------------------------------------------- coach and player


@LAW
@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=9))
def test_unique_majority_by_hand(answers: list[str | None]) -> None:
    counts = {answer: answers.count(answer) for answer in answers if answer is not None}
    top = [answer for answer, count in counts.items() if count == max(counts.values())]
    assert unique_majority(answers) == [1.0 if top == [answer] else -1.0 for answer in answers]


INVITED = Scenario("i", "Write.", metadata={INVENT: True})


def coached(said: list[str], **settings: bool) -> Trajectory:
    flow = CoachPlayer(len(said), **settings)  # type: ignore[arg-type]
    (played,) = rehearse(flow, INVITED, {"coach": ["1 + 1?"], "player": said})
    return played


def test_the_player_solves_what_the_coach_wrote() -> None:
    played = coached(["2", "3", "2", "2"])
    assert [turn.role for turn in played.turns] == ["coach"] + ["player"] * 4
    assert [turn.prompt[-1]["content"] for turn in played.turns[1:]] == ["1 + 1?"] * 4
    assert [turn.parent for turn in played.turns] == [None] * 5
    assert {turn.state for turn in played.turns[1:]} == {"1 + 1?"}
    assert earned(played, "own") == [None, 1.0, -1.0, 1.0, 1.0]
    assert played.info["share"] == 0.75


def test_ties_earn_nothing_and_an_adversary_is_paid_for_failures() -> None:
    assert earned(coached(["2", "3"]), "own") == [None, -1.0, -1.0]
    assert earned(coached(["2", "3", "2", "2"], adversarial=True), "own") == [0.25, 1.0, -1.0, 1.0, 1.0]


def test_other_scenarios_are_the_players_alone() -> None:
    (played,) = rehearse(CoachPlayer(), QUESTION, {"coach": [], "player": ["4"]})
    assert [turn.role for turn in played.turns] == ["player"]
    assert played.answer == "4"


def test_alike_is_one_choice_of_the_coach_per_scenario() -> None:
    keys = {}
    for alike in (False, True):
        seen: list[int] = []
        flow = CoachPlayer(2, alike=alike)
        script = {"coach": lambda request, seen=seen: seen.append(request.key.word) or "x", "player": ["2"] * 6}
        rehearse(flow, INVITED, script, samples=3)  # type: ignore[arg-type]
        keys[alike] = len(set(seen))
    assert keys == {False: 3, True: 1}
