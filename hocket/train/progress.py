"""The progress of a run, and its summary."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NotRequired, TypedDict

from hocket.core.media import words_of
from hocket.core.signals import RIGHT
from hocket.stages import State
from hocket.train.evaluate import EvaluationResult
from hocket.train.kinds.kind import Kind, Measure
from hocket.train.kinds.ways import GREEDY
from hocket.train.settings import Config

SHOWN = 8
"""Answers shown before and after training."""


@dataclass
class Progress:
    """The progress of a run; part of every checkpoint.

    Attributes:
        step: steps done. phase: the phase they ended in. elapsed: seconds of training over all sessions.
        before, after: summaries of the first and the latest evaluation. best: the best one and its step.
        shown: some problems and their answers before training; answers: those after.
        heard: the last step with an opinion, by who had it, see `hocket.train.silences`.
    """

    step: int = 0
    phase: int = 0
    elapsed: float = 0.0
    before: State = field(default_factory=dict)
    after: State = field(default_factory=dict)
    best: State = field(default_factory=dict)
    shown: list[Any] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    heard: dict[str, int] = field(default_factory=dict)

    def evaluated(self, result: EvaluationResult, step: int, *, last: bool) -> None:
        """Takes in an evaluation: that of step 0, the `last` one, or one on the way."""
        entry = {**result.summary(), "step": step}
        self.after = entry
        if step == 0:
            self.before = entry
            self.shown = in_words(result)
        elif last:
            self.answers = in_words(result)
        # There is no checkpoint of step 0, so the best is one of those after it.
        sign = -1.0 if result.measure.falls else 1.0
        if step and (not self.best or sign * result.leading >= sign * self.best["success"]):
            self.best = {"success": result.leading, "step": step}


class AnswerSample(TypedDict):
    """A problem with the policy's answers before and after training; None where nothing tells right from wrong."""

    prompt: str
    answer: str | None
    before: str
    after: str
    right_before: bool | None
    right_after: bool | None


class RunSummary(TypedDict):
    """The content of `summary.json`.

    `before` and `after` are evaluations: the measure by its name (`accuracy`, `return`), its 95 % interval `low` to
    `high`, the number of scenarios `n`, the step, and traits of answers. `gain` is `after` minus `before`. `reason`
    is how the run ended: `finished`, `interrupted`, `stopped`, `failed`, `unsaved` or `unfinished`.
    """

    name: str | None
    task: str
    recipe: str
    model: str
    seed: int
    steps: int
    seconds: float
    measure: str
    leads: str
    before: dict[str, Any]
    after: dict[str, Any]
    gain: float | None
    best: dict[str, Any]
    samples: list[AnswerSample]
    reason: str
    adapters: NotRequired[dict[str, Any]]
    watch: NotRequired[dict[str, int]]
    notes: NotRequired[list[str]]


def summary(
    config: Config, kind: Kind, progress: Progress, reason: str, measured: Measure, leads: str = GREEDY
) -> RunSummary:
    """What `summary.json` holds; `measured` is what evaluation averages.

    The measure itself, its interval and the gain are of greedy play; `sampled` in the evaluations is of sampled play,
    and `leads` the way that the task names. The best is by that.
    """
    measure = measured.name
    before, after = progress.before.get(measure), progress.after.get(measure)
    return {
        "name": config.run,
        "task": config.task,
        "recipe": config.method,
        "model": kind.describe(config),
        "seed": config.seed,
        "steps": progress.step,
        "seconds": progress.elapsed,
        "measure": measure,
        "leads": leads,
        "before": progress.before,
        "after": progress.after,
        "gain": None if before is None or after is None else after - before,
        "best": progress.best,
        "samples": [
            {
                "prompt": first["prompt"],
                "answer": first["answer"],
                "before": first["text"],
                "after": last["text"],
                "right_before": first["right"],
                "right_after": last["right"],
            }
            for first, last in zip(progress.shown, progress.answers, strict=False)
        ],
        "reason": reason,
    }


def in_words(result: EvaluationResult) -> list[State]:
    """The first problems of an evaluation and their answers; none if there are no texts."""
    return [
        {
            "prompt": "\n".join(words_of(message["content"]) for message in trajectory.scenario.messages),
            "answer": None if trajectory.scenario.answer is None else str(trajectory.scenario.answer),
            "text": trajectory.text,
            "right": None if success is None else success >= RIGHT,
        }
        for trajectory, success in zip(result.trajectories[:SHOWN], result.each or repeat(None), strict=False)
        if trajectory.scenario.prompt is not None
    ]
