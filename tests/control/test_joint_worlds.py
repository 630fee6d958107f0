"""Native joint worlds: upstream's numbers where upstream runs, and what can never happen."""

import itertools

import numpy as np
import pytest

from hocket import recipes, tasks
from hocket.agents.environments.parallel_pettingzoo import ZooTeam
from hocket.core.errors import ConfigurationError
from hocket.methods.applications.dynamic_coalition_mrta.arena import Coalitions
from hocket.methods.marl.attention_tracking_marl.tracking import Tracking
from hocket.methods.marl.bardec_pomdp.dilemmas import GAMES, Dilemma
from hocket.methods.marl.black_box_marl_attacks.foraging import Foraging
from hocket.methods.marl.black_box_marl_attacks.observation_attack import Attacked
from hocket.methods.marl.eph_mapf.neighbours import NeighbouringPaths
from hocket.methods.marl.follower.guided_paths import PlannedPaths
from hocket.methods.marl.hammer.message_channel import Messaged
from hocket.zoo.joint.grids import distances, largest_part, shortest
from hocket.zoo.joint.particles import SpeakerListener, Spread, Tag
from hocket.zoo.joint.paths import LifelongPaths
from hocket.zoo.joint.skirmish import Skirmish

TAG = {"num_adversaries": 4, "num_good": 2, "num_obstacles": 3}


@pytest.mark.parametrize(
    ("world", "module", "settings"),
    [
        *((Spread(count=count), "simple_spread_v3", {"N": count}) for count in (1, 3, 5)),
        (Tag(), "simple_tag_v3", {}),
        (Tag(4, 2, 3), "simple_tag_v3", TAG),
        (SpeakerListener(), "simple_speaker_listener_v4", {}),
    ],
    ids=lambda one: f"{one.name}-{len(one.agents)}" if hasattr(one, "agents") else "",
)
def test_particle_worlds_are_upstreams(world, module, settings):
    upstream = pytest.importorskip(f"mpe2.{module}")
    seeds, rng = [3, 8, 100], np.random.default_rng(0)
    ours, theirs = world.open(3), [upstream.parallel_env(**settings) for _ in seeds]
    ours.reset(range(3), seeds)
    seen = [course.reset(seed=seed)[0] for course, seed in zip(theirs, seeds, strict=True)]
    for _ in range(25):
        for slot, sights in enumerate(seen):
            for number, agent in enumerate(world.agents):
                np.testing.assert_allclose(ours.seen()[number][slot], sights[agent], rtol=0, atol=1e-9)
        moves = np.stack([rng.integers(0, seat.actions, 3) for seat in world.seats], 1)
        moved = ours.step(list(moves.T), np.ones(3, bool))
        told = [
            course.step({agent: int(moves[slot, number]) for number, agent in enumerate(world.agents)})
            for slot, course in enumerate(theirs)
        ]
        seen = [one[0] for one in told]
        for slot, (_, paid, _, cut, _) in enumerate(told):
            np.testing.assert_allclose(moved.rewards[slot], [paid[agent] for agent in world.agents], rtol=0, atol=1e-9)
            assert moved.truncated[slot].tolist() == [cut[agent] for agent in world.agents]
    assert moved.truncated.all()


def test_agents_with_landmarks_of_their_own_see_them_first_and_are_paid_by_their_own_distance():
    worlds = [Spread(count=3, local=0.0), Spread(count=3, own=True, local=0.0), Spread(count=3, own=True, local=1.0)]
    bumping = Spread(count=3, local=1.0).open(4)
    courses = [*(world.open(4) for world in worlds), bumping]
    for course in courses:
        course.reset(range(4), [1, 2, 3, 4])
    rng = np.random.default_rng(0)
    for _ in range(25):
        moves = [rng.integers(0, 5, 4) for _ in range(3)]
        usual, own, rude, bumps = (course.step(moves, np.ones(4, bool)).rewards for course in courses)
        assert np.array_equal(rude, bumps)  # What is each agent's own is as it was.
        assert (own.sum(1) <= usual[:, 0] + 1e-12).all()  # No landmark's nearest agent is farther than its owner.
        for number, (there, plain) in enumerate(zip(courses[1].seen(), courses[0].seen(), strict=True)):
            order = [number, *(other for other in range(3) if other != number)]
            marks, known = there[:, 4:10].reshape(4, 3, 2), plain[:, 4:10].reshape(4, 3, 2)
            assert np.array_equal(marks, known[:, order])
            assert np.array_equal(there[:, 10:], plain[:, 10:])
            np.testing.assert_allclose(own[:, number], -np.linalg.norm(marks[:, 0], axis=1), rtol=0, atol=1e-6)
    graph = Spread(count=3, own=True, graph=True).open(1)
    graph.reset([0], [1])
    assert np.array_equal(graph.seen()[2][0, 4:6], (graph.landmark[0, 2] - graph.place[0, 2]).astype(np.float32))


@pytest.mark.parametrize(
    "world",
    [
        Foraging(8, 2, 2),
        Foraging(6, 3, 2, coop=True),
        Foraging(10, 4, 3, sight=2),
        Foraging(5, 2, 1, coop=True, sight=1),
    ],
    ids=lambda world: world.name,
)
def test_foraging_is_upstreams(world):
    upstream = pytest.importorskip("lbforaging.foraging")
    seeds, rng, paid, over = range(100, 112), np.random.default_rng(1), 0.0, np.zeros(12, bool)
    ours = world.open(12)
    ours.reset(range(12), seeds)
    levels = {"min_player_level": 1, "max_player_level": 2, "min_food_level": 1, "max_food_level": None}
    sizes = {"players": world.players, "field_size": (world.size,) * 2, "max_num_food": world.foods}
    rest = {"sight": world.sight or world.size, "max_episode_steps": 50, "force_coop": world.coop}
    theirs = [upstream.ForagingEnv(**levels, **sizes, **rest) for _ in seeds]
    seen = [course.reset(seed=seed)[0] for course, seed in zip(theirs, seeds, strict=True)]
    for _ in range(50):
        for slot in np.flatnonzero(~over):
            for number in range(world.players):
                np.testing.assert_array_equal(ours.seen()[number][slot], seen[slot][number])
        moves = rng.integers(0, 6, (12, world.players))
        moves = np.where(rng.random(moves.shape) < 0.5, 5, moves)
        moved = ours.step(list(moves.T), ~over)
        for slot in np.flatnonzero(~over):
            seen[slot], earned, over[slot], _, _ = theirs[slot].step(moves[slot])
            np.testing.assert_allclose(moved.rewards[slot], earned, rtol=0, atol=1e-9)
            assert bool((moved.terminated | moved.truncated)[slot].all()) == over[slot]
            paid += sum(earned)
    assert paid > 0.4


@pytest.mark.parametrize(
    "world",
    [LifelongPaths(), LifelongPaths(10, 20, 0.3), LifelongPaths(12, 16, map="corridor")],
    ids=["8", "10", "hall"],
)
def test_nobody_shares_a_cell_or_swaps(world):
    paths, width, rng, paid = world.open(40), 40, np.random.default_rng(0), 0.0
    paths.reset(range(width), range(width))
    own = np.eye(world.count, dtype=bool)
    for _ in range(250):  # 10,000 joint steps.
        before = paths.place @ np.array([world.size, 1])
        goals = paths.goal.copy()
        moved = paths.step(list(rng.integers(0, 5, (world.count, width))), np.ones(width, bool))
        after = paths.place @ np.array([world.size, 1])
        assert all(len(set(cells)) == world.count for cells in after.tolist())
        swapped = (after[:, :, None] == before[:, None]) & (before[:, :, None] == after[:, None]) & ~own
        assert not swapped.any()
        assert paths.free[np.arange(width)[:, None], paths.place[..., 0], paths.place[..., 1]].all()
        assert np.array_equal(moved.rewards > 0, (paths.place == goals).all(-1))
        assert not (paths.place == paths.goal).all(-1).any()
        paid += moved.rewards.sum()
    assert paid > 50


def test_a_star_is_exact():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        free = largest_part(rng.random((9, 9)) > 0.35)
        cells = [tuple(cell.tolist()) for cell in np.argwhere(free)]
        start, goal = cells[rng.integers(len(cells))], cells[rng.integers(len(cells))]
        steps = distances(free, goal)
        path = shortest(free, start, goal)
        assert len(path) - 1 == steps[start]
        assert all(abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1 for a, b in itertools.pairwise(path))
        cost = 1 + 5 * rng.random((9, 9))
        assert _spent(shortest(free, start, goal, cost), cost) == pytest.approx(_cheapest(free, goal, cost)[start])
    assert shortest(np.array([[True, False, True]]), (0, 0), (0, 2)) == []
    assert distances(np.array([[True, False, True]]), (0, 2)).tolist() == [[-1, -1, 0]]


def _spent(path, cost):
    return sum(cost[cell] for cell in path[1:])


def _cheapest(free, goal, cost):
    """Costs to the goal by Bellman's sweeps."""
    value = np.where(free, np.inf, np.nan)
    value[goal] = 0.0
    for _ in range(40):
        for cell in map(tuple, np.argwhere(free)):
            near = [(cell[0] + a, cell[1] + b) for a, b in ((-1, 0), (1, 0), (0, -1), (0, 1))]
            near = [one for one in near if 0 <= one[0] < 9 and 0 <= one[1] < 9 and free[one]]
            ways = [value[one] + cost[one] for one in near]
            if cell != goal and ways:
                value[cell] = min(value[cell], *ways)
    return value


def test_dilemmas_pay_by_their_tables():
    for name, (one, other, _) in GAMES.items():
        world, moves = Dilemma(name), len(one)
        game = world.open(moves * moves)
        row, column = np.divmod(np.arange(moves * moves), moves)
        moved = game.step([row, column], np.ones(moves * moves, bool))
        assert moved.rewards.tolist() == [[one[a][b], other[b][a]] for a, b in zip(row, column, strict=True)]
        assert game.seen()[1][1].tolist()[: 2 * moves] == [*np.eye(moves)[column[1]], *np.eye(moves)[row[1]]]
        assert bool(moved.terminated.all()) == (world.length == 1)


WORLDS = [
    Spread(),
    Tag(2, 2),
    SpeakerListener(),
    Foraging(),
    LifelongPaths(),
    Dilemma("chicken"),
    Messaged(Foraging(5, 3, 2), 3),
    PlannedPaths(),
    Attacked(Spread(2), "views", 0.2),
    Skirmish(hops=1),
    Tracking(),
    NeighbouringPaths(),
    Coalitions(),
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda one: f"{one.name}-{len(one.agents)}")
def test_equal_seeds_are_equal_episodes_whatever_stands_beside(world):
    """To the last bit: width 1, width 37, another slot, another time of reset."""

    def played(width, slot, late):
        course, rng = world.open(width), np.random.default_rng(5)
        course.reset(range(width), range(1000, 1000 + width))
        live, found = np.ones(width, bool), []
        for _ in range(late):
            course.step([np.zeros(width, int)] * len(world.agents), live)
        course.reset([slot], [77])
        for _ in range(12):
            own = rng.integers(0, min(seat.actions for seat in world.seats), len(world.agents))
            others = np.random.default_rng(width).integers(
                0, min(seat.actions for seat in world.seats), (len(own), width)
            )
            others[:, slot] = own
            moved = course.step(list(others), live)
            found += [moved.rewards[slot], *(sight[slot] for sight in course.seen()), course.state()[slot]]
        return np.concatenate(found)

    alone = played(1, 0, 0)
    for other in (played(37, 20, 3), played(64, 0, 0)):
        assert np.array_equal(alone, other)


def test_a_module_of_pettingzoos_interface_by_its_full_name():
    pytest.importorskip("mpe2")
    native, adapted = Spread(count=2), ZooTeam("mpe2.simple_spread_v3", {"N": 2})
    assert (adapted.agents, adapted.seats, adapted.joint) == (native.agents, native.seats, 24)
    ours, theirs, live = native.open(2), adapted.open(2), np.ones(2, bool)
    for course in (ours, theirs):
        course.reset([0, 1], [4, 5])
    for step in range(25):
        moved = [course.step([np.array([1, 2]), np.array([3, step % 5])], live) for course in (ours, theirs)]
        np.testing.assert_allclose(moved[0].rewards, moved[1].rewards, rtol=0, atol=1e-9)
        for one, other in zip(ours.seen(), theirs.seen(), strict=True):
            np.testing.assert_array_equal(one, other)
    assert moved[0].truncated.all()
    assert moved[1].truncated.all()
    theirs.close()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("mpe:spred", "no task mpe:spred; did you mean 'spread'"),
        ("mpe:spread?agnts=2", "no setting 'agnts'; did you mean 'agents'"),
        ("mpe:spread?agents=0", "at least 1"),
        ("mpe:spread?attack=view", "did you mean 'views'"),
        ("mpe:spread?agents=1&budget=0.1", "no other's view"),
        ("mpe:spread?messages=1", "at least 2 symbols, and 0 is none"),
        ("forage:8x7-2p-2f", "forage:8x8-2p-2f"),
        ("mapf:lifelong?agents=50", "at most a quarter, 16"),
        ("mapf:lifelong?map=maze", "random, corridor"),
        ("mapf:planned?avoid=-1", "costs cannot be negative"),
        ("dilemma:prisoner", "did you mean 'prisoners'"),
        ("pettingzoo:nowhere.simple_v1", "no module nowhere"),
        ("pettingzoo:classic.rps_v2?kind=robot", "text or control"),
    ],
)
def test_wrong_names_are_refused_in_a_sentence(name, why):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(name)


def test_a_critic_within_another_credit_gets_the_settings_of_a_critic():
    """Normalised values are estimated from episodes that begin apart, as values are."""
    for name in ("mpe:spread", "gym:CartPole-v1"):
        alone, within = (tasks.find(name).suggest(recipes.find(one)) for one in ("mappo", "mappo-value-norm"))
        assert alone["rollout.samples"] == within["rollout.samples"] == 1
        assert within == {key.replace("credit.", "credit.of."): value for key, value in alone.items()}


def test_worlds_with_messages_suggest_many_episodes_and_few_passes():
    names = ("curriculum.prompts", "update.epochs", "update.lr", "steps")
    plain, mute, told = (
        tasks.find(f"mpe:spread?agents=2{more}").suggest(recipes.find("hammer"))
        for more in ("", "&messages=0", "&messages=5")
    )
    assert mute == plain
    assert [plain[name] for name in names] == [64, 8, 1.5e-3, 60]
    assert [told[name] for name in names] == [256, 4, 3e-3, 60]
