"""Claims on selective messages, the pay of path finding, and what is added in play."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.attention_by_hand import held, linear, normal
from hocket.methods.marl.eph_mapf.additions import PAST, Additions, Moment, escaped, moves, resolved
from hocket.methods.marl.eph_mapf.method import EPH_MAPF
from hocket.methods.marl.eph_mapf.neighbours import HEAD, NeighbouringPaths
from hocket.methods.marl.eph_mapf.play import PLAYERS, Solutions, compared, played
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.rollout.transitions import batch_of_rows
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, collect, train_step
from hocket.zoo.joint.grids import distances
from hocket.zoo.joint.paths import MOVES

claim = Claims("eph-mapf", "arXiv:2403.07559")
Array = NDArray[np.float64]
Ints = NDArray[np.int64]
CLOSE = 5e-5
WORLD = NeighbouringPaths(size=6, count=6, density=0.1)


def _parts(name: str, **settings: Any) -> RunContext:
    task = tasks.find(name)
    more = [(key.replace("__", "."), value) for key, value in settings.items()]
    return build_parts(configure([("task", name), ("recipe", EPH_MAPF), *more], task), task)


# ---------------------------------------------------------------- the network and its values


def _sights(count: int, seed: int) -> NDArray[np.float32]:
    """What agents see after random moves, `[count, O]`."""
    course, draw = WORLD.open(count), Key.of(seed).numpy()
    course.reset(range(count), range(count))
    for _ in range(3):
        course.step(list(draw.integers(0, 5, (WORLD.count, count))), np.ones(count, bool))
    return np.concatenate(course.seen())[draw.permutation(count * WORLD.count)[:count]]


def _policy(seed: int, asking: str = "selective") -> ControlPolicy:
    spaces = JointTask(WORLD, identified=False).spaces(WORLD.agents)
    policy = ControlPolicy(spaces, key=Key.of(seed), network=NetworkSettings(hidden=(12, 8)))
    for part in EPH_MAPF.but(**{"objective.values.asking": asking}).policy_parts:
        part.install(policy)
    draw = Key.of(seed).derive("moved").torch()
    with torch.no_grad():
        for weight in policy.module.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=draw))
    return policy


def _by_hand(policy: ControlPolicy, network: str, sights: NDArray[Any], asking: str) -> tuple[Array, Ints]:
    """Action values `[B, 5]` and how many neighbours each agent asks `[B]`, agent by agent in float64."""
    holder = cast(Any, SimpleNamespace(module=SimpleNamespace(actor=getattr(policy.module, network).body)))
    size, values, requests = 25 * 2 + 2 + 4 + 5, np.zeros((len(sights), 5)), np.zeros(len(sights), np.int64)

    def layers(name: str, x: Array, last: bool) -> Array:
        count = sum(f"{name}.weights." in key for key in holder.module.actor.state_dict())
        for layer in range(count):
            x = held(holder, f"{name}.weights.{layer}") @ x + held(holder, f"{name}.biases.{layer}")
            x = np.maximum(x, 0) if last or layer < count - 1 else x
        return x

    def ordered(state: Array) -> Array:
        outputs = layers("out", state, False)
        return np.asarray(outputs[0] + outputs[1:] - outputs[1:].mean())

    def gates(name: str, x: Array, state: Array) -> Array:
        into = np.split(held(holder, f"{name}.into") @ x + held(holder, f"{name}.bias_into"), 3)
        onward = np.split(held(holder, f"{name}.onward") @ state + held(holder, f"{name}.bias_onward"), 3)
        reset, update = (1 / (1 + np.exp(-into[k] - onward[k])) for k in range(2))
        return np.asarray((1 - update) * np.tanh(into[2] + reset * onward[2]) + update * state)

    for place, sight in enumerate(sights.astype(np.float64)):
        mine, rows = sight[:size], sight[size:].reshape(-1, HEAD + size)
        state, messages = layers("encoder", mine, True), list[tuple[Array, Array]]()
        for row in rows[rows[:, 0] > 0]:
            down, right = np.rint(2 * row[1:3]).astype(int) + 2
            alone = mine.copy()
            alone[25:50].reshape(5, 5)[down, right] = 0.0
            differs = ordered(layers("encoder", alone, True)).argmax() != ordered(state).argmax()
            if asking == "everyone" or (asking == "selective" and differs):
                cell = held(holder, "cell.weight")[:, 5 * down + right] + held(holder, "cell.bias")
                other = normal(holder, "first", layers("encoder", row[HEAD:], True))
                key, value = np.split(linear(holder, "message", np.concatenate([other, cell])), 2)
                messages.append((key, value))
        requests[place] = len(messages)
        if messages:
            query = linear(holder, "query", normal(holder, "first", state))
            weight = np.array([math.exp(float(query @ key) / math.sqrt(len(key))) for key, _ in messages])
            received = sum(share * value for share, (_, value) in zip(weight / weight.sum(), messages, strict=True))
            middle = gates("hear", linear(holder, "joined", np.asarray(received)), state)
            wide = np.maximum(linear(holder, "wide", normal(holder, "second", middle)), 0)
            state = gates("keep", linear(holder, "narrow", wide), middle)
        values[place] = ordered(state)
    return values, requests


@claim(
    "An agent asks the neighbours without which its best action would be another, and hears them by attention and two "
    "gated steps; values from the weights, agent by agent in float64. Who asks nobody has the values of `nobody`.",
    "the authors' code",
)
def messages_are_those_of_neighbours_that_matter() -> Finding:
    sights, off, requests = _sights(120, 3), 0.0, dict[str, float]()
    values: dict[str, Array] = {}
    for asking in ("selective", "everyone", "nobody"):
        policy = _policy(0, asking)
        form: Any = policy.action_form
        values[asking] = form.values(policy.module.actor(torch.from_numpy(sights))).detach().double().numpy()
        expected, count = _by_hand(policy, "actor", sights, asking)
        off, requests[asking] = max(off, float(np.abs(values[asking] - expected).max())), float(count.mean())
        if asking == "selective":
            silent = count == 0
    alike = float(np.abs(values["selective"] - values["nobody"])[silent].max())
    other = float(np.abs(values["selective"] - values["nobody"])[~silent].max())
    some = 0 == requests["nobody"] < requests["selective"] < requests["everyone"]
    return Finding(off < CLOSE and alike < 1e-6 < other and some, say(off=off, silent=alike, asked=requests))


def _rows(seed: int, count: int = 40) -> Batch:
    draw = Key.of(seed).derive("rows").numpy()
    columns: dict[str, NDArray[Any]] = {
        "observed": _sights(count, seed),
        "following": _sights(count, seed + 1),
        "action": draw.integers(0, 5, count),
        "logp": np.zeros(count, np.float32),
        "paid": draw.normal(size=count).astype(np.float32),
        "goes_on": (0.9 * (draw.random(count) < 0.7)).astype(np.float32),
    }
    weights = draw.random(count) + 0.1
    drawn = batch_of_rows(["policy"], [columns], [np.arange(count)], [weights], Key.of(seed))
    return drawn.but(occurrences=EPH_MAPF.credit(drawn))


@claim("The loss is the weighted squared error of the slow value of the action that the network prefers, in float64.")
def the_loss_is_that_of_double_q_learning() -> Finding:
    off = 0.0
    for seed in range(2):
        policy, batch = _policy(seed), _rows(seed)
        with torch.no_grad():  # Another network than the learnt one.
            for weight in cast(Any, policy.module).slow.parameters():
                weight.mul_(1.1)
        (loss,) = EPH_MAPF.losses
        measured = float(loss(policy.evaluate(batch, EPH_MAPF.needs), batch).total().detach())
        following = batch.annotations["following"].numpy()
        present, _ = _by_hand(policy, "actor", batch.observation[0], "selective")
        later, slow = (_by_hand(policy, name, following, "selective")[0] for name in ("actor", "slow"))
        paid, goes_on = (batch.annotations[name].double().numpy() for name in ("paid", "goes_on"))
        total, weight = 0.0, batch.occurrences.weight.numpy()
        for row, action in enumerate(batch.action.tolist()):
            target = paid[row] + goes_on[row] * slow[row, later[row].argmax()]
            total += weight[row] * (present[row, action] - target) ** 2 / len(paid)
        off = max(off, abs(measured / total - 1))
    return below(CLOSE, off=off)


@claim(
    "A move pays -0.075, as staying elsewhere than on the goal does, staying there 0, a prevented move -0.5, and the "
    "last step 3 where all have arrived, from a world stepped anew.",
    "the authors' code",
)
def steps_are_paid_by_their_rule() -> Finding:
    parts = _parts("mapf:neighbours?size=5&agents=2&density=0&length=30", curriculum__prompts=24)
    experience = run_async(collect(parts, Key.of(1)))[0]
    batch = pack(experience.trajectories)
    (pay,) = EPH_MAPF.shaping
    paid = pay(batch).scores["reward/decision"].values.numpy()
    expected, kinds = list[float](), set[float]()
    for trajectory in experience.trajectories:
        course = cast(Any, parts.task).world.open(1)
        course.reset([0], [trajectory.scenario.seed])
        before, table = course.place[0].copy(), np.zeros((2, len(trajectory.turns[0])))
        for time in range(table.shape[1]):
            actions = [turn.action[time : time + 1] for turn in trajectory.turns]
            moved = course.step(actions, np.ones(1, bool))
            for agent in range(2):
                stays, there = actions[agent][0] == 0, (before[agent] == course.goal[0, agent]).all()
                stood = (before[agent] == course.place[0, agent]).all()
                table[agent, time] = (0.0 if there else -0.075) if stays else -0.5 if stood else -0.075
            before = course.place[0].copy()
            table[:, time] = 3.0 if moved.terminated[0, 0] else table[:, time]
        expected += table.ravel().tolist()
        kinds |= set(table.ravel().tolist())
    off = float(np.abs(paid - np.array(expected)).max())
    return below(1e-9, kinds == {-0.5, -0.075, 0.0, 3.0}, off=off)


# ---------------------------------------------------------------- what is added


def _moments(world: NeighbouringPaths, copies: int, seed: int) -> list[Moment]:
    """Random maps with agents that have moved back and forth, or anyhow."""
    course, draw = world.open(copies), Key.of(seed).numpy()
    course.reset(range(copies), range(copies))
    past = list[Ints]()
    for time in range(PAST):
        back = np.where(time % 2, [1, 2, 3, 4, 0], [2, 1, 4, 3, 0])
        named = np.where(draw.random((copies, 1)) < 0.5, back[draw.integers(0, 5, (copies, world.count))], 0)
        course.step(list(named.T), np.ones(copies, bool))
        past.insert(0, course.place.copy())
    return [
        Moment(course.free[copy], course.place[copy], course.goal[copy], np.array([places[copy] for places in past]))
        for copy in range(copies)
    ]


@claim(
    "With priorities no two agents share a cell or swap, and none enters a wall, in 100,000 moves of crowds with "
    "random values, paths and escapes; who has the highest value of all keeps its move, unless somebody stays in its "
    "cell.",
    "section IV",
)
def with_priorities_nobody_collides() -> Finding:
    clashes, overruled, changed, total = 0, 0, 0, 0
    draw, rules = Key.of(4).numpy(), (Additions(), Additions(around="nobody", escape="nobody"))
    for _, moment in itertools.product(range(10), _moments(NeighbouringPaths(size=6, count=9, density=0.1), 560, 0)):
        values = draw.normal(size=(9, 5))
        named = values.argmax(1)
        for number, rule in enumerate(rules):
            chosen = moves(moment, values, rule)
            aim = moment.place + MOVES[chosen]
            swaps = (aim[:, None] == moment.place).all(-1)
            swaps &= swaps.T & ~np.eye(9, dtype=bool)
            inside = ((aim >= 0) & (aim < 6)).all(1)
            walls = ~inside | ~moment.free[tuple(np.clip(aim, 0, 5).T)]
            clashes += len(aim) - len(np.unique(aim, axis=0)) + int(swaps.sum()) + int(walls.sum())
            changed += int((chosen != named).sum()) if not number else 0
            total += len(aim)
        chosen, wishes = resolved(moment, named, values), moment.place + MOVES[named]
        best, padded = int(values.max(1).argmax()), np.pad(moment.free, 1)
        rests = (wishes[best] == moment.place + MOVES[chosen]).all(-1) & (chosen == 0)
        rests[best] = False
        if padded[tuple(wishes[best] + 1)] and not rests.any():
            overruled += int(chosen[best] != named[best])
    return Finding(clashes == overruled == 0 and changed > 1000 and total >= 100_000, say(clashes=clashes, moves=total))


@claim("An agent that is alone walks a shortest path: as many steps as there are to its goal, on 200 maps.")
def alone_the_path_is_a_shortest() -> Finding:
    world, longer = NeighbouringPaths(size=8, count=1, density=0.3, settled=False), 0
    course = world.open(200)
    course.reset(range(200), range(200))
    values = Key.of(0).numpy().normal(size=(1, 5))
    for copy in range(200):
        place, goal, free = course.place[copy], course.goal[copy], course.free[copy]
        least, taken = distances(free, (int(goal[0, 0]), int(goal[0, 1])))[tuple(place[0])], 0
        while (place != goal).any() and taken <= least:
            place = place + MOVES[moves(Moment(free, place, goal), values, Additions(around="all"))]
            taken += 1
        longer += int(taken != least)
    return Finding(longer == 0, say(longer_paths=longer))


@claim(
    "Who has been in no more than two cells for four moments, off its goal, takes the first step of a shortest path "
    "around all others and the next cells of those with higher values, else its best free move; others move as named.",
    "the authors' code",
)
def escapes_are_planned_in_the_order_of_values() -> Finding:
    wrong, planned, draw = 0, 0, Key.of(6).numpy()
    for moment in _moments(NeighbouringPaths(size=6, count=6, density=0.1), 300, 1):
        values, past = draw.normal(size=(6, 5)), moment.past
        named = values.argmax(1)
        chosen, taken = escaped(moment, named, values, "all"), list[tuple[int, ...]]()
        for agent in sorted(range(6), key=lambda number: -values[number].max()):
            place, goal = moment.place[agent], moment.goal[agent]
            sits = (past[0, agent] == past[2, agent]).all() and (past[1, agent] == past[3, agent]).all()
            if sits and (place != goal).any() and (place + MOVES[named[agent]] != goal).any():
                free = moment.free.copy()
                blocked = [tuple(cell) for number, cell in enumerate(moment.place.tolist()) if number != agent]
                for cell in [*blocked, *taken]:
                    if all(0 <= number < 6 for number in cell):
                        free[cell] = False
                ways = distances(free, tuple(goal.tolist())) if free[tuple(goal)] else np.full((6, 6), -1)
                free[tuple(place)] = False  # Only to look around it.
                after = place + MOVES[chosen[agent]]
                steps = {
                    move: int(ways[tuple(place + MOVES[move])])
                    for move in range(1, 5)
                    if ((place + MOVES[move] >= 0) & (place + MOVES[move] < 6)).all()
                    and free[tuple(place + MOVES[move])]
                }
                reach = [number for number in steps.values() if number >= 0]
                if reach and ways[tuple(place)] != 0:
                    wrong += int(chosen[agent] == 0 or steps.get(int(chosen[agent]), -1) != min(reach))
                else:
                    wrong += int(tuple(after.tolist()) in taken and chosen[agent] != 0)
                planned += 1
            else:
                wrong += int(chosen[agent] != named[agent])
            there = place + MOVES[chosen[agent]]
            inside = ((there >= 0) & (there < 6)).all() and moment.free[tuple(there)]
            taken.append(tuple((there if inside else place).tolist()))
    return Finding(wrong == 0 and planned > 100, say(wrong=wrong, planned=planned))


# ---------------------------------------------------------------- what is learnt

DENSE = NeighbouringPaths(size=8, count=8, length=40, settled=False)
"""Where a trained network is tried: twice the agents of training, all of which have a way to go."""


MAPS = 150


def _gain(players: dict[str, Solutions], more: str, less: str) -> tuple[float, float]:
    """The mean and the half interval of a difference in solved maps, map by map."""
    apart = players[more].solved.astype(np.float64) - players[less].solved
    return float(apart.mean()), float(1.96 * apart.std(ddof=1) / len(apart) ** 0.5)


@claim(
    "Trained as shipped and played with eight agents on 150 unseen maps of 8 x 8, shortest paths and escapes each "
    "solve more maps than priorities alone, both more than either, and the ensemble more than every member, beyond the "
    "intervals of the differences; priorities solve no fewer than values alone. Untrained values with both solve none.",
    "section V",
    slow=True,
)
def each_addition_helps() -> Finding:
    parts = _parts("mapf:neighbours")
    policy: Any = parts.lead.policy
    both, alone = "paths and escapes, arrived", "priorities"
    untrained = played(policy, DENSE, PLAYERS[both], MAPS).solved.mean()
    for step in range(1, 61):
        run_async(train_step(parts, step))
    players = compared(policy, DENSE, MAPS)
    pairs = [("paths around arrived", alone), ("paths around all", alone), ("escapes", alone)]
    pairs += [(both, "paths around arrived"), (both, "escapes"), *(("ensemble", name) for name in PLAYERS)]
    least = min(mean - half for mean, half in (_gain(players, *pair) for pair in pairs))
    change, half = _gain(players, alone, "values alone")
    shares = {name: float(result.solved.mean()) for name, result in players.items()}
    holds = least > 0 and change >= 0 and untrained == 0
    return Finding(bool(holds), say(least=least, solved=shares, priorities_add=change, give_or_take=half))


def _messages(shipped: ShippedRun) -> dict[str, float]:
    """How many neighbours an agent asks, and how far that moves its values."""
    experiences = [result.experience.trajectories for result in shipped.results if result.experience]
    observed = [
        np.asarray(turn.observation) for trajectories in experiences for each in trajectories for turn in each.turns
    ]
    sights, body = (
        torch.from_numpy(np.concatenate(observed)[-1000:]),
        cast(Any, shipped.parts.lead.policy).module.actor.body,
    )
    slots = body.sight.slots
    numbers, rows = sights[:, : slots.own], sights[:, slots.own :].reshape(len(sights), slots.count, slots.size)
    with torch.no_grad():
        state = body.encoded(numbers)
        requests = body.requests(numbers, rows, state).sum(1)
        change = (body(sights) - body.out(state)).abs().amax(1)[requests > 0]
    return {"neighbours asked": float(requests.double().mean()), "change of values": float(change.mean())}


claim.learns(EPH_MAPF, seeds=1)
claim.shipped(EPH_MAPF, without={"objective.values.asking": "everyone"}, steps=3, sees=_messages)
