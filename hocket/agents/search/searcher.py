"""Search for better texts: a searcher proposes versions of a policy's texts, and a bench plays and scores them.

All draws of a searcher come from the bench's key, and the bench's journal stores every answer (of the policy, and of
the reflecting model). So the journal is its state: after an interruption the searcher runs again from the beginning,
with known answers from the journal, and gives the same numbers.
"""

from __future__ import annotations

import math
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from hocket.core.discovery import Registry, constant
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.texts import Block, Texts

SEARCHERS = Registry("searcher", ("hocket.agents.search", "hocket.methods"), constant("SearchMethod"))
"""Every searcher of the library and of installed packages by name."""


@dataclass(frozen=True)
class CaseResult:
    """One episode: the question, the right answer if it is known, the answer, and the score.

    `calls` counts the policy's answers, `tokens` their tokens; `said` has all answers in time order, role and text.
    """

    case: int
    sample: int
    score: float
    calls: int
    question: str
    expected: str
    answer: str
    said: Sequence[Sequence[str]] = ()
    tokens: int = 0


@dataclass(frozen=True)
class Trial:
    """Texts with their measurement on all development cases.

    Attributes:
        number: 0 is the start. score: the mean of `scores`. parent: the trial that it derives from. how: in words.
        spent, tokens: the search's target calls and their tokens up to this measurement.
    """

    number: int
    texts: Texts
    score: float
    scores: tuple[float, ...]
    parent: int | None
    how: str
    spent: int
    tokens: int = 0


class Target(Protocol):
    """The system that plays the texts."""

    @property
    def roles(self) -> Sequence[str]: ...

    @property
    def blocks(self) -> Sequence[Block]:
        """The parts whose number texts may choose; the first one answers."""
        ...

    def calls(self, texts: Texts) -> int:
        """The expected number of the policy's answers in an episode with these texts.

        Raises:
            ConfigurationError: when no episode can be played with them.
        """
        ...

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> Sequence[CaseResult]:
        """Every sample of every case, in order; the draws depend on sample numbers, which begin at `first`."""
        ...

    def refuses(self, texts: Texts) -> str | None:
        """The reason why these texts cannot be played, or None."""
        ...


class AnswerJournal(Protocol):
    """A journal: what was answered, by key."""

    def get(self, key: str, /) -> Any: ...

    def put(self, key: str, value: Any, /) -> Any: ...


class Spent(Exception):
    """The remaining budget does not pay for the next episodes. Ends a search; searchers do not catch it."""


class _Remembered(dict[str, Any]):
    put = dict.__setitem__


@dataclass(eq=False)
class SearchBench:
    """The interface of a searcher. It may read practice cases; development cases choose texts. They are disjoint.

    Attributes:
        target: plays the texts. reflect: the reflecting model. start: the texts to improve. key: that of all draws.
        budget: the largest number of target calls. Episodes begin only if the budget covers them at the largest number
            of calls of such a team's episodes so far, so only an episode with more calls than any before exceeds it.
        most_tokens: the largest number of sampled tokens, likewise; None for any number.
        practice, development: the number of cases of each; the numbers of development cases follow those of practice.
        observe: called with each new trial.
        spent, tokens, asked: target calls, their tokens and questions to the reflecting model so far.
        trials: all of them, the start first.
        refused: the reasons for proposals that were not measured.
    """

    target: Target
    reflect: Callable[[str], str | None]
    start: Texts
    key: Key
    budget: int
    practice: int
    development: int
    journal: AnswerJournal = field(default_factory=_Remembered)
    observe: Callable[[Trial], None] = lambda trial: None
    most_tokens: int | None = None
    spent: int = 0
    tokens: int = 0
    asked: int = 0
    trials: list[Trial] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _paid: set[str] = field(default_factory=set)
    _longest: dict[Any, tuple[int, int]] = field(default_factory=dict)

    def begin(self) -> Trial:
        """Measures the start.

        Raises:
            ConfigurationError: when the start cannot be played, or the budget does not pay for one measurement.
        """
        problem = self.target.refuses(self.start)
        if problem is not None:
            raise ConfigurationError(f"the texts to start from cannot be played: {problem}")
        least = self.development * self.target.calls(self.start)
        if self.budget < least:
            raise ConfigurationError(
                f"budget = {self.budget}: measuring one candidate on {self.development} development cases takes "
                f"{least} calls; raise --budget or lower --development"
            )
        candidate = self._measured(self.start, None, "the start")
        if self.most_tokens is not None and self.tokens > self.most_tokens:
            raise ConfigurationError(
                f"tokens = {self.most_tokens}: measuring the start alone took {self.tokens}; raise --tokens or lower "
                "--development"
            )
        return candidate

    @property
    def best(self) -> Trial:
        """The best on development, the earliest of equals: never worse than the start."""
        return max(self.trials, key=lambda trial: (trial.score, -trial.number))

    @property
    def roles(self) -> Sequence[str]:
        return self.target.roles

    @property
    def blocks(self) -> Sequence[Block]:
        return self.target.blocks

    @property
    def skills(self) -> Mapping[str, str]:
        """The programs with which the target begins, by name."""
        return getattr(self.target, "skills", {})

    @property
    def drills(self) -> Sequence[str]:
        """The tests of a new skill: assertions in Python, with `{skill}` for its name."""
        return getattr(self.target, "drills", ())

    def calls(self, texts: Texts) -> int:
        """The expected number of the target's answers in an episode with these texts."""
        return self.target.calls(texts)

    def refuses(self, texts: Texts) -> str | None:
        """Why these texts cannot be played, or None."""
        return self.target.refuses(texts)

    def practise(
        self, texts: Texts, cases: Sequence[int], samples: int = 1, *, greedy: bool = False, again: int = 0
    ) -> list[CaseResult]:
        """Episodes on practice cases (numbers wrap around), `samples` of each, sampled unless `greedy`.

        A repeated question has the same answers, at no cost; `again` = 1, 2, .. draws new ones.

        Raises:
            Spent: when the budget does not pay for them.
        """
        wrapped = [case % self.practice for case in cases]
        return self._play(texts, wrapped, samples, greedy, again * samples)

    def measure(self, texts: Texts, how: str, parent: Trial | None = None) -> Trial | None:
        """The score of texts on all development cases; a repeated measurement costs nothing.

        None when they cannot be played: a placeholder is lost, or they leave no room in the context.

        Raises:
            Spent: when the budget does not pay for it.
        """
        known = next((trial for trial in self.trials if trial.texts.digest == texts.digest), None)
        if known is not None:
            return known
        problem = self.target.refuses(texts)
        if problem is not None:
            self.refused.append(problem)
            return None
        return self._measured(texts, parent, how)

    def ask(self, question: str) -> str:
        """The answer of the reflecting model, which may be empty.

        Raises:
            ConfigurationError: when its first answer is empty.
        """
        answer = (self.reflect(question) or "").strip()
        if not answer and not self.asked:
            raise ConfigurationError("the reflecting model returned nothing; give another with --reflector")
        self.asked += 1
        return answer

    def _measured(self, texts: Texts, parent: Trial | None, how: str) -> Trial:
        cases = range(self.practice, self.practice + self.development)
        scores = tuple(result.score for result in self._play(texts, cases, 1, greedy=True))
        mean, above = sum(scores) / len(scores), None if parent is None else parent.number
        trial = Trial(len(self.trials), texts, mean, scores, above, how, self.spent, self.tokens)
        self.trials.append(trial)
        self.observe(trial)
        return trial

    def _play(self, texts: Texts, cases: Sequence[int], samples: int, greedy: bool, first: int = 0) -> list[CaseResult]:
        how = f"{first}+{samples}/{'greedy' if greedy else 'drawn'}"
        names = {case: f"play/{texts.digest}/{case}/{how}" for case in cases}
        unpaid = [case for case, name in names.items() if name not in self._paid]
        self._afford(texts, len(unpaid) * samples)
        rows_by_case = {case: self.journal.get(name) for case, name in names.items()}
        fresh = [case for case, rows in rows_by_case.items() if not rows]
        if fresh:
            key = self.key.derive("play")
            played = self.target.play(texts, fresh, samples, first=first, greedy=greedy, key=key)
            for place, case in enumerate(fresh):
                rows_by_case[case] = [asdict(result) for result in played[place * samples : (place + 1) * samples]]
                self.journal.put(names[case], rows_by_case[case])
        results = {case: [CaseResult(**row) for row in rows] for case, rows in rows_by_case.items()}
        for case in unpaid:
            self._paid.add(names[case])
            self.spent += sum(result.calls for result in results[case])
            self.tokens += sum(result.tokens for result in results[case])
            for result in results[case]:
                calls, tokens = self._longest.get(_team(texts), (0, 0))
                self._longest[_team(texts)] = max(calls, result.calls), max(tokens, result.tokens)
        return [result for case in cases for result in results[case]]

    def _afford(self, texts: Texts, episodes: int) -> None:
        """Raises `Spent` unless the budget pays for this many episodes."""
        calls, tokens = self._longest.get(_team(texts), (0, 0))
        left = math.inf if self.most_tokens is None else self.most_tokens - self.tokens
        if episodes * max(calls, self.target.calls(texts)) > self.budget - self.spent or episodes * tokens > left:
            raise Spent


def _team(texts: Texts) -> Any:
    """The part of texts that determines the length of an episode."""
    return texts.edges, None if texts.blocks is None else tuple(sorted(texts.blocks.items()))


class Searcher(ABC):
    """A way to propose new texts. A frozen dataclass without memory, whose fields are its settings."""

    def check(self, bench: SearchBench) -> None:  # noqa: B027  Most need nothing.
        """Called before anything is played.

        Raises:
            ConfigurationError: when the bench or the installed packages lack what the searcher needs.
        """

    @abstractmethod
    def search(self, bench: SearchBench) -> None:
        """Proposes texts to `bench.measure` until it has no further proposals; the start has been measured.

        Returns nothing, because the search takes the best trial of the bench.
        """


def check_wording(name: str, wording: str, usual: str, where: str = "searcher") -> None:
    """Refuses a new wording of a question with placeholders that the usual one lacks.

    Raises:
        ConfigurationError: naming the unknown placeholder.
    """
    try:
        places, known = ({place for _, place, _, _ in string.Formatter().parse(text)} for text in (wording, usual))
    except ValueError as error:
        raise ConfigurationError(f"{where}.{name} cannot be filled in: {error}; write braces twice") from error
    strange = sorted(place for place in places - known if place is not None)
    if strange:
        names = ", ".join(sorted(place for place in known if place))
        raise ConfigurationError(f"{where}.{name} has a placeholder {{{strange[0]}}} that nothing fills; use {names}")


@dataclass(frozen=True)
class SearchMethod:
    """A searcher by name.

    Attributes:
        name: the value of `hocket optimise --searcher`; that of a paper is its catalogue id. source: the paper.
        note: what is weaker than in the paper; a row with a note is partial.
    """

    name: str
    description: str
    searcher: Searcher
    source: str = ""
    note: str = ""


def search(bench: SearchBench, searcher: Searcher) -> Trial:
    """Measures the start, searches until the budget or the searcher ends, and returns the best trial."""
    searcher.check(bench)
    bench.begin()
    try:
        searcher.search(bench)
    except Spent:
        pass
    return bench.best
