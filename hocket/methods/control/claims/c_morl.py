"""C-MORL's claims."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import cast

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.exact.fronts import TwoAims, treasure
from hocket.lab.exact.mdp import Array, softmax
from hocket.methods.control.c_morl import C_MORL, ConstrainedFront, archived, chosen, crowding, greedy, sloped

claim = Claims("c-morl", "arXiv:2410.02236")
SOLVER = cast(ConstrainedFront, C_MORL.solver)


def _scaled(world: TwoAims, policies: Array) -> Array:
    """Returns from the reference in units of the best, by the world's own forward pass."""
    moved: Array = (world.returns(policies) - world.reference) / (world.front.max(0) - world.reference)
    return moved


@claim("The gradients of both returns are the differences of returns when one logit moves.", "derived")
def the_gradients_are_differences_of_returns() -> Finding:
    world, rng, off, largest = treasure(3), Key.of(0).numpy(), 0.0, 0.0
    logits = rng.normal(size=(2, *world.process.reward.shape))
    returns, gradient, visits = sloped(world, softmax(logits))
    off = float(np.abs(returns - _scaled(world, softmax(logits))).max())
    for _ in range(30):
        policy, state, action = (int(rng.integers(size)) for size in logits.shape)
        moved = np.zeros_like(logits)
        moved[policy, state, action] = 1e-5
        up, down = (_scaled(world, softmax(logits + sign * moved)) for sign in (1, -1))
        slope = (up - down)[policy] / 2e-5
        off = max(off, float(np.abs(slope - gradient[policy, :, state, action]).max()))
        largest = max(largest, float(np.abs(slope).max()))
    moves = -world.returns(softmax(logits))[:, 1]
    return below(1e-8, largest > 1e-3, off=off, visits=float(np.abs(visits[:, :-1].sum(-1) - moves).max()))


@functools.cache
def _rounds() -> list[tuple[dict[str, Array], dict[str, float]]]:
    """The archive and the figures after every round."""
    world, rounds = treasure(5), []
    state = SOLVER.init(world, Key.of(0))
    for number in range(C_MORL.steps):
        state, figures = SOLVER.step(world, state, Key.of(number))
        rounds.append((dict(state), dict(figures)))
    return rounds


@claim(
    "In deep sea treasure the optima of 31 weighted sums are two points of the front, as is all that the first stage "
    "finds; the second stage adds the three in its dent, and the hypervolume is that of the whole front.",
    "section 4",
)
def the_second_stage_finds_what_no_weighted_sum_does() -> Finding:
    world, hull = treasure(5), set[tuple[float, ...]]()
    span = world.front.max(0) - world.reference
    for share in np.linspace(0, 1, 31):
        reward = world.rewards @ (np.array([share, 1 - share]) / span)
        best = replace(world.process, reward=reward).best.policy
        at, earned = world.process.start, np.zeros(2)
        for doing in best:  # An optimum may depend on the time, the front's policies do not.
            earned += np.einsum("s,sa,saj->j", at, doing, world.rewards)
            at = np.einsum("s,sa,sat->t", at, doing, world.process.transition)
        hull.add(tuple(np.round(earned, 9).tolist()))
    rounds = _rounds()
    first, last = (set(map(tuple, state["returns"].round(9).tolist())) for state in (rounds[3][0], rounds[-1][0]))
    front = set(map(tuple, world.front.tolist()))
    volume = rounds[-1][1]["hypervolume"]
    held = first <= hull and len(hull & front) == 2 and last == front and abs(volume - world.optimum) < 1e-9
    return Finding(held, say(of_weighted_sums=len(hull), first_stage=len(first), in_the_end=len(last), volume=volume))


@claim("Hypervolume and utility never fall as the archive grows, and what it keeps is dominated by nothing in it.")
def hypervolume_and_utility_never_fall() -> Finding:
    rounds = _rounds()
    fell = {name: -float(np.diff([each[name] for _, each in rounds]).min()) for name in ("hypervolume", "utility")}
    dominated = 0
    for state, _ in rounds:
        points = state["returns"]
        dominated += sum(
            bool(((points >= point) & (points != point).any(-1)[:, None]).all(-1).any()) for point in points
        )
    return Finding(max(fell.values()) <= 1e-12 and not dominated, say(**fell, dominated=dominated))


@claim(
    "After every accepted step the other return is at least b of what it was at the start, and the objective has "
    "risen; some step uses up what the bound leaves.",
    "eq. 5 and 6",
)
def the_bound_holds_after_every_step() -> Finding:
    world, least, rise, used = treasure(5), 1.0, 1.0, 1.0
    table = _rounds()[3][0]
    for start in table["archive"]:
        for aim in range(2):
            met, slack = SOLVER.extended(world, start, aim)
            if not len(met):  # The shallowest treasure is as near as any.
                continue
            path = _scaled(world, softmax(np.concatenate([start[None], met])))
            bounds = path[1:, 1 - aim] - SOLVER.bound * path[0, 1 - aim]
            least = min(least, float(bounds.min()))
            used = min(used, float((path[:, 1 - aim] / path[0, 1 - aim]).min()) - SOLVER.bound)
            rise = min(rise, float(np.diff(path[:, aim]).min()))
            if abs(slack - float(bounds.min())) > 1e-12:
                return Finding(False, say(slack=slack, recomputed=float(bounds.min())))
    return Finding(least > 0 and rise > 0 and used < 0.02, say(least_slack=least, least_rise=rise, unused=used))


@claim("The step is uphill of the log barrier `J_i + mu log(J_j - b J_j(start))`, by differences.", "eq. 6")
def the_step_is_uphill_of_the_barrier() -> Finding:
    world, rng, off = treasure(3), Key.of(1).numpy(), 0.0
    start = rng.normal(size=world.process.reward.shape)
    solver = replace(SOLVER, inner=1, size=1e-4, barrier=0.05)
    for aim in range(2):
        met, _ = solver.extended(world, start, aim)
        bound = solver.bound * _scaled(world, softmax(start[None]))[0, 1 - aim]

        def barrier(logits: Array, aim: int = aim, bound: float = bound) -> float:
            point = _scaled(world, softmax(logits[None]))[0]
            return float(point[aim] + solver.barrier * np.log(point[1 - aim] - bound))

        slope = np.zeros_like(start)
        for place in np.ndindex(start.shape):
            moved = np.zeros_like(start)
            moved[place] = 1e-5
            slope[place] = (barrier(start + moved) - barrier(start - moved)) / 2e-5
        step = met[0] - (start - start.max(-1, keepdims=True))
        step -= step.mean(-1, keepdims=True)
        wanted = 1e-4 * slope / np.abs(slope).max()
        off = max(off, float(np.abs(step - wanted).max() / 1e-4))
    return below(1e-4, off=off)


@claim("Crowding distances are those of the neighbours, ends first, and who was extended less often goes before.")
def crowding_distances_are_of_neighbours() -> Finding:
    points = np.array([[0.0, -1.0], [10.0, -11.0], [4.0, -3.0], [5.0, -9.0]])
    distance = crowding(points)
    by_hand = [np.inf, np.inf, 5 / 10 + 8 / 10, 6 / 10 + 8 / 10]
    order, tried = [], np.zeros(4, np.int64)
    for _ in range(5):
        order.append(chosen(points, tried.astype(np.float64)))
        tried[order[-1]] += 1
    held = np.allclose(distance[2:], by_hand[2:]) and np.isinf(distance[:2]).all() and order == [0, 1, 3, 2, 0]
    return Finding(bool(held), say(distance=distance[2:].tolist(), order=order))


@claim("Of equal returns the archive keeps the first, and a policy that dominates others takes their place.")
def the_archive_keeps_what_nothing_dominates() -> Finding:
    world = treasure(3)
    policies = np.zeros((3, *world.process.reward.shape))
    for column in range(3):  # Straight to each treasure.
        policies[column, :, 1], policies[column, :column] = 1, np.eye(4)[3]
    wanders = policies[2].copy()
    wanders[0] = np.eye(4)[2]  # Against the wall for ever.
    empty = {"archive": np.zeros((0, *wanders.shape)), "returns": np.zeros((0, 2)), "tried": np.zeros(0, np.int64)}
    state = archived(world, empty, wanders[None])
    item = archived(world, state, policies[:1])
    all_three = archived(world, item, np.concatenate([policies, policies]))
    sizes = [len(each["returns"]) for each in (state, item, all_three)]
    same = np.array_equal(world.returns(greedy(all_three["archive"])), world.front)
    return Finding(sizes == [1, 1, 3] and same, say(sizes=sizes))


@claim(
    "With ten treasures, of whose front weighted sums find two points, ten rounds find seven, and 95 % of the "
    "hypervolume; the three between the deepest stay out of reach.",
    slow=True,
)
def with_ten_treasures_it_finds_seven() -> Finding:
    world = treasure(10)
    state, volumes = SOLVER.init(world, Key.of(0)), []
    for number in range(C_MORL.steps):
        state, figures = SOLVER.step(world, state, Key.of(number))
        volumes.append(figures["hypervolume"] / world.optimum)
    first = volumes[SOLVER.rounds - 1]
    points = len(state["returns"])
    return Finding(volumes[-1] > 0.95 > first and points >= 7, say(share=volumes[-1], first_stage=first, points=points))


claim.solved(C_MORL, {"extends": False}, better={"value": 1})
