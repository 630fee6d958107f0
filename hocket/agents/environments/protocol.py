"""What an environment of one or many agents is: who must act now, what each sees, what each may do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.media import Parts, with_media
from hocket.core.parts import media_of
from hocket.types import Scenario

UNREADABLE = ""
"""What is handed to `act` when no move could be read from a reply. It is legal nowhere."""


@dataclass(frozen=True)
class Observation:
    """What one agent observes.

    Attributes:
        text: all that the agent needs in order to decide, complete in itself but for the legal moves.
        actions: the legal moves in words; None where any text is a move, empty where the agent may not move.
        state: a key naming the agent's situation, equal for equal situations of one scenario, for grouping turns.
        news: only what happened since the agent's last move, for a conversation that keeps its history; None where
            `text` serves for both.
        pictures: what the agent sees before it reads: bytes of files, Pillow images, or arrays `[H, W, 3]` of uint8.
        sounds: what it hears: bytes of files, `Sound`s, or mappings with `array` and `sampling_rate`.
    """

    text: str
    actions: tuple[str, ...] | None = None
    state: str | None = None
    news: str | None = None
    pictures: tuple[Any, ...] = ()
    sounds: tuple[Any, ...] = ()

    def beside(self, words: str) -> str | Parts:
        """The content of a message that shows the pictures, plays the sounds and says `words`.

        Raises:
            ConfigurationError: for one that cannot be read.
        """
        sources = [("image", "picture", source) for source in self.pictures] + [
            ("audio", "sound", source) for source in self.sounds
        ]
        media = [
            (kind, media_of(kind, source, f"the {word} of an observation", None)) for kind, word, source in sources
        ]
        return with_media(words, media)

    def told(self, remembering: bool = False) -> str:
        """The text for an agent, legal moves included; only the news where it remembers earlier observations."""
        text = self.news if remembering and self.news is not None else self.text
        if not self.actions:
            return text
        apart = "; " if any("," in action for action in self.actions) else ", "
        return f"{text}\nLegal moves: {apart.join(self.actions)}"


class Environment(ABC):
    """One episode of a game, a household, a website: subclass and write the abstract members.

    All randomness comes from the key given to `reset`, so equal keys and equal moves give equal episodes. Observing
    changes nothing. A move that is not legal never raises: the environment decides what it costs, and counts it.

    Attributes:
        agents: the seats, in a fixed order.
        blocking: whether calls wait for the world outside (a server); they are then made in a thread.
    """

    agents: tuple[str, ...]
    blocking: bool = False

    @abstractmethod
    def reset(self, key: Key) -> None:
        """Begins an episode, which depends on `key` alone."""

    @property
    @abstractmethod
    def acting(self) -> tuple[str, ...]:
        """Who must move now: several when moves are simultaneous, nobody when the episode is over."""

    @abstractmethod
    def observe(self, agent: str) -> Observation:
        """What a seat sees now. May also be asked of those who do not move."""

    @abstractmethod
    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        """Makes the moves of all who act now, in words, and returns what each seat earned by it (0 where missing).

        Raises:
            HocketError: when `moves` are not those of exactly the acting agents: a mistake of the caller.
        """

    @property
    def over(self) -> bool:
        """Whether nobody moves any more."""
        return not self.acting

    @property
    def truncated(self) -> bool:
        """Whether the episode was cut short by a limit instead of coming to its own end."""
        return False

    @property
    def parts(self) -> Mapping[str, Mapping[str, float]]:
        """Named rewards that the last moves earned besides those that `act` returned, by name and seat."""
        return {}

    @property
    def illegal(self) -> Mapping[str, int]:
        """Moves so far, by seat, that were not legal or not readable."""
        return {}

    def clone(self) -> Self:
        """An independent copy at the same point, which goes on with the same draws.

        Raises:
            HocketError: where the environment cannot be copied.
        """
        raise HocketError(f"{type(self).__name__} cannot be copied; use a rollout that does not branch")

    def close(self) -> None:
        """Lets go of what the episode holds, such as a connection."""
        return

    @property
    def bare(self) -> Environment:
        """The environment itself, beneath wrappers that change only its observations."""
        return self

    def check_movers(self, moves: Mapping[str, str]) -> None:
        """Raises `HocketError` unless `moves` are those of exactly the acting agents."""
        if set(moves) != set(self.acting):
            raise HocketError(
                f"{type(self).__name__} waits for the moves of {', '.join(self.acting) or 'nobody'}, "
                f"not of {', '.join(moves) or 'nobody'}"
            )


class World(Protocol):
    """Where environments come from: a frozen value that makes a new one for every episode.

    One that bears only so many open episodes at a time says how many in an attribute `concurrent`.
    """

    @property
    def name(self) -> str:
        """What to give to `--task`, such as `openspiel:kuhn_poker`."""
        ...

    @property
    def agents(self) -> tuple[str, ...]:
        """The seats of its environments."""
        ...

    def make(self, scenario: Scenario) -> Environment:
        """A new environment for a scenario; it must be reset before use."""
        ...


def same_move(text: str, actions: tuple[str, ...]) -> str | None:
    """The legal move that `text` names, whatever its case, spacing or final stop; None where it names none."""
    plain = {_plain(action): action for action in reversed(actions)}
    return plain.get(_plain(text)) if _plain(text) else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).removesuffix(".").rstrip()
