"""Procedurally generated chats for pretraining: several tasks, mixed styles of answering, always correct.

Every draw comes from one `numpy.random.Generator`; every question belongs to the "pretrain" split, and a part of
that split (`is_held_out`) is kept back to measure accuracy during pretraining.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from transformers import PreTrainedTokenizerFast

from hocket.agents.tools.calculator import CALCULATOR, calculator
from hocket.agents.workflows.plans import PLANNER_SYSTEM, WORKER_SYSTEM, notes_text, plan_text
from hocket.tasks.arithmetic import (
    CHAIN_SUM_QUESTION,
    ArithmeticProblem,
    draw_terms,
    expression_of,
    question_of,
    working,
)
from hocket.tasks.split import percentile_of, split_of

Message: TypeAlias = dict[str, Any]
Style: TypeAlias = Literal["direct", "worked", "untagged"]

TASK_SHARES: dict[str, float] = {
    "sums": 0.36,
    "chain_sum": 0.14,
    "spell_backward": 0.10,
    "letter_counting": 0.10,
    "tool_use": 0.10,
    "planner": 0.08,
    "worker": 0.12,
}
STYLE_SHARES: dict[Style, float] = {"direct": 0.55, "worked": 0.37, "untagged": 0.08}
HELD_OUT_PERCENT = 5

SPELL_QUESTION = "Spell this word backward (example: sun -> nus): {}"
COUNT_QUESTION = 'How many times does the letter "{}" appear in the text: "{}"?'
"""The wordings of reasoning-gym 0.1 for `spell_backward` and `letter_counting`."""

_STREAM = 0x434F5250  # "CORP": keeps these draws apart from those of other users of the same seed
_ONSETS = ("", "b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "qu", "r", "s", "t", "v", "w", "x", "y")
_ONSETS_LONG = ("z", "th", "sh", "ch", "st", "tr", "gr", "pl")
_NUCLEI = ("a", "e", "i", "o", "u", "y", "ea", "ou", "ee")
_CODAS = ("", "", "", "n", "r", "s", "t", "l", "d", "m", "ck", "nd", "st", "ng")


@dataclass(frozen=True)
class TrainingChat:
    """One training example: the messages of a whole conversation and where it comes from."""

    task: str
    style: Style
    question: str
    """The text that decides the split: the first user message."""
    answer: str
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()
    steps: tuple[str, ...] = field(default=())
    """Smaller questions asked within the chat; they too belong to the split of the chat."""


def reply(style: Style, thinking: str, answer: str) -> Message:
    """The assistant's message with `answer` in one of the styles."""
    match style:
        case "direct":
            return {"role": "assistant", "content": "", "answer": answer}
        case "worked":
            return {"role": "assistant", "content": "", "reasoning_content": thinking, "answer": answer}
        case "untagged":
            return {"role": "assistant", "content": f"The answer is {answer}"}


def draw_style(rng: np.random.Generator) -> Style:
    """A style of answering, by `STYLE_SHARES`."""
    styles = list(STYLE_SHARES)
    return styles[int(rng.choice(len(styles), p=list(STYLE_SHARES.values())))]


def _single_turn(rng: np.random.Generator, task: str, problem: ArithmeticProblem, thinking: str) -> TrainingChat:
    style = draw_style(rng)
    user = {"role": "user", "content": problem.question}
    messages = (user, reply(style, thinking, problem.answer))
    return TrainingChat(task, style, problem.question, problem.answer, messages)


def sums_chat(rng: np.random.Generator) -> TrainingChat:
    """A problem of the default task."""
    terms = draw_terms(rng)
    problem = ArithmeticProblem(question_of(expression_of(terms)), str(sum(terms)))
    return _single_turn(rng, "sums", problem, working(terms))


def chain_sum_terms(rng: np.random.Generator, terms: tuple[int, int] = (2, 4)) -> list[int]:
    """Signed terms as reasoning-gym's `chain_sum` draws them: all of one number of digits, 1 to 3."""
    count = int(rng.integers(terms[0], terms[1] + 1))
    digits = int(rng.integers(1, 4))
    low = 0 if digits == 1 else 10 ** (digits - 1)
    sizes = rng.integers(low, 10**digits, size=count).tolist()
    signs = rng.integers(0, 2, size=count).tolist()
    return [size if index == 0 or signs[index] else -size for index, size in enumerate(sizes)]


def chain_sum_question(terms: Sequence[int], signs: Sequence[str]) -> str:
    """The wording of reasoning-gym's `chain_sum`; `signs` has one of + and - for each term but the first."""
    rest = (f" {sign} {abs(term)}" for sign, term in zip(signs, terms[1:], strict=True))
    return CHAIN_SUM_QUESTION.format(str(terms[0]) + "".join(rest))


def chain_sum_problem(rng: np.random.Generator, terms: tuple[int, int] = (2, 4)) -> tuple[ArithmeticProblem, str]:
    """A `chain_sum` problem with `terms[0]` to `terms[1]` terms, and the working of its answer."""
    drawn = chain_sum_terms(rng, terms)
    signs = ["-" if term < 0 else "+" for term in drawn[1:]]
    return ArithmeticProblem(chain_sum_question(drawn, signs), str(sum(drawn))), working(drawn)


def chain_sum_chat(rng: np.random.Generator) -> TrainingChat:
    """A problem worded as reasoning-gym's `chain_sum`."""
    return _single_turn(rng, "chain_sum", *chain_sum_problem(rng))


def draw_word(rng: np.random.Generator, shortest: int, longest: int) -> str:
    """A pronounceable made-up word of `shortest` to `longest` letters, capitalised one time in ten."""
    length = int(rng.integers(shortest, longest + 1))
    onsets = (*_ONSETS, *_ONSETS_LONG)
    letters = ""
    while len(letters) < length:
        letters += "".join(part[int(rng.integers(len(part)))] for part in (onsets, _NUCLEI, _CODAS))
    word = letters[:length]
    return word.capitalize() if rng.random() < 0.1 else word


def spell_backward_chat(rng: np.random.Generator) -> TrainingChat:
    """A word to spell backward; the working spells it out first."""
    word = draw_word(rng, 3, 10)
    problem = ArithmeticProblem(SPELL_QUESTION.format(word), word[::-1])
    return _single_turn(rng, "spell_backward", problem, f"{' '.join(word)} | {' '.join(word[::-1])}")


def letter_counting_chat(rng: np.random.Generator) -> TrainingChat:
    """A letter to count in a few words; the working writes a running count after each word."""
    words = [draw_word(rng, 2, 7) for _ in range(int(rng.integers(3, 7)))]
    letters = sorted(set("".join(words).lower()))
    letter = letters[int(rng.integers(len(letters)))]
    counts = np.cumsum([word.lower().count(letter) for word in words]).tolist()
    thinking = ", ".join(f"{word} {count}" for word, count in zip(words, counts, strict=True))
    problem = ArithmeticProblem(COUNT_QUESTION.format(letter, " ".join(words)), str(counts[-1]))
    return _single_turn(rng, "letter_counting", problem, thinking)


def tool_call(expression: str) -> Message:
    """The assistant's message that asks the calculator for `expression`."""
    call = {"type": "function", "function": {"name": "calculator", "arguments": {"expression": expression}}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def draw_tool_expression(rng: np.random.Generator) -> str:
    """Two or three integers of up to four digits joined by +, - and *."""
    count = int(rng.integers(2, 4))
    numbers = [str(int(rng.integers(1, 10 ** int(rng.integers(1, 5))))) for _ in range(count)]
    signs = [("+", "-", "*")[int(rng.integers(3))] for _ in range(count - 1)]
    return numbers[0] + "".join(f" {sign} {number}" for sign, number in zip(signs, numbers[1:], strict=True))


def tool_use_chat(rng: np.random.Generator) -> TrainingChat:
    """A calculation handed to the calculator, and its result reported; never worked out by the model."""
    expression = draw_tool_expression(rng)
    question, answer = question_of(expression), calculator(expression)
    style: Style = "untagged" if rng.random() < STYLE_SHARES["untagged"] else "direct"
    messages = (
        {"role": "user", "content": question},
        tool_call(expression),
        {"role": "tool", "content": answer},
        reply(style, "", answer),
    )
    return TrainingChat("tool_use", style, question, answer, messages, tools=(CALCULATOR,))


def pairs_of(terms: Sequence[int]) -> list[list[int]]:
    """Consecutive pairs of terms, the last alone if their number is odd: the plan of a sum."""
    return [list(terms[start : start + 2]) for start in range(0, len(terms), 2)]


def planner_chat(rng: np.random.Generator) -> TrainingChat:
    """A sum split into steps of two terms, and the workers' results added up."""
    terms = draw_terms(rng)
    pairs = pairs_of(terms)
    steps = [expression_of(pair) for pair in pairs]
    results = [sum(pair) for pair in pairs]
    question, answer, style = question_of(expression_of(terms)), str(sum(terms)), draw_style(rng)
    messages = (
        {"role": "system", "content": PLANNER_SYSTEM},
        {"role": "user", "content": question},
        {"role": "assistant", "content": plan_text(steps)},
        {"role": "user", "content": notes_text(steps, [str(result) for result in results])},
        reply(style, working(results), answer),
    )
    return TrainingChat("planner", style, question, answer, messages, steps=tuple(steps))


def worker_chat(rng: np.random.Generator) -> TrainingChat:
    """One step of a plan: one of the pairs that a planner would hand out."""
    pairs = pairs_of(draw_terms(rng))
    terms = pairs[int(rng.integers(len(pairs)))]
    question, answer, style = expression_of(terms), str(sum(terms)), draw_style(rng)
    messages = (
        {"role": "system", "content": WORKER_SYSTEM},
        {"role": "user", "content": question},
        reply(style, working(terms), answer),
    )
    return TrainingChat("worker", style, question, answer, messages)


GENERATORS: dict[str, Callable[[np.random.Generator], TrainingChat]] = {
    "sums": sums_chat,
    "chain_sum": chain_sum_chat,
    "spell_backward": spell_backward_chat,
    "letter_counting": letter_counting_chat,
    "tool_use": tool_use_chat,
    "planner": planner_chat,
    "worker": worker_chat,
}


def is_held_out(question: str) -> bool:
    """Whether a question of the "pretrain" split is kept out of the corpus, to measure pretraining on."""
    return percentile_of(question, b"hocket-held-out") < HELD_OUT_PERCENT


def _usable(chat: TrainingChat, held_out: bool) -> bool:
    in_split = all(split_of(text) == "pretrain" for text in (chat.question, *chat.steps))
    return in_split and is_held_out(chat.question) == held_out


def chats(seed: int, *, task: str | None = None, held_out: bool = False) -> Iterator[TrainingChat]:
    """Chats of the "pretrain" split without end, of all tasks by `TASK_SHARES` or of one; same seed, same chats."""
    rng = np.random.default_rng([_STREAM, int(held_out), seed])
    tasks = list(TASK_SHARES)
    while True:
        name = task or tasks[int(rng.choice(len(tasks), p=list(TASK_SHARES.values())))]
        # The task is drawn once, so that rejecting questions of other splits leaves the shares as they are.
        chat = GENERATORS[name](rng)
        while not _usable(chat, held_out):
            chat = GENERATORS[name](rng)
        yield chat


def render(examples: Iterable[TrainingChat], tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    """Token ids of each whole chat, by the chat template."""
    texts = [
        tokenizer.apply_chat_template(list(chat.messages), tools=list(chat.tools) or None, tokenize=False)
        for chat in examples
    ]
    encoded: list[list[int]] = tokenizer(texts)["input_ids"]
    return encoded
