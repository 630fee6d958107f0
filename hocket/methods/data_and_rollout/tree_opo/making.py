"""A teacher's tree search for right answers, as data: what `hocket traces` writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, get_args
from urllib.parse import quote

from hocket import tasks
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.occurrences import apart
from hocket.methods.data_and_rollout.tree_opo.traces import Steps, is_right, right_traces, search_traces
from hocket.rewards.verifiers import ExactMatch, Extraction
from hocket.rollout.message_search import UCT, Tree
from hocket.stages import Task
from hocket.train.aio import run_async
from hocket.train.disk import JsonLines, json_ready
from hocket.train.evaluate import success_of
from hocket.train.kinds import kind_of
from hocket.train.models import model_folder
from hocket.train.optimise.target import ModelTarget, seated
from hocket.types import Assignment, Scenario, Trajectory

Row = tuple[Scenario, list[Steps]]
"""A scenario and the right answers found to it."""

TOGETHER = 16
"""So many scenarios are searched side by side, and written when all are done."""

_OWN = {"prompt", "answer", "traces", "demonstration", "split", "messages", "completion", "completions", "chosen"}
_OWN |= {"rejected", "responses", "scores", "steps", "label", "labels", "weight", "margin", "target"}
"""Columns that say what a row of data is; a scenario's metadata of these names are left out."""


@dataclass(frozen=True)
class TraceSettings:
    """What `hocket traces` is asked for.

    Attributes:
        task: whose training scenarios are searched. model: the teacher: a model, a run, `http://HOST:PORT/v1#NAME` or
            `FILE.py:FUNCTION`, see `hocket.train.optimise.target`.
        n: scenarios. searches: through the tree of each. candidates: next steps that are sampled from a node.
        until: what ends a step, see `hocket.methods.data_and_rollout.tree_opo.workflow`. runs: where runs are found by
        name. pairs: settings of the run (`decoding.temperature`).
    """

    task: str = "sums"
    model: str = "nano"
    n: int = 64
    searches: int = 8
    candidates: int = 4
    until: str = "\n"
    seed: int = 0
    runs: str = "runs"
    pairs: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for name in ("n", "searches", "candidates"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} = {getattr(self, name)}: it must be at least 1")


@dataclass(frozen=True)
class Written:
    """What a search came to.

    Attributes:
        path: of the file. task: how `--task` takes it; None where its answers are not what tells that a trace is right.
        scenarios: asked. rows: of these, with a trace. traces: of all rows. steps: of a trace, the mean.
        sampled: steps of all searches. right: the share of right ones among the answers that these made.
    """

    path: str
    task: str | None
    scenarios: int
    rows: int
    traces: int
    steps: float
    sampled: int
    right: float


class TraceSearch:
    """A search, ready to run.

    Raises:
        ConfigurationError: when the file is there already, the task is not answered at once in text, or there is no
            such teacher.
    """

    def __init__(self, settings: TraceSettings, path: Path) -> None:
        self.settings, self.path = settings, path
        if path.suffix != ".jsonl":
            raise ConfigurationError(f"out = {path}: what is written is JSON lines; call it {path.stem}.jsonl")
        if path.exists():
            raise ConfigurationError(f"{path} exists already; give another --out, or remove it")
        self.task = tasks.find(settings.task)
        self.teacher = _teacher(settings, self.task)
        size = self.task.size("train")
        self.count = settings.n if size is None else min(settings.n, size)

    def run(self, observe: Callable[[int, int], None] = lambda asked, rows: None) -> Written:
        """Searches and writes, the rows of some scenarios at a time; `observe` hears of scenarios done and of rows.

        Raises:
            HocketError: when no right answer was found to any scenario.
        """
        found, trees = list[Row](), list[Tree]()
        for begin in range(0, self.count, TOGETHER):
            numbers = range(begin, min(begin + TOGETHER, self.count))
            grown = run_async(self._grown([self.task.scenario("train", one) for one in numbers]))
            fresh = [(tree.asking.scenario, traces) for tree in grown if (traces := right_traces(tree))]
            self._write(fresh)
            found, trees = found + fresh, trees + grown
            observe(numbers.stop, len(found))
        if not found:
            raise HocketError(
                f"{self.settings.model} found no right answer to any of {self.count} scenarios of {self.task.name}; "
                "raise --searches, or take a better --model"
            )
        every = [trace for _, traces in found for trace in traces]
        return Written(
            path=str(self.path),
            task=self._named(found),
            scenarios=self.count,
            rows=len(found),
            traces=len(every),
            steps=fmean(map(len, every)),
            sampled=sum(tree.calls for tree in trees),
            right=fmean(is_right(end) for tree in trees for end in tree.root.ends),
        )

    async def _grown(self, scenarios: Sequence[Scenario]) -> list[Tree]:
        """The trees of some scenarios."""
        key = Key.of(self.settings.seed).derive("traces")

        async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
            return await self.teacher.player.play(asked, key=key)

        async def judge(ended: Sequence[Trajectory]) -> list[float]:
            return [2 * min(success_of(self.task, one), 1.0) - 1 for one in ended]

        asked = [Assignment(one, decoding=self.teacher.config.decoding) for one in apart(scenarios)]
        rule, searches = UCT(candidates=self.settings.candidates), self.settings.searches
        return await search_traces(play, asked, judge, searches=searches, key=key, rule=rule)

    def _write(self, found: Sequence[Row]) -> None:
        if not found:
            return
        file = JsonLines(self.path)
        try:
            for one, traces in found:
                file.append(json.dumps(json_ready(row_of(one, traces)), ensure_ascii=False))
        finally:
            file.close()

    def _named(self, found: Sequence[Row]) -> str | None:
        """The task of the file, by the first comparison with its answers that finds every trace right."""
        for extract in get_args(Extraction):
            right = ExactMatch(extract=extract).verify
            if all(right("".join(trace), one) == 1 for one, traces in found for trace in traces):
                return str(self.path) + ("" if extract == "answer-tag" else f"?extract={extract}")
        return None


def row_of(scenario: Scenario, traces: Sequence[Steps]) -> dict[str, Any]:
    """A row of data: prompt, answer, the traces in steps, the shortest as a demonstration, and what else was told."""
    told = {name: value for name, value in scenario.metadata.items() if name not in _OWN and _is_plain(value)}
    prompt = scenario.prompt if isinstance(scenario.prompt, str) else list(scenario.messages)
    answer = {"answer": scenario.answer} if _is_answer(scenario.answer) else {}
    shortest = min(traces, key=lambda trace: len("".join(trace)))
    return {"prompt": prompt, **answer, "traces": traces, "demonstration": "".join(shortest), **told}


def _is_answer(value: Any) -> bool:
    members = value if isinstance(value, (list, tuple)) and value else [value]
    return all(isinstance(one, (str, int, float, bool)) for one in members)


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return value is not None


def _teacher(settings: TraceSettings, task: Task) -> ModelTarget:
    if not kind_of(task).textual or getattr(task, "workflow", None) is not None:
        how = "played by a workflow of its own" if kind_of(task).textual else "not answered in text"
        raise ConfigurationError(
            f"task {task.name} is {how}, and traces are texts that answer a question at once; choose another task"
        )
    model = settings.model
    if not (model.startswith(("http://", "https://")) or ".py:" in model):
        model = model_folder(model, settings.runs)
    return seated(task, model, f"stepwise?until={quote(settings.until, safe='')}", settings.pairs)
