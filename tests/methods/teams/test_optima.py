"""Two who hold half of the facts each: who is told what, when they end, and what counts."""

from __future__ import annotations

import pytest

from hocket.lab.talk import TalkBench
from hocket.methods.teams.optima import TwoHalves
from hocket.recipes import find
from hocket.types import Scenario, Trajectory
from hocket.workflows.library import find as workflow
from hocket.workflows.pipeline import Pipeline

RIGHT, WRONG = "<answer>red</answer>", "<answer>blue</answer>"
SCENARIO = Scenario("one", "which", answer=RIGHT, metadata={"halves": ("left half", "right half")})


def talk(flow: TwoHalves, script: list[str]) -> Trajectory:
    """The dialogue in which message n is word n of the script."""
    names = {str(number): text for number, text in enumerate(script)}

    def prior(messages: tuple[object, ...], said: tuple[str, ...]) -> dict[str, float]:
        # Each agent's number of messages, with who speaks, tells which message of the dialogue comes.
        own = sum(message["role"] == "assistant" for message in messages)  # type: ignore[index]
        second = "right half" in str(messages[0]["content"]) or "right half" in str(messages[1:2])  # type: ignore[index]
        return {names[str(2 * own + second)]: 60.0}

    words = tuple(dict.fromkeys(script))
    bench = TalkBench(flow, [SCENARIO], words, find("grpo"), length=1, prior=prior)
    return bench.play(1)[0]


def test_each_sees_the_question_and_its_own_half() -> None:
    one = talk(TwoHalves(messages=4, system=None), ["hello", "hi", "well", "so"])
    told = [str(turn.prompt) for turn in one.turns]
    assert [turn.agent for turn in one.turns] == ["alice", "bob", "alice", "bob"]
    assert "left half" in told[0]
    assert "right half" not in told[0] + told[2]
    assert "left half" not in told[1] + told[3]
    assert "Alice: hello" in told[1]
    assert "Bob: hi" in told[2]
    assert "Alice: well" in told[3]
    assert one.turns[2].parent is one.turns[0]
    assert one.turns[3].parent is one.turns[1]
    assert one.scores["task"].value == 0.0


@pytest.mark.parametrize(
    ("agree", "script", "length", "reward"),
    [
        (False, ["hello", RIGHT, "x", "y"], 2, 1.0),
        (False, [WRONG, RIGHT, "x", "y"], 1, 0.0),
        (True, ["hello", RIGHT, RIGHT, "y"], 3, 1.0),
        (True, [WRONG, RIGHT, RIGHT, "y"], 3, 1.0),
        (True, [RIGHT, "x", "y", "z"], 4, 1.0),
        (True, [RIGHT, WRONG, "x", "z"], 4, 0.0),
    ],
)
def test_when_it_ends_and_what_counts(agree: bool, script: list[str], length: int, reward: float) -> None:
    one = talk(TwoHalves(messages=4, agree=agree, system=None), script)
    assert len(one.turns) == length
    assert one.scores["task"].value == reward


def test_a_pipeline_reads_all_that_was_said() -> None:
    bench = TalkBench(Pipeline(3), [Scenario("one", "say", answer="red")], ("red",), find("grpo"), length=1)
    (one,) = bench.play(1)
    assert [str(turn.prompt[-1]["content"]) for turn in one.turns] == [
        "say",
        "say\nNote 1: red",
        "say\nNote 1: red\nNote 2: red",
    ]
    assert one.scores["team"].value == 1.0


def test_both_are_found_by_name() -> None:
    assert workflow("two-halves?messages=6&agree=false") == TwoHalves(messages=6, agree=False)
    assert workflow("pipeline?agents=2").roles == ("agent_1", "agent_2")
    with pytest.raises(ValueError, match="messages"):
        TwoHalves(messages=0)
    with pytest.raises(ValueError, match="agents"):
        Pipeline(0)
