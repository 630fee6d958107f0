"""Mobile-R1's judge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hocket.core.columns import ACTIONS, RETURNS
from hocket.core.keys import Key
from hocket.methods.agents.mobile_r1 import MOBILE_R1, Finished, Readable
from hocket.rewards.judging import Answer, Judge, Question
from hocket.types import Scenario, Trajectory


class _Says(Judge):
    """Answers always the same, and keeps what it was asked."""

    def __init__(self, said: str) -> None:
        super().__init__("test")
        self.said, self.heard = said, list[str]()

    def ask(self, questions: Sequence[Question]) -> Sequence[Answer]:
        self.heard += [question.prompt for question in questions]
        return [Answer(self.said) for _ in questions]


def test_a_judge_reads_the_page_and_all_moves() -> None:
    scenario = Scenario("s", "press 1; read 2\n1 button\n2 label 58", metadata={"plan": ("click 1", "say 58")})
    rows = [
        Trajectory(scenario, [], info={ACTIONS.name: actions, RETURNS.name: {"agent": paid}})
        for actions, paid in ((["click 1", "say 58"], 1.0), (["click 2", None], 0.0))
    ]
    rule = asyncio.run(Finished()(rows, key=Key.of(0)))
    form = asyncio.run(Readable()(rows, key=Key.of(0)))
    given, heard = list[Any](), list[str]()
    for said in ("no", "yes"):
        judge = _Says(said)
        given += asyncio.run(MOBILE_R1.but({"rewards.0.judge": judge}).rewards[0](rows, key=Key.of(0)))
        heard = judge.heard
    read = str(scenario.prompt) in heard[0] and "click 1\nsay 58" in heard[0] and "click 2\nnothing" in heard[1]
    holds = rule == [1.0, 0.0] and form == [1.0, 0.5] and given == [0.0, 0.0, 1.0, 1.0] and read
    assert holds
