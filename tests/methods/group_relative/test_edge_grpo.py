"""Wrong answers continued after a cue, and credit scaled by entropy."""

from __future__ import annotations

import asyncio

import pytest
import torch
from credit_cases import LAW, annotated, batch_of, by_trajectory, experiences, make, mean
from hypothesis import given
from rollout_cases import Game, letter_world

from hocket.core.keys import Key
from hocket.credit.group import GroupRelative
from hocket.lab.world import World
from hocket.methods.group_relative.edge_grpo import EntropyScaled, GuidedCorrection
from hocket.types import Assignment, Decoding


def test_wrong_answers_are_continued_after_a_cue():
    game = Game(letter_world())
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


PLAIN = GroupRelative()


@LAW
@given(experiences())
def test_entropy_scaling_by_hand(trajectories):
    batch = annotated(trajectories)
    plain = by_trajectory(batch, PLAIN(batch).advantage)
    entropies = by_trajectory(batch, batch.entropy[batch.occurrences.decision])
    weights = by_trajectory(batch, batch.occurrences.weight)
    means = [
        mean([h for h, w in zip(row, used, strict=True) if w]) if any(used) else None
        for row, used in zip(entropies, weights, strict=True)
    ]
    known = [one for one in means if one is not None]
    found = by_trajectory(batch, EntropyScaled(low=1e-9, high=1e9)(batch).advantage)
    for row, before, own in zip(found, plain, means, strict=True):
        assert row == pytest.approx([a * mean(known) / own if own else 0.0 for a in before], rel=1e-9, abs=1e-12)


def test_an_entropy_of_zero_has_a_bounded_factor():
    batch = batch_of([make("a", 1.0), make("a", 0.0)])
    batch = batch.but(entropy=torch.tensor([0.0, 0.0, 1.0, 1.0]))
    assert EntropyScaled()(batch).advantage[0] == pytest.approx(10 * PLAIN(batch).advantage[0].item())
    assert torch.equal(EntropyScaled()(batch.but(entropy=torch.zeros(4))).advantage, PLAIN(batch).advantage)
