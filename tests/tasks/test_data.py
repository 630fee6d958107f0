"""JSONL files as tasks: reading, dividing, verifying."""

from __future__ import annotations

import itertools
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.rewards.functions import columns_of
from hocket.tasks import find
from hocket.tasks.data import divided, from_rows
from hocket.tasks.examples import ExampleRow
from hocket.types import Score, Trajectory, Turn


def written(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def said(task: Any, text: str, split: str = "train", number: int = 0) -> Trajectory:
    turn = Turn("a", "p", np.zeros(0, int), np.arange(3), text=text)
    return Trajectory(task.scenario(split, number), [turn])


ROWS = [{"prompt": f"question {n}", "answer": n, "topic": "a" if n % 2 else None, "n": n} for n in range(40)]


def test_columns_and_answers_are_passed_on(tmp_path: Path) -> None:
    task = find(str(written(tmp_path / "data.jsonl", [*ROWS, {"prompt": "bare"}])))
    assert task.kind == "text"
    assert task.size("train") + task.size("eval") == 41  # type: ignore[operator]
    scenarios = [task.scenario(s, n) for s in ("train", "eval") for n in range(task.size(s) or 0)]
    assert sorted(scenario.id for scenario in scenarios) == sorted(f"data:{line}" for line in range(1, 42))
    seventh = next(scenario for scenario in scenarios if scenario.id == "data:8")
    assert (seventh.prompt, seventh.answer, seventh.metadata) == ("question 7", 7, {"topic": "a", "n": 7})
    bare = next(scenario for scenario in scenarios if scenario.prompt == "bare")
    assert (bare.answer, bare.metadata) == (None, {"topic": None, "n": None})


def test_numbers_outside_are_refused(tmp_path: Path) -> None:
    task = find(str(written(tmp_path / "d.jsonl", ROWS)))
    size = task.size("eval") or 0
    with pytest.raises(ConfigurationError, match=f"no eval scenario {size}"):
        task.scenario("eval", size)


def test_chats(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]
    path = written(
        tmp_path / "c.jsonl", [{"prompt": chat, "answer": "4", "split": "train"}, {"prompt": "x", "split": "test"}]
    )
    assert find(str(path)).scenario("train", 0).prompt == tuple(chat)
    instructed = find(f"{path}?instruct=true").scenario("train", 0).messages
    assert instructed[0]["content"].startswith("Be brief.\n")
    assert "<answer>" in instructed[0]["content"]
    assert instructed[1:] == tuple(chat[1:])
    assert find(f"{path}?instruct=true").scenario("eval", 0).messages[-1] == {"role": "user", "content": "x"}


def test_verdicts(tmp_path: Path) -> None:
    path = written(
        tmp_path / "v.jsonl",
        [
            {"prompt": "a", "answer": 1000, "split": "train"},
            {"prompt": "b", "answer": ["yes", "true"], "split": "train"},
            {"prompt": "c", "split": "train"},
            {"prompt": "d", "answer": True, "split": "eval"},
        ],
    )
    task = find(str(path))
    assert [reward.name for reward in task.rewards] == ["correct"]
    assert task.success(said(task, "<answer> 1,000.0 </answer>")) == 1.0
    assert task.success(said(task, "1000")) == 0.0
    assert task.describe(said(task, "1000")) == {"format": 0.0, "working": 0.0}
    assert task.success(said(task, "<answer>true</answer>", number=1)) == 1.0
    assert task.success(said(task, "<answer>true</answer>", "eval")) == 1.0
    number = find(f"{path}?extract=number")
    assert number.success(said(number, "so it is 1000.")) == 1.0
    unanswered = said(task, "anything", number=2)
    assert math.isnan(task.success(unanswered))
    unanswered.scores = {"mine": Score(0.25), "other": Score(None)}
    assert task.success(unanswered) == 0.25


def test_without_answers_there_is_no_verifier(tmp_path: Path) -> None:
    assert find(str(written(tmp_path / "p.jsonl", [{"prompt": "a"}, {"prompt": "b"}]))).rewards == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; write one JSON object with a prompt per line"),
        ("\n  \n", "is empty"),
        ('{"prompt": "a"}\n\n{"prompt": \n', "line 3: not valid JSON"),
        ('{"prompt": "a"}\n[1]\n', "line 2: a list where an object belongs"),
        ("3\n", "line 1: a number where an object belongs"),
        ('{"question": "a"}\n', 'line 1: no "prompt", only question; call the column'),
        ('{"Prompt": "a"}\n', "line 1: no \"prompt\"; did you mean 'Prompt'?"),
        ("{}\n", 'line 1: no "prompt"'),
        ('{"prompt": "  "}\n', "line 1: the prompt is empty"),
        ('{"prompt": 7}\n', "line 1: the prompt is a number; write text or a list of messages"),
        ('{"prompt": null}\n', "line 1: the prompt is null"),
        ('{"prompt": []}\n', "line 1: the prompt has no messages"),
        ('{"prompt": ["hi"]}\n', "line 1: message 0 of the prompt is text"),
        ('{"prompt": [{"content": "hi"}]}\n', 'message 0 of the prompt has no "role"'),
        (
            '{"prompt": [{"role": "user", "content": "a"}, {"role": "user"}]}\n',
            "message 1 of the prompt has no text as",
        ),
        ('{"prompt": "a", "answer": {"x": 1}}\n', "line 1: the answer is an object"),
        ('{"prompt": "a", "answer": []}\n', "line 1: the answer is an empty list"),
        ('{"prompt": "a", "answer": NaN}\n', "line 1: the answer is nan, which no response can match; leave it out"),
        ('{"prompt": "a", "answer": [1, -Infinity]}\n', "line 1: the answer is -inf"),
        ('{"prompt": "a", "answer": [null]}\n', "line 1: the answer is null"),
        ('{"prompt": "a", "split": "trian"}\n', "line 1: split = 'trian'; did you mean 'train'?"),
        ('{"prompt": "a", "split": 3}\n', "line 1: split = 3; choose from"),
        ('{"prompt": "a"}\n{"prompt": " a"}\n', "has 1 distinct prompt and none for eval"),
        ('{"prompt": "a", "split": "train"}\n', "none for eval; training and evaluation need one each"),
        ('{"prompt": "a", "split": "eval"}\n', "none for train"),
    ],
)
def test_wrong_files_get_a_sentence_with_file_and_line(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        find(str(path))
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def answers(path: Path) -> list[Any]:
    task = find(str(path))
    return [task.scenario(split, n).answer for split in ("train", "eval") for n in range(task.size(split) or 0)]


def test_numbers_in_json_are_known_exactly(tmp_path: Path) -> None:
    """Those that no float holds are kept as they are written."""
    numbers = ("0.00001", "1e16", "1e400", "0.1234567890123456789", "123456789012345678901234567890", "[0.10, 1e-400]")
    rows = [f'{{"prompt": "p{n}", "answer": {one}, "split": "train"}}' for n, one in enumerate(numbers)]
    path = tmp_path / "numbers.jsonl"
    path.write_text("\n".join([*rows, '{"prompt": "q", "answer": 1, "split": "eval"}']))
    told = answers(path)[:-1]
    assert told == [1e-5, 1e16, "1e400", "0.1234567890123456789", 123456789012345678901234567890, [0.1, "1e-400"]]
    task = find(str(path))
    for number, text in enumerate(("1e-5", "10000000000000000", "1" + "0" * 400, "0.12345678901234567890")):
        wrong = "1" + text if number else "1e-6"
        assert task.verify(f"<answer>{text}</answer>", task.scenario("train", number)) == (number != 2)
        assert task.verify(f"<answer>{wrong}</answer>", task.scenario("train", number)) == 0.0
    assert task.verify("<answer>1e400</answer>", task.scenario("train", 2)) == 1.0


def test_answers_in_csv(tmp_path: Path) -> None:
    """JSON lists are lists of accepted answers; what is none is text; what stands for a missing number is refused."""
    path = tmp_path / "answers.csv"
    cells = ('"[""a"", ""b""]"', '"[1, 2.5]"', "[a]", "[]", "nano", '"[""[1, 2]""]"', "\"['a', True]\"", "['a' 'b']")
    path.write_text(
        "prompt,answer,split\n" + "".join(f"p{n},{one},train\n" for n, one in enumerate(cells)) + "q,7,eval\n"
    )
    assert answers(path) == [["a", "b"], [1, 2.5], "[a]", "[]", "nano", ["[1, 2]"], ["a", True], "['a' 'b']", "7"]
    task = find(str(path))
    assert task.verify("<answer>b</answer>", task.scenario("train", 0)) == 1.0
    for cell in ("nan", "NaN", "inf", "-inf", '"[1, NaN]"'):
        path.write_text(f"prompt,answer\na,{cell}\nb,1\n")
        with pytest.raises(ConfigurationError, match=r"line 2: the answer is (nan|-?inf), which no response can match"):
            find(str(path))


@pytest.mark.parametrize("cell", ["1_0", "٥", "nan", "x"])
def test_numbers_in_csv_are_read_as_everywhere(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(f"prompt,chosen,rejected,weight\na,b,c,2.5\nd,e,f,{cell}\n")
    with pytest.raises(ConfigurationError, match="line 3: weight is text; write a number"):
        find(str(path))


def test_missing_numbers_of_python_are_refused() -> None:
    for missing in (math.nan, np.float32("nan"), Decimal("NaN")):
        with pytest.raises(ConfigurationError, match=r"data\[1\]: the answer is (nan|NaN), which no"):
            from_rows([{"prompt": "a", "answer": 1.0}, {"prompt": "b", "answer": missing}])


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "bytes.jsonl"
    path.write_bytes(b'{"prompt": "\xff\xfe"}')
    with pytest.raises(ConfigurationError, match="not UTF-8 text"):
        find(str(path))
    folder = tmp_path / "folder.jsonl"
    folder.mkdir()
    with pytest.raises(ConfigurationError, match="is a folder"):
        find(str(folder))


@pytest.mark.parametrize("setting", ["eval_share=0", "eval_share=1.5"])
def test_shares_outside_are_refused(tmp_path: Path, setting: str) -> None:
    with pytest.raises(ConfigurationError, match="eval_share must be above 0 and at most 1"):
        find(f"{written(tmp_path / 'd.jsonl', ROWS)}?{setting}")


def test_a_byte_order_mark_and_odd_separators_are_read(tmp_path: Path) -> None:
    path = tmp_path / "bom.jsonl"
    path.write_text('\ufeff{"prompt": "a\u2028b"}\r\n{"prompt": "c"}\r\n', encoding="utf-8")
    assert find(str(path)).size("train") == 1


# ---------------------------------------------------------------- dividing

CONTENTS = st.sampled_from([f"{space}q{n}" for n in range(12) for space in ("", " ", "\n")])
SPLITS = st.sampled_from([None, None, "train", "eval"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(CONTENTS, SPLITS), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_prompts_never_cross_the_split(pairs: list[tuple[str, Any]], share: float) -> None:
    rows = [ExampleRow(line, content, None, split, {}) for line, (content, split) in enumerate(pairs, start=1)]
    try:
        split_rows, left_out = divided(rows, share, Path("d.jsonl"))
    except ConfigurationError:
        contents = {row.content for row in rows}
        marked = {split: {row.content for row in rows if row.split == split} for split in ("train", "eval")}
        free = contents - marked["train"] - marked["eval"]
        assert len(contents) == 1 or (not free and not (marked["eval"] and marked["train"] - marked["eval"]))
        return
    train, unseen = split_rows["train"], split_rows["eval"]
    assert train
    assert unseen
    assert not {row.content for row in train} & {row.content for row in unseen}
    assert len({row.content for row in unseen}) == len(unseen)
    assert sorted([row.line for row in train + unseen] + left_out) == [row.line for row in rows]
    marked = {row.content for row in rows if row.split == "eval"}
    assert marked <= {row.content for row in unseen}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(60, 200), st.integers(1, 50), st.floats(0.1, 0.4))
def test_rows_added_later_move_no_others(first: int, more: int, share: float) -> None:
    rows = [ExampleRow(n, f"question {n}", None, None, {}) for n in range(first + more)]
    before, _ = divided(rows[:first], share, Path("d"))
    after, _ = divided(rows, share, Path("d"))
    assert [row for row in after["eval"] if row.line < first] == before["eval"]
    assert [row for row in after["train"] if row.line < first] == before["train"]


def test_a_tenth_is_kept_for_evaluation() -> None:
    rows = [ExampleRow(n, f"question {n}", None, None, {}) for n in range(3000)]
    kept, _ = divided(rows, 0.1, Path("d"))
    assert 250 < len(kept["eval"]) < 350


@pytest.mark.parametrize("count", [2, 3, 5])
def test_small_files_have_both_splits(count: int) -> None:
    kept, left_out = divided([ExampleRow(n, f"q{n}", None, None, {}) for n in range(count)], 0.1, Path("d"))
    assert len(kept["eval"]) >= 1
    assert len(kept["train"]) >= 1
    assert left_out == []


def test_answers_agree_by_value(tmp_path: Path) -> None:
    task = find(str(written(tmp_path / "d.jsonl", ROWS)))
    texts = ("1,000", " 1e3 ", "1000.0", "\u22121000", "one", "1/2")
    labels = [task.label(said(task, f"<answer>{text}</answer>")) for text in texts]
    assert labels == ["1000", "1000", "1000", "-1000", "one", "1/2"]


# ---------------------------------------------------------------- columns and rewards


def given_to_a_function(rows: Any) -> dict[str, Any]:
    """What a reward function is given of the first training row, by name."""
    scenario = from_rows(rows).scenario("train", 0)
    return {name: column[0] for name, column in columns_of([Trajectory(scenario, [])]).items()}


def test_every_other_column_reaches_rewards_by_its_name() -> None:
    own = {"id": "mine", "seed": 11, "origin": "o", "metadata": {"a": 1}, "trajectory": 2}
    own |= {"group": "g", "source": "s", "name": "n", "self": 3, "key": "k", "scenario": 4, "label": "l", "text": "t"}
    found = given_to_a_function([{"prompt": "p", "answer": "a", "split": "train", **own}, {"prompt": "q"}])
    assert {name: found[name] for name in own} == own
    assert found["answer"] == "a"
    # Without a column of the name it is the scenario's; where only some rows have one, others have none.
    assert given_to_a_function([{"prompt": "p", "split": "train"}, {"prompt": "q"}])["id"] == "data:0"
    assert given_to_a_function([{"prompt": "p", "split": "train"}, {"prompt": "q", "id": 1}])["id"] is None
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    beside = {"messages": chat, "prompt": "its own", "prompt_id": 5, "split": "train"}
    assert (
        given_to_a_function([beside, {"messages": [{"role": "user", "content": "c"}, chat[1]]}])["prompt"] == "its own"
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"prompts": ["a"]}, r"data\[0\]: the column prompts is called as what reward functions are given"),
        ({"completions": ["a"]}, "the column completions is called"),
        ({"completion_ids": [1]}, "the column completion_ids is called"),
        ({"trajectories": "a"}, "the column trajectories is called"),
        ({"completion": "a", "demonstration": "b"}, "demonstration stands beside completion, which is one"),
        ({"note": "half \ud83d"}, r"data\[0\]: 'note' holds '\\ud83d', half of a surrogate pair"),
        ({"deep": [{"a": ["b\udc00"]}]}, "'deep' holds"),
        ({"\udc80": 1}, r"'\\udc80' holds"),
    ],
)
def test_columns_that_cannot_be_passed_on_are_refused(row: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        from_rows([{"prompt": "p", **row}, {"prompt": "q"}])


def test_a_whole_emoji_is_text(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"prompt": "\\ud83d\\ude00", "split": "eval"}\n{"prompt": "b"}\n')
    assert find(str(tmp_path / "d.jsonl")).scenario("eval", 0).prompt == "\U0001f600"


def test_rows_of_a_split_that_say_another_are_refused() -> None:
    parts = {"train": [{"prompt": "p", "split": "train"}], "test": [{"prompt": "q", "split": "hard"}]}
    with pytest.raises(ConfigurationError, match=r"data\['test'\]\[0\]: split = 'hard' in the rows of 'test'"):
        from_rows(parts)
    parts["test"][0]["split"] = "validation"
    assert from_rows(parts).size("eval") == 1


# ---------------------------------------------------------------- tables from Python


def test_a_data_frame_is_rows_in_which_nan_is_no_value() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"prompt": [f"q{n}" for n in range(9)], "answer": range(9), "note": [None, 1.5, *"abcdefg"]}
    )
    task = tasks.of(frame)
    scenarios = [task.scenario("train", n) for n in range(task.size("train"))]
    assert {scenario.prompt: scenario.answer for scenario in scenarios}["q5"] in (5, "5")
    notes = {scenario.prompt: scenario.metadata["note"] for scenario in scenarios}
    assert {"q0": None, "q1": 1.5, "q2": "a"}.items() <= (notes | {"q0": notes.get("q0")}).items()
    parts = tasks.of({"train": frame[:6], "test": frame[6:]})
    assert (parts.size("train"), parts.size("eval")) == (6, 3)


class Columns:
    """As a `datasets.Dataset`: columns inside, rows when it is iterated over, and not a sequence of mappings."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = columns
        self.column_names = list(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Any:
        return (dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True))


def test_what_iterates_over_rows_is_rows() -> None:
    class Table(list[Any]):
        def to_pylist(self) -> list[Any]:
            return [{"prompt": text} for text in self]

    assert tasks.of(Columns(prompt=["a", "b", "c"], answer=["1", "2", "3"])).size("train") == 2
    assert tasks.of(Table("abc")).size("train") == 2


def test_an_iterator_is_read_once_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    task: Any = tasks.of({"prompt": f"q{n}"} for n in range(7))
    assert task.size("train") + task.size("eval") == 7
    assert task.remarks == ("data: the iterator was read once, 7 rows, and kept",)
    assert tasks.of([{"prompt": "a"}, {"prompt": "b"}]).remarks == ()  # type: ignore[attr-defined]
    monkeypatch.setattr("hocket.tasks.data.MOST_ROWS", 50)
    with pytest.raises(ConfigurationError, match="has given 50 rows and gives more"):
        tasks.of({"prompt": f"q{n}"} for n in itertools.count())


def test_a_dict_of_columns_is_sent_to_pandas() -> None:
    with pytest.raises(ConfigurationError, match=r"pandas\.DataFrame\(columns\)"):
        tasks.of({"prompt": ["a", "b"], "answer": ["1", "2"]})


def test_rows_in_a_file_or_made_by_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problems.py").write_text(
        "ROWS = [{'prompt': 'a'}, {'prompt': 'b'}]\n\n"
        "def sums(count: int = 4):\n    for n in range(count):\n        yield {'prompt': f'{n}+1', 'answer': n + 1}\n"
    )
    assert find("problems.py:ROWS").size("train") == 1
    task = find("problems.py:sums?count=30")
    assert task.size("train") + task.size("eval") == 30  # type: ignore[operator]
    assert task.scenario("train", 0).id.startswith("sums:")
    with pytest.raises(ConfigurationError, match="takes no settings"):
        find("problems.py:ROWS?count=3")


def test_rows_of_verl_have_their_answer_in_the_rule(tmp_path: Path) -> None:
    rule = {"style": "rule", "ground_truth": "42"}
    rows = [
        {"prompt": [{"role": "user", "content": f"q {n}"}], "reward_model": rule, "data_source": "x"} for n in range(4)
    ]
    (tmp_path / "v.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = find(f"{tmp_path / 'v.jsonl'}")
    scenario = task.scenario("train", 0)
    assert scenario.answer == "42"
    assert scenario.metadata["reward_model"] == rule
