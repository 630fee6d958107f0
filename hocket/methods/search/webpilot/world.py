"""Pages one after the other, in words: long tasks of which each part is easy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hocket.agents.environments.protocol import Observation
from hocket.agents.environments.solitary import Solitary
from hocket.core.keys import Key
from hocket.types import Scenario

NAMES = ("ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "yew")


def request(names: Sequence[str]) -> str:
    """What pages ask for on which these are right."""
    return f"Choose {', '.join(names)} and click Submit."


class Wizard(Solitary):
    """Pages one after the other: on each one of some links is right, which the request names, and each leads on.

    A submit button comes last and pays 1 where all were right.

    Attributes:
        names: of the links of each page. right: the places of those that are right.
    """

    def __init__(self, world: Wizards, scenario: Scenario) -> None:
        super().__init__(world.limit)
        self.dead = world.dead
        draw = Key.of(scenario.seed).derive("wizard").numpy()
        self.names = [[NAMES[one] for one in draw.permutation(world.names)[: world.links]] for _ in range(world.pages)]
        self.right = [int(draw.integers(world.links)) for _ in range(world.pages)]
        self._begin()

    def _begin(self) -> None:
        self.page, self.good, self.sent = 0, True, False

    @property
    def wanted(self) -> tuple[str, ...]:
        """What is to be chosen, page by page."""
        return tuple(names[right] for names, right in zip(self.names, self.right, strict=True))

    @property
    def asked(self) -> str:
        """What the pages ask for."""
        return request(self.wanted)

    @property
    def done(self) -> bool:
        return self.sent

    def _links(self) -> tuple[str, ...]:
        if self.page == len(self.names):
            return ("button Submit",)
        return tuple(f"link {name}" for name in self.names[self.page])

    def _moves(self) -> tuple[str, ...]:
        return tuple(f"click {number}" for number, _ in enumerate(self._links(), start=1))

    def _seen(self) -> Observation:
        lines = [f"{number} {link}" for number, link in enumerate(self._links(), start=1)]
        return Observation("\n".join([self.asked, *lines]))

    def _make(self, move: str) -> float:
        place = int(move.split()[1]) - 1
        if self.page == len(self.names):
            self.sent = True
            return float(self.good)
        right = place == self.right[self.page]
        if right or not self.dead:
            self.good &= right
            self.page += 1
        return 0.0


@dataclass(frozen=True)
class Wizards:
    """Wizards of so many pages with so many links each, of the first so many `NAMES`.

    Attributes:
        dead: whether wrong links lead nowhere, so that the page stays as it is.
    """

    pages: int = 8
    links: int = 6
    names: int = 12
    dead: bool = False
    limit: int = 40
    agents: tuple[str, ...] = ("player",)
    name: str = "wizard"

    def make(self, scenario: Scenario) -> Wizard:
        return Wizard(self, scenario)
