"""Wrong answers continued after a cue, and credit scaled by entropy."""

from __future__ import annotations

import asyncio

from rollout_cases import Game, letter_world

from hocket.core.keys import Key
from hocket.lab.world import World
from hocket.methods.group_relative.edge_grpo import GuidedCorrection
from hocket.types import Assignment, Decoding


def test_right_and_unfinished_answers_are_left():
    always = Game(letter_world(lambda question, answer: 1.0))
    assert len(always.collect(GuidedCorrection(samples=4)).discarded) == 0
    assert len(always.asked) == 1
    endless = Game(World(questions=1, tokens=2, horizon=3, reward=lambda q, a: 0.0, words=("a", "b")))
    for trajectory in endless.collect(GuidedCorrection(samples=2, cues=()), count=1).trajectories:
        assert len(trajectory.turns[0]) == 3


def test_the_answer_may_be_told_in_the_cue():
    game = Game(letter_world())
    asked = Assignment(game.task.scenario("train", 0), decoding=Decoding(max_tokens=6))
    wrong = asyncio.run(game([asked]))[0]
    object.__setattr__(wrong.scenario, "answer", "b")
    rollout = GuidedCorrection(samples=2, cues=("!{answer}",))
    again = rollout._continued(asked, wrong, game.player.encode, Key.of(0))
    assert again.prefix[-2:] == (2, 1)
    assert again.first == 2
    assert again.decoding.max_tokens == 6 + len(again.prefix)
