"""Web pages in the manner of MiniWoB++ (Liu et al. 2018, arXiv 1802.08802), in a real browser, read and moved in words.

The pages are those of the package `miniwob` (100 of its 130), or HTML files of one's own that keep its protocol:
`Math.seedrandom`, `core.startEpisodeReal()`, `core.getUtterance()` and the globals `WOB_DONE_GLOBAL` and
`WOB_RAW_REWARD_GLOBAL`. A page is shown as a numbered list of what can be seen and acted on. Time does not count: the
reward is the raw one, and an episode has a number of moves instead of seconds. A page's own clock moves by a second
with each move, so that its timers do the same in every episode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hocket.agents.environments.browser import Page, browser
from hocket.agents.environments.protocol import Environment, Observation, same_move
from hocket.core.errors import ConfigurationError, HocketError, nearest
from hocket.core.keys import Key
from hocket.types import Scenario

SEAT = "agent"

BEYOND = (
    "drag-",
    "draw-",
    "bisect-angle",
    "chase-circle",
    "circle-center",
    "find-midpoint",
    "grid-coordinate",
    "highlight-text",
    "hot-cold",
    "hover-shape",
    "moving-items",
    "resize-textarea",
    "right-angle",
    "scroll-text",
    "text-editor",
    "use-colorwheel",
    "use-slider",
)
"""Pages that want a hand that drags, draws or points at a place, by how their names begin."""

LASTING = ("book-flight", "choose-date", "form-sequence", "simon-says", "use-autocomplete")
"""Pages of the package that remember episodes before, by how their names begin: found by playing all of them, each
episode on a page just loaded and on one in use. They are loaded anew for every episode, as pages of one's own are,
which costs five times as much."""

MOST = 60
"""Elements that the agent is shown; those after them cannot be reached."""


@dataclass(frozen=True)
class MiniWoB:
    """A kind of page.

    A move is `click 3`, or `type 2 some words`, which replaces what stands in a field. Listed as legal are the clicks,
    and typing of whatever the page's request has between quotation marks; other words may be typed all the same.

    Attributes:
        page: its name, such as `click-button`. root: the folder of HTML files where it is; None for the package's.
        limit: moves of an episode. concurrent: how many episodes may be open at once, a page of the browser each.

    Raises:
        ConfigurationError: for a page that there is not, or that words cannot serve, or without the package.
    """

    page: str
    root: str | None = None
    limit: int = 5
    concurrent: int = 64

    def __post_init__(self) -> None:
        pages = {file.stem for file in self.folder.glob("*.html")}
        if self.page not in pages:
            raise ConfigurationError(
                f"miniwob: there is no page {self.page!r} in {self.folder.name}/{nearest(self.page, pages)}"
            )
        if self.root is None and self.page.startswith(BEYOND):
            raise ConfigurationError(
                f"miniwob: {self.page} wants a hand that drags, draws or points; choose a page of clicks and texts, "
                "such as click-button"
            )
        if self.limit < 1 or self.concurrent < 1:
            raise ConfigurationError(
                f"miniwob: limit and concurrent are at least 1, not {self.limit} and {self.concurrent}"
            )

    @property
    def name(self) -> str:
        return f"miniwob:{self.page}"

    @property
    def agents(self) -> tuple[str, ...]:
        return (SEAT,)

    @property
    def folder(self) -> Path:
        """Where the page is."""
        if self.root is not None:
            return Path(self.root).expanduser().resolve()
        spec = find_spec("miniwob")
        if spec is None or spec.origin is None:
            raise ConfigurationError(
                "miniwob: its pages are in the package miniwob: pip install 'hocket[web]'; or name a folder of pages "
                "of your own with root"
            )
        return Path(spec.origin).parent / "html" / "miniwob"

    @property
    def lasting(self) -> bool:
        """Whether an episode may leave traces in its page."""
        return self.root is not None or self.page.startswith(LASTING)

    def make(self, scenario: Scenario) -> Browsing:
        return Browsing(self)


class Browsing(Environment):
    """One episode on a page. The reward is the page's, in [-1, 1], when it ends; 0 at the limit of moves.

    The limit is also reached where a page shows nothing that can be acted on.

    A move that is not one changes nothing, counts as illegal and as a move.

    Attributes:
        asked: what the page asks for. elements: what can be acted on, in words. moves: how many were made.
    """

    blocking = True

    def __init__(self, world: MiniWoB) -> None:
        self.world, self.agents = world, world.agents
        self.asked, self.moves = "", 0
        self.elements: Sequence[str] = ()
        self._page: Page | None = None
        self._fields: frozenset[int] = frozenset()
        self._over, self._wrong, self._notice = True, 0, ""

    def reset(self, key: Key) -> None:
        try:
            page = self._opened()
        except HocketError:  # A page may have died with the one before; another is asked once.
            self.close()
            page = self._opened()
        self.moves = self._wrong = 0
        self._notice = ""
        seed = str(key.derive("miniwob").word)
        self._took(page.evaluate(f"hocket.begin({json.dumps(seed)})"))

    def _opened(self) -> Page:
        """The episode's page, at its address."""
        url = (self.world.folder / f"{self.world.page}.html").as_uri()
        if self._page is None:
            self._page = browser().page(url)
        if self._page.url != url or self.world.lasting:
            self._page.open(url, "window.core && core.cover_div", _script())
        return self._page

    @property
    def acting(self) -> tuple[str, ...]:
        return () if self._over or self.truncated else (SEAT,)

    @property
    def truncated(self) -> bool:
        return not self._over and (self.moves >= self.world.limit or not self.elements)

    @property
    def illegal(self) -> Mapping[str, int]:
        return {SEAT: self._wrong}

    def observe(self, agent: str) -> Observation:
        listed = [f"{number} {element}" for number, element in enumerate(self.elements, start=1)]
        text = "\n".join([self.asked, *listed, *filter(None, [self._notice])])
        return Observation(text, self._legal() if self.acting else (), state=text)

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        assert self._page is not None
        self.moves += 1
        action = self._read(moves[SEAT])
        if action is None:
            self._wrong += 1
            self._notice = "That was no move."
            return {SEAT: 0.0}
        self._notice = ""
        place, text = action
        return {SEAT: self._took(self._page.evaluate(f"hocket.act({place}, {json.dumps(text)})"))}

    def close(self) -> None:
        if self._page is not None:
            self._page.close()
        self._page = None

    def _took(self, report: Mapping[str, Any]) -> float:
        """Notes what a page tells, and gives the reward."""
        self.asked, self._over = report["asked"], bool(report["over"])
        shown = report["elements"][:MOST]
        self.elements = tuple(words for words, _ in shown)
        self._fields = frozenset(place for place, (_, field) in enumerate(shown) if field)
        return float(report["reward"]) if self._over else 0.0

    def _legal(self) -> tuple[str, ...]:
        quoted = dict.fromkeys(re.findall(r'"([^"]+)"', self.asked))
        clicks = [f"click {place + 1}" for place in range(len(self.elements))]
        return (*clicks, *(f"type {place + 1} {words}" for place in sorted(self._fields) for words in quoted))

    def _read(self, move: str) -> tuple[int, str | None] | None:
        """The place of an element, and what to type there, None for a click; None where it is no move."""
        typed = re.fullmatch(r"type (\d+) (.+)", move.strip(), re.DOTALL | re.IGNORECASE)
        if typed and int(typed[1]) - 1 in self._fields:
            return int(typed[1]) - 1, typed[2]
        clicks = self._legal()[: len(self.elements)]
        clicked = same_move(move, clicks)
        return None if clicked is None else (clicks.index(clicked), None)


@cache
def _script() -> str:
    return Path(__file__).with_name("page.js").read_text()
