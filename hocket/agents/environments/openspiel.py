"""OpenSpiel's games in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self

from hocket.agents.environments.legal import IllegalMoves, LegalMoves
from hocket.agents.environments.protocol import Observation
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.types import Scenario


class GameWords(Protocol):
    """How a game is put into words."""

    def rules(self, game: Any, player: int) -> str:
        """What a player must know besides the situation; shown once where the conversation is remembered."""
        ...

    def situation(self, state: Any, player: int) -> str:
        """All that the player knows now."""
        ...

    def move(self, state: Any, player: int, action: int) -> str:
        """A legal move."""
        ...


@dataclass(frozen=True)
class PlainWords:
    """Any game: its own description of what a player knows, and its own names of moves."""

    def rules(self, game: Any, player: int) -> str:
        players = game.num_players()
        seat = f"You are player {player} of 0 to {players - 1}." if players > 1 else ""
        return f"Game: {game.get_type().long_name}. {seat}".strip()

    def situation(self, state: Any, player: int) -> str:
        kind = state.get_game().get_type()
        is_perfect = str(kind.information).endswith(".PERFECT_INFORMATION")
        if kind.provides_observation_string and (is_perfect or not kind.provides_information_state_string):
            return str(state.observation_string(player)).rstrip()
        return str(state.information_state_string(player)).rstrip()

    def move(self, state: Any, player: int, action: int) -> str:
        return re.sub(r"^\[P\d+\]", "", str(state.action_to_string(player, action))).strip()


_KUHN_CARDS = ("jack", "queen", "king")


@dataclass(frozen=True)
class KuhnWords(PlainWords):
    """Kuhn poker. With more than three cards they are numbers, the highest the best."""

    def rules(self, game: Any, player: int) -> str:
        cards = game.num_players() + 1
        order = ", ".join(self._card(game, card) for card in range(cards))
        return f"Kuhn poker with the cards {order}, from lowest to highest. {_place(game, player)}"

    def situation(self, state: Any, player: int) -> str:
        known = state.information_state_string(player)
        digits = re.match(r"\d*", known)
        card = digits.group() if digits else ""
        moves = ["bet" if letter == "b" else "pass" for letter in known[len(card) :]]
        hand = f"Your card: {self._card(state.get_game(), int(card))}." if card else "No card yet."
        return f"{hand} Moves so far: {', '.join(moves) or 'none'}."

    def move(self, state: Any, player: int, action: int) -> str:
        return ("pass", "bet")[action]

    def _card(self, game: Any, card: int) -> str:
        return _KUHN_CARDS[card] if game.num_players() == 2 else str(card + 1)


@dataclass(frozen=True)
class LeducWords(PlainWords):
    """Leduc poker with the usual deck: two suits of as many ranks as there are players and one more."""

    def rules(self, game: Any, player: int) -> str:
        ranks = game.num_players() + 1
        order = ", ".join(str(rank) for rank in range(1, ranks + 1))
        return (
            f"Leduc poker with two cards of each of the ranks {order}. Two rounds of bets, a public card between them; "
            f"a pair with it wins, else the higher rank. {_place(game, player)}"
        )

    def situation(self, state: Any, player: int) -> str:
        known = dict(re.findall(r"\[(\w+): ?([^\]]*)\]", state.information_state_string(player)))
        rounds = [self._actions(known.get(f"Round{number}", "")) for number in (1, 2)]
        private, public = known.get("Private", ""), known.get("Public", "")
        lines = [f"Your card: {self._rank(private)}." if private not in ("", "-10000") else "No card yet."]
        if public not in ("", "-10000"):
            lines.append(f"Public card: {self._rank(public)}.")
        lines.append(f"Pot: {known.get('Pot', '?')}.")
        lines.append(f"First round: {rounds[0]}." + (f" Second round: {rounds[1]}." if "Public" in known else ""))
        return " ".join(lines)

    def move(self, state: Any, player: int, action: int) -> str:
        return ("fold", "call", "raise")[action]

    def _rank(self, card: str) -> str:
        return str(int(card) // 2 + 1)

    def _actions(self, actions: str) -> str:
        return ", ".join(("fold", "call", "raise")[int(number)] for number in actions.split()) or "nothing yet"


@dataclass(frozen=True)
class TicTacToeWords(PlainWords):
    """Tic-tac-toe: a move is the number of a free cell."""

    def rules(self, game: Any, player: int) -> str:
        return f"Tic-tac-toe: three in a row win. You are {'xo'[player]}."

    def situation(self, state: Any, player: int) -> str:
        cells = "".join(state.observation_string(player).split())
        shown = [str(place + 1) if cell == "." else cell for place, cell in enumerate(cells)]
        return "\n".join(" ".join(shown[start : start + 3]) for start in (0, 3, 6))

    def move(self, state: Any, player: int, action: int) -> str:
        return str(action + 1)


def _place(game: Any, player: int) -> str:
    if game.num_players() == 2:
        return f"You act {('first', 'second')[player]}."
    return f"You are player {player + 1} of {game.num_players()}."


OWN_WORDS: Mapping[str, GameWords] = {
    "kuhn_poker": KuhnWords(),
    "leduc_poker": LeducWords(),
    "tic_tac_toe": TicTacToeWords(),
}
"""Games whose own strings are no words."""


@dataclass(frozen=True)
class OpenSpiel:
    """The OpenSpiel game `game`, such as `kuhn_poker` or `goofspiel(num_cards=4)`, as a world.

    Chance is drawn from the episode's key: draw t of an episode depends on the key and t alone, so that what players
    do does not change what is dealt at a place.

    Attributes:
        game: its name, with parameters in parentheses if any. parameters: further parameters.
        words: how it is put into words; None takes the words of this module.
        rule: what illegal moves cost; a forfeit is the game's least utility unless the rule says otherwise.

    Raises:
        ConfigurationError: without open_spiel, for an unknown game, or one that cannot be played move by move.
    """

    game: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    words: GameWords | None = None
    rule: IllegalMoves = field(default_factory=IllegalMoves)

    def __post_init__(self) -> None:
        kind = self.loaded.get_type()
        if str(kind.dynamics).endswith("MEAN_FIELD"):
            raise ConfigurationError(f"{self.name} is a mean-field game, which has no players to be asked")
        if str(kind.chance_mode).endswith("SAMPLED_STOCHASTIC"):
            raise ConfigurationError(
                f"{self.name} draws chance from a generator of its own, so that episodes could not be repeated; "
                "choose a game with explicit chance"
            )

    @property
    def name(self) -> str:
        return f"openspiel:{self.game}"

    @cached_property
    def loaded(self) -> Any:
        """The `pyspiel.Game`."""
        pyspiel = _pyspiel()
        short = self.game.partition("(")[0]
        # Asked first: pyspiel prints all of its games when it fails.
        if short not in pyspiel.registered_names():
            raise ConfigurationError(f"openspiel has no game {short!r}{nearest(short, pyspiel.registered_names())}")
        try:
            if not self.parameters:
                return pyspiel.load_game(self.game)
            return pyspiel.load_game(self.game, dict(self.parameters))
        except Exception as error:  # pyspiel.SpielError, which some builds do not export
            reason = str(error).strip().splitlines()
            raise ConfigurationError(f"{self.name}: {reason[0] if reason else 'it cannot be loaded'}") from None

    @cached_property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"player_{number}" for number in range(self.loaded.num_players()))

    @property
    def zero_sum(self) -> bool:
        """Whether utilities sum to zero."""
        return str(self.loaded.get_type().utility).endswith("ZERO_SUM")

    @property
    def cooperative(self) -> bool:
        """Whether all seats earn the same."""
        return str(self.loaded.get_type().utility).endswith("IDENTICAL")

    @cached_property
    def wording(self) -> GameWords:
        """How it is put into words."""
        return self.words or OWN_WORDS.get(self.loaded.get_type().short_name, PlainWords())

    def make(self, scenario: Scenario) -> SpielEnvironment:
        return SpielEnvironment(self)


def dealt(state: Any, key: Key) -> None:
    """Lets chance move until a player does, or the game ends: its draw at a place depends on key and place alone."""
    while state.is_chance_node():
        outcomes = state.chance_outcomes()
        place = len(state.full_history())
        left = float(key.derive(place).numpy().random()) * sum(chance for _, chance in outcomes)
        chosen = outcomes[-1][0]
        for action, chance in outcomes:
            left -= chance
            if left < 0:
                chosen = action
                break
        state.apply_action(chosen)


class SpielEnvironment(LegalMoves):
    """One episode of an OpenSpiel game. `state` is the `pyspiel.State`."""

    def __init__(self, world: OpenSpiel) -> None:
        super().__init__(world.agents, world.rule)
        self.world = world
        self.zero_sum = world.zero_sum
        self.worst = float(world.loaded.min_utility())
        self.state = world.loaded.new_initial_state()
        self._key = Key.of(0)
        self._moved: set[str] = set()

    @classmethod
    def placed(cls, world: OpenSpiel, state: Any, moved: Collection[str] = ()) -> Self:
        """An environment at a given state of the game; `moved` are the seats that have moved before."""
        environment = cls(world)
        environment.state, environment._moved = state.clone(), set(moved)
        return environment

    def _begin(self, key: Key) -> None:
        self.state = self.world.loaded.new_initial_state()
        self._key = key.derive("chance")
        self._moved = set()
        self._draw()

    def _draw(self) -> None:
        dealt(self.state, self._key)

    def _movers(self) -> tuple[str, ...]:
        if self.state.is_terminal():
            return ()
        if not self.state.is_simultaneous_node():
            return (self.agents[self.state.current_player()],)
        return tuple(agent for player, agent in enumerate(self.agents) if self.state.legal_actions(player))

    def _moves(self, agent: str) -> Mapping[str, int]:
        player = self.agents.index(agent)
        moves: dict[str, int] = {}
        for action in self.state.legal_actions(player):
            word = self.world.wording.move(self.state, player, action)
            moves[word if word not in moves else f"{word} ({action})"] = action
        return moves

    def _seen(self, agent: str) -> Observation:
        player = self.agents.index(agent)
        words = self.world.wording
        situation = words.situation(self.state, player)
        text = f"{words.rules(self.world.loaded, player)}\n{situation}".strip()
        news = situation if agent in self._moved else None
        return Observation(text, state=f"{agent}: {self._known(player)}", news=news)

    def _known(self, player: int) -> str:
        kind = self.world.loaded.get_type()
        if kind.provides_information_state_string:
            return str(self.state.information_state_string(player))
        return str(self.state.observation_string(player)) if kind.provides_observation_string else str(self.state)

    def _make(self, moves: Mapping[str, int]) -> Mapping[str, float]:
        before = self.state.returns()
        self._moved.update(moves)
        if self.state.is_simultaneous_node():
            # Who has nothing to choose has no legal action, and its place takes any number.
            self.state.apply_actions([moves.get(agent, 0) for agent in self.agents])
        else:
            (action,) = moves.values()
            self.state.apply_action(action)
        self._draw()
        after = self.state.returns()
        return {agent: float(after[n] - before[n]) for n, agent in enumerate(self.agents)}

    def clone(self) -> Self:
        other = type(self)(self.world)
        other.state = self.state.clone()
        other._key, other._moved = self._key, set(self._moved)
        other._copy_record(self)
        return other


def _pyspiel() -> Any:
    try:
        import pyspiel
    except ImportError:
        raise ConfigurationError("OpenSpiel's games need open_spiel: pip install 'hocket[games]'") from None
    return pyspiel
