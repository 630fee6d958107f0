"""Training from Python: `hocket.train(...)`, which returns a `Run`. Works in scripts and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hocket import tasks
from hocket.apps.live.callbacks import OnStep
from hocket.apps.live.driver import Driver
from hocket.apps.use.run import Run
from hocket.core.errors import ConfigurationError
from hocket.recipe import Recipe
from hocket.rewards.functions import FunctionReward
from hocket.stages import Reward, Task
from hocket.tasks.data import from_rows, is_rows
from hocket.train import trainer as training
from hocket.train.config import Pairs, applied, task_of, unused_suggestions
from hocket.train.config import configure as configuration
from hocket.train.known_names import COLUMNS, EVAL_TASK, resolved
from hocket.train.lessons import given_lessons, with_lessons
from hocket.train.pipeline import PlanPipeline, find_pipeline, phase_runs
from hocket.train.runfolder import find_run
from hocket.train.settings import Config
from hocket.train.task_settings import with_task_settings
from hocket.train.trainer import Observer
from hocket.train.trust import file_pairs

__all__ = ["Run", "Trainer", "configure", "train", "write_report"]


def write_report(run: Path) -> None:
    """Writes `report.html` into a run folder."""
    from hocket.apps.report import page  # Needed once, at the end: a run starts faster without it.

    page.write_report(run)


class Trainer(training.Trainer):
    """The trainer of `hocket.train.trainer` that also writes `report.html`."""

    def __init__(self, config: Config, **keywords: Any) -> None:
        super().__init__(config, **{"report": write_report, **keywords})


RewardLike = Reward | Callable[..., Any] | str


TaskLike = Task | Iterable[Mapping[str, Any]] | Mapping[str, Iterable[Mapping[str, Any]]]
"""A task, or rows of data: an iterable of mappings, such as a `datasets.Dataset`, or one per split by name."""


def train(
    task: str | Path | Config | TaskLike | None = None,
    *,
    model: str | None = None,
    reward: RewardLike | Sequence[RewardLike] | None = None,
    recipe: str | Recipe | None = None,
    workflow: Any = None,
    steps: int | None = None,
    resume: str | Path | None = None,
    progress: bool = True,
    on_step: OnStep | None = None,
    observer: Observer | None = None,
    **settings: Any,
) -> Run:
    """Trains a policy and returns the finished `Run`. Works in scripts, notebooks and running event loops.

    Args:
        task: a name (`sums`, `reasoning-gym:NAME`, `gym:ENV`, `data.jsonl`, `FILE.py:NAME`), a `Task`, or rows of data:
            an iterable of mappings (such as a `datasets.Dataset`), or one per split by name (docs/data.md). Also a
            `Config`, or a YAML file of settings, as `hocket train FILE.yaml` takes it; other arguments then replace
            settings of it. None takes the recipe's task, else `sums`.
        model: `nano` (the default), `smollm2`, a local `transformers` folder, `FILE.gguf` or a hub name.
        reward: `FILE.py:FUNCTION`, a function `(prompts, completions, completion_ids, **columns)` that returns a
            `list[float | None]`, a `Reward`, or several of these. None takes the task's verifiers.
        recipe: a name, a `Recipe`, or None for GRPO. workflow: a `Workflow` object or `FILE.py:NAME`.
        steps: training steps, None for the task's suggestion. With `resume`, the total number of steps.
        resume: a run by folder or name, to continue from its newest checkpoint. Its settings stay; only `steps` and
            `track` change. A task, rewards and a workflow that were objects are given again.
        progress: whether to show progress and messages: in a notebook as one output whose curves move, in a terminal as
            a live table, elsewhere as lines on stderr.
        on_step: a function `(step, metrics)`, called after the evaluation before training (step 0) and after every
            step. If it returns False, the run ends in order and its summary's `reason` is `stopped`.
        observer: receives all events of the run, see `hocket.train.trainer.Observer`.
        settings: `eval_task`, a task or rows to evaluate on; any other setting by dotted key,
            `**{"rollout.samples": 16}`, with the same names as the flags. If a reward or a workflow is an object,
            lessons run only if the settings include `lessons`.

    Raises:
        ConfigurationError: when a setting is unknown, of a wrong type, or incompatible with the others.
        HocketError: when the run fails. An exception in `on_step` or `observer` ends the run in order; the error names
            the callback and has the exception as its cause.
        KeyboardInterrupt: after Ctrl-C in the main thread. The run ends in order after the current step; the message
            says how to continue it. A second Ctrl-C stops at once.
    """
    objects, names = _rewards(reward)
    flow = None if isinstance(workflow, str) else workflow
    chosen = [*_flags(model, recipe, workflow, steps), *([("reward", names)] if names else []), *settings.items()]
    is_object = not (task is None or isinstance(task, (str, Path, Config)))
    driver = Driver(progress=progress, on_step=on_step, observer=observer, is_object=is_object)
    keywords = {"rewards": objects, "workflow": flow, "observer": driver.observer}
    if resume is not None:
        return _resume(driver, str(resume), task, chosen, keywords)
    if isinstance(task, Config):
        return _run(driver, _configured(applied(task, _own_keys(task, chosen)), keywords))
    pairs, name, source = _settings(task, chosen)
    if (objects or flow is not None) and "lessons" not in settings:
        pairs.append(("lessons", 0))
    # The task of a recipe is not named: it has lessons only where nothing is earned without them.
    pairs = list(with_lessons(pairs[1:] if task is None else pairs, name, source))
    sources = {name: source, **given_lessons(name, source)}
    runs = phase_runs(pairs, sources)
    if runs:
        return _run_phases(driver, PlanPipeline.begin(runs, pairs), given=sources, **keywords)
    return _run(driver, Trainer(configuration([("task", name), *pairs], source), task=source, **keywords))


def configure(
    task: str | Path | TaskLike | None = None,
    *,
    model: str | None = None,
    reward: str | Sequence[str] | None = None,
    recipe: str | Recipe | None = None,
    workflow: str | None = None,
    steps: int | None = None,
    **settings: Any,
) -> Config:
    """The `Config` that `hocket.train` makes of the same arguments, with what the task suggests, without lessons.

    `dataclasses.replace` changes it, `hocket.train(config)` and `hocket.Trainer(config)` run it.

    Raises:
        ConfigurationError: as `train`, and for a plan whose phases have settings of their own, which are several runs.
    """
    names = (reward,) if isinstance(reward, str) else tuple(reward or ())
    chosen = [*_flags(model, recipe, workflow, steps), *([("reward", names)] if names else []), *settings.items()]
    pairs, name, source = _settings(task, chosen)
    if phase_runs(pairs, {name: source}):
        raise ConfigurationError(
            "the phases of this plan have settings of their own, so each is a run; use hocket.train"
        )
    return configuration(pairs, source)


def _settings(task: str | Path | TaskLike | None, chosen: Pairs) -> tuple[list[tuple[str, Any]], str, Task]:
    """The settings of a run with its task's name, and that task."""
    if isinstance(task, Path):
        task = str(task)
    if isinstance(task, str) and task.endswith((".yaml", ".yml")):
        chosen = [*file_pairs(Path(task)), *chosen]
        task = None
    if isinstance(task, str):
        chosen = [("task", task), *chosen]
    chosen = resolved(chosen)
    if task is not None and not isinstance(task, str):
        return _of_object(task, chosen)
    chosen = with_task_settings(chosen)
    name = task_of(chosen)
    return [("task", name), *chosen], name, tasks.find(name)


def _of_object(task: TaskLike, chosen: Pairs) -> tuple[list[tuple[str, Any]], str, Task]:
    """The settings of a run on a task that is an object, where `eval_task` may be one too."""
    columns = {key.removeprefix(COLUMNS): value for key, value in chosen if key.startswith(COLUMNS)}
    source = from_rows(task, **columns) if columns and is_rows(task) else tasks.of(task)
    others = [value for key, value in chosen if key == EVAL_TASK]
    source = tasks.evaluated_on(source, others[-1]) if others else source
    left = [(key, value) for key, value in chosen if key != EVAL_TASK and not key.startswith(COLUMNS)]
    return [("task", source.name), *left], source.name, source


def _own_keys(config: Config, chosen: Pairs) -> Pairs:
    """Changes of a configuration by the library's own keys; what a name means depends on the recipe."""
    changed = any(key == "recipe" for key, _ in chosen)
    return resolved(chosen) if changed else resolved([("recipe", config.recipe), *chosen])[1:]


def _configured(config: Config, keywords: Mapping[str, Any]) -> Trainer:
    """The trainer of a configuration as it is. A message names suggestions of the task that it does without."""
    task = tasks.find(config.task)
    trainer = Trainer(config, task=task, **keywords)
    if rows := unused_suggestions(config, task):
        trainer.say(f"task {config.task} suggests {', '.join(rows)}; hocket.configure makes a Config with that")
    return trainer


def _run(driver: Driver, trainer: training.Trainer) -> Run:
    driver.run(trainer)
    return Run.of(trainer)


def _run_phases(driver: Driver, pipeline: PlanPipeline, **keywords: Any) -> Run:
    """Runs the phases of a plan, one after the other, until one is stopped."""
    from hocket.apps.report.plan import write_plan_report

    last = None
    with closing(pipeline.trainers(report=write_report, **keywords)) as trainers:
        for last in trainers:
            try:
                onward = driver.run(last, pipeline.folder, more=last.folder.name != pipeline.runs[-1].name)
            finally:
                write_plan_report(pipeline.folder)
            if not onward:
                break
    if last is None:
        raise ConfigurationError(f"all phases of {pipeline.folder} are finished; set steps to train the last one on")
    return Run.of(last, [pipeline.folder / run.name for run in pipeline.runs])


def _resume(driver: Driver, run: str, task: Any, chosen: Pairs, keywords: Mapping[str, Any]) -> Run:
    """Continues a run or a plan from its newest checkpoint."""
    forbidden = [key for key, _ in chosen if key not in ("steps", "runs", "track")]
    forbidden += ["task"] if isinstance(task, (str, Path, Config)) else []
    if forbidden:
        raise ConfigurationError(
            f"a resumed run keeps its settings: {forbidden[0]} cannot change (only steps, runs and track can)"
        )
    settings = {"runs": Config.runs, "steps": None, "track": (), **dict(chosen)}
    track = (settings["track"],) if isinstance(settings["track"], str) else tuple(settings["track"])
    changes = {"steps": settings["steps"], "track": track, **keywords}
    source = None if task is None else tasks.of(task)
    if plan := find_pipeline(run, settings["runs"]):
        sources = {} if source is None else {source.name: source, **given_lessons(source.name, source)}
        return _run_phases(driver, PlanPipeline.at(plan), given=sources, **changes)
    folder = find_run(run, settings["runs"])
    return _run(driver, training.resumed(folder, task=source, report=write_report, **changes))


def _flags(model: str | None, recipe: str | Recipe | None, workflow: Any, steps: int | None) -> list[tuple[str, Any]]:
    flow = workflow if isinstance(workflow, str) else None
    flags = {"model": model, "recipe": recipe, "workflow": flow, "steps": steps}
    return [(name, value) for name, value in flags.items() if value is not None]


def _rewards(reward: RewardLike | Sequence[RewardLike] | None) -> tuple[list[Reward], tuple[str, ...]]:
    """The rewards that are objects, and the names of the others."""
    rewards = [] if reward is None else list(reward) if isinstance(reward, (list, tuple)) else [reward]
    names = tuple(item for item in rewards if isinstance(item, str))
    return [_as_reward(item) for item in rewards if not isinstance(item, str)], names


def _as_reward(reward: Any) -> Reward:
    if hasattr(reward, "weight") and hasattr(reward, "name"):
        return reward  # type: ignore[no-any-return]
    return FunctionReward(reward, name=reward.__name__)
