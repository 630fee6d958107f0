"""Panels of experts' answers on record: what a file says is what counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hocket.core.answers import add_answers, read_answers
from hocket.core.errors import ConfigurationError
from hocket.lab.exact.panels import Panel
from hocket.lab.exact.worlds import world
from hocket.tasks import find
from hocket.types import Trajectory, Turn


def rows(path: Path, told: list[tuple[str, str | None, bool]], task: str = "t") -> Path:
    lines = [json.dumps({"task": task, "id": i, "given": given, "right": right}) for i, given, right in told]
    with path.open("a") as file:
        file.write("\n".join(lines) + "\n")
    return path


def test_words_are_the_same_answer_and_right_ones_are_whatever_they_say(tmp_path: Path) -> None:
    asked = [str(number) for number in range(40)]
    files = [
        rows(tmp_path / "a.jsonl", [(one, "7", True) for one in asked] + [("more", "1", True)]),
        rows(tmp_path / "b.jsonl", [(one, "7.0", True) for one in asked]),
        rows(tmp_path / "c.jsonl", [(one, "8", False) for one in asked]),
        rows(tmp_path / "d.jsonl", [(one, "8", False) for one in asked]),
        rows(tmp_path / "e.jsonl", [(one, None, False) for one in asked]),
        rows(tmp_path / "f.jsonl", [(one, None, False) for one in asked]),
    ]
    found = world("panel:" + ",".join(map(str, files)))
    assert isinstance(found, Panel)
    a, b, c, d, e, f = found.answers.T
    assert len(a) == 40
    for one, other, same in ((a, b, True), (a, found.truth, True), (c, d, True), (c, a, False), (e, f, False)):
        assert ((one == other) == same).all()
    assert ((e != a) & (e != c)).all()
    # Of as many votes the lowest number is the answer, so it must tell nothing.
    assert 8 < (a < c).sum() < 32


def test_tasks_are_kinds(tmp_path: Path) -> None:
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file in files:
        rows(file, [(str(number), "1", True) for number in range(20)], "easy")
        rows(file, [(str(number), "2", False) for number in range(20)], "hard")
    found = world("panel:" + ",".join(map(str, files)))
    assert isinstance(found, Panel)
    assert sorted(found.kinds.tolist()) == [0] * 20 + [1] * 20
    assert (found.right.all(1) == (found.kinds == 0)).all()


@pytest.mark.parametrize(
    ("names", "text", "said"),
    [
        (("a",), "", "two experts or more"),
        (("a", "b"), None, "cannot be read"),
        (("a", "b"), "nonsense", "line 1 is no answer"),
        (("a", "b"), json.dumps({"task": "t", "id": "1", "right": True}), "line 1 is no answer"),
        (("a", "b"), json.dumps({"task": "t", "id": "1", "given": "1", "right": True}), "at least 2 are needed"),
    ],
)
def test_what_is_no_panel_is_one_sentence(names: tuple[str, ...], text: str | None, said: str, tmp_path: Path) -> None:
    for name in names:
        if text is not None:
            (tmp_path / f"{name}.jsonl").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        world("panel:" + ",".join(str(tmp_path / f"{name}.jsonl") for name in names))


def test_answers_of_an_evaluation_stand_on_record(tmp_path: Path) -> None:
    task, path = find("sums"), tmp_path / "a.jsonl"
    asked = [task.scenario("eval", number) for number in range(2)]
    none = np.zeros(0, np.int64)
    played = [
        Trajectory(one, [Turn("a", "policy", none, none, text=text)])
        for one, text in zip(asked, ("<answer>1</answer>", "nothing"), strict=True)
    ]
    add_answers(path, task, played, [1.0, 0.0])
    add_answers(path, task, played[:1], [0.0])
    assert [line["text"] for line in map(json.loads, path.read_text().splitlines())][:2] == [
        "<answer>1</answer>",
        "nothing",
    ]
    assert list(read_answers(path).values()) == [{"right": False, "given": "1"}, {"right": False, "given": None}]
    # Other separators of lines may stand in an answer, unescaped.
    lines = [replace(played[0], turns=[Turn("a", "policy", none, none, text="a\u2028b\x85c")])]
    add_answers(tmp_path / "b.jsonl", task, lines, [1.0])
    assert len(read_answers(tmp_path / "b.jsonl")) == 1
    with pytest.raises(ConfigurationError, match="cannot be compared as texts"):
        add_answers(path, task, played, ())
    with pytest.raises(ConfigurationError, match="cannot be written"):
        add_answers(tmp_path, task, played, [1.0, 0.0])
