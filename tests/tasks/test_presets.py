"""Well-known data sets by preset: columns, verifier and template, on rows written in each set's own form."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example
from hocket.tasks import find
from hocket.tasks.data import Data, from_rows

GSM8K = [
    {
        "question": f"Ann has {n} pens and buys 2. How many?",
        "answer": f"She has <<{n}+2={n + 2}>>{n + 2}.\n#### {n + 2:,}",
    }
    for n in (3, 1200, 7)
]
MATH = [
    {"problem": "What is $1/2$?", "level": "Level 1", "type": "Algebra", "solution": "It is $\\boxed{\\frac{1}{2}}$."},
    {
        "problem": "Solve $x+1=3$.",
        "level": "Level 2",
        "type": "Algebra",
        "solution": "So $x=\\fbox{2}$, or \\boxed{2}.",
    },
]
AIME = [
    {
        "id": 60,
        "problem": "Find $m+n$.",
        "solution": "We get $\\boxed{033}$.",
        "answer": "033",
        "url": "u",
        "year": "2024",
    },
    {"id": 61, "problem": "Find $N$.", "solution": "It is 204.", "answer": "204", "url": "u", "year": "2024"},
]
COUNTDOWN = [{"target": 98, "nums": [44, 19, 35]}, {"target": 3, "nums": [1, 2, 6]}, {"target": 12, "nums": [2, 8, 3]}]
TURN = {"role": "user", "content": "Name a colour."}
PAIRS = [
    {
        "prompt": f"Name a colour. {n}",
        "prompt_id": str(n),
        "chosen": [{**TURN, "content": f"Name a colour. {n}"}, {"role": "assistant", "content": "Blue."}],
        "rejected": [{**TURN, "content": f"Name a colour. {n}"}, {"role": "assistant", "content": worse}],
        "messages": [{**TURN}, {"role": "assistant", "content": "Blue."}],
        "score_chosen": 8.0,
        "score_rejected": 5.0,
    }
    for n, worse in enumerate(["Why?", "No.", "Blue."])
]
TRANSCRIPTS = [
    {
        "chosen": f"\n\nHuman: Hello {n}\n\nAssistant: Hi.\n\nHuman: Who?\n\nAssistant: A machine.",
        "rejected": f"\n\nHuman: Hello {n}\n\nAssistant: Hi.\n\nHuman: Who?\n\nAssistant: {worse}",
    }
    for n, worse in enumerate(["Guess!", "You.", "", "A machine."])
]


def read(preset: str, rows: Any, **settings: Any) -> Data:
    return from_rows(rows, preset=preset, **settings)


def first(task: Data, column: str) -> Any:
    """The scenario of the first row, whichever split it is in."""
    scenarios = [task.scenario(split, n) for split in ("train", "eval") for n in range(task.size(split) or 0)]  # type: ignore[arg-type]
    return next(scenario for scenario in scenarios if column in str(scenario.prompt))


def test_gsm8k() -> None:
    task = read("gsm8k", GSM8K)
    scenario = first(task, "1200 pens")
    assert scenario.prompt.startswith("Ann has 1200 pens and buys 2. How many?\n")
    assert "####" in scenario.prompt
    assert (scenario.answer, scenario.metadata["demonstration"]) == ("1,202", "She has 1202.\n#### 1,202")
    verdicts = [task.verify(text, scenario) for text in ("1200 + 2\n#### 1202", "#### 1,202.0", "1202 or 5", "none")]
    assert verdicts == [1, 1, 0, 0]
    assert task.verify(scenario.metadata["demonstration"], scenario) == 1


def test_gsm8k_leaves_out_rows_without_an_answer() -> None:
    task = read("gsm8k", [*GSM8K, {"question": "?", "answer": "unknown"}])
    assert list(task.remarks) == ["data: preset gsm8k leaves out 1 of 4 rows: the answer has no #### (1)"]
    assert (task.size("train") or 0) + (task.size("eval") or 0) == 3
    with pytest.raises(ConfigurationError, match="preset gsm8k can use none of 1 rows: the answer has no ####"):
        read("gsm8k", [{"question": "?", "answer": "unknown"}])


@pytest.mark.skipif(importlib.util.find_spec("math_verify") is None, reason="needs math-verify")
def test_math() -> None:
    task = read("math", MATH)
    scenario = first(task, "1/2")
    assert scenario.answer == "\\frac{1}{2}"
    assert scenario.prompt.endswith("\\boxed{}.")
    assert scenario.metadata["level"] == "Level 1"
    # Formulas that are equal in another spelling are tested with the verifier itself.
    assert task.verify("So \\boxed{\\frac{1}{2}}", scenario) == 1
    other = first(task, "Solve")
    assert (other.answer, task.verify("\\boxed{2.0}", other), task.verify("\\boxed{3}", other)) == ("2", 1, 0)
    answered = read("math", [{"problem": f"p{n}", "solution": "s", "answer": "4", "subject": "x"} for n in range(2)])
    assert first(answered, "p1").answer == "4"


def test_aime_reads_integers_from_the_box() -> None:
    task = read("aime", AIME, eval_share=1)
    assert (task.size("train"), task.size("eval")) == (0, 2)
    scenario = task.scenario("eval", 0)
    assert scenario.answer == "033"
    texts = ("\\boxed{33}, as in problem 5", "the answer is 33", "\\boxed{34}", "33 or 34", "")
    assert [task.verify(text, scenario) for text in texts] == [1, 1, 0, 0, 0]
    plain = read("aime", [{"question": f"q{n}", "answer": n} for n in range(3)])  # As opencompass writes it.
    assert first(plain, "q2").answer == 2


def test_countdown() -> None:
    task = read("countdown", COUNTDOWN)
    scenario = first(task, "44, 19, 35")
    assert "expression that equals 98" in scenario.prompt
    right = "<think>44 + 19 is 63</think><answer>44 + 19 + 35</answer>"
    assert task.verify(right, scenario) == 1
    wrong = ("44 + 19 + 35", "<answer>98</answer>", "<answer>44+19+35 = 98</answer>", "<answer>44+19+35*1</answer>")
    assert [task.verify(text, scenario) for text in wrong] == [0, 0, 0, 0]
    other = first(task, "2, 8, 3")
    assert [task.verify(f"<answer>{text}</answer>", other) for text in ("3 * 8 / 2", "-(0-3) * 8 / 2")] == [1, 0]
    malformed = ("8 / (3 - 3) * 2", "2**3 + 8", "((" * 90, "3*8/2;", "int('3')*8/2", "3*(8/2", "3 8 2")
    assert [task.verify(f"<answer>{text}</answer>", other) for text in malformed] == [0] * len(malformed)
    assert [reward.name for reward in task.rewards] == ["correct"]


def test_ultrafeedback() -> None:
    task = read("ultrafeedback", PAIRS)
    assert task.example is Example.PAIR
    assert "1 of 3 rows: chosen and rejected are the same" in task.remarks[0]
    scenario = first(task, "colour. 1")
    assert scenario.prompt == ({"role": "user", "content": "Name a colour. 1"},)
    assert (scenario.metadata["chosen"], scenario.metadata["rejected"]) == ("Blue.", "No.")
    assert scenario.metadata["score_chosen"] == 8.0
    assert task.rewards == ()


def test_hh_rlhf() -> None:
    task = read("hh-rlhf", TRANSCRIPTS)
    assert task.example is Example.PAIR
    assert "2 of 4 rows" in task.remarks[0]
    scenario = first(task, "Hello 1")
    assert [message["role"] for message in scenario.messages] == ["user", "assistant", "user"]
    assert scenario.messages[-1]["content"] == "Who?"
    assert (scenario.metadata["chosen"], scenario.metadata["rejected"]) == ("A machine.", "You.")


def test_a_preset_names_the_column_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"query": row["question"], "answer": row["answer"]}) + "\n" for row in GSM8K))
    with pytest.raises(ConfigurationError) as caught:
        find(f"{path}?preset=gsm8k")
    assert f"{path}: preset gsm8k reads the column question, which no row has; its columns are query, answer" in str(
        caught.value
    )
    task = find(f"{path}?preset=gsm8k&question=query")
    assert isinstance(task, Data)
    assert first(task, "7 pens").answer == "9"
    with pytest.raises(ConfigurationError, match=r"preset = 'gsm8'.*did you mean 'gsm8k'"):
        find(f"{path}?preset=gsm8")


def test_columns_and_a_template_by_settings(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("ask,context,good,why\nIs it?,{x} \\frac{1}{2},true,a\nWas it?,y,false,b\n")
    task = find(
        f"{path}?prompt=ask&label=good&completion=why&template={{prompt}} {{context}} \\boxed{{}} {{1}}&eval_share=1"
    )
    scenario = task.scenario("eval", 0)
    assert scenario.prompt == "Is it? {x} \\frac{1}{2} \\boxed{} {1}"
    assert (scenario.metadata["label"], scenario.metadata["demonstration"]) == (True, "a")
    with pytest.raises(ConfigurationError, match="prompt=query names a column that no row has; its columns are ask"):
        find(f"{path}?prompt=query")
    with pytest.raises(ConfigurationError, match="the template names the column 'text', which the row lacks"):
        find(f"{path}?prompt=ask&template={{text}}")


def test_a_column_within_a_column() -> None:
    rows = [{"prompt": f"p{n}", "extra": {"answer": n}} for n in range(3)]
    assert first(from_rows(rows, answer="extra.answer"), "p2").answer == 2
