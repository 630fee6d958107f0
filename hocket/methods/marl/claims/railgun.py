"""RAILGUN's claims."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hocket import tasks
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.methods.marl.railgun.method import RAILGUN
from hocket.methods.marl.railgun.network import MapNetwork, MoveOdds
from hocket.methods.marl.railgun.whole_maps import WholeCourse, WholeMap
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, collect, train_step
from hocket.types import Evaluation
from hocket.zoo.joint.one_shot_paths import OneShotPaths

claim = Claims("railgun", "RAILGUN, abstract")
Ints = NDArray[np.int64]


def _parts(name: str, recipe: Any = RAILGUN, seed: int = 0, **settings: Any) -> RunContext:
    task = tasks.find(name)
    more = [(key.replace("__", "."), value) for key, value in settings.items()]
    return build_parts(configure([("task", name), ("recipe", recipe), ("seed", seed), *more], task), task)


@claim(
    "The network is a function of the map: what agents are called does not matter, and where all but empty border is "
    "shifted by four cells, the moves shift with it, in float64."
)
def the_network_shifts_with_the_map() -> Finding:
    network = MapNetwork(10, (6, 6, 6), 5, mean=False, last_gain=1.0, key=Key.of(0)).double()
    draw = Key.of(1).numpy()
    for shift in network.shifts:
        nn.init.constant_(shift, 0.1)
    off, moved = 0.0, 0.0
    content = draw.normal(size=(10, 8, 8))
    for down, right in ((4, 0), (0, 8), (-4, 4)):
        grids = np.zeros((2, 10, 96, 96))
        grids[0, :, 44:52, 44:52] = content
        grids[1, :, 44 + down : 52 + down, 44 + right : 52 + right] = content
        with torch.no_grad():
            here, there = network(torch.from_numpy(grids).flatten(1)).reshape(2, 96, 96, 5).numpy()
        off = max(off, float(np.abs(here[40:56, 40:56] - there[40 + down : 56 + down, 40 + right : 56 + right]).max()))
        moved = max(moved, float(np.abs(here[40:56, 40:56] - there[40:56, 40:56]).max()))
    course = WholeMap(size=8).open(1)
    course.reset([0], [3])
    sight, order = course.seen()[0], np.arange(8)[::-1]
    course.place, course.goal, course.ways = (rows[:, order] for rows in (course.place, course.goal, course.ways))
    return below(EXACT, moved > 0.1, np.array_equal(sight, course.seen()[0]), off=off)


@claim(
    "After the shield no two agents share a cell or swap, whatever is named; the planner's moves pass it as they are.",
    "derived",
)
def after_the_shield_nobody_collides() -> Finding:
    clashes, changed, stopped, draw = 0, 0, 0, Key.of(0).numpy()
    for planner in (False, True):
        world = WholeMap(size=8, count=12, length=40)
        course = world.open(5)
        course.reset(range(5), range(5))
        for _ in range(world.length):
            sight, before = course.seen()[0], course.place.copy()
            if planner:
                named = world.teacher.sample(sight, draw.random((5, 1)), np.ones(5, np.float32))[0]
            else:
                named = draw.integers(0, 5, (5, 64))
            course.step([named], np.ones(5, bool))
            clashes += _clashes(before, course.place)
            stood = (course.place == before).all(-1)
            wanted = np.take_along_axis(named, before[..., 0] * 8 + before[..., 1], 1) != 0
            changed += int((stood & wanted).sum()) if planner else 0
            stopped += 0 if planner else int((stood & wanted).sum())
    return Finding(clashes == 0 and changed == 0 and stopped > 300, say(clashes=clashes, planner_stopped=changed))


def _clashes(before: Ints, after: Ints) -> int:
    """Pairs of agents in one cell, or that have swapped."""
    first, second = np.triu_indices(before.shape[1], 1)
    shared = (after[:, first] == after[:, second]).all(-1)
    swapped = (after[:, first] == before[:, second]).all(-1) & (after[:, second] == before[:, first]).all(-1)
    return int((shared | swapped).sum())


@claim("Log-probs, entropies and KLs of a map's moves add up over its cells, and draws have the odds, in float64.")
def the_odds_of_a_map_are_those_of_its_cells() -> Finding:
    draw = Key.of(2).numpy()
    one, other = draw.normal(size=(2, 3, 6, 5))
    heat = np.array([1.0, 0.5, 2.0])
    head = MoveOdds(torch.from_numpy(one)).tempered(torch.from_numpy(heat))
    action, off = draw.integers(0, 5, (3, 6)), 0.0
    for row in range(3):
        logits = one[row] / heat[row]
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        theirs = other[row] - np.log(np.exp(other[row]).sum(-1, keepdims=True))
        expected = (
            logp[np.arange(6), action[row]].sum(),
            -(np.exp(logp) * logp).sum(),
            (np.exp(logp) * (logp - theirs)).sum(),
        )
        found = head.logp(torch.from_numpy(action)), head.entropy(), head.kl(MoveOdds(torch.from_numpy(other)))
        off = max(off, *(abs(float(mine[row]) - by_hand) for mine, by_hand in zip(found, expected, strict=True)))
    mode = bool((head.mode().numpy() == one.argmax(-1)).all())
    wide = MoveOdds(torch.from_numpy(one[:1]).expand(20000, -1, -1))
    drawn = wide.draw(torch.from_numpy(draw.random((20000, 6)))).numpy()
    share = (drawn[..., None] == np.arange(5)).mean(0)
    odds = np.exp(one[0]) / np.exp(one[0]).sum(-1, keepdims=True)
    return below(EXACT, mode, float(np.abs(share - odds).max()) < 0.015, off=off)


@claim(
    "The loss is minus the mean over moments of the log-probs of the planner's moves, summed over the cells with "
    "agents, from a U-Net written out; other cells have no gradient.",
    "abstract",
)
def the_loss_is_the_likelihood_of_the_planners_moves() -> Finding:
    parts = _parts("mapf:whole?size=6&agents=4&length=12", curriculum__prompts=3, network__hidden=[4, 6])
    memory = run_async(RAILGUN.hooks[0].before(parts, 1, {}))
    player = RAILGUN.hooks[0].seat(parts.player, parts, 1, memory)
    experience = run_async(collect(replace(parts, player=player), Key.of(1)))[0]
    batch = pack(experience.trajectories)
    policy: Any = parts.lead.policy
    policy.module.double()
    for weight in policy.module.parameters():
        nn.init.normal_(weight, 0.0, 0.4, generator=Key.of(4).torch())
    unknown = all(turn.logp is None for trajectory in experience.trajectories for turn in trajectory.turns)
    seen = torch.from_numpy(np.concatenate([np.asarray(row) for row in batch.observation])).double()
    logits = policy.module.actor(seen)
    expected, cells = 0.0, 0
    for row, outputs in enumerate(_written_out(policy.module.actor, seen.numpy())):
        for cell in np.flatnonzero(seen[row].numpy()[36:72]):
            score = outputs[cell] - np.log(np.exp(outputs[cell]).sum())
            expected -= score[int(batch.action[row, cell])]
            cells += 1
    credited = batch.but(occurrences=RAILGUN.credit(batch))
    allowed = torch.from_numpy(np.concatenate([np.asarray(mask) for mask in batch.allowed]))
    logits = logits.detach().requires_grad_()
    form = policy.action_form
    logp = form.head(logits, policy.module.actor, allowed, None).logp(batch.action)
    loss = RAILGUN.objective(Evaluation(logp), credited).total()
    (gradient,) = torch.autograd.grad(loss, logits)
    idle = gradient.reshape(len(seen), 36, 5)[seen[:, 36:72] == 0]
    off = abs(float(loss.detach()) - expected / len(seen))
    return below(1e-9, unknown, cells == 4 * len(seen), float(idle.abs().max()) == 0.0, off=off)


def _written_out(network: MapNetwork, seen: NDArray[np.float64]) -> NDArray[np.float64]:
    """`[B, 36, 5]` of a U-Net of two levels, by loops over filters' places."""
    weights = [
        (part.detach().numpy(), shift.detach().numpy())
        for part, shift in zip(network.filters, network.shifts, strict=True)
    ]

    def layer(number: int, grid: NDArray[np.float64]) -> NDArray[np.float64]:
        part, shift = weights[number]
        edge, (height, width) = part.shape[-1] // 2, grid.shape[2:]
        wide = np.pad(grid, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
        total = np.broadcast_to(shift[None, :, None, None], (len(grid), len(part), height, width)).copy()
        for down, right in np.ndindex(part.shape[2:]):
            window = wide[:, :, down : down + height, right : right + width]
            total += np.einsum("oi,bihw->bohw", part[:, :, down, right], window)
        return total

    def rectified(number: int, grid: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(layer(number, grid), 0.0)

    first = rectified(1, rectified(0, seen.reshape(len(seen), 10, 6, 6)))
    pooled = first.reshape(len(seen), 4, 3, 2, 3, 2).max((3, 5))
    second = rectified(3, rectified(2, pooled))
    back = rectified(4, np.concatenate([second.repeat(2, 2).repeat(2, 3), first], 1))
    return layer(5, back).transpose(0, 2, 3, 1).reshape(len(seen), 36, 5)


SMALL = "mapf:whole?size=10&agents=6&length=40"
"""Where the network is trained; it is tried with as many again."""


def _solved(course: WholeCourse | Any, moves: Any, episodes: int) -> float:
    """The share of unseen maps in which all stand on their goals in time; `moves` of `[B, n]` agents by the course."""
    over, won = np.zeros(episodes, bool), np.zeros(episodes, bool)
    for _ in range(course.world.length):
        moved = course.step(moves(course), ~over)
        ended = moved.terminated[:, 0] & ~over
        won |= ended
        over |= ended
    return float(won.mean())


@functools.cache
def _trained(steps: int) -> Any:
    parts = _parts(SMALL)
    for step in range(1, steps + 1):
        run_async(train_step(parts, step))
    return parts.lead.policy


def _clone(world: WholeMap, moments: int) -> nn.Module:
    """A perceptron of an agent's own window that imitates the same planner, on as many moments of a team."""
    paths = OneShotPaths(world.size, world.count, world.density, world.length, stay=True)
    rows, labels, seed, draw = list[NDArray[np.float32]](), list[Ints](), 0, Key.of(5).numpy()
    whole, apart = world.open(32), paths.open(32)
    while sum(map(len, rows)) < moments * world.count:
        seeds = [2 * (seed + number) for number in range(32)]
        seed += 32
        over = np.zeros(32, bool)
        whole.reset(range(32), seeds)
        apart.reset(range(32), seeds)
        for _ in range(world.length):
            named = world.teacher.sample(whole.seen()[0], draw.random((32, 1)), np.ones(32, np.float32))[0]
            mine = np.take_along_axis(named, whole.place[..., 0] * world.size + whole.place[..., 1], 1)
            rows += [np.stack(apart.seen(), 1)[~over].reshape(-1, apart.world.seats[0].observations)]
            labels += [mine[~over].reshape(-1)]
            moved = whole.step([named], ~over)
            apart.step(list(mine.T), ~over)
            over |= (moved.terminated | moved.truncated)[:, 0]
    seen, move = torch.from_numpy(np.concatenate(rows)), torch.from_numpy(np.concatenate(labels))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(seen.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for number in range(4 * len(seen) // 512):
        chosen = torch.from_numpy(Key.of(6).derive(number).numpy().integers(0, len(seen), 512))
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(seen[chosen]), move[chosen]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return network


def compared(policy: Any, world: WholeMap, clone: nn.Module, agents: int, episodes: int) -> dict[str, float]:
    """The share of maps solved with so many agents, by the whole map and by agents on their own; moves are drawn."""
    draw = Key.of(9).numpy()
    larger = WholeMap(world.size, agents, world.density, world.length)
    apart = OneShotPaths(world.size, agents, world.density, world.length, stay=True)
    seeds = [2 * number + 1 for number in range(episodes)]

    def whole(course: WholeCourse) -> list[NDArray[Any]]:
        uniforms, heat = draw.random((episodes, world.size**2)), np.ones(episodes, np.float32)
        return [policy.sample(course.seen()[0], uniforms, heat, course.allowed()[0])[0]]

    def alone(course: Any) -> list[NDArray[Any]]:
        with torch.no_grad():
            odds = torch.softmax(clone(torch.from_numpy(np.stack(course.seen(), 1))).double(), -1).numpy()
        mass = odds.cumsum(-1)
        moves = (draw.random((*mass.shape[:2], 1)) * mass[..., -1:] >= mass).sum(-1).clip(max=4)
        return list(moves.T)

    found = {}
    for name, course, moves in (("map", larger.open(episodes), whole), ("agents", apart.open(episodes), alone)):
        cast(Any, course).reset(range(episodes), seeds)
        found[name] = _solved(course, moves, episodes)
    return found


@claim(
    "Trained with 6 agents on maps of 10 x 10, it solves more unseen maps with 12 agents than perceptrons that imitate "
    "the same planner from each agent's own window.",
    "abstract",
    slow=True,
    learns=True,
)
def with_more_agents_it_solves_more_than_a_clone_of_each_agent() -> Finding:
    world = WholeMap(10, 6, length=40)
    policy = _trained(40)
    found = compared(policy, world, _clone(world, 8000), 12, 100)
    return Finding(found["map"] > found["agents"] + 0.1, say(solved_by=found))


def _lessons(shipped: ShippedRun) -> dict[str, float]:
    """Decisions without log-probs, all of which are the planner's."""
    every = [one for result in shipped.results if result.experience for one in result.experience.trajectories]
    return {"the planner's moments": float(sum(len(turn) for one in every for turn in one.turns if turn.logp is None))}


claim.shipped(RAILGUN, "hooks", sees=_lessons)
