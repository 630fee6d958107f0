"""`hocket summarise`: what the policies of control runs are like, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hocket.apps.report.evaluation import EvaluationSubject, load
from hocket.core.components import replaced_all
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.control.sysllm.captions import Log
from hocket.methods.control.sysllm.captions_task import in_words
from hocket.methods.control.sysllm.summaries import SUMMARISERS, Ask, Summariser, Summary, SummaryMethod
from hocket.rewards.judging import Judge, said
from hocket.tasks.gym import GymTask
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.judges import RULE, judge_of
from hocket.types import Assignment

if TYPE_CHECKING:
    from hocket.stages import Task


@dataclass(frozen=True)
class SummarySettings:
    """What `hocket summarise` is asked for.

    Attributes:
        method: a summariser's name. pairs: its settings. model: who writes: a language model as `--judge` takes one, or
            `rule`, which counts. episodes: that are read. budget: the most decisions of each. longest: tokens of an
            answer. agent: whose, in a joint world; the first. temperature: of the policy, 0 for its likeliest actions.
    """

    method: str = "sysllm"
    model: str = RULE
    episodes: int = 50
    budget: int | None = None
    longest: int = 256
    agent: str | None = None
    temperature: float = 0.0
    pairs: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for name in ("episodes", "budget", "longest"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ConfigurationError(f"{name} = {getattr(self, name)}: it must be at least 1")
        if self.temperature < 0:
            raise ConfigurationError(f"temperature = {self.temperature}: must be at least 0")


def summarised(
    runs: Sequence[Path], settings: SummarySettings, *, trust: bool = False
) -> tuple[list[Log], list[Summary], tuple[int, ...]]:
    """The records of control runs, a summary of each, and of which run a blind reader takes each to be.

    The reader is shown as many other episodes of each run, all of one task; of a single run there is nothing to tell.

    Raises:
        ConfigurationError: for runs that are not control, or of several tasks, or without `trust` name code of others.
    """
    method = cast(SummaryMethod, SUMMARISERS.find(settings.method))
    summariser: Summariser = method.summariser
    summariser = replaced_all(summariser, dict(settings.pairs), "method") if settings.pairs else summariser
    loaded = [load(run, (), task=None, which="last", trust=trust) for run in runs]
    if len({one.name for one in loaded}) > 1 and len({_world(one.task) for one in loaded}) > 1:
        names = ", ".join(dict.fromkeys(one.name for one in loaded))
        raise ConfigurationError(f"these runs are of several tasks ({names}), so nobody could mistake one for another")
    ask = asked(loaded[0], settings)
    logs = [recorded(one, settings, 0) for one in loaded]
    found = [summariser.summarise(log, ask) for log in logs]
    if len(loaded) == 1:
        return logs, found, (0,)
    # In an order that is drawn, so that where summaries tell nothing the reader is right by chance alone.
    order = Key.of(0).derive("reader", len(loaded)).numpy().permutation(len(loaded)).tolist()
    others = [recorded(loaded[place], settings, settings.episodes) for place in order]
    taken = summariser.identify([one.true for one in found], others)
    return logs, found, tuple(order[one] for one in taken)


def _world(task: Task) -> str:
    """The task without what its name sets."""
    return task.name.partition("?")[0]


def asked(run: EvaluationSubject, settings: SummarySettings) -> Ask | None:
    """The language model that writes; None where counting does.

    Raises:
        ConfigurationError: when there is no such model.
    """
    try:
        judge: Judge | None = judge_of(replace(run.config, judge=settings.model), None)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace("judge = ", "model = ", 1)) from error
    return None if judge is None else lambda prompts: said(judge, prompts, settings.longest)


def recorded(run: EvaluationSubject, settings: SummarySettings, first: int) -> Log:
    """Episodes of the evaluation's seeds, from number `first`, in words.

    Raises:
        ConfigurationError: for a run that is not control. HocketError: when every episode failed.
    """
    task = run.task
    if not isinstance(task, (GymTask, JointTask)):
        raise ConfigurationError(f"{run.name} is no control task; summaries are of control runs, such as of keys:room")
    decoding = replace(run.config.decoding, temperature=settings.temperature)
    asked = [
        Assignment(task.scenario("eval", first + number), decoding=decoding, budget=settings.budget)
        for number in range(settings.episodes)
    ]
    played = run_async(run.parts.player.play(asked, key=Key.of(run.config.seed).derive("summary", first)))
    return in_words(task, played, settings.agent)
