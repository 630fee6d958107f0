"""`hocket arena` as a user types it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from tiny_runs import call

from hocket.apps.play.arena import lineup_of
from hocket.apps.play.operators import PersonOperator, PolicyOperator, RandomOperator, asked, drawn, places_of
from hocket.apps.play.screen import TerminalScreen
from hocket.core.errors import HocketError
from hocket.stages import Policy
from hocket.train.checkpoint import checkpoint_of

DILEMMA = ["arena", "--task", "dilemma:prisoners?rounds=3", "--episodes", "3"]


def test_lineups_play_the_same_seeds_and_files_tell_what_happened(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def nice(seen, allowed, uniforms):\n    return 0\n")
    more = ["--agents", "random", "--agents", f"{mine}:nice", "--out", str(tmp_path / "a.jsonl"), "--json"]
    said = call(*DILEMMA, *more)
    assert said.code == 0, said.err
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["seed"] for row in rows] == [1, 3, 5] * 2
    assert all(row["returns"] == {"row": 9.0, "column": 9.0} for row in rows[3:])
    assert said.json["lineups"][1]["returns"]["row"] == {"mean": 9.0, "half": 0.0}


REFUSED = {
    "no such agent": (["--agents", "rwo=random"], "there is no 'rwo'; did you mean 'row'?"),
    "nobody": (["--agents", "row=somebody"], "row = 'somebody' is unknown"),
    "nothing in a file": (["--agents", "row=mine.py:Nobody"], "mine.py"),
    "no run": (["--agents", "row=run:gone"], "there is no run 'gone'"),
    "no episode": (["--episodes", "0"], "--episodes: '0' is not a whole number of at least 1"),
    "no joint world": (["--task", "sums"], "task sums is no joint world"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str, tmp_path: Path) -> None:
    more, words = REFUSED[case]
    said = call(*DILEMMA, *more, "--runs", tmp_path)
    assert said.code == 2
    assert words in " ".join(said.err.split())


def test_a_run_plays_with_the_weights_of_its_newest_checkpoint(tmp_path: Path) -> None:
    words = ["--task", "dilemma:prisoners?rounds=3", "--recipe", "ippo", "--steps", "2", "--curriculum.prompts", "2"]
    more = ["--threads", "1", "--evaluation.n", "2", "--update.lr", "0.1", "--runs", tmp_path, "--run", "pair"]
    said = call("train", *words, *more, "--quiet")
    assert said.code == 0, said.err
    seated = PolicyOperator(places_of("dilemma:prisoners?rounds=3")["row"], "pair", str(tmp_path), 1.0)
    (tmp_path / "seated").mkdir()
    cast(Policy, seated.policy).save(tmp_path / "seated")
    kept = checkpoint_of(tmp_path / "pair", "last") / "policy"
    for file in (tmp_path / "seated").iterdir():
        assert file.read_bytes() == (kept / file.name).read_bytes()
    (tmp_path / "pair" / "checkpoints").rename(tmp_path / "elsewhere")
    assert call(*DILEMMA, "--agents", "row=run:pair", "--runs", tmp_path).code == 2


def test_a_person_is_asked_until_an_action_is_named_and_may_leave() -> None:
    place = places_of("dilemma:prisoners")["row"]
    person = PersonOperator(place, TerminalScreen(lines=io.StringIO("seven\n2\n1\n")))
    seen, nothing = np.zeros(5, np.float32), np.zeros(0)
    assert person.act(seen, None, nothing) == 1
    with pytest.raises(HocketError, match="row has left"):
        person.act(seen, None, nothing)


def test_chance_keeps_to_what_is_allowed_and_uses_all_of_it() -> None:
    allowed = np.array([False, True, False, True, True])
    found = [drawn(5, allowed, uniform) for uniform in np.linspace(0, 1, 300, endpoint=False)]
    assert {one: found.count(one) for one in sorted(set(found))} == {1: 100, 3: 100, 4: 100}
    assert drawn(5, allowed, 1.0) == 4
    assert RandomOperator(places_of("dilemma:prisoners")["row"]).draws == 1


def test_lineups_are_read_and_words_say_what_is_seen() -> None:
    places = places_of("dilemma:penalty")
    assert lineup_of("column=model:nano", places) == {"row": "random", "column": "model:nano"}
    words = asked(places["row"], np.array([0.5, -1.25], np.float32), np.array([True, False, True]))
    assert "You see: 0.5 -1.25" in words
    assert "Your actions: 0, 2." in words
