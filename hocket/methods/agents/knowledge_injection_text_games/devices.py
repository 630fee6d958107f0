"""Strange devices in the dark: each is started by one verb, which is drawn for every episode, and not told.

A procedural text world with a known table of affordances (`Devices.affordances`): what a name calls for in one episode
says nothing about the next one. It is dark, so that nobody sees which devices run already; a move that starts none,
because the verb does not fit or the device runs, is not legal and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hocket.agents.environments.protocol import Observation
from hocket.agents.environments.solitary import PLAYER, Solitary
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Scenario

NAMES = ("lamp", "bell", "fan", "pump", "clock", "radio", "horn", "drill", "siren", "mill", "press", "scale")
VERBS = ("push", "pull", "turn", "lift", "twist", "slide")


@dataclass(frozen=True)
class Shed:
    """Devices by name, and the verb that starts each."""

    fits: Mapping[str, str]
    verbs: tuple[str, ...]

    @property
    def text(self) -> str:
        """What is asked for."""
        return f"Start {' '.join(self.fits)}. Verbs: {' '.join(self.verbs)}."


@dataclass(frozen=True)
class Devices:
    """Sheds as a world: 1 is earned by starting everything, in equal parts.

    Attributes:
        count: devices of a shed. verbs: how many verbs there are, the first of `VERBS`; several devices may have the
            same. spare: moves of an episode beyond one for each device.

    Raises:
        ConfigurationError: for settings out of range.
    """

    count: int = 3
    verbs: int = 4
    spare: int = 3

    agents = (PLAYER,)

    def __post_init__(self) -> None:
        if not 1 <= self.count <= len(NAMES) or not 2 <= self.verbs <= len(VERBS):
            raise ConfigurationError(
                f"devices: count must lie in 1..{len(NAMES)} and verbs in 2..{len(VERBS)}, "
                f"not {self.count} and {self.verbs}"
            )
        if self.spare < 0:
            raise ConfigurationError(f"devices: spare is a number of moves, at least 0, not {self.spare}")

    @property
    def name(self) -> str:
        return f"devices?count={self.count}&verbs={self.verbs}&spare={self.spare}"

    @property
    def limit(self) -> int:
        """Moves of an episode."""
        return self.count + self.spare

    def shed(self, number: int) -> Shed:
        """The shed of a number."""
        rng = Key.of(number).derive("shed", self.count, self.verbs).numpy()
        names = [NAMES[place] for place in rng.permutation(len(NAMES))[: self.count].tolist()]
        return Shed({name: VERBS[int(rng.integers(self.verbs))] for name in names}, VERBS[: self.verbs])

    def make(self, scenario: Scenario) -> Darkness:
        return Darkness(self.shed(int(scenario.metadata["shed"])), self.limit)


class Darkness(Solitary):
    """One episode among the devices of a shed.

    Attributes:
        shed: the devices. running: those that were started.
    """

    def __init__(self, shed: Shed, limit: int) -> None:
        super().__init__(limit)
        self.shed = shed
        self.running: frozenset[str] = frozenset()

    @property
    def affordances(self) -> Mapping[str, tuple[str, ...]]:
        """Of every device the verbs that fit."""
        return {name: (verb,) for name, verb in self.shed.fits.items()}

    @property
    def verbs(self) -> tuple[str, ...]:
        """What may be tried."""
        return self.shed.verbs

    @property
    def starting(self) -> tuple[str, ...]:
        """The moves that start a device."""
        return self._moves()

    def observe(self, agent: str) -> Observation:
        return replace(super().observe(agent), actions=None)

    def _begin(self) -> None:
        self.running = frozenset()

    @property
    def done(self) -> bool:
        return len(self.running) == len(self.shed.fits)

    def _moves(self) -> tuple[str, ...]:
        return tuple(f"{verb} {name}" for name, verb in self.shed.fits.items() if name not in self.running)

    def _seen(self) -> Observation:
        return Observation(self.shed.text, state=" ".join(sorted(self.running)))

    def _make(self, move: str) -> float:
        name = move.rpartition(" ")[2]
        self.running |= {name}
        self._happened = f"The {name} starts."
        return 1 / len(self.shed.fits)
