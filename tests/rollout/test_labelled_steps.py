"""Labels of steps and turns stand where these have ended."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from rollout_cases import NoHistory

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.single import SingleTurn
from hocket.agents.workflows.team import Actor
from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.nano import BASE
from hocket.policies.loading import read_tokenizer
from hocket.rollout.labelled_steps import LabelledSteps
from hocket.types import Assignment, Decoding, Scenario

CHAT = Chat(read_tokenizer(str(BASE)))


class Playing(SimpleNamespace):
    async def __call__(self, assignments):
        return await self.tokenizer.play(assignments, key=Key.of(0))


def collected(rollout, **metadata):
    engine = SimpleNamespace(barrier=None)
    player = TextPlayer(SingleTurn(), {"policy": Actor(policy="policy", engine=engine, chat=CHAT)})
    asked = [Assignment(Scenario("s", "What is 1 + 2?", metadata=metadata), decoding=Decoding())]
    work = rollout.collect(asked, play=Playing(tokenizer=player), score=None, ledger=NoHistory(), key=Key.of(1))
    (trajectory,) = asyncio.run(work).trajectories
    return trajectory


@pytest.mark.parametrize("separator", ["", "\n", " and "])
def test_a_label_stands_where_its_step_and_the_separator_are_told(separator):
    steps = ["<think>1+2=3", "3+4=8", "</think><answer>8</answer>"]
    found = collected(LabelledSteps(separator=separator), steps=steps, labels=[True, False, None])
    score, action = found.scores["label"], found.turns[0].action.tolist()
    assert (score.level, found.source, found.text) == (Level.DECISION, "expert", separator.join(steps))
    told = [place for place, value in enumerate(score.value) if value is not None]
    ends = [steps[0] + separator, steps[0] + separator + steps[1] + separator]
    assert [CHAT.render(action[: place + 1]) for place in told] == ends
    assert [score.value[place] for place in told] == [1.0, 0.0]


def test_the_last_step_ends_with_the_turn():
    found = collected(LabelledSteps(), steps=["a", "b"], labels=[0.25, 1])
    assert found.scores["label"].value[-1] == 1.0
    assert found.turns[0].action[-1] == CHAT.end_of_turn
    assert found.scores["label"].value[1] == 0.25


def test_turns_have_labels_of_their_own():
    talk = [
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "two"},
    ]
    found = collected(LabelledSteps(), demonstration=talk, labels=[True, False])
    assert (found.scores["label"].level, list(found.scores["label"].value)) == (Level.TURN, [1.0, 0.0])
    assert np.array_equal([len(turn) for turn in found.turns], [4, 4])
    with pytest.raises(ConfigurationError, match="has 2 assistant turns and 1 labels"):
        collected(LabelledSteps(), demonstration=talk, labels=[True])


BAD = {
    "nothing": ({}, "needs 'steps'"),
    "no labels": ({"steps": ["a"]}, "needs 'steps'"),
    "too few": ({"steps": ["a", "b"], "labels": [True]}, "2 steps and 1 labels"),
    "empty step": ({"steps": ["a", ""], "labels": [True, True]}, "give each step some text"),
    "no label": ({"steps": ["a"], "labels": ["good"]}, "'good' is neither true, false"),
    "above 1": ({"steps": ["a"], "labels": [2]}, "2 is neither true, false"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_refused(name):
    metadata, sentence = BAD[name]
    with pytest.raises(ConfigurationError, match=sentence):
        collected(LabelledSteps(), **metadata)
