"""R2PVI's claims."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import get_args

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, say
from hocket.lab.claims.solver_check import SolvedRun
from hocket.lab.exact.factored_mdp import FactoredMDP, causeway, factored, mixed
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.worlds import random
from hocket.methods.control.r2pvi import R2PVI, Divergence, RobustPessimism, planned, robust_value, worst

claim = Claims("r2pvi", "the paper, as the catalogue recalls it")
ROOT = Key.of(0).derive("r2pvi")
KINDS: tuple[Divergence, ...] = get_args(Divergence)
PRICES: dict[Divergence, float] = {"tv": 2.0, "kl": 2.0, "chi2": 0.5}


def distance(mu: Array, origin: Array, kind: Divergence) -> float:
    """Half the absolute difference; KL(mu || origin); the mean squared relative difference."""
    if kind == "tv":
        return float(0.5 * np.abs(mu - origin).sum())
    if kind == "kl":
        return float(sum(one * math.log(one / other) for one, other in zip(mu, origin, strict=True) if one > 0))
    return float(((mu - origin) ** 2 / origin).sum())


def minimised(origin: Array, value: Array, price: float, kind: Divergence) -> float:
    """`min_mu <mu, V> + price D(mu || origin)` over the simplex, from the divergence alone.

    tv is linear between corners, at each of which all but one share are 0 or the origin's; chi2 is a quadratic
    programme, solved on every support; kl by mirror descent, until no corner is a direction of descent.
    """
    size = len(value)
    found = [(origin, 0.0)]
    if kind == "tv":
        for free, kept in itertools.product(range(size), itertools.product((0.0, 1.0), repeat=size)):
            mu = origin * kept
            mu[free] = 1 - (mu.sum() - mu[free])
            found += [(mu, 0.0)] if mu[free] >= 0 else []
    elif kind == "chi2":
        for bits in range(1, 2**size):
            on = np.array([bits >> place & 1 for place in range(size)], bool)
            # Stationary on the support: V + 2 price (mu / origin - 1) = level, and the shares sum to 1.
            level = (1 - (origin[on] * (1 - value[on] / (2 * price))).sum()) * 2 * price / origin[on].sum()
            mu = np.where(on, origin * (1 + (level - value) / (2 * price)), 0.0)
            found += [(mu, 0.0)] if (mu >= 0).all() else []
    else:
        mu = np.full(size, 1 / size)
        for _ in range(400):
            slope = value + price * (np.log(mu / origin) + 1)
            mu = mu * np.exp(-0.3 / price * (slope - slope.min()))
            mu = mu / mu.sum()
        slope = value + price * (np.log(mu / origin) + 1)
        found.append((mu, float(mu @ slope - slope.min())))  # How far from the minimum it may be at most.
        found = [one for one in found[1:] if one[1] < 1e-9]
    return min(float(mu @ value) + price * distance(mu, origin, kind) for mu, _ in found)


@claim("The closed forms are what minimising over all shifts comes to, for each of the three divergences.")
def the_closed_forms_are_what_minimising_over_all_shifts_comes_to() -> Finding:
    noise, gaps = ROOT.derive("forms").numpy(), dict[str, float]()
    for kind in KINDS:
        for _ in range(40):
            size = int(noise.integers(2, 7))
            origin = noise.dirichlet(np.ones(size)) * 0.95 + 0.05 / size
            value, price = 3 * noise.random(size), float(noise.uniform(0.2, 3))
            closed = float(worst(origin[None], value, price, kind)[0])
            gaps[kind] = max(gaps.get(kind, 0.0), abs(closed - minimised(origin, value, price, kind)))
    return below(1e-8, **gaps)


def gathered(world: FactoredMDP, episodes: int, seed: int = 0) -> Array:
    """Counts of transitions under even play, `[S, A, S]`."""
    seen = np.zeros_like(world.transition)
    for number in range(episodes):
        one = world.episode(world.even, ROOT.derive("data", seed, number))
        np.add.at(seen, (one.states[:-1], one.actions, one.states[1:]), 1)
    return seen


def plain(world: FactoredMDP, seen: Array, beta: float) -> Array:
    """Pessimistic value iteration, one state and action after the other: values `[H + 1, S]`."""
    assert world.horizon is not None
    size = world.features.shape[-1]
    system, told = np.eye(size), np.zeros((size, world.states))
    for state, action, after in np.ndindex(*seen.shape):
        phi = world.features[state, action]
        system += seen[state, action, after] * np.outer(phi, phi)
        told[:, after] += seen[state, action, after] * phi
    value = np.zeros((world.horizon + 1, world.states))
    for step in reversed(range(world.horizon)):
        weight = np.linalg.solve(system, told @ value[step + 1])
        for state in range(world.states):
            found = []
            for action in range(world.actions):
                phi = world.features[state, action]
                width = sum(phi[i] * math.sqrt(np.linalg.solve(system, np.eye(size)[i])[i]) for i in range(size))
                estimate = world.reward[state, action] + phi @ weight - beta * width
                found.append(min(max(estimate, 0.0), (world.horizon - step) * world.reward.max()))
            value[step, state] = max(found)
    return value


@claim("As the price grows it becomes pessimistic value iteration, which it is at an infinite one.")
def as_the_price_grows_it_becomes_pessimistic_value_iteration_which() -> Finding:
    gaps, near, apart = [], [], []
    for world in (causeway(3), factored(random(4, 2, seed=1, horizon=4))):
        seen = gathered(world, 30)
        wanted = float(world.start @ plain(world, seen, 0.1)[0])
        for kind in KINDS:
            gaps.append(abs(planned(world, seen, RobustPessimism(math.inf, kind))[1] - wanted))
            exact = robust_value(world, world.best.policy, 1e6, kind)
            near.append(abs(exact - world.optimum))
            apart.append(world.optimum - robust_value(world, world.best.policy, 0.1, kind))
    return Finding(
        max(gaps) < 1e-9 and max(near) < 1e-4 and min(apart) > 0.01,
        say(largest_difference=max(gaps), at_a_high_price=max(near), at_a_low_one=min(apart)),
    )


@claim("With data enough and no pessimism no policy has a higher exact robust value than its own.")
def with_data_enough_and_no_pessimism_no_policy_has_a_higher_exact() -> Finding:
    world = causeway(2)
    assert world.horizon is not None
    gaps, spread = [], []
    places = world.horizon * 2  # What one does once fallen makes no difference.
    for kind in KINDS:
        values = []
        for choice in itertools.product((0, 1), repeat=places):
            actions = np.zeros((world.horizon, world.states), np.int64)
            actions[:, :2] = np.reshape(choice, (world.horizon, 2))
            values.append(robust_value(world, np.eye(2)[actions], PRICES[kind] / 2, kind))
        many = 1e9 * np.maximum(world.transition, 0)
        policy, estimate = planned(world, many, RobustPessimism(PRICES[kind] / 2, kind, beta=0.0))
        own = robust_value(world, policy, PRICES[kind] / 2, kind)
        gaps += [max(values) - own, abs(estimate - own)]
        spread.append(max(values) - robust_value(world, world.best.policy, PRICES[kind] / 2, kind))
    return Finding(
        max(gaps) < 1e-6 and max(spread) > 1e-3,
        say(largest_difference=max(gaps), what_the_nominal_optimum_loses=spread),
    )


@claim("Without pessimism it promises more than its policy keeps on some data; with it, on none.")
def without_pessimism_it_promises_more_than_its_policy_keeps_on() -> Finding:
    over: dict[float, list[float]] = {}
    for seed in range(20):
        world = factored(random(4, 3, seed=seed, horizon=4))
        seen = gathered(world, 1000, seed)
        for beta in (0.0, 0.5):
            policy, estimate = planned(world, seen, RobustPessimism(2.0, "tv", beta))
            over.setdefault(beta, []).append(estimate - robust_value(world, policy, 2.0, "tv"))
    return Finding(max(over[0.5]) < 0 < max(over[0.0]), say(**{f"excess at {beta}": one for beta, one in over.items()}))


@claim("The robust policy is better where running is more dangerous than in the data, and loses less where it is not.")
def the_robust_policy_is_better_where_running_is_more_dangerous() -> Finding:
    holds, said = True, dict[str, list[float]]()
    worse = causeway(4, 0.3)
    for kind, price in PRICES.items():
        rows = []
        for seed in SEEDS:
            seen = gathered(causeway(4), 400, seed)
            robust, usual = (planned(causeway(4), seen, RobustPessimism(cost, kind))[0] for cost in (price, math.inf))
            against = [robust_value(causeway(4), one, price, kind) for one in (robust, usual)]
            rows.append(
                (
                    worse.value(robust) - worse.value(usual),
                    causeway(4).value(robust) - causeway(4).value(usual),
                    against[0] - against[1],
                )
            )
        shifted, same, worst_case = (list(column) for column in zip(*rows, strict=True))
        holds &= min(a + b for a, b, _ in rows) > 0 and max(same) < 0 and min(worst_case) > 0
        said |= {f"{kind}: shifted": shifted, f"{kind}: not": same, f"{kind}: worst case": worst_case}
    return Finding(holds, say(**said))


@claim("A plan is the module's, state by state: the worst of shifts, pessimism, and values cut at what rewards allow.")
def a_plan_is_the_modules_state_by_state_the_worst_of_shifts() -> Finding:
    gaps, cuts = [], []
    losing = factored(replace(random(4, 2, seed=0, horizon=4), discount=0.9))
    losing = replace(losing, reward=losing.reward - 0.4)  # Losses allow values below 0.
    # Estimated shares may sum to more than 1, and promise more than the most there is.
    features = np.array([[[0.5, 0.5, 0], [0.5, 0, 0.5]], [[1, 0, 0], [0, 1, 0]]])
    factors = np.array([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]])
    paying = mixed(features, factors, np.array([[1.5, 1.4], [1.3, 1.6]]), np.array([1.0, 0]), 4, 0.9)
    for kind, (world, beta) in itertools.product(KINDS, ((losing, 0.4), (paying, 0.01))):
        (horizon, states, actions), size = world.shape, world.features.shape[2]
        seen = gathered(world, 10) if world is losing else 50 * np.array([[[0.7, 0.3], [0.4, 0.6]], np.zeros((2, 2))])
        how = RobustPessimism(1.5, kind, beta)
        system, told = np.eye(size), np.zeros((size, states))
        for state, action, after in np.ndindex(*seen.shape):
            phi = world.features[state, action]
            system += seen[state, action, after] * np.outer(phi, phi)
            told[:, after] += seen[state, action, after] * phi
        shares = np.linalg.solve(system, told).astype(np.float64)
        width = np.sqrt(np.diag(np.linalg.inv(system)))
        policy, value = np.zeros(world.shape), np.zeros(states)
        for step in reversed(range(horizon)):
            left = sum(0.9**later for later in range(horizon - step))
            low, high = min(0.0, left * world.reward.min()), left * world.reward.max()
            ahead = [float(worst(shares[i : i + 1], value, 1.5, kind)[0]) for i in range(size)]
            quality = np.zeros((states, actions))
            for place in np.ndindex(states, actions):
                phi = world.features[place]
                expected = sum(float(phi[i]) * ahead[i] for i in range(size))
                penalty = beta * sum(float(phi[i]) * float(width[i]) for i in range(size))
                quality[place] = world.reward[place] + 0.9 * expected - penalty
                cuts.append(int(quality[place] < low) - int(quality[place] > high))
                quality[place] = min(max(quality[place], low), high)
            policy[step] = np.eye(actions)[(quality >= quality.max(1, keepdims=True) - 1e-12).argmax(1)]
            value = quality.max(1)
        found, promised = planned(world, seen, how)
        gaps += [float(np.abs(found - policy).max()), abs(promised - float(world.start @ value))]
    return below(1e-10, 1 in cuts, -1 in cuts, largest_difference=max(gaps))


@claim("A step gathers its episodes by even play, plans from all so far, and tells what it expects and exact values.")
def a_step_gathers_its_episodes_by_even_play_plans_from_all_so_far() -> Finding:
    gaps = []
    world = replace(causeway(3), discount=0.8)
    solver, key = RobustPessimism(1.0, "kl", 0.2, episodes=3, against=0.7), ROOT.derive("step")
    state = solver.init(world, key)
    gaps.append(float(np.abs(solver.answer(world, state) - 1 / world.actions).max()))
    seen = np.zeros_like(world.transition)
    for step in range(2):
        for number in range(3):
            one = world.episode(world.even, key.derive(step).derive("episode", number))
            for before, action, after in zip(one.states[:-1], one.actions, one.states[1:], strict=True):
                seen[before, action, after] += 1
        state, told = solver.step(world, state, key.derive(step))
        policy, expected = planned(world, seen, solver)
        value = np.zeros(world.states)
        for at in reversed(range(len(policy))):
            ahead = worst(world.factors, value, 0.7, "kl")
            value = np.array(
                [
                    sum(
                        policy[at, s, a] * (world.reward[s, a] + 0.8 * float(world.features[s, a] @ ahead))
                        for a in range(world.actions)
                    )
                    for s in range(world.states)
                ]
            )
        gaps += [float(np.abs(state["seen"] - seen).max()), float(np.abs(solver.answer(world, state) - policy).max())]
        gaps += [abs(told["estimate"] - expected), abs(told["robust"] - float(world.start @ value))]
    return below(1e-12, largest_difference=max(gaps))


@claim(
    "The closed forms hold for estimated shares, which may be negative and sum to other than 1, and for equal values."
)
def the_closed_forms_hold_for_estimated_shares_which_may_be() -> Finding:
    """Of kl the mean of `exp(-V / price)` is kept from below what the largest value alone would give."""
    gaps, noise = [], ROOT.derive("ridge").numpy()
    for _ in range(20):
        shares, value, price = noise.uniform(-0.3, 0.6, size=(2, 3)), 3 * noise.random(3), float(noise.uniform(0.2, 3))
        low = min(value)
        for row in shares:
            capped = sum(share * min(one, low + price) for share, one in zip(row, value, strict=True))
            mean = sum(share * math.exp(-(one - low) / price) for share, one in zip(row, value, strict=True))
            floor = math.exp(-(max(value) - low) / price)
            soft = low - price * math.log(max(mean, floor))
            gaps.append(abs(float(worst(row[None], value, price, "tv")[0]) - capped))
            gaps.append(abs(float(worst(row[None], value, price, "kl")[0]) - soft))
            caps = [*np.linspace(low, max(value), 20_001), *value]
            kept = np.minimum(value[:, None], np.array(caps))
            spread = row @ kept**2 - (row @ kept) ** 2
            best = float((row @ kept - spread / (4 * price)).max())
            gaps.append(max(0.0, best - float(worst(row[None], value, price, "chi2")[0])))
        even = np.full(3, float(value[0]))
        gaps += [abs(float(worst(np.full((1, 3), 1 / 3), even, price, kind)[0]) - float(value[0])) for kind in KINDS]
    return below(1e-9, largest_difference=max(gaps))


@claim("The worst of the kl form is finite however far values lie apart: the least one, and what its share leaves.")
def the_worst_of_the_kl_form_is_finite_however_far_values_lie_apart() -> Finding:
    found = float(worst(np.array([[0.5, 0.5]]), np.array([3.0, 1e4]), 1.0, "kl")[0])
    return below(1e-9, off=abs(found - 3 - math.log(2)))


def _kept(shipped: SolvedRun, plain: SolvedRun) -> dict[str, float]:
    return {
        "gain in the worst case": shipped.rows[-1]["robust"] - plain.rows[-1]["robust"],
        "cost without a shift": plain["value"] - shipped["value"],
    }


claim.spares("-1 -> 1", "in line 72, above the largest value the cap changes nothing; else the last of two dimensions")
claim.solved(R2PVI, {"price": math.inf}, sees=_kept)
