"""Claims of joint policies that are Bayesian networks."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.exact.cooperative import Cooperative, joint, penalty
from hocket.exact.mdp import TabularMDP
from hocket.exact.solver import State
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.claims.solved import SolvedRun
from hocket.methods.marl.bayesian_network_actor_critic import (
    BAYESIAN_NETWORK_ACTOR_CRITIC,
    BayesianNetwork,
    gradient,
    policies,
)

claim = Claims("bayesian-network-actor-critic", "recalled")


def drawn(seed: int, states: int, moves: tuple[int, ...]) -> tuple[Cooperative, State]:
    """A random game, and random networks in it."""
    noise = Key.of(seed).derive("game").numpy()
    actions = int(np.prod(moves))
    process = TabularMDP(
        noise.dirichlet(np.ones(states), size=(states, actions)),
        noise.normal(size=(states, actions)),
        np.full(states, 1 / states),
        discount=0.8,
    )
    world = Cooperative(process, moves)
    first = BayesianNetwork().init(world, Key.of(seed))
    return world, {name: noise.normal(size=np.shape(array)) for name, array in first.items() if name != "steps"}


def earned(world: Cooperative, held: dict[str, torch.Tensor], left: float) -> torch.Tensor:
    """The return by torch, move by move: no code of the solver."""
    states, rows = world.process.states, []
    for place in range(states):
        shares = []
        for moves in itertools.product(*map(range, world.moves)):
            share = torch.ones((), dtype=torch.float64)
            for agent, move in enumerate(moves):
                logits = held[f"base {agent}"][place]
                for parent in range(agent):
                    edge = left * held[f"gate {parent} {agent}"][place].sigmoid()
                    logits = logits + edge * held[f"word {parent} {agent}"][place, moves[parent]]
                share = share * logits.softmax(-1)[move]
            shares.append(share)
        rows.append(torch.stack(shares))
    policy = torch.stack(rows)
    onward = torch.einsum("sa,sat->st", policy, torch.from_numpy(world.process.transition))
    system = torch.eye(states, dtype=torch.float64) - world.process.discount * onward
    value: torch.Tensor = torch.linalg.solve(system, (policy * torch.from_numpy(world.process.reward)).sum(-1))
    begun: torch.Tensor = (torch.from_numpy(world.process.start) * value).sum()
    return begun


@claim("The gradient is that of the exact return, for bases, words and gates, with two agents and with three.")
def _() -> Finding:
    off, least = 0.0, np.inf
    for seed, (states, moves) in enumerate(((3, (2, 3)), (2, (2, 3, 2)), (2, (3, 2, 2)))):
        for left in (1.0, 0.4, 0.0):
            world, state = drawn(seed, states, moves)
            held = {name: torch.from_numpy(array).requires_grad_() for name, array in state.items()}
            slopes = torch.autograd.grad(earned(world, held, left), list(held.values()), allow_unused=True)
            found, _ = gradient(world, state, left)
            for name, slope in zip(held, slopes, strict=True):
                true = np.zeros_like(found[name]) if slope is None else slope.numpy()
                off = max(off, float(np.abs(found[name] - true).max()))
                least = min(least, float(np.abs(true).max())) if left else least
    return below(1e-12, least > 1e-4, off=off)


@claim("A network's shares sum to 1 over all joint moves, and how often something is met is counted by hand.")
def _() -> Finding:
    world, state = drawn(3, 2, (2, 3, 2))
    whole = joint(policies(world, state, 0.7))
    visits = world.process.visits(whole.reshape(2, -1)).reshape(whole.shape) / (1 - world.process.discount)
    _, met = gradient(world, state, 0.7)
    off = {
        "sum": float(np.abs(whole.sum((1, 2, 3)) - 1).max()),
        "base": float(np.abs(met["base 2"] - visits.sum((1, 2))).max()),
        "word": float(np.abs(met["word 0 2"] - visits.sum(2)).max()),
        "gate": float(np.abs(met["gate 1 2"] - visits.sum((1, 2, 3))).max()),
    }
    return below(1e-12, **off)


@claim("From every start of a grid a full network comes to the best pair; independent agents mostly do not.")
def _() -> Finding:
    """Starts are logits of each agent in {-1, 0, 1} to the three."""
    world = penalty(1)
    reached: dict[bool, list[float]] = {True: [], False: []}
    for edges, found in reached.items():
        solver = BayesianNetwork(edges=edges, noise=0.0, kept=600)
        for start in itertools.product((-1.0, 0.0, 1.0), repeat=4):
            bases = {f"base {agent}": np.array([[start[2 * agent], start[2 * agent + 1], 0.0]]) for agent in (0, 1)}
            state: State = {**solver.init(world, Key.of(0)), **bases}
            for step in range(500):
                state, _ = solver.step(world, state, Key.of(step))
            found.append(world.value(solver.answer(world, state)))
    best = world.optimum
    alone = float(np.mean([value > 0.99 * best for value in reached[False]]))
    return Finding(
        min(reached[True]) > 0.99 * best and alone < 0.5,
        say(worst_with_edges=min(reached[True]), independent_at_the_best=alone, optimum=best),
    )


@claim("When the last edge has gone the agents are independent, and nothing of the return is lost.")
def _() -> Finding:
    lost, apart, late = 0.0, 0.0, []
    for seed in range(5):
        world, solver = penalty(3), BayesianNetwork()
        state = solver.init(world, Key.of(seed))
        for step in range(1000):
            if step == 400:
                full = world.value(solver.answer(world, state))
            state, told = solver.step(world, state, Key.of(seed).derive(step))
        whole = solver.answer(world, state).reshape(-1, 3, 3)
        product = whole.sum(2)[:, :, None] * whole.sum(1)[:, None]
        apart = max(apart, float(np.abs(whole - product).max()))
        lost = max(lost, full - world.value(solver.answer(world, state)))
        late.append(told["edges"])
    left = [BayesianNetwork(kept=10, annealed=4).left({"steps": np.array(step)}) for step in (0, 10, 11, 13, 14, 99)]
    right = left == [1, 1, 0.75, 0.25, 0, 0] and BayesianNetwork(edges=False).left({"steps": np.array(0)}) == 0
    return Finding(
        apart < 1e-12 and lost < 0.01 * penalty(3).optimum and max(late) == 0 and right, say(lost=lost, apart=apart)
    )


@claim("A step is the slope divided by how often it is met; a plain gradient gives up before its edges have learnt.")
def _() -> Finding:
    world, state = drawn(5, 2, (2, 2))
    solver = BayesianNetwork(rate=0.3, kept=5)
    whole = {**state, "steps": np.array(2)}
    after, _ = solver.step(world, whole, Key.of(0))
    slopes, met = gradient(world, state, 1.0)
    off = max(float(np.abs(after[name] - state[name] - 0.3 * slopes[name] / met[name]).max()) for name in state)
    safe, game = [], penalty(1)
    for seed in range(5):
        plain: State = {**BayesianNetwork().init(game, Key.of(seed))}
        for _ in range(1000):
            slopes, _ = gradient(game, plain, 1.0)
            plain = {**plain, **{name: plain[name] + 0.1 * slope for name, slope in slopes.items()}}
        safe.append(game.value(joint(policies(game, plain, 1.0)).reshape(1, -1)))
    return Finding(off < 1e-9 and int(after["steps"]) == 3 and min(safe) < 5, say(off=off, plain=safe))


def _gone(with_it: SolvedRun, without: SolvedRun) -> dict[str, float]:
    edges = with_it.column("edges")
    return {"edges at first": edges[0], "none at the end": 1.0 - edges[-1]}


claim.solved(BAYESIAN_NETWORK_ACTOR_CRITIC, {"edges": False}, better={"value": 1}, sees=_gone)
