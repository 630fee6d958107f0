"""LexPro-1.0: a reasoning model for law, by selection of documents, supervised tuning and RL (technical report).

The report compiles documents of over 20 crimes from 31 provinces, selects good ones for supervised tuning of distilled
reasoning models, and then trains by RL without further supervision, with weight on reasoning. It states no algorithm
beyond these steps, so there is no recipe: `examples/statutes.yaml` is the plan, `sft` and then `grpo`.

`statutes` is a task of it that the shipped model can learn: a generated criminal code, to be known by heart. A case
names an offence, its amount and circumstances; the answer is the article and the range of years, which a rule checks.
Documents are judgements of 31 provinces. Some have an error, and most state no reasons.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.options import checked
from hocket.core.surveys import Axis, Cell, FieldSurvey, Gap, is_a, mentions, rows
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario

OFFENCES = ("theft", "fraud", "bribe", "arson")
AGGRAVATING, MITIGATING = ("repeat", "leader"), ("confessed", "repaid")
CIRCUMSTANCES = (*AGGRAVATING, *MITIGATING)
PROVINCES = 31
MOST_ERRORS = 0.4
"""The share of documents with an error in the last province; in the first there are none."""


@dataclass(frozen=True)
class Case:
    """The facts: an offence, its amount, and the circumstances in the order of `CIRCUMSTANCES`."""

    offence: str
    amount: int
    circumstances: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join((f"{self.offence} of {self.amount}", *self.circumstances))


@dataclass(frozen=True)
class Code:
    """A criminal code: an offence has an article for small and one for large amounts.

    Attributes:
        limits: of an offence, the amount from which it is large. articles: of an offence, for small and for large.
        ranges: of an article, its least and most years. years: that a circumstance adds to the most where it
            aggravates, and takes from the least where it mitigates.
    """

    limits: Mapping[str, int]
    articles: Mapping[str, tuple[int, int]]
    ranges: Mapping[int, tuple[int, int]]
    years: Mapping[str, int]

    def article(self, case: Case) -> int:
        """The article that applies."""
        return self.articles[case.offence][case.amount >= self.limits[case.offence]]

    def judgement(self, case: Case, reasons: bool = True, article: int = 0, omit: str = "") -> str:
        """What a document says of a case.

        Args:
            reasons: whether they are stated before the answer. article: one that is applied in place of the right one.
            omit: a circumstance that is overlooked.
        """
        article = article or self.article(case)
        low, high = self.ranges[article]
        steps = [f"{case.offence} art {article} {low}-{high}"]
        for circumstance in case.circumstances:
            if circumstance != omit:
                change = self.years[circumstance]
                low, high = (low - change, high) if circumstance in MITIGATING else (low, high + change)
                steps.append(f"{circumstance} {low}-{high}")
        thought = f"<think>{', '.join(steps)}</think>" if reasons else ""
        return f"{thought}<answer>art {article}, {low}-{high}</answer>"


@functools.lru_cache(maxsize=4)
def code(book: int) -> Code:
    """The code of this number."""
    rng = Key.of(book).derive("statutes", "code").numpy()
    numbers = (rng.permutation(2 * len(OFFENCES)) + 1).tolist()
    articles = {offence: (numbers[2 * place], numbers[2 * place + 1]) for place, offence in enumerate(OFFENCES)}
    ranges = dict[int, tuple[int, int]]()
    for small, large in articles.values():
        low, step, width = (int(number) for number in rng.integers((5, 3, 2), (8, 7, 5)))
        ranges |= {small: (low, low + width), large: (low + step, low + step + width)}
    limits = {offence: 10 * int(rng.integers(3, 8)) for offence in OFFENCES}
    return Code(limits, articles, ranges, {name: int(rng.integers(1, 3)) for name in CIRCUMSTANCES})


class Statutes(TextTask):
    """Cases of a generated code. Patterns of facts (article and circumstances) are of one split alone.

    A scenario's metadata have the `demonstration`, a document, and the `province` of which it is. The verdict is 1 for
    the right article and range, `ARTICLE` for the right article alone.

    Args:
        book: the number of the code. reasoned: the share of documents that state reasons.
        select: whether a document that the rule finds wrong is replaced by another of its case.
    """

    def __init__(self, book: int = 0, reasoned: float = 0.5, select: bool = True) -> None:
        if not 0 <= reasoned <= 1:
            raise ConfigurationError(f"task statutes: reasoned = {reasoned} is a share; choose a number from 0 to 1")
        if book < 0:
            raise ConfigurationError(f"task statutes: book = {book} is the number of a code; choose one from 0 on")
        options = {"book": str(book)} if book else {}
        options |= {"reasoned": f"{reasoned:g}"} if reasoned != 0.5 else {}
        options |= {} if select else {"select": "false"}
        self.name = "statutes" + ("?" + "&".join(f"{key}={value}" for key, value in options.items()) if options else "")
        self.code, self.select, self.reasoned = code(book), select, reasoned
        self.book = book

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(self.book).derive("statutes", split, number).numpy()
        case = self._case(split, rng)
        answer = tagged(self.code.judgement(case)) or ""
        province, document = self._document(case, rng)
        while self.select and self._verdict(document, answer) < 1:
            province, document = self._document(case, rng)
        metadata = {"demonstration": document, "province": province, "circumstances": case.circumstances}
        return Scenario(f"{self.name}/{split}/{number}", f"Case: {case}.", answer, metadata, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    def verify(self, text: str, scenario: Scenario) -> float:
        return self._verdict(text, str(scenario.answer))

    @staticmethod
    def _verdict(text: str, answer: str) -> float:
        answered = (tagged(text) or "").strip()
        return 1.0 if answered == answer else ARTICLE * (answered.partition(",")[0] == answer.partition(",")[0])

    def _case(self, split: Split, rng: np.random.Generator) -> Case:
        while True:
            offence = OFFENCES[int(rng.integers(len(OFFENCES)))]
            present = rng.random(len(CIRCUMSTANCES)) < 0.5
            circumstances = tuple(name for name, there in zip(CIRCUMSTANCES, present, strict=True) if there)
            case = Case(offence, int(rng.integers(10, 100)), circumstances)
            pattern = " ".join((str(self.code.article(case)), *circumstances))
            if (split_of(pattern) == "eval") == (split == "eval"):
                return case

    def _document(self, case: Case, rng: np.random.Generator) -> tuple[int, str]:
        """A province and what it judged; an error is a circumstance overlooked or, without any, another article."""
        province, reasons = int(rng.integers(PROVINCES)), bool(rng.random() < self.reasoned)
        if rng.random() >= MOST_ERRORS * province / (PROVINCES - 1):
            return province, self.code.judgement(case, reasons)
        if case.circumstances:
            omit = case.circumstances[int(rng.integers(len(case.circumstances)))]
            return province, self.code.judgement(case, reasons, omit=omit)
        others: Sequence[int] = [article for article in self.code.ranges if article != self.code.article(case)]
        return province, self.code.judgement(case, reasons, article=others[int(rng.integers(len(others)))])


ARTICLE = 0.25
"""The verdict on the right article with a wrong range."""


def from_settings(name: str, settings: Mapping[str, str]) -> Statutes:
    """The task with these settings."""
    return Statutes(**checked(name, settings, {"book": int, "reasoned": float, "select": bool}))


STATUTES = TaskForm(
    name="statutes",
    description="cases under a generated criminal code: the article and the range of years (LexPro-1.0)",
    make=from_settings,
)


LEXPRO_1 = FieldSurvey(
    name="lexpro-1",
    title="LexPro-1.0 Technical Report",
    source="Technical report (abstract)",
    witness="the plan `sft`, then `grpo` on `statutes` (`hocket train examples/statutes.yaml`): on patterns of facts "
    "that training never had, RL after tuning is above its start, and tuning on as many documents more above RL",
    axes=(
        Axis(
            "step",
            "The pipeline.",
            (
                Cell(
                    "compile",
                    "documents of many provinces",
                    Gap("the task `statutes` draws them, and no recipe does", until=mentions("statutes")),
                ),
                Cell("select", "good documents alone are learnt from", rows("curr-reft", "reagent-v", "optima")),
                Cell("tune", "supervised tuning of a reasoning model", is_a("sft")),
                Cell("reinforce", "RL on what a rule can check", is_a("grpo")),
                Cell("distil", "it begins with a distilled model", is_a("gkd") | is_a("kd-sft")),
                Cell(
                    "experts",
                    "people of the field judge the results",
                    Gap("no people judge here", until=mentions("judged by experts")),
                ),
            ),
        ),
        Axis(
            "aim",
            "What RL is to bring.",
            (
                Cell("reasoning", "reasons that lead to the verdict", rows("pta-grpo", "r1-vl", "mt-grpo")),
                Cell("no-supervision", "no further labels", rows("ttrv", "rlccf") | is_a("spiral")),
                Cell("domain", "tasks of a field with rules", rows("reasoning-sql", "verireason", "med-r1")),
            ),
        ),
    ),
    named=(
        Cell("SFT", "likelihood of selected documents", is_a("sft")),
        Cell("DeepSeek-R1's RL", "groups and rules", is_a("grpo")),
    ),
)
