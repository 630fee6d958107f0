"""Reading calls, carrying them out, and conversations that grow by concatenation only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from workflows.chats import chat as chat_of

from hocket.agents.tools import find
from hocket.agents.tools.calculator import Calculator
from hocket.agents.tools.protocol import FORM, Call, read_calls
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor, Team
from hocket.agents.workflows.tool_loop import SPENT, ToolCallRecord, converse
from hocket.agents.workflows.tool_use import ToolUse
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.requests import Request, Sample
from hocket.nano.tokenizer import build_tokenizer
from hocket.testing import ScriptedEngine, rehearse
from hocket.types import Assignment, Decoding, Scenario, Trajectory

ASKED = Scenario("s", "What is 6 * 7?", answer="42")


def called(expression: str, name: str = "calculator") -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': {'expression': expression}})}</tool_call>"


class Recorder:
    """A tool that remembers what it was asked, and answers late where told to."""

    name = "calculator"
    schema = Calculator.schema

    def __init__(self, delays: Sequence[float] = ()) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self._delays = list(delays)

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        self.asked.append(arguments)
        await asyncio.sleep(self._delays.pop(0) if self._delays else 0)
        return f"saw {arguments.get('expression')}"


# ---------------------------------------------------------------- reading


def test_calls_are_read_in_both_spellings() -> None:
    nano = '<tool_call>{"name": "calculator", "arguments": {"expression": "6 * 7"}}</tool_call>'
    hermes = f"Let me see.\n<tool_call>\n{nano[11:-12]}\n</tool_call>\n{nano}"
    one = Call("calculator", {"expression": "6 * 7"})
    assert read_calls(nano) == [one]
    assert read_calls(hermes) == [one, one]
    assert read_calls('<tool_call>{"name": "now"}</tool_call>') == [Call("now", {})]
    assert read_calls('<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>') == [Call("f", {"a": 1})]
    assert read_calls("<answer>42</answer>") == []
    assert read_calls("") == []


def test_the_shipped_template_writes_what_is_read() -> None:
    call = {"type": "function", "function": {"name": "calculator", "arguments": {"expression": "6 * 7"}}}
    text = build_tokenizer().apply_chat_template(
        [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [call]}], tokenize=False
    )
    assert read_calls(text) == [Call("calculator", {"expression": "6 * 7"})]


def test_a_thought_calls_nothing() -> None:
    assert read_calls(f"<think>I could {called('1')}</think><answer>1</answer>") == []
    assert len(read_calls(f"<think>so</think>{called('1')}")) == 1


@pytest.mark.parametrize(
    "inside",
    [
        "", "6 * 7", "{", "[]", "3", "null", '"name"', '{"name": 3}', '{"arguments": {}}', "[" * 100_000,
        '{"name": "f", "arguments": [1]}', '{"name": "f", "arguments": "no"}', '{"name": "f", "arguments": null}',
        '{"name": "f", "arguments": {"a": ' + "1" * 5000 + "}}", '<tool_call>{"name": "f"}',
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_problem_in_one_line(inside: str) -> None:
    (call,) = read_calls(f"<tool_call>{inside}</tool_call>")
    assert call.problem is not None
    assert call.problem.startswith("error: ")
    assert FORM in call.problem
    assert "\n" not in call.problem


@given(st.text(alphabet=st.sampled_from('<tool_call>/{}":,aname1[] \n'), max_size=120), st.booleans())
def test_reading_never_raises(text: str, cut: bool) -> None:
    for call in read_calls(f"<tool_call>{text}", cut=cut):
        assert call.problem is None or call.problem.startswith("error: ")
        assert isinstance(call.arguments, dict)


def test_a_call_that_is_never_closed_is_a_problem_unless_it_was_cut() -> None:
    text = f"{called('1')}<tool_call>{{"
    assert [call.problem is None for call in read_calls(text)] == [True, False]
    assert [call.problem is None for call in read_calls(text, cut=True)] == [True]


def test_tools_are_found_by_name() -> None:
    assert isinstance(find("calculator"), Calculator)
    assert find("python").name == "python"
    for name in ("calculator", "python"):
        assert find(name).schema["function"]["name"] == name
    with pytest.raises(ConfigurationError, match="did you mean 'calculator'"):
        find("calculater")


@pytest.mark.parametrize(
    ("expression", "value"),
    [("6 * 7", "42"), ("-3-4", "-7"), ("2 ** 9", "error"), ("1/2", "error"), ("f(1)", "error"), ("9" * 101, "error"),
     ("1 +", "error"), ("999999999 * 999999999", "999999998000000001"), ("(1+2)*-3", "-9"), ("True", "error")],
)  # fmt: skip
def test_the_calculator(expression: str, value: str) -> None:
    assert asyncio.run(Calculator()({"expression": expression})) == value


def test_the_calculator_says_what_it_needs() -> None:
    for arguments in ({}, {"expression": 3}, {"code": "1"}):
        assert asyncio.run(Calculator()(arguments)).startswith("error")


# ---------------------------------------------------------------- conversing


class Talks(Workflow):
    """Hands everything to `converse` and keeps what came back."""

    roles = ("policy",)

    def __init__(self, tools: Sequence[Any], **bounds: Any) -> None:
        self.given, self.bounds = tools, bounds
        self.made: list[ToolCallRecord] = []

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        reply, self.made = await converse(team.policy, scenario.messages, self.given, **self.bounds)
        return Outcome(answer=str(reply))


def played(flow: Workflow, *replies: str, **kwargs: Any) -> Trajectory:
    (trajectory,) = rehearse(flow, ASKED, list(replies), **kwargs)
    assert trajectory.failure is None, trajectory.failure
    return trajectory


def told(trajectory: Trajectory) -> list[list[tuple[str, str]]]:
    """What each turn after the first was told."""
    return [
        [(m["role"], m["content"]) for m in turn.prompt[len(before.prompt) + 1 :]]
        for before, turn in zip(trajectory.turns, trajectory.turns[1:], strict=False)
    ]


def test_it_goes_on_until_a_reply_has_no_call() -> None:
    flow = Talks([Calculator()])
    found = played(flow, called("6 * 7"), called("42 + 0"), "<answer>42</answer>")
    assert found.answer == "<answer>42</answer>"
    assert [(made.call.arguments["expression"], made.result, made.turn) for made in flow.made] == [
        ("6 * 7", "42", 0),
        ("42 + 0", "42", 1),
    ]
    assert told(found) == [[("tool", "42")], [("tool", "42")]]


def test_several_calls_of_a_reply_are_answered_in_their_order() -> None:
    tool = Recorder(delays=(0.03, 0.0, 0.01))
    flow = Talks([tool])
    found = played(flow, called("a") + called("b") + called("c"), "done")
    assert told(found) == [[("tool", "saw a"), ("tool", "saw b"), ("tool", "saw c")]]
    assert [made.turn for made in flow.made] == [0, 0, 0]


def test_bad_calls_are_told_what_is_wrong_and_the_talk_goes_on() -> None:
    flow = Talks([Calculator()])
    found = played(flow, "<tool_call>6 * 7</tool_call>", called("1", "calculater"), called("1"), "<answer>1</answer>")
    ((one,), (other,), (right,)) = told(found)
    assert one == ("tool", f"error: this is no JSON; write {FORM}")
    assert other[1] == "error: there is no tool 'calculater'; did you mean 'calculator'?"
    assert right == ("tool", "1")
    assert [made.worked for made in flow.made] == [False, False, True]


def test_no_more_calls_than_allowed_are_carried_out() -> None:
    tool = Recorder()
    found = played(Talks([tool], max_calls=2), called("a") + called("b") + called("c"), "then 5")
    assert len(tool.asked) == 2
    assert told(found) == [[("tool", "saw a"), ("tool", "saw b"), ("tool", SPENT)]]
    assert found.answer == "then 5"

    tool = Recorder()
    stubborn = played(Talks([tool], max_calls=1), called("a"), called("b"), called("c"))
    assert len(tool.asked) == 1
    assert told(stubborn) == [[("tool", "saw a")], [("tool", SPENT)]]
    assert stubborn.answer == called("c")

    assert len(played(Talks([Recorder()], max_calls=0), called("a"), "5").turns) == 2
    assert len(played(Talks([Recorder()], turns=1), called("a")).turns) == 1
    assert len(played(Talks([Recorder()], turns=2), called("a"), called("b")).turns) == 2


def test_a_reply_that_was_cut_inside_a_call_is_the_last() -> None:
    tool = Recorder()
    found = played(Talks([tool]), called("1 + 1"), decoding=Decoding(max_tokens=4))
    assert len(found.turns) == 1
    assert found.truncated
    assert tool.asked == []


def test_a_tool_that_breaks_fails_its_episode_only() -> None:
    class Broken(Recorder):
        async def __call__(self, arguments: Mapping[str, Any]) -> str:
            raise KeyError("oops")

    (found,) = rehearse(Talks([Broken()]), ASKED, [called("1")])
    assert found.failure is not None
    assert "oops" in found.failure


# ---------------------------------------------------------------- exact histories


class Fixed(ScriptedEngine):
    """Answers with given token ids, whatever they spell."""

    def __init__(self, replies: Sequence[Sequence[int]], chat: Chat) -> None:
        super().__init__([], chat)
        self.left = [np.array(ids, np.int64) for ids in replies]

    async def submit(self, request: Request) -> Sample:
        self.requests.append(request)
        tokens = self.left.pop(0)
        return Sample(tokens=tokens, logp=-np.ones(len(tokens), np.float32), finish="stop", version=0)


def replayed(replies: Sequence[Sequence[int]], chat: Chat, flow: Workflow) -> tuple[Trajectory, list[Request]]:
    engine = Fixed(replies, chat)
    player = TextPlayer(flow, {"policy": Actor("policy", engine, chat)})
    (found,) = asyncio.run(player.play([Assignment(ASKED)], key=Key.of(0)))
    assert found.failure is None, found.failure
    return found, engine.requests


@settings(deadline=None, max_examples=40)
@given(
    template=st.sampled_from(["nano", "chatml", "llama3"]),
    noise=st.lists(st.lists(st.integers(0, 60), max_size=6), min_size=3, max_size=3),
    ended=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_histories_grow_by_concatenation_and_results_are_never_decisions(
    template: str, noise: list[list[int]], ended: list[bool]
) -> None:
    chat = chat_of(template)
    special = {chat.end_of_turn, *chat.stops, *chat.tokenizer.added_tokens_decoder}
    replies = []
    for place, (ids, closed) in enumerate(zip(noise, ended, strict=True)):
        said = chat.encode(called(str(place))) if place < 2 else chat.encode("42")
        # A call spelt in unusual tokens: what was sampled must come back as it was sampled.
        plain = [token for token in ids if token not in special]
        replies.append([*plain, *said, *([chat.end_of_turn] if closed else [])])
    found, requests = replayed(replies, chat, ToolUse((Recorder(),), turns=3, listed=False))
    assert len(found.turns) == 3
    history: list[int] = []
    for turn, request, reply in zip(found.turns, requests, replies, strict=True):
        history += turn.observation.tolist()
        assert list(request.tokens) == history
        assert turn.action.tolist() == reply
        history += reply
    assert [turn.parent for turn in found.turns] == [None, *found.turns[:-1]]
    for turn, before, place in zip(found.turns[1:], found.turns, range(2), strict=False):
        shown = chat.render(turn.observation)
        assert f"saw {place}" in shown
        assert "<tool_call>" not in shown
        if template == "nano":
            closing = () if before.action[-1] == chat.end_of_turn else (chat.end_of_turn,)
            after = chat.tokenizer(f"<|tool|>saw {place}<|end|><|assistant|>", add_special_tokens=False)["input_ids"]
            assert (*closing, *after) == tuple(turn.observation)


def test_the_batch_holds_sampled_tokens_and_nothing_else() -> None:
    chat = chat_of("nano")
    replies = [
        [*chat.encode(called("6 * 7")), chat.end_of_turn],
        [*chat.encode("<answer>42</answer>"), chat.end_of_turn],
    ]
    found, _ = replayed(replies, chat, ToolUse((Calculator(),), turns=3))
    batch = pack([found])
    assert batch.action.tolist() == replies[0] + replies[1]
    assert torch.bincount(batch.turn).tolist() == [len(reply) for reply in replies]
    assert batch.occurrences.decision.tolist() == list(range(sum(map(len, replies))))
    assert batch.occurrences.weight.tolist() == [1.0] * sum(map(len, replies))
    assert not batch.forced.any()
    assert batch.parent.tolist() == [-1, 0]
    assert batch.logp["behaviour"].complete
    assert chat.render(batch.observation[1]) == "<|tool|>42<|end|><|assistant|>"


# ---------------------------------------------------------------- the workflow


def test_the_workflow_tells_what_was_called() -> None:
    found = played(ToolUse(turns=4, call_reward=0.5), called("6 * 7") + called("x"), called("1"), "<answer>42</answer>")
    assert found.info["tool_calls"] == 3
    assert found.info["calls"] == [
        {"name": "calculator", "arguments": {"expression": "6 * 7"}, "result": "42", "turn": 0, "worked": True},
        {"name": "calculator", "arguments": {"expression": "x"}, "result": "error", "turn": 0, "worked": False},
        {"name": "calculator", "arguments": {"expression": "1"}, "result": "1", "turn": 1, "worked": True},
    ]
    json.dumps(found.info)
    assert found.scores["calls"].value == [0.0, 0.5, 0.0]
    assert found.answer == "<answer>42</answer>"


def test_without_a_call_it_is_one_answer() -> None:
    found = played(ToolUse(call_reward=0.5), "<answer>42</answer>")
    assert found.info["calls"] == []
    assert found.scores["calls"].value == [0.0]
    assert "calls" not in played(ToolUse(), "<answer>42</answer>").scores


def test_tools_are_listed_by_the_template_or_not() -> None:
    shown = played(ToolUse(), "1").turns[0].observation
    assert "Tools: calculator(expression)" in chat_of("nano").render(shown)
    hidden = played(ToolUse(listed=False), called("6 * 7"), "42")
    assert "Tools:" not in chat_of("nano").render(hidden.turns[0].observation)
    assert hidden.info["tool_calls"] == 1
    made = played(ToolUse(lambda scenario, key: (Calculator(),)), called("6 * 7"), "42")
    assert "Tools: calculator(expression)" in chat_of("nano").render(made.turns[0].observation)
    assert made.info["tool_calls"] == 1


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="turns must be at least 1"):
        ToolUse(turns=0)
    with pytest.raises(ConfigurationError, match="no tool 'abacus'"):
        ToolUse("abacus")
