"""Pages one after the other, in words and as a page for a browser: long tasks of which each part is easy."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.core.keys import Key
from hocket.environments.protocol import Observation
from hocket.environments.solitary import Solitary
from hocket.types import Scenario

NAMES = ("ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "yew")


class Wizard(Solitary):
    """Pages one after the other: on each one of six links is right, which the request names, and each leads on.

    A submit button comes last and pays 1 where all were right.
    """

    def __init__(self, world: Wizards, scenario: Scenario) -> None:
        super().__init__(world.limit)
        draw = Key.of(scenario.seed).derive("wizard").numpy()
        self.pages = [draw.permutation(len(NAMES))[:6] for _ in range(world.pages)]
        self.right = [int(draw.integers(6)) for _ in range(world.pages)]
        self._begin()

    def _begin(self) -> None:
        self.page, self.good, self.sent = 0, True, False

    @property
    def done(self) -> bool:
        return self.sent

    def _links(self) -> tuple[str, ...]:
        if self.page == len(self.pages):
            return ("button Submit",)
        return tuple(f"link {NAMES[one]}" for one in self.pages[self.page])

    def _moves(self) -> tuple[str, ...]:
        return tuple(f"click {number}" for number, _ in enumerate(self._links(), start=1))

    def _seen(self) -> Observation:
        words = [NAMES[page[right]] for page, right in zip(self.pages, self.right, strict=True)]
        lines = [f"{number} {link}" for number, link in enumerate(self._links(), start=1)]
        return Observation("\n".join([f"Choose {', '.join(words)} and click Submit.", *lines]))

    def _make(self, move: str) -> float:
        place = int(move.split()[1]) - 1
        if self.page == len(self.pages):
            self.sent = True
            return float(self.good)
        self.good &= place == self.right[self.page]
        self.page += 1
        return 0.0


@dataclass(frozen=True)
class Wizards:
    """Wizards of so many pages."""

    pages: int = 8
    limit: int = 40
    agents: tuple[str, ...] = ("player",)
    name: str = "wizard"

    def make(self, scenario: Scenario) -> Wizard:
        return Wizard(self, scenario)


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
"""The same in HTML, five pages long, as the pages of MiniWoB are written."""
