"""`hocket eval --against`: whose answers to the same unseen scenarios are better."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hocket.apps.report.evaluation import EvaluationSubject, load
from hocket.apps.report.win_rate import win_rates
from hocket.core.errors import ConfigurationError
from hocket.core.notices import say
from hocket.rewards.judging import Judge, compared, prompt_text
from hocket.rewards.wins import RULE
from hocket.train import config as configuration
from hocket.train.aio import run_async
from hocket.train.evaluate import EvaluationResult, evaluate
from hocket.train.judges import RULE as BY_RULE
from hocket.train.judges import asking, judge_of
from hocket.train.kinds import kind_of
from hocket.types import Decoding

Verdict = float | None

WORDS = {1.0: "win", 0.0: "loss", 0.5: "tie"}

SHOWN = 2
"""Examples of each verdict."""


def compare_answers(
    source: Path,
    other: Path,
    pairs: Sequence[tuple[str, Any]],
    *,
    n: int,
    judge: str | None = None,
    task: str | None = None,
    which: str = "last",
    temperature: float = 0.0,
    trust: bool = False,
) -> dict[str, Any]:
    """How often the answers of `source` win over those of `other`, on the first `n` unseen scenarios of a task.

    Both are run folders or models, and decode as `source` is configured, by `temperature`. The judge compares in both
    orders (`hocket.rewards.compared`) and the same answers tie unasked; without one the task's verdicts on both are
    compared. Scenarios without a verdict are left out. Lengths are in characters of the answers.

    Returns:
        One JSON document, see docs/judges.md.

    Raises:
        ConfigurationError: for runs of different tasks unless `task` is named, for a task that is not in words, or
            that has no verdicts where there is no judge, for a judge that calls everything a tie, and without `trust`
            for runs that name code of others.
    """
    name = task or _task_of(source, other)
    common: dict[str, Any] = {"task": name, "n": n, "which": which, "judge": judge, "temperature": temperature}
    common["trust"] = trust
    first, left = _answers(source, [*pairs, ("judge", judge or BY_RULE)], **common)
    second, right = _answers(other, [*pairs, ("judge", BY_RULE)], **common, decoding=first.config.decoding)
    texts = [(a.answer, b.answer) for a, b in zip(left.trajectories, right.trajectories, strict=True)]
    prompts = [prompt_text(trajectory.scenario) for trajectory in left.trajectories]
    if judge is None:
        preferences: list[Verdict] = [
            (float(a > b) + float(a >= b)) / 2 for a, b in zip(left.each, right.each, strict=True)
        ]
    else:
        comparer = judge_of(first.config, None, first.precision)
        assert comparer is not None
        preferences = _judged(comparer, prompts, texts)
        _check_tells(judge, preferences, texts)
    known = [number for number, verdict in enumerate(preferences) if verdict is not None]
    verdicts = [float(preferences[number] or 0.0) for number in known]
    longer = [float(len(texts[number][0]) - len(texts[number][1])) for number in known]
    rate, controlled = win_rates(verdicts, longer, first.parts.key.derive("win rate"))
    return {
        "source": str(first.checkpoint or source),
        "against": str(second.checkpoint or other),
        "task": name,
        "judge": judge or "task",
        "temperature": temperature,
        "n": len(known),
        "unanswered": len(preferences) - len(known),
        "win_rate": dataclasses.asdict(rate),
        "length_controlled": dataclasses.asdict(controlled),
        "wins": verdicts.count(1.0),
        "ties": verdicts.count(0.5),
        "losses": verdicts.count(0.0),
        "characters": {
            "source": sum(len(a) for a, _ in texts) / len(texts),
            "against": sum(len(b) for _, b in texts) / len(texts),
        },
        "examples": _examples(preferences, prompts, texts),
    }


def _task_of(source: Path, other: Path) -> str:
    """The task that both were trained on; a model has none of its own."""
    runs = [place for place in (source, other) if (place / "config.yaml").is_file()]
    names = [configuration.task_of(configuration.read_pairs(place / "config.yaml")) for place in runs]
    if not names:
        raise ConfigurationError(f"{source} and {other} are models, so the task to compare them on is missing: --task")
    if len(set(names)) > 1:
        raise ConfigurationError(
            f"{source} was trained on {names[0]} and {other} on {names[1]}; name the task to compare them on by --task"
        )
    return names[0]


def _answers(
    source: Path,
    pairs: Sequence[tuple[str, Any]],
    *,
    task: str,
    n: int,
    which: str,
    judge: str | None,
    temperature: float,
    trust: bool,
    decoding: Decoding | None = None,
) -> tuple[EvaluationSubject, EvaluationResult]:
    if not (source / "config.yaml").is_file():
        pairs = [("recipe", "sft"), *pairs]  # A model has none, and this one asks for no reward.
    loaded = load(source, pairs, task=task, which=which, trust=trust)
    parts = loaded.parts
    if not kind_of(loaded.task, loaded.config).textual:
        raise ConfigurationError(f"answers in words are compared, and task {task} has none; drop --against")
    if parts.lead.recipe.objective.held_out is not None:
        raise ConfigurationError(f"{source} is a scorer, which answers nothing; compare runs that answer")
    if judge is None and not (parts.rewards or not parts.needs_reward):
        raise ConfigurationError(
            f"nothing tells which answers to {task} are better; name a judge: --judge MODEL, RUN, http://HOST:PORT/v1 "
            "or FILE.py:FUNCTION"
        )
    rewards = [] if judge is not None else [reward for reward in parts.rewards if not any(asking([reward]))]
    played = run_async(
        evaluate(
            loaded.task,
            parts.player,
            rewards,
            n=n,
            decoding=decoding or loaded.config.decoding,
            key=parts.key.derive("evaluation"),
            temperature=temperature,
        )
    )
    for problem in played.problems if judge is None else ():
        say(f"evaluation: {problem}")
    return loaded, played


def _judged(judge: Judge, prompts: Sequence[str], texts: Sequence[tuple[str, str]]) -> list[Verdict]:
    """A verdict per scenario; the same texts are a tie."""
    different = [number for number, (a, b) in enumerate(texts) if a != b]
    answers = compared(judge, [(RULE.format(prompt=prompts[number]), *texts[number]) for number in different])
    preferences: list[Verdict] = [0.5] * len(texts)
    for number, verdict in zip(different, answers, strict=True):
        preferences[number] = verdict
    return preferences


def _check_tells(judge: str, preferences: Sequence[Verdict], texts: Sequence[tuple[str, str]]) -> None:
    """Refuses a judge that has no opinion on any two different answers."""
    answers = [verdict for verdict, (a, b) in zip(preferences, texts, strict=True) if a != b and verdict is not None]
    if any(a != b for a, b in texts) and not answers:
        raise ConfigurationError(f"judge {judge} has answered nothing that names A, B or tie in both orders")
    if answers and all(verdict == 0.5 for verdict in answers):
        raise ConfigurationError(
            f"judge {judge} calls all {len(answers)} pairs of different answers a tie, perhaps since it goes by their "
            "order, so there is no win rate; choose another judge"
        )


def _examples(
    preferences: Sequence[Verdict], prompts: Sequence[str], texts: Sequence[tuple[str, str]]
) -> list[dict[str, str]]:
    """The first scenarios of each verdict on different answers."""
    chosen = []
    for verdict, word in WORDS.items():
        numbers = [
            number
            for number, preference in enumerate(preferences)
            if preference == verdict and texts[number][0] != texts[number][1]
        ]
        for number in numbers[:SHOWN]:
            a, b = texts[number]
            chosen.append({"verdict": word, "prompt": prompts[number], "source": a, "against": b})
    return chosen
