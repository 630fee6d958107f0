"""Thoughts cut at the first right answer, and relative length by hand."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from credit_cases import LAW
from hypothesis import given
from judged_cases import asking
from rewards_cases import ANSWERS, shaped_returns
from rollout_cases import SEED, THOUGHTS, Chains, NoHistory, tokens_of

from hocket.lab.bench import Player
from hocket.lab.policy import Tabular
from hocket.methods.group_relative.lc_r1 import CompressedThoughts, FirstMention, RelativeLength, quoted_end
from hocket.train.loop import Playing
from hocket.types import Assignment, Scenario, Score


@dataclass(frozen=True)
class Told(Chains):
    """One response: a thought that says 7, goes on, and answers."""

    def finished(self, tokens):
        return len(tokens) >= self.horizon


def test_a_right_thought_is_cut_and_read_again():
    script = [0, 5, 1, 2, 3]  # <think> 7 s </think> 7
    policy = Tabular(Told(**{**vars(THOUGHTS), "horizon": 5}))
    for question in range(2):
        for place, token in enumerate(script):
            policy.logits.data[policy.row(question, script[:place]), token] = 50.0
    player = Player(policy.world, {"policy": policy, "reference": policy})

    async def score(trajectories):
        for trajectory in trajectories:
            trajectory.scores["verdict"] = Score(1.0)

    asked = [Assignment(Scenario("a", "?", "7", {"question": 0})), Assignment(Scenario("b", "?", "9", {"question": 1}))]
    rollout = CompressedThoughts(samples=1)
    found = asyncio.run(rollout.collect(asked, play=Playing(player, SEED), score=score, ledger=NoHistory(), key=SEED))
    short, whole = found.trajectories
    assert tokens_of(short) == [0, 5, 2, 3]
    assert not short.turns[0].forced.any()
    assert short.info["thinking"] == {"tag": 2, "kept": 1, "original": 2, "reached": True}
    assert short.scores["verdict"].value == 1.0
    assert tokens_of(whole) == script
    assert whole.info["thinking"] == {"tag": 3, "kept": 2, "original": 2, "reached": False}
    assert [tokens_of(t) for t in found.discarded] == [script]
    assert found.discarded[0].source == "baseline"


def test_first_mention():
    extract = FirstMention()
    assert extract("it is 7.", 7) == 7
    assert extract("17 and 70 and 7.5 and a7", "7") is None
    assert extract("-7 or 7", ["9", "7"]) is not None
    assert extract("anything", "") is None
    assert extract("", None) is None


@LAW
@given(ANSWERS)
def test_relative_length_by_hand(answers):
    found = shaped_returns(RelativeLength(weight=2.0), answers)
    for (group, verdict, length, _), value in zip(answers, found, strict=True):
        own = [n for g, v, n, c in answers if g == group and v and c]
        assert value == pytest.approx(verdict + (2 * (1 - length / max(own)) if own else 0.0))


def test_a_quote_is_found_with_its_spaces_levelled():
    assert quoted_end("so  it\nis 7. Then", "'it is 7.'") == 12
    assert quoted_end("so it is 7", "it is 8") is None
    assert quoted_end("so it is 7", " ") is None


@pytest.mark.parametrize(
    ("said", "thinking"),
    [
        ("7  s", {"tag": 3, "kept": 2, "original": 2, "reached": True}),
        ("7", {"tag": 2, "kept": 1, "original": 2, "reached": True}),
        ("NONE.", {"tag": 3, "kept": 2, "original": 2, "reached": False}),
        ("elsewhere", None),
        (None, None),
    ],
)
def test_a_judge_quotes_where_the_answer_is_reached(said, thinking):
    script = [0, 5, 1, 2, 3]
    policy = Tabular(Told(**{**vars(THOUGHTS), "horizon": 5}))
    for place, token in enumerate(script):
        policy.logits.data[policy.row(0, script[:place]), token] = 50.0
    player = Player(policy.world, {"policy": policy, "reference": policy})

    async def score(trajectories):
        for trajectory in trajectories:
            trajectory.scores["verdict"] = Score(1.0)

    asked = [Assignment(Scenario("a", "?", "9", {"question": 0}))]
    rollout = asking(
        CompressedThoughts(samples=1), lambda prompt: said if "Thought:\n7" in prompt else "wrong question"
    )
    found = asyncio.run(rollout.collect(asked, play=Playing(player, SEED), score=score, ledger=NoHistory(), key=SEED))
    (only,) = found.trajectories
    assert only.info.get("thinking") == thinking
    assert tokens_of(only) == ([0, 5, 2, 3] if said == "7" else script)
