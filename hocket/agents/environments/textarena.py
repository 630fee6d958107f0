"""TextArena's games: two or more players, or one, who talk to a game in free text."""

from __future__ import annotations

import copy
import io
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from hocket.agents.environments.protocol import Environment, Observation
from hocket.agents.environments.textarena_rewards import FAULTS, MOST, due
from hocket.core.errors import ConfigurationError, HocketError, nearest
from hocket.core.keys import Key
from hocket.types import Scenario

_WORDS, _JURY, _MASTER = "word lists of nltk", "a jury of models behind an endpoint", "a game master behind an endpoint"

NEEDS = {
    "Codenames": _WORDS,
    "Debate": _JURY,
    "DontSayIt": _WORDS,
    "GuessWho": _MASTER,
    "Hangman": _WORDS,
    "LetterAuction": _WORDS,
    "ScenarioPlanning": _JURY,
    "SpellingBee": _WORDS,
    "TwentyQuestions": _MASTER,
    "WordChains": _WORDS,
    "WordLadder": _WORDS,
    "WordSearch": _WORDS,
    "Wordle": _WORDS,
}
"""What some games fetch or call when they are made, by the game's name up to its version."""

FEWEST = {"QuantumTicTacToe": 2, "SpiteAndMalice": 2}
"""How many must play where the game itself does not check it."""


@dataclass(frozen=True)
class TextArena:
    """The TextArena game `game`, such as `KuhnPoker-v0`, as a world. A move is whatever text the player says.

    The game itself reads moves (most want `[word]` in brackets, which its rules explain), decides what an illegal move
    costs (most forgive one and then end the game) and pays at the end. What it pays wrongly is put right, or the game
    refused (`hocket.agents.environments.textarena_rewards`).

    Attributes:
        game: its name with version, and variant if any. players: how many play; None is the fewest that can.
        settings: keyword arguments of the game.

    Raises:
        ConfigurationError: without textarena, for an unknown game or number of players, or a game whose data are not
            here.
    """

    game: str
    players: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_agents", self._seats())

    @property
    def name(self) -> str:
        return f"textarena:{self.game}"

    @property
    def agents(self) -> tuple[str, ...]:
        agents: tuple[str, ...] = self.__dict__["_agents"]
        return agents

    @property
    def base(self) -> str:
        """The game's name up to its version."""
        return self.game.partition("-v")[0]

    def make(self, scenario: Scenario) -> ArenaEnvironment:
        return ArenaEnvironment(self)

    def _seats(self) -> tuple[str, ...]:
        """The seats, found by starting the game once."""
        base = self.base
        if base in FAULTS:
            raise ConfigurationError(f"{self.name} {FAULTS[base]}, a fault of the game; choose another")
        if self.players is not None and self.players > MOST.get(base, self.players):
            raise ConfigurationError(f"{self.name} breaks at its end with more than {MOST[base]} players; take fewer")
        counts = range(FEWEST.get(base, 1), 16) if self.players is None else (self.players,)
        reason = ""
        for count in counts:
            try:
                with GlobalGenerators.of(Key.of(0)).own():
                    self.new().reset(num_players=count, seed=0)
            except ConfigurationError:
                raise
            except Exception as error:  # games refuse a number of players by whatever error comes first
                reason = reason or _sentence(error)
                continue
            return tuple(f"player_{number}" for number in range(count))
        if self.players is not None:
            raise ConfigurationError(f"{self.name} cannot be played by {self.players}: {reason}")
        raise ConfigurationError(f"{self.name} cannot be started here: {reason}")

    def new(self) -> Any:
        """A new game of TextArena."""
        textarena = _textarena()
        registry = textarena.envs.registration.ENV_REGISTRY
        if self.game not in registry:
            raise ConfigurationError(f"textarena has no game {self.game!r}{nearest(self.game, registry)}")
        try:
            return textarena.make(self.game, **self.settings)
        except Exception as error:
            needs = NEEDS.get(self.base)
            if needs is not None:
                raise ConfigurationError(
                    f"{self.name} needs {needs}, not to be had here; choose another game"
                ) from None
            if isinstance(error, SyntaxError):
                raise ConfigurationError(f"{self.name} is written for a newer Python than this one") from None
            raise ConfigurationError(f"{self.name} cannot be made: {_sentence(error)}") from None


@dataclass
class GlobalGenerators:
    """Python's and NumPy's global generators as one game should find them, since TextArena draws from these."""

    python: Any
    numpy: Any

    @staticmethod
    def of(key: Key) -> GlobalGenerators:
        """As if seeded with a key."""
        legacy = np.random.RandomState(key.word & 0xFFFFFFFF)
        return GlobalGenerators(random.Random(key.value).getstate(), legacy.get_state())

    @contextmanager
    def own(self) -> Iterator[None]:
        """Lets the game draw; afterwards the generators are as they were, and this remembers how far the game came.

        What a game prints is dropped: standard output belongs to the command line.
        """
        # NumPy's global generator has no other name than this.
        legacy = np.random.mtrand._rand
        outside = (random.getstate(), legacy.get_state())
        random.setstate(self.python)
        legacy.set_state(self.numpy)
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                yield
        finally:
            self.python, self.numpy = random.getstate(), legacy.get_state()
            random.setstate(outside[0])
            legacy.set_state(outside[1])


class ArenaEnvironment(Environment):
    """One game of TextArena."""

    def __init__(self, world: TextArena) -> None:
        self.world = world
        self.agents = world.agents
        self._chance = GlobalGenerators.of(Key.of(0))
        self._game: Any = None
        self._done = True
        self._text: dict[str, str] = {}
        self._news: dict[str, str | None] = {}
        self._moved: set[str] = set()
        self._illegal: Counter[str] = Counter()

    def reset(self, key: Key) -> None:
        self._chance = GlobalGenerators.of(key.derive("textarena"))
        self._text, self._news, self._moved, self._illegal = {}, {}, set(), Counter()
        with self._chance.own():
            self._game = self.world.new()
            self._game.reset(num_players=len(self.agents), seed=key.word & 0x7FFFFFFF)
            self._done = False
            self._look()

    @property
    def acting(self) -> tuple[str, ...]:
        return () if self._done else (self.agents[self._state.current_player_id],)

    @property
    def illegal(self) -> Mapping[str, int]:
        return dict(self._illegal)

    def observe(self, agent: str) -> Observation:
        text = self._text.get(agent, "")
        news = self._news.get(agent)
        if agent not in self.acting:
            return Observation(text, (), None, news)
        return Observation(text, None, f"{agent}: {text}", news)

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        ((agent, move),) = moves.items()
        player, wrong = self._state.current_player_id, self._errors
        with self._chance.own():
            try:
                self._done, _ = self._game.step(action=move)
            except Exception as error:
                raise HocketError(f"{self.world.name} broke on the move {move[:80]!r}: {_sentence(error)}") from error
            self._moved.add(agent)
            if self._done:
                return self._final(player, agent)
            if self._state.current_player_id == player and self._errors > wrong:
                self._illegal[agent] += 1
            self._look()
        return {}

    @property
    def _state(self) -> Any:
        return self._game.state

    @property
    def _errors(self) -> int:
        return int(getattr(self._state, "error_count", 0))

    def _final(self, player: int, agent: str) -> dict[str, float]:
        rewards, infos = self._game.close()
        illegal = bool((infos or {}).get(player, {}).get("invalid_move"))
        self._illegal[agent] += illegal
        paid = {number: _paid(reward) for number, reward in (rewards or {}).items()}
        return {
            self.agents[number]: reward for number, reward in due(self.world.base, self._game, paid, illegal).items()
        }

    def _look(self) -> None:
        """Fetches what the next player sees; the game hands out its news once only."""
        state = self._state
        agent = self.agents[state.current_player_id]
        fresh = list(state.observations[state.current_player_id])
        _, observation = self._game.get_observation()
        news = "\n".join(self._line(sender, message) for sender, message, _ in fresh)
        if isinstance(observation, str):
            self._text[agent] = observation.strip()
        else:  # a variant without wrappers tells its news alone
            self._text[agent] = f"{self._text.get(agent, '')}\n{news}".strip()
        self._news[agent] = news if agent in self._moved else None

    def _line(self, sender: int, message: str) -> str:
        if sender == -1:
            return message
        return f"[{(self._state.role_mapping or {}).get(sender, f'Player {sender}')}] {message}"

    def clone(self) -> Self:
        other = type(self)(self.world)
        other._game = copy.deepcopy(self._game)
        other._chance = GlobalGenerators(self._chance.python, self._chance.numpy)
        other._done = self._done
        other._text, other._news = dict(self._text), dict(self._news)
        other._moved, other._illegal = set(self._moved), Counter(self._illegal)
        return other


def _paid(reward: Any) -> float:
    """A reward as a number. Some games, at an illegal move, put the reason where the loss of 1 belongs."""
    if isinstance(reward, str):
        return -1.0
    return 0.0 if reward is None else float(reward)


def _sentence(error: BaseException) -> str:
    """An error in one line."""
    first_line = next((line.strip() for line in str(error).splitlines() if line.strip("* \t")), "")
    return f"{type(error).__name__}: {first_line}"[:200] if first_line else type(error).__name__


def _textarena() -> Any:
    try:
        import textarena
    except ImportError:
        raise ConfigurationError("TextArena's games need textarena: pip install 'hocket[games]'") from None
    return textarena
