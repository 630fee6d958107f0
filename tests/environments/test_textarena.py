"""TextArena's games: random play to the end, equal episodes for equal keys, copies, faults in words."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import players
import pytest

pytest.importorskip("textarena")

import textarena

from hocket.agents.environments.protocol import Environment, Observation
from hocket.agents.environments.textarena import TextArena
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.testing import rehearse
from hocket.types import Scenario

MOVES: dict[str, Sequence[str]] = {
    "KuhnPoker-v0": ("[check]", "[bet]", "[call]", "[fold]"),
    "TicTacToe-v0": [f"[{cell}]" for cell in range(9)],
    "ConnectFour-v0": [f"[col {column}]" for column in range(7)],
    "Nim-v0": [f"[{pile} {take}]" for pile in range(3) for take in (1, 2, 3)],
    "IteratedRockPaperScissors-v0": ("[rock]", "[paper]", "[scissors]"),
    "IteratedPrisonersDilemma-v0": ("[cooperate]", "[defect]"),
    "IteratedMatchingPennies-v0": ("[heads]", "[tails]"),
    "PigDice-v0": ("[roll]", "[hold]"),
    "Snake-v0": ("[up]", "[down]", "[left]", "[right]"),
    "Surround-v0": ("[up]", "[down]", "[left]", "[right]"),
    "ThreePlayerTicTacToe-v0": [f"[{cell}]" for cell in range(25)],
    "ThreePlayerIPD-v0": ("I shall cooperate. [1 cooperate] [2 defect] [0 defect]", "hello"),
    "GuessTheNumber-v0": [f"[{number}]" for number in range(1, 21)],
    "FrozenLake-v0": ("[up]", "[down]", "[left]", "[right]"),
    "TowerOfHanoi-v0": [f"[{a} {b}]" for a in "ABC" for b in "ABC" if a != b],
    "SimpleNegotiation-v0": ("[Accept]", "[Deny]", "Nothing for you.", "[Offer: 1 Wood -> 1 Sheep]"),
}


def mover(game: str, seed: int) -> players.Mover:
    count = 0

    def move(environment: Environment, agent: str, seen: Observation) -> str:
        nonlocal count
        count += 1
        choice = int(Key.of(seed).derive(game, count).numpy().integers(len(MOVES[game])))
        return MOVES[game][choice]

    return move


@pytest.mark.global_rng
@pytest.mark.parametrize("game", MOVES)
def test_random_play_ends_and_depends_on_the_key_alone(game: str) -> None:
    world = TextArena(game)
    logs = []
    for seed in range(4):
        environment = players.started(world, seed)
        first = environment.observe(environment.acting[0])
        assert first.text
        assert (first.actions, first.news) == (None, None)
        log, returns = players.episode(environment, mover(game, seed), 400)
        random.seed(seed)  # what others draw is nothing to the game
        again, _ = players.episode(players.started(world, seed), mover(game, seed), 400)
        assert log == again
        assert environment.over
        assert set(returns) == set(world.agents)
        logs.append(log)
    assert all(logs[0] != log for log in logs[1:])


@pytest.mark.parametrize("game", ["KuhnPoker-v0", "Snake-v0", "TicTacToe-v0", "ThreePlayerTicTacToe-v0", "PigDice-v0"])
@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_copy_goes_on_like_the_original_and_neither_moves_the_other(game: str, length: int) -> None:
    environment = players.started(TextArena(game), 2)
    players.episode(environment, mover(game, 2), length)
    copy = environment.clone()
    before = [environment.observe(agent) for agent in environment.agents]
    gone, _ = players.episode(copy, mover(game, 3), 400)
    assert [environment.observe(agent) for agent in environment.agents] == before
    went, _ = players.episode(environment, mover(game, 3), 400)
    assert gone == went


def test_the_global_generators_stay_where_they_were() -> None:
    """The fixture of all tests compares them; here a game draws at its start and at every move."""
    environment = players.started(TextArena("PigDice-v0"), 0)
    players.episode(environment, mover("PigDice-v0", 0), 400)


def test_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    environment = players.started(TextArena("LogicPuzzle-v0"), 0)
    environment.act({"player_0": "[x]"})
    assert capsys.readouterr().out == ""


def test_news_are_what_came_since_and_illegal_moves_are_counted() -> None:
    environment = players.started(TextArena("TicTacToe-v0"), 0)
    (first,) = environment.acting
    environment.act({first: "[4]"})
    (second,) = environment.acting
    assert second != first
    environment.act({second: "[4]"})
    assert environment.acting == (second,)
    assert environment.illegal == {second: 1}
    news = environment.observe(second).news
    assert news is not None
    assert "invalid move" in news
    assert "You are Player" not in news
    earned = environment.act({second: ""})
    assert earned == {first: 1.0, second: -1.0}
    assert environment.illegal == {second: 2}
    assert environment.observe(first).actions == ()


def test_the_text_player_plays_it() -> None:
    world = TextArena("KuhnPoker-v0")
    (found,) = rehearse(PlayEnvironment(world), Scenario("s", seed=1), lambda request: "<think>hm</think>[check]")
    assert found.failure is None
    assert set(found.info["returns"].values()) == {1.0, -1.0}
    assert {turn.agent for turn in found.turns} == set(world.agents)


def test_the_number_of_players_is_the_fewest_or_what_is_asked() -> None:
    assert TextArena("TicTacToe-v0").agents == ("player_0", "player_1")
    assert len(TextArena("LiarsDice-v0", players=4).agents) == 4
    assert len(TextArena("QuantumTicTacToe-v0").agents) == 2
    with pytest.raises(ConfigurationError, match="TicTacToe-v0 cannot be played by 3"):
        TextArena("TicTacToe-v0", players=3)


@pytest.mark.parametrize(
    ("game", "said"),
    [
        ("TicTacTo-v0", "did you mean 'TicTacToe-v0'"),
        ("Debate-v0", "needs a jury of models behind an endpoint"),
        ("PublicGoodsGame-v0", "a fault of the game"),
        ("Bandit-v0", "pays the regret of the last choice"),
        ("Bandit-v0-hard", "pays the regret of the last choice"),
        ("Cryptarithm-v0-train", "pays for letters that have a digit"),
        ("FifteenPuzzle-v0", "breaks when it is solved"),
        ("Set-v0", "pays for one card named three times"),
        ("Tak-v0", "breaks when a road is complete"),
        ("Checkers-v0", "breaks when a player has no move left"),
    ],
)
def test_games_that_cannot_be_played_are_refused_in_a_sentence(game: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        TextArena(game)


@pytest.mark.parametrize("game", ["Briscola-v0", "Golf-v0"])
def test_card_games_for_more_than_two_are_refused(game: str) -> None:
    assert len(TextArena(game).agents) == 2
    with pytest.raises(ConfigurationError, match="breaks at its end with more than 2 players"):
        TextArena(game, players=3)


# ---------------------------------------------------------------- what is paid


def raw(name: str) -> Any:
    """A game as TextArena itself has it."""
    game = textarena.make(name)
    game.reset(num_players=1 if name in ONE else 2, seed=1)
    return game


ONE = ("Bandit-v0", "Set-v0", "Cryptarithm-v0", "FifteenPuzzle-v0")


def fault_of_bandit() -> bool:
    paid = []
    for which in (max, min):
        game = raw("Bandit-v0")
        chances = game.state.game_state["ground_truth"]
        while not game.step(f"[{which(chances, key=chances.get)}]")[0]:
            pass
        paid.append(game.close()[0][0])
    return paid[0] < paid[1]


def fault_of_set() -> bool:
    game = raw("Set-v0")
    while not game.step("[1, 1, 1]")[0]:
        pass
    return bool(game.close()[0][0] > 0)


def fault_of_cryptarithm() -> bool:
    """SEND + MORE = MONEY has S = 9 and M = 1; these letters are all wrong."""
    game = raw("Cryptarithm-v0")
    for letter, digit in zip("SENDMOR", "1265874", strict=True):
        game.step(f"[{letter} {digit}]")
    while not game.step("[S 1]")[0]:
        pass
    return bool(game.close()[0][0] > 0.5)


def fault_of_fifteen() -> bool:
    game = raw("FifteenPuzzle-v0")
    board = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, None, 15]]
    base = game
    while hasattr(base, "env"):
        base = base.env
    base.board = board
    try:
        game.step("[left]")
    except AttributeError:
        return True
    return False


def fault_of_tak() -> bool:
    game = raw("Tak-v0")
    base = game
    while hasattr(base, "env"):
        base = base.env
    base._check_win = lambda player: True
    try:
        game.step("[place () {(0,0):[F0]}]")
    except TypeError:
        return True
    return False


@pytest.mark.global_rng
@pytest.mark.parametrize("shows", [fault_of_bandit, fault_of_set, fault_of_cryptarithm, fault_of_fifteen, fault_of_tak])
def test_what_is_refused_has_the_fault_that_it_is_refused_for(shows: Callable[[], bool]) -> None:
    assert shows()


def inside(environment: Environment) -> Any:
    """The game itself."""
    game = environment._game  # type: ignore[attr-defined]
    while hasattr(game, "env"):
        game = game.env
    return game


@pytest.mark.parametrize("more", [0, 50, -50])
def test_equal_stacks_of_poker_are_paid_equally(more: int) -> None:
    """Whoever is asked first folds, so that ten hands take as much from a stack whatever it was."""

    def played(start: tuple[int, int]) -> tuple[list[int], dict[str, float]]:
        environment = players.started(TextArena("Poker-v0"), 1)
        chips = inside(environment).state.game_state["player_chips"]
        chips[0], chips[1] = chips[0] + start[0], chips[1] + start[1]
        _, returns = players.episode(environment, lambda world, agent, seen: "[fold]", 100)
        assert environment.over
        return [chips[0], chips[1]], returns

    ends, _ = played((0, 0))
    stacks, returns = played((1000 - ends[0] + more, 1000 - ends[1]))
    assert stacks == [1000 + more, 1000]
    assert returns == {"player_0": float(np.sign(more)), "player_1": -float(np.sign(more))}


@pytest.mark.parametrize("more", [0, 7])
def test_even_scores_of_briscola_and_golf_are_draws(more: int) -> None:
    environment = players.started(TextArena("Briscola-v0"), 1)
    game = inside(environment)
    state = game.state.game_state
    state["deck"].clear()
    state["points_won"] = {0: 60 + more, 1: 60 - more}
    low = {**state["players"][0]["hand"][0], "points": 0}
    for one in state["players"].values():
        one["hand"] = [dict(low)]
    _, returns = players.episode(environment, lambda world, agent, seen: "[play 1]", 9)
    assert returns == ({"player_0": 1.0, "player_1": -1.0} if more else {"player_0": 0.0, "player_1": 0.0})

    environment = players.started(TextArena("Golf-v0"), 1)
    game = inside(environment)
    for number, one in game.state.game_state["players"].items():
        for place, card in enumerate(one["cards"]):
            card["card"] = {**card["card"], "value": place + 2 + more * number}
    game._end_game()
    paid = environment._final(0, "player_0")  # type: ignore[attr-defined]
    assert paid == ({"player_0": 1.0, "player_1": -1.0} if more else {"player_0": 0.0, "player_1": 0.0})


@pytest.mark.parametrize("game", ["UltimateTicTacToe-v0", "QuantumTicTacToe-v0"])
@pytest.mark.parametrize("free", [False, True])
def test_a_board_without_a_move_is_a_draw(game: str, free: bool) -> None:
    environment = players.started(TextArena(game), 1)
    state = inside(environment).state.game_state
    drawn = [["X", "O", "X"], ["X", "O", "O"], ["O", "X", "X"]]
    one = [list(row) for row in drawn]
    if game.startswith("Ultimate"):
        state["board"] = [[list(row) for row in drawn] for _ in range(9)]
        state["board"][0][0][0] = " " if free else "X"
    else:
        one[0][:2] = ["", ""] if free else ["", "O"]
        state["board"] = one
    _, returns = players.episode(environment, lambda world, agent, seen: "nothing", 9)
    assert sorted(returns.values()) == ([-1.0, 1.0] if free else [0.0, 0.0])


def test_an_illegal_move_of_blackjack_pays_what_was_won() -> None:
    found = set()
    for seed in range(40):
        environment = players.started(TextArena("Blackjack-v0"), seed)
        for _ in range(4):
            environment.act({"player_0": "[Stand]"})
        results = dict(inside(environment).state.game_state["results_summary"])
        environment.act({"player_0": "I leave"})
        paid = environment.act({"player_0": "I leave"})
        assert paid == {"player_0": pytest.approx(results["win"] / 5)}
        found.add(results["draw"] > 0)
    assert True in found
