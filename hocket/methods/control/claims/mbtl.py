"""MBTL's claims."""

from __future__ import annotations

import itertools
import json
import math
from functools import cache
from typing import Literal

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.worlds import shop
from hocket.methods.control.mbtl.bench import balanced, balancer
from hocket.methods.control.mbtl.method import (
    MBTL,
    POLE_RETURNS,
    Contexts,
    TaskChoice,
    acquisition,
    poles,
    posterior,
    shops,
    steepness,
)

claim = Claims("mbtl", "the paper, as the catalogue recalls it")
ROOT = Key.of(0).derive("mbtl")


def linear(seed: int, count: int = 12, theta: float = 1.0) -> Contexts:
    """A family drawn from the model: J from the process with the kernel's length, losses in proportion to distance."""
    at = np.linspace(0, 1, count)
    kernel = np.exp(-0.5 * ((at[:, None] - at) / 0.3) ** 2) + 1e-9 * np.eye(count)
    level = 2 + 0.3 * np.linalg.cholesky(kernel) @ ROOT.derive("process", seed).numpy().normal(size=count)
    return Contexts("linear", level[:, None] - theta * np.abs(at[:, None] - at), at)


def chosen(world: Contexts, trainings: int, solver: TaskChoice, seed: int = 0) -> list[float]:
    """The value after each training."""
    state, values = solver.init(world, Key.of(seed)), []
    for step in range(trainings):
        state, _ = solver.step(world, state, Key.of(seed).derive(step))
        values.append(world.value(solver.answer(world, state)))
    return values


@claim("With J and theta known its choice is the greedy one, which comes to 1 - 1/e of the best set at least.")
def with_j_and_theta_known_its_choice_is_the_greedy_one_which_comes() -> Finding:
    same, shares = [], []
    for seed in range(10):
        for world in (linear(seed), shops(12, seed=seed)):
            gains = np.maximum(world.table - world.table.min(), 0)  # From 0 up, as the bound takes it.
            covered: Array = np.zeros(12)
            for _ in range(4):
                covered = np.maximum(covered, gains[int(np.maximum(gains - covered, 0).mean(1).argmax())])
            best = max(gains[list(some)].max(0).mean() for some in itertools.combinations(range(12), 4))
            shares.append(float(covered.mean() / best))
        world = linear(seed)
        reached: Array = np.zeros(12)
        for _ in range(4):
            scores = acquisition(world.table.diagonal(), 1.0, world.apart, reached)
            means = [float(np.maximum(reached, row).mean() - reached.mean()) for row in world.table]
            same.append(float(np.abs(scores - means).max()))
            reached = np.maximum(reached, world.table[int(scores.argmax())])
    return Finding(max(same) < 1e-12 and min(shares) > 1 - 1 / math.e, say(difference=same, share_of_the_best=shares))


@claim("Its process is the Gaussian one: conditioning on one training after the other comes to the same.")
def its_process_is_the_gaussian_one_conditioning_on_one_training() -> Finding:
    gaps = []
    for seed in range(5):
        noise = ROOT.derive("posterior", seed).numpy()
        at, trained, seen = np.linspace(0, 1, 9), np.zeros(9, bool), noise.normal(size=3)
        places = np.sort(noise.choice(9, 3, replace=False))
        trained[places] = True
        mean = np.full(9, seen.max())
        kernel = np.exp(-0.5 * ((at[:, None] - at) / 0.3) ** 2)
        for place, value in zip(places, seen, strict=True):
            weight = kernel[:, place] / (kernel[place, place] + 0.1**2)
            mean = mean + weight * (value - mean[place])
            kernel = kernel - np.outer(weight, kernel[place])
        found, deviation = posterior(at, trained, seen, 0.3, 0.1)
        gaps += [np.abs(found - mean).max(), np.abs(deviation - np.sqrt(kernel.diagonal())).max()]
    return below(1e-9, largest_difference=float(max(gaps)))


@claim("Each choice is the rule's, entry by entry; evenly spaced ones are the middles of equal parts of the range.")
def each_choice_is_the_rules_entry_by_entry_evenly_spaced_ones_are() -> Finding:
    same, moved = [], []
    for seed in range(6):
        world, solver = shops(9, seed=seed), TaskChoice(beta=0.25)
        state, trained = solver.init(world, Key.of(0)), np.zeros(9, bool)
        for _ in range(5):
            theta = steepness(world, trained, solver.slope)
            mean, deviation = posterior(world.at, trained, world.table.diagonal()[trained], 0.3, 0.02)
            scores = []
            for place, other in itertools.product(range(9), repeat=2):
                covered = max((world.table[one, other] for one in np.flatnonzero(trained)), default=0.0)
                hoped = mean[place] + 0.5 * deviation[place] - theta * abs(world.at[place] - world.at[other])
                scores.append(max(0.0, hoped - covered))
            wanted = np.where(trained, -1, np.reshape(scores, (9, 9)).mean(1)).argmax()
            state, _ = solver.step(world, state, Key.of(0))
            new = np.flatnonzero((state["trained"] > 0) & ~trained)
            same.append(new.tolist() == [int(wanted)])
            trained = state["trained"] > 0
        moved.append(chosen(world, 5, TaskChoice(beta=4.0)) != chosen(world, 5, TaskChoice(beta=0.0)))
    even = TaskChoice(choose="even", trainings=2)
    state = even.init(world, Key.of(0))
    for _ in range(2):
        state, _ = even.step(world, state, Key.of(0))
    places = np.flatnonzero(state["trained"]).tolist()
    return Finding(all(same) and any(moved) and places == [2, 6], say(same=same, beta_matters=moved, even=str(places)))


@claim("The slope is the true one where losses are in proportion to distance.")
def the_slope_is_the_true_one_where_losses_are_in_proportion_to() -> Finding:
    gaps = []
    for theta in (0.0, 0.5, 2.0):
        world, trained = linear(1, theta=theta), np.zeros(12, bool)
        gaps.append(abs(steepness(world, trained, 0.7) - 0.7))
        trained[[2, 9]] = True
        gaps.append(abs(steepness(world, trained, 0.7) - theta))
    return below(1e-12, largest_difference=max(gaps))


@claim("With J drawn from the process its regret grows ever slower, and is below that of a random choice.")
def with_j_drawn_from_the_process_its_regret_grows_ever_slower_and() -> Finding:
    rows = {}
    for name in ("model", "random"):
        solver = TaskChoice(choose=name)
        lost = [linear(seed).optimum - np.array(chosen(linear(seed), 12, solver, seed)) for seed in range(20)]
        rows[name] = np.mean(lost, 0)
    thirds = [float(one.sum()) for one in np.split(rows["model"], 3)]
    holds = thirds[1] < 0.3 * thirds[0] and thirds[2] < thirds[1] and rows["model"].sum() < 0.8 * rows["random"].sum()
    return Finding(bool(holds), say(regret_of_each_third=thirds, random=float(rows["random"].sum())))


@claim("Shops have demands from 0.3 to 0.9, and are worth, relative to the best, what each one's policy earns there.")
def shops_have_demands_from_0_3_to_0_9_and_are_worth_relative_to() -> Finding:
    world, off = shops(4, samples=10**7), 0.0
    made = [shop(6, demand, 0.3, 0.1, "shop") for demand in (0.3, 0.5, 0.7, 0.9)]
    for row, known in enumerate(made):
        for column, task in enumerate(made):
            due = task.value(known.best.policy) / task.optimum
            off = max(off, abs(float(world.table[row, column]) - due))
    nothing = np.zeros(4, bool)
    mean, deviation = posterior(world.at, nothing, world.table.diagonal()[nothing], 0.3, 0.02)
    plain = float(max(np.abs(mean - 1).max(), np.abs(deviation - 1).max()))
    state, told = TaskChoice().init(world, Key.of(0)), list[float]()
    for _ in range(2):
        before = state["trained"] > 0
        state, figures = TaskChoice().step(world, state, Key.of(0))
        told.append(figures["theta"] - steepness(world, before, 1.0))
    return below(1e-6, worth=off, before_any=plain, theta=max(map(abs, told)))


@cache
def losses(kind: str, choose: Literal["model", "random", "even"]) -> list[float]:
    """How far from the optimum after 2, 3, 4 and 6 trainings: means over 24 families of shops, or some of poles."""
    found = []
    for count in (2, 3, 4, 6):
        solver = TaskChoice(choose=choose, trainings=count)
        if kind == "shops":
            pairs = [(shops(21, seed=seed), seed) for seed in range(200, 224)]
        else:  # Each drawn several times, that the mean of what is drawn is known well.
            pairs = [(poles(family), seed) for family in HELD for seed in range(24 if choose == "random" else 1)]
        found.append(float(np.mean([world.optimum - chosen(world, count, solver, seed)[-1] for world, seed in pairs])))
    return found


HELD = (6, 7, 8, 9)
"""Families of poles trained after `beta` was chosen, on the others and on shops."""


@claim("On shops it loses at most two thirds of what a random choice does, at equal numbers of trainings.", slow=True)
def on_shops_it_loses_at_most_two_thirds_of_what_a_random_choice() -> Finding:
    rows = zip(losses("shops", "model"), losses("shops", "random"), strict=True)
    return Finding(all(one < 2 / 3 * other for one, other in rows), _listed("shops", "model", "random"))


@claim("Even spacing that knows the number of trainings is better there with two, and hardly with more.", slow=True)
def even_spacing_that_knows_the_number_of_trainings_is_better_there() -> Finding:
    gains = [one - other for one, other in zip(losses("shops", "model"), losses("shops", "even"), strict=True)]
    return Finding(gains[0] > 0 and max(gains[1:]) < 0.01, _listed("shops", "model", "even"))


def _listed(kind: str, *names: Literal["model", "random", "even"]) -> str:
    told = (f"{name} loses {', '.join(f'{one:.4f}' for one in losses(kind, name))}" for name in names)
    return "; ".join(told) + " after 2, 3, 4, 6 trainings"


# ---------------------------------------------------------------- poles


@claim(
    "What is kept of poles is what PPO comes to: networks trained anew, one each of two families, are worth the same.",
    slow=True,
)
def what_is_kept_of_poles_is_what_ppo_comes_to_networks_trained() -> Finding:
    kept, off = json.loads(POLE_RETURNS.read_text(encoding="utf-8")), []
    for family, place in ((1, 4), (6, 9)):
        network = balancer(kept["lengths"][place], family - 1)
        found = balanced(network, kept["lengths"])
        off.append(float(np.abs(found - kept["returns"][family - 1][place]).max()))
    return Finding(max(off) < 0.02, say(largest_difference=off))


@claim(
    "On poles that beta was not chosen on it loses less than a random choice at equal trainings (predicted).",
    slow=True,
)
def on_poles_that_beta_was_not_chosen_on_it_loses_less_than_a() -> Finding:
    rows = zip(losses("poles", "model"), losses("poles", "random"), strict=True)
    return Finding(all(one < other for one, other in rows), _listed("poles", "model", "random"))


@claim(
    "Even spacing that knows the number of trainings loses more there with two, and in sum over 2, 3, 4 and 6 "
    "(both predicted), but less with three and more.",
    slow=True,
)
def even_spacing_that_knows_the_number_of_trainings_loses_more() -> Finding:
    gains = [one - other for one, other in zip(losses("poles", "model"), losses("poles", "even"), strict=True)]
    return Finding(gains[0] < 0 and sum(gains) < 0 and min(gains[1:]) > 0, _listed("poles", "model", "even"))


claim.solved(MBTL, {"choose": "random"}, better={"regret": -1})
