"""Work on sums, and what judges are asked about it: word for word what the recipes ask."""

from __future__ import annotations

import json
from typing import Any, cast

import numpy as np
import pytest
from judged_cases import Scripted
from rewards_cases import read

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.group_relative.lc_r1 import CompressedThoughts, quoted_end
from hocket.methods.group_relative.marked_sums import ASKS, MARKED, WRITTEN, Work, worked
from hocket.methods.group_relative.spectral_po import judged_shares
from hocket.methods.group_relative.text2grad import SpanRewards, span_rewards, spans_of
from hocket.rewards.judging import Judge
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Score, Trajectory, Turn

PROBLEM = "What is 48 + 4 - 8?"


def drawn(seed: int, slip: float = 0.5, checks: float = 0.5) -> Work:
    return worked([48, 4, -8], slip, checks, np.random.default_rng(seed))


def test_work_goes_from_total_to_total_and_checks_undo_it() -> None:
    assert (
        drawn(0, slip=0.0, checks=1.0).text == "<think>48+4=52. 52-8=44. 44+8=52. 52-4=48.</think><answer>44</answer>"
    )
    for work in map(drawn, range(20)):
        right = [eval(one.text[:-1].replace("=", "==")) for one in (*work.sentences, *work.checks)]
        assert right == [one.right for one in (*work.sentences, *work.checks)]
        assert work.sentences[-1].text.endswith(f"={work.result}.")
        assert len(work.checks) in (0, 2)


class Words:
    """One token a character."""

    def decode(self, tokens: Any) -> str:
        return "".join(map(chr, tokens))

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]


class Player:
    """Answers with a text, and reads again what is left of it."""

    tokenizer = Words()

    def __init__(self, text: str) -> None:
        self.text = text

    async def __call__(self, asked: Any) -> list[Trajectory]:
        written = [np.array(one.prefix or self.tokenizer.encode(self.text)) for one in asked]
        turns = [Turn("a", "policy", tokens[:0], tokens, forced=np.zeros(len(tokens), bool)) for tokens in written]
        return [Trajectory(one.scenario, [turn], one.first) for one, turn in zip(asked, turns, strict=True)]


def cut(judge: Judge, work: Work) -> str:
    """What is left of a right answer once a judge has quoted the sentence that comes to it."""
    rollout, play = CompressedThoughts(samples=1, judge=judge), cast(Any, Player(work.text))

    async def score(played: Any) -> None:
        for one in played:
            one.scores["reward"] = Score(1.0)

    asked = [Assignment(Scenario("s", PROBLEM, str(work.result)))]
    found = run_async(rollout.collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
    return Words().decode(found.trajectories[0].turns[0].action)


def answering(asks: str, work: Work, answer: int) -> Scripted:
    """A judge that was taught this piece of work."""
    known = dict([ASKS[asks](PROBLEM, answer, work)])
    return Scripted(lambda prompt: known[prompt])


@pytest.mark.parametrize("checks", [0.0, 1.0])
def test_lessons_are_asked_as_recipes_ask_and_their_answers_act(checks: float) -> None:
    for seed in range(8):
        work = drawn(seed, checks=checks)
        (share,) = judged_shares(answering("spectral-po", work, 44), [PROBLEM], [work.text])
        wrong = next((one.text for one in (*work.sentences, *work.checks) if not one.right), None)
        place = 1.0 if wrong is None else work.text.index(wrong) / len(work.text)
        assert share == (0.0 if wrong == work.sentences[0].text else place)
        critic = answering("text2grad", work, 44)
        row = {
            "info": {"pieces": list(work.text), "prompt": PROBLEM},
            "text": work.text,
            "logp": [-1.0] * len(work.text),
        }
        paid = SpanRewards(judge=critic)(read(row)).scores["reward/decision"].values.tolist()
        spans = [(one.text, 1.0 if one.right else -1.0) for one in (*work.sentences, *work.checks)]
        assert paid == span_rewards(list(work.text), spans)
    right = drawn(0, slip=0.0, checks=checks)
    assert cut(answering("lc-r1", right, 44), right) == "<think>48+4=52. 52-8=44.</think><answer>44</answer>"


def test_lessons_are_of_work_and_of_marks() -> None:
    task = tasks.find("marked-sums?checks=0.5")
    lessons = task.lessons
    scenario = task.scenario("train", 3)
    talks = lessons.play(scenario, np.random.default_rng(0))
    assert len(talks) == lessons.talks == sum(WRITTEN.values()) + 3 * MARKED
    assert talks[0].prompt[0]["content"] == scenario.prompt
    spans = [spans_of(str(talk.said[0]["content"])) for talk in talks[-MARKED:]]
    assert all(spans)
    assert {score for found in spans for _, score in found} <= {1.0, -1.0}
    quotes = [
        (str(talk.prompt[0]["content"]).partition("Thought:\n")[2], talk.said[0]["content"]) for talk in talks[7:10]
    ]
    assert all(quoted_end(thought, str(quote)) for thought, quote in quotes)
    assert json.loads(str(talks[-1].said[0]["content"]))


def test_settings_that_cannot_be_are_named() -> None:
    with pytest.raises(ConfigurationError, match="asks = 'lcr1' is taught; did you mean 'lc-r1'"):
        tasks.find("marked-sums?asks=lcr1")
    with pytest.raises(ConfigurationError, match="terms = 1 is from 2 to 6"):
        tasks.find("marked-sums?terms=1")
