"""Searches by a real small model in all seats: taught to follow a prompt and to reflect, on a convention not taught.

The task is `conventions`, the command `hocket optimise --task conventions --searcher NAME`; the model is the shipped
one after the task's lessons, which are given once and serve every search here.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from hocket import tasks
from hocket.agents.search.searcher import CaseResult, Trial
from hocket.core.keys import Key
from hocket.core.texts import Texts
from hocket.lab.claims.harness import say
from hocket.train.optimise.run import SearchRun, SearchSettings
from hocket.train.optimise.target import ModelTarget, fingerprint
from hocket.train.optimise.teaching import lessons_for, taught
from hocket.types import Scenario
from hocket.zoo.tasks.conventions import MEANINGS, Conventions, means


@dataclass(frozen=True)
class SearchOutcome:
    """What a search came to.

    Attributes:
        start, best, last: on development, by what the task pays, of the first, the best and the last version.
        ceiling: where the prompt says what every sign means. calls: of the target until a version was as good as
            `enough` of the ceiling; the whole budget where none was. evaluation: of the start and of the best.
        same: whether the weights stayed as they were.
    """

    start: float
    best: float
    last: float
    ceiling: float
    calls: int
    evaluation: tuple[float, float]
    trials: Sequence[Trial]
    same: bool


@functools.cache
def steerable(searcher: str) -> str:
    """The shipped model after the lessons in what a searcher asks, which are the same for all conventions."""
    lessons = lessons_for(tasks.find("conventions"), searcher)
    return taught(lessons, "nano", lessons.lessons.steps, (), Path(_place().name) / searcher, lambda message: None)


@functools.cache
def _place() -> tempfile.TemporaryDirectory[str]:
    """Where taught models lie until the process ends."""
    return tempfile.TemporaryDirectory()


def sought(
    searcher: str,
    *,
    reflect: Callable[[str], str] | None = None,
    shuffled: bool = False,
    through: bool = False,
    course: str | None = None,
    seed: int = 0,
    enough: float = 0.9,
    **settings: Any,
) -> SearchOutcome:
    """A search for the convention of `seed` by the taught model, which reflects itself unless `reflect` does.

    It was taught what `course` asks, the searcher itself by default. With `shuffled` the scores of drawn groups and
    the right answers of practice cases are dealt out anew, and if that goes `through` those of development cases too,
    by which versions are chosen. The evaluation split is scored as it is.
    """
    with tempfile.TemporaryDirectory() as place:
        search = SearchSettings(
            f"conventions?seed={seed}", searcher, seed=seed, model=steerable(course or searcher), lessons=0, **settings
        )
        run = SearchRun(search, Path(place) / "search")
        if reflect is not None:
            run.bench.reflect = reflect
        if shuffled:
            run.bench.target = ShuffledTarget(run.target, search.practice, through)
        before = fingerprint(run.target.policies)
        result = run.run()
        trials, split = tuple(run.bench.trials), range(search.practice, search.practice + search.development)
        run.target.split = "train"
        known = run.target.play(told(run.task), split, 1, greedy=True, key=run.bench.key.derive("known"))
        ceiling = fmean(case.score for case in known)
        good = (trial.spent for trial in trials if trial.score >= enough * ceiling)
        return SearchOutcome(
            trials[0].score,
            result["development"]["best"],
            trials[-1].score,
            ceiling,
            next(good, search.budget),
            (result["evaluation"]["start"], result["evaluation"]["best"]),
            trials,
            fingerprint(run.target.policies) == before,
        )


def told_of(found: Mapping[int, SearchOutcome], blind: Mapping[int, SearchOutcome]) -> str:
    """The figures of searches by seed, beside those of another searcher."""
    ours = {name: [getattr(run, name) for run in found.values()] for name in ("start", "best", "ceiling", "calls")}
    ours["unseen"] = [run.evaluation[1] for run in found.values()]
    other = {name: [getattr(run, name) for run in blind.values()] for name in ("best", "calls")}
    return say(**ours, random_lines=other)


def told(task: object) -> Texts:
    """Texts that say what every sign means."""
    assert isinstance(task, Conventions)
    return Texts(library=tuple(means(sign, meaning) for sign, meaning in task.meaning.items()))


@dataclass(frozen=True)
class ShuffledTarget:
    """A target whose verdicts on practice cases belong to other answers.

    Development cases are scored as they are, or if it goes `through` by right answers of other cases as well.
    """

    target: ModelTarget
    practice: int
    through: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> Sequence[CaseResult]:
        """What was played, with scores dealt out among the samples of a case and right answers among cases."""
        played = self.target.play(texts, cases, samples, first=first, greedy=greedy, key=key)
        chooses = bool(cases) and cases[0] >= self.practice
        if chooses and not self.through:
            return played
        draw, results = key.derive("shuffled", texts.digest, first, *cases).numpy(), list(played)
        for place in range(0, len(results), samples):
            order = draw.permutation(samples).tolist()
            scores = [results[place + other].score for other in order]
            for number, score in enumerate(scores):
                results[place + number] = replace(results[place + number], score=score)
        right = [results[place].expected for place in range(0, len(results), samples)]
        dealt = [right[place] for place in draw.permutation(len(right)).tolist()]
        results = [replace(result, expected=dealt[place // samples]) for place, result in enumerate(results)]
        return [replace(result, score=self._by(result)) for result in results] if chooses else results

    def _by(self, one: CaseResult) -> float:
        """What an answer is worth by the right answer that was dealt to it."""
        task = self.target.task
        assert isinstance(task, Conventions)
        return task.verify(one.answer, Scenario("", one.question, one.expected))


def random_lines(question: str) -> str:
    """A reflecting model for random mutation: what some sign means, drawn by the question it is asked."""
    prompt = question.partition("Instruction:\n")[2].partition("\n\nVersion")[0]
    known = dict(line.split("=") for line in prompt.splitlines() if "=" in line)
    draw = Key.of(0).derive("random lines", question).numpy()
    signs, meanings = list(Conventions().meaning), list(MEANINGS)
    known[signs[int(draw.integers(len(signs)))]] = meanings[int(draw.integers(len(meanings)))]
    return "\n".join(means(sign, meaning) for sign, meaning in known.items())
