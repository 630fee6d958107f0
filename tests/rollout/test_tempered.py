"""Rollouts that sample again: hotter or cooler, after a cue, or of more scenarios."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from hocket.core.keys import Key
from hocket.lab.bench import Player
from hocket.lab.policy import Tabular
from hocket.lab.world import World
from hocket.methods.group_relative.aepo import Tempered, sampled_entropy
from hocket.methods.group_relative.cppo import Refilled
from hocket.methods.group_relative.edge_grpo import GuidedCorrection
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Decoding, Score

WORDS = ("a", "b", "!", ".")
END = 3


def world(right=lambda question, answer: float(answer[-2:] == (1, END))):
    return World(questions=3, tokens=4, horizon=6, reward=right, end=END, words=WORDS)


class Game:
    """Plays and scores a world, and remembers what was asked."""

    def __init__(self, task, start=None):
        self.task, self.asked = task, []
        policy = Tabular(task)
        if start:
            policy.logits.data[:] = start
        self.player = Player(task, {"policy": policy})
        self.tokenizer = self.player

    async def __call__(self, assignments):
        self.asked.append(list(assignments))
        return await self.player.play(assignments, key=Key.of(3))

    async def score(self, trajectories):
        for trajectory in trajectories:
            graded = await self.task.rewards[0]([trajectory], key=Key.of(0))
            trajectory.scores["reward"] = Score(graded[0])

    def collect(self, rollout, count=2, more=None):
        decoding = Decoding(max_tokens=6)
        asked = [Assignment(self.task.scenario("train", n), decoding=decoding) for n in range(count)]
        found = rollout.collect(asked, play=self, score=self.score, ledger=Ledger(), key=Key.of(1), more=more)
        return asyncio.run(found)


@pytest.mark.parametrize(("target", "factor"), [(0.0, 0.5), (9.0, 2.0)])
def test_the_temperature_follows_the_measured_entropy(target, factor):
    game = Game(world())
    found = game.collect(Tempered(samples=3, extra=2, target=target))
    own, further = found.trajectories[:6], found.trajectories[6:]
    assert [t.info.get("tempered", False) for t in found.trajectories] == [False] * 6 + [True] * 4
    assert {one.decoding.temperature for one in game.asked[1]} == {factor}
    assert found.metrics == {"rollout/entropy": sampled_entropy(own), "rollout/temperature": factor}
    assert {t.sample for t in further} == {3, 4}  # No draw of the own samples is repeated.
    for trajectory in further:
        assert trajectory.turns[0].logp is None
        assert trajectory.turns[0].decoding.temperature == 1.0


def test_the_entropy_is_that_of_sampled_decisions():
    game = Game(world())
    (trajectory,) = game.collect(GuidedCorrection(samples=2, share=0.0), count=1).trajectories[:1]
    turn = trajectory.turns[0]
    assert sampled_entropy([trajectory]) == pytest.approx(float(-np.mean(turn.logp)))
    turn.forced = np.ones(len(turn), bool)
    assert sampled_entropy([trajectory]) == sampled_entropy([]) == 0.0


def test_wrong_answers_are_continued_after_a_cue():
    game = Game(world())
    found = game.collect(GuidedCorrection(samples=6, share=0.5, cues=("!",)))
    changed = [t for t in found.trajectories if t.info.get("corrected")]
    assert len(found.trajectories) == 12
    assert len(changed) == len(found.discarded) == len(game.asked[1]) > 0
    for trajectory, wrong in zip(changed, found.discarded, strict=True):
        said = wrong.turns[0].action.tolist()
        assert wrong.scores["reward"].value == 0
        turn = trajectory.turns[0]
        prefix = [*said[:-1], 2]
        assert turn.action[: len(prefix)].tolist() == prefix[:6]
        assert turn.forced.tolist() == [place < len(prefix) for place in range(len(turn))]
        assert trajectory.scenario.id == wrong.scenario.id
    right = sum(t.scores["reward"].value for t in changed)
    assert found.metrics == {"rollout/corrected": len(changed), "rollout/corrected_right": right}


def test_right_and_unfinished_answers_are_left():
    always = Game(world(lambda question, answer: 1.0))
    assert len(always.collect(GuidedCorrection(samples=4)).discarded) == 0
    assert len(always.asked) == 1
    endless = Game(World(questions=1, tokens=2, horizon=3, reward=lambda q, a: 0.0, words=("a", "b")))
    for trajectory in endless.collect(GuidedCorrection(samples=2, cues=()), count=1).trajectories:
        assert len(trajectory.turns[0]) == 3


def test_the_answer_may_be_told_in_the_cue():
    game = Game(world())
    asked = Assignment(game.task.scenario("train", 0), decoding=Decoding(max_tokens=6))
    wrong = asyncio.run(game([asked]))[0]
    object.__setattr__(wrong.scenario, "answer", "b")
    rollout = GuidedCorrection(samples=2, cues=("!{answer}",))
    again = rollout._continued(asked, wrong, game.player.encode, Key.of(0))
    assert again.prefix[-2:] == (2, 1)
    assert again.first == 2
    assert again.decoding.max_tokens == 6 + len(again.prefix)


@pytest.mark.parametrize(("rate", "groups"), [(0.0, 2), (0.5, 4), (0.75, 8)])
def test_more_scenarios_fill_the_slots(rate, groups):
    game = Game(world())

    def more(count):
        return [Assignment(game.task.scenario("train", 2), decoding=Decoding(max_tokens=6)) for _ in range(count)]

    assert len(game.collect(Refilled(samples=2, rate=rate), more=more).trajectories) == 2 * groups
    assert len(game.collect(Refilled(samples=2, rate=rate)).trajectories) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Tempered(hot=0.9),
        lambda: Tempered(extra=0),
        lambda: GuidedCorrection(samples=1),
        lambda: GuidedCorrection(share=1.5),
        lambda: Refilled(rate=1.0),
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        wrong()
