"""Claims about a fleet that is its own baseline."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import ShippedRun, configured
from hocket.lab.toys.teams import by_chance, trained
from hocket.methods.applications.ospo import OSPO, Fleet, Trips
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.types import Assignment

claim = Claims("ospo", "arXiv:2507.15351; the formula is recalled")


def _played(count: int = 6) -> Batch:
    """Episodes of the recipe as shipped, before any step."""
    task = tasks.find("fleet")
    parts = build_parts(configured(OSPO, "fleet", task, {}), task)
    assignments = [Assignment(task.scenario("train", number)) for number in range(count)]
    return pack(run_async(parts.player.play(assignments, key=Key.of(2))))


@claim("Advantages are what a vehicle earned in a moment, standardised by the fleet, counted by hand; also discounted.")
def advantages_are_standardised_by_the_fleet() -> Finding:
    batch, off, varied = _played(), [], 0
    occurrences, rewards = batch.occurrences, batch.scores["reward"].values.double().numpy()
    agent = batch.agent[batch.turn[occurrences.decision]].numpy()
    episode = occurrences.trajectory.numpy()
    paid: dict[int, NDArray[np.float64]] = {
        number: np.stack([rewards[(episode == number) & (agent == vehicle)] for vehicle in np.unique(agent)])
        for number in np.unique(episode)
    }
    for discount in (0.0, 0.9):
        recipe = OSPO.but(**{"credit.discount": discount})
        advantages = recipe.compute_credit(batch, recipe.init(), {})[0].occurrences.advantage.numpy()
        for number, table in paid.items():
            worth = table.copy()
            for moment in reversed(range(table.shape[1] - 1)):
                worth[:, moment] += discount * worth[:, moment + 1]
            middle = worth - worth.mean(0)
            wanted = middle / (np.sqrt((middle**2).mean(0)) + 1e-6)
            for place, vehicle in enumerate(np.unique(agent)):
                off.append(float(np.abs(advantages[(episode == number) & (agent == vehicle)] - wanted[place]).max()))
            varied += int((worth.std(0) > 0).sum())
    return Finding(max(off) < 1e-9 and varied > 50, say(off=max(off), moments_that_vary=varied))


@claim("Of those that choose an order the nearest serves it; what it earns and where it stands are counted by hand.")
def the_nearest_serves_an_order() -> Finding:
    world, draw, wrong, conflicts = Fleet(count=4, orders=2, side=4, length=5), Key.of(3).numpy(), 0, 0
    book, live = Trips(world, 60), np.ones(60, bool)
    book.reset(range(60), range(60))
    for moment in range(5):
        before, chosen = book.places.copy(), draw.integers(0, 3, (60, 4))
        moved = book.step(list(chosen.T), live)
        for copy in range(60):
            for vehicle in range(4):
                order, paid, stands = int(chosen[copy, vehicle]), 0.0, before[copy, vehicle]
                if order < 2:
                    rider = book.riders[copy, moment, order]
                    ways = [int(abs(before[copy, other] - rider).sum()) for other in range(4)]
                    rivals = [other for other in range(4) if chosen[copy, other] == order]
                    conflicts += len(rivals) > 1
                    if min(rivals, key=ways.__getitem__) == vehicle:
                        paid, stands = 1 - ways[vehicle] / 6, book.goals[copy, moment, order]
                wrong += abs(float(moved.rewards[copy, vehicle]) - paid) > 1e-12
                wrong += bool((book.places[copy, vehicle] != stands).any())
    return Finding(wrong == 0 and conflicts > 100, say(wrong=wrong, in_conflict=conflicts))


def _gap(world: Fleet, seed: int) -> float:
    """How much less than the best plan of all the best matching of each moment earns, by enumeration of all plans."""
    joint = np.array(list(itertools.product(range(world.orders + 1), repeat=world.count)))
    plans = np.array(list(itertools.product(range(len(joint)), repeat=world.length)))
    book, live, earned = Trips(world, len(plans)), np.ones(len(plans), bool), np.zeros(len(plans))
    book.reset(range(len(plans)), [seed] * len(plans))
    for moment in range(world.length):
        earned += book.step(list(joint[plans[:, moment]].T), live).rewards.sum(1)
    greedy, total = Trips(world, 1), 0.0
    greedy.reset([0], [seed])
    for _ in range(world.length):
        pay = 1 - greedy.distances()[0] / (2 * (world.side - 1))
        rows, columns = linear_sum_assignment(pay, maximize=True)
        action = np.full(world.count, world.orders)
        action[rows] = columns
        total += float(greedy.step([np.array([part]) for part in action], np.ones(1, bool)).rewards.sum())
    return float(earned.max()) - total


@claim(
    "Where all vehicles are put anywhere after each moment the best matching of each is the best plan, and also where "
    "there are as many orders as vehicles, for it is all one who stands where; with a vehicle more it is not. By "
    "enumeration of all plans."
)
def one_step_is_enough_where_what_follows_is_given() -> Finding:
    worlds = {"scattered": Fleet(3, 2, 4, 2, scattered=True), "matched": Fleet(2, 2, 4, 3), "spare": Fleet(3, 2, 6, 2)}
    gaps = {
        name: np.array([_gap(world, seed) for seed in range(20 if name == "spare" else 8)])
        for name, world in worlds.items()
    }
    exact = max(float(np.abs(gaps[name]).max()) for name in ("scattered", "matched"))
    holds = exact < 1e-12 and float(gaps["spare"].min()) > -1e-12 and float(gaps["spare"].max()) > 0.1
    return Finding(
        holds,
        say(where_it_is_enough=exact, most_lost=float(gaps["spare"].max()), lost=int((gaps["spare"] > 1e-9).sum())),
    )


@claim(
    "`hocket train --task fleet --recipe ospo --steps 25` earns a third more than chance, and at most 5 % less than "
    "PPO with a critic at equal samples; in each of 2 seeds.",
    slow=True,
    learns=True,
)
def it_earns_no_less_than_ppo_with_a_critic() -> Finding:
    chance = by_chance("fleet")
    ours = [trained("ospo", "fleet", seed, 25).score for seed in range(2)]
    theirs = [trained("ippo", "fleet", seed, 25).score for seed in range(2)]
    holds = min(ours) > 4 / 3 * chance and all(mine > 0.95 * other for mine, other in zip(ours, theirs, strict=True))
    return Finding(holds, say(ospo=ours, ippo=theirs, chance=chance))


def _figures(run: ShippedRun) -> dict[str, float]:
    batch = run.results[0].batch
    assert batch is not None
    return {"decisions with credit": float((batch.occurrences.advantage != 0).double().mean())}


claim.shipped(OSPO, "credit", "correction", "regularisers", sees=_figures)
