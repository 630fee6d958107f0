"""Claims about a latent space of policies."""

from __future__ import annotations

from typing import cast

import numpy as np

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, inspect_rows, say
from hocket.methods.applications.compass_latent_search import (
    COMPASS_LATENT_SEARCH,
    Evolution,
    LatentWorld,
)
from hocket.tasks.joint import JointTask

claim = Claims("compass-latent-search", "arXiv:2311.13569; the formula is recalled")

TASK = "routes:tsp?places=12&latent=8"


def _advantages(rewards: list[float]) -> list[float]:
    """Of a group of single decisions with these rewards."""
    rows = [{"group": "tour", "scores": {"reward": reward}, "logp": [-1.0]} for reward in rewards]
    return [row[0] for row in inspect_rows(COMPASS_LATENT_SEARCH, rows)["advantages"]]


@claim("Only the best latent of an instance has credit: its return less the mean of the others'.", "derived")
def only_the_best_latent_has_credit() -> Finding:
    draw, off, others = Key.of(1).numpy(), 0.0, 0.0
    for count in (2, 5, 8):
        rewards = draw.normal(-4, 1, count)
        credit, best = np.array(_advantages(rewards.tolist())), int(rewards.argmax())
        off = max(off, abs(credit[best] - (rewards[best] - np.delete(rewards, best).mean())))
        others = max(others, float(np.abs(np.delete(credit, best)).max()))
    tie = _advantages([1.0, 3.0, 3.0])
    return Finding(off < 1e-9 and others == 0 and tie == [0.0, 1.0, 0.0], say(off=off, others=others, tie=tie[1]))


@claim("With one latent it is REINFORCE: the credit is the return.", "derived")
def with_one_latent_it_is_reinforce() -> Finding:
    alone = [_advantages([reward])[0] for reward in (-3.5, 0.25, 2.0)]
    return Finding(alone == [-3.5, 0.25, 2.0], say(credit=alone))


@claim("The latent of the first decision is seen in all later ones, whatever their actions say.")
def the_latent_stays_through_an_episode() -> Finding:
    world = cast(LatentWorld, cast(JointTask, tasks.find(TASK)).world)
    course, draw, live = world.open(16), Key.of(4).numpy(), np.ones(16, bool)
    course.reset(range(16), range(16))
    z, same, decisions = draw.uniform(-1, 1, (16, 8)), True, 0
    action = np.concatenate([np.zeros((16, 1)), z], 1)
    while live.any():
        moved = course.step([action], live)
        same &= bool(np.allclose(course.seen()[0][:, :8], z))
        live = live & ~moved.terminated[:, 0]
        row = (draw.random((16, 12)) * course.allowed()[0]).argmax(1)
        action, decisions = np.concatenate([row[:, None], draw.uniform(-1, 1, (16, 8))], 1), decisions + 1
    return Finding(same and decisions == 12, say(kept=float(same), decisions=decisions))


@claim("CMA-ES finds the least of a stretched bowl in the box, a thousand times nearer than as many even draws.")
def cma_es_finds_the_least_of_a_bowl() -> Finding:
    scales, goal = 10.0 ** np.linspace(0, 2, 6), np.linspace(-0.5, 0.6, 6)
    search, draw = Evolution(6, 20), Key.of(2).numpy()
    best = -np.inf
    for _ in range(60):
        points = search.ask(draw)
        worth = -(scales * (points - goal) ** 2).sum(1)
        search.tell(points, worth)
        best = max(best, float(worth.max()))
    even = float((-(scales * (draw.uniform(-1, 1, (1200, 6)) - goal) ** 2).sum(1)).max())
    return Finding(best > 1e-3 * even, say(evolution=best, even=even))


claim.shipped(COMPASS_LATENT_SEARCH, "credit")
