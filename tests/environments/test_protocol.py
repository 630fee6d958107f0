"""What agents are told, how moves are recognised and read, and what illegal ones cost."""

from __future__ import annotations

import players
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.agents.environments.legal import IllegalMoves
from hocket.agents.environments.protocol import UNREADABLE, Environment, Observation, same_move
from hocket.agents.environments.reading import LastLine, Numbered, Tagged, WholeText
from hocket.core.errors import HocketError
from hocket.core.keys import Key


def test_an_agent_is_told_everything_or_only_the_news() -> None:
    seen = Observation("rules and board", ("a", "b"), "s", "board")
    assert seen.told() == "rules and board\nLegal moves: a, b"
    assert seen.told(remembering=True) == "board\nLegal moves: a, b"
    assert Observation("all", None).told(remembering=True) == "all"
    assert Observation("all", ("x(0,1)", "x(1,1)")).told().endswith("Legal moves: x(0,1); x(1,1)")


@pytest.mark.parametrize(
    ("said", "move"),
    [("Bet", "bet"), (" bet. ", "bet"), ("bid   high", "bid high"), ("bets", None), ("", None), ("bet now", None)],
)
def test_moves_are_recognised_whatever_their_case_and_spacing(said: str, move: str | None) -> None:
    assert same_move(said, ("bet", "bid high")) == move


@given(st.text(max_size=20))
def test_the_unreadable_is_legal_nowhere(action: str) -> None:
    assert same_move(UNREADABLE, (action,)) is None


@pytest.mark.parametrize(
    ("reading", "reply", "move"),
    [
        (LastLine(), "I think\nso: \nbet\n\n", "bet"),
        (LastLine(), "<think>bet</think>pass", "pass"),
        (LastLine(), "<think>bet", None),
        (LastLine(), "", None),
        (WholeText(), " two\nlines ", "two\nlines"),
        (WholeText(), "<think>a</think>", None),
        (Tagged(), "<move>pass</move> or <move> bet </move>", "bet"),
        (Tagged(), "<think><move>pass</move></think> none", None),
        (Tagged("answer"), "<answer>bet</answer>", "bet"),
        (LastLine(), "I bet", "I bet"),
        (LastLine(loose=True), "I bet", "bet"),
        (LastLine(loose=True), "bet or pass", "bet or pass"),
        (WholeText(loose=True), "I will bid high now", "bid high"),
        (Numbered(), "<answer>2</answer>", "bet"),
        (Numbered("move"), "so <move> 4 </move>", "bid high"),
        (Numbered(), "<answer>0</answer>", None),
        (Numbered(), "<answer>5</answer>", None),
        (Numbered(), "<answer>bet</answer>", None),
        (Numbered(), "2", None),
    ],
)
def test_replies_are_read(reading: LastLine, reply: str, move: str | None) -> None:
    assert reading(reply, ("pass", "bet", "bid", "bid high")) == move


@pytest.mark.parametrize("reading", [LastLine(), WholeText(), Tagged(), Tagged("answer"), Numbered()])
def test_what_is_written_is_read_again(reading: LastLine) -> None:
    moves = ("x(1,1)", "x(0,1)")
    assert reading(reading.written("x(0,1)", moves), moves) == "x(0,1)"


def test_numbers_say_nothing_where_any_text_is_a_move() -> None:
    assert Numbered()("<answer>1</answer>", None) is None


def test_a_tag_is_one_word() -> None:
    with pytest.raises(ValueError, match="one word"):
        Tagged("a b")


# ---------------------------------------------------------------- illegal moves


def test_an_illegal_move_forfeits_at_once() -> None:
    environment = players.started(players.Counting(agents=("a", "b", "c")), 0)
    assert environment.act({"a": "jump"}) == {"a": -1.0, "b": 0.5, "c": 0.5}
    assert environment.over
    assert environment.acting == ()
    assert environment.illegal == {"a": 1}


def test_forgiven_moves_may_be_tried_again_and_cost_a_penalty() -> None:
    rule = IllegalMoves(tries=2, penalty=0.25, forfeit=-5.0)
    environment = players.started(players.Counting(rule=rule), 0)
    assert environment.act({"a": "jump"}) == {"a": -0.25, "b": 0.0}
    assert environment.acting == ("a",)
    assert environment.observe("a").told(remembering=True).startswith("That was not a legal move. Try again.\nLegal")
    assert environment.act({"a": UNREADABLE}) == {"a": -0.25, "b": 0.0}
    assert environment.act({"a": "up"}) == {"a": 1.0, "b": -1.0}
    environment.act({"b": "up"})
    for _ in range(2):  # the count begins anew
        environment.act({"a": "jump"})
    assert environment.act({"a": "jump"}) == {"a": -5.0, "b": 5.0}
    assert environment.illegal == {"a": 5}


def test_when_several_move_only_those_in_error_are_asked_again() -> None:
    environment = players.started(players.Counting(together=True, rule=IllegalMoves(tries=1)), 0)
    assert environment.act({"a": "up", "b": "jump"}) == {"a": 0.0, "b": 0.0}
    assert environment.acting == ("b",)
    assert environment.observe("a").actions == ()
    assert environment.act({"b": "end"}) == {"a": 1.0, "b": -1.0}


def test_all_who_forfeit_together_in_a_zero_sum_game_earn_nothing() -> None:
    environment = players.started(players.Counting(together=True), 0)
    assert environment.act({"a": "jump", "b": "jump"}) == {"a": 0.0, "b": 0.0}
    assert environment.over


@pytest.mark.parametrize("moves", [{}, {"b": "up"}, {"a": "up", "b": "up"}])
def test_only_those_who_act_may_move(moves: dict[str, str]) -> None:
    environment = players.started(players.Counting(), 0)
    with pytest.raises(HocketError, match="waits for the moves of a, not of"):
        environment.act(moves)


def test_an_environment_without_copies_says_so() -> None:
    class Plain(Environment):
        agents = ("a",)
        acting = ("a",)

        def reset(self, key: Key) -> None: ...

        def observe(self, agent: str) -> Observation:
            return Observation("")

        def act(self, moves: dict[str, str]) -> dict[str, float]:
            return {}

    with pytest.raises(HocketError, match="Plain cannot be copied"):
        Plain().clone()


def test_rules_of_illegal_moves_are_checked() -> None:
    with pytest.raises(ValueError, match="neither may be negative"):
        IllegalMoves(tries=-1)
