"""Control runs in words: the room of two keys, captions, and the command that sums up a policy."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from tiny_runs import CONTROL, Said
from tiny_runs import call as called

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.control.sysllm.captions import Numbers, Step, captioned, captions_of
from hocket.methods.control.sysllm.keys import KeyRoom, places
from hocket.methods.control.sysllm.statements import read, sentences
from hocket.methods.control.sysllm.summaries import SUMMARISERS
from hocket.methods.control.sysllm.summaries_task import merged

ROOM = ["train", "--task", "keys:room?length=8", "--curriculum.prompts", "4", "--steps", "1", "--threads", "1"]
ROOM += ["--evaluation.n", "2", "--recipe", "ppo", "--quiet"]

MODELS = """
def flatters(prompts):
    return ["It always leaves by the door. It never takes the green key. It is a genius." for _ in prompts]

def silent(prompts):
    return [None for _ in prompts]

def stutters(prompts):
    return ["" for _ in prompts]
"""


def call(*typed: str, cwd: Path) -> Said:
    with contextlib.chdir(cwd):
        return called(*typed)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run of the room, another of it, and one of CartPole."""
    place = tmp_path_factory.mktemp("summaries")
    (place / "models.py").write_text(MODELS)
    for name, more in (("room", []), ("other", ["--seed", "1"])):
        said = call(*ROOM, "--run", name, *more, cwd=place)
        assert said.code == 0, said.err
    said = call("train", *CONTROL, "--recipe", "ppo", "--steps", "1", "--run", "pole", "--quiet", cwd=place)
    assert said.code == 0, said.err
    return place


class TestRoom:
    def test_the_first_key_pays_and_the_door_opens_for_who_has_one(self):
        room = KeyRoom(lava=0.25).open(1)
        room.reset([0], [3])
        room.place[0], room.red[0], room.blue[0] = [0, 0], [1, 0], [4, 0]
        room.door[0], room.gap[0] = [2, 3], 4
        east, south, west, live = 1, 2, 3, np.ones(1, bool)
        paid, ended = [], []
        for move in (west, east, west, east, south, south, east, south):
            moved = room.step([np.array([move])], live)
            paid.append(round(float(moved.rewards[0, 0]), 6))
            ended.append(bool(moved.terminated[0, 0]))
        assert paid == [-0.01, 0.49, -0.01, -0.01, -0.01, -0.26, -0.26, 0.99]
        assert ended == [False] * 7 + [True]

    def test_without_a_key_the_door_stays_shut(self):
        room = KeyRoom().open(1)
        room.reset([0], [3])
        room.place[0], room.door[0] = [0, 3], [1, 3]
        moved = room.step([np.array([1])], np.ones(1, bool))
        assert not moved.terminated.any()
        assert moved.rewards[0, 0] == pytest.approx(-0.01)

    def test_what_is_seen_says_where_everything_is(self):
        room = KeyRoom(size=6).open(3)
        room.reset([0, 1, 2], [5, 6, 7])
        for slot, seen in enumerate(room.seen()[0]):
            cells, held = places(seen, 6)
            assert cells["agent"] == tuple(room.place[slot])
            assert cells["door"] == tuple(room.door[slot])
            assert cells["gap"] == (room.gap[slot], 3)
            assert held == (False, False)
            assert len({cells[one] for one in ("agent", "red key", "blue key", "door")}) == 4

    @pytest.mark.parametrize(
        ("name", "why"), [("keys:room?siez=6", "did you mean 'size'"), ("keys:room?size=3", "at least 4")]
    )
    def test_wrong_names_are_refused_in_a_sentence(self, name, why):
        with pytest.raises(ConfigurationError, match=why):
            tasks.find(name)


class TestCaptions:
    def test_a_line_is_read_back(self):
        step = Step(("door e", "lava s"), "goes north", ("takes the red key",), 0.49)
        assert step.line == "door e, lava s; goes north; takes the red key; +0.49"
        assert Step.read(step.line) == step
        assert Step.read(Step((), "waits", (), -1.0).line) == Step((), "waits", (), -1.0)

    def test_numbers_are_told_by_thirds_of_the_record_and_those_that_never_change_are_not(self):
        seen = np.array([[0.0, 1.0, 7.0], [5.0, 2.0, 7.0], [9.0, 0.0, 7.0]])
        captions = Numbers("A world.").fitted(seen)
        assert [captions.sees(one) for one in seen] == [
            ("number 1 low", "number 2 middle"),
            ("number 1 middle", "number 2 high"),
            ("number 1 high", "number 2 low"),
        ]
        assert captions.does(np.array([-0.9, 0.0, 0.5])) == "lowers number 1 and holds number 2 and raises number 3"
        assert captions.does(4) == "takes action 4"

    def test_a_pole_leans_and_falls(self):
        captions = captions_of("CartPole-v1", 4)
        seen = np.array([[-1.0, 0.5, 0.1, -0.1], [0.1, 0.1, 0.3, 0.1]])
        (step,) = captioned(captions, seen, np.array([1]), [1.0], "terminated")
        assert step.sees == ("cart left", "cart going right", "pole leaning right", "pole falling left")
        assert (step.does, step.happens) == ("pushes right", ("lets the pole fall",))

    def test_a_lake_of_another_size_is_told_by_its_state(self):
        captions = captions_of("FrozenLake8x8-v1", 64)
        assert isinstance(captions, Numbers)
        assert captions.sees(np.eye(64)[9]) == ("state 9",)

    def test_a_step_on_the_lake_into_a_hole(self):
        captions = captions_of("FrozenLake-v1", 16)
        cells = np.eye(16)[[4, 5]]
        (step,) = captioned(captions, cells, np.array([2]), [0.0], "terminated")
        assert step.sees == ("row 1", "column 0")
        assert step.happens == ("falls into a hole",)


class TestSentences:
    def test_bullets_numbers_and_line_breaks_do_not_matter(self):
        assert sentences("- It waits.\n2. It goes.  It always 1.5 runs!\n\n") == [
            "It waits.",
            "It goes.",
            "It always 1.5 runs!",
        ]

    def test_what_is_no_form_is_not_read(self):
        assert read("It is kind.") is None
        assert read("The agent usually goes north").how == "mostly"

    def test_merging_goes_by_most_and_says_nothing_of_a_tie(self):
        red, none = "It always takes the red key.", "It never takes the red key."
        assert merged([red, red]) == red
        assert merged([red, red, none]) == "It mostly takes the red key."
        assert merged([red, none, none]) == "It seldom takes the red key."
        assert merged([red, none]) == ""


class TestCommand:
    def test_counting_sums_up_a_run(self, runs):
        said = call("summarise", "room", "--episodes", "5", "--transcript", "read.txt", "--json", cwd=runs)
        assert said.code == 0, said.err
        (found,) = json.loads(said.out)["summaries"]
        assert found["counts"] == {"true": len(found["sentences"]), "false": 0, "unbacked": 0}
        assert re.search(r"It runs out of time in \d of 5 episodes\.", found["summary"])
        text = (runs / "read.txt").read_text()
        assert text.count("Episode ") == 5
        total = re.search(r"In 5 episodes it makes (\d+) decisions", found["summary"])
        assert sum(Step.read(line) is not None for line in text.splitlines()) == int(total[1])

    def test_the_same_run_is_summed_up_the_same(self, runs):
        first, again = (call("summarise", "room", "--episodes", "4", "--json", cwd=runs) for _ in range(2))
        assert first.out == again.out

    def test_of_several_runs_a_reader_says_whose_each_is(self, runs):
        said = call("summarise", "room", "other", "--episodes", "4", "--temperature", "1", cwd=runs)
        assert said.code == 0, said.err
        assert re.search(r"a blind reader gives \d of 2 summaries", said.err)

    def test_a_model_that_flatters_is_corrected(self, runs):
        given = ("--model", "models.py:flatters", "--episodes", "4", "--json")
        (found,) = json.loads(call("summarise", "room", *given, cwd=runs).out)["summaries"]
        verdicts = {one["text"]: one["verdict"] for one in found["sentences"]}
        assert verdicts["It always leaves by the door."] == "false"
        assert "leaves by the door" not in found["summary"]
        assert verdicts["It is a genius."] == verdicts["It never takes the green key."] == "unbacked"

    def test_a_pole_is_summed_up(self, runs):
        said = call("summarise", "pole", "--episodes", "3", cwd=runs)
        assert said.code == 0, said.err
        assert re.search(r"It (lets the pole fall|holds the pole to the end) in \d of 3 episodes", said.out)

    @pytest.mark.parametrize(
        ("typed", "why"),
        [
            ("room --episodes 0", "--episodes: '0' is not a whole number of at least 1"),
            ("room --temperature -1", "--temperature: '-1' is not a finite number of at least 0"),
            ("room --agent bob", "agent = bob: there is no such agent"),
            ("room pole", "several tasks"),
            ("room --model models.py:silent", "models.py:silent|said nothing"),
            ("room --model models.py:stutters", "said nothing to any of"),
            ("room --model nobody", "model = 'nobody'"),
            ("room --method sysl", "no summariser 'sysl'; did you mean 'sysllm'"),
            ("room --method.fan 1", "method.fan = 1: it must be at least 2"),
            ("room --method.fin 3", "no setting 'fin'"),
            ("room --method.chunk Tell:{story}", "placeholder {story} that nothing fills"),
            ("room --steps 3", "--steps is no setting"),
        ],
    )
    def test_what_is_wrong_is_said_in_a_sentence(self, runs, typed, why):
        said = call("summarise", *typed.split(" "), cwd=runs)
        assert said.code in (1, 2)
        assert re.search(why, said.err), said.err
        assert said.err.count("\n") == 1

    def test_every_method_is_listed_by_its_name(self):
        assert set(SUMMARISERS.own) == {"sysllm", "sysllm-short"}
        assert SUMMARISERS.own["sysllm"].module == "hocket.methods.control.sysllm.method"
