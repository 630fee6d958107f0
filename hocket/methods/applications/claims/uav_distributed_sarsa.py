"""Claims about drones that learn by SARSA, each by itself."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.exact.cooperative import penalty
from hocket.lab.exact.mdp import Array
from hocket.lab.toys.teams import interval
from hocket.methods.applications.uav_distributed_sarsa import (
    CHANNELS,
    DISCOUNT,
    UAV_DISTRIBUTED_SARSA,
    DistributedSarsa,
    drones,
    served,
    users,
)

claim = Claims("uav-distributed-sarsa", "the abstract, with the usual update of SARSA")

WORLD = functools.cache(drones)


def _matched(places: Array, where: Array) -> int:
    """A largest matching of users to channels, by augmenting paths."""
    channels = [drone for drone in range(len(places)) for _ in range(CHANNELS)]
    near = [[int(np.abs(user - places[drone]).sum()) <= 1 for drone in channels] for user in where]
    holder: list[int | None] = [None] * len(channels)

    def placed(user: int, met: set[int]) -> bool:
        for channel in range(len(channels)):
            if near[user][channel] and channel not in met:
                met.add(channel)
                other = holder[channel]
                if other is None or placed(other, met):
                    holder[channel] = user
                    return True
        return False

    return sum(placed(user, set()) for user in range(len(where)))


@claim("As many users are served as a largest matching to channels has, found by augmenting paths.")
def as_many_users_are_served_as_a_matching_has() -> Finding:
    wrong, shared = 0, 0
    for size, seed in itertools.product((3, 4, 5), range(20)):
        draw = Key.of(seed).derive("places", size).numpy()
        places, where = draw.integers(0, size, (2, 2)).astype(float), users(size)
        wrong += served(places, where) != _matched(places, where)
        shared += bool((np.abs(where[:, None] - places).sum(-1) <= 1).all(1).any())
    return Finding(wrong == 0 and shared > 10, say(wrong=wrong, cases_with_shared_users=shared))


@claim(
    "No drone ever flies further than one cell, or out of the grid; what is paid is the share of users served after."
)
def no_drone_flies_further_than_one_cell() -> Finding:
    size = 4
    process, where, off, furthest = WORLD(size).process, users(size), 0.0, 0
    for state, joint in itertools.product(range(0, size**4, 17), range(25)):
        (then,) = np.flatnonzero(process.transition[state, joint])
        cells = [
            np.array(divmod(cell, size)) for cell in (*divmod(state, size * size), *divmod(int(then), size * size))
        ]
        furthest = max(furthest, *(int(np.abs(cells[drone + 2] - cells[drone]).sum()) for drone in (0, 1)))
        paid = _matched(np.stack(cells[2:]).astype(float), where) / len(where)
        off = max(off, abs(paid - float(process.reward[state, joint])))
    return Finding(furthest == 1 and off < 1e-12, say(furthest=furthest, off=off))


@claim("Two of its updates are the paper's, counted by hand along an episode; Q-learning's differ.", "the update")
def its_updates_are_counted_by_hand() -> Finding:
    world, solver, key = WORLD(3), DistributedSarsa(episodes=1, length=12, lr=0.25), Key.of(4)
    start = {**solver.init(world, key), "steps": np.asarray(10)}
    start["quality"] = Key.of(5).numpy().normal(size=start["quality"].shape)
    after = solver.step(world, start, key)[0]["quality"]
    # The same draws, replayed: which moves are tried and what they are.
    draw, chance = key.derive("episodes").numpy(), 1 - 0.95 * 10 / 60
    values, process = start["quality"].copy(), world.process

    def chosen(place: int) -> list[int]:
        tries = draw.random(2) < chance
        return [int(draw.integers(5)) if tries[k] else int(np.argmax(values[k][place])) for k in range(2)]

    place = int(draw.choice(process.states, p=process.start))
    moves, path = chosen(place), []
    for _ in range(12):
        joint = 5 * moves[0] + moves[1]
        then = int(np.argmax(process.transition[place, joint]))
        later = chosen(then)
        for k in range(2):
            target = process.reward[place, joint] + DISCOUNT * values[k][then, later[k]]
            values[k][place, moves[k]] = 0.75 * values[k][place, moves[k]] + 0.25 * target
        path.append(place)
        place, moves = then, later
    off = float(np.abs(values - after).max())
    greedy = DistributedSarsa(episodes=1, length=12, lr=0.25, on_policy=False).step(world, start, key)[0]["quality"]
    return Finding(off < 1e-12 and np.abs(greedy - after).max() > 1e-3, say(off=off, states_met=len(set(path))))


@functools.cache
def _run(size: int, seed: int, on_policy: bool) -> tuple[float, float]:
    """The share of the optimal value that its answer has, and the share of users that it serves in the end."""
    world, solver, key = WORLD(size), DistributedSarsa(on_policy=on_policy), Key.of(seed)
    state = solver.init(world, key)
    for number in range(UAV_DISTRIBUTED_SARSA.steps):
        state, _ = solver.step(world, state, key.derive(number))
    answer, reward = solver.answer(world, state), world.process.reward
    goes, ends = world.process.transition.argmax(-1), []
    for place in range(size**4):
        for _ in range(4 * size):
            joint = int(answer[place].argmax())
            ends.append(float(reward[place, joint]))
            place = int(goes[place, joint])
    cover = np.array(ends).reshape(size**4, -1)[:, -size:].mean()
    return world.value(answer) / world.optimum, float(cover)


def _best_cover(size: int) -> float:
    """The largest share of users that two drones serve, over all pairs of cells."""
    where, spots = users(size), np.array(list(itertools.product(range(size), repeat=2)), float)
    pairs = itertools.combinations_with_replacement(range(len(spots)), 2)
    return max(_matched(spots[list(pair)], where) for pair in pairs) / len(where)


@claim(
    "From anywhere the drones come to serve, on average, at least 95 % of the users that the best of all placements "
    "does, and earn at least 90 % of the optimum over joint moves, in each of 3 seeds.",
    slow=True,
    learns=True,
)
def the_drones_come_to_serve_nearly_all() -> Finding:
    best = _best_cover(4)
    runs = [_run(4, seed, True) for seed in range(3)]
    cover, value = [row[1] / best for row in runs], [row[0] for row in runs]
    return Finding(min(cover) >= 0.95 and min(value) >= 0.9, say(cover=cover, value=value, best_cover=best))


@claim(
    "SARSA and independent Q-learning earn equally much here: over 10 seeds the interval of the difference has 0, or "
    "is within 3 % of the optimum.",
    slow=True,
)
def sarsa_and_q_learning_earn_equally_much() -> Finding:
    gaps = [_run(4, seed, True)[0] - _run(4, seed, False)[0] for seed in range(10)]
    low, high = interval(gaps)
    return Finding(
        low <= 0 <= high or max(abs(low), abs(high)) < 0.03, say(low=low, high=high, mean=float(np.mean(gaps)))
    )


@claim(
    "In Claus and Boutilier's penalty game independent learners find no best pair: they settle for a fifth of what it "
    "pays."
)
def in_the_penalty_game_independent_learners_fall_short() -> Finding:
    world, solver, key = penalty(2), DistributedSarsa(episodes=10, decay=20), Key.of(0)
    state = solver.init(world, key)
    for number in range(30):
        state, _ = solver.step(world, state, key.derive(number))
    share = world.value(solver.answer(world, state)) / world.optimum
    return Finding(abs(share - 0.2) < 1e-6, say(share=share))


claim.solved(UAV_DISTRIBUTED_SARSA, {"on_policy": False})
