"""Claims of primal-dual learning with shadow rewards."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.claims.solver_check import SolvedRun
from hocket.lab.exact.mdp import Array, softmax
from hocket.methods.marl.primal_dual_general_utility_marl.method import (
    PRIMAL_DUAL_GENERAL_UTILITY_MARL,
    PrimalDual,
    counted,
    neighbours,
)
from hocket.methods.marl.primal_dual_general_utility_marl.networks import (
    Budget,
    Entropy,
    Network,
    Trails,
    patrol,
    shadow,
)

claim = Claims("primal-dual-general-utility-marl", "recalled")


def crowd(agents: int, seed: int, sharp: float = 1.0) -> tuple[Network, Array]:
    """A line of agents with drawn transitions of two states and actions, and drawn policies' logits."""
    noise = Key.of(seed).derive("crowd").numpy()
    local = noise.dirichlet(np.ones(2), size=(3, 2, 3, 2))
    return Network(local, agents, Entropy(), Budget(0.3)), sharp * noise.normal(size=(agents, 2, 2))


def lagrangian(world: Network, logits: torch.Tensor, multipliers: Array) -> torch.Tensor:
    """The same by torch alone: occupancies by a linear solve, the utilities spelled out."""
    policy, agents = logits.softmax(-1), world.agents
    places, moves = torch.from_numpy(world.places), torch.from_numpy(world.moves)
    together = torch.ones(len(places), len(moves), dtype=torch.float64)
    for agent in range(agents):
        together = together * policy[agent][places[:, agent]][:, moves[:, agent]]
    onward = torch.einsum("sa,sat->st", together, torch.from_numpy(world.joint.transition))
    start = torch.zeros(len(places), dtype=torch.float64)
    start[0] = 1
    system = torch.eye(len(places), dtype=torch.float64) - world.discount * onward
    visits = (1 - world.discount) * torch.linalg.solve(system.T, start)[:, None] * together
    total = torch.zeros((), dtype=torch.float64)
    for agent in range(agents):
        at = torch.stack([visits[places[:, agent] == place].sum() for place in range(world.states)])
        dear = sum(visits[:, moves[:, agent] == 1].sum(-1))
        total = total - (at * at.log()).sum() + multipliers[agent] * (0.3 - dear)
    return total


def climbed(world: Network, logits: Array, multipliers: Array) -> Array:
    """The policy gradient with the shadow reward, from exact Q: `[n, S, A]`."""
    policy = softmax(logits)
    together = world.together(policy)
    process = world.earning(shadow(world, world.occupancy(policy), multipliers))
    advantage = process.visits(together) * process.solved(together).quality
    found = np.zeros_like(logits)
    for agent in range(world.agents):
        for state, action in np.ndindex(advantage.shape):
            own, move = world.places[state, agent], world.moves[action, agent]
            found[agent, own] += advantage[state, action] * (np.eye(world.actions)[move] - policy[agent, own])
    return found


@claim("The gradient of utilities of occupancies is the policy gradient of their slope, the shadow reward.")
def the_gradient_of_utilities_of_occupancies_is_the_policy_gradient() -> Finding:
    off, plain = 0.0, np.inf
    for seed in range(5):
        world, logits = crowd(3, seed)
        multipliers = Key.of(seed).derive("multipliers").numpy().uniform(0, 3, 3)
        leaf = torch.from_numpy(logits).requires_grad_()
        (true,) = torch.autograd.grad(lagrangian(world, leaf, multipliers), leaf)
        off = max(off, float(np.abs(climbed(world, logits, multipliers) - true.numpy()).max()))
        plain = min(plain, float(np.abs(climbed(world, logits, 0 * multipliers) - true.numpy()).max()))
    return below(1e-12, plain > 1e-3, off=off)


@claim("From many episodes the solver's gradient is that; what it sees of others beyond kappa is left out of it.")
def from_many_episodes_the_solvers_gradient_is_that_what_it_sees_of() -> Finding:
    """With kappa 0 an agent hears nothing of what it does to its neighbours."""
    world, logits = crowd(3, 7, sharp=0.5)
    multipliers = np.array([0.5, 1.0, 2.0])
    policy, off = softmax(logits), {}
    true = climbed(world, logits, multipliers)
    seen = world.trails(policy, 20_000, 60, Key.of(0))
    rewards = shadow(world, world.occupancy(policy), multipliers)
    for kappa in (0, 1, 2):
        found = PrimalDual(kappa=kappa, steps=60).gradient(world, policy, seen, rewards)
        off[f"kappa_{kappa}"] = float(np.abs(found - true).max() / np.abs(true).max())
    return Finding(max(off["kappa_1"], off["kappa_2"]) < 0.01 and off["kappa_0"] > 3 * off["kappa_2"], say(**off))


@claim("A critic's error for what it does not see falls geometrically with kappa.")
def a_critics_error_for_what_it_does_not_see_falls_geometrically() -> Finding:
    """Q of the first of five in a row, less its mean over what is farther than kappa, at worst."""
    shrinks, first = [], []
    for seed in range(5):
        world, logits = crowd(5, seed)
        policy = softmax(logits)
        rewards = shadow(world, world.occupancy(policy), np.ones(5))
        rewards[1:] = 0
        process, together = world.earning(rewards), world.together(policy)
        quality = process.solved(together).quality.reshape((2,) * 10)
        weights = process.visits(together).reshape((2,) * 10)
        errors = []
        for kappa in range(5):
            beyond = tuple(axis for axis in range(10) if axis % 5 > kappa)
            mean = (weights * quality).sum(beyond, keepdims=True) / weights.sum(beyond, keepdims=True)
            errors.append(float(np.abs(quality - mean).max()))
        shrinks += [late / early for early, late in itertools.pairwise(errors[:4])]
        first.append(errors[0])
    return Finding(max(shrinks) < 0.75 and min(first) > 1e-3, say(largest_ratio=max(shrinks), at_kappa_0=first))


@claim("A critic is the mean of what is earned and what follows, over decisions that look alike, counted by hand.")
def a_critic_is_the_mean_of_what_is_earned_and_what_follows_over() -> Finding:
    world, off = patrol(3), 0.0
    seen = world.trails(np.full((3, 3, 2), 0.5), 8, 5, Key.of(3))
    rewards = Key.of(3).derive("rewards").numpy().normal(size=(3, 3, 2))
    for kappa, agent in ((0, 1), (1, 0), (1, 2), (2, 1)):
        near = [other for other in range(3) if abs(other - agent) <= kappa]
        table: dict[tuple[int, ...], float] = {}

        def look(episode: int, step: int, near: list[int] = near) -> tuple[int, ...]:
            told = [(seen.states[episode, step, one], seen.actions[episode, step, one]) for one in near]
            return tuple(int(number) for pair in told for number in pair)

        for _ in range(60):
            heard: dict[tuple[int, ...], list[float]] = {}
            for episode, step in np.ndindex(8, 4):
                own = rewards[agent, seen.states[episode, step, agent], seen.actions[episode, step, agent]]
                after = table.get(look(episode, step + 1), 0.0)
                heard.setdefault(look(episode, step), []).append(own + 0.9 * after)
            table = {kind: float(np.mean(values)) for kind, values in heard.items()}
        found = PrimalDual(kappa=kappa).critic(world, seen, rewards, agent)
        right = np.array([[table.get(look(episode, step), 0.0) for step in range(5)] for episode in range(8)])
        off = max(off, float(np.abs(found - right).max()))
    return below(1e-12, off=off)


@claim("Occupancies of many episodes are the exact ones, which sum to 1; neighbours are those within reach.")
def occupancies_of_many_episodes_are_the_exact_ones_which_sum_to_1() -> Finding:
    world = patrol(3)
    policy = softmax(Key.of(5).derive("policy").numpy().normal(size=(3, 3, 2)))
    exact = world.occupancy(policy)
    found = counted(world, world.trails(policy, 20_000, 80, Key.of(1)))
    one = Trails(np.array([[[0], [1], [1]]]), np.array([[[1], [0]]]))
    by_hand = np.zeros((1, 3, 2))
    by_hand[0, 0, 1], by_hand[0, 1, 0] = 1 / 1.9, 0.9 / 1.9
    small = float(np.abs(counted(patrol(1), one) - by_hand).max())
    reach = [list(map(int, near)) for near in neighbours(4, 1)] == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]
    close = float(np.abs(found - exact).max())
    whole = float(np.abs(exact.sum((1, 2)) - 1).max())
    return Finding(close < 0.005 and small < 1e-12 and whole < 1e-12 and reach, say(off=close, small=small))


@claim("A step climbs by the rate, lets multipliers fall by what is left, within 0 and the price, and tells both.")
def a_step_climbs_by_the_rate_lets_multipliers_fall_by_what_is_left() -> Finding:
    world, solver = patrol(3), PrimalDual(rate=0.7, dual=2.0)
    noise = Key.of(6).derive("state").numpy()
    state = {"logits": noise.normal(size=(3, 3, 2)), "multipliers": np.array([0.0, 4.9, 1.0])}
    after, told = solver.step(world, state, Key.of(9))
    policy = softmax(state["logits"])
    seen = world.trails(policy, 64, 40, Key.of(9))
    at, fading = counted(world, seen), 0.9 ** np.arange(40)
    left = np.array([0.1 - (fading * (seen.actions[..., one] == 1)).sum() / 64 / fading.sum() for one in range(3)])
    moved = state["multipliers"] - 2 * left
    climb = solver.gradient(world, policy, seen, shadow(world, at, state["multipliers"]))
    off = {
        "logits": float(np.abs(after["logits"] - state["logits"] - 0.7 * climb).max()),
        "multipliers": float(np.abs(after["multipliers"] - np.minimum(np.maximum(moved, 0), 5)).max()),
        "least_left": abs(told["least_left"] - min(left)),
        "objective": abs(told["objective"] + sum(float((p * np.log(p)).sum()) for p in at.sum(-1))),
    }
    return below(1e-12, moved.max() > 5, **off)


@claim("The gradient is the mean over episodes of fading scores times near critics less their mean there, by hand.")
def the_gradient_is_the_mean_over_episodes_of_fading_scores_times() -> Finding:
    gaps = []
    for kappa in (0, 1, 2):
        world, key = patrol(3), Key.of(kappa).derive("by hand")
        policy = softmax(key.derive("policy").numpy().normal(size=(3, 3, 2)))
        rewards = key.derive("rewards").numpy().normal(size=(3, 3, 2))
        solver, seen = PrimalDual(kappa=kappa), world.trails(policy, 6, 5, key)
        critics = [solver.critic(world, seen, rewards, agent) for agent in range(3)]
        wanted = np.zeros((3, 3, 2))
        for agent in range(3):
            near = [critics[other] for other in range(3) if abs(other - agent) <= kappa]
            worth, places = sum(near[1:], near[0]), seen.states[:, :-1, agent]
            for episode, step in np.ndindex(6, 5):
                place, action = places[episode, step], seen.actions[episode, step, agent]
                better = worth[episode, step] - worth[places == place].mean()
                score = np.eye(2)[action] - policy[agent, place]
                wanted[agent, place] += (1 - world.discount) * world.discount**step * better * score / 6
        gaps.append(float(np.abs(solver.gradient(world, policy, seen, rewards) - wanted).max()))
    state = PrimalDual().init(patrol(3), Key.of(0))
    begun = {name: of.shape for name, of in state.items() if not of.any()}
    holds = begun == {"logits": (3, 3, 2), "multipliers": (3,)}
    even = float(np.abs(PrimalDual().answer(patrol(3), state) - 0.5).max())
    return below(1e-12, holds, largest_difference=max(gaps), begins_even=even)


def _held(with_it: SolvedRun, without: SolvedRun) -> dict[str, float]:
    late = np.array(with_it.column("least_left"))[-100:]
    deaf = np.array(without.column("least_left"))[-100:]
    return {
        "keeping to the limit within .02": 0.02 + float(late.mean()),
        "walking too much otherwise": -0.2 - float(deaf.mean()),
    }


claim.spares(
    "seen.states[:, :-1][..., near] * world.actions + seen.actions[..., near] -> "
    "seen.states[:, :-1][..., near] * world.actions - seen.actions[..., near]",
    "as good a number for each state and action",
)
claim.solved(PRIMAL_DUAL_GENERAL_UTILITY_MARL, {"dual": 0.0}, better={"value": 1}, sees=_held)
