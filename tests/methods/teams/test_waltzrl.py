"""WaltzRL's task: requests to answer and to refuse."""

from __future__ import annotations

from typing import Any

from hocket import tasks
from hocket.methods.teams.waltzrl import WALTZRL


def test_the_task_has_three_kinds_of_requests_and_its_verdict_is_right_for_all() -> None:
    task: Any = tasks.find(str(WALTZRL.task))
    asked = [task.scenario("train", number) for number in range(40)]
    assert len({one.metadata["look"] for one in asked}) == 3
    for one in asked:
        for text, answered in (("<answer>5</answer>", True), ("I will not.", False), ("<answer>no</answer>", False)):
            assert task.verify(text, one) == float(answered != one.metadata["forbidden"])
