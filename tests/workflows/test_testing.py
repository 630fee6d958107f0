"""The scripted model, and the examples of the page on workflows."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from test_team import SCENARIO, Doing

from hocket.agents.tools.protocol import read_calls
from hocket.agents.workflows.episode import LimitReached, Limits
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.testing import Cut, Fails, Hangs, Late, Part, ScriptedEngine, rehearse, tool_call
from hocket.types import Message, Scenario

PAGE = Path(__file__).parents[2] / "docs" / "workflows.md"


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    file = tmp_path / "page.py"
    file.write_text("\n".join(blocks))
    names: dict[str, Any] = {"__name__": "page", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), names)
    summarised = names["rehearse"](names["Summarise"](), SCENARIO, ["four", "4"])[0]
    assert (summarised.failure, summarised.info["answer"]) == (None, "4")


def two(scenario: Scenario, team: Team) -> Any:
    async def play() -> Outcome:
        first = await team.left("one")
        second = await team.right([first, "two"])
        return Outcome(answer=second.text)

    return play()


def test_parts_answer_and_remember_by_role() -> None:
    left, right = Part("a"), Part("b", "never")
    (found,) = rehearse(Doing(two, "left", "right", left="Be brief."), SCENARIO, {"left": left, "right": right})
    assert (found.failure, found.info["answer"]) == (None, "b")
    left.assert_asked("one")
    right.assert_asked("a\ntwo")
    left.assert_shown(0, ("system", "Be brief."), ("user", "one"))
    left.assert_done()
    with pytest.raises(AssertionError, match=r"1 answers were never asked for: \n  0. never"):
        right.assert_done()
    with pytest.raises(AssertionError, match=r"expected \n  0. three\nbut was asked \n  0. a\ntwo"):
        right.assert_asked("three")
    with pytest.raises(AssertionError, match="expected nothing"):
        left.assert_asked()
    with pytest.raises(AssertionError, match="there were 1 calls, so no call number 1"):
        left.assert_shown(1)
    with pytest.raises(AssertionError, match="but call 0 showed"):
        left.assert_shown(0, ("user", "one"))


def test_functions_of_the_messages_and_answers_that_never_run_out() -> None:
    async def thoughtful(messages: tuple[Message, ...]) -> str:
        await asyncio.sleep(0)
        return str(len(messages))

    async def act(scenario: Scenario, team: Team) -> Outcome:
        return Outcome(answer=[(await team.policy("on")).text for _ in range(3)])

    assert rehearse(Doing(act), SCENARIO, Part(thoughtful))[0].info["answer"] == ["1", "3", "5"]
    assert rehearse(Doing(act), SCENARIO, Part("x", otherwise="y"))[0].info["answer"] == ["x", "y", "y"]
    mixed = Part("x", lambda messages: messages[-1]["content"].upper(), "z")
    assert rehearse(Doing(act), SCENARIO, mixed)[0].info["answer"] == ["x", "ON", "z"]
    short = rehearse(Doing(act), SCENARIO, Part("x", "y"))[0]
    assert "the script has 2 replies and a further one was asked for" in str(short.failure)


def test_faults_on_demand() -> None:
    async def careful(scenario: Scenario, team: Team) -> Outcome:
        try:
            await team.policy("one")
        except OSError as error:
            return Outcome(answer=str(error))
        try:
            await asyncio.wait_for(team.policy("two"), 0.01)
        except TimeoutError:
            return Outcome(answer="too late")
        return Outcome(answer="fine")

    def answer(*replies: Any, **more: Any) -> Any:
        return rehearse(Doing(careful), SCENARIO, list(replies), **more)[0].info.get("answer")

    assert answer(Fails(OSError("gone"))) == "gone"
    assert answer("a", Hangs()) == "too late"
    assert answer("a", Late(60, "b")) == "too late"
    assert answer("a", Late(0.0, Cut("b"))) == "fine"
    (failed,) = rehearse(Doing(careful), SCENARIO, [Fails()])
    assert str(failed.failure).startswith("HocketError: the model failed, as the script says")
    (late,) = rehearse(Doing(careful), SCENARIO, [Hangs()], limits=Limits(call_seconds=0.05))
    assert "limits.call_seconds" in late.info["limit"]


def test_cut_responses_and_calls_of_tools() -> None:
    async def act(scenario: Scenario, team: Team) -> Outcome:
        first = await team.policy("one")
        second = await team.policy("two")
        return Outcome(info={"finish": first.finish, "calls": [call.arguments for call in read_calls(second.text)]})

    call = "so " + tool_call("calculator", expression="2+2") + tool_call("calculator", name="odd", places=2)
    (found,) = rehearse(Doing(act), SCENARIO, [Cut("half"), call])
    assert found.info == {"finish": "length", "calls": [{"expression": "2+2"}, {"name": "odd", "places": 2}]}
    assert found.turns[0].text == "half"


def test_limits_reach_a_rehearsal() -> None:
    async def act(scenario: Scenario, team: Team) -> Outcome:
        try:
            while True:
                await team.policy("more")
        except LimitReached as reached:
            return Outcome(answer=str(reached))

    (found,) = rehearse(Doing(act), SCENARIO, Part(otherwise="abc"), limits=Limits(tokens=10))
    assert "used its 10 tokens" in found.info["answer"]
    assert found.length == 10


def test_the_engine_alone_answers_lists_and_functions_at_once() -> None:
    import chats

    from hocket.core.errors import HocketError
    from hocket.core.keys import Key
    from hocket.engine.requests import Request
    from hocket.types import Decoding

    chat = chats.chat("nano")
    asked = [Request((1, 2), Decoding(), Key.of(n)) for n in range(2)]
    first, second = ScriptedEngine(["a", Cut("b")], chat).sample(asked)
    assert (first.finish, second.finish) == ("stop", "length")
    assert first.tokens.tolist() == [*chat.encode("a"), chat.end_of_turn]
    for script, match in ((Part("a"), "answers workflows only"), ([Hangs()], "needs a workflow that waits")):
        with pytest.raises(HocketError, match=match):
            ScriptedEngine(script, chat).sample(asked[:1])
