"""The game of 24 points: what moves do, what the solver finds, and what a scenario promises."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.gtr.world import PLAYER, Hand, Joined, Points24, read, solution
from hocket.tasks.lessons import lessons_of
from hocket.tasks.split import split_of
from hocket.types import Scenario


def makes(target: int, cards: tuple[int, ...]) -> bool:
    """By brute force over orders and operators, from left to right."""
    for order, operators in product(permutations(cards), product("+-*/", repeat=len(cards) - 1)):
        total: float = order[0]
        for operator, card in zip(operators, order[1:], strict=True):
            if operator == "/" and total % card:
                total = float("nan")
            total = {"+": total + card, "-": total - card, "*": total * card, "/": total / card}[operator]
        if total == target:
            return True
    return False


def test_the_solver_finds_a_way_exactly_where_there_is_one() -> None:
    for cards in combinations_with_replacement(range(1, 10), 3):
        way = solution(Joined(24, None, cards))
        assert (way is not None) is makes(24, cards)
        if way is not None:
            now: Joined | None = Joined(24, None, cards)
            for move in way:
                assert now is not None
                now = now.after(move)
            assert now == Joined(24, 24, ())


def hand(*cards: int, penalty: float = -1.0) -> Hand:
    environment = Points24(cards=len(cards), penalty=penalty).make(Scenario("a", metadata={"hand": cards}))
    environment.reset(Key.of(0))
    return environment


def test_an_episode_earns_one_where_the_number_is_made() -> None:
    environment = hand(3, 8, 1)
    earned = [environment.act({PLAYER: move})[PLAYER] for move in ("8", "*3", "/1")]
    assert earned == [0.0, 0.0, 1.0]
    assert environment.over
    assert not environment.illegal[PLAYER]
    missed = hand(3, 8, 1)
    assert [missed.act({PLAYER: move})[PLAYER] for move in ("8", "*3", "+1")] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("move", ["", "*8", "7", "8 3", "8+", "eight"])
def test_an_illegal_move_ends_the_episode(move: str) -> None:
    environment = hand(3, 8, 1, penalty=-2.0)
    assert environment.act({PLAYER: move}) == {PLAYER: -2.0}
    assert environment.over
    assert environment.illegal == {PLAYER: 1}


def test_a_division_leaves_no_rest_and_no_card_is_used_twice() -> None:
    now = Joined(24, 8, (3, 2))
    assert now.after("/3") is None
    assert now.after("/2") == Joined(24, 4, (3,))
    assert now.after("*8") is None
    assert list(now.moves()) == ["+3", "-3", "*3", "+2", "-2", "*2", "/2"]


def test_what_is_told_can_be_read() -> None:
    for now in (Joined(24, None, (3, 8, 1)), Joined(24, -5, (1,)), Joined(10, 0, (2, 2))):
        assert read(f"Hello. {now.text} Go.") == now
    assert read("Make 24.") is None


def test_scenarios_can_be_won_and_splits_share_no_hand() -> None:
    task = tasks.find("points24?cards=3")
    for split in ("train", "eval"):
        for number in range(20):
            cards = tuple(task.scenario(split, number).metadata["hand"])
            assert solution(Joined(24, None, cards)) is not None
            assert split_of(" ".join(map(str, cards))) == split


def test_lessons_make_legal_moves_after_a_thought() -> None:
    task = tasks.find("points24?cards=3")
    lessons = lessons_of(task)
    assert lessons is not None
    for number in range(20):
        for lesson in lessons.play(task.scenario("train", number), np.random.default_rng(number)):
            now = read(str(lesson.prompt[0]["content"]))
            said = str(lesson.said[0]["content"])
            assert now is not None
            assert said.startswith("<think>")
            assert now.after(said.partition("<answer>")[2].removesuffix("</answer>")) is not None


def test_moves_follow_thoughts_as_often_as_is_said() -> None:
    shares = list[float]()
    for led in (1.0, 0.5, 0.0):
        lessons, followed = lessons_of(tasks.find(f"points24?cards=3&led={led}")), list[bool]()
        assert lessons is not None
        for number in range(60):
            for lesson in lessons.play(
                tasks.find("points24?cards=3").scenario("train", number), np.random.default_rng(0)
            ):
                thought, _, move = str(lesson.said[0]["content"]).partition("</think><answer>")
                now = read(str(lesson.prompt[0]["content"]))
                assert now is not None
                begun = "" if now.total is None else str(now.total)
                followed.append(thought.removeprefix("<think>").startswith(begun + move.removesuffix("</answer>")))
        shares.append(sum(followed) / len(followed))
    assert shares[0] == 1 > shares[1] > shares[2] > 0


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="led is a share"):
        tasks.find("points24?led=2")
    with pytest.raises(ConfigurationError, match="cards must lie in"):
        tasks.find("points24?cards=9")
    with pytest.raises(ConfigurationError, match="hardly ever"):
        tasks.find("points24?cards=2&target=999").scenario("train", 0)
    with pytest.raises(ConfigurationError, match="too few hands"):
        tasks.find("points24?cards=2&target=81").scenario("train" if split_of("9 9") == "eval" else "eval", 0)
