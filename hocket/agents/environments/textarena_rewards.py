"""What TextArena's games pay where that is not what their rules say, found by reading the rewards of 0.7.

A game whose rewards cannot be trusted is refused (`FAULTS`). Where only some endings are paid wrongly, and the state of
the game says what is due, that is paid (`DUE`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from statistics import fmean
from typing import Any

FAULTS = {
    "Bandit": "pays the regret of the last choice, the most for the worst button and nothing for the best",
    "CharacterConclave": "breaks on every message",
    "Checkers": "breaks when a player has no move left",
    "Cryptarithm": "pays for letters that have a digit, whether right or wrong",
    "FifteenPuzzle": "breaks when it is solved",
    "MarketEntryGame": "never returns once all players are out",
    "PublicGoodsGame": "never returns once all players are out",
    "Set": "pays for one card named three times",
    "Tak": "breaks when a road is complete",
}
"""Games that cannot be played, or that pay for something else than what is asked; they are refused."""

MOST = {"Briscola": 2, "Golf": 2}
"""How many may play where a game for more breaks at its end."""

Rewards = dict[int, float]
Due = Callable[[Any, Rewards, bool], Rewards]
"""What is due: of the game, what it paid, and whether its last move was one too many that was not allowed."""


def _blackjack(game: Any, paid: Rewards, illegal: bool) -> Rewards:
    """The share of hands won. An illegal move ends the game with draws counted by half, so that it can pay more."""
    return {0: game.state.game_state["results_summary"]["win"] / game.num_hands}


def _even(game: Any, paid: Rewards, illegal: bool, scores: Mapping[int, float]) -> Rewards:
    """Nothing for either of two with the same score, of which the game makes one the winner."""
    return dict.fromkeys(paid, 0.0) if not illegal and len(set(scores.values())) == 1 else paid


def _briscola(game: Any, paid: Rewards, illegal: bool) -> Rewards:
    return _even(game, paid, illegal, game.state.game_state["points_won"])


def _golf(game: Any, paid: Rewards, illegal: bool) -> Rewards:
    players = game.state.game_state["players"]
    return _even(game, paid, illegal, {number: player["score"] for number, player in players.items()})


def _poker(game: Any, paid: Rewards, illegal: bool) -> Rewards:
    """Who is left with as many chips has the same, the mean of their places; the game ranks them by their numbers."""
    chips = game.state.game_state["player_chips"]
    left = sorted((seat for seat in paid if seat not in game.state.elimination_order), key=lambda seat: chips[seat])
    due = dict(paid)
    for _, tied in groupby(left, key=lambda seat: chips[seat]):
        same = list(tied)
        due |= dict.fromkeys(same, fmean(paid[seat] for seat in same))
    return due


def _stuck(game: Any, paid: Rewards, free: bool) -> Rewards:
    """A draw where nobody could move any more, which these games do not notice: any move loses."""
    return paid if free else dict.fromkeys(paid, 0.0)


def _quantum(game: Any, paid: Rewards, illegal: bool) -> Rewards:
    cells = [cell for row in game.state.game_state["board"] for cell in row]
    return _stuck(game, paid, not illegal or cells.count("") > 1)


def _ultimate(game: Any, paid: Rewards, illegal: bool) -> Rewards:
    cells = [cell for board in game.state.game_state["board"] for row in board for cell in row]
    return _stuck(game, paid, not illegal or " " in cells)


DUE: Mapping[str, Due] = {
    "Blackjack": _blackjack,
    "Briscola": _briscola,
    "Golf": _golf,
    "Poker": _poker,
    "QuantumTicTacToe": _quantum,
    "UltimateTicTacToe": _ultimate,
}
"""What some games should pay at their end, by the game's name up to its version."""


def due(name: str, game: Any, paid: Rewards, illegal: bool) -> Rewards:
    """The rewards of a game that has ended.

    Args:
        name: up to its version. game: as TextArena made it. paid: what it paid, by the numbers of its players.
        illegal: whether a move that was not allowed ended it.
    """
    while hasattr(game, "env"):
        game = game.env
    return DUE[name](game, paid, illegal) if name in DUE else paid
