"""Dialogues of two halves, trees of them, pairs of sibling messages, and what brevity and readability earn."""

from __future__ import annotations

import asyncio

import pytest
import torch
from credit_cases import dialogues_of
from rollout_cases import DIALOGUES, Stage, talk_bench, talked

from hocket.agents.workflows.library import find as workflow
from hocket.agents.workflows.pipeline import Pipeline
from hocket.core.batch import RecordedNumbers
from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.talk import TalkBench
from hocket.methods.teams.optima import (
    SYSTEM,
    DialogueTree,
    Readability,
    TwoHalves,
)
from hocket.recipes import find
from hocket.testing import rehearse
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory

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


def test_who_knows_a_half_is_told_how_to_talk() -> None:
    halves, whole = (talk(TwoHalves(messages=2), [RIGHT, RIGHT]), Scenario("whole", "which", answer=RIGHT))
    assert {"role": "system", "content": SYSTEM} in halves.turns[0].prompt
    (plain,) = rehearse(TwoHalves(messages=2), whole, {"alice": [RIGHT], "bob": [RIGHT]}, verifier=lambda text, _: 1.0)
    assert SYSTEM not in str(plain.turns[0].prompt)


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


def test_what_dialogues_have_in_common_is_one_object() -> None:
    found = talked(DialogueTree(expansions=6, children=3), talk_bench()).trajectories
    assert len(found) == 2 * 18
    by_text: dict[tuple[str, ...], set[int]] = {}
    for one in found:
        for length in range(1, 4):
            path = (one.scenario.id, *(turn.text for turn in one.turns[:length]))
            by_text.setdefault(path, set()).add(id(one.turns[length - 1]))
    assert all(len(same) == 1 for same in by_text.values())
    assert sum(len(one.turns) for one in found) > 1.5 * len(by_text)


def test_dialogues_are_numbered_through_all_expansions_and_messages_are_counted() -> None:
    found = talked(DialogueTree(expansions=3, children=2), talk_bench())
    numbers: dict[str, list[int]] = {}
    said = set[tuple[str, ...]]()
    for one in found.trajectories:
        numbers.setdefault(one.scenario.id, []).append(one.sample)
        said |= {(one.scenario.id, *(turn.text for turn in one.turns[: n + 1])) for n in range(len(one.turns))}
    assert all(own == list(range(6)) for own in numbers.values())
    assert found.metrics["rollout/messages"] == len(said)


def test_the_beginning_is_expanded_first_and_then_other_messages() -> None:
    found = talked(DialogueTree(expansions=1, children=5), talk_bench())
    assert found.metrics["rollout/expanded"] == 2
    firsts = {one.turns[0] for one in found.trajectories if one.scenario.id == "one"}
    more = talked(DialogueTree(expansions=4, children=5, alike=0.0), talk_bench()).trajectories
    again = [one for one in more if one.scenario.id == "one"]
    # Later expansions begin with a message of the first.
    assert {turn.text for turn in firsts} >= {one.turns[0].text for one in again[5:]}
    assert len({id(one.turns[0]) for one in again[5:10]}) == 1


def test_a_player_without_workflows_gives_trees_of_one_level() -> None:
    stage = Stage(lambda scenario, sample: float(sample % 2))
    tree, asked = DialogueTree(expansions=2, children=3), [Assignment(DIALOGUES[0])]
    found = asyncio.run(tree.collect(asked, play=stage.play, score=stage.score, ledger=Ledger(), key=Key.of(0)))
    assert [one.sample for one in found.trajectories] == list(range(6))


def test_failed_dialogues_are_kept_out_of_the_tree() -> None:
    stage = Stage(lambda scenario, sample: None if sample == 1 else 1.0)
    tree, asked = DialogueTree(expansions=2, children=2), [Assignment(DIALOGUES[0])]
    found = asyncio.run(tree.collect(asked, play=stage.play, score=stage.score, ledger=Ledger(), key=Key.of(0)))
    assert len(found.trajectories) == 4
    assert found.metrics["rollout/messages"] == 3


def test_a_certain_message_is_worth_a_finite_reward():
    batch = dialogues_of([((0,), 1.0, "a", True)])
    sure = RecordedNumbers(torch.zeros(batch.decisions), torch.ones(batch.decisions, dtype=torch.bool))
    batch = batch.but(logp={**batch.logp, "reference": sure})
    assert returns(Readability(weight=1.0, floor=0.1)(batch)).tolist() == [11.0]


def test_unknown_log_probs_read_as_nothing():
    batch = dialogues_of([((0,), 1.0, "a", True)])
    unknown = RecordedNumbers(torch.zeros(batch.decisions), torch.zeros(batch.decisions, dtype=torch.bool))
    batch = batch.but(logp={**batch.logp, "reference": unknown})
    assert returns(Readability()(batch)).tolist() == [1.0]
