"""`hocket eval`: greedy and sampled success of a run or of a model, with intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hocket import tasks
from hocket.apps.report.lm_eval_results import write_results
from hocket.core import sums
from hocket.core.answers import add_answers
from hocket.core.errors import ConfigurationError
from hocket.core.intervals import mean_interval
from hocket.core.media import reader_of
from hocket.core.worlds import BestValue
from hocket.stages import Reward, Task
from hocket.train import config as configuration
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts, take_up
from hocket.train.checkpoint import checkpoint_of, weights_in
from hocket.train.evaluate import EvaluationResult, evaluate_samples
from hocket.train.kinds import kind_of
from hocket.train.kinds.ways import SAMPLED, leads_of
from hocket.train.kinds.words import WORDS, interval_of, recorded_rows
from hocket.train.loop import RunContext
from hocket.train.machine import Machine
from hocket.train.search_evaluation import sought, way_of
from hocket.train.settings import Config
from hocket.train.trust import run_pairs
from hocket.train.unseen_scenarios import measured
from hocket.types import Scenario

if TYPE_CHECKING:
    from hocket.policies.family import Precision


NEGLIGIBLE = 1e-6
"""By how much of its size a success may exceed its oracle's, for rounding."""


@dataclass(frozen=True)
class EvaluationSubject:
    """A run or a model, ready to be measured: on the task called `name`, from `checkpoint` where it is a run."""

    name: str
    task: Task
    config: Config
    parts: RunContext
    checkpoint: Path | None
    precision: Precision


def load(
    source: Path,
    pairs: Sequence[tuple[str, Any]],
    *,
    task: str | Task | None,
    which: str | Path,
    trust: bool = False,
    rewards: Sequence[Reward] = (),
    workflow: Any = None,
) -> EvaluationSubject:
    """Reads what stands in a run folder or a model's, and takes up what the run learnt in.

    `which` is `last`, `best` or the folder of a checkpoint. `task`, `rewards` and `workflow` may be objects, which a
    configuration cannot hold.

    Raises:
        ConfigurationError: when it does not fit the task, or without `trust` names code of others.
    """
    is_run = (source / "config.yaml").is_file()
    settings = run_pairs(source, trust=trust) if is_run else [("model", str(source))]
    if task is None or isinstance(task, str):
        name = task or configuration.task_of(settings)
        found_task = tasks.find(name)
    else:
        name, found_task = task.name, task
    settings = [pair for pair in settings if pair[0] != "task"] + [("task", name), *pairs]
    config = configuration.configure(settings, found_task)
    kind = kind_of(found_task, config)
    checkpoint = checkpoint_of(source, which) if is_run else None
    recorded = source / "machine.json"
    if is_run and recorded.is_file():
        machine = Machine.recorded(recorded)  # What a run learnt in is part of what it learnt.
    else:
        machine = Machine.chosen(config, kind.models(config))
    machine.apply()
    changes: dict[str, Any] = {"rewards": rewards, "workflow": workflow, "precision": machine.precision}
    parts = build_parts(config, found_task, weights=weights_in(checkpoint), **changes)
    if checkpoint is not None:
        take_up(config, parts, checkpoint)
    return EvaluationSubject(name, found_task, config, parts, checkpoint, machine.precision)


def measure_subject(subject: EvaluationSubject, n: int) -> EvaluationResult:
    """Greedy success on the first `n` unseen scenarios, and sampled beside it where the task names a way of playing."""
    parts, both = subject.parts, leads_of(subject.task) is not None
    return run_async(measured(parts, parts.rewards, n=n, key=parts.key.derive("evaluation"), both=both))


def evaluate_run(
    source: Path,
    pairs: Sequence[tuple[str, Any]],
    *,
    n: int,
    samples: int,
    task: str | None,
    which: str,
    answers: Path | None = None,
    trust: bool = False,
    blind: bool = False,
    results: Path | None = None,
) -> dict[str, Any]:
    """Success on `n` unseen scenarios, greedy, and pass@k of `samples` sampled answers when above 0.

    `source` is a run folder (its `last` or `best` checkpoint, its task unless `task` says otherwise) or a model's.
    Where the task names a way of playing, sampled success stands beside, the one that it names first.
    Greedy answers are added to the file `answers`, see `hocket.core.answers`. With `trust` a run that others wrote may
    run the code that it names. `blind` shows a grey picture in place of each, and plays silence in place of
    sounds. The files of lm-evaluation-harness are written into the folder `results`.
    """
    loaded = load(source, pairs, task=task, which=which, trust=trust)
    if blind:
        _blindfold(loaded)
    name, found_task, config, parts = loaded.name, loaded.task, loaded.config, loaded.parts
    kind, checkpoint = kind_of(found_task, config), loaded.checkpoint
    rewards, measure = parts.rewards, parts.measure
    key = parts.key.derive("evaluation")
    common: dict[str, Any] = {"n": n, "decoding": config.decoding, "key": key}
    greedy = measure_subject(loaded, n)
    if answers is not None:
        add_answers(answers, found_task, greedy.trajectories, greedy.each)
    title = f"{'blind ' * blind}greedy {measure.name}" if measure.answers else WORDS.get(measure.name, measure.name)
    rows: list[tuple[str, float, float, float]] = [(title, greedy.success, greedy.low, greedy.high)]
    if (drawn := greedy.sampled) is not None:
        rows.append((f"{SAMPLED} {measure.name}", drawn.success, drawn.low, drawn.high))
        rows = rows[::-1] if greedy.leads == SAMPLED else rows
    rows += _gaps(found_task, greedy)
    listed = recorded_rows(greedy.recorded, greedy.recorded, apart=measure.name)
    ends = {metric: interval_of(greedy.recorded, metric) for metric, _, share in listed if share}
    rows += [(words, greedy.recorded[metric], *ends_of) for metric, words, _ in listed if (ends_of := ends.get(metric))]
    tries: Mapping[int, tuple[float, float, float]] = {}
    if samples:
        if not measure.answers:
            raise ConfigurationError(
                "--samples is for answers that are right or wrong, and nothing tells that here; drop it"
            )
        if not measure.share:
            raise ConfigurationError(
                f"--samples is for tasks with right and wrong answers; drop it for {kind.name} tasks"
            )
        tries = run_async(evaluate_samples(found_task, parts.player, rewards, samples=samples, **common))
        rows += [(f"pass@{k}", *values) for k, values in tries.items()]
    place = str(source if checkpoint is None else checkpoint)
    written = {}
    if results is not None:
        written = {"results": str(write_results(results, greedy, found_task, config, place, tries))}
    return {
        **written,
        "source": place,
        "task": name,
        "n": greedy.n,
        **({"blind": True} if blind else {}),
        "rows": rows,
        "traits": {
            "mean length" if kind.textual else "steps per episode": greedy.length,
            **{f"share {'with ' if kind.textual else ''}{trait}": value for trait, value in greedy.traits.items()},
            **{words: greedy.recorded[metric] for metric, words, share in listed if not share},
        },
        "recorded": dict(greedy.recorded),
        "decoding": dataclasses.asdict(config.decoding),
    }


def _blindfold(subject: EvaluationSubject) -> None:
    """Has the models read grey pictures and silence.

    Raises:
        ConfigurationError: when none of them reads pictures or sounds.
    """
    actors = getattr(subject.parts.player, "actors", {}).values()
    readers = [reader for actor in actors if (reader := reader_of(actor.chat.tokenizer)) is not None]
    if not readers:
        raise ConfigurationError(
            f"--blind is for models that read pictures or sounds; {subject.config.model} reads none: drop it"
        )
    for reader in readers:
        reader.blind = True


def _gaps(task: Task, result: EvaluationResult) -> list[tuple[str, float, float, float]]:
    """Rows for the best success of the same scenarios and for what greedy play lacks of it, where the task knows it.

    Raises:
        ConfigurationError: where a policy did better than the oracle says that anything can.
    """
    oracle: Callable[[Scenario], BestValue | None] | None = getattr(task, "oracle", None)
    known = [] if oracle is None else [oracle(trajectory.scenario) for trajectory in result.trajectories]
    best = [value for value in known if value is not None]
    if not best or len(best) < len(result.each):
        return []
    for trajectory, value, success in zip(result.trajectories, best, result.each, strict=True):
        if success > value.value + NEGLIGIBLE * max(1.0, abs(value.value)):
            raise ConfigurationError(
                f"task {task.name}: scenario {trajectory.scenario.id} earned {success:.6g}, and its oracle says that "
                f"nothing earns more than {value.value:.6g}; the world or its oracle is wrong"
            )
    word = "best" if all(value.exact for value in best) else "bound"
    gaps = [value.value - success for value, success in zip(best, result.each, strict=True)]
    mean = sums.mean([value.value for value in best])
    return [(f"the {word}", mean, math.nan, math.nan), (f"gap to the {word}", sums.mean(gaps), *mean_interval(gaps))]


def search_run(
    source: Path,
    pairs: Sequence[tuple[str, Any]],
    search: str,
    *,
    n: int,
    task: str | None,
    which: str,
    trust: bool = False,
) -> dict[str, Any]:
    """What the value that a run learnt is worth at inference, on `n` unseen scenarios (`train/search_evaluation.py`).

    Raises:
        ConfigurationError: for a search that there is not, a task without answers, or a run whose recipe fits no value.
    """
    way = way_of(search)
    loaded = load(source, pairs, task=task, which=which, trust=trust)
    measure = loaded.parts.measure
    if not (measure.answers and kind_of(loaded.task, loaded.config).textual):
        raise ConfigurationError(f"--search is for tasks that are answered in words; drop it for {loaded.name}")
    searches = run_async(sought(loaded.parts, way, n=n, key=loaded.parts.key.derive("evaluation")))
    rows = [(tried.title, sums.mean(tried.success), *measure.interval(tried.success)) for tried in searches]
    return {
        "source": str(loaded.checkpoint or source),
        "task": loaded.name,
        "n": len(searches[0].success),
        "search": search,
        "rows": rows,
        "traits": {f"messages, {tried.title}": tried.messages for tried in searches},
        "failures": {tried.title: list(tried.failures) for tried in searches if tried.failures},
        "decoding": dataclasses.asdict(loaded.config.decoding),
    }
