"""Sampled answers in short: of each recorded episode its prompt, its answer, and what it earned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hocket.core import sums
from hocket.core.media import words_of

Episode = Mapping[str, Any]

ROWS = 64
"""Rows of a table of answers at most."""


@dataclass(frozen=True)
class SampledAnswer:
    """One episode as a row of a table.

    Attributes:
        group, sample: its numbers within the step. prompt: as text. answer: its text; of several turns each with
            its agent; of a controller how long it acted. expected: the right answer, where the scenario has one.
        reward: in total. scores: by name. advantage: the mean over decisions. failure: why it failed.
    """

    group: int
    sample: int
    prompt: str
    answer: str
    expected: str | None
    reward: float | None
    scores: Mapping[str, float | None]
    advantage: float | None
    failure: str | None


def sampled_answers(episodes: Iterable[Episode]) -> list[SampledAnswer]:
    """The episodes of a step, as `hocket.train.episodes` writes them, in their order."""
    return [_answer(episode) for episode in episodes]


def table_of(step: int, answers: Sequence[SampledAnswer]) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of a table of the first `ROWS` answers; every score is a column `score/NAME`."""
    shown = answers[:ROWS]
    names = sorted({name for answer in shown for name in answer.scores})
    head = ["step", "group", "sample", "prompt", "answer", "expected", "reward"]
    columns = [*head, *(f"score/{name}" for name in names), "advantage", "failure"]
    rows: list[list[Any]] = [
        [*(step, a.group, a.sample, a.prompt, a.answer, a.expected, a.reward)]
        + [a.scores.get(name) for name in names]
        + [a.advantage, a.failure]
        for a in shown
    ]
    return columns, rows


def _answer(episode: Episode) -> SampledAnswer:
    scenario = episode.get("scenario") or {}
    expected = scenario.get("answer")
    return SampledAnswer(
        group=int(episode.get("group") or 0),
        sample=int(episode.get("sample") or 0),
        prompt=prompt_text(scenario.get("prompt")),
        answer=_text(episode.get("turns") or ()),
        expected=None if expected is None else str(expected),
        reward=reward_of(episode),
        scores={name: _total(score) for name, score in (episode.get("scores") or {}).items()},
        advantage=advantage_of(episode),
        failure=episode.get("failure"),
    )


def _text(turns: Sequence[Mapping[str, Any]]) -> str:
    if not any(turn.get("text") for turn in turns):
        length = sum(int(turn.get("length") or 0) for turn in turns)
        return f"({length} {'step' if length == 1 else 'steps'})" if _acted(turns) else ""
    if len(turns) == 1:
        return str(turns[0]["text"])
    return "\n".join(f"{turn.get('agent', '')}: {turn.get('text') or ''}" for turn in turns)


def _acted(turns: Sequence[Mapping[str, Any]]) -> bool:
    """Whether turns are those of controllers, whose observations are numbers in rows."""
    return any(isinstance(turn.get("observation"), Mapping) for turn in turns)


def _total(score: Any) -> float | None:
    """A score as one number: one per turn or decision summed up."""
    values = _numbers(score)
    return sums.total(values) if values else None


def _numbers(score: Any) -> list[float]:
    return [value for value in (score if isinstance(score, list) else [score]) if isinstance(value, (int, float))]


def reward_of(episode: Episode) -> float | None:
    """The total reward of an episode; for one that was discarded, the sum of its scores."""
    if episode.get("reward") is not None:
        return float(episode["reward"])
    return _total([value for score in (episode.get("scores") or {}).values() for value in _numbers(score)])


def advantage_of(episode: Episode) -> float | None:
    """The mean advantage over an episode's decisions; None when nothing was credited."""
    advantages = [a for turn in episode.get("turns", ()) for a in turn.get("advantage") or () if a is not None]
    return sums.mean(advantages) if advantages else None


def prompt_text(prompt: Any) -> str:
    """A scenario's prompt as text; of a conversation the contents of its messages."""
    if isinstance(prompt, list):
        return "\n".join(content(message.get("content")) for message in prompt if isinstance(message, Mapping))
    return "" if prompt is None else prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)


def content(value: Any) -> str:
    """A message's content as text; of a list of parts, the texts."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and all(isinstance(part, Mapping) for part in value):
        return words_of(value)
    return json.dumps(value, ensure_ascii=False)
