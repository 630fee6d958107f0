"""The claims of multi-agent MDP homomorphic networks."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket import tasks
from hocket.core.casting import Separate
from hocket.core.keys import Key
from hocket.core.worlds import Seat
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.methods.marl.ippo import IPPO
from hocket.methods.marl.multi_agent_mdp_homomorphic_networks import (
    MULTI_AGENT_MDP_HOMOMORPHIC_NETWORKS,
    ROWS,
    Equivariant,
    gap,
    turns_of,
)
from hocket.policies.control import ControlPolicy
from hocket.policies.control_sets import OverSets, Turning, in_fours, turned, turned_moves, unturned
from hocket.policies.settings import NetworkSettings
from hocket.recipe import Recipe
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step
from hocket.types import Quantity
from hocket.zoo.joint.particles import Spread

claim = Claims("multi-agent-mdp-homomorphic-networks", "arXiv:2110.04495")
Body = Literal["sets", "equivariant"]
WORLD = Spread(count=3, graph=True, reach=1.2)
TASK = "mpe:spread?agents=2&graph=true&ids=false"
QUARTER = np.array([[0.0, -1.0], [1.0, 0.0]])


def _turn(points: NDArray[Any], turn: int) -> NDArray[Any]:
    """Vectors `[.., 2]` after so many quarter turns, by the matrix of a rotation."""
    return np.asarray(points @ np.linalg.matrix_power(QUARTER, turn).T)


def _policy(body: Body = "equivariant", key: int = 3, *, scale: float = 0.5) -> ControlPolicy:
    """In float64, with weights far from even odds and biases far from 0, and a critic."""
    task = JointTask(WORLD, identified=False)
    network = NetworkSettings(body=body, hidden=(16, 12))
    policy = ControlPolicy.for_task(task.spaces(WORLD.agents), key=Key.of(key), network=network)
    policy.require(frozenset({Quantity.VALUE}))
    noise = Key.of(key).derive("noise").numpy()
    for weight in policy.module.double().parameters():
        weight.data += torch.from_numpy(noise.normal(scale=scale, size=weight.shape))
    return policy


def _seat() -> Seat:
    return WORLD.seats[0]


def _rows(count: int = 64, seed: int = 1) -> Tensor:
    """What agents see in episodes, some neighbours in reach and some not, `[B, O]` float64."""
    course = _course(WORLD, count, seed)
    return torch.from_numpy(np.concatenate(course.seen())).double()


def _course(world: Spread, width: int, seed: int) -> Any:
    """Copies some steps after their beginning."""
    course, rng = cast(Any, world.open(width)), np.random.default_rng(seed)
    course.reset(range(width), range(width))
    for _ in range(4):
        course.step([rng.integers(0, 5, width) for _ in world.agents], np.ones(width, bool))
    return course


def _turns() -> tuple[Tensor, Tensor]:
    plane, slots = _seat().plane, _seat().slots
    assert plane is not None
    assert slots is not None
    seen, moves = turns_of(plane, slots, _seat().observations)
    return seen.double(), moves.double()


# ---------------------------------------------------------------- the world


@claim(
    "A world that is turned, and whose agents move turned, pays the same and is afterwards the turned one; what is "
    "seen of it is L_g of what is seen of the other.",
    "derived: the paper's assumption",
)
def a_world_that_is_turned_and_whose_agents_move_turned_pays_the() -> Finding:
    (seen, moves), errors = _turns(), dict.fromkeys(("pay", "sights", "places"), 0.0)
    for turn in range(1, 4):
        here, there = _course(WORLD, 32, 5), _course(WORLD, 32, 5)
        for name in ("place", "speed", "landmark"):
            setattr(there, name, _turn(getattr(here, name), turn))
        rng = np.random.default_rng(turn)
        for _ in range(8):
            for one, other in zip(here.seen(), there.seen(), strict=True):
                errors["sights"] = max(errors["sights"], float(np.abs(one @ seen[turn].numpy().T - other).max()))
            chosen = [rng.integers(0, 5, 32) for _ in WORLD.agents]
            onto = moves[turn].argmax(0).numpy()
            paid = here.step(chosen, np.ones(32, bool)).rewards
            turned_pay = there.step([onto[one] for one in chosen], np.ones(32, bool)).rewards
            errors["pay"] = max(errors["pay"], float(np.abs(paid - turned_pay).max()))
            errors["places"] = max(errors["places"], float(np.abs(_turn(here.place, turn) - there.place).max()))
    return Finding(errors["pay"] < 1e-9 and errors["places"] < 1e-9 and errors["sights"] < 1e-6, say(**errors))


# ---------------------------------------------------------------- the networks


@claim(
    "A layer's weight is mean_g K_g^-1 W L_g by hand in float64, commutes with every turn, is what it was when it is "
    "projected again, and has as many free numbers as the equations W L = K W leave.",
    "W = mean_g K_g^-1 W L_g",
)
def a_layers_weight_is_mean_g_k_g_1_w_l_g_by_hand_in_float64() -> Finding:
    errors = dict.fromkeys(("formula", "commutes", "again", "bias"), 0.0)
    counts: list[tuple[int, int]] = []
    spaces = {
        "seen": turned(7, [(1, 2), (5, 3)]),
        "hidden": in_fours(8),
        "moves": turned_moves(cast(Any, _seat().plane).moves),
        "value": unturned(1),
    }
    for into, onto in (("seen", "hidden"), ("hidden", "hidden"), ("hidden", "moves"), ("hidden", "value")):
        layer = Turning(spaces[into], spaces[onto], gain=1.0, key=Key.of(7)).double()
        rng = np.random.default_rng(3)
        for number in (layer.weight, layer.bias):
            number.data = torch.from_numpy(rng.normal(size=number.shape))
        weight, bias = (one.detach().numpy() for one in layer.even())
        raw, left, right = layer.weight.detach().numpy(), spaces[into].double().numpy(), spaces[onto].double().numpy()
        hand = sum(np.linalg.inv(right[turn]) @ raw @ left[turn] for turn in range(4)) / 4
        errors["formula"] = max(errors["formula"], float(np.abs(weight - hand).max()))
        again = sum(np.linalg.inv(right[turn]) @ weight @ left[turn] for turn in range(4)) / 4
        errors["again"] = max(errors["again"], float(np.abs(weight - again).max()))
        for turn in range(4):
            gap_there = np.abs(weight @ left[turn] - right[turn] @ weight).max()
            errors["commutes"] = max(errors["commutes"], float(gap_there))
            errors["bias"] = max(errors["bias"], float(np.abs(right[turn] @ bias - bias).max()))
        # Quarter turns are powers of one, so that what commutes with it commutes with all.
        size, other = raw.shape
        equations = np.kron(np.eye(size), left[1].T) - np.kron(right[1], np.eye(other))
        own = size * other - np.linalg.matrix_rank(equations)
        counts.append((layer.free, int(own + size - np.linalg.matrix_rank(right[1] - np.eye(size)))))
    finding = below(EXACT, all(one == two for one, two in counts), **errors)
    return Finding(finding.holds, say(**errors, free=[one for one, _ in counts]))


@claim(
    "For any weights, every turn and what is seen in episodes pi(K_g a | L_g o) = pi(a | o), and the value is the "
    "same; of a network without the symmetry neither holds.",
    "pi(K_g a | L_g s) = pi(a | s)",
)
def for_any_weights_every_turn_and_what_is_seen_in_episodes_pi_pi() -> Finding:
    (seen, moves), rows, errors = _turns(), _rows(), dict.fromkeys(("policy", "value"), 0.0)
    spread = 1.0
    for key in range(5):
        policy = _policy(key=key)
        with torch.no_grad():
            chance, value = torch.softmax(policy.module.actor(rows), -1), cast(Any, policy.module.critic)(rows)
            for turn in range(4):
                there = rows @ seen[turn].T
                other = torch.softmax(policy.module.actor(there), -1)
                errors["policy"] = max(errors["policy"], float((other - chance @ moves[turn].T).abs().max()))
                same = cast(Any, policy.module.critic)(there)
                errors["value"] = max(errors["value"], float((same - value).abs().max()))
        spread = min(spread, float(chance.std(0).max()), float(value.std()))
    plain = gap(_policy("sets"), rows)
    measured = max(gap(_policy(key=key), rows) for key in range(5))
    finding = below(EXACT, plain > 0.05, spread > 0.05, measured=measured, **errors)
    return Finding(finding.holds, say(**errors, measured=measured, of_plain_networks=plain))


@claim(
    "It is symmetric after training as well: in float32 no probability is 1e-6 off after each of 4 steps, whose metric "
    "says so, while the weights move; a plain network's gap grows.",
    "exact after training",
)
def it_is_symmetric_after_training_as_well_in_float32_no() -> Finding:
    found: dict[str, list[float]] = {}
    ours = MULTI_AGENT_MDP_HOMOMORPHIC_NETWORKS
    for name, recipe, body in (("ours", ours, "perceptron"), ("plain", IPPO, "sets")):
        parts = _parts(recipe, 0, ("network.body", body), ("curriculum.prompts", 16))
        before, found[name] = _flat(parts), []
        for step in range(1, 5):
            result = run_async(train_step(parts, step))
            assert result.batch is not None
            own = cast(ControlPolicy, parts.lead.policy)
            found[name].append(gap(own, own.observed(result.batch)))
            if name == "ours":
                found["metric"] = [*found.get("metric", []), float(result.metrics["symmetry/gap"])]
        found[f"{name} moved"] = [float((_flat(parts) - before).abs().max())]
    holds = max(*found["ours"], *found["metric"]) < 1e-6 and found["plain"][-1] > 0.01 and found["ours moved"][0] > 0.01
    # The metric is of the first decisions alone.
    holds = holds and all(metric <= whole for metric, whole in zip(found["metric"], found["ours"], strict=True))
    return Finding(holds, say(**{name.replace(" ", "_"): values for name, values in found.items()}))


@claim("The metric is the largest gap among the policies in training, each on what it saw itself.", "derived")
def the_metric_is_the_largest_gap_among_the_policies_in_training() -> Finding:
    parts = _parts(IPPO, 0, ("network.body", "sets"), ("curriculum.prompts", 16), ("cast", Separate()))
    for number, learner in enumerate(parts.learners.values()):
        with torch.no_grad():
            for weight in learner.policy.module.parameters():
                weight.mul_(1.0 + number)
    result = run_async(train_step(parts, 1))
    trained: dict[str, Any] = {name: one.policy for name, one in parts.learners.items()}
    assert result.batch is not None
    run_async(Equivariant().after(cast(Any, SimpleNamespace(trained=trained)), 1, result, {}))
    gaps = []
    for name, own in trained.items():
        code = result.batch.names["policy"].index(name)
        saw = own.observed(result.batch)[result.batch.policy[result.batch.turn] == code]
        gaps.append(gap(own, saw[:ROWS]))
    told = float(result.metrics["symmetry/gap"])
    return Finding(told == max(gaps) > min(gaps), say(gaps=gaps, metric=told))


def _parts(recipe: Recipe, seed: int, *settings: tuple[str, Any], steps: int = 30) -> RunContext:
    task = tasks.find(TASK)
    config = configure([("recipe", recipe), ("task", TASK), ("steps", steps), ("seed", seed), *settings], task)
    return build_parts(config, task)


def _flat(parts: RunContext) -> Tensor:
    return torch.cat([one.detach().flatten() for one in parts.lead.policy.module.parameters()])


@claim(
    "Agents may be exchanged: the order of neighbours changes nothing, nor do rows without anybody, and the message is "
    "the mean over neighbours of tanh(W_m [1, e, o]), by hand in float64.",
    "h_i = tanh(W_o o_i),  m_i = mean_j tanh(W_m [e_ij, o_j])",
)
def agents_may_be_exchanged_the_order_of_neighbours_changes_nothing() -> Finding:
    policy, rows, slots = _policy(), _rows(), cast(Any, _seat().slots)
    actor = cast(OverSets, policy.module.actor)
    parts = rows[:, slots.own :].reshape(len(rows), slots.count, slots.size)
    flipped = torch.cat([rows[:, : slots.own], parts.flip(1).flatten(1)], 1)
    empty = rows.clone()
    empty[:, slots.own :] = torch.cat([parts[:, :1], torch.zeros_like(parts[:, 1:])], 1).flatten(1)
    with torch.no_grad():
        exchanged = float((actor(rows) - actor(flipped)).abs().max())
        single = _with_neighbours(actor, 1)(empty[:, : slots.own + slots.size])
        vacant = float((actor(empty) - single).abs().max())
        off = max(
            float(np.abs(_by_hand(actor, row.numpy(), slots) - actor(row[None])[0].numpy()).max()) for row in rows[:40]
        )
    met = {int(count) for count in parts[..., 0].sum(1)}
    return below(EXACT, met == {0, 1, 2}, exchanged=exchanged, vacant=vacant, by_hand=off)


def _with_neighbours(actor: OverSets, count: int) -> OverSets:
    """The same network for another number of neighbours."""
    other = copy.deepcopy(actor)
    other.slots = replace(actor.slots, count=count)
    return other


def _by_hand(actor: OverSets, row: NDArray[np.float64], slots: Any) -> NDArray[np.float64]:
    """Row by row, with loops."""
    read = [[one.detach().numpy() for one in layer.even()] for layer in (actor.own, actor.others, *_after(actor))]
    own = np.tanh(read[0][0] @ row[: slots.own] + read[0][1])
    heard = []
    for place in range(slots.count):
        start = slots.own + place * slots.size
        if row[start] == 1.0:
            heard.append(np.tanh(read[1][0] @ row[start : start + slots.size] + read[1][1]))
    x = np.concatenate([own, np.mean(heard, 0) if heard else np.zeros_like(own)])
    for place, (weight, bias) in enumerate(read[2:]):
        x = weight @ x + bias
        x = np.tanh(x) if place < len(read) - 3 else x
    return np.asarray(x)


def _after(actor: OverSets) -> Iterator[Turning]:
    yield from cast(Any, actor.after)


# ---------------------------------------------------------------- learning


ENOUGH, MOST = -12.5, 60


@functools.cache
def _needed(body: Body, hidden: tuple[int, ...], seed: int) -> int:
    """Steps until the mean return of an agent, over 3 steps, is enough; one more than there are when it never is."""
    parts = _parts(IPPO, seed, ("network.body", body), ("network.hidden", hidden), steps=MOST)
    path: list[float] = []
    for step in range(1, MOST + 1):
        path.append(run_async(train_step(parts, step)).metrics["reward/mean"] / 2)
        if fmean(path[-3:]) > ENOUGH and len(path) >= 3:
            return step
    return MOST + 1


@claim(
    "It needs fewer steps to a return of -12.5 than a plain network with messages, in each of 5 seeds: than one with "
    "as many units, and than one with as many free numbers (predicted).",
    "equivariant networks need fewer steps",
    slow=True,
)
def it_needs_fewer_steps_to_a_return_of_12_5_than_a_plain_network() -> Finding:
    found = {
        "equivariant": [_needed("equivariant", (64, 64), seed) for seed in SEEDS],
        "as wide": [_needed("sets", (64, 64), seed) for seed in SEEDS],
        "as many free numbers": [_needed("sets", (29, 29), seed) for seed in SEEDS],
    }
    fewer = all(
        ours < min(wide, narrow)
        for ours, wide, narrow in zip(
            found["equivariant"], found["as wide"], found["as many free numbers"], strict=True
        )
    )
    free = {}
    for name, body, units in (("equivariant", "equivariant", 64), ("as many free numbers", "sets", 29)):
        parts = _parts(IPPO, 0, ("network.body", body), ("network.hidden", (units, units)))
        free[name] = cast(OverSets, cast(ControlPolicy, parts.lead.policy).module.actor).free
    close = 0.95 < free["as many free numbers"] / free["equivariant"] < 1.1
    return Finding(fewer and close, say(steps=found, free=free))


def _seen(shipped: ShippedRun) -> dict[str, float]:
    """Whether the policy turns with its world, to single precision."""
    return {"turns with its world": float(all(one.metrics["symmetry/gap"] < 1e-6 for one in shipped.results))}


claim.spares("-1 -> 1", "the last axis of a table is its second")
claim.shipped(MULTI_AGENT_MDP_HOMOMORPHIC_NETWORKS, "hooks", steps=2, sees=_seen)
