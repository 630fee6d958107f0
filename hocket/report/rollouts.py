"""The rollouts that a page holds: every group of some steps in numbers, and as conversations while there is room."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hocket.report.groups import Group, advantage_of, group_episodes, reward_of
from hocket.report.reading import Recorded

STEPS = 24
"""Steps shown at most: the first, the last, and others evenly between."""

ROOM = 6_000_000
"""Characters of conversations that a page holds at most, shared by its steps."""

ROWS = 64
"""Groups listed per step at most."""

Data = dict[str, Any]


def rollouts(run: Recorded) -> Data:
    """The data behind the page's rollouts."""
    steps = chosen(run.steps, STEPS)
    room = ROOM // max(len(steps), 1)
    found = [_step(step, group_episodes(run.episodes(step)), room) for step in steps]
    return {"steps": [step for step in found if step["groups"]]}


def chosen(steps: Sequence[int], most: int) -> list[int]:
    """At most `most` of the steps, evenly, the first and the last among them."""
    if len(steps) <= most:
        return list(steps)
    places = {round(number * (len(steps) - 1) / (most - 1)) for number in range(most)}
    return [steps[place] for place in sorted(places)]


def _step(step: int, groups: Sequence[Group], room: int) -> Data:
    """One step: groups in order; those that taught something get conversations first."""
    listed = list(groups[:ROWS])
    rows = [_row(group) for group in listed]
    for place in sorted(range(len(listed)), key=lambda place: not listed[place].signal):
        told = [_conversation(episode) for episode in listed[place].episodes]
        size = len(json.dumps(told))
        if size > room:
            continue
        room -= size
        rows[place]["shown"] = True
        for sample, conversation in zip(rows[place]["samples"], told, strict=True):
            sample.update(conversation)
    agents = dict.fromkeys(t.get("agent", "") for g in listed for e in g.episodes for t in e.get("turns", ()))
    return {"step": step, "groups": rows, "hidden": len(groups) - len(listed), "agents": list(agents)}


def _row(group: Group) -> Data:
    scenario: Mapping[str, Any] = group.episodes[0].get("scenario") or {}
    answer = scenario.get("answer")
    return {
        "number": group.number,
        "scenario": group.scenario,
        "prompt": _short(_prompt(scenario.get("prompt")), 300),
        "answer": None if answer is None else _short(str(answer), 300),
        "mean": _digits(group.mean),
        "std": _digits(group.std),
        "signal": group.signal,
        "why": group.why,
        "shown": False,
        "samples": [_sample(episode) for episode in group.episodes],
    }


def _sample(episode: Mapping[str, Any]) -> Data:
    kept = bool(episode.get("kept", True)) and not episode.get("discarded")
    flags = [name for name in ("truncated", "discarded") if episode.get(name)]
    flags += [str(episode["source"])] if episode.get("source", "own") != "own" else []
    flags += ["left out"] if not kept and not flags else []
    return {
        "reward": _digits(reward_of(episode)),
        "advantage": _digits(advantage_of(episode)),
        "kept": kept,
        "flags": flags,
    }


def _conversation(episode: Mapping[str, Any]) -> Data:
    said: set[tuple[str, str]] = set()
    turns = []
    for turn in episode.get("turns", ()):
        prompt = []
        for message in turn.get("prompt") or ():
            spoken = (str(message.get("role", "")), _content(message.get("content")))
            # A growing history repeats what was said; only what is new is shown.
            if spoken not in said and ("", spoken[1].strip()) not in said:
                prompt.append({"role": spoken[0], "content": spoken[1]})
            said.add(spoken)
        said.add(("", str(turn.get("text", "")).strip()))
        turns.append({**_turn(turn), "prompt": prompt})
    scores = {name: _digits(v) for name, v in (episode.get("scores") or {}).items() if isinstance(v, (int, float))}
    told: Data = {"turns": turns, "scores": scores}
    told |= {name: episode[name] for name in ("feedback", "failure") if episode.get(name)}
    return told


def _turn(turn: Mapping[str, Any]) -> Data:
    texts = turn.get("token_texts")
    found: Data = {
        "agent": turn.get("agent", ""),
        "role": turn.get("role", ""),
        "length": turn.get("length", len(turn.get("tokens") or ())),
        "finish": turn.get("finish"),
        "advantage": _column(turn.get("advantage")),
        "logp": _column(turn.get("logp")),
    }
    if turn.get("weight"):
        found["weight"] = _column(turn["weight"])
    if texts:
        return found | {"tokens": texts}
    if isinstance(turn.get("observation"), Mapping):  # a controller: its actions are the story
        actions = turn.get("actions") or turn.get("tokens") or []
        return found | {"actions": _short(" ".join(map(_action, actions)), 1200)}
    return found | {"text": turn.get("text", "")}


def _action(action: Any) -> str:
    if isinstance(action, list):
        return "(" + ", ".join(_action(part) for part in action) + ")"
    return f"{action:.2f}" if isinstance(action, float) else str(action)


def _column(values: Sequence[float | None] | None) -> Any:
    """Rounded values; a single number when all are the same, as advantages often are."""
    if not values:
        return None
    rounded = [_digits(value) for value in values]
    return rounded[0] if all(value == rounded[0] for value in rounded) else rounded


def _digits(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def _prompt(prompt: Any) -> str:
    if isinstance(prompt, list):
        return "\n".join(_content(message.get("content")) for message in prompt if isinstance(message, Mapping))
    return "" if prompt is None else str(prompt)


def _content(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
