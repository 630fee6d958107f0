"""CASEC's claims."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import cast

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.methods.marl.casec.method import CASEC, Payoffs, SparseGraph, max_sum, scores
from hocket.methods.marl.casec.world import ACTIONS, COST, PAY, REST, sensors

claim = Claims("casec", "arXiv:2106.02886")
SOLVER = cast(SparseGraph, CASEC.solver)


def _random(ends: torch.Tensor, agents: int, seed: int, count: int = 200, actions: int = 3) -> Payoffs:
    """Payoffs from normal distributions, those of pairs on scales of their own."""
    draw = Key.of(seed).numpy()
    single = torch.from_numpy(draw.normal(size=(count, agents, actions)))
    pair = draw.normal(size=(count, len(ends), actions, actions)) * draw.exponential(size=(count, len(ends), 1, 1))
    return Payoffs(single, torch.from_numpy(pair), ends, torch.ones(count, len(ends), dtype=torch.bool))


def _every(payoffs: Payoffs) -> torch.Tensor:
    """Q of all joint actions, `[B, A^n]`, in their order."""
    agents, actions = payoffs.single.shape[1:]
    joint = torch.tensor(list(itertools.product(range(actions), repeat=agents)))
    values = [payoffs.value(item.expand(len(payoffs.single), -1)) for item in joint]
    return torch.stack(values, 1)


@claim(
    "On trees max-sum finds the best joint action; on rings and whole graphs it is never below the agents' own best."
)
def on_trees_max_sum_finds_the_best_joint_action() -> Finding:
    gaps, result = {}, {}
    graphs = {
        "path": [(0, 1), (1, 2), (2, 3), (3, 4)],
        "star": [(0, 1), (0, 2), (0, 3), (0, 4)],
        "tree": [(0, 1), (1, 2), (1, 3), (0, 4)],
        "ring": [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)],
        "whole": list(itertools.combinations(range(5), 2)),
    }
    for seed, (name, ends) in enumerate(graphs.items()):
        payoffs = _random(torch.tensor(ends), 5, seed)
        best, reached = _every(payoffs).amax(1), payoffs.value(max_sum(payoffs, 6))
        mine = payoffs.value(payoffs.single.argmax(2))
        gaps[name] = float((best - reached).max())
        result[name] = float((reached > best - 1e-9).double().mean())
        if bool((reached < mine - 1e-12).any()):
            return Finding(False, f"below the agents' own best on a {name}")
    exact = max(gaps[name] for name in ("path", "star", "tree"))
    return Finding(exact < 1e-9, say(off_on_trees=exact, found_on_rings=result["ring"], found_on_whole=result["whole"]))


@claim("Q is the sum over agents and kept edges, and a score the largest variance of either direction, in plain loops.")
def the_value_is_the_sum_over_agents_and_kept_edges() -> Finding:
    ends = torch.tensor(list(itertools.combinations(range(4), 2)))
    payoffs = _random(ends, 4, 7, count=5)
    mask = torch.from_numpy(Key.of(8).numpy().random((5, 6)) < 0.5)
    payoffs, off = replace(payoffs, kept=mask), 0.0
    actions = torch.from_numpy(Key.of(9).numpy().integers(0, 3, (5, 4)))
    for number in range(5):
        chosen, total = actions[number].tolist(), 0.0
        for agent in range(4):
            total += float(payoffs.single[number, agent, chosen[agent]])
        for edge, (item, other) in enumerate(ends.tolist()):
            table = payoffs.pair[number, edge].numpy()
            total += float(table[chosen[item], chosen[other]]) * bool(mask[number, edge])
            largest = max(*(float(np.var(row)) for row in table), *(float(np.var(row)) for row in table.T))
            off = max(off, abs(largest - float(scores(payoffs.pair)[number, edge])))
        off = max(off, abs(total - float(payoffs.value(actions)[number])))
    return below(1e-12, off=off)


@claim(
    "The larger an edge's score, the more often the best joint action changes without the edge; it never changes where "
    "the payoffs of the edge vary by less than the lead of the best action.",
    "proposition 1, the bound derived here",
)
def without_edges_of_low_score_the_best_action_stays() -> Finding:
    ends = torch.tensor(list(itertools.combinations(range(4), 2)))
    payoffs = _random(ends, 4, 3, count=400)
    every = _every(payoffs)
    top = every.topk(2, 1).values
    lead = top[:, 0] - top[:, 1]
    changed, score, broken = [], [], 0
    for edge in range(len(ends)):
        mask = payoffs.kept.clone()
        mask[:, edge] = False
        moved = _every(replace(payoffs, kept=mask)).argmax(1) != every.argmax(1)
        table = payoffs.pair[:, edge].flatten(1)
        broken += int((moved & (table.amax(1) - table.amin(1) < lead)).sum())
        changed.append(moved.numpy())
        score.append(scores(payoffs.pair)[:, edge].numpy())
    order = np.argsort(np.concatenate(score))
    rates = [float(part.mean()) for part in np.array_split(np.concatenate(changed)[order], 4)]
    rises = all(low < high for low, high in itertools.pairwise(rates))
    return Finding(rises and not broken, say(rates_by_quarter=rates, bound_broken=broken))


@claim("Sensors are paid by their rule, and their optimum is the best of all joint actions, in plain loops.")
def sensors_are_paid_by_their_rule() -> Finding:
    world, off = sensors(2, 2), 0.0
    beside = {(0, 1): (3, 2), (2, 3): (3, 2), (0, 2): (1, 0), (1, 3): (1, 0)}  # Right or down of one, the reverse.
    joint, total = np.array(list(itertools.product(range(ACTIONS), repeat=4))), 0.0
    for state, targets in enumerate(world.states):
        best = -np.inf
        paid = world.paid(np.full(len(joint), state), joint)
        for number, actions in enumerate(joint.tolist()):
            earned = -COST * sum(action != REST for action in actions)
            for place, (item, other) in enumerate(world.between.tolist()):
                looked = (actions[item], actions[other]) == beside[item, other]
                earned += PAY * bool(looked and targets[place])
            off, best = max(off, abs(earned - float(paid[number]))), max(best, earned)
        total += best / len(world.states)
    return below(1e-12, off=off, optimum=abs(total - world.optimum))


@claim(
    "The loss is the squared error of the backup and lambda times the mean variance of payoffs, in float64.", "eq. 9"
)
def the_loss_is_that_of_the_backup_and_of_variances() -> Finding:
    world, key = sensors(2, 3), Key.of(5)
    state, off = SOLVER.init(world, Key.of(1)), 0.0
    names = [name[5:] for name in state if name.startswith("slow_")]
    draw = key.numpy()
    weights, slow = ({name: torch.tensor(state[name]) for name in names} for _ in range(2))
    slow = {name: item + 0.3 * torch.from_numpy(draw.normal(size=item.shape)).float() for name, item in slow.items()}
    states, actions = draw.integers(len(world.states), size=6), draw.integers(ACTIONS, size=(6, world.count))
    moments = np.hstack([states[:, None], actions, world.paid(states, actions)[:, None]])
    following = draw.integers(len(world.states), size=6)
    loss, error = SOLVER.loss(world, weights, slow, moments, following, key)
    errors, spread = [], []
    for number in range(6):
        then = _by_hand(weights=slow, state=int(following[number]))
        joint = max_sum(SOLVER.payoffs(world, slow, following[number : number + 1], key), SOLVER.rounds)[0].tolist()
        present = _by_hand(weights=weights, state=int(states[number]))
        target = moments[number, -1] + SOLVER.discount * _summed(*then, joint)
        errors.append((_summed(*present, actions[number].tolist()) - target) ** 2)
        spread += [(table.var(0).mean() + table.var(1).mean()) / 2 for table in present[1]]
    off = abs(float(np.mean(errors)) - error) / error
    expected = float(np.mean(errors)) + SOLVER.sparse * float(np.mean(spread))
    return below(1e-4, off=off, loss=abs(expected - float(loss)) / expected)


Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Factors = tuple[list[Array], list[Array]]


def _by_hand(weights: dict[str, torch.Tensor], state: int) -> Factors:
    """The factors of agents and of pairs, in float64."""
    world = sensors(2, 3)
    w = {name: item.double().numpy() for name, item in weights.items()}
    sight, single, pairs = world.seen[state], [], []
    for mine in sight:
        hidden = np.maximum(mine @ w["single_in"] + w["single_in_bias"], 0)
        single.append(hidden @ w["single_out"] + w["single_out_bias"])
    for number, (item, other) in enumerate(world.pairs):
        read = np.concatenate([sight[item], sight[other], world.sides[number]])
        hidden = np.maximum(read @ w["pair_in"] + w["pair_in_bias"], 0)
        form = (hidden @ w["pair_out"] + w["pair_out_bias"]).reshape(SOLVER.represent, -1)
        pairs.append(w["action"] @ form @ w["action"].T)
    return single, pairs


def _summed(single: list[Array], pairs: list[Array], actions: list[int]) -> float:
    """Q with the edges of the highest scores."""
    rank = [max(table.var(0).max(), table.var(1).max()) for table in pairs]
    best = np.argsort(rank)[::-1][: round(SOLVER.share * len(pairs))]
    ends = sensors(2, 3).pairs
    total = sum(float(mine[action]) for mine, action in zip(single, actions, strict=True))
    return total + sum(float(pairs[edge][actions[ends[edge][0]], actions[ends[edge][1]]]) for edge in best)


@claim(
    "With 30 % of the edges, those of the highest scores, six sensors come to 95 % of the optimum, as with all edges; "
    "with as many random edges they do not come to half.",
    "section 6",
    slow=True,
    learns=True,
)
def a_third_of_the_edges_keeps_the_return() -> Finding:
    world, shares = sensors(2, 3), {}
    for name, solver in (
        ("scores", SOLVER),
        ("all", replace(SOLVER, share=1.0)),
        ("random", replace(SOLVER, edges="random")),
    ):
        state = solver.init(world, Key.of(0))
        for number in range(CASEC.steps):
            state, _ = solver.step(world, state, Key.of(1).derive(number))
        shares[name] = world.value(solver.answer(world, state)) / world.optimum
    return Finding(min(shares["scores"], shares["all"]) > 0.95 and shares["random"] < 0.5, say(**shares))


claim.solved(CASEC, {"edges": "random"}, better={"value": 1}, steps=16)
