"""Worlds in which the best texts are known: policies and reflecting models that are a few rules, no language model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hocket.agents.search.searcher import CaseResult, SearchBench, Searcher, Trial, search
from hocket.core.keys import Key
from hocket.core.texts import Block, Texts, problem


@dataclass(frozen=True)
class InstructedPolicy:
    """A policy that is right on a case of kind k exactly when its prompt says `Rule k` and not `Myth k`.

    So the accuracy of a prompt is the share of kinds with a rule and no myth, and the best prompt has all rules alone.
    Cases are of kinds 0, 1, .. in turn.
    """

    kinds: int = 6
    roles: Sequence[str] = ("policy",)
    blocks: Sequence[Block] = ()

    def calls(self, texts: Texts) -> int:
        return 1

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        results = []
        for case in cases:
            kind, prompt = case % self.kinds, texts.prompts.get("policy", "")
            right = f"Rule {kind}." in prompt and f"Myth {kind}." not in prompt
            result = CaseResult(case, 0, float(right), 1, f"A case of kind {kind}.", "", "so" if right else "not so")
            results += [result] * samples
        return results

    def refuses(self, texts: Texts) -> str | None:
        return problem(texts, self.roles, {})


@dataclass(frozen=True)
class Mentors:
    """A reflecting model for `InstructedPolicy`, drawing by what it is asked.

    Blindly it adds or drops a rule or a myth at random. Asked after failures it adds the rule of a kind that failed.
    As MARS's teacher it hints at a rule with probability `wise`, else at a myth; its critic knows with probability
    `critic` which it was.
    """

    kinds: int = 6
    wise: float = 0.5
    critic: float = 1.0
    seed: int = 0

    def __call__(self, question: str) -> str:
        draw = Key.of(self.seed).derive("mentor", question).numpy()
        lines = sorted(set(re.findall(r"(?:Rule|Myth) \d+\.", question.partition("These of its")[0])))
        if "You are the planner" in question:
            return "\n".join(f"{kind + 1}. kinds like {kind}" for kind in range(self.kinds))
        if "You are the teacher" in question:
            name = "Rule" if draw.random() < self.wise else "Myth"
            return f"What of {name} {draw.integers(self.kinds)}?"
        if "You are the critic" in question:
            bad = "Myth" in question.partition("question:")[2]
            return "REJECT" if bad == (draw.random() < self.critic) else "ACCEPT"
        if "You are the student" in question:
            hint = question.partition("question: What of ")[2].partition("?")[0]
            return " ".join(dict.fromkeys([*_own(question), f"{hint}."]))
        failed = re.findall(r"kind (\d+)", question)
        if failed:
            return " ".join(dict.fromkeys([*lines, f"Rule {failed[0]}."]))
        name = "Rule" if draw.random() < 0.5 else "Myth"
        text = f"{name} {draw.integers(self.kinds)}."
        return " ".join([line for line in lines if line != text] if text in lines else [*lines, text]) or "Be right."


def _own(question: str) -> list[str]:
    """The lines of the instruction that MARS's student is shown."""
    return re.findall(r"(?:Rule|Myth) \d+\.", question.partition("The teacher's question")[0])


@dataclass(frozen=True)
class Tactical:
    """A policy that answers a case of kind k by one of some tactics, of which one is right, `right[k]`.

    A lesson `kind k: tactic t` makes it take t with probability `faith`; else, and without a lesson, it draws evenly,
    and greedily takes tactic 0. With `shuffled`, rewards of drawn groups are dealt out anew among their samples.
    """

    right: tuple[int, ...]
    tactics: int = 4
    faith: float = 0.9
    shuffled: bool = False
    roles: Sequence[str] = ("policy",)
    blocks: Sequence[Block] = ()

    def calls(self, texts: Texts) -> int:
        return 1

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        results = []
        for case in cases:
            kind, draw = case % len(self.right), key.derive(texts.digest, case, first).numpy()
            taken = [self._tactic(texts, kind, None if greedy else draw) for _ in range(samples)]
            scores = [float(tactic == self.right[kind]) for tactic in taken]
            if self.shuffled and not greedy:
                scores = draw.permutation(scores).tolist()
            for sample, (tactic, score) in enumerate(zip(taken, scores, strict=True)):
                results.append(CaseResult(case, sample, score, 1, f"A case of kind {kind}.", "", f"tactic {tactic}"))
        return results

    def _tactic(self, texts: Texts, kind: int, draw: object) -> int:
        tactic = self.lesson(texts, kind)
        if draw is None:
            return 0 if tactic is None else tactic
        chance, even = draw.random(), int(draw.integers(self.tactics))  # type: ignore[attr-defined]
        return even if tactic is None or chance >= self.faith else tactic

    @staticmethod
    def lesson(texts: Texts, kind: int) -> int | None:
        """The tactic that the library's first lesson on a kind names."""
        matches = (re.search(rf"kind {kind}: tactic (\d+)", lesson) for lesson in texts.library)
        return next((int(match[1]) for match in matches if match), None)

    def accuracy(self, texts: Texts) -> float:
        """Exact, of drawn answers."""
        even, total = 1 / self.tactics, 0.0
        for kind, right in enumerate(self.right):
            tactic = self.lesson(texts, kind)
            total += even if tactic is None else (1 - self.faith) * even + self.faith * (tactic == right)
        return total / len(self.right)

    def refuses(self, texts: Texts) -> str | None:
        return problem(texts, self.roles, {})


def contrasting(question: str) -> str:
    """A reflecting model for `Tactical` and semantic group advantages: winners' tactic becomes the kind's lesson."""
    if question.startswith("Question:"):
        return question.partition("Answer: ")[2].partition("\n")[0]
    kind = re.search(r"kind (\d+)\.", question)
    if kind:
        won = re.findall(r"Reward 1: tactic (\d+)", question)
        return f"ADD: kind {kind[1]}: tactic {won[0]}"
    library, _, edits = question.partition("Edits that were proposed")
    known = {label: number for number, label in re.findall(r"(\d+)\. kind (\d+)", library)}
    latest = dict(re.findall(r"ADD: kind (\d+): tactic (\d+)", edits))
    form = {label: f"MODIFY {known[label]}:" if label in known else "ADD:" for label in latest}
    return "\n".join(f"{form[label]} kind {label}: tactic {tactic}" for label, tactic in latest.items()) or "KEEP"


def searched(
    target: object,
    reflect: Callable[[str], str],
    searcher: Searcher,
    *,
    seed: int = 0,
    budget: int = 600,
    practice: int = 12,
    development: int = 12,
    start: Texts | None = None,
) -> SearchBench:
    """A search in such a world to its end; from empty texts unless others are given."""
    key = Key.of(seed).derive("searched")
    bench = SearchBench(target, reflect, start or Texts(), key, budget, practice, development)  # type: ignore[arg-type]
    search(bench, searcher)
    return bench


def calls_to(bench: SearchBench, score: float = 1.0) -> int:
    """Target calls until some trial had `score` on development; the whole budget where none had."""
    reached: list[Trial] = [trial for trial in bench.trials if trial.score >= score - 1e-9]
    return reached[0].spent if reached else bench.budget
