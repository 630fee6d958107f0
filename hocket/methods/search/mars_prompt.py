"""MARS: a prompt improved by Socratic guidance between models (Zhang et al., arXiv:2503.16874).

Seven roles. The user's proxy is what the search is given, and the manager is the loop here. A planner, shown a few
practice episodes, lists the steps of improving the prompt. At each step a teacher asks a leading question, a critic
judges it and may reject it, which the teacher hears before it asks again, and a student rewrites the prompt in answer.
The target is the policy: it is scored with the new prompt on the development cases, and the best prompt is handed on
until the plan ends or scores stall. The four that speak are one reflecting model by turns, as in the paper. Its text
was not at hand: how many turns a step has, when scores have stalled (`turns`, `patience`) and all wording is ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hocket.agents.search.plain import prompt_of, shown, with_prompt
from hocket.agents.search.searcher import SearchBench, Searcher, SearchMethod, check_wording
from hocket.core.errors import ConfigurationError

PLAN = """You are the planner. An assistant works by this instruction:
{prompt}

What it does:
{episodes}

List the steps of improving the instruction, one a line, numbered, at most {most}."""

TEACH = """You are the teacher. The instruction to improve:
{prompt}

The step at hand: {step}
{remark}
Ask one short leading question (number {number}) that brings the student to a better instruction. Do not give the
instruction yourself."""

REMARK = "The critic rejected {question!r}: {verdict}\n"

CRITICISE = """You are the critic. The step at hand: {step}
The teacher's question: {question}

Does the question lead to a better instruction? Begin with ACCEPT or REJECT, then say why in a sentence."""

STUDY = """You are the student. The instruction:
{prompt}

The teacher's question: {question}

Answer it for yourself and rewrite the instruction. Reply with the instruction alone."""

_STEP = re.compile(r"^\W*\d+[.):]\s*(.+)$", re.M)


@dataclass(frozen=True)
class Socratic(Searcher):
    """See the module.

    Attributes:
        examples: practice episodes that the planner sees. steps: the most of a plan. turns: questions of a step.
        retries: further questions after a rejection. patience: so many measured prompts in a row that were no better
            end the search.
        critic: whether there is one; without, every question is put to the student.
        plan, teach, remark, criticise, study: what the reflecting model is asked, if in other words; `remark` is what
            the teacher hears of a rejection.
    """

    examples: int = 3
    steps: int = 6
    turns: int = 3
    retries: int = 2
    patience: int = 8
    critic: bool = True
    plan: str = PLAN
    teach: str = TEACH
    remark: str = REMARK
    criticise: str = CRITICISE
    study: str = STUDY

    def __post_init__(self) -> None:
        for name, least in (("examples", 0), ("steps", 1), ("turns", 1), ("retries", 0), ("patience", 1)):
            if getattr(self, name) < least:
                raise ConfigurationError(f"searcher.{name} = {getattr(self, name)}: it must be at least {least}")
        usual = {"plan": PLAN, "teach": TEACH, "remark": REMARK, "criticise": CRITICISE, "study": STUDY}
        for name, words in usual.items():
            check_wording(name, getattr(self, name), words)

    def search(self, bench: SearchBench) -> None:
        for role in bench.roles:
            self._improve(bench, role)

    def _improve(self, bench: SearchBench, role: str) -> None:
        """One role's prompt, step by step."""
        stalled = 0
        for number, step in enumerate(self._plan(bench, role), 1):
            for turn in range(1, self.turns + 1):
                best = bench.best
                question = self._question(bench, role, step, number * self.turns + turn)
                said = question and bench.ask(self.study.format(prompt=prompt_of(best.texts, role), question=question))
                if not said:
                    continue
                trial = bench.measure(with_prompt(best.texts, role, said), f"{role}, step {number}", best)
                stalled = 0 if trial is not None and trial.score > best.score else stalled + 1
                if stalled == self.patience:
                    return

    def _plan(self, bench: SearchBench, role: str) -> list[str]:
        """The steps; one for all where the planner lists none."""
        texts = bench.best.texts
        seen = shown(bench.practise(texts, range(min(self.examples, bench.practice)), greedy=True))
        said = bench.ask(self.plan.format(prompt=prompt_of(texts, role), episodes=seen, most=self.steps))
        return [match.strip() for match in _STEP.findall(said)][: self.steps] or ["make the instruction clearer"]

    def _question(self, bench: SearchBench, role: str, step: str, number: int) -> str:
        """The teacher's first question that the critic accepts; nothing when all are rejected."""
        prompt, remark = prompt_of(bench.best.texts, role), ""
        for attempt in range(self.retries + 1):
            asked = self.teach.format(prompt=prompt, step=step, remark=remark, number=f"{number}.{attempt + 1}")
            question = bench.ask(asked)
            if not question or not self.critic:
                return question
            verdict = bench.ask(self.criticise.format(step=step, question=question))
            if "REJECT" not in verdict.upper():
                return question
            remark = self.remark.format(question=question, verdict=verdict)
        return ""


MARS_PROMPT = SearchMethod(
    name="mars-prompt",
    description="a planner's steps, a teacher's questions, a critic, and a student who rewrites the prompt",
    searcher=Socratic(),
    source="arXiv:2503.16874",
)
