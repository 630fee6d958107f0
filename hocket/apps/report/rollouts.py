"""The rollouts that a page holds: every group of some steps in numbers, and as conversations while there is room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hocket.apps.report.conversations import NAMED, Conversations, digits, least_size, short
from hocket.apps.report.groups import SampleGroup, group_episodes
from hocket.apps.report.reading import RunRecord
from hocket.apps.report.roles import StepTotals
from hocket.core.pictures import data_url
from hocket.train.answers import advantage_of, prompt_text, reward_of

STEPS = 24
"""Steps shown at most: the first, the last, and others evenly between."""

ROOM = 6_000_000
"""Characters of conversations that a page holds at most, shared by its steps."""

PICTURE_ROOM = 4_000_000
"""Bytes of pictures and sounds that a page holds at most."""

ROWS = 256
"""Groups listed per step at most."""

Data = dict[str, Any]


def rollouts(run: RunRecord, latest: Sequence[Mapping[str, Any]] | None = None) -> Data:
    """The data behind the page's rollouts: the steps, and what each agent did in them.

    `latest` are the episodes of the last step, where they have been read already.
    """
    steps = chosen(run.steps, STEPS)
    room = ROOM // max(len(steps), 1)
    read = {steps[-1]: latest} if steps and latest is not None else {}
    rows = [data for step in steps if (data := recorded_step(run, step, room, read.get(step)))]
    return {"steps": rows, "pictures": pictures_shown(run, rows)}


def recorded_step(
    run: RunRecord, step: int, room: int = ROOM // STEPS, episodes: Sequence[Mapping[str, Any]] | None = None
) -> Data | None:
    """The data of one step, with conversations of `room` characters at most; None where nothing is recorded."""
    episodes = run.episodes(step) if episodes is None else episodes
    if not episodes:
        return None
    return _step(step, group_episodes(episodes), room) | {"summed": StepTotals.of(episodes).to_json()}


def pictures_shown(run: RunRecord, steps: Sequence[Data]) -> dict[str, str]:
    """The pictures and sounds in conversations, by the beginnings of their digests, as data URLs; those that fit."""
    folder = run.path / "media"
    turns = [turn for step in steps for row in step["groups"] for turn in row.get("turns", ())]
    shown = dict.fromkeys(
        name for turn in turns for message in turn["messages"] for name in message.get("pictures", ())
    )
    room, urls = PICTURE_ROOM, dict[str, str]()
    files = {file.name[:NAMED]: file for file in (folder.iterdir() if shown and folder.is_dir() else ())}
    for name in shown:
        if name in files and files[name].stat().st_size <= room:
            data = files[name].read_bytes()
            room -= len(data)
            urls[name] = data_url(data)
    return urls


def chosen(steps: Sequence[int], most: int) -> list[int]:
    """At most `most` of the steps, evenly, the first and the last among them."""
    if len(steps) <= most:
        return list(steps)
    places = {round(number * (len(steps) - 1) / (most - 1)) for number in range(most)}
    return [steps[place] for place in sorted(places)]


def _step(step: int, groups: Sequence[SampleGroup], room: int) -> Data:
    """One step: groups in order; those that taught something get conversations first, then those with failures."""
    listed = list(groups[:ROWS])
    turns = [turn for group in listed for episode in group.episodes for turn in episode.get("turns", ())]
    agents = list(dict.fromkeys(str(turn.get("agent", "")) for turn in turns))
    rows = [_row(group, agents) for group in listed]
    for place in sorted(range(len(listed)), key=lambda place: _worth(listed[place])):
        room -= _tell(rows[place], listed[place], room)
    return {"step": step, "groups": rows, "hidden": len(groups) - len(listed), "agents": agents}


def _worth(group: SampleGroup) -> int:
    """What is told first: 0 before 1 before 2."""
    if group.signal:
        return 0
    return 1 if any(episode.get("failure") for episode in group.episodes) else 2


def _tell(row: Data, group: SampleGroup, room: int) -> int:
    """Adds the conversations of a group to its row, as many as there is room for; returns the room taken."""
    conversations = Conversations()
    for number, (sample, episode) in enumerate(zip(row["samples"], group.episodes, strict=True)):
        # Spares building what cannot fit: the first one shares no turn with another.
        if number == 0 and least_size(episode) > room:
            break
        conversation = conversations.add(number, episode, room)
        if conversation is None:
            break
        sample.update(conversation)
        row["shown"] = True
    row["turns"] = conversations.turns
    return conversations.size


def _row(group: SampleGroup, agents: Sequence[str]) -> Data:
    scenario: Mapping[str, Any] = group.episodes[0].get("scenario") or {}
    answer = scenario.get("answer")
    return {
        "number": group.number,
        "scenario": group.scenario,
        "prompt": short(prompt_text(scenario.get("prompt")), 300),
        "answer": None if answer is None else short(str(answer), 300),
        "mean": digits(group.mean),
        "std": digits(group.std),
        "signal": group.signal,
        "why": group.why,
        "shown": False,
        "samples": [_sample(episode, agents) for episode in group.episodes],
    }


def _sample(episode: Mapping[str, Any], agents: Sequence[str]) -> Data:
    trained = bool(episode.get("kept", True)) and not episode.get("discarded")
    return {
        "reward": digits(reward_of(episode)),
        "advantage": digits(advantage_of(episode)),
        "kept": trained,
        "flags": _flags(episode, trained),
        "agents": sorted({agents.index(str(turn.get("agent", ""))) for turn in episode.get("turns", ())}),
    }


def _flags(episode: Mapping[str, Any], trained: bool) -> list[str]:
    limit = bool((episode.get("info") or {}).get("limit"))
    flags = ["failed"] if episode.get("failure") else ["limit reached"] if limit else []
    flags += ["truncated"] if episode.get("truncated") and not flags else []
    flags += ["discarded"] if episode.get("discarded") and not episode.get("failure") else []
    flags += [str(episode["source"])] if episode.get("source", "own") != "own" else []
    return flags + (["left out"] if not trained and not flags else [])
