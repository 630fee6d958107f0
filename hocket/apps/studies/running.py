"""One run of a study, from its plan to its numbers; what a worker process does."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from statistics import fmean
from typing import Any

from hocket import tasks
from hocket.apps.studies.folder import alone
from hocket.apps.studies.planning import StudyRun
from hocket.apps.studies.statistics import area
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.outcomes import SAMPLED
from hocket.core.packing import unique_turns
from hocket.stages import Player
from hocket.tasks.lessons import PREFIX
from hocket.train.aio import run_async
from hocket.train.checkpoint import checkpoint_of, weights_in
from hocket.train.config import configure, settled
from hocket.train.evaluate import EvaluationResult, evaluate_samples
from hocket.train.kinds import kind_of
from hocket.train.trainer import Trainer
from hocket.types import Assignment, Trajectory

TRIAL_STEPS = 2
"""Steps in which a rollout that decides itself how much to sample shows how much that is."""

LAST = 0.25
"""The share of a run, at its end, over which entropy is averaged."""


class Meter:
    """Counts the answers that a player samples for training, and their tokens.

    Evaluations do not count, nor what is given: demonstrations, references and recorded episodes.
    """

    def __init__(self) -> None:
        self.answers = 0
        self.tokens = 0
        self._running = True
        self._inside: ContextVar[bool] = ContextVar("inside", default=False)

    def attach(self, player: Player) -> None:
        """Counts what `player` plays, and what others made of it play, such as one with past selves in its seats.

        It gets a class of its own, so that hooks see the same player; a player that plays through another counts once.
        """
        meter, kind = self, type(player)

        async def play(self: Any, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
            if meter._inside.get():
                return await kind.play(self, assignments, key=key)
            outside = meter._inside.set(True)
            try:
                played = await kind.play(self, assignments, key=key)
            finally:
                meter._inside.reset(outside)
            meter._count(assignments, played)
            return played

        object.__setattr__(player, "__class__", type(kind.__name__, (kind,), {"play": play}))

    def _count(self, assignments: Sequence[Assignment], played: Sequence[Trajectory]) -> None:
        if not self._running:
            return
        sampled = [trajectory for trajectory in played if trajectory.source in SAMPLED]
        left = [branch for trajectory in sampled for branch in trajectory.branches]
        replays = [assignment.replay for assignment in assignments if assignment.replay is not None]
        again = {id(turn) for replay in replays for turn in replay.turns}
        turns = unique_turns([*sampled, *left])
        self.answers += len(sampled) + len(left)
        self.tokens += sum(_sampled(turn) for turn in turns if id(turn) not in again)

    def used(self, unit: str) -> int:
        """How many answers or tokens."""
        return self.tokens if unit == "tokens" else self.answers

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._running = False
        try:
            yield
        finally:
            self._running = True


def _sampled(turn: Any) -> int:
    """The decisions of a turn that were not imposed."""
    return len(turn.action) - (0 if turn.forced is None else int(turn.forced.sum()))


class MeteredTrainer(Trainer):
    """A trainer that counts what it samples and keeps no checkpoints: a run cut off is short, and run again.

    `measuring` are the processor seconds of evaluations.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.meter = Meter()
        self.measuring = 0.0
        self.meter.attach(self.parts.player)

    def evaluate(self, n: int | None = None) -> EvaluationResult:
        began = time.process_time()
        with self.meter.paused():
            result = super().evaluate(n)
        self.measuring += time.process_time() - began
        return result

    def save(self, *, best: bool = False) -> Path | None:
        return None


def perform(run: StudyRun, place: Path) -> dict[str, Any]:
    """Trains and measures; `place` is an empty folder's path for the time being. Returns the result as JSON data.

    Raises:
        HocketError: when the run cannot be made; other exceptions when it fails.
    """
    began, busy = time.monotonic(), time.process_time()
    pairs = {**dict(run.pairs), **_taught(run, place.parent)}
    if run.metered:
        pairs["steps"] = _steps(run, pairs, place)
        pairs["evaluation.every"] = max(1, pairs["steps"] // run.measure["points"])
    trainer = _trainer(pairs, place)
    try:
        outcome = _trained(trainer, run)
    finally:
        trainer.folder.release()
        shutil.rmtree(place, ignore_errors=True)
    return {
        **outcome,
        "seconds": time.process_time() - busy,
        "wall": time.monotonic() - began,
    }


def _trainer(pairs: dict[str, Any], place: Path) -> MeteredTrainer:
    shutil.rmtree(place, ignore_errors=True)
    source = tasks.find(str(pairs["task"]))
    settings = [*pairs.items(), ("runs", str(place.parent)), ("run", place.name)]
    return MeteredTrainer(configure(settings, source), task=source)


def _taught(run: StudyRun, work: Path) -> dict[str, Any]:
    """The model that runs after lessons begin with: taught once, by the first of them, and kept in `work`."""
    if not run.lessons:
        return {}
    pairs = dict(run.pairs)
    model = {key: value for key, value in pairs.items() if key in ("model", "threads")}
    wanted = {**model, "task": PREFIX + run.task, "recipe": "sft", "steps": run.lessons, "seed": 0}
    key = hashlib.blake2b(json.dumps(wanted, sort_keys=True).encode(), digest_size=10).hexdigest()
    folder = work / f"lessons-{key}"
    with alone(work, key):
        if not (folder / "summary.json").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            source = tasks.find(wanted["task"])
            settings = [*wanted.items(), ("runs", str(work)), ("run", folder.name)]
            Trainer(settled(configure(settings, source), source), task=source).run()
    (weights,) = weights_in(checkpoint_of(folder, "last")).values()
    return {"model": str(weights.resolve())}


def _steps(run: StudyRun, pairs: dict[str, Any], place: Path) -> int:
    """How many steps the budget lasts, by a trial that no later result depends on otherwise."""
    trial = {"evaluation.n": 1, "evaluation.between": 1, "evaluation.every": 0, "steps": TRIAL_STEPS + 1}
    trainer = _trainer({**pairs, **trial}, place)
    try:
        for _ in range(TRIAL_STEPS + 1):  # The first is the measurement before training.
            trainer.step()
    finally:
        trainer.folder.release()
    used = trainer.meter.used(run.unit)
    if not used:
        raise HocketError(f"{run.label} samples no {run.unit}, so it has no equal budget; leave it out")
    return max(1, round(run.budget * TRIAL_STEPS / used))


def _trained(trainer: MeteredTrainer, run: StudyRun) -> dict[str, Any]:
    """Steps until the budget or the steps are used up, then measures."""
    measure = trainer.measure.name
    meter, rows, every = trainer.meter, list[dict[str, Any]](), list[dict[str, Any]]()
    began, ended = time.process_time(), ""
    sampled = _pass(trainer, run) if run.shipped else {}
    while not trainer.done and not _spent(trainer, run) and not ended:
        every.append(trainer.step())
        seconds = time.process_time() - began - trainer.measuring
        rows.append({**_told(every[-1], measure), "answers": meter.answers, "tokens": meter.tokens, "seconds": seconds})
        if run.limit and seconds > run.limit and not trainer.done:
            ended = f"{trainer.progress.step} of {trainer.total_steps} steps in {run.limit:g} s"
    if not trainer.done:  # The budget ended it early.
        final = trainer.evaluate()
        rows[-1] |= {"value": final.success, "eval_length": final.length, "low": final.low, "high": final.high}
    values = [(min(1.0, row[USED[run.unit]] / run.budget), row["value"]) for row in rows if row["value"] is not None]
    last, passed = rows[-max(1, round(LAST * len(rows))) :], _pass(trainer, run)
    return {
        "measure": measure,
        "steps": trainer.progress.step,
        "before": rows[0]["value"],
        "final": rows[-1]["value"],
        "area": area(values),
        "answers": meter.answers,
        "tokens": meter.tokens,
        "length": rows[-1]["eval_length"],
        "entropy": _mean([row["entropy"] for row in last]),
        "pass": {str(k): value for k, (value, _, _) in passed.items()},
        "sampled": [list(of[1]) for of in (sampled, passed)] if sampled and passed else None,
        "share": trainer.measure.share,
        "gradient": max((row["gradient"] for row in rows if row["gradient"] is not None), default=None),
        "diverged": dict(trainer.lookout.since),
        "metrics": _ends(every),
        "ended": ended,
        "rows": rows,
    }


USED = {"steps": "step", "answers": "answers", "tokens": "tokens"}
"""By the unit of a budget, the column that counts it."""

NORM = re.compile(r"(?!eval/)(.*/)?gradient/norm")
ASIDE = re.compile(r"(time|memory|machine|watch|agreement|cache|idle|throughput)/|.*/time/|step$|eval/(low|high|n)$")
"""Metrics that say nothing of what was learnt."""


def _ends(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Of every metric its mean over its first and its last quarter of steps; of measurements the ends."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            known = isinstance(value, (int, float)) and math.isfinite(value)
            if known and not ASIDE.match(name) and (row["step"] or name.startswith("eval/")):
                columns.setdefault(name, []).append(float(value))
    ends = {}
    for name, values in columns.items():
        part = 1 if name.startswith("eval/") else max(1, round(LAST * len(values)))
        ends[name] = (float(f"{fmean(values[:part]):.4g}"), float(f"{fmean(values[-part:]):.4g}"))
    return ends


def _spent(trainer: MeteredTrainer, run: StudyRun) -> bool:
    """Whether another step like those before would end further from the budget than the run is now."""
    if run.unit == "steps":
        return False
    used, steps = trainer.meter.used(run.unit), trainer.progress.step
    return steps > 0 and used + used / steps / 2 > run.budget


def _told(row: dict[str, Any], measure: str) -> dict[str, Any]:
    """What a study keeps of a step."""
    names = {"value": f"eval/{measure}", "eval_length": "eval/length", "reward": "reward/mean"}
    names |= {"low": "eval/low", "high": "eval/high"}
    figures = {name: row.get(key) for name, key in names.items()}
    norms = [value for name, value in row.items() if NORM.fullmatch(name) and value is not None]
    figures["gradient"] = max(norms, default=None)
    return {"step": row["step"], **figures, "entropy": row.get("entropy"), "length": row.get("length/mean")}


def _pass(trainer: MeteredTrainer, run: StudyRun) -> Mapping[int, tuple[float, float, float]]:
    """pass@k of the policy by k with its interval, from sampled answers."""
    samples = run.measure["samples"]
    if not samples or not kind_of(trainer.task).measure.share:
        return {}
    parts = trainer.parts
    work = evaluate_samples(
        trainer.task,
        parts.player,
        parts.rewards,
        n=run.measure["problems"],
        samples=samples,
        decoding=parts.decoding,
        key=parts.key.derive("evaluation"),
    )
    began = time.process_time()
    with trainer.meter.paused():
        outcome = run_async(work)
    trainer.measuring += time.process_time() - began
    return outcome


def _mean(values: Sequence[Any]) -> float | None:
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if known else None
