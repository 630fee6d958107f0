"""Games at a table for control policies: OpenSpiel's, and PettingZoo's that go turn by turn.

The contract is that of PyTAG's bridge to tabletop games (arXiv 2307.09905): reset, step, who moves now, which moves are
legal, and games of changing numbers of players. Seats in which nobody learns may be scripted: chance, or tree search.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.openspiel import OpenSpiel, dealt
from hocket.agents.environments.pettingzoo import Purse, maker, observed
from hocket.agents.environments.spaces import ranges_of
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Ranges, Seat

Sight = NDArray[np.float32]
CHANCE, SEARCH = "random", "mcts"


class Game(ABC):
    """One game after another. Players are numbered from 0; `count` of them play the one that goes on.

    `cut` says whether a limit ended it.
    """

    count: int
    cut = False

    @abstractmethod
    def begin(self, seed: int) -> None:
        """Deals anew."""

    @abstractmethod
    def movers(self) -> tuple[int, ...]:
        """Who moves now; nobody when the game is over."""

    @abstractmethod
    def legal(self, player: int) -> Sequence[int]:
        """The moves of a player who moves now."""

    @abstractmethod
    def sight(self, player: int) -> Sight:
        """What a player sees, flat."""

    @abstractmethod
    def play(self, moves: Mapping[int, int]) -> None:
        """Makes the moves of all who move now."""

    @abstractmethod
    def returns(self) -> Sequence[float]:
        """What each player has earned so far."""

    def close(self) -> None:
        """Lets go of what it holds."""
        return


class Script(Protocol):
    """Plays a seat in which nobody learns."""

    def move(self, game: Game, player: int) -> int: ...


class Anyhow:
    """Any legal move, each as likely."""

    def __init__(self, key: Key) -> None:
        self._rng = key.numpy()

    def move(self, game: Game, player: int) -> int:
        legal = game.legal(player)
        return int(legal[int(self._rng.integers(len(legal)))])


@dataclass(frozen=True, kw_only=True)
class Table(ABC):
    """A game with a seat for everybody, or for one who plays `against` others.

    Agents see the game's numbers for them, then, where more than one plays, their seat as a one-hot and, where numbers
    of players change, how many play as another. A game pays what it pays; who has no seat in a game ends at its first
    move without having decided anything. Against others there is one agent, `player`, whose seat is drawn for each
    episode, as is who sits in all the others.

    Attributes:
        against: who else plays: `random`, `mcts` (OpenSpiel's games), or several with + between; empty where all learn.
        searches: of a tree search, for each of its moves.
    """

    against: str = ""
    searches: int = 100

    kinds: ClassVar[tuple[str, ...]] = (CHANCE,)

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def everybody(self) -> tuple[str, ...]:
        """The seats of the largest game."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """How many may play."""
        return (len(self.everybody),)

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int, tuple[int, ...]]:
        """How many numbers the game shows, how many moves it has, and the shape of the grid, if any, that is shown."""

    @property
    def ranges(self) -> Ranges:
        """Of what the game shows."""
        return ()

    @abstractmethod
    def deal(self) -> Game:
        """A game of its own."""

    def script(self, kind: str, key: Key) -> Script:
        """Who plays a scripted seat."""
        return Anyhow(key)

    def check(self) -> None:
        """Refuses opponents that there are not."""
        wrong = next((kind for kind in self.against.split("+") if self.against and kind not in self.kinds), None)
        if wrong is not None:
            raise ConfigurationError(
                f"task {self.name}: against = {self.against!r}; choose {' or '.join(self.kinds)}, or several with +"
            )
        if self.searches < 1:
            raise ConfigurationError(f"task {self.name}: searches = {self.searches}; a move needs at least 1")

    @property
    def agents(self) -> tuple[str, ...]:
        return ("player",) if self.against else self.everybody

    @property
    def seats(self) -> tuple[Seat, ...]:
        shown, moves, shape = self.sizes
        told = len(self.everybody) * (len(self.everybody) > 1) + len(self.numbers) * (len(self.numbers) > 1)
        return (Seat(shown + told, moves, shape=shape, ranges=self.ranges),) * len(self.agents)

    @property
    def joint(self) -> int:
        return 0

    def open(self, width: int) -> JointEnvironment:
        return _Room(self, width)


class _Room(JointEnvironment):
    """Games side by side, one after the other; `games` are those that go on."""

    def __init__(self, table: Table, width: int) -> None:
        self.table, self.n = table, len(table.agents)
        self.games: list[Game | None] = [None] * width
        self._own = np.zeros(width, int)
        self._scripts: list[Script | None] = [None] * width
        seat = table.seats[0]
        self._seen = np.zeros((self.n, width, seat.observations), np.float32)
        self._legal = np.ones((self.n, width, seat.actions), bool)
        self._acting = np.zeros((width, self.n), bool)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        failed = {}
        for slot, seed in zip(slots, seeds, strict=True):
            try:
                self._begin(slot, seed)
            except Exception as error:
                failed[slot] = self._broken(slot, error)
        return failed

    def _begin(self, slot: int, seed: int) -> None:
        game = self.games[slot] or self.table.deal()
        self.games[slot] = game
        game.begin(seed)
        if self.table.against:
            key, kinds = Key.of(seed).derive("against"), self.table.against.split("+")
            rng = key.numpy()
            self._own[slot] = int(rng.integers(game.count))
            self._scripts[slot] = self.table.script(kinds[int(rng.integers(len(kinds)))], key.derive("script"))
            self._go_on(slot, game)
        self._note(slot, game)

    def _go_on(self, slot: int, game: Game) -> None:
        """Scripted seats move until the learner does."""
        script, own = self._scripts[slot], int(self._own[slot])
        assert script is not None
        while (movers := game.movers()) and own not in movers:
            game.play({player: script.move(game, player) for player in movers})

    def _player(self, slot: int, agent: int) -> int:
        """The seat of an agent in a copy's game."""
        return int(self._own[slot]) if self.table.against else agent

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        width, failed = len(live), dict[int, str]()
        rewards, ends = np.zeros((width, self.n)), np.zeros((2, width, self.n), bool)
        for slot in np.flatnonzero(live).tolist():
            game = self.games[slot]
            assert game is not None
            try:
                before = list(game.returns())
                self._move(slot, game, [int(one[slot]) for one in actions])
                after, over = game.returns(), not game.movers()
                self._note(slot, game)
            except ConfigurationError:
                raise
            except Exception as error:
                failed[slot] = self._broken(slot, error)
                continue
            for agent in range(self.n):
                player = self._player(slot, agent)
                if player < game.count:
                    rewards[slot, agent] = after[player] - before[player]
                    ends[int(game.cut), slot, agent] = over
                else:
                    ends[0, slot, agent] = True
        return Moved(rewards, ends[0], ends[1], failed)

    def _move(self, slot: int, game: Game, chosen: Sequence[int]) -> None:
        script, moves = self._scripts[slot], dict[int, int]()
        for player in game.movers():
            if script is None:
                moves[player] = chosen[player]
            else:
                moves[player] = chosen[0] if player == self._own[slot] else script.move(game, player)
        game.play(moves)
        if script is not None:
            self._go_on(slot, game)

    def _note(self, slot: int, game: Game) -> None:
        """What is seen, who moves and what is legal, after any move."""
        movers, everybody, numbers = game.movers(), len(self.table.everybody), self.table.numbers
        self._acting[slot] = False
        self._legal[:, slot] = True
        for agent in range(self.n):
            player = self._player(slot, agent)
            row = self._seen[agent, slot]
            row[:] = 0.0
            if player >= game.count:
                continue
            sight, shown = game.sight(player), self.table.sizes[0]
            row[: len(sight)] = sight
            if everybody > 1:
                row[shown + player] = 1.0
            if len(numbers) > 1:
                row[shown + everybody + numbers.index(game.count)] = 1.0
            if player in movers:
                self._acting[slot, agent] = True
                self._legal[agent, slot] = False
                self._legal[agent, slot, list(game.legal(player))] = True

    def seen(self) -> Sequence[NDArray[np.float32]]:
        return list(self._seen.copy())

    def allowed(self) -> Sequence[NDArray[np.bool_] | None]:
        return list(self._legal.copy())  # A step changes them, and who asked keeps what was legal before it.

    def acting(self) -> NDArray[np.bool_]:
        return self._acting.copy()

    def close(self) -> None:
        for slot in range(len(self.games)):
            self._forget(slot)

    def _broken(self, slot: int, error: Exception) -> str:
        self._forget(slot)
        return f"environment: {type(error).__name__}: {error}"

    def _forget(self, slot: int) -> None:
        game, self.games[slot] = self.games[slot], None
        if game is not None:
            game.close()


# ---------------------------------------------------------------- OpenSpiel


@dataclass(frozen=True)
class SpielTable(Table):
    """A game of OpenSpiel, such as `kuhn_poker`; what is shown is its tensor of an information state, or of an
    observation where nothing is hidden.

    Attributes:
        game: its name. parameters: of the game. players: numbers of players, of which every episode draws one; empty
            for the one number that the game has with its parameters.

    Raises:
        ConfigurationError: for a game that is unknown, shows no tensor or has no such number of players.
    """

    game: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    players: tuple[int, ...] = ()

    kinds: ClassVar[tuple[str, ...]] = (CHANCE, SEARCH)

    def __post_init__(self) -> None:
        _ = self.sizes  # Loads the games, so that mistakes show at once.
        self.check()
        if SEARCH in self.against.split("+") and "SEQUENTIAL" not in str(self.worlds[0].loaded.get_type().dynamics):
            raise ConfigurationError(f"task {self.name}: mcts searches games in which one moves after the other")

    @property
    def name(self) -> str:
        return f"openspiel:{self.game}"

    @cached_property
    def worlds(self) -> tuple[OpenSpiel, ...]:
        """The game with each number of players."""
        if not self.players:
            return (OpenSpiel(self.game, self.parameters),)
        return tuple(OpenSpiel(self.game, {**self.parameters, "players": count}) for count in self.players)

    @property
    def everybody(self) -> tuple[str, ...]:
        return self.worlds[-1].agents

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(len(world.agents) for world in self.worlds)

    @cached_property
    def sizes(self) -> tuple[int, int, tuple[int, ...]]:
        shapes = [tuple(_shape(world)) for world in self.worlds]
        moves = max(int(world.loaded.num_distinct_actions()) for world in self.worlds)
        grid = shapes[0] if len(shapes) == 1 and len(shapes[0]) in (2, 3) else ()
        return max(int(np.prod(shape)) for shape in shapes), moves, grid

    def deal(self) -> Game:
        return _Spiel(self)

    def script(self, kind: str, key: Key) -> Script:
        return Searching(self.searches, key) if kind == SEARCH else super().script(kind, key)


def _hidden(world: OpenSpiel) -> bool:
    return "IMPERFECT" in str(world.loaded.get_type().information)


def _shape(world: OpenSpiel) -> Sequence[int]:
    """Of the tensor that is shown."""
    kind = world.loaded.get_type()
    if _told(world):
        return list(world.loaded.information_state_tensor_shape())
    if kind.provides_observation_tensor:
        return list(world.loaded.observation_tensor_shape())
    raise ConfigurationError(f"task {world.name} shows no tensor, which a control network reads; play it in words")


def _told(world: OpenSpiel) -> bool:
    """Whether the tensor of the information state is shown: where something is hidden, all that was seen counts."""
    kind = world.loaded.get_type()
    wanted = _hidden(world) or not kind.provides_observation_tensor
    return bool(kind.provides_information_state_tensor and wanted)


class _Spiel(Game):
    """`state` is the `pyspiel.State`."""

    def __init__(self, table: SpielTable) -> None:
        self._table, self._told = table, [_told(world) for world in table.worlds]
        self._which, self.count = 0, table.numbers[0]
        self.state: Any = None
        self._key = Key.of(0)

    def begin(self, seed: int) -> None:
        key, worlds = Key.of(seed).derive("table"), self._table.worlds
        self._which = int(key.derive("players").numpy().integers(len(worlds)))
        self.count, self.state = self._table.numbers[self._which], worlds[self._which].loaded.new_initial_state()
        self._key = key.derive("chance")
        dealt(self.state, self._key)

    def movers(self) -> tuple[int, ...]:
        if self.state.is_terminal():
            return ()
        if not self.state.is_simultaneous_node():
            return (int(self.state.current_player()),)
        return tuple(player for player in range(self.count) if self.state.legal_actions(player))

    def legal(self, player: int) -> Sequence[int]:
        return [int(one) for one in self.state.legal_actions(player)]

    def sight(self, player: int) -> Sight:
        if self._told[self._which]:
            return np.asarray(self.state.information_state_tensor(player), np.float32)
        return np.asarray(self.state.observation_tensor(player), np.float32)

    def play(self, moves: Mapping[int, int]) -> None:
        if self.state.is_simultaneous_node():
            # Who has nothing to choose has no legal action, and its place takes any number.
            self.state.apply_actions([moves.get(player, 0) for player in range(self.count)])
        else:
            (action,) = moves.values()
            self.state.apply_action(action)
        dealt(self.state, self._key)

    def returns(self) -> Sequence[float]:
        return [float(one) for one in self.state.returns()]


class Searching:
    """OpenSpiel's tree search with rollouts by chance; where something is hidden, of what the mover knows (ISMCTS)."""

    def __init__(self, searches: int, key: Key) -> None:
        self._searches, self._seed = searches, key.word & 0x7FFFFFFF
        self._bot: Any = None

    def move(self, game: Game, player: int) -> int:
        assert isinstance(game, _Spiel)
        if self._bot is None:
            self._bot = self._made(game.state.get_game())
        return int(self._bot.step(game.state))

    def _made(self, game: Any) -> Any:
        import pyspiel

        evaluator = pyspiel.RandomRolloutEvaluator(1, self._seed)
        # UCT's constant is for returns in [0, 1].
        width = float(np.sqrt(2) * (game.max_utility() - game.min_utility()) / 2)
        if "IMPERFECT" in str(game.get_type().information):
            most = pyspiel.ISMCTSFinalPolicyType.MAX_VISIT_COUNT
            return pyspiel.ISMCTSBot(self._seed, evaluator, width, self._searches, -1, most)
        return pyspiel.MCTSBot(game, evaluator, width, self._searches, 64, False, self._seed, False)


# ---------------------------------------------------------------- PettingZoo


@dataclass(frozen=True)
class ZooTable(Table):
    """An environment of PettingZoo that goes turn by turn, such as `classic.tictactoe_v3`, made with `settings`.

    A dictionary's `observation` is read and its `action_mask` kept to, or that of the infos.

    Raises:
        ConfigurationError: for a module that is not there, or agents that see or do what is no Box and no Discrete, or
            each something else.
    """

    module: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self._layout  # Opens the environment once, so that mistakes show at once.
        self.check()

    @property
    def name(self) -> str:
        return f"pettingzoo:{self.module}"

    @property
    def everybody(self) -> tuple[str, ...]:
        return self._layout[0]

    @property
    def sizes(self) -> tuple[int, int, tuple[int, ...]]:
        return self._layout[1][:3]

    @property
    def ranges(self) -> Ranges:
        return self._layout[1][3]

    @cached_property
    def _layout(self) -> tuple[tuple[str, ...], tuple[int, int, tuple[int, ...], Ranges]]:
        course = self.new()
        try:
            agents = tuple(str(agent) for agent in course.possible_agents)
            found = {agent: self._sizes(course, agent) for agent in course.possible_agents}
        finally:
            course.close()
        if len(set(found.values())) > 1:
            raise ConfigurationError(f"task {self.name}: its agents see or do different things; choose another module")
        return agents, next(iter(found.values()))

    def _sizes(self, course: Any, agent: Any) -> tuple[int, int, tuple[int, ...], Ranges]:
        seen, acts = course.observation_space(agent), course.action_space(agent)
        seen = seen["observation"] if hasattr(seen, "spaces") and "action_mask" in seen.spaces else seen
        if not hasattr(seen, "low") or not hasattr(acts, "n"):
            raise ConfigurationError(
                f"task {self.name}: agent {agent} observes {seen} and takes actions from {acts}; a table needs a Box "
                "and Discrete actions, so wrap it"
            )
        shape = tuple(int(side) for side in seen.shape)
        return int(np.prod(shape)), int(acts.n), shape if len(shape) in (2, 3) else (), ranges_of(seen)

    def new(self) -> Any:
        """Opens one environment."""
        try:
            return maker(self.module, ("env",))(**self.settings)
        except (TypeError, AssertionError) as error:
            raise ConfigurationError(f"task {self.name}: {error}") from None

    def deal(self) -> Game:
        return _Zoo(self)


class _Zoo(Game):
    def __init__(self, table: ZooTable) -> None:
        self._agents, self.count = table.everybody, len(table.everybody)
        self._course, self._purse = table.new(), Purse(f"task {table.name}")
        self._earned = dict.fromkeys(self._agents, 0.0)

    def begin(self, seed: int) -> None:
        self._course.reset(seed=seed)
        self._earned = dict.fromkeys(self._agents, 0.0)
        self._purse.empty()
        _, self.cut = self._purse.turned(self._course)

    def movers(self) -> tuple[int, ...]:
        return (self._agents.index(self._course.agent_selection),) if self._course.agents else ()

    def _told(self, player: int) -> tuple[Any, Any]:
        """What a player observes, and its mask."""
        agent = self._agents[player]
        sight, mask = observed(self._course.observe(agent), self._course.infos.get(agent))
        return sight["observation"] if isinstance(sight, Mapping) else sight, mask

    def legal(self, player: int) -> Sequence[int]:
        space, (_, mask) = self._course.action_space(self._agents[player]), self._told(player)
        return list(range(int(space.n))) if mask is None else np.flatnonzero(np.asarray(mask)).tolist()

    def sight(self, player: int) -> Sight:
        return np.asarray(self._told(player)[0], np.float32).reshape(-1)

    def play(self, moves: Mapping[int, int]) -> None:
        ((player, action),) = moves.items()
        space = self._course.action_space(self._agents[player])
        self._course.step(action + int(getattr(space, "start", 0)))
        paid, cut = self._purse.turned(self._course, moved=True)
        self.cut = self.cut or cut
        for agent, earned in paid.items():
            self._earned[agent] += earned

    def returns(self) -> Sequence[float]:
        return [self._earned[agent] for agent in self._agents]

    def close(self) -> None:
        self._course.close()
