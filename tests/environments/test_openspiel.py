"""OpenSpiel's games: the same episode for the same key, independent copies, sums of rewards, words."""

from __future__ import annotations

import players
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspiel")

from hocket.agents.environments.legal import IllegalMoves
from hocket.agents.environments.openspiel import OpenSpiel
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key

GAMES = {
    "kuhn_poker": True,
    "kuhn_poker(players=3)": True,
    "leduc_poker": True,
    "tic_tac_toe": True,
    "goofspiel(num_cards=4,imp_info=true,points_order=random)": True,
    "liars_dice": True,
    "matrix_rps": True,
    "oshi_zumo(coins=5,size=1,horizon=20)": True,
    "phantom_ttt": True,
    "pig(winscore=8)": True,
    "blotto(players=2,coins=4,fields=2)": True,
    "tiny_hanabi": False,
    "first_sealed_auction": False,
    "matching_pennies_3p": False,
    "bargaining": False,
    "catch": False,
    "coop_box_pushing(horizon=5)": False,
}
GAME = st.sampled_from(list(GAMES))
SEED = st.integers(0, 2**32)


@given(GAME, SEED)
@settings(max_examples=60, deadline=None)
def test_equal_keys_and_moves_give_equal_episodes_whose_zero_sums_are_zero(game: str, seed: int) -> None:
    world = OpenSpiel(game)
    first = players.started(world, seed)
    log, returns = players.episode(first, players.legal(Key.of(seed)))
    again, _ = players.episode(players.started(world, seed), players.legal(Key.of(seed)))
    assert log == again
    assert first.over
    assert list(returns.values()) == pytest.approx(first.state.returns())  # type: ignore[attr-defined]
    if GAMES[game]:
        assert world.zero_sum
        assert sum(returns.values()) == pytest.approx(0.0, abs=1e-9)


@given(GAME, SEED, st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_a_copy_goes_on_like_the_original_and_neither_moves_the_other(game: str, seed: int, length: int) -> None:
    world = OpenSpiel(game)
    environment = players.started(world, seed)
    players.episode(environment, players.legal(Key.of(seed)), length)
    copy = environment.clone()
    before = {agent: environment.observe(agent) for agent in environment.agents}
    gone, _ = players.episode(copy, players.legal(Key.of(seed + 1)))
    assert {agent: environment.observe(agent) for agent in environment.agents} == before
    went, _ = players.episode(environment, players.legal(Key.of(seed + 1)))
    assert gone == went
    assert copy.illegal == environment.illegal


@given(GAME, SEED)
@settings(max_examples=30, deadline=None)
def test_observing_changes_nothing_and_those_who_wait_have_no_moves(game: str, seed: int) -> None:
    environment = players.started(OpenSpiel(game), seed)
    for agent in environment.agents:
        seen = environment.observe(agent)
        assert environment.observe(agent) == seen
        assert bool(seen.actions) == (agent in environment.acting)
    waiting = [agent for agent in environment.agents if agent not in environment.acting]
    if waiting:
        with pytest.raises(HocketError, match="waits for the moves of"):
            environment.act({waiting[0]: "pass"})


@given(SEED)
@settings(max_examples=40, deadline=None)
def test_chance_depends_on_the_key_and_the_place_alone(seed: int) -> None:
    """The public card of Leduc poker is the same whatever was bet before it."""
    world = OpenSpiel("leduc_poker")
    cards = set()
    for bets in (["call", "call"], ["raise", "call"], ["call", "raise", "call"]):
        environment = players.started(world, seed)
        for bet in bets:
            (agent,) = environment.acting
            environment.act({agent: bet})
        cards.add((len(bets), environment.observe("player_0").text.split("Public card: ")[1][0]))
    assert len({card for length, card in cards if length == 2}) == 1


def test_kuhn_poker_deals_every_hand_equally_often() -> None:
    world = OpenSpiel("kuhn_poker")
    hands = [players.started(world, seed).state.information_state_string(0) for seed in range(600)]  # type: ignore[attr-defined]
    counts = [hands.count(card) for card in "012"]
    assert min(counts) > 150  # 200 expected, standard deviation 11.5


@given(GAME, SEED)
@settings(max_examples=40, deadline=None)
def test_an_illegal_move_ends_the_game_with_its_worst_and_keeps_the_sum(game: str, seed: int) -> None:
    world = OpenSpiel(game)
    environment = players.started(world, seed)
    acting = environment.acting
    earned = environment.act(dict.fromkeys(acting, "nonsense"))
    assert environment.over
    assert environment.illegal == dict.fromkeys(acting, 1)
    if GAMES[game]:
        assert sum(earned.values()) == pytest.approx(0.0)
    if len(acting) == 1:
        assert earned[acting[0]] == world.loaded.min_utility()


def test_kuhn_poker_in_words() -> None:
    environment = players.started(OpenSpiel("kuhn_poker"), 3)
    assert environment.observe("player_0").told() == (
        "Kuhn poker with the cards jack, queen, king, from lowest to highest. You act first.\n"
        "Your card: queen. Moves so far: none.\nLegal moves: pass, bet"
    )
    environment.act({"player_0": "pass"})
    environment.act({"player_1": "bet"})
    later = environment.observe("player_0")
    assert later.told(remembering=True) == "Your card: queen. Moves so far: pass, bet.\nLegal moves: pass, bet"
    assert later.state == "player_0: 1pb"
    environment.act({"player_0": "bet"})
    assert environment.observe("player_0").actions == ()


def test_leduc_poker_and_tic_tac_toe_in_words() -> None:
    leduc = players.started(OpenSpiel("leduc_poker"), 1)
    leduc.act({"player_0": "raise"})
    assert "First round: raise." in leduc.observe("player_1").text
    assert leduc.observe("player_1").actions == ("fold", "call", "raise")
    board = players.started(OpenSpiel("tic_tac_toe"), 0)
    board.act({"player_0": "5"})
    assert board.observe("player_1").told().endswith("1 2 3\n4 x 6\n7 8 9\nLegal moves: 1, 2, 3, 4, 6, 7, 8, 9")


def test_simultaneous_moves_are_made_together() -> None:
    environment = players.started(OpenSpiel("matrix_rps"), 0)
    assert environment.acting == ("player_0", "player_1")
    assert environment.act({"player_0": "rock", "player_1": "Paper"}) == {"player_0": -1.0, "player_1": 1.0}
    again = players.started(OpenSpiel("matrix_rps", rule=IllegalMoves(tries=1)), 0)
    again.act({"player_0": "rock", "player_1": "well"})
    assert again.acting == ("player_1",)
    assert again.act({"player_1": "scissors"}) == {"player_0": 1.0, "player_1": -1.0}


@pytest.mark.parametrize(
    ("game", "parameters", "said"),
    [
        ("kun_poker", {}, "did you mean 'kuhn_poker'"),
        ("kuhn_poker", {"colour": 3}, "colour"),
        ("negotiation", {}, "generator of its own"),
        ("mfg_garnet", {}, "mean-field"),
    ],
)
def test_games_that_cannot_be_played_are_refused(game: str, parameters: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        OpenSpiel(game, parameters)
