"""TextArena's games: random play to the end, equal episodes for equal keys, copies, faults in words."""

from __future__ import annotations

import random
from collections.abc import Sequence

import players
import pytest

pytest.importorskip("textarena")

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.environments.protocol import Environment, Observation
from hocket.environments.textarena import TextArena
from hocket.testing import rehearse
from hocket.types import Scenario
from hocket.workflows.environment import PlayEnvironment

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
    ],
)
def test_games_that_cannot_be_played_are_refused_in_a_sentence(game: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        TextArena(game)
