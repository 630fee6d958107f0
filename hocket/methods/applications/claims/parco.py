"""Claims about vehicles that choose at once."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.route_players import Chooser, costs, nearest, routes_of
from hocket.methods.applications.parco import PARCO
from hocket.policies.control import ControlPolicy
from hocket.policies.control_pointer import Communication, Pointers
from hocket.policies.settings import NetworkSettings
from hocket.tasks.joint import JointTask
from hocket.zoo.joint.routes import Routes, VehicleRoutes

claim = Claims("parco", "arXiv:2409.03811; the formula is recalled")

TASK = "routes:minmax?places=10"


def by_policy(policy: ControlPolicy, key: Key | None = None) -> Chooser:
    """Greedy choices where there is no key, sampled ones else. It plays one batch of episodes from their beginning."""
    held: list[NDArray[np.float32]] = []
    draw = (key or Key.of(0)).numpy()

    def choose(fleet: VehicleRoutes, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        count = len(allowed)
        if not held:
            held.append(np.zeros((count, policy.carries), np.float32))
        uniforms = np.clip(draw.random((count, policy.draws)), 1e-12, 1 - 1e-12)
        warm = np.full(count, float(key is not None), np.float32)
        return policy.sample(fleet.seen()[0], uniforms, warm, allowed, held[0])[0]

    return choose


def _policy(name: str, *parts: Communication) -> ControlPolicy:
    task = cast(JointTask, tasks.find(name))
    network = NetworkSettings(body="pointer", hidden=(32, 32))
    policy = ControlPolicy(task.spaces(task.world.agents), key=Key.of(5), network=network)
    for part in parts:
        policy.attach(part)
    return policy


@claim(
    "The log-prob of a decision is the sum over vehicles of their log softmax, counted by hand in float64.", "derived"
)
def the_log_prob_is_the_sum_over_vehicles() -> Finding:
    logits = Key.of(1).derive("logits").numpy().normal(0, 2, (50, 3, 7))
    head = Pointers((7, 7, 7)).head(torch.from_numpy(logits.reshape(50, -1)), torch.nn.Identity(), None, None)
    action = head.draw(torch.from_numpy(Key.of(2).numpy().random((50, 3))))
    rows, ranks = action[:, :3].numpy(), action[:, 3:].numpy()
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    chosen = np.take_along_axis(shares, rows[..., None], 2)[..., 0]
    off = float(np.abs(head.logp(action).numpy() - np.log(chosen).sum(1)).max())
    ordered = all(chosen[row, ranks[row].argsort()].tolist() == sorted(chosen[row], reverse=True) for row in range(50))
    return Finding(off < 1e-12 and ordered, say(off=off, ranks_follow_probabilities=float(ordered)))


@claim("Whatever is chosen, every customer is served once, and three vehicles take about a third of one's decisions.")
def every_customer_is_served_once_in_fewer_decisions() -> Finding:
    decisions = {}
    for vehicles in (1, 3):
        name = f"routes:minmax?places=30&vehicles={vehicles}"
        _, decisions[vehicles] = costs(routes_of(name), by_policy(_policy(name), Key.of(3)), range(20))
        _, fewer = costs(routes_of(name), nearest, range(20))
        decisions[vehicles] = min(decisions[vehicles], fewer)
    ratio = decisions[3] / decisions[1]
    return Finding(1 / 3 <= ratio < 0.6, say(one=decisions[1], three=decisions[3]))


@claim("A vehicle's choice depends on where the others are if they communicate, and else on its own state alone.")
def a_choice_depends_on_the_others_if_they_communicate() -> Finding:
    moved = {}
    for name, parts in (("silent", ()), ("communicating", (Communication(),))):
        policy, world = _policy(TASK, *parts), routes_of(TASK)
        fleet = world.open(8)
        fleet.reset(range(8), range(8))
        rows = torch.from_numpy(fleet.seen()[0])
        other = rows.clone()
        other[:, 1 + 5 + 2] += 1.0  # How far the second vehicle has gone.
        with torch.no_grad():
            first, then = (policy.module.actor(inputs[:, None])[..., : world.rows] for inputs in (rows, other))
        moved[name] = float((first - then).abs().max())
    return Finding(moved["silent"] == 0 and moved["communicating"] > 1e-6, say(**moved))


@claim("Of those that choose one customer the vehicle with the highest probability goes; the others stay for the step.")
def the_surest_goes() -> Finding:
    world, draw, wrong, conflicts = Routes("minmax", 4, 3), Key.of(7).numpy(), 0, 0
    fleet = world.open(200)
    fleet.reset(range(200), range(200))
    rows = draw.integers(1, 5, (200, 3))
    ranks = draw.permuted(np.tile(np.arange(3), (200, 1)), axis=1)
    fleet.step([np.concatenate([rows, ranks], 1)], np.ones(200, bool))
    for copy in range(200):
        for vehicle in range(3):
            rivals = [other for other in range(3) if rows[copy, other] == rows[copy, vehicle]]
            goes = min(rivals, key=lambda other: ranks[copy, other]) == vehicle
            conflicts += len(rivals) > 1
            wrong += fleet.at[copy, vehicle] != (rows[copy, vehicle] if goes else 0)
    return Finding(wrong == 0 and conflicts > 100, say(wrong=wrong, in_conflict=conflicts))


def _figures(run: ShippedRun) -> dict[str, float]:
    policy = run.parts.lead.policy
    assert isinstance(policy, ControlPolicy)
    return {"blocks of communication": float(policy.module.actor.talk is not None)}


claim.shipped(PARCO, "hooks", sees=_figures)
