"""`hocket eval --search`: what a run's own value is worth at inference."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, get_type_hints

from hocket.agents.search.result import Opinion, SearchResult
from hocket.agents.search.value_search import Beam, Best, Guide, TreeSearch, ValueSearch
from hocket.core.errors import ConfigurationError, HocketError, nearest
from hocket.core.keys import Key
from hocket.core.names import parse_name
from hocket.core.occurrences import apart
from hocket.core.options import checked
from hocket.rewards.score import grade
from hocket.stages import Play
from hocket.train.evaluate import spread, success_of
from hocket.train.loop import Playing, RunContext
from hocket.types import Assignment, Trajectory

WAYS: dict[str, type[ValueSearch]] = {"best": Best, "beam": Beam, "tree": TreeSearch}

TOGETHER = 32
"""So many scenarios are searched side by side."""


def way_of(name: str) -> ValueSearch:
    """What `--search` names: `beam?width=2&candidates=2`, `best?samples=4` or `tree?searches=8&candidates=4`.

    Raises:
        ConfigurationError: for another name or setting.
    """
    base, settings = parse_name(name, "search")
    if base not in WAYS:
        raise ConfigurationError(f"search = {base!r}: there is {', '.join(WAYS)}{nearest(base, WAYS)}")
    way = WAYS[base]
    hints = {field.name: get_type_hints(way)[field.name] for field in dataclasses.fields(way)}
    try:
        return way(**checked(base, settings, hints, kind="search"))
    except ValueError as error:
        raise ConfigurationError(f"search {name}: {error}") from error


@dataclass(frozen=True)
class SearchScore:
    """How one way of answering did.

    Attributes:
        title: what it is. success: of the episode chosen for each scenario, 0 where it failed.
        messages: sampled for a scenario, on average. failures: why searches failed.
    """

    title: str
    success: Sequence[float]
    messages: float
    failures: Sequence[str]


def guide_of(parts: RunContext) -> Opinion:
    """What the run's value says of transcripts.

    Raises:
        ConfigurationError: where its recipe fits none, or several policies learnt one.
    """
    objective = parts.lead.recipe.objective
    if not isinstance(objective, Guide):
        raise ConfigurationError(
            f"--search needs a value of unfinished episodes, and {parts.lead.recipe.name} learns none; "
            "masprm and oreo do (hocket train --recipe masprm)"
        )
    if len(parts.learners) > 1:
        raise ConfigurationError(
            f"--search needs a single value, and this run has {len(parts.learners)} policies; train one for all roles"
        )
    return objective.guide(parts.lead.policy, parts.lead.reference)


async def sought(parts: RunContext, way: ValueSearch, *, n: int, key: Key) -> list[SearchScore]:
    """One sampled answer, the best of as many whole ones as the search costs, and the search, on `n` unseen scenarios.

    All are sampled at the run's temperature by whoever the recipe lets play: the policies as they were before training,
    where it only fits their value. The value alone chooses; rewards are read afterwards.

    Raises:
        HocketError: when every search failed.
    """
    value, play = guide_of(parts), Playing(parts.player, key.derive("guided"))
    actor: Literal["policy", "reference"] = "reference" if parts.lead.recipe.plays_reference else "policy"
    scenarios = apart(parts.task.scenario("eval", number) for number in spread(parts.task, n))
    assignments = [Assignment(scenario, decoding=parts.decoding, actor=actor) for scenario in scenarios]
    searches = await _each(play, assignments, [way] * len(assignments), value, key)
    plain = await _each(play, assignments, [Best(1)] * len(assignments), value, key)
    lengths = [max(1, result.messages) if isinstance(result, SearchResult) else 1 for result in plain]
    as_many = [
        Best(max(1, round(search.messages / length))) if isinstance(search, SearchResult) else Best(1)
        for search, length in zip(searches, lengths, strict=True)
    ]
    rows = {"one sampled answer": plain}
    if not isinstance(way, Best):
        rows["best of as many messages"] = await _each(play, assignments, as_many, value, key)
    rows[way.title] = searches
    return [await _scored(parts, title, row, key) for title, row in rows.items()]


async def _each(
    play: Play, assignments: Sequence[Assignment], ways: Sequence[ValueSearch], value: Opinion, key: Key
) -> list[SearchResult | HocketError]:
    """What each scenario's way found, or why it failed."""

    async def one(asking: Assignment, way: ValueSearch) -> SearchResult | HocketError:
        try:
            return await way.seek(play, asking, value, key.derive("way", asking.scenario.id))
        except ConfigurationError:
            raise
        except HocketError as error:
            return error

    results: list[SearchResult | HocketError] = []
    for begin in range(0, len(assignments), TOGETHER):
        some = slice(begin, begin + TOGETHER)
        results += await asyncio.gather(*map(one, assignments[some], ways[some]))
    return results


async def _scored(
    parts: RunContext, title: str, results: Sequence[SearchResult | HocketError], key: Key
) -> SearchScore:
    episodes: list[Trajectory] = [result.episode for result in results if isinstance(result, SearchResult)]
    failures = [str(result) for result in results if not isinstance(result, SearchResult)]
    if not episodes:
        raise HocketError(f"{title}: every one of {len(results)} failed: {failures[0]}")
    await grade(episodes, parts.rewards, key=key.derive("score", title), journal=parts.journal)
    success = [success_of(parts.task, episode) for episode in episodes] + [0.0] * len(failures)
    messages = fmean(result.messages for result in results if isinstance(result, SearchResult))
    return SearchScore(title, success, messages, failures)
