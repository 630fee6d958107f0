"""Messages of neighbours, and what is added in play."""

from __future__ import annotations

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.marl.eph_mapf.additions import Additions, Moment, moves, resolved
from hocket.methods.marl.eph_mapf.method import EPH_MAPF
from hocket.methods.marl.eph_mapf.neighbours import HEAD, NeighbouringPaths
from hocket.methods.marl.eph_mapf.play import Solutions, best_of, main, played
from hocket.train.assemble import build_parts
from hocket.train.config import configure


def built(name, recipe=EPH_MAPF, **settings):
    task = tasks.find(name)
    pairs = [("task", name), ("recipe", recipe), ("seed", 0), *settings.items()]
    return build_parts(configure(pairs, task), task)


def test_a_row_shows_what_the_neighbour_sees_of_itself():
    world = NeighbouringPaths(size=5, count=4, density=0.0, near=2)
    course = world.open(6)
    course.reset(range(6), range(6))
    course.step(list(Key.of(0).numpy().integers(0, 5, (4, 6))), np.ones(6, bool))
    sights = np.stack(course.seen(), 1)
    slots = world.seats[0].slots
    mine, rows = sights[..., : slots.own], sights[..., slots.own :].reshape(6, 4, 2, slots.size)
    assert (mine[..., -5:].sum(-1) == 1).all()
    shown = 0
    for copy, agent in np.ndindex(6, 4):
        toward = course.place[copy] - course.place[copy, agent]
        distance = np.abs(toward).max(-1)
        near = [number for number in np.argsort(distance, kind="stable") if number != agent and distance[number] <= 2]
        for place, row in enumerate(rows[copy, agent]):
            if place >= len(near):
                assert not row.any()
                continue
            assert row[:HEAD].tolist() == [1.0, *(toward[near[place]] / 2).tolist()]
            assert (row[HEAD:] == mine[copy, near[place]]).all()
            shown += 1
    assert shown > 20


def test_some_agents_begin_on_their_goals():
    course = NeighbouringPaths(count=4).open(60)
    course.reset(range(60), range(60))
    travellers = (course.place != course.goal).any(-1).sum(1)
    assert set(travellers.tolist()) == {1, 2, 3, 4}
    course = NeighbouringPaths(count=4, settled=False).open(60)
    course.reset(range(60), range(60))
    assert (course.place != course.goal).any(-1).all()


def test_weights_of_four_serve_eight(tmp_path):
    built("mapf:neighbours").lead.policy.save(tmp_path)
    policy = built("mapf:neighbours?agents=8").lead.policy
    policy.load(tmp_path)
    world = NeighbouringPaths(size=6, count=3, length=3)
    result = played(policy, world, Additions(around="all", escape="all"), 4)
    assert (result.steps[~result.solved] == 3).all()


@pytest.mark.parametrize(
    ("task", "settings", "why"),
    [
        ("mpe:spread?length=5", {}, "what neighbours see"),
        ("mapf:lifelong", {}, "what neighbours see"),
        ("mapf:neighbours?ids=true", {}, "drop ids"),
        ("mapf:neighbours", {"network.normalise": True}, "network of its own"),
        ("mapf:neighbours?near=0", {}, "at least"),
    ],
)
def test_what_messages_are_not_made_of_is_refused(task, settings, why):
    with pytest.raises(ConfigurationError, match=why):
        built(task, **settings)


def test_who_stays_keeps_its_cell_and_the_higher_value_goes_first():
    free = np.ones((3, 3), bool)
    place, goal = np.array([[1, 0], [1, 2], [0, 1]]), np.array([[1, 2], [1, 0], [0, 1]])
    values = np.array([[0.0, -9, -9, -9, 1.0], [0.5, -9, -9, 2.0, -9], [1.0, -9, 0.0, -9, -9]])
    moment = Moment(free, place, goal)
    assert resolved(moment, values.argmax(1), values).tolist() == [0, 3, 0]
    values[2] = [0.0, -9, 3.0, -9, -9]
    assert resolved(moment, values.argmax(1), values).tolist() == [0, 0, 2]
    assert moves(moment, values, Additions(priorities=False)).tolist() == [4, 3, 2]


def test_the_ensemble_takes_the_shortest_solution():
    members = [
        Solutions(np.array([True, False, True]), np.array([9, 20, 7])),
        Solutions(np.array([True, False, False]), np.array([5, 20, 20])),
    ]
    best = best_of(members)
    assert best.solved.tolist() == [True, False, True]
    assert best.steps.tolist() == [5, 20, 7]


def test_a_run_without_action_values_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["play", "--run", str(tmp_path / "none")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "none" in capsys.readouterr().err
