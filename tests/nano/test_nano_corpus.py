"""The corpus and the default task: right labels, separate splits, the wordings of reasoning-gym, no global draws."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import torch

from hocket.agents.tools.calculator import calculator
from hocket.agents.workflows.plans import notes_text, plan_steps, plan_text
from hocket.nano.corpus import (
    GENERATORS,
    STYLE_SHARES,
    TASK_SHARES,
    TrainingChat,
    chain_sum_question,
    chats,
    is_held_out,
)
from hocket.tasks.arithmetic import (
    answer_format,
    expression_of,
    has_working,
    problems,
    sum_problem,
    verify,
    working,
)
from hocket.tasks.split import SHARES, SPLITS, split_of

EXAMPLES = list(itertools.islice(chats(1), 4000))


def evaluate(expression: str) -> int:
    """Left-to-right value of a sum with optional products, worked out without the code under test."""
    total, compact = 0, expression.replace(" ", "")
    for sign, factors in re.findall(r"([+-]?)(\d+(?:\*\d+)*)", compact):
        total += (-1 if sign == "-" else 1) * int(np.prod([int(f) for f in factors.split("*")], dtype=object))
    return total


def right_answer(chat: TrainingChat) -> str:
    """The answer worked out from the question's text alone."""
    if chat.task == "spell_backward":
        return "".join(reversed(chat.question.rsplit(" ", 1)[1]))
    if chat.task == "letter_counting":
        found = re.fullmatch(r'How many times .* "(.)" appear in the text: "(.*)"\?', chat.question)
        assert found is not None
        letter, text = found.groups()
        return str(sum(character == letter for character in text.lower()))
    return str(evaluate(re.sub(r"[^0-9+*-]", "", chat.question)))


def test_labels_are_right_in_every_task() -> None:
    for chat in EXAMPLES:
        assert chat.answer == right_answer(chat)
        last = chat.messages[-1]
        assert last.get("answer", last["content"].removeprefix("The answer is ")) == chat.answer


def test_each_step_of_working_is_right() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        terms = rng.integers(-999, 1000, size=int(rng.integers(1, 5))).tolist()
        start, *steps = re.split(r"(?<=\d)(?=[+-])", working(terms))
        total = int(start)
        for step in steps:
            change, result = step.split("=")
            total += int(change)
            assert total == int(result)
            assert re.fullmatch(r"[+-]\d0*", change)
        assert total == sum(terms)


def test_no_question_of_the_corpus_belongs_to_training_or_evaluation() -> None:
    assert {chat.task for chat in EXAMPLES} == set(TASK_SHARES)
    for chat in EXAMPLES:
        first = next(message for message in chat.messages if message["role"] == "user")
        assert first["content"] == chat.question
        assert all(split_of(text) == "pretrain" for text in (chat.question, *chat.steps))
        assert not is_held_out(chat.question)


def test_held_out_questions_are_not_in_the_corpus() -> None:
    held_out = {chat.question for chat in itertools.islice(chats(1, held_out=True), 300)}
    assert not held_out & {chat.question for chat in EXAMPLES}


@pytest.mark.parametrize("name", list(TASK_SHARES))
def test_generators_reach_every_split(name: str) -> None:
    rng = np.random.default_rng(0)
    found = Counter(split_of(GENERATORS[name](rng).question) for _ in range(1000))
    for split in SPLITS:
        assert abs(found[split] / 1000 - SHARES[split] / 100) < 0.08


def test_mixture_and_styles_have_their_shares() -> None:
    tasks = Counter(chat.task for chat in EXAMPLES)
    styles = Counter(chat.style for chat in EXAMPLES if chat.task == "sums")
    for name, share in TASK_SHARES.items():
        assert abs(tasks[name] / len(EXAMPLES) - share) < 0.03
    for style, share in STYLE_SHARES.items():
        assert abs(styles[style] / styles.total() - share) < 0.05


def test_same_seed_same_chats() -> None:
    assert list(itertools.islice(chats(1), 100)) == EXAMPLES[:100]
    assert list(itertools.islice(chats(2), 100)) != EXAMPLES[:100]


def test_splits_of_sums_are_disjoint_distinct_and_repeatable() -> None:
    found = {split: [p.question for p in itertools.islice(problems(split, 4), 1000)] for split in SPLITS}
    assert all(len(set(questions)) == 1000 for questions in found.values())
    assert not set(found["train"]) & set(found["eval"])
    assert not set(found["train"]) & set(found["pretrain"])
    assert [p.question for p in itertools.islice(problems("eval", 4), 1000)] == found["eval"]
    assert [p.question for p in itertools.islice(problems("eval", 5), 1000)] != found["eval"]


def test_sums_stay_in_their_bounds() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        problem = sum_problem(rng)
        numbers = re.findall(r"\d+", problem.question)
        assert 2 <= len(numbers) <= 4
        assert all(1 <= int(number) <= 999 for number in numbers)
        assert sum(map(len, numbers)) <= 8
        assert int(problem.answer) == evaluate(problem.question[len("What is ") : -1])


def test_split_ignores_whitespace() -> None:
    for problem in itertools.islice(problems("eval", 0), 50):
        assert split_of("  " + problem.question.replace(" ", "\n ") + "\t") == "eval"


@pytest.fixture
def gym() -> Iterator[ModuleType]:
    """reasoning-gym, whose import draws from Python's global generator; its state is put back."""
    state = random.getstate()
    yield pytest.importorskip("reasoning_gym")
    random.setstate(state)


def test_wordings_are_those_of_reasoning_gym(gym: ModuleType) -> None:
    theirs = gym.create_dataset("chain_sum", size=300, seed=1, min_terms=2, max_terms=4, min_digits=1, max_digits=3)
    for entry in theirs:
        expression = entry["metadata"]["expression"].split()
        later = zip(expression[1::2], expression[2::2], strict=True)
        terms = [int(expression[0]), *(int(sign + size) for sign, size in later)]
        ours = chain_sum_question(terms, expression[1::2])
        assert ours == entry["question"]
        assert split_of(ours) == split_of(entry["question"])
        assert str(sum(terms)) == entry["answer"]
    for name in ("spell_backward", "letter_counting"):
        # Same text once the random parts (quoted words, or what follows the last colon) are masked.
        mask = (lambda q: re.sub(r'"[^"]*"', '""', q)) if name == "letter_counting" else (lambda q: q.rsplit(":", 1)[0])
        asked = {mask(entry["question"]) for entry in gym.create_dataset(name, size=20, seed=1)}
        assert asked == {mask(chat.question) for chat in EXAMPLES if chat.task == name}


@pytest.mark.parametrize(
    ("completion", "answer", "reward"),
    [
        ("<answer>12</answer>", "12", 1.0),
        ("<answer> +012\n</answer>", "12", 1.0),
        ("<answer>-7</answer>", "-7", 1.0),
        ("<answer>-0</answer>", "0", 1.0),
        ("<answer>000</answer>", "0", 1.0),
        ("<think>9</think><answer>1</answer><answer>12</answer>", "12", 1.0),
        ("<answer><answer>12</answer>", "12", 1.0),
        ("<answer>12</answer> and more", "12", 1.0),
        ("<answer>12</answer><answer>13</answer>", "12", 0.0),
        ("<answer>12", "12", 0.0),
        ("12</answer>", "12", 0.0),
        ("12", "12", 0.0),
        ("</answer><answer>", "12", 0.0),
        ("<answer></answer>", "0", 0.0),
        ("<answer>1 2</answer>", "12", 0.0),
        ("<answer>12.0</answer>", "12", 1.0),
        ("<answer>--12</answer>", "12", 0.0),
        ("<answer>- 12</answer>", "-12", 0.0),
        ("<answer>12</answer>", "-12", 0.0),
        ("<answer>１２</answer>", "12", 0.0),
        ("<answer>1_2</answer>", "12", 0.0),
        ("<answer>" + "9" * 5000 + "</answer>", "12", 0.0),
        ("", "12", 0.0),
    ],
)
def test_verify(completion: str, answer: str, reward: float) -> None:
    assert verify(completion, answer) == reward


def test_styles_are_told_apart() -> None:
    assert answer_format("<think>1+1=2</think><answer>2</answer>") == "worked"
    assert answer_format("<answer>2</answer>") == "direct"
    assert answer_format("<think> </think><answer>2</answer>") == "direct"
    assert answer_format("<think>1+1=2</think>The answer is 2") == "untagged"
    assert answer_format("The answer is 2") == "untagged"
    assert not has_working("<think>1+1")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3 * 4", "12"),
        ("2 - 3 * 4", "-10"),
        ("-5", "-5"),
        ("-5 - 7", "-12"),
        (" 1+1 ", "2"),
        ("", "error"),
        ("2 ** 9", "error"),
        ("1 / 2", "error"),
        ("x + 1", "error"),
        ("True", "error"),
        ("1.5 + 1", "error"),
        ("(" * 90, "error"),
        ("1" * 101, "error"),
        ("1\0", "error"),
    ],
)
def test_calculator(expression: str, value: str) -> None:
    assert calculator(expression) == value


def test_plans_and_notes() -> None:
    steps = [expression_of([12, 34]), expression_of([-5, 7])]
    assert plan_text(steps) == "1. 12 + 34\n2. -5 + 7"
    assert plan_steps(plan_text(steps)) == steps
    assert plan_steps("Let me see.\n 1.  1 + 1 \nno step\n2. 2") == ["1 + 1", "2"]
    assert notes_text(steps, ["46", "2"]) == "Results:\n12 + 34 = 46\n-5 + 7 = 2"


def refused(*_: object, **__: object) -> None:
    raise AssertionError("a global random generator was used")


def test_no_global_generator_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("random", "randint", "choice", "shuffle", "sample"):
        monkeypatch.setattr(random, name, refused)
    for name in ("rand", "randn", "randint", "choice", "permutation", "seed"):
        monkeypatch.setattr(np.random, name, refused)
    before = torch.get_rng_state().tolist()
    assert len(list(itertools.islice(chats(9), 200))) == 200
    assert len(list(itertools.islice(problems("train", 9), 200))) == 200
    assert torch.get_rng_state().tolist() == before
