"""The two keys in words: captions are what the numbers say, and counting reads the transcript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from hocket import tasks
from hocket.core.keys import Key
from hocket.methods.control.sysllm.captions import Episode, Step, transcript
from hocket.methods.control.sysllm.captions_task import in_words
from hocket.methods.control.sysllm.key_walkers import Walker
from hocket.methods.control.sysllm.method import Miner
from hocket.rollout.joint import JointPlayer
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.types import Assignment

AGENTS: Mapping[str, Walker] = {
    "red": Walker("red", slip=0.1),
    "blue": Walker("blue", slip=0.1),
    "both": Walker("both", slip=0.1),
    "bold": Walker("red", careful=False, slip=0.1),
}
"""Each differs from the first in one trait: the key it prefers, how many it takes, and whether it minds lava."""


def _played(name: str, episodes: int) -> tuple[Sequence[Episode], list[tuple[Any, Any, Any]]]:
    """The same episodes in words and in numbers, by the player that runs use."""
    task, walker = cast(JointTask, tasks.find("keys:room")), AGENTS[name]
    player = JointPlayer(task.world, {"p": cast(Any, walker)}, {"agent": "p"}, False, 8)
    asked = [Assignment(task.scenario("eval", number)) for number in range(episodes)]
    played = run_async(player.play(asked, key=Key.of(3)))
    numbers = []
    for one in played:
        (turn,) = one.turns
        assert turn.end is not None
        assert turn.end.state is not None
        rows = np.concatenate([turn.observation, turn.end.state[None]])
        numbers.append((rows, turn.action, np.asarray(one.scores["reward"].value).tolist()))
    return in_words(task, played).episodes, numbers


def test_captions_in_the_room_say_what_the_numbers_are():
    wrong, counted = 0, 0
    for log, (seen, actions, pays) in zip(*_played("bold", 40), strict=True):
        for time, step in enumerate(log):
            before, after = (np.rint(seen[at][:9] * 4).astype(int) for at in (time, time + 1))
            lava = after[1] == 2 and after[0] != after[8]
            due = {
                "goes " + ("north", "east", "south", "west")[actions[time]]: True,
                "takes the red key": seen[time + 1][9] > seen[time][9],
                "takes the blue key": seen[time + 1][10] > seen[time][10],
                "steps into lava": lava and (before[:2] != after[:2]).any(),
                "runs into a wall": (before[:2] == after[:2]).all(),
                "leaves by the door": time + 1 == len(log) and pays[time] > 0.8,
            }
            told = {step.does, *step.happens}
            wrong += sum(((name in told) != bool(true) for name, true in due.items()))
            north, east = before[3] < before[1], before[2] > before[0]
            if not seen[time][9] and before[2] != before[0] and (before[3] != before[1]):
                wrong += f"red key {('n' if north else 's')}{('e' if east else 'w')}" not in step.sees
            wrong += step.earns != pays[time]
            counted += 1
    assert wrong == 0
    assert counted > 200


def test_counting_reads_nothing_but_the_transcript():
    step = Step(("door e",), "goes east", ("runs into a wall",), -0.01)
    text = transcript(((step, step), (step,)))
    listed = "What it may do: goes east, goes west.\nWhat may come of that: runs into a wall, takes the red key.\n"
    usual, other = Miner().answers([f"{listed}\n{text}", f"Hello.\n{listed}{text}\n\nThink!"])
    assert usual == other
    assert "It takes the red key in 0 of 2 episodes." in usual
    assert Miner().answers(["Nothing is here."]) == [None]
