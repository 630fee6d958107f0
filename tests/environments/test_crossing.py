"""Robots that cross among people: what is told, what commands do, what is paid, and what straight ways lead to."""

import numpy as np
import pytest

from hocket import tasks
from hocket.core.columns import RETURNS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.teams.samalm.crowd import SocialForce, least_distances, turned, unit
from hocket.methods.teams.samalm.task import arrived, touched
from hocket.methods.teams.samalm.world import COMMANDS, PERIOD, Crossings, sensible
from hocket.types import Scenario, Trajectory


def opened(seed=0, **settings):
    course = Crossings(**settings).make(Scenario("floor"))
    course.reset(Key.of(seed))
    return course


def placed(course, number, place, goal=None, velocity=(0.0, 0.0)):
    course.place[number], course.velocity[number] = place, velocity
    course.goal[number] = course.goal[number] if goal is None else goal


def test_two_that_change_places_at_once_touch_however_fast_they_are():
    place, velocity = np.array([[0.0, 0.0], [10.0, 0.1]]), np.array([[100.0, 0.0], [-100.0, 0.0]])
    apart = least_distances(place, velocity, 1.0)
    assert apart[0, 1] == pytest.approx(0.1)
    assert apart[1, 0] == apart[0, 1]
    assert np.isinf(apart[0, 0])
    assert least_distances(place, velocity, 0.01)[0, 1] == pytest.approx(np.hypot(8, 0.1))
    assert least_distances(np.stack([place, place]), np.stack([velocity, 0 * velocity]), 1.0).shape == (2, 2, 2)


def test_directions():
    assert np.array_equal(unit(np.array([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0.0, 0.0]])
    assert np.allclose(turned(np.array([1.0, 0.0]), 90), [0, 1])


def test_people_push_each_other_alike_and_nobody_feels_who_is_not_felt():
    force, rng = SocialForce(), Key.of(0).numpy()
    place = rng.normal(size=(4, 2))
    push = force.push(place, np.ones(4, bool))
    assert np.allclose(push.sum(0), 0)
    assert np.allclose(force.push(place, np.zeros(4, bool)), 0)
    two = force.push(np.array([[0.0, 0.0], [0.6, 0.0]]), np.array([True, True]))
    assert np.allclose(two, [[-force.strength, 0], [force.strength, 0]])


def test_someone_alone_walks_to_the_goal_and_is_never_too_fast():
    force = SocialForce()
    place, velocity, goal = np.zeros((1, 2)), np.zeros((1, 2)), np.array([[0.0, 9.0]])
    for _ in range(80):
        velocity = force.walked(place, velocity, goal, np.ones(1, bool), 0.125)
    assert np.allclose(velocity, [[0, force.pace]], atol=1e-6)
    fast = force.walked(place, np.array([[99.0, 0.0]]), goal, np.ones(1, bool), 0.125)
    assert np.linalg.norm(fast) == pytest.approx(1.3 * force.pace)


def test_all_start_apart_opposite_to_their_goals():
    for seed in range(20):
        course = opened(seed, robots=4, people=4, circle=5.0)
        assert least_distances(course.place, 0 * course.place, 0.0).min() > 4 * 0.3
        assert (np.linalg.norm(course.goal + course.place, axis=-1) < 1.2).all()


def test_equal_keys_and_commands_are_equal_crossings_and_a_copy_goes_its_own_way():
    one, other = opened(3), opened(3)
    one.act(dict.fromkeys(one.acting, "ahead fast"))
    copied = one.clone()
    other.act(dict.fromkeys(other.acting, "ahead fast"))
    assert [one.observe(seat) for seat in one.agents] == [other.observe(seat) for seat in one.agents]
    copied.act(dict.fromkeys(copied.acting, "stop"))
    assert np.array_equal(one.place, other.place)
    assert not np.array_equal(one.place, copied.place)
    assert not np.array_equal(opened(3).place, opened(4).place)


def test_a_robot_sees_others_towards_its_goal():
    course = opened(robots=2, people=2)
    placed(course, 0, (0, 0), goal=(3, 0))
    placed(course, 1, (1, 1), velocity=(-1, 0))
    placed(course, 2, (0, -2))
    placed(course, 3, (-9, 0))
    seen = course.observe("robot_1")
    assert seen.text == (
        "robot_1: careful, 0.8 fast, 0.4 apart. Goal 3.0 ahead.\n"
        "robot_2 0.8 left, going back.\n"
        "person_1 1.4 far right, standing."
    )
    assert seen.actions == COMMANDS


def test_commands_are_headings_towards_the_goal_and_shares_of_a_persona_s_pace():
    course = opened(robots=3, people=0)
    placed(course, 1, (0, 0), goal=(0, 3))
    assert np.allclose(course.command(1, "ahead fast"), [0, 1])
    assert np.allclose(course.command(1, "LEFT slow."), 0.5 * np.array([-np.sqrt(0.5), np.sqrt(0.5)]))
    assert np.allclose(course.command(1, "stop"), 0)
    assert np.allclose(course.command(1, "jump"), 0)
    assert np.linalg.norm(course.command(0, "right fast")) == pytest.approx(0.8)
    assert np.linalg.norm(course.command(2, "right fast")) == pytest.approx(1.2)


def test_arriving_pays_one_and_ends_a_way():
    course = opened(robots=1, people=0)
    placed(course, 0, (0, 0), goal=(0.9, 0))
    assert course.act({"robot_1": "ahead fast"}) == {"robot_1": 1.0}
    assert course.over
    assert (course.arrived, course.touched, course.truncated) == ([0], [], False)


def test_touching_costs_one_and_both_leave_the_floor():
    course = opened(robots=2, people=0, personas="brisk")
    placed(course, 0, (-1.7, 0), goal=(3, 0))
    placed(course, 1, (1.7, 0), goal=(-3, 0))
    first = course.act(dict.fromkeys(course.acting, "ahead fast"))
    assert first == {"robot_1": 0.0, "robot_2": 0.0}  # 0.4 are left between them.
    second = course.act(dict.fromkeys(course.acting, "ahead fast"))
    assert all(-1.05 < one <= -1 for one in second.values())
    assert course.over
    assert course.touched == [0, 1]


def test_nearness_costs_by_the_persona_s_margin():
    course = opened(robots=2, people=0, personas="careful+brisk")
    placed(course, 0, (0, 0), goal=(3, 0))
    placed(course, 1, (0, 0.9), goal=(3, 0.9))  # 0.3 between them
    assert course.act(dict.fromkeys(course.acting, "stop")) == {"robot_1": pytest.approx(-0.5 / 12), "robot_2": 0.0}


def test_what_is_no_command_stops_and_is_counted_and_time_ends():
    course = opened(robots=2, people=0, length=2)
    before = course.place.copy()
    course.act({"robot_1": "fly", "robot_2": "stop"})
    assert np.array_equal(course.place, before)
    assert course.illegal == {"robot_1": 1, "robot_2": 0}
    course.act({"robot_1": "", "robot_2": "stop"})
    assert course.over
    assert course.truncated


def test_the_sensible_command_goes_ahead_where_it_can_and_else_keeps_off():
    course = opened(robots=1, people=1)
    placed(course, 0, (0, 0), goal=(3, 0))
    placed(course, 1, (0, 9))
    assert sensible(course, "robot_1") == "ahead fast"
    assert sensible(course, "robot_1", ("ahead fast",)) in ("left fast", "right fast")
    placed(course, 1, (1.0, -0.3), goal=(1.0, -9))
    assert sensible(course, "robot_1").startswith(("left", "stop"))
    assert sensible(course, "robot_1", COMMANDS) in COMMANDS


def test_the_outlook_is_that_of_straight_ways():
    course = opened(robots=2, people=1)
    moves = dict.fromkeys(course.acting, "ahead slow")
    ahead = course.joint(moves)
    assert ahead.progress == pytest.approx([0.4 * PERIOD, 0.5 * PERIOD])
    alone = course.alone("robot_1")
    assert alone.gap.shape == alone.progress.shape == (len(COMMANDS),)
    told = course.prospects(moves).splitlines()
    assert told[:2] == ["robot_1: ahead slow.", "robot_2: ahead slow."]
    assert course.prospect("robot_1", "stop").splitlines()[1] == "Goal 6.0, 0.0 nearer."


def test_success_is_the_share_that_arrives():
    trajectory = Trajectory(Scenario("floor"), [])
    RETURNS.write(trajectory, {"robot_1": 0.9, "robot_2": -1.1, "robot_3": -0.2})
    assert arrived(trajectory) == pytest.approx(1 / 3)
    assert touched(trajectory) == pytest.approx(1 / 3)
    assert arrived(Trajectory(Scenario("floor"), [])) == 0.0
    task = tasks.find("crossing?robots=2&people=1")
    assert task.success(trajectory) == arrived(trajectory)
    assert task.describe(trajectory)["touched"] == touched(trajectory)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("robots=0", "robots from 1 to 8"),
        ("people=9", "people from 0 to 8"),
        ("robots=8&people=8", "circle = 3; 16 discs need"),
        ("personas=carefull", "personas names 'carefull'; did you mean 'careful'"),
        ("speed=3", "speed"),
    ],
)
def test_wrong_settings_are_refused(settings, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        tasks.find(f"crossing?{settings}")


def mirrored(course):
    """The floor as seen in a mirror."""
    other = course.clone()
    for name in ("place", "velocity", "goal"):
        setattr(other, name, getattr(course, name) * np.array([1.0, -1.0]))
    return other


def swapped(move):
    """A command as seen in a mirror."""
    return move.replace("left", "x").replace("right", "left").replace("x", "right")


def test_nobody_gets_through_another_and_the_floor_is_the_same_in_a_mirror_in_any_order_and_again():
    rng, off = Key.of(0).derive("floor").numpy(), [0.0]
    for _ in range(200):  # However fast: the least distance is that of a fine sampling of the two ways.
        place, velocity, seconds = rng.normal(size=(3, 2)), 20 * rng.normal(size=(3, 2)), float(rng.uniform(0.1, 2))
        fine = place[None] + np.linspace(0, seconds, 20001)[:, None, None] * velocity[None]
        sampled = np.linalg.norm(fine[:, :, None] - fine[:, None], axis=-1).min(0)
        exact = least_distances(place, velocity, seconds)
        above = ~np.eye(3, dtype=bool)
        off.append(float((exact - sampled)[above].max()))
        off.append(float((sampled - exact)[above].max() > 60 * seconds / 20000))
    world, passed = Crossings(robots=3, people=3), 0
    for seed in range(30):
        course, moves_rng = world.make(Scenario("floor")), Key.of(seed).derive("moves").numpy()
        course.reset(Key.of(seed))
        twin, glass, again = course.clone(), mirrored(course), world.make(Scenario("floor"))
        again.reset(Key.of(seed))
        order = [0, 1, 2, *(3 + moves_rng.permutation(3))]
        for name in ("place", "velocity", "goal", "here"):
            setattr(twin, name, getattr(course, name)[order])
        while course.acting:
            moves = {seat: COMMANDS[int(moves_rng.integers(len(COMMANDS)))] for seat in course.acting}
            earned = [course.act(moves), twin.act(moves), again.act(moves)]
            earned.append(glass.act({seat: swapped(move) for seat, move in moves.items()}))
            off += [abs(one[seat] - earned[0][seat]) for one in earned for seat in moves]
            off.append(float(np.abs(glass.place * [1, -1] - course.place).max()))
            off.append(float(np.abs(twin.place - course.place[order]).max()))
            passed += course.observe("robot_1") != again.observe("robot_1")
    assert max(off) < 1e-9
    assert passed == 0
