"""ZO-RankSGD's claims."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from hocket import tasks
from hocket.core.batch import Batch, Occurrences
from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.credit.group import GroupRelative
from hocket.credit.units import trajectory_units
from hocket.curriculum.random_order import Shuffled
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import below, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.microscope import RecordedBatch
from hocket.methods.preference.zo_ranksgd import (
    DIRECTION,
    ZO_RANKSGD,
    ZO_RANKSGD_WORDS,
    DirectionStep,
    PerturbedPlay,
    PerturbedPlayer,
    credited,
    direction,
    ranked,
    weights_of,
)
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent
from hocket.stages import Credit, Metrics, Player, Policy, State
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step
from hocket.types import Assignment, Scenario, Trajectory, Turn
from hocket.update.problem import Problem
from hocket.update.weights import moved_to

claim = Claims("zo-ranksgd", "arXiv:2303.03751")
SIZE = 50
"""Dimensions of the quadratics."""


def estimate(values: Tensor, z: Tensor, best: int | None) -> Tensor:
    """g written as in the paper, an edge at a time; `values` are minimised. An independent computation."""
    order = values.argsort().tolist()
    first = order if best is None else order[:best]
    edges = [(i, j) for place, i in enumerate(first) for j in order[place + 1 :] if values[i] < values[j]]
    return torch.stack([z[j] - z[i] for i, j in edges]).mean(0)


def slope(values: Tensor, z: Tensor, best: int | None) -> Tensor:
    """The library's g for values to be minimised."""
    return -(ranked(-values, best)[:, None] * z).sum(0)


@claim("What it steps along is 1/|E| sum (z_j - z_i) over the edges, k(k-1)/2 + k(m-k) of them, whatever k is.")
def what_it_steps_along_is_1_e_sum_over_the_edges_k_2_k_of_them() -> Finding:
    generator, gaps, counts = Key.of(0).derive("edges").torch(), [], []
    for m in (2, 3, 7, 16):
        for best in (None, *range(1, m + 1)):
            z = torch.randn(m, 5, generator=generator, dtype=torch.float64)
            values = torch.randn(m, generator=generator, dtype=torch.float64)
            gaps.append(float((slope(values, z, best) - estimate(values, z, best)).abs().max()))
            k = m if best is None else best
            # The best of all has beaten m - 1: its coefficient tells the number of edges.
            counts.append(abs((m - 1) / float(ranked(-values, best).max()) - (k * (k - 1) / 2 + k * (m - k))))
    return below(1e-12, off=max(gaps), edges_off=max(counts) / 1e3)


RISING = (lambda r: 3 * r - 7, lambda r: math.exp(r), lambda r: r**3, lambda r: math.atan(r))


@claim("The credit of every direction is unchanged by any strictly increasing transform of returns; ES's is not.")
def the_credit_of_every_direction_is_unchanged_by_any_strictly() -> Finding:
    rng, ranks, values = Key.of(0).derive("returns").numpy(), list[float](), list[float]()
    for _ in range(10):
        returns = rng.normal(size=8)
        for rise in RISING:
            risen = [rise(float(one)) for one in returns]
            for recipe, gaps in ((ZO_RANKSGD, ranks), (ZO_RANKSGD.but({"credit": GroupRelative()}), values)):
                if recipe is ZO_RANKSGD or rise is not RISING[0]:
                    gaps.append(gap(credits_of(recipe, returns), credits_of(recipe, risen)))
    return Finding(max(ranks) == 0 and min(values) > 1e-3, say(ranks=max(ranks), values=min(values)))


def credits_of(recipe: Recipe, *returns: Any) -> list[float]:
    """Of directions with these returns in each of some scenarios."""
    rows = [
        {"group": f"g{number}", "scores": {"reward": float(one)}, "logp": [-1.0]}
        for number, group in enumerate(returns)
        for one in group
    ]
    return [row[0] for row in inspect_rows(recipe, rows)["advantages"]]


@claim("Ranked is the mean over scenarios: two scenarios that disagree are settled by their sum, ties by nothing.")
def ranked_is_the_mean_over_scenarios_two_scenarios_that_disagree() -> Finding:
    both = [((0, 4, 1), (5, 0, 1)), ((1, 0, 0), (1, 0, 0)), ((1, 2, 3), (2, 1, 0))]
    settled, half, tied = (credits_of(ZO_RANKSGD, *pair) for pair in both)
    off = {"off": gap(settled, [2 / 3, 0, -2 / 3] * 2), "one_of_three": gap(half, [1, -0.5, -0.5] * 2)}
    return below(1e-12, **off, tied=gap(tied, [0.0] * 6))


@claim("Means are over a direction's trajectories that count, and the loss is minus the credit's mean over decisions.")
def means_are_over_a_directions_trajectories_that_count_and_the() -> Finding:
    # Directions, returns, decisions, and whether they count; by sums 5 were ahead of 9, by means it is behind.
    told = [(5, 4.0, 1, 1), (9, 3.5, 3, 1), (5, 2.0, 2, 1), (2, 1.0, 4, 1), (5, 90.0, 1, 0), (7, 50.0, 2, 0)]
    rows = [
        {
            "group": f"g{number % 2}",
            "scores": {"reward": reward},
            "logp": [-1.0] * length,
            "trained": [bool(counts)] * length,
            "info": {DIRECTION.name: word},
        }
        for number, (word, reward, length, counts) in enumerate(told)
    ]
    found = inspect_rows(ZO_RANKSGD, rows)
    credit = {9: 2 / 3, 5: 0.0, 2: -2 / 3}
    wanted = [[counts * credit.get(word, 0.0)] * length for word, _, length, counts in told]
    read = RecordedBatch({"version": 1, "trajectories": rows}).batch
    batch, _ = ZO_RANKSGD.compute_credit(read, ZO_RANKSGD.init(), {})
    per = credited(batch)
    return below(
        1e-12,
        per.keys() == credit.keys(),
        off=gap(found["advantages"], wanted),
        loss_off=abs(found["loss"] + (3 * 2 / 3 - 4 * 2 / 3) / 10),
        per_direction_off=max(abs(per[word] - share) for word, share in credit.items()),
    )


def quadratic(seed: int) -> Tensor:
    """A positive diagonal with curvatures from 0.1 to 10, and a starting point."""
    generator = Key.of(seed).derive("quadratic").torch()
    curvature = torch.logspace(-1, 1, SIZE, dtype=torch.float64)
    return torch.stack([curvature, torch.randn(SIZE, generator=generator, dtype=torch.float64)])


def cosine(m: int, best: int | None, draws: int = 150) -> float:
    """The mean cosine of g with the true gradient at the start."""
    curvature, x = quadratic(0)
    generator, found = Key.of(m).derive("directions").torch(), []
    for _ in range(draws):
        z = torch.randn(m, SIZE, generator=generator, dtype=torch.float64)
        values = 0.5 * (curvature * (x + 1e-3 * z) ** 2).sum(1)
        found.append(float(torch.cosine_similarity(slope(values, z, best), curvature * x, 0)))
    return fmean(found)


@claim("On quadratics in 50 dimensions its mean cosine with the gradient is positive and rises with m and with k.")
def on_quadratics_in_50_dimensions_its_mean_cosine_with_the() -> Finding:
    by_m = [cosine(m, None) for m in (4, 8, 16, 32)]
    by_k = [cosine(16, k) for k in (1, 3, 8)]
    rises = all(b > a + 0.01 for row in (by_m, by_k) for a, b in pairwise(row))
    return Finding(by_m[0] > 0.1 and rises, say(m_4=by_m[0], m_8=by_m[1], m_16=by_m[2], m_32=by_m[3], k=by_k))


@claim(
    "On quadratics the iterates reach a stationary point up to a floor that the step sets, and no size is known.",
    slow=True,
)
def on_quadratics_the_iterates_reach_a_stationary_point_up_to_a() -> Finding:
    ends: dict[float, list[float]] = {}
    for eta in (0.2, 0.05):
        for seed in range(3):
            curvature, x = quadratic(seed)
            generator = Key.of(seed).derive("descent").torch()
            start = float((curvature * x).norm())
            for _ in range(1500):
                z = torch.randn(16, SIZE, generator=generator, dtype=torch.float64)
                values = 0.5 * (curvature * (x + 0.01 * z) ** 2).sum(1)
                x = x - eta * slope(values, z, None)
            ends.setdefault(eta, []).append(float((curvature * x).norm()) / start)
    far, near = (fmean(ends[eta]) for eta in (0.2, 0.05))
    return Finding(far < 0.5 and near < 0.1 and near < 0.6 * far, say(of_start_at_0_2=ends[0.2], at_0_05=ends[0.05]))


# ---------------------------------------------------------------- who plays


class Line:
    """A policy of a few weights, one of which is not trained."""

    name = "policy"

    def __init__(self) -> None:
        trained = nn.Parameter(torch.arange(6.0, dtype=torch.float64).reshape(2, 3) / 7 - 0.4)
        frozen = nn.Parameter(torch.full((2,), 0.3, dtype=torch.float64), requires_grad=False)
        self.module = nn.ParameterDict({"weight": trained, "bias": frozen})


class Spy:
    """A player that keeps what it was asked, with the weights at that time."""

    def __init__(self, policy: Line) -> None:
        self.policy, self.found = policy, dict[tuple[str, int], Tensor]()

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        played = []
        for one in assignments:
            for sample in range(one.first, one.first + one.samples):
                self.found[one.scenario.id, sample] = self.policy.module["weight"].detach().clone()
                turn = Turn("a", "policy", np.array([1]), np.array([1]), np.array([-1.0], np.float32))
                played.append(Trajectory(one.scenario, [turn], sample, source=one.source))
        return played


@claim("Sample i of every scenario is played by x + mu z_i; what is given, and the reference, by x, which stays.")
def sample_i_of_every_scenario_is_played_by_x_mu_z_i_what_is_given() -> Finding:
    policy, key = Line(), Key.of(3)
    spy, start = Spy(policy), policy.module["weight"].detach().clone()
    player = PerturbedPlayer(cast(Player, spy), {"policy": cast(Policy, policy)}, 0.3, key)
    asked = [
        Assignment(Scenario("own"), samples=3, first=2),
        Assignment(Scenario("given"), samples=2, source="expert"),
        Assignment(Scenario("other"), samples=2, first=4),
        Assignment(Scenario("before"), actor="reference"),
    ]
    played = run_async(player.play(asked, key=key))
    order = [(one.scenario.id, first) for one in asked for first in range(one.first, one.first + one.samples)]
    off, told = [], []
    for (name, sample), one in zip(order, played, strict=True):
        own, word = name in ("own", "other"), key.derive("direction", sample).word
        (z,) = direction(word, "policy", [start])
        off.append(gap(spy.found[name, sample], start + 0.3 * z if own else start))
        told.append((one.scenario.id, one.sample) == (name, sample))
        told.append(DIRECTION.get(one) == (word if own else None) and (one.turns[0].logp is None) == own)
    return below(1e-12, all(told), len(spy.found) == 8, off=max(off), left=gap(policy.module["weight"], start))


# ---------------------------------------------------------------- the run itself


def first_step(seed: int = 0, **changes: Any) -> tuple[list[Tensor], list[Tensor], Batch, str, Recipe]:
    """The weights before and after a step of CartPole, and the batch."""
    task = tasks.find("gym:CartPole-v1?max_episode_steps=30")
    settings = {"curriculum.prompts": 2, "rollout.samples": 4, **changes}
    config = configure([("recipe", ZO_RANKSGD), ("steps", 2), ("seed", seed), *settings.items()], task)
    parts = build_parts(config, task)
    weights = weights_of(parts.lead.policy)
    before = [weight.detach().clone() for weight in weights]
    batch = run_async(train_step(parts, 1)).batch
    assert batch is not None
    return before, [weight.detach() for weight in weights], batch, parts.lead.policy.name, config.recipe


@claim("A step moves the weights by eta sum_i c_i z_i and leaves nothing of the perturbations in them.")
def a_step_moves_the_weights_by_eta_sum_i_c_i_z_i_and_leaves() -> Finding:
    before, after, batch, name, recipe = first_step()
    assert isinstance(recipe.update, DirectionStep)
    played: dict[int, list[float]] = {}
    for word, value in zip(DIRECTION.rows(batch), returns(batch).tolist(), strict=True):
        played.setdefault(word, []).append(value)
    means = {word: fmean(values) for word, values in played.items()}
    edges = [(one, other) for one in means for other in means if means[one] > means[other]]
    wanted = [old.double() for old in before]
    for pair in edges:
        for word, sign in zip(pair, (1, -1), strict=True):
            for total, along in zip(wanted, direction(word, name, before), strict=True):
                total += recipe.update.eta * sign / len(edges) * along.double()
    off = max(float((one.double() - other).abs().max()) for one, other in zip(after, wanted, strict=True))
    moved = max(float((one - other).abs().max()) for one, other in zip(after, before, strict=True))
    same = DirectionStep().lr_factor(1, 2) == DirectionStep().lr_factor(2, 2) == 1.0
    return below(1e-5, len(means) == 4, len(edges) > 3, moved > 1e-2, same, off=off)


@dataclass(frozen=True)
class Returns(Credit):
    """Each trajectory's return, as it is."""

    def __call__(self, batch: Batch) -> Occurrences:
        units = trajectory_units(batch)
        return replace(batch.occurrences, advantage=units.value[units.member])


@dataclass(frozen=True)
class BestSoFar(DirectionStep):
    """Random search: to the weights of the best direction where it did better than any before, else nowhere."""

    mu: float = 0.1

    def init(self) -> State:
        return {"best": -math.inf}

    def step(self, problem: Problem, key: Key) -> Metrics:
        found, weights = credited(problem.batch), weights_of(problem.policy)
        word = max(found, key=lambda one: found[one])
        if found[word] > problem.memory["best"]:
            problem.memory = {"best": found[word]}
            along = direction(word, problem.policy.name, weights)
            moved_to(weights, [one.detach() + self.mu * z for one, z in zip(weights, along, strict=True)])
        return {"loss": 0.0}


RANDOM_SEARCH = ZO_RANKSGD.but({"name": "random-search", "credit": Returns(), "update": BestSoFar()})


def cart_pole(recipe: Recipe, seed: int) -> float:
    """The mean return, at most 100, of what is played in the second half of 24 steps of 32 episodes."""
    task = tasks.find("gym:CartPole-v1?max_episode_steps=100")
    settings = {"curriculum.prompts": 1, "rollout.samples": 32, "steps": 24, "seed": seed}
    parts = build_parts(configure([("recipe", recipe), *settings.items()], task), task)
    played = [run_async(train_step(parts, number + 1)).metrics["reward/mean"] for number in range(24)]
    return fmean(played[12:])


@claim("On CartPole ranks of returns alone beat random search at equal episodes.", slow=True)
def on_cartpole_ranks_of_returns_alone_beat_random_search_at_equal() -> Finding:
    ends = {one.name: [cart_pole(one, seed) for seed in range(3, 6)] for one in (ZO_RANKSGD, RANDOM_SEARCH)}
    ratios = [ours / theirs for ours, theirs in zip(ends["zo-ranksgd"], ends["random-search"], strict=True)]
    return Finding(min(ratios) > 1 and fmean(ratios) > 1.2, say(mean_return=ends, ratio_to_random_search=ratios))


def stepped(run: ShippedRun) -> dict[str, float]:
    """Directions that were played, and how far the step went."""
    return {"directions": run.mean("update/directions"), "norm of g": run.mean("gradient/norm")}


@claim("It ships with 16 directions on 8 episodes, mu = .1 and eta = 1; for language models with mu = .002, eta = .02.")
def it_ships_with_16_directions_on_8_episodes_mu_1_and_eta_1_for() -> Finding:
    played = ZO_RANKSGD.curriculum == Shuffled(prompts=8) and ZO_RANKSGD.rollout == Independent(samples=16)
    control = ZO_RANKSGD.update == DirectionStep(eta=1.0, momentum=0.0) and ZO_RANKSGD.hooks == (PerturbedPlay(0.1),)
    words = ZO_RANKSGD_WORDS.update == DirectionStep(eta=0.02, momentum=0.0)
    words = words and ZO_RANKSGD_WORDS.hooks == (PerturbedPlay(0.002),)
    return Finding(played and control and words, say(played=played, control=control, words=words))


PLAYED = {"curriculum.prompts": 2, "rollout.samples": 4}
BY_RETURNS = {"credit": GroupRelative(scale=None)}
claim.spares("seen.get(scenario, 0) + 1 -> seen.get(scenario, 0) - 1", "any numbers that differ name the directions")
claim.shipped(ZO_RANKSGD, without=BY_RETURNS, sees=stepped, settings=PLAYED)
claim.shipped(ZO_RANKSGD_WORDS, without=BY_RETURNS, sees=stepped, settings=PLAYED)
