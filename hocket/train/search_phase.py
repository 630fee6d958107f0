"""A search for better texts as a phase of a plan: what comes after it trains with the best texts found."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.train.config import Pairs, task_of
from hocket.train.optimise.run import BEST, SUMMARY, SearchRun, SearchSettings, searcher_of
from hocket.train.settings import as_recipe, flat_pairs

SEARCHES = "searcher"
"""What says that an entry of a plan is a search."""

_OWN = {field.name for field in dataclasses.fields(SearchSettings)} - {"pairs"}


@dataclass(frozen=True)
class SearchPhase:
    """A search phase: the name of its folder, and the settings of `hocket optimise`."""

    name: str
    settings: SearchSettings

    @property
    def texts(self) -> str:
        """Where later phases find what it found, in the folder of the plan."""
        return f"{self.name}/{BEST}"

    def finished(self, folder: Path) -> bool:
        """Whether it came to its end."""
        return (folder / self.name / SUMMARY).is_file()

    def run(self, folder: Path, *, trust: bool = False) -> Mapping[str, Any]:
        """Searches, or goes on with it; what came of it."""
        return SearchRun(self.settings, folder / self.name, trust=trust).run()


def is_search(item: Any) -> bool:
    """Whether an entry of a plan is a search."""
    return isinstance(item, Mapping) and SEARCHES in item


def search_phase(
    item: Mapping[str, Any],
    number: int,
    pairs: Pairs,
    following: Any,
    model: str | None,
    before: SearchPhase | None,
) -> SearchPhase:
    """The phase that an entry of a plan asks for, the plan's `number`-th.

    Args:
        pairs: settings of the whole plan: task, workflow, model, seed, decoding and roles go for the search too.
        following: the recipe of the next phase that trains, which may prescribe the workflow. model: what an earlier
            phase learnt. before: an earlier search, whose texts this one begins from.

    Raises:
        ConfigurationError: where there is no such searcher, setting or value.
    """
    name = str(item.get("name", item[SEARCHES]))
    of_phase = {key: value for key, value in item.items() if key not in ("name", "once", "type")}
    if "steps" in of_phase or "recipe" in of_phase:
        raise ConfigurationError(f"phase {name}: a search has a budget of calls, and no recipe or steps; drop them")
    common = dict(pairs)
    settings: dict[str, Any] = {key: common[key] for key in ("workflow", "model", "seed") if key in common}
    settings |= {"task": task_of([*pairs, *([("recipe", following)] if "task" not in common else [])])}
    settings.setdefault("workflow", as_recipe(following).workflow)
    settings["lessons"] = 0  # A plan states its own phases.
    settings |= {} if model is None else {"model": model}
    settings |= {} if before is None else {"start": f"phase:{before.texts}"}
    flat = list(flat_pairs(of_phase))
    further = [(key, value) for key, value in pairs if key.split(".")[0] in ("decoding", "roles", "limits")]
    further += [(key, value) for key, value in flat if key not in _OWN]
    settings |= {key: value for key, value in flat if key in _OWN}
    try:
        search = SearchSettings(**settings, pairs=tuple(further))
        searcher_of(search, tasks.find(search.task))
    except (ConfigurationError, TypeError) as error:
        raise ConfigurationError(f"phase {name}: {error}") from error
    return SearchPhase(f"{number}-{name}", search)


def saved(phase: SearchPhase) -> dict[str, Any]:
    """As plain data, which `read` turns back."""
    return {"name": phase.name, "search": dataclasses.asdict(phase.settings)}


def read(data: Mapping[str, Any]) -> SearchPhase:
    """What `saved` made."""
    pairs = tuple((str(key), value) for key, value in data["search"]["pairs"])
    return SearchPhase(data["name"], SearchSettings(**{**data["search"], "pairs": pairs}))


def latest(phases: Sequence[Any]) -> SearchPhase | None:
    """The last search among phases."""
    return next((phase for phase in reversed(phases) if isinstance(phase, SearchPhase)), None)
