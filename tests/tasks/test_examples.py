"""Rows that hold responses: what is read, what is refused, in every format and from Python."""

from __future__ import annotations

import csv
import io
import json
import sys
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example, held_by, responses_of
from hocket.tasks import find, of
from hocket.tasks.data import BLOCK, Data, from_rows
from hocket.types import Scenario

USER = {"role": "user", "content": "2+2?"}
FOUR = {"role": "assistant", "content": "4"}
FIVE = {"role": "assistant", "content": "5"}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def rows_with(row: dict[str, Any]) -> list[dict[str, Any]]:
    """A data set of one form: the row to train on, and one of the same form kept for evaluation."""
    return [{**row, "split": "train"}, {**_other(row), "split": "eval"}]


def _other(row: Mapping[str, Any]) -> dict[str, Any]:
    unseen: dict[str, Any] = {"prompt": "unseen"}
    if {"chosen", "rejected"} & row.keys():
        return {**unseen, "chosen": "a", "rejected": "b"}
    if "steps" in row or "completions" in row:
        return {**unseen, "steps": ["a"], "labels": [True]}
    if "responses" in row:
        return {**unseen, "responses": ["a", "b"]}
    if "messages" in row or "completion" in row:
        return {**unseen, "completion": "a", **({"label": True} if "label" in row else {})}
    return unseen


def first(row: dict[str, Any]) -> Scenario:
    """The scenario that a row becomes."""
    rows = rows_with(row)
    if "messages" in row:
        rows[1] = {"messages": [{"role": "user", "content": "unseen"}, assistant("a")], "split": "eval"}
        rows[1] |= {"labels": [True]} if "labels" in row else {}
    if "label" in row:
        rows.append({**row, "label": not row["label"], "split": "train"})
    return of(rows).scenario("train", 0)


# ---------------------------------------------------------------- what is read


@pytest.mark.parametrize(
    ("row", "example", "prompt", "metadata"),
    [
        ({"prompt": "p", "chosen": "c", "rejected": "r"}, Example.PAIR, "p", {"chosen": "c", "rejected": "r"}),
        # Implicit prompts: what two conversations begin with.
        (
            {"chosen": [USER, FOUR], "rejected": [USER, FIVE]},
            Example.PAIR,
            (USER,),
            {"chosen": "4", "rejected": "5"},
        ),
        (
            {"chosen": [USER, FOUR, USER, FOUR], "rejected": [USER, FOUR, USER, FIVE]},
            Example.PAIR,
            (USER, FOUR, USER),
            {"chosen": "4", "rejected": "5"},
        ),
        (
            {"chosen": [USER, FOUR, USER, FOUR], "rejected": [USER, FIVE]},
            Example.PAIR,
            (USER,),
            {"chosen": (FOUR, USER, FOUR), "rejected": "5"},
        ),
        # Conversational, with the prompt repeated in the responses or not.
        ({"prompt": [USER], "chosen": [FOUR], "rejected": [FIVE]}, Example.PAIR, (USER,), {"chosen": "4"}),
        ({"prompt": "2+2?", "chosen": [USER, FOUR], "rejected": [USER, FIVE]}, Example.PAIR, "2+2?", {"chosen": "4"}),
        (
            {"prompt": "p", "chosen": "c", "rejected": "r", "weight": 2, "margin": -1.5, "target": 0.75},
            Example.PAIR,
            "p",
            {"weight": 2.0, "margin": -1.5, "target": 0.75},
        ),
        ({"messages": [USER, FOUR]}, Example.DEMONSTRATION, (USER,), {"demonstration": "4"}),
        (
            {"messages": [USER, FOUR, USER, FIVE]},
            Example.DEMONSTRATION,
            (USER,),
            {"demonstration": (FOUR, USER, FIVE)},
        ),
        (
            {"prompt": "p", "completion": "c", "topic": 3},
            Example.DEMONSTRATION,
            "p",
            {"demonstration": "c", "topic": 3},
        ),
        ({"prompt": [USER], "completion": [FOUR]}, Example.DEMONSTRATION, (USER,), {"demonstration": "4"}),
        (
            {"prompt": "p", "completion": "c", "label": False},
            Example.LABELLED,
            "p",
            {"demonstration": "c", "label": False},
        ),
        ({"prompt": "p", "completion": "c", "label": 1}, Example.LABELLED, "p", {"label": True}),
        (
            {"prompt": "p", "responses": ["a", "b", "c"]},
            Example.RANKED,
            "p",
            {"responses": ["a", "b", "c"], "scores": [2.0, 1.0, 0.0]},
        ),
        (
            {"prompt": "p", "responses": ["a", [FOUR]], "scores": [0, 0.5]},
            Example.RANKED,
            "p",
            {"responses": ["a", "4"], "scores": [0.0, 0.5]},
        ),
        (
            {"prompt": "p", "steps": ["a", "b", "c"], "labels": [True, 0.5, None]},
            Example.STEPS,
            "p",
            {"steps": ["a", "b", "c"], "labels": [1.0, 0.5, None]},
        ),
        (
            {"prompt": "p", "completions": ["a", "b"], "labels": [True, False]},
            Example.STEPS,
            "p",
            {"steps": ["a", "b"], "labels": [1.0, 0.0]},
        ),
        (
            {"messages": [USER, FOUR, USER, FIVE], "labels": [True, False]},
            Example.STEPS,
            (USER,),
            {"demonstration": (FOUR, USER, FIVE), "labels": [1.0, 0.0]},
        ),
        (
            {"prompt": "p", "chosen": "c", "rejected": "r", "group": "g1", "annotator": 7},
            Example.PAIR,
            "p",
            {"group": "g1", "annotator": 7},
        ),
        (
            {"prompt": "p", "completion": "c", "tools": '[{"type": "function", "function": {"name": "add"}}]'},
            Example.DEMONSTRATION,
            "p",
            {"tools": [{"type": "function", "function": {"name": "add"}}]},
        ),
    ],
)
def test_forms(row: dict[str, Any], example: Example, prompt: Any, metadata: dict[str, Any]) -> None:
    scenario = first(row)
    assert scenario.prompt == prompt
    assert {name: scenario.metadata[name] for name in metadata} == metadata
    assert example in held_by(scenario)
    assert not {"completion", "messages", "prompt", "split"} & scenario.metadata.keys()


def test_numbers_that_a_row_does_not_state_are_neutral() -> None:
    pair = {"chosen": "c", "rejected": "r", "split": "train"}
    rows = [{"prompt": "a", **pair, "weight": 3}, {"prompt": "b", **pair, "target": 0.5, "margin": None}]
    task = of([*rows, {"prompt": "z", **pair, "split": "test"}])
    found = [task.scenario("train", number).metadata for number in range(2)]
    assert [one["weight"] for one in found] == [3.0, 1.0]
    assert [one["target"] for one in found] == [1.0, 0.5]
    plain = of([{"prompt": "a", "weight": "heavy"}, {"prompt": "b"}])
    assert {plain.scenario(split, 0).metadata["weight"] for split in ("train", "eval")} == {"heavy", None}


# ---------------------------------------------------------------- what is refused

PAIR = {"prompt": "p", "chosen": "c", "rejected": "r"}
RANKED = {"prompt": "p", "responses": ["a", "b"], "scores": [1, 0]}


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({**PAIR, "rejected": 7}, "rejected is a number; write text or a list of messages"),
        ({**PAIR, "chosen": True}, "chosen is a boolean; write text"),
        ({**PAIR, "chosen": {"text": "a"}}, "chosen is an object; write text"),
        ({**PAIR, "chosen": " \n"}, "chosen is empty; write the response"),
        ({**PAIR, "chosen": []}, "chosen has no messages"),
        ({**PAIR, "chosen": "r"}, "chosen and rejected are the same; drop the row"),
        ({"prompt": "p", "chosen": "c"}, 'no "rejected", which is compared with chosen; write both'),
        ({"prompt": "p", "rejected": "c", "chosen": None}, 'no "chosen", which is compared with rejected'),
        ({"chosen": "a", "rejected": "b"}, 'no "prompt"; write it, or write chosen and rejected as messages'),
        ({"chosen": [FOUR], "rejected": [FIVE]}, "do not begin alike"),
        ({"chosen": [USER, FOUR], "rejected": [USER, FOUR]}, "chosen and rejected are the same"),
        ({"chosen": [USER, FOUR], "rejected": [USER]}, "rejected has no messages; write some"),
        ({"chosen": [USER, FOUR, USER], "rejected": [USER, FIVE]}, "chosen ends with 'user'"),
        ({**PAIR, "chosen": [{"role": "assistant", "content": " "}]}, "a message of the assistant's in chosen has no"),
        ({**PAIR, "chosen": [{"role": "assistant", "tool_calls": [{}]}]}, "tool_calls[0] names no function"),
        ({**PAIR, "chosen": ["hi"]}, "message 0 of chosen is text"),
        ({**PAIR, "target": 1.5}, "target is 1.5; write the probability in [0, 1]"),
        ({**PAIR, "target": -0.1}, "target is -0.1"),
        ({**PAIR, "weight": -1}, "weight is -1.0; write 0 or more"),
        ({**PAIR, "weight": float("inf")}, "weight is inf; write a finite number"),
        ({**PAIR, "margin": float("nan")}, "margin is nan; write a finite number"),
        ({**PAIR, "margin": "big"}, "margin is text; write a number"),
        ({**PAIR, "weight": 10**400}, "weight is inf; write a finite number"),
        ({"messages": "hi"}, "messages is text; write a list of messages"),
        ({"messages": [USER]}, "messages has none of the assistant's"),
        ({"messages": [FOUR]}, "messages begins with the assistant's"),
        ({"messages": [USER, FOUR, USER]}, "messages ends with 'user'; end it with a message of the assistant's"),
        ({"prompt": "p", "completion": 3}, "completion is a number; write text"),
        ({"completion": "c"}, 'no "prompt", only completion'),
        ({"prompt": "p", "completion": "c", "label": "good"}, "label is 'good'; write true for a good"),
        ({"prompt": "p", "completion": "c", "label": 0.5}, "label is 0.5; write true"),
        ({**RANKED, "responses": ["a"]}, "responses is a list of 1; write a list of two responses or more"),
        ({**RANKED, "responses": "a"}, "responses is text; write a list of two"),
        ({**RANKED, "responses": ["a", "a"]}, "responses[0] and responses[1] are the same; drop one"),
        ({**RANKED, "responses": ["a", 3]}, "responses[1] is a number"),
        ({**RANKED, "scores": [1]}, "scores is a list of 1 for 2 responses; write a number for each"),
        ({**RANKED, "scores": [1, None]}, "scores[1] is null; write a number"),
        ({**RANKED, "scores": [1, float("nan")]}, "scores[1] is nan; write a finite number"),
        ({**RANKED, "scores": [1, 1]}, "scores are all 1.0, which ranks nothing"),
        ({"prompt": "p", "steps": ["a", ""], "labels": [1, 0]}, "steps must be a list of texts"),
        ({"prompt": "p", "steps": ["a", "b"], "labels": [True]}, "labels is a list of 1 where steps are 2"),
        ({"prompt": "p", "steps": ["a"], "labels": 1}, "labels is a number where steps are 1"),
        ({"prompt": "p", "steps": ["a"], "labels": [1.5]}, "labels[0] is 1.5; write true, false, a probability"),
        ({"prompt": "p", "steps": ["a"], "labels": [None]}, "labels are all null"),
        ({"messages": [USER, FOUR], "labels": [1, 0]}, "labels is a list of 2 where the assistant's messages are 1"),
        ({**PAIR, "tools": "search"}, "tools is text; write a list of function schemas"),
        ({**PAIR, "tools": [{"function": 3}]}, "tools is a list of something else"),
    ],
)
def test_wrong_rows_are_refused_with_place_and_mend(tmp_path: Path, row: dict[str, Any], sentence: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(_other(row)) + "\n\n" + json.dumps(row) + "\n")
    for refused, place in (
        (lambda: find(str(path)), f"{path}, line 3"),
        (lambda: from_rows([row], "mine"), "mine[0]"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            refused()
        assert str(caught.value).startswith(f"{place}: ")
        assert sentence in str(caught.value)
        assert "\n" not in str(caught.value)


def test_rows_of_two_forms_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"data\[1\]: the row has prompt where data\[0\] has chosen and rej"):
        of([PAIR, {"prompt": "q"}])
    with pytest.raises(
        ConfigurationError, match=r"data\[1\]: the row has completion where data\[0\] has completion and"
    ):
        of([{"prompt": "p", "completion": "c", "label": True}, {"prompt": "q", "completion": "c"}])


def test_labels_of_one_class_are_refused() -> None:
    rows = [{"prompt": f"p{n}", "completion": "c", "label": True} for n in range(20)]
    with pytest.raises(ConfigurationError, match=r"data: label is true in all \d+ rows to train on"):
        of(rows)


def test_what_is_no_rows_is_refused() -> None:
    for given_, sentence in (
        ([], "data is empty"),
        ([3], r"data\[0\]: a number where a mapping belongs"),
        (7, "it is of type int.; give rows of data, an environment, or a task"),
        ({"trian": [PAIR]}, "split 'trian' is unknown; did you mean 'train'"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            of(given_)


# ---------------------------------------------------------------- formats


class Dataset:
    """What a `datasets.Dataset` looks like from outside: columns by name, rows by iteration."""

    column_names = ("prompt", "chosen", "rejected", "margin")

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter({name: row.get(name) for name in self.column_names} for row in self.rows)


def test_a_dataset_and_splits_by_name() -> None:
    rows = [{"prompt": f"q{n}", "chosen": "c", "rejected": "r", "margin": float(n)} for n in range(10)]
    task = of(Dataset(rows))
    assert task.size("train") + task.size("eval") == 10  # type: ignore[operator]
    parted = of({"train": Dataset(rows[:7]), "test": Dataset(rows[7:])})
    assert (parted.size("train"), parted.size("eval")) == (7, 3)
    assert [parted.scenario("eval", n).prompt for n in range(3)] == ["q7", "q8", "q9"]
    assert of(task) is task
    with pytest.raises(ConfigurationError, match=r"^data\['test'\]\[0\]: chosen is a number"):
        of({"train": rows, "test": [{**PAIR, "chosen": 3}]})


def content(row: Mapping[str, Any]) -> str:
    """What a prompt says up to white space."""
    said = row["prompt"]
    texts = [said] if isinstance(said, str) else [message["content"] for message in said]
    return json.dumps([" ".join(text.split()) for text in texts])


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).filter(
    lambda text: bool(text.strip()) and not text.lstrip().startswith("[")
)
CONVERSATIONS = st.lists(TEXTS, min_size=1, max_size=3).map(
    lambda said: [{"role": "user", "content": "hello"}, *map(assistant, said)]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "prompt": TEXTS | CONVERSATIONS,
                "chosen": TEXTS.map(lambda text: "better " + text),
                "rejected": TEXTS.map(lambda text: "worse " + text),
                "margin": st.floats(-1e9, 1e9),
            }
        ),
        min_size=2,
        max_size=8,
        unique_by=content,
    )
)
def test_formats_say_the_same(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    rows = [{**row, "split": "eval" if number == 0 else "train"} for number, row in enumerate(rows)]
    lines = tmp_path / "data.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    cells = io.StringIO(newline="")
    writer = csv.DictWriter(cells, list(rows[0]), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(
        {k: json.dumps(v) if isinstance(v, list) else repr(v) if isinstance(v, float) else v for k, v in row.items()}
        for row in rows
    )
    (tmp_path / "data.csv").write_bytes(cells.getvalue().encode())
    told = [contents(task) for task in (find(str(lines)), find(str(tmp_path / "data.csv")), of(rows))]
    assert told[0] == told[1] == told[2]


def contents(task: Any) -> list[tuple[Any, Any]]:
    return [(s.prompt, s.metadata) for split in ("train", "eval") for s in scenarios(task, split)]


def scenarios(task: Any, split: Any) -> list[Scenario]:
    return [task.scenario(split, number) for number in range(task.size(split))]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; write one row per example"),
        ("prompt,answer\n", "is empty"),
        ("prompt,prompt\na,b\n", "line 1: the column 'prompt' is named twice"),
        ('prompt,answer\n"a\nb",c\na,b,c\n', "line 4: 3 cells where the heading has 2 columns; quote cells"),
        ('prompt,answer\n"a"b,c\n', "line 2: not valid CSV"),
        ("prompt,messages\na,[1\n", "line 2: messages is not valid JSON"),
        ("prompt,completion,label\na,b,maybe\n", "line 2: label is 'maybe'; write true"),
        ("prompt,chosen,rejected,weight\na,b,c,-1\n", "line 2: weight is -1.0; write 0 or more"),
        ("prompt,chosen,rejected,weight\na,b,c,much\n", "line 2: weight is text; write a number"),
        ("prompt,chosen,rejected\na,b,\n", 'line 2: no "rejected"'),
    ],
)
def test_wrong_csv_gets_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        find(str(path))
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"data.parquet: parquet needs the package pyarrow.*hocket\[data\]"):
        find(str(path))
    rows = [{"messages": [{**USER, "name": None}, FOUR], "split": "train"}, {"messages": [USER, 3], "split": "test"}]

    class Table:
        def to_pylist(self) -> list[dict[str, Any]]:
            return rows

    parquet = types.ModuleType("pyarrow.parquet")
    parquet.read_table = lambda name: Table()  # type: ignore[attr-defined]
    package = types.ModuleType("pyarrow")
    package.parquet = parquet  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow", package)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)
    with pytest.raises(ConfigurationError, match=r"data.parquet, row 2: message 1 of messages is a number"):
        find(str(path))
    rows[1] = {"messages": [{"role": "user", "content": "other"}, FIVE], "split": "test"}
    assert find(str(path)).scenario("train", 0).prompt == (USER,)


# ---------------------------------------------------------------- mixtures


def mixed(tmp_path: Path, sizes: tuple[int, ...], weights: tuple[float, ...]) -> Any:
    names = []
    for number, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        path = tmp_path / f"{'abc'[number]}.jsonl"
        rows = [{"prompt": f"{number} {n}", "completion": "c", "split": "train"} for n in range(size)]
        rows.append({"prompt": f"{number} unseen", "completion": "c", "split": "eval"})
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        names.append(f"{path}={weight}")
    return find(",".join(names))


def test_mixtures_keep_their_shares_and_pass_over_each_data_set(tmp_path: Path) -> None:
    task = mixed(tmp_path, (30, 7), (0.7, 0.3))
    assert (task.size("train"), task.size("eval")) == (None, 2)
    for start in (0, 5 * BLOCK):
        drawn = [task.scenario("train", start + n).prompt for n in range(BLOCK)]
        assert Counter(str(prompt).split()[0] for prompt in drawn) == {"0": 700, "1": 300}
        counts = Counter(drawn)
        for source in "01":
            seen = [count for prompt, count in counts.items() if str(prompt).startswith(source)]
            assert max(seen) - min(seen) <= 1 + (start > 0)
    again = mixed(tmp_path, (30, 7), (0.7, 0.3))
    assert [again.scenario("train", n).prompt for n in range(5 * BLOCK, 6 * BLOCK)] == drawn
    assert task.scenario("train", 2**31 + 123).prompt == again.scenario("train", 2**31 + 123).prompt


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=3))
def test_shares_follow_the_weights(tmp_path: Path, weights: list[float]) -> None:
    task: Data = mixed(tmp_path, (3,) * len(weights), tuple(weights))
    assert task._mixture is not None
    counts = task._mixture.counts
    assert min(counts) >= 1
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - BLOCK * weight / sum(weights)) <= len(weights)


def test_a_prompt_kept_for_evaluation_in_one_is_not_trained_on_in_another(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"prompt": "x", "answer": 1, "split": "eval"}\n{"prompt": "y", "answer": 1, "split": "train"}\n'
    )
    (tmp_path / "b.csv").write_text("prompt,answer,split\nx,1,train\nz,1,train\n")
    task = find(f"{tmp_path / 'a.jsonl'}=1,{tmp_path / 'b.csv'}=1")
    assert {task.scenario("train", n).prompt for n in range(BLOCK)} == {"y", "z"}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("A=0.7,B=much", "the weight of .* is 'much'; write A.jsonl=0.7,B.jsonl=0.3"),
        ("A=0.7,B=-1", "has the weight -1.0; write a number above 0"),
        ("A=0.7,nofile.jsonl=1", "there is no file nofile.jsonl"),
        ("A=0.7,B=0.3?trunc=end", "has no setting 'trunc'; did you mean 'truncate'"),
        ("A=0.7,PAIRS=0.3", "line 1: the row has chosen and rejected where .* has completion; mix data of one form"),
    ],
)
def test_wrong_mixtures_get_a_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    for letter in "AB":
        row = {"completion": "c", "split": "train"}
        rows = [{"prompt": letter, **row}, {"prompt": "unseen", "completion": "c", "split": "eval"}]
        (tmp_path / f"{letter}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "PAIRS.jsonl").write_text(json.dumps(PAIR) + "\n")
    for part in ("PAIRS=", "A=", "B="):
        name = f",{name}".replace(f",{part}", f",{tmp_path / part[:-1]}.jsonl=")[1:]
    with pytest.raises(ConfigurationError, match=sentence):
        find(name)


def test_responses_of_a_scenario() -> None:
    assert responses_of(Scenario("s", "p", metadata={"chosen": "a", "rejected": "b"})) == ["a", "b"]
    assert responses_of(Scenario("s", "p", metadata={"responses": ["a", "b"], "scores": [1, 0]})) == ["a", "b"]
    assert responses_of(Scenario("s", "p", metadata={"demonstration": None})) == []
