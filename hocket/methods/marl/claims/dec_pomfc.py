"""Claims of mean field control from partial observations."""

from __future__ import annotations

import math

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.mdp import Array, softmax
from hocket.methods.marl.dec_pomfc.method import DEC_POMFC, UpperPolicy, executed, features
from hocket.methods.marl.dec_pomfc.swarms import Ring, Swarm, ring

claim = Claims("dec-pomfc", "recalled")


def learnt(world: Swarm, solver: UpperPolicy, steps: int, seed: int = 0) -> Array:
    """The rules after some steps."""
    state = solver.init(world, Key.of(seed))
    for step in range(steps):
        state, _ = solver.step(world, state, Key.of(seed).derive(step))
    return solver.answer(world, state)


def walked(world: Swarm, rules: Array, agents: int, key: Key, times: int = 1) -> tuple[Array, Array]:
    """Of finite swarms under given rules: the distributions after each step `[T, times, C, X]`, and mean rewards."""
    starts = np.broadcast_to(world.starts, (times, *world.starts.shape))
    spread, found = world.placed(agents, starts, key), []
    for step in range(world.steps):
        spread = world.drawn(spread, rules[:, step], agents, key.derive(step))
        found.append(spread)
    return np.stack(found), np.stack([world.reward(one) for one in found]).mean(0)


@claim("The recursion is the sum over places, observations, actions and next places, and keeps the whole.")
def the_recursion_is_the_sum_over_places_observations_actions_and() -> Finding:
    world, draw, off = ring(5), Key.of(1).derive("rules").numpy(), 0.0
    for start in world.starts:
        rule = softmax(draw.normal(size=(3, 3)))
        after = np.zeros(5)
        for x in range(5):
            right = sum(start[(x + by) % 5] for by in (1, 2, 3))
            left = sum(start[(x - by) % 5] for by in (1, 2, 3))
            rightly = 1 / (1 + math.exp(-10 * (right - left)))
            for y, seen in enumerate((start[x], (1 - start[x]) * (1 - rightly), (1 - start[x]) * rightly)):
                for u, by in enumerate((0, -1, 1)):
                    share = start[x] * seen * rule[y, u]
                    after[(x + by) % 5] += (0.8 if by else 1.0) * share
                    after[x] += 0.2 * share if by else 0.0
        off = max(off, float(np.abs(world.onward(start, rule) - after).max()), abs(after.sum() - 1))
    order = world.reward(np.eye(5)), world.reward(np.full(5, 0.2)), world.reward(np.array([0.5, 0.5, 0, 0, 0]))
    known = abs(order[1]) + np.abs(order[0] - 1).max() + abs(order[2] - math.cos(math.pi / 5))
    return below(1e-12, off=off, order=float(known))


@claim("Swarms of N agents come to the recursion as one by the square root of N.")
def swarms_of_n_agents_come_to_the_recursion_as_one_by_the_square() -> Finding:
    world = ring(12)
    rules = executed(world, Key.of(2).derive("weights").numpy().normal(size=(3, 3, 3)))
    spread, limit = world.starts, []
    for step in range(world.steps):
        spread = world.onward(spread, rules[:, step])
        limit.append(spread)
    sizes, away = np.array([50, 200, 800, 3200, 12800]), []
    for agents in sizes:
        found, _ = walked(world, rules, int(agents), Key.of(int(agents)), 40)
        away.append(float(np.abs(found - np.stack(limit)[:, None]).sum(-1).mean()))
    slope = float(np.polyfit(np.log(sizes), np.log(away), 1)[0])
    return Finding(abs(slope + 0.5) < 0.05, say(slope=slope, away=away))


@claim("Its gradient is that of the expected return, which torch takes through the recursion itself.")
def its_gradient_is_that_of_the_expected_return_which_torch_takes() -> Finding:
    """By scores of drawn rules here, by the noise held fixed there: two ways to the same expectation."""
    world = Ring(ring(6).starts[:2], 4)
    weights = Key.of(3).derive("weights").numpy().normal(size=(3, 3, 3))
    scored, _ = UpperPolicy(batch=40_000).gradient(world, weights, Key.of(0))
    leaf = torch.from_numpy(weights).requires_grad_()
    spread = torch.from_numpy(np.broadcast_to(world.starts, (40_000, 2, 6)).copy())
    moved = torch.from_numpy(world.moved(world.starts[0]).copy())
    turned = 2 * math.pi * torch.arange(6, dtype=torch.float64) / 6

    def order(of: torch.Tensor) -> torch.Tensor:
        return ((of @ turned.cos()).square() + (of @ turned.sin()).square()).sqrt()

    total = torch.zeros((), dtype=torch.float64)
    for step in range(4):
        size = order(spread)
        seen = torch.stack([torch.ones_like(size), size, size.square()], -1)
        noise = torch.from_numpy(Key.of(9).derive(step).numpy().normal(size=(40_000, 2, 3, 3)))
        rule = (torch.tensordot(seen, leaf, 1) + 0.5 * noise).softmax(-1)
        right = torch.stack([spread.roll(-by, -1) for by in (1, 2, 3)]).sum(0)
        left = torch.stack([spread.roll(by, -1) for by in (1, 2, 3)]).sum(0)
        rightly = torch.sigmoid(10 * (right - left))
        sensed = torch.stack([spread, (1 - spread) * (1 - rightly), (1 - spread) * rightly], -1)
        spread = torch.einsum("bcx,bcxu,xuz->bcz", spread, sensed @ rule, moved)
        total = total + order(spread).mean() / 4
    (through,) = torch.autograd.grad(total, leaf)
    off = float(np.abs(scored - through.numpy()).max() / through.abs().max())
    return Finding(off < 0.05, say(off=off))


@claim("What was learnt in the limit gathers swarms blind to the rest, 200 to six in a hundred, 3,200 to two.")
def what_was_learnt_in_the_limit_gathers_swarms_blind_to_the_rest() -> Finding:
    """Few do better than the limit says: by chance they are never spread evenly."""
    world = ring(12)
    rules = learnt(world, UpperPolicy(), 200)
    limit = world.value(rules)
    idle = world.value(np.broadcast_to(np.full((3, 3), 1 / 3), rules.shape))
    some, many = (float(walked(world, rules, agents, Key.of(0), 50)[1].mean()) for agents in (200, 3200))
    return Finding(
        abs(some / limit - 1) < 0.06 and abs(many / limit - 1) < 0.02 and limit > 5 * idle,
        say(limit=limit, with_200=some, with_3200=many, idle=idle),
    )


def _direct(world: Ring, agents: int, steps: int, seed: int, rate: float = 1.0) -> float:
    """Shared weights learnt by every agent's own score, in the swarm itself; the reward of 200 then.

    The rate is the best of four tried.
    """
    logits, starts = np.zeros((3, 3)), np.broadcast_to(world.starts, (2, *world.starts.shape))
    for turn in range(steps):
        draw, policy = Key.of(seed).derive("direct", turn).numpy(), softmax(logits)
        at = (draw.random((*starts.shape[:-1], agents, 1)) > starts[..., None, :].cumsum(-1)).sum(-1).clip(0, 11)
        scores, rewards = [], []
        for _ in range(world.steps):
            spread = np.eye(12)[at].mean(-2)
            sensed = np.take_along_axis(world.sensed(spread), at[..., None], -2)
            y = (draw.random((*at.shape, 1)) > sensed.cumsum(-1)).sum(-1).clip(0, 2)
            u = (draw.random((*at.shape, 1)) > policy[y].cumsum(-1)).sum(-1).clip(0, 2)
            both = np.eye(9)[3 * y + u].sum(-2).reshape(*at.shape[:-1], 3, 3)
            scores.append(both - both.sum(-1, keepdims=True) * policy)
            at = (at + np.array([0, -1, 1])[u] * (draw.random(at.shape) < 0.8)) % 12
            rewards.append(world.reward(np.eye(12)[at].mean(-2)))
        ahead = (np.stack(rewards)[::-1].cumsum(0)[::-1]) / world.steps
        better = ahead - ahead.mean(1, keepdims=True)
        logits = logits + rate * np.einsum("tbc,tbcyu->yu", better, np.stack(scores)) / ahead[0].size
    rules = np.broadcast_to(softmax(logits), (len(world.starts), world.steps, 3, 3))
    return float(walked(world, rules, 200, Key.of(0), 50)[1].mean())


@claim("It is on a par with weights that 200 agents share and learn from their own actions, after as many episodes.")
def it_is_on_a_par_with_weights_that_200_agents_share_and_learn() -> Finding:
    """Episodes of 200 agents there, of a distribution here, which cost a fortieth."""
    world = ring(12)
    direct = [_direct(world, 200, 100, seed) for seed in range(2)]
    rules = [learnt(world, UpperPolicy(batch=2), 100, seed) for seed in range(2)]
    limit = [float(walked(world, one, 200, Key.of(0), 50)[1].mean()) for one in rules]
    return Finding(float(np.mean(limit)) > float(np.mean(direct)) - 0.02, say(limit=limit, direct=direct))


@claim("What the upper policy reads is nothing but how well the swarm is gathered, and so its first rule.")
def what_the_upper_policy_reads_is_nothing_but_how_well_the_swarm() -> Finding:
    world = ring(7)
    weights = Key.of(4).derive("weights").numpy().normal(size=(3, 3, 3))
    size = abs(sum(share * np.exp(2j * np.pi * place / 7) for place, share in enumerate(world.starts[3])))
    read = np.array([1, size, size * size])
    first = softmax(sum(one * table for one, table in zip(read, weights, strict=True)))
    off = np.abs(features(world, world.starts[3]) - read).max() + np.abs(executed(world, weights)[3, 0] - first).max()
    return below(1e-12, off=float(off))


@claim("A step adds rate times the mean of what episodes did better than others from their start, score by score.")
def a_step_adds_rate_times_the_mean_of_what_episodes_did_better() -> Finding:
    """In the limit, and in swarms of 40, whose draws are the world's own."""
    world, gaps, batch = Ring(ring(6).starts[:2], 3), [], 3
    starts = np.broadcast_to(world.starts, (batch, 2, 6))
    weights = Key.of(5).derive("weights").numpy().normal(size=(3, 3, 3))
    for agents in (0, 40):
        key = Key.of(6).derive(agents)
        spread = world.placed(agents, starts, key.derive("start")) if agents else starts
        scores, rewards = np.zeros((3, batch, 2, 3, 3, 3)), np.zeros((3, batch, 2))
        for step in range(3):
            noise, rules = key.derive("noise", step).numpy().normal(size=(batch, 2, 3, 3)), np.zeros((batch, 2, 3, 3))
            for one in np.ndindex(batch, 2):
                size = float(world.reward(spread[one]))
                read = (1.0, size, size * size)
                rules[one] = softmax(sum(x * table for x, table in zip(read, weights, strict=True)) + 0.7 * noise[one])
                scores[step][one] = [x * noise[one] / 0.7 for x in read]
            if agents:
                spread = world.drawn(spread, rules, agents, key.derive("agents", step))
            else:
                spread = np.array([[world.onward(spread[b, c], rules[b, c]) for c in (0, 1)] for b in range(batch)])
            rewards[step] = [[float(world.reward(spread[b, c])) for c in (0, 1)] for b in range(batch)]
        climb = np.zeros((3, 3, 3))
        for step, b, c in np.ndindex(3, batch, 2):
            ahead = [float(rewards[step:, other, c].sum()) / 3 for other in range(batch)]
            climb += (ahead[b] - sum(ahead) / batch) * scores[step, b, c] / (2 * batch)
        solver = UpperPolicy(agents=agents, batch=batch, rate=1.5, noise=0.7)
        after, told = solver.step(world, {"weights": weights}, key)
        gaps.append(float(np.abs(after["weights"] - weights - 1.5 * climb).max()))
        gaps.append(abs(told["return"] - float(rewards.sum(0).mean()) / 3))
        gaps.append(float(np.abs(solver.init(world, key)["weights"]).max()))
        gaps.append(float(np.abs(solver.answer(world, after) - executed(world, after["weights"])).max()))
    return below(1e-12, largest_difference=max(gaps))


claim.solved(DEC_POMFC, {"agents": 2}, better={"value": 1})
