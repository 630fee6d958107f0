"""Claims about vehicles with profiles."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.route_players import costs, nearest, routes_of
from hocket.methods.applications.camp_pvrp import CAMP_PVRP
from hocket.policies.control import ControlPolicy
from hocket.policies.control_parts import ControlPart
from hocket.policies.control_pointer import Communication, Pointer, Profiles
from hocket.policies.settings import NetworkSettings
from hocket.tasks.joint import JointTask

claim = Claims("camp-pvrp", "arXiv:2501.02977; the formula is recalled")

TASK = "routes:profiles?places=8&vehicles=2&bonus=1.0"


def _actor(*parts: ControlPart) -> tuple[Pointer, torch.Tensor]:
    """The actor of a policy with these parts, and rows `[8, count, size]` that it reads first."""
    task = cast(JointTask, tasks.find(TASK))
    network = NetworkSettings(body="pointer", hidden=(32, 32))
    policy = ControlPolicy(task.spaces(task.world.agents), key=Key.of(5), network=network)
    for part in parts:
        policy.attach(part)
    fleet, slots = task.world.open(8), task.world.seats[0].slots
    fleet.reset(range(8), range(8))
    assert slots is not None
    slot_rows = torch.from_numpy(fleet.seen()[0])[:, slots.own :].reshape(8, slots.count, slots.size)
    return cast(Pointer, policy.module.actor), slot_rows


@claim("A customer has an embedding for each vehicle, which the other's profile does not change.", "derived")
def a_customer_has_an_embedding_for_each_vehicle() -> Finding:
    actor, rows = _actor(Profiles(), Communication())
    other = rows.clone()
    other[:, 1:, 1 + 3 + 1] += 0.5  # What the second vehicle earns at customers.
    with torch.no_grad():
        apart = (actor.encoded(other) - actor.encoded(rows)).abs().amax((0, 2, 3))
    shared, rows = _actor()
    with torch.no_grad():
        width = shared.encoded(rows).shape[1]
    return Finding(
        float(apart[0]) == 0 and float(apart[1]) > 1e-3 and width == 1,
        say(first=float(apart[0]), second=float(apart[1]), embeddings_without=width),
    )


@claim("Vehicles with equal profiles have equal embeddings: one encoder serves them all.", "derived")
def vehicles_with_equal_profiles_have_equal_embeddings() -> Finding:
    actor, rows = _actor(Profiles())
    alike = rows.clone()
    alike[..., 1 + 3 + 1] = alike[..., 1 + 3]
    with torch.no_grad():
        encoding, unlike = actor.encoded(alike), actor.encoded(rows)
    off, apart = ((pair[:, 0] - pair[:, 1]).abs().max() for pair in (encoding, unlike))
    return Finding(float(off) < 1e-6 and float(apart) > 1e-3, say(equal=float(off), unequal=float(apart)))


@claim("No vehicle ever serves a customer that is closed to it, and on 6 customers none beats the count of all routes.")
def no_vehicle_serves_a_closed_customer() -> Finding:
    name = "routes:profiles?places=6&vehicles=2"
    world, draw, least = routes_of(name), Key.of(3).numpy(), np.inf

    def by_chance(fleet: object, allowed: np.ndarray) -> np.ndarray:
        mask = allowed.reshape(len(allowed), 2, -1)
        rows = (draw.random(mask.shape) * mask).argmax(-1)
        return np.concatenate([rows, draw.permuted(np.tile([0, 1], (len(rows), 1)), axis=1)], 1)

    best = np.array([-oracle.value for seed in range(30) if (oracle := world.oracle(seed)) is not None])
    for choose in (by_chance, nearest):
        least = min(least, float((costs(world, choose, range(30))[0] - best).min()))  # Each is checked.
    return Finding(least > -1e-9, say(least_above_the_best=least))


def _figures(run: ShippedRun) -> dict[str, float]:
    policy = run.parts.lead.policy
    assert isinstance(policy, ControlPolicy)
    return {"embeddings of a customer": float(cast(Pointer, policy.module.actor).profiles)}


claim.shipped(CAMP_PVRP, "hooks", sees=_figures)
