"""A world half of whose questions are beyond reach: easy ones ask for a first token, hard ones for every token."""

from __future__ import annotations

from hocket.lab.bench import Bench
from hocket.lab.world import Answer, World

LENGTH, TOKENS = 8, 3


def solution(question: int) -> Answer:
    """The one right answer to a hard question; for an easy one its first token is enough."""
    return tuple((question + place * place) % TOKENS for place in range(LENGTH))


def hard(question: int) -> bool:
    """Odd questions are hard."""
    return question % 2 == 1


def right(question: int, answer: Answer) -> float:
    """1 for a right answer."""
    expected = solution(question)
    return float(answer == expected if hard(question) else answer[0] == expected[0])


HARD_HALF = World(6, TOKENS, LENGTH, right, metadata=lambda question: {"demonstration": solution(question)})
"""At first a sample is right with probability 1/3 on easy questions, 1/6561 on hard ones."""

ALL_HARD = World(
    *(3, TOKENS, LENGTH, lambda question, answer: float(answer == solution(question))),
    metadata=lambda question: {"demonstration": solution(question)},
)


def on_hard(bench: Bench) -> float:
    """The exact success rate without help, on hard questions."""
    questions = [question for question in range(bench.world.questions) if hard(question)]
    success = bench.expected(lambda question, answer: right(question, answer) * hard(question))
    return success * bench.world.questions / len(questions)
