"""The search's settings, batches that state too little, and the play of a run."""

import asyncio
import sys
from dataclasses import replace

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.toys.beliefs import believing
from hocket.methods.marl.mats_lp import play
from hocket.methods.marl.mats_lp.method import MATS_LP, nearer
from hocket.methods.marl.mats_lp.search import StepwiseSearch
from hocket.train.loop import collect
from hocket.zoo.joint.paths import LifelongPaths


@pytest.mark.parametrize("change", [{"searches": 0}, {"planners": 0}, {"depth": 0}, {"c": 0.0}, {"gamma": 1.5}])
def test_wrong_settings_are_refused(change):
    with pytest.raises(ConfigurationError, match="at least 1"):
        StepwiseSearch(**change)


def test_batches_without_joint_states_are_refused():
    parts = believing(MATS_LP, "mapf:lifelong?agents=3&length=6", curriculum__prompts=2)
    batch = pack(asyncio.run(collect(parts, Key.of(2)))[0].trajectories)
    cut = tuple(None if one is None else one[:, :-1] for one in batch.joint)
    for change in ({"parts": None}, {"joint": ()}, {"joint": (None, *batch.joint[1:])}, {"joint": cut}):
        with pytest.raises(ConfigurationError, match="use mapf:lifelong"):
            nearer(replace(batch, **change))


class Even:
    """A light policy without preferences."""

    def judged(self, rows):
        return np.full((len(rows), 5), 0.2), np.zeros(len(rows))


def test_agents_alone_reach_by_the_search_what_shortest_paths_reach():
    world = LifelongPaths(6, 1, density=0.1, length=12)
    searchers = play.Searchers(Even(), StepwiseSearch(1, 60, c=0.02, depth=6))
    found = play.played(world, searchers, 6)
    best = play.played(world, play.along_paths, 6)
    assert best.sum() > 6
    assert found.sum() >= 0.7 * best.sum()


def test_other_tasks_are_refused_with_exit_code_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["play", "--run", "none", "--task", "dilemma:pennies"])
    with pytest.raises(SystemExit) as ended:
        play.main()
    assert ended.value.code == 2
    assert "use mapf:lifelong" in capsys.readouterr().err
