"""Pages for claims about searches: one for a browser, links that wait for others, trees of pages with grades."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hocket.agents.environments.protocol import Observation
from hocket.agents.environments.solitary import Solitary
from hocket.core.keys import Key
from hocket.methods.search.webpilot.world import NAMES, Wizard
from hocket.rewards.judging import Answer, Judge, Question
from hocket.rollout.dynamic import total
from hocket.train.aio import run_async
from hocket.types import Assignment, Scenario, Score, Trajectory, Turn


@dataclass
class Graded:
    """A tree of pages, deterministic: at each `width` moves, and a grade of each path, better below better ones."""

    width: int
    depth: int
    seed: int
    known: dict[tuple[int, ...], float] = field(default_factory=dict)

    def grade(self, path: tuple[int, ...]) -> float:
        if path not in self.known:
            above = self.grade(path[:-1]) if len(path) > 1 else 0.5
            noise = float(Key.of(self.seed).derive("grade", *path).numpy().random())
            self.known[path] = 0.6 * above + 0.4 * noise
        return self.known[path]

    @property
    def optimum(self) -> float:
        paths = (path for n in range(1, self.depth + 1) for path in itertools.product(range(self.width), repeat=n))
        return max(map(self.grade, paths))


class Locked(Solitary):
    """What is named first is listed only after what is named second was chosen."""

    def __init__(self, limit: int, seed: int) -> None:
        super().__init__(limit)
        self.first, self.second = (NAMES[one] for one in Key.of(seed).derive("locked").numpy().permutation(12)[:2])
        self._begin()

    def _begin(self) -> None:
        self.chosen: tuple[str, ...] = ()
        self.sent = False

    @property
    def done(self) -> bool:
        return self.sent

    def _links(self) -> list[str]:
        named = [self.second, *([self.first] if self.second in self.chosen else [])]
        return [f"link {one}{' (chosen)' if one in self.chosen else ''}" for one in named] + ["button Submit"]

    def _moves(self) -> tuple[str, ...]:
        return tuple(f"click {number}" for number, _ in enumerate(self._links(), start=1))

    def _seen(self) -> Observation:
        lines = [f"{number} {link}" for number, link in enumerate(self._links(), start=1)]
        return Observation("\n".join([f"Choose {self.first}, {self.second} and click Submit.", *lines]))

    def _make(self, move: str) -> float:
        link = self._links()[int(move.split()[1]) - 1]
        if link == "button Submit":
            self.sent = True
            return float({self.first, self.second} <= set(self.chosen))
        self.chosen = (*self.chosen, link.split()[1])
        return 0.0


@dataclass(frozen=True)
class Locks:
    """Pages with a link that waits for another."""

    limit: int = 12
    agents: tuple[str, ...] = ("player",)
    name: str = "locked"

    def make(self, scenario: Scenario) -> Locked:
        return Locked(self.limit, scenario.seed)


PAGE = """<!DOCTYPE html><html><body><div id="query"></div><div id="area"></div><script>
  let word = 1;
  Math.seedrandom = (seed) => {
    word = 1;
    for (const c of String(seed)) word = (word * 31 + c.charCodeAt(0)) % 2147483647;
  };
  const draw = (n) => { word = (word * 48271) % 2147483647; return word % n; };
  const names = ["ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "yew"];
  var WOB_DONE_GLOBAL = false, WOB_RAW_REWARD_GLOBAL = 0;
  const by = (name) => document.getElementById(name);
  let pages = [], right = [], good = true;
  const show = (page) => {
    by("area").innerHTML = "";
    const add = (text, then) => {
      const button = document.createElement("button");
      button.textContent = text;
      button.onclick = then;
      by("area").append(button);
    };
    if (page === pages.length)
      return add("Submit", () => { WOB_DONE_GLOBAL = true; WOB_RAW_REWARD_GLOBAL = good ? 1 : -1; });
    pages[page].forEach((name, place) => add(name, () => { good &&= place === right[page]; show(page + 1); }));
  };
  window.core = {
    cover_div: true,
    startEpisodeReal() {
      WOB_DONE_GLOBAL = false; WOB_RAW_REWARD_GLOBAL = 0; good = true; pages = []; right = [];
      for (let page = 0; page < 5; page++) {
        const left = [...names], some = [];
        while (some.length < 6) some.push(left.splice(draw(left.length), 1)[0]);
        pages.push(some); right.push(draw(6));
      }
      const words = pages.map((some, page) => some[right[page]]);
      by("query").textContent = `Choose ${words.join(", ")} and click Submit.`;
      show(0);
    },
    getUtterance: () => by("query").textContent,
  };
</script></body></html>"""
"""The wizard of `hocket.methods.search.webpilot.world`, five pages long, as the pages of MiniWoB are written."""


async def unscored(played: Sequence[Trajectory]) -> None:
    """Environments pay by themselves."""


def greedy(
    play: Callable[[list[Assignment]], Coroutine[Any, Any, list[Trajectory]]], moves: int, count: int = 24
) -> float:
    """The share of scenarios that whole episodes solve, one after the other until so many moves are spent."""
    won = 0
    left = dict.fromkeys(range(count), moves)
    for again in itertools.count():
        asked = [Assignment(Scenario(f"s{number}", "", seed=number), first=again) for number in left]
        for number, one in zip(list(left), run_async(play(asked)), strict=True):
            left[number] -= len(one.turns)
            good = sum(map(total, one.scores.values())) >= 1
            won += good
            if good or left[number] <= 0:
                del left[number]
        if not left:
            return won / count
    raise AssertionError


def turn(move: str) -> Turn:
    """A move on a page with one link."""
    prompt = [{"role": "user", "content": "Do it.\n1 link one"}]
    return Turn("player", "policy", np.zeros(1, int), np.zeros(1, int), text=move, prompt=prompt)


def ended(*, earned: float = 0.0, turns: int = 2, failure: str | None = None) -> Trajectory:
    """An episode of such moves."""
    made = [turn(f"click {place}") for place in range(turns)]
    return Trajectory(Scenario("s", ""), made, scores={"earned": Score(earned)}, failure=failure)


class Mute(Judge):
    """Says these in turn, None being nothing."""

    def __init__(self, *answers: str | None) -> None:
        super().__init__("mute")
        self.left, self.asked = list(answers), list[str]()

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        self.asked += [one.prompt for one in questions]
        return [Answer(self.left.pop(0)) for _ in questions]


def clicks(wizard: Wizard, name: str) -> list[tuple[str, str, str, bool]]:
    """What a page lists, the page before and after a click on it, and whether that went on; then clicks `name`."""
    page, found, place = wizard.observe("player").text, list[tuple[str, str, str, bool]](), ""
    for number, thing in re.findall(r"^(\d+) (.+)$", page, re.MULTILINE):
        after = wizard.clone()
        after.act({"player": f"click {number}"})
        found.append((thing, page, after.observe("player").text, after.page > wizard.page))
        place = number if thing.endswith(f" {name}") else place
    wizard.act({"player": f"click {place}"})
    return found
