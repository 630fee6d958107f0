"""Signs that mean what a convention says: `b 3 7` is 7 where `b=high`. Only the prompt can tell.

A convention is drawn by a seed, and nothing in a question hints at it, so without a prompt that says what the signs
mean a policy can but guess. The lessons are about conventions of every kind, so what they teach is to follow whatever
the prompt says, and to guess where it says nothing; the reflecting roles of searchers are taught their part likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.core.texts import Texts
from hocket.rewards.verifiers import Extraction, equal
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons, Reflecting
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario

SIGNS = "bdkt"
MEANINGS: Mapping[str, Callable[[int, int], int]] = {
    "sum": lambda one, other: one + other,
    "gap": lambda one, other: abs(one - other),
    "high": max,
    "low": min,
}
"""What a sign before two numbers may mean. Of the numbers asked about no two meanings give the same."""

LARGEST = 9
TURNS = 6
"""Questions of a lesson, where they are short."""

SUMMARISE = "Question: {question}\nAnswer: {answer}\nReward: {score:g}\nSummary:"
CONTRAST = "Lessons:\n{library}\nQuestion: {question}\n{summaries}\nEdits:"
MERGE = "Proposed:\n{edits}\nMerged:"

PLAN = "{episodes}\nSteps:"
TEACH = "{step}\n{remark}Question {number}:"
REMARK = "Not {question}\n"
CRITICISE = "{step}\n{question}\nVerdict:"
STUDY = "{prompt}\n{question}\nPrompt:"

EXTRACT = "{session}\nMemories:"
JOIN = "{near}\nNew: {memory}\nEdit:"


class Conventions(TextTask):
    """Questions without end about the signs of one convention, each sign in its turn.

    Args:
        seed: of the convention. searcher: whose reflecting roles the lessons teach besides.
    """

    extract: Extraction = "number"

    def __init__(self, seed: int = 0, searcher: str = "") -> None:
        if searcher not in COURSES:
            known = ", ".join(name for name in COURSES if name)
            raise ConfigurationError(f"conventions: searcher = {searcher!r} has no lessons; take one of {known}")
        settings = "&".join(f"{name}={value}" for name, value in (("seed", seed), ("searcher", searcher)) if value)
        self.name, self.searcher = f"conventions?{settings}" if settings else "conventions", searcher
        order = Key.of(seed).derive("conventions").numpy().permutation(len(MEANINGS)).tolist()
        self.meaning: Mapping[str, str] = {
            sign: list(MEANINGS)[place] for sign, place in zip(SIGNS, order, strict=True)
        }

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        sign, rng = SIGNS[number % len(SIGNS)], Key.of(0).derive("conventions", split, number).numpy()
        first, second = _numbers(rng, sign, split)
        answer = str(MEANINGS[self.meaning[sign]](first, second))
        return Scenario(f"{self.name}/{split}/{number}", asked(sign, first, second), answer, seed=number)

    def verify(self, text: str, scenario: Scenario) -> float:
        return float(equal(self.extracted(text) or "", str(scenario.answer)))

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 16}

    @property
    def lessons(self) -> Lessons:
        """Answers by what the prompt says, whatever it says, and what the reflecting roles of a searcher write.

        They are drawn without a look at the scenario, and know its convention as little as the policy does.
        """
        course = COURSES[self.searcher]
        shares = np.array([share for share, _ in course.kinds], float)

        def play(scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
            return [course.kinds[int(rng.choice(len(shares), p=shares / shares.sum()))][1](rng)]

        others = {
            name: Reflecting(f"conventions?searcher={name}", entry.settings) for name, entry in COURSES.items() if name
        }
        taught = f"to take signs for what the prompt says, whatever that is{course.besides}"
        return Lessons(taught, course.steps, play, prompts=16, schedule="cosine", searchers=others)


def asked(sign: str, first: int, second: int) -> str:
    """A question."""
    return f"{sign} {first} {second}"


def means(sign: str, meaning: str) -> str:
    """The line that says what a sign means."""
    return f"{sign}={meaning}"


def answer_of(sign: str, meaning: str, first: int, second: int) -> str:
    """An answer: what the sign is taken for, and what comes of it."""
    return f"{means(sign, meaning)} {MEANINGS[meaning](first, second)}"


def _numbers(rng: np.random.Generator, sign: str, split: Split) -> tuple[int, int]:
    while True:
        first, second = (int(number) for number in rng.integers(1, LARGEST + 1, 2))
        distinct = len({meant(first, second) for meant in MEANINGS.values()}) == len(MEANINGS)
        if distinct and split_of(asked(sign, first, second)) == split:
            return first, second


def _any(rng: np.random.Generator) -> str:
    return list(MEANINGS)[int(rng.integers(len(MEANINGS)))]


def _library(rng: np.random.Generator, known: float = 0.5) -> dict[str, str]:
    """What each sign means with probability `known`, in a convention drawn at random, in any order."""
    some = [sign for sign in SIGNS if rng.random() < known]
    return {some[place]: _any(rng) for place in rng.permutation(len(some)).tolist()}


def _lines(library: Mapping[str, str]) -> list[str]:
    return [means(sign, meaning) for sign, meaning in library.items()]


def _numbered(lines: Sequence[str]) -> str:
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1)) or "(none)"


def _talk(exchanges: Sequence[tuple[str, str]], system: str | None = None) -> Lesson:
    """A conversation of questions and answers."""
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for question, answer in exchanges:
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    first = 2 if system else 1
    return Lesson(tuple(messages[:first]), tuple(messages[first:]))


def _sign(rng: np.random.Generator) -> str:
    return SIGNS[int(rng.integers(len(SIGNS)))]


def _even(rng: np.random.Generator, first: int) -> str:
    """A guess that is drawn: samples of a group differ."""
    return _any(rng)


def _steady(rng: np.random.Generator, first: int) -> str:
    """A guess by the first number, so that greedy answers about a sign do not depend on answers about others."""
    return list(MEANINGS)[first % len(MEANINGS)]


def _answer(rng: np.random.Generator, guess: Callable[[np.random.Generator, int], str] = _even) -> Lesson:
    library, talk = _library(rng), []
    lines = tuple(_lines(library))
    for _ in range(TURNS):
        known = bool(library) and rng.random() < 0.8
        sign = list(library)[int(rng.integers(len(library)))] if known else _sign(rng)
        first, second = _numbers(rng, sign, "train")
        talk.append((asked(sign, first, second), answer_of(sign, library.get(sign, guess(rng, first)), first, second)))
    prompt = {"policy": "\n".join(lines)} if lines else {}
    texts = Texts(prompt) if rng.random() < 0.5 else Texts(library=lines)
    return _talk(talk, texts.system("policy"))


def _steady_answer(rng: np.random.Generator) -> Lesson:
    return _answer(rng, _steady)


def _summary(rng: np.random.Generator) -> Lesson:
    sign, meaning = _sign(rng), _any(rng)
    first, second = _numbers(rng, sign, "train")
    question, answer = asked(sign, first, second), answer_of(sign, meaning, first, second)
    return _talk(
        [(SUMMARISE.format(question=question, answer=answer, score=int(rng.integers(2))), means(sign, meaning))]
    )


def _edit(lines: Sequence[str], sign: str, truth: str) -> str:
    """What becomes of a library where a sign turned out to mean `truth`."""
    about = {number: line for number, line in enumerate(lines, 1) if line.startswith(sign)}
    right = means(sign, truth)
    if not about:
        return f"ADD: {right}"
    wrong = [number for number, line in about.items() if line != right]
    if not wrong:
        return "KEEP"
    return f"DELETE {wrong[0]}" if right in about.values() else f"MODIFY {wrong[0]}: {right}"


def _contrast(rng: np.random.Generator) -> Lesson:
    lines, sign, truth = _lines(_library(rng)), _sign(rng), _any(rng)
    if rng.random() < 0.4:
        lines = [line for line in lines if not line.startswith(sign)]
    if rng.random() < 0.1:
        twice = {_any(rng), truth}
        lines = [line for line in lines if not line.startswith(sign)] + [means(sign, each) for each in sorted(twice)]
        lines = [lines[place] for place in rng.permutation(len(lines)).tolist()]
    first, second = _numbers(rng, sign, "train")
    size = int(rng.integers(2, 6))
    while True:
        taken = [_any(rng) for _ in range(size)]
        if 0 < taken.count(truth) < size:
            break
    summaries = "\n".join(f"Reward {int(meaning == truth)}: {means(sign, meaning)}" for meaning in taken)
    question = CONTRAST.format(question=asked(sign, first, second), summaries=summaries, library=_numbered(lines))
    return _talk([(question, _edit(lines, sign, truth))])


def _merge(rng: np.random.Generator) -> Lesson:
    talk = []
    for _ in range(2):
        lines, truth = _lines(_library(rng, 0.25)), {sign: _any(rng) for sign in SIGNS}
        edits = [_edit(lines, sign, truth[sign]) for sign in (_sign(rng) for _ in range(int(rng.integers(1, 8))))]
        merged = sorted(
            dict.fromkeys(edit for edit in edits if edit != "KEEP"), key=lambda edit: edit.partition("=")[0][-1]
        )
        talk.append((MERGE.format(edits="\n".join(edits)), "\n".join(merged) or "KEEP"))
    return _talk(talk)


def _step(sign: str, truth: str, first: int, second: int) -> str:
    """A step of a plan: what was found out of a sign, not yet what it means."""
    return f"{asked(sign, first, second)} is {MEANINGS[truth](first, second)}"


def _leading(sign: str, meaning: str) -> str:
    """A teacher's question."""
    return f"Is {sign} {meaning}?"


def _plan(rng: np.random.Generator) -> Lesson:
    signs = [SIGNS[place] for place in rng.permutation(len(SIGNS)).tolist()][: int(rng.integers(2, len(SIGNS) + 1))]
    episodes, steps = [], []
    for number, sign in enumerate(signs, 1):
        truth, (first, second) = _any(rng), _numbers(rng, sign, "train")
        right = MEANINGS[truth](first, second)
        answer = answer_of(sign, _any(rng), first, second)
        episodes.append(f"Question: {asked(sign, first, second)}\nAnswer: {answer}\nRight answer: {right}")
        steps.append(f"{number}. {_step(sign, truth, first, second)}")
    return _talk([(PLAN.format(episodes="\n\n".join(episodes)), "\n".join(steps))])


def _question(rng: np.random.Generator) -> Lesson:
    talk = []
    for _ in range(TURNS):
        sign, truth, other = _sign(rng), _any(rng), _any(rng)
        remark = REMARK.format(question=_leading(sign, other)) if other != truth and rng.random() < 0.5 else ""
        number = f"{int(rng.integers(4, 22))}.{int(rng.integers(2, 4)) if remark else 1}"
        step = _step(sign, truth, *_numbers(rng, sign, "train"))
        talk.append((TEACH.format(step=step, remark=remark, number=number), _leading(sign, truth)))
    return _talk(talk)


def _verdict(rng: np.random.Generator) -> Lesson:
    talk = []
    for _ in range(TURNS):
        sign, truth = _sign(rng), _any(rng)
        meaning = truth if rng.random() < 0.4 else _any(rng)
        first, second = _numbers(rng, sign, "train")
        verdict = f"{MEANINGS[truth](first, second)} {'ACCEPT' if meaning == truth else 'REJECT'}"
        question = CRITICISE.format(step=_step(sign, truth, first, second), question=_leading(sign, meaning))
        talk.append((question, f"{answer_of(sign, meaning, first, second)} for {verdict}"))
    return _talk(talk)


def _study(rng: np.random.Generator) -> Lesson:
    talk = []
    for _ in range(4):
        library, sign, meaning = _library(rng, 0.6), _sign(rng), _any(rng)
        prompt = "\n".join(sorted(_lines(library))) or "(none)"
        question = STUDY.format(prompt=prompt, question=_leading(sign, meaning))
        talk.append((question, "\n".join(sorted(_lines({**library, sign: meaning})))))
    return _talk(talk)


def _cited(rng: np.random.Generator) -> Lesson:
    """An answer that cites the lesson it goes by, of the few that are shown; a guess cites none."""
    library = dict(list(_library(rng).items())[:3])
    lines, talk = tuple(_lines(library)), []
    for _ in range(TURNS):
        known = bool(library) and rng.random() < 0.8
        sign = list(library)[int(rng.integers(len(library)))] if known else _sign(rng)
        first, second = _numbers(rng, sign, "train")
        answer = answer_of(sign, library.get(sign, _steady(rng, first)), first, second)
        place = f"[{list(library).index(sign) + 1}] " if sign in library else ""
        talk.append((asked(sign, first, second), place + answer))
    return _talk(talk, Texts(library=lines).system("policy"))


def _memory(rng: np.random.Generator) -> Lesson:
    talk = []
    for _ in range(TURNS):
        sign, truth = _sign(rng), _any(rng)
        first, second = _numbers(rng, sign, "train")
        right = MEANINGS[truth](first, second)
        answer = answer_of(sign, _any(rng), first, second)
        session = f"User: {asked(sign, first, second)}\nAssistant: {answer}\nUser: {right}"
        talk.append((EXTRACT.format(session=session), means(sign, truth)))
    return _talk(talk)


def _joined(rng: np.random.Generator) -> Lesson:
    talk = []
    for _ in range(TURNS):
        sign, truth = _sign(rng), _any(rng)
        near = [line for line in _lines(_library(rng)) if line != means(sign, truth)][:3]
        about = next((number for number, line in enumerate(near, 1) if line.startswith(sign)), None)
        new = means(sign, truth)
        talk.append((JOIN.format(near=_numbered(near), memory=new), f"MERGE {about}: {new}" if about else "ADD"))
    return _talk(talk)


@dataclass(frozen=True)
class ConventionCourse:
    """What lessons are of.

    Attributes:
        steps: how many suffice. kinds: of lessons, each with its share. besides: what is taught besides answering.
        settings: the words of the searcher's questions, short enough for a small model.
    """

    steps: int
    kinds: Sequence[tuple[int, Callable[[np.random.Generator], Lesson]]]
    besides: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


COURSES: Mapping[str, ConventionCourse] = {
    "": ConventionCourse(250, ((1, _answer),)),
    "training-free-grpo": ConventionCourse(
        500,
        ((4, _answer), (1, _summary), (3, _contrast), (3, _merge)),
        ", and to write down what better answers took them for",
        {"summarise": SUMMARISE, "contrast": CONTRAST, "merge": MERGE},
    ),
    "mars-prompt": ConventionCourse(
        600,
        ((3, _steady_answer), (2, _plan), (4, _question), (3, _verdict), (4, _study)),
        ", and to plan, to ask, to judge and to rewrite by what was right",
        {"examples": 4, "plan": PLAN, "teach": TEACH, "remark": REMARK, "criticise": CRITICISE, "study": STUDY},
    ),
    "rmm": ConventionCourse(
        600,
        ((4, _cited), (2, _memory), (2, _joined)),
        ", to cite it, and to write down and merge what a session showed",
        {"extract": EXTRACT, "merge": JOIN},
    ),
}
"""By the searcher whose reflecting roles are taught; under no name to answer alone."""


def from_settings(name: str, settings: Mapping[str, str]) -> Conventions:
    """The task with these settings."""
    return Conventions(**checked(name, settings, {"seed": int, "searcher": str}))


CONVENTIONS = TaskForm(
    name="conventions",
    description="two numbers after a sign whose meaning only the prompt can tell, e.g. conventions?seed=1",
    family="words",
    make=from_settings,
)
