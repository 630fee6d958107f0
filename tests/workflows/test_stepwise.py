"""Answers step by step: the text is the one that would be said at once, and every step is a turn."""

from __future__ import annotations

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.toys import orders
from hocket.methods.data_and_rollout.tree_opo.traces import steps_of
from hocket.train.aio import run_async
from hocket.train.optimise.target import seated
from hocket.types import Assignment


def played(model: str, until: str, **asked):
    task = tasks.find("worked-sums")
    player = seated(task, model, f"stepwise?until={until}", ()).player
    asking = Assignment(task.scenario("train", 1), samples=4, **asked)
    return run_async(player.play([asking], key=Key.of(0)))


def test_steps_make_up_the_answer_and_end_where_a_text_says():
    for one in played(f"{orders.__file__}:teacher", "%3D|%3E"):
        steps = steps_of(one.turns)
        assert "".join(steps) == one.answer == one.text
        assert all(step[-1] in "=>" for step in steps[:-1])
        assert len(steps) > 3
        assert not one.truncated
        for before, turn in zip(one.turns, one.turns[1:], strict=False):
            assert turn.action[: len(before)].tolist() == before.action.tolist()
            assert turn.forced is not None
            assert turn.forced[: len(before)].all()


def test_without_such_a_text_it_is_one_step_and_a_prefix_begins_the_first():
    task = tasks.find("worked-sums")
    player = seated(task, "nano", "stepwise?until=%0A", ()).player
    begun = player.encode("<answer>1")
    asking = Assignment(task.scenario("train", 1), samples=2, prefix=begun)
    for one in run_async(player.play([asking], key=Key.of(0))):
        assert len(one.turns) == 1
        assert one.text.startswith("<answer>1")
