"""A search for better texts in a folder of its own: what was asked, every version, what came of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any, cast

from hocket import tasks
from hocket.agents.search.searcher import SEARCHERS, SearchBench, Searcher, SearchMethod, Trial, search
from hocket.core.components import replaced, replaced_all
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.intervals import mean_interval, wilson
from hocket.core.keys import Key
from hocket.core.texts import Texts
from hocket.rewards.judging import Judge, said
from hocket.stages import Task
from hocket.train.disk import json_ready, write_atomic
from hocket.train.journal import Journal
from hocket.train.judges import FunctionJudge, judge_of
from hocket.train.optimise.target import ModelTarget, fingerprint, model_target
from hocket.train.optimise.teaching import lesson_steps, lessons_for, suited, taught
from hocket.train.runfolder import RunLock, read_json
from hocket.train.settings import Config
from hocket.train.trust import check, sign

SETTINGS, BEST, SUMMARY, TRIALS = "search.json", "best.json", "summary.json", "trials.jsonl"


@dataclass(frozen=True)
class SearchSettings:
    """What `hocket optimise` is asked for.

    Attributes:
        task, workflow, model: as in `hocket train`; `model` may be `FILE.py:FUNCTION` or `http://HOST:PORT/v1#NAME`.
        searcher: its name. reflector: the model that proposes: as `model`; None is the model itself.
        budget: target calls. tokens: the most that it samples for them; None for any number.
        practice, development, evaluation: how many cases of each.
        start: a prompt for all roles, or a JSON file of texts. pairs: settings of the run (`decoding.max_tokens`, ...)
            and of the searcher (`searcher.samples`, ...). longest: tokens of what the reflecting model says.
        lessons: supervised steps on the task's lessons before the search, of which both models begin; None gives those
            of a task that teaches what the searcher asks to the shipped nano model, 0 gives none.
    """

    task: str = "sums"
    searcher: str = "reflective"
    budget: int = 500
    workflow: str | None = None
    model: str = "nano"
    reflector: str | None = None
    practice: int = 32
    development: int = 32
    evaluation: int = 100
    start: str | None = None
    longest: int = 256
    seed: int = 0
    tokens: int | None = None
    lessons: int | None = None
    pairs: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for name in ("budget", "practice", "development", "evaluation", "longest", "tokens"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ConfigurationError(f"{name} = {getattr(self, name)}: it must be at least 1")
        if self.lessons is not None and self.lessons < 0:
            raise ConfigurationError(
                f"lessons = {self.lessons}: set the number of supervised steps before the search, 0 for none"
            )


class SearchRun:
    """A search, ready to run.

    Args:
        settings: see there.
        folder: where everything goes. A folder with a search in it goes on with that, if the settings are equal.
        observe: called with each new version measured.
        remark: called with what is done before the search. trust: go on with lessons that name code of others.

    Raises:
        ConfigurationError: when settings, task, models and searcher do not fit together.
    """

    def __init__(
        self,
        settings: SearchSettings,
        folder: Path,
        observe: Callable[[Trial], None] = lambda trial: None,
        remark: Callable[[str], None] = lambda message: None,
        *,
        trust: bool = False,
    ) -> None:
        self.settings, self.folder = settings, folder
        self.task = tasks.find(settings.task)
        self.method, self.searcher = searcher_of(settings, self.task)
        pairs = [pair for pair in settings.pairs if not pair[0].startswith("searcher.")]
        _check_sizes(self.task, settings)
        steps = lesson_steps(self.task, settings.model, settings.searcher, settings.lessons)
        self.target = model_target(self.task, settings.model, settings.workflow, pairs)
        start = _start(settings.start, self.target)
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = RunLock(folder)
        try:
            self._claim(remark)
            if steps:
                lessons = lessons_for(self.task, settings.searcher)
                model = taught(lessons, settings.model, steps, pairs, folder, remark, trust=trust)
                settings = replace(settings, model=model)
                self.target = model_target(self.task, model, settings.workflow, pairs)
            self.journal = Journal(folder / "journal.jsonl")
            judge = _reflector(settings, self.target.config, self.journal)
        except BaseException:
            self._lock.release()
            raise
        (folder / TRIALS).write_text("", encoding="utf-8")
        self._observe = observe
        self.bench = SearchBench(
            self.target,
            lambda question: said(judge, [question], settings.longest)[0],
            start,
            Key.of(settings.seed).derive("optimise"),
            settings.budget,
            settings.practice,
            settings.development,
            self.journal,
            self._measured,
            settings.tokens,
        )

    def run(self) -> dict[str, Any]:
        """Searches, opens the evaluation split once for the start and the best, and returns what `summary.json` holds.

        Raises:
            HocketError: when weights changed, which nothing here may do.
        """
        try:
            before = fingerprint(self.target.policies)
            best = search(self.bench, self.searcher)
            results = self._summary(best, *self._evaluated(best))
            if fingerprint(self.target.policies) != before:
                raise HocketError(
                    "the weights changed in a search over texts; please report this as an error of hocket"
                )
            results["weights"] = before if self.target.policies else None
            self._write(BEST, best.texts.to_json())
            self._write(SUMMARY, results)
            return {**results, "path": str(self.folder)}
        finally:
            self.journal.close()
            self._lock.release()

    # ------------------------------------------------------------ what came of it

    def _evaluated(self, best: Trial) -> tuple[list[float], list[float]]:
        """The scores of the start and of the best on the evaluation split; not part of the budget."""
        scores: list[list[float]] = []
        size = self.task.size("eval")
        cases = range(self.settings.evaluation if size is None else min(size, self.settings.evaluation))
        self.target.split = "eval"
        for texts in (self.bench.start, best.texts):
            name = f"evaluation/{texts.digest}"
            recorded = self.journal.get(name)
            if not recorded:
                played = self.target.play(texts, cases, 1, greedy=True, key=self.bench.key.derive("play"))
                recorded = self.journal.put(name, [result.score for result in played])
            scores.append(cast(list[float], recorded))
        return scores[0], scores[1]

    def _summary(self, best: Trial, before: Sequence[float], after: Sequence[float]) -> dict[str, Any]:
        bench = self.bench
        gains = [new - old for old, new in zip(before, after, strict=True)]
        return {
            "settings": asdict(self.settings),
            "tried": len(bench.trials),
            "refused": list(bench.refused),
            "calls": bench.spent,
            "tokens": bench.tokens,
            "reflections": bench.asked,
            "development": {
                "n": len(best.scores),
                "start": bench.trials[0].score,
                "best": best.score,
                "interval": corrected_interval(best.scores, len(bench.trials)),
            },
            "evaluation": {
                "n": len(after),
                "start": fmean(before),
                "best": fmean(after),
                "interval": corrected_interval(after, 1),
                "gain": fmean(gains),
                "gain_interval": None if not any(gains) else mean_interval(gains),
            },
            "best": {"trial": best.number, "how": best.how, "texts": best.texts.to_json()},
            "changes": best.texts.changes(bench.start),
        }

    def _measured(self, trial: Trial) -> None:
        parent = Texts() if trial.parent is None else self.bench.trials[trial.parent].texts
        row = {
            "number": trial.number,
            "parent": trial.parent,
            "how": trial.how,
            "score": trial.score,
            "spent": trial.spent,
            "tokens": trial.tokens,
            "changes": trial.texts.changes(parent),
            "texts": trial.texts.to_json(),
        }
        with (self.folder / TRIALS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(json_ready(row), ensure_ascii=False) + "\n")
        self._observe(trial)

    # ------------------------------------------------------------ the folder

    def _claim(self, remark: Callable[[str], None]) -> None:
        path, mine = self.folder / SETTINGS, json.loads(json.dumps(json_ready(asdict(self.settings))))
        if path.exists():
            theirs = read_json(path)
            other = next((name for name in mine if mine[name] != theirs.get(name)), None)
            if other is not None:
                raise ConfigurationError(
                    f"{self.folder} holds a search with {other} = {theirs.get(other)!r}, not {mine[other]!r}; give "
                    "another --out"
                )
        self._write(SETTINGS, mine)
        if problem := sign(self.folder / SETTINGS, list(mine.items())):
            remark(problem)

    def _write(self, name: str, value: Mapping[str, Any]) -> None:
        write_atomic(self.folder / name, json.dumps(json_ready(value), indent=2, ensure_ascii=False) + "\n")


def resumed(folder: Path, *, trust: bool = False) -> SearchSettings:
    """The settings of a search that was begun in a folder.

    Raises:
        ConfigurationError: when there is none, or without `trust` it names code of others.
    """
    if not (folder / SETTINGS).is_file():
        raise ConfigurationError(f"{folder} holds no search to go on with: it has no {SETTINGS}")
    content = read_json(folder / SETTINGS)
    check(folder / SETTINGS, list(content.items()), trust=trust)
    known = {item.name for item in fields(SearchSettings)}
    try:
        pairs = tuple((str(key), value) for key, value in content.pop("pairs", ()))
        return SearchSettings(**{name: value for name, value in content.items() if name in known}, pairs=pairs)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{folder / SETTINGS} holds no settings of a search: {error}") from error


def corrected_interval(scores: Sequence[float], tried: int) -> tuple[float, float]:
    """A 95 % interval of the mean of the best of `tried` versions, by Bonferroni: all of them hold together.

    Wilson's for shares in [0, 1], Student's width scaled by the quantiles for any other scores.
    """
    quantile = NormalDist().inv_cdf(1 - 0.025 / tried)
    if all(0 <= score <= 1 for score in scores):
        return wilson(math.fsum(scores), len(scores), quantile)
    low, high = mean_interval(scores)
    middle, wider = (low + high) / 2, quantile / NormalDist().inv_cdf(0.975)
    return middle - (middle - low) * wider, middle + (high - middle) * wider


def searcher_of(settings: SearchSettings, task: Task) -> tuple[SearchMethod, Searcher]:
    """The searcher that is asked for, with its settings, those that the task's lessons suggest beneath them.

    Raises:
        ConfigurationError: when there is none of the name, or it has no such setting.
    """
    method = cast(SearchMethod, SEARCHERS.find(settings.searcher))
    settings_suited = {} if settings.reflector is not None else suited(task, settings.searcher)
    searcher: Any = replaced_all(method.searcher, settings_suited, "searcher") if settings_suited else method.searcher
    for path, value in settings.pairs:
        if path.startswith("searcher."):
            searcher = replaced(searcher, path.removeprefix("searcher."), value, "searcher")
    return method, searcher


def _start(text: str | None, target: ModelTarget) -> Texts:
    """What a search begins from: the workflow's own prompts, a prompt for all roles, or texts in a file."""
    prompts = dict(target.player.workflow.prompts)
    if text is None:
        return Texts(prompts)
    if text.endswith(".json"):
        texts = Texts.read(text)
        return replace(texts, prompts={**prompts, **texts.prompts})
    return Texts(dict.fromkeys(target.roles, text))


def _reflector(settings: SearchSettings, config: Config, journal: Journal) -> Judge:
    named = settings.reflector
    if named is None:
        if ".py:" in settings.model:
            raise ConfigurationError("a model that is a function needs --reflector, the model that proposes texts")
        named = settings.model
    if ".py:" in named:
        return FunctionJudge(named, journal)
    try:
        judge = judge_of(replace(config, judge=named), journal)
    except ConfigurationError as error:
        raise ConfigurationError(f"reflector = {named!r}: {error}") from error
    if judge is None:
        raise ConfigurationError("reflector = rule: a rule proposes no texts; name a model")
    return judge


def _check_sizes(task: Task, settings: SearchSettings) -> None:
    size, wanted = task.size("train"), settings.practice + settings.development
    if size is not None and size < wanted:
        raise ConfigurationError(
            f"task {task.name} has {size} training scenarios; --practice {settings.practice} and --development "
            f"{settings.development} need {wanted} different ones"
        )
