"""GEPA as a searcher: the authors' package (Agrawal et al.) behind the bench; an extra, `pip install 'hocket[gepa]'`.

The package rewrites prompts by reflection on failures, with parents from a Pareto frontier over development cases. This
module provides the system that it optimises: the scores of a candidate, and the episodes.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hocket.agents.search.searcher import CaseResult, SearchBench, Searcher, SearchMethod
from hocket.core.errors import ConfigurationError
from hocket.core.texts import Texts

Candidate = Mapping[str, str]


@dataclass(frozen=True)
class Gepa(Searcher):
    """`gepa.optimize` on the bench: practice cases are its training set, development cases its validation set.

    Its draws come from the bench's key, its end from the bench's budget.

    Attributes:
        batch: practice cases per proposal. proposals: the largest number of rounds. merge: whether it also merges two
            candidates. parents: the choice of a candidate to rewrite: `pareto`, `current_best`, `epsilon_greedy`.
    """

    batch: int = 3
    proposals: int = 200
    merge: bool = False
    parents: str = "pareto"

    def __post_init__(self) -> None:
        if self.batch < 1 or self.proposals < 1:
            raise ConfigurationError(
                f"searcher.batch = {self.batch}, searcher.proposals = {self.proposals}: at least 1 of each"
            )
        if self.parents not in ("pareto", "current_best", "epsilon_greedy"):
            raise ConfigurationError(
                f"searcher.parents = {self.parents!r}; choose from pareto, current_best, epsilon_greedy"
            )

    def check(self, bench: SearchBench) -> None:
        try:
            importlib.import_module("gepa")
        except ImportError as error:
            raise ConfigurationError("searcher gepa needs a package: pip install 'hocket[gepa]'") from error

    def search(self, bench: SearchBench) -> None:
        cases, system = range(bench.practice + bench.development), _System(bench)
        importlib.import_module("gepa").optimize(
            seed_candidate={role: bench.start.prompts.get(role, "") for role in bench.roles},
            trainset=list(cases[: bench.practice]),
            valset=list(cases[bench.practice :]),
            adapter=system,
            reflection_lm=system.ask,
            candidate_selection_strategy=self.parents,
            reflection_minibatch_size=min(self.batch, bench.practice),
            use_merge=self.merge,
            stop_callbacks=[lambda state: system.failed is not None or state.i + 1 >= self.proposals],
            logger=_Silent(),
            track_best_outputs=False,
            seed=bench.key.derive("gepa").word >> 33,
        )
        if system.failed is not None:
            raise system.failed


class _Silent:
    def log(self, message: str) -> None:
        """Does nothing, because the bench observes versions."""


@dataclass(eq=False)
class _System:
    """What `gepa` optimises: `GEPAAdapter` of its package, which goes on after errors; `failed` keeps the first."""

    bench: SearchBench
    failed: Exception | None = field(default=None, init=False)
    propose_new_texts: None = field(default=None, init=False)

    def ask(self, question: str) -> str:
        """The answer of the reflecting model."""
        try:
            return self.bench.ask(question)
        except Exception as error:
            self.failed = self.failed or error
            raise

    def evaluate(self, batch: Sequence[int], candidate: Candidate, capture_traces: bool = False) -> Any:
        """Scores of cases. Development cases are measured together, and their episodes are not shown."""
        try:
            return self._evaluated(batch, self._texts(candidate), capture_traces)
        except Exception as error:
            self.failed = self.failed or error
            raise

    def _evaluated(self, batch: Sequence[int], texts: Texts, capture_traces: bool) -> Any:
        bench = self.bench
        if all(case < bench.practice for case in batch):
            played = [] if bench.refuses(texts) else bench.practise(texts, batch, greedy=True)
            scores = [result.score for result in played] or [0.0] * len(batch)
            return _result(scores, played if capture_traces else None)
        trial = bench.measure(texts, "gepa")
        scores = [0.0] * len(batch) if trial is None else [trial.scores[case - bench.practice] for case in batch]
        return _result(scores, [None] * len(batch) if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: Candidate, evaluated: Any, components: Sequence[str]
    ) -> dict[str, list[dict[str, str]]]:
        """The practice cases as the reflecting model reads them, by role."""
        shown = [_shown(result) for result in evaluated.trajectories or () if result is not None]
        return dict.fromkeys(components, shown)

    def _texts(self, candidate: Candidate) -> Texts:
        start = self.bench.start
        texts = {role: text for role, text in candidate.items() if text or role in start.prompts}
        return replace(start, prompts={**start.prompts, **texts})


def _result(scores: list[float], traces: Any) -> Any:
    batch = importlib.import_module("gepa.core.adapter").EvaluationBatch
    return batch(outputs=[None] * len(scores), scores=scores, trajectories=traces)


def _shown(result: CaseResult) -> dict[str, str]:
    right = f" The right answer: {result.expected}" if result.expected else ""
    verdict = "This is right." if result.score >= 1 else f"This scored {result.score:g} of 1.{right}"
    return {"Inputs": result.question, "Generated Outputs": result.answer, "Feedback": verdict}


GEPA = SearchMethod(
    name="gepa",
    description="the package gepa: reflection on failures, parents from a Pareto frontier",
    searcher=Gepa(),
)
