"""Beam search over messages, and the best of several episodes."""

from __future__ import annotations

from dataclasses import replace

from hocket.core.columns import LIMIT
from hocket.core.errors import HocketError
from hocket.search.found import Found, Opinion
from hocket.stages import Play
from hocket.types import PAUSED, Assignment, Replay, Trajectory


async def beam_search(
    play: Play, asking: Assignment, value: Opinion, *, width: int, candidates: int, judge: Opinion | None = None
) -> Found:
    """Step-level beam search: of all next messages the `width` best transcripts are kept, per message of an agent.

    MASPRM (arXiv 2510.24803). Every transcript kept is continued by `candidates` messages, drawn independently, and
    `value` says what each is worth. Episodes that have ended stay in the beam with their value. At the end `judge`, an
    outcome model, picks the answer among those kept; without one it is `value`.

    Raises:
        HocketError: when an episode fails, or no message comes back.
    """
    if width < 1 or candidates < 1:
        raise ValueError(f"width and candidates must be at least 1, not {width} and {candidates}")
    beam: list[Trajectory] = []
    sampled = 0
    while not beam or any(_open(one) for one in beam):
        starts = [one.turns for one in beam if _open(one)] if beam else [[]]
        asked = []
        for turns in starts:
            replay = Replay(tuple(turns), sample=asking.first, more=1)
            asked.append(replace(asking, samples=candidates, first=asking.first + sampled, replay=replay))
            sampled += candidates
        played = await play(asked)
        _check(played, [len(turns) for turns in starts], candidates)
        among = [*(one for one in beam if not _open(one)), *played]
        worth = await value(among)
        ranked = sorted(range(len(among)), key=lambda place: -worth[place])
        beam = [among[place] for place in ranked[:width]]
    final = [float(number) for number in await judge(beam)] if judge is not None else [1.0, *([0.0] * (len(beam) - 1))]
    return Found(beam[final.index(max(final))], sampled)


async def best_of(play: Play, asking: Assignment, judge: Opinion, *, samples: int) -> Found:
    """The episode of `samples` that `judge` thinks best, the earliest of equals."""
    every = await play([replace(asking, samples=samples)])
    played = [one for one in every if one.failure is None]
    if not played:
        raise HocketError(f"all {samples} episodes of {asking.scenario.id!r} failed: {every[0].failure}")
    worth = list(await judge(played))
    return Found(played[worth.index(max(worth))], sum(len(one.turns) for one in played))


def _open(episode: Trajectory) -> bool:
    return bool(LIMIT.get(episode) == PAUSED)


def _check(played: list[Trajectory], lengths: list[int], candidates: int) -> None:
    for number, one in enumerate(played):
        if one.failure is not None:
            raise HocketError(f"an episode failed in search: {one.failure}")
        if _open(one) and len(one.turns) != lengths[number // candidates] + 1:
            raise HocketError(
                "search goes message by message, but not one came; the workflow must await every call, and its player "
                "must know Assignment.replay"
            )
