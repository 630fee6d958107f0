"""Accuracies with and without a hint, and longer answers up to a limit."""

from __future__ import annotations

from rollout_cases import Game, Stage, assignments, letter_world

from hocket.methods.group_relative.gcpo_geometryzero import AVOID, USE, ContrastGroups


def test_contrast_means_are_written_to_everybody():
    stage = Stage(lambda name, sample: float(sample < 1 << 21))
    found = stage.collect(ContrastGroups(samples=2, probes=3), assignments("a", "b"))
    assert len(found.trajectories) == 16
    assert [t.source for t in found.trajectories[:8]] == ["own"] * 2 + ["baseline"] * 6
    assert all(t.info["accuracy_with"] == 1.0 and t.info["accuracy_without"] == 0.0 for t in found.trajectories)
    assert [one.hint is not None for one in stage.asked[0]] == [False, True, True] * 2
    learnt = stage.collect(ContrastGroups(samples=0, probes=3), assignments("a"))
    assert {t.source for t in learnt.trajectories} == {"own"}


def test_the_told_begin_as_they_are_told():
    game = Game(letter_world())
    found = game.collect(ContrastGroups(samples=2, probes=3, use_opening="b", avoid_opening="a"), count=1)
    tokens = [int(t.turns[0].action[0]) for t in found.trajectories]
    (told,) = {tuple(one.prefix) for one in game.asked[0] if one.hint == USE}
    (spared,) = {tuple(one.prefix) for one in game.asked[0] if one.hint == AVOID}
    assert told != spared
    assert tokens[2:] == [told[0]] * 3 + [spared[0]] * 3
    assert all(t.turns[0].forced[0] for t in found.trajectories[2:])
    assert not any(t.turns[0].forced.any() for t in found.trajectories[:2])
