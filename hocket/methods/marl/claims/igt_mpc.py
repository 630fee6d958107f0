"""Claims of planning with a value learnt from equilibria."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.exact.crossings import CHOICES, EFFORT, LATE, Crossing, crossing
from hocket.exact.mdp import Array
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.claims.solved import SolvedRun
from hocket.methods.marl.igt_mpc import IGT_MPC, InteractionValue, gathered, inputs

claim = Claims("igt-mpc", "abstract")


def exact(world: Crossing) -> Array:
    """What the rest of the way costs both in the equilibrium from every state; a sure crash costs 20."""
    found = world.free.copy()
    sizes = (range(world.through), range(3), range(world.through), range(3))
    for state in itertools.product(*sizes):
        if world.shared[state[0]] and world.shared[state[2]]:
            continue
        drives = world.equilibrium(np.array(state))
        costs = (20.0, 20.0) if drives is None else (drives[0].costs[0], drives[1].costs[0])
        found[(0, *state)], found[(1, *state[2:], *state[:2])] = costs
    return found


def driven(world: Crossing, place: int, speed: int, plan: tuple[int, ...], taken: NDArray[np.bool_]) -> float:
    """What a plan costs, step by step; infinite where it meets the other."""
    total = 0.0
    for time, choice in enumerate(plan):
        if place < world.approach + 2:
            total += 1 + EFFORT * (choice != 1)
        speed = min(max(speed + int(CHOICES[choice]), 0), 2)
        place = min(place + speed, world.approach + 2)
        if taken[time + 1] and world.approach <= place < world.approach + 2:
            return float("inf")
    return total + LATE * (place < world.approach + 2)


@claim("The cost of the best answer is the least of all plans, tried one by one.")
def _() -> Finding:
    world, draw, off = Crossing(3, steps=6), Key.of(0).numpy(), 0.0
    for _ in range(12):
        taken = draw.random(7) < 0.3
        place, speed = int(draw.integers(0, 4)), int(draw.integers(0, 3))
        least = min(driven(world, place, speed, plan, taken) for plan in itertools.product(range(3), repeat=6))
        answered = float(world.answered(taken)[0, place, speed])
        if np.isfinite(least) or np.isfinite(answered):
            off = max(off, abs(least - answered), abs(world.best_drive(place, speed, taken).costs[0] - least))
    return below(1e-12, off=off)


@claim("In what is kept of a game neither could do better against the other's drive, and the two never meet.")
def _() -> Finding:
    world, gain, met, first = crossing(8), 0.0, False, 0
    for start in world.starts:
        drives = world.equilibrium(start)
        assert drives is not None
        for car in (0, 1):
            taken = world.shared[drives[1 - car].places]
            gain = max(gain, float(drives[car].costs[0] - world.answered(taken)[0, start[2 * car], start[2 * car + 1]]))
        met |= bool((world.shared[drives[0].places] & world.shared[drives[1].places]).any())
        if (start[:2] == start[2:]).all():
            first += int(drives[0].costs[0] < drives[1].costs[0])
    return below(1e-12, not met, first > 0, gain=gain)


@claim("A plan of one step with the exact rest costs what the equilibrium does; with the rest of one alone cars crash.")
def _() -> Finding:
    world = crossing(8)
    drives = [world.equilibrium(start) for start in world.starts]
    known = np.mean([(one[0].costs[0] + one[1].costs[0]) / 2 for one in drives if one is not None])
    cost, crashed, late = world.driving(exact(world))
    alone, hit, _ = world.driving(world.free)
    off = abs(float(cost.mean()) - known)
    return Finding(
        off < 1e-9 and not crashed.any() and not late.any() and hit.mean() > 0.05,
        say(off=float(off), equilibrium=float(known), alone=float(alone.mean()), crashes_alone=float(hit.mean())),
    )


@claim("A plan is the cheapest of all that do not meet the forecast, and braking where all do.")
def _() -> Finding:
    world, draw, off, braked = Crossing(4, look=2), Key.of(5).numpy(), 0.0, 0
    rest = draw.uniform(0, 3, (world.through + 1, 3, world.through + 1, 3))
    states = draw.integers(0, (world.through, 3, world.through, 3), (300, 4))
    forecast = draw.integers(0, 3, (300, 2))
    for state, told, plan in zip(states, forecast, world.planned(rest, states, forecast), strict=True):
        costs = {}
        for tried in itertools.product(range(3), repeat=2):
            own, speed, other, going = (int(one) for one in state)
            total = 0.0
            for mine, theirs in zip(tried, told, strict=True):
                total += (1 + EFFORT * (mine != 1)) * (own < world.through)
                speed, going = (min(max(one, 0), 2) for one in (speed + 1 - mine, going + 1 - int(theirs)))
                own, other = min(own + speed, world.through), min(other + going, world.through)
                if 4 <= own < 6 and 4 <= other < 6:
                    total = np.inf
            costs[tried] = total + rest[own, speed, other, going]
        least = min(costs.values())
        braked += not np.isfinite(least)
        off += tuple(plan) != (2, 2) if not np.isfinite(least) else abs(costs[tuple(int(c) for c in plan)] - least)
    return below(1e-12, braked > 0, off=float(off))


@claim("It learns from states on the way what each one's drive still costs above being alone, as counted by hand.")
def _() -> Finding:
    world, off = crossing(6), 0.0
    told, delay = gathered(world, 6, Key.of(2))
    draw, place = Key.of(2).derive("starts").numpy(), 0
    for _ in range(6):
        start = draw.integers(0, (6, 3, 6, 3))
        drives = world.equilibrium(start)
        for car in (0, 1) if drives is not None else ():
            assert drives is not None
            own, other = drives[car], drives[1 - car]
            for time in range(world.steps + 1):
                if own.places[time] >= world.through or other.places[time] >= world.through:
                    continue
                left = LATE * (own.places[-1] < world.through)
                for later in range(time, world.steps):
                    changed = own.speeds[later + 1] != own.speeds[later]
                    left += (1 + EFFORT * changed) * (own.places[later] < world.through)
                row = np.array([[car, own.places[time], own.speeds[time], other.places[time], other.speeds[time]]])
                alone = world.free[0, row[0, 1], row[0, 2], 0, 0]
                off = max(
                    off, abs(delay[place] - (left - alone)), float(np.abs(told[place] - inputs(world, row)).max())
                )
                place += 1
    return below(1e-12, place == len(delay), len(delay) > 10, off=off)


@claim("The network reads places and speeds near 1, and is two layers of tanh and a sum, never below 0.")
def _() -> Finding:
    world, solver, off = crossing(5), InteractionValue(hidden=3), 0.0
    noise = Key.of(4).derive("layers").numpy()
    state = {name: noise.normal(size=array.shape) for name, array in solver.init(world, Key.of(0)).items()}
    found = solver.answer(world, state)
    for car, own, speed, other, going in itertools.product(range(2), range(8), range(3), range(8), range(3)):
        told = [2 * car - 1, own / 5, speed - 1, (other - own) / 5, going - 1]
        for place in range(3):
            layer = state[f"layer {place}"]
            units = range(layer.shape[1])
            sums = [float(sum(layer[row, one] * x for row, x in enumerate(told)) + layer[-1, one]) for one in units]
            told = [float(np.tanh(one)) for one in sums] if place < 2 else sums
        delay = 0 if world.through in (own, other) else max(float(told[0]), 0)
        off = max(off, abs(found[car, own, speed, other, going] - world.free[car, own, speed, other, going] - delay))
    return below(1e-12, off=off)


@claim("With the learned rest there are fewer crashes at the same look ahead, on every seed; a long look needs it not.")
def _() -> Finding:
    learned, alone = [], float(crossing(8).driving(crossing(8).free)[1].mean())
    far = Crossing(8, look=4)
    far_alone = float(far.driving(far.free)[1].mean())
    for seed in range(3):
        world, solver = crossing(8), InteractionValue()
        state = solver.init(world, Key.of(seed))
        for step in range(20):
            state, _ = solver.step(world, state, Key.of(seed).derive(step))
        learned.append(float(world.driving(solver.answer(world, state))[1].mean()))
    return Finding(
        max(learned) < alone / 2 and far_alone == 0, say(learned=learned, alone=alone, alone_four_ahead=far_alone)
    )


def _fits(with_it: SolvedRun, without: SolvedRun) -> dict[str, float]:
    return {"examples": with_it.column("examples")[-1], "error falls": 0.1 - with_it.column("error")[-1]}


claim.solved(IGT_MPC, {"games": 0}, better={"value": 1}, sees=_fits)
