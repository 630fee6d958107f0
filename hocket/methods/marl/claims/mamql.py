"""MAMQL's claims."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import minimize

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array, softmax
from hocket.methods.marl.mamql.method import MAMQL, InverseQ, discrimination, read_off, slope
from hocket.methods.marl.mamql.world import DemonstratedGame, JointRows, crossing, soft

claim = Claims("mamql", "Multi-Agent Inverse Q-Learning from Demonstrations")
SOLVER = MAMQL.solver


def _loss(
    quality: Array, agent: int, demos: JointRows, rows: JointRows, world: DemonstratedGame, kappa: float
) -> float:
    """The criterion of an agent in plain loops."""
    tau, discount = world.temperature, world.discount

    def value(state: int) -> float:
        return tau * math.log(sum(math.exp(item / tau) for item in quality[state]))

    total = 0.0
    for state, acts, to, weight in zip(*vars(demos).values(), strict=True):
        total -= weight * (quality[state, acts[agent]] - discount * value(to))
    for state, acts, to, weight in zip(*vars(rows).values(), strict=True):
        total += weight * (value(state) - discount * value(to))
        total += kappa * weight * (quality[state, acts[agent]] - discount * value(to)) ** 2
    return float(total)


@claim("Its gradients are the differences of the criterion, and of the discriminator's, when one value moves.")
def its_gradients_are_differences_of_the_criterion() -> Finding:
    world, rng, off, largest = crossing(2), Key.of(0).numpy(), 0.0, 0.0
    demos = world.played(world.expert, 3, 5, Key.of(1))
    fresh = world.played(softmax(rng.normal(size=world.shape)), 3, 5, Key.of(2))
    quality = rng.normal(size=world.shape[1:])
    moved = np.zeros_like(quality)

    def apart(logit: Array, agent: int) -> float:
        real = sum(
            w * math.log(1 + math.exp(-logit[s, a[agent]])) for s, a, _, w in zip(*vars(demos).values(), strict=True)
        )
        mine = sum(
            w * math.log(1 + math.exp(logit[s, a[agent]])) for s, a, _, w in zip(*vars(fresh).values(), strict=True)
        )
        return float(real + mine)

    for agent in range(2):
        mine = slope(quality, agent, demos, fresh, world.temperature, world.discount, 0.3)
        apart_slope = discrimination(quality, agent, demos, fresh)
        for place in zip(*np.nonzero(np.abs(mine) + np.abs(apart_slope) > 0), strict=True):
            moved[place] = 1e-5
            ends = [_loss(quality + sign * moved, agent, demos, fresh, world, 0.3) for sign in (1, -1)]
            other = [apart(quality + sign * moved, agent) for sign in (1, -1)]
            off = max(
                off,
                abs((ends[0] - ends[1]) / 2e-5 - mine[place]),
                abs((other[0] - other[1]) / 2e-5 - apart_slope[place]),
            )
            largest = max(largest, abs(mine[place]))
            moved[place] = 0.0
    return below(1e-8, largest > 0.01, off=off)


@claim("Each expert is the softmax of its values against the other, recomputed in plain loops.")
def the_experts_answer_each_other() -> Finding:
    world, off = crossing(2), 0.0
    expert, actions = world.expert, range(world.onward.shape[1])
    for agent in range(2):
        value = np.zeros(len(world.onward))
        for _ in range(250):
            quality = np.zeros_like(expert[agent])
            for state, item, other in itertools.product(range(len(value)), actions, actions):
                pair = (item, other) if agent == 0 else (other, item)
                paid = world.rewards[(agent, state, *pair)] + world.discount * value[world.onward[(state, *pair)]]
                quality[state, item] += expert[1 - agent, state, other] * paid
            settled, value = value, soft(quality, world.temperature)
            if np.abs(settled - value).max() < 1e-12:
                break
        off = max(off, float(np.abs(softmax(quality / world.temperature) - expert[agent]).max()))
    return below(1e-8, off=off)


def _exact_rows(world: DemonstratedGame, policies: Array) -> JointRows:
    """All moves with their exact weights."""
    weight = world.visits(policies)[:, None, None] * np.einsum("sa,sb->sab", *policies)
    states, *acts = (places.ravel() for places in np.indices(world.onward.shape))
    return JointRows(states, np.stack(acts, 1), world.onward.ravel(), weight.ravel())


@claim(
    "With the other agent as it is and exact rows, the minimum of the criterion is the expert's policy, to a "
    "divergence of 1e-3, and the reward read off is the true one but for a potential.",
    "single-agent case",
)
def with_the_other_fixed_it_recovers_policy_and_reward() -> Finding:
    world, kappa = crossing(2), 1e-5
    demos, shape = _exact_rows(world, world.expert), world.shape[1:]
    settings = world.temperature, world.discount, kappa
    figures: dict[str, float] = {}
    for agent in range(2):
        policies = world.expert.copy()
        policies[agent] = 1 / world.onward.shape[1]
        rows = demos.beside(_exact_rows(world, policies))

        def criterion(flat: Array, agent: int = agent, rows: JointRows = rows) -> tuple[float, Array]:
            quality = flat.reshape(shape)
            value = soft(quality, world.temperature)
            taken, onward = (quality[each.states, each.actions[:, agent]] for each in (demos, rows)), value[rows.onward]
            first, second = taken
            loss = -float(demos.weight @ (first - world.discount * value[demos.onward]))
            loss += float(rows.weight @ (value[rows.states] - world.discount * onward))
            loss += kappa * float(rows.weight @ (second - world.discount * onward) ** 2)
            return loss, slope(quality, agent, demos, rows, *settings).ravel()

        start = np.zeros(shape).ravel()
        solved = minimize(criterion, start, jac=True, method="L-BFGS-B", options={"maxiter": 3000, "maxfun": 4000})
        quality = solved.x.reshape(shape)
        policy = softmax(quality / world.temperature)
        gap = (world.expert[agent] * np.log(world.expert[agent] / policy)).sum(-1)
        figures[f"divergence of {agent}"] = float(gap @ world.visits(world.expert))
        both = np.stack(
            [quality if number == agent else world.temperature * np.log(world.expert[number]) for number in (0, 1)]
        )
        read = read_off(world, both)[agent]
        true = world.marginal(world.rewards[agent], agent, world.expert[1 - agent])
        figures[f"reward of {agent}"] = _beyond_potentials(world, agent, read - true)
        figures[f"scale of {agent}"] = _beyond_potentials(world, agent, true)
    held = all(figures[f"divergence of {item}"] < 1e-3 for item in range(2))
    held &= all(figures[f"reward of {item}"] < 0.05 * figures[f"scale of {item}"] for item in range(2))
    return Finding(held, say(**figures))


def _beyond_potentials(world: DemonstratedGame, agent: int, reward: Array) -> float:
    """The root mean square of a reward `[S, A]` beyond `phi(s) - discount E phi(s')`, at the expert's visits."""
    states, actions = reward.shape
    onward = np.stack(
        [world.marginal(item, agent, world.expert[1 - agent]) for item in np.eye(states)[:, world.onward]], -1
    )
    shaping = np.repeat(np.eye(states)[:, None], actions, 1) - world.discount * onward
    weight = np.sqrt(world.visits(world.expert)[:, None] * world.expert[agent]).ravel()
    system, wanted = weight[:, None] * shaping.reshape(-1, states), weight * reward.ravel()
    phi = np.linalg.lstsq(system, wanted, rcond=None)[0]
    return float(np.sqrt(((system @ phi - wanted) ** 2).sum()))


@claim(
    "From 100 demonstrations of both agents, at equal steps, the area under the return is larger than that of the same "
    "tables with a discriminator, and the last policies earn 95 % of the experts' returns (three seeds).",
    "section 5",
    slow=True,
    learns=True,
)
def it_needs_fewer_episodes_than_a_discriminator() -> Finding:
    world = crossing(3)
    areas, last = {}, []
    for discriminator in (False, True):
        solver = InverseQ(discriminator=discriminator)
        curves = []
        for seed in range(3):
            state = solver.init(world, Key.of(seed))
            for number in range(MAMQL.steps):
                state, figures = solver.step(world, state, Key.of(seed).derive(number))
                curves.append((figures["return/first"] + figures["return/second"]) / 2)
            last += [] if discriminator else [curves[-1] / float(world.returns(world.expert).mean())]
        areas["GAIL" if discriminator else "MAMQL"] = float(np.mean(curves))
    return Finding(areas["MAMQL"] > areas["GAIL"] + 0.3 and min(last) > 0.95, say(**areas, share_of_experts=min(last)))


claim.solved(MAMQL, {"discriminator": True}, better={"value": 1})
