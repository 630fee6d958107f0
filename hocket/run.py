"""Training from Python: `hocket.train(...)`, which returns a `Run`. Works in scripts and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hocket import tasks
from hocket.apps.use.run import Run
from hocket.recipe import Recipe
from hocket.rewards.functions import FunctionReward
from hocket.stages import Reward, Task
from hocket.train import trainer as training
from hocket.train.config import configure, task_of
from hocket.train.lessons import given_lessons, with_lessons
from hocket.train.pipeline import PlanPipeline, phase_runs
from hocket.train.settings import Config
from hocket.train.trainer import Observer

__all__ = ["Run", "Trainer", "train", "write_report"]


def write_report(run: Path) -> None:
    """Writes `report.html` into a run folder."""
    from hocket.apps.report import page  # Needed once, at the end: a run starts faster without it.

    page.write_report(run)


class Trainer(training.Trainer):
    """The trainer of `hocket.train.trainer` that also writes `report.html`."""

    def __init__(self, config: Config, **keywords: Any) -> None:
        super().__init__(config, **{"report": write_report, **keywords})


RewardLike = Reward | Callable[..., Any] | str


def train(
    task: str | Task | Iterable[Mapping[str, Any]] | Mapping[str, Iterable[Mapping[str, Any]]] | None = None,
    *,
    model: str = "nano",
    reward: RewardLike | Sequence[RewardLike] | None = None,
    recipe: str | Recipe | None = None,
    workflow: Any = None,
    steps: int | None = None,
    observer: Observer | None = None,
    **settings: Any,
) -> Run:
    """Trains a policy and returns the finished `Run`.

    Args:
        task: a name (`sums`, `reasoning-gym:NAME`, `gym:ENV`, `data.jsonl`, `FILE.py:NAME`), a `Task`, or rows of data:
            an iterable of mappings (such as a `datasets.Dataset`), or one per split by name (docs/data.md). None takes
            the recipe's task, else `sums`.
        model: `nano`, `smollm2`, a local `transformers` folder, `FILE.gguf` or a hub name.
        reward: `FILE.py:FUNCTION`, a function `(prompts, completions, completion_ids, **columns)` that returns a
            `list[float | None]`, a `Reward`, or several of these. None takes the task's verifiers.
        recipe: a name, a `Recipe`, or None for GRPO. workflow: a `Workflow` object or `FILE.py:NAME`.
        settings: any other setting by dotted key, `**{"rollout.samples": 16}`, with the same names as the flags. If a
            reward or a workflow is an object, lessons run only if the settings include `lessons`.

    Raises:
        ConfigurationError: when a setting is unknown, of a wrong type, or incompatible with the others.
    """
    chosen = [("model", model), *_flags(recipe, workflow, steps), *settings.items()]
    name = task_of(chosen) if task is None else task if isinstance(task, str) else ""
    source = tasks.find(name) if task is None or isinstance(task, str) else tasks.of(task)
    name = name or source.name
    pairs = [("task", name), *chosen]
    rewards = [] if reward is None else list(reward) if isinstance(reward, (list, tuple)) else [reward]
    named = tuple(item for item in rewards if isinstance(item, str))
    if named:
        pairs.append(("reward", named))
    objects = [_as_reward(item) for item in rewards if not isinstance(item, str)]
    flow = None if isinstance(workflow, str) else workflow
    keywords = {"rewards": objects, "workflow": flow, "observer": observer}
    if (task is None or objects or flow is not None) and "lessons" not in settings:
        pairs.append(("lessons", 0))
    pairs = list(with_lessons(pairs, name, source))
    sources = {name: source, **given_lessons(name, source)}
    runs = phase_runs(pairs, sources)
    if runs:
        return _run_phases(PlanPipeline.begin(runs, pairs), sources, keywords)
    trainer = Trainer(configure(pairs, source), task=source, **keywords)
    trainer.run()
    return Run.of(trainer)


def _run_phases(pipeline: PlanPipeline, sources: Mapping[str, Task], keywords: Mapping[str, Any]) -> Run:
    """Runs the phases of a plan, one after the other."""
    from hocket.apps.report.plan import write_plan_report

    with closing(pipeline.trainers(given=sources, report=write_report, **keywords)) as trainers:
        for trainer in trainers:
            trainer.run()
    write_plan_report(pipeline.folder)
    return Run.of(trainer, [pipeline.folder / run.name for run in pipeline.runs])


def _flags(recipe: str | Recipe | None, workflow: Any, steps: int | None) -> list[tuple[str, Any]]:
    flags: Mapping[str, Any] = {
        "recipe": recipe,
        "workflow": workflow if isinstance(workflow, str) else None,
        "steps": steps,
    }
    return [(name, value) for name, value in flags.items() if value is not None]


def _as_reward(reward: Any) -> Reward:
    if hasattr(reward, "weight") and hasattr(reward, "name"):
        return reward  # type: ignore[no-any-return]
    return FunctionReward(reward, name=reward.__name__)
