"""Action grouping's claims."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, gap, say
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.worlds import random
from hocket.methods.control.action_grouping import (
    ACTION_GROUPING,
    ActionGrouping,
    clusters,
    distances,
    drawn,
    expected,
    grouped,
    ladder,
    loss,
    planned,
)

claim = Claims("action-grouping", "the paper, as the catalogue has it from its abstract")
ROOT = Key.of(0).derive("action grouping")
SIZES = ladder(64)
SAMPLES = (100, 400, 1600, 6400, 25_600, 102_400)


@claim("The best policy of the planted groups loses at most 2 epsilon / (1 - discount), and less for smaller epsilon.")
def the_best_policy_of_the_planted_groups_loses_at_most_2_epsilon() -> Finding:
    used, losses, found = [], [], []
    for width in (0.4, 0.2, 0.1, 0.05):
        lost = []
        for seed in range(10):
            world = clusters(4, 64, width=width, seed=seed)
            labels = grouped(distances(world), (4,))[0]
            lost.append(world.optimum - world.value(planned(world, labels, world.transition)))
            used.append(lost[-1] / (2 * _epsilon(world, labels) / (1 - world.discount)))
            found.append(len(set(zip(labels.tolist(), _planted(seed), strict=True))) == 4)
        losses.append(float(np.mean(lost)))
    falls = all(after < before for before, after in itertools.pairwise(losses))
    return Finding(
        max(used) <= 1 and falls and all(found),
        say(share_of_the_bound=used, loss_by_width=[*losses], groups_found=found),
    )


def _planted(seed: int) -> list[int]:
    """The groups that `clusters` draws; without differences equal rows tell them."""
    world = clusters(4, 64, width=0.0, seed=seed)
    rows = world.transition.transpose(1, 0, 2).reshape(64, -1)
    return [int(np.flatnonzero((np.abs(rows - row) < 1e-12).all(1))[0]) for row in rows]


def _epsilon(world: TabularMDP, labels: Array) -> float:
    """The most by which an action's value differs from its group's mean, under the group's optimal values."""
    value = world.solved(planned(world, labels.astype(np.int64), world.transition)).value
    quality, most = world.backup(value), 0.0
    for group in set(labels.tolist()):
        mine = quality[:, labels == group]
        most = max(most, float(np.abs(mine - mine.mean(1, keepdims=True)).max()))
    return most


@claim("The partition is nested and no two groups could be joined with a smaller largest distance than the next pair.")
def the_partition_is_nested_and_no_two_groups_could_be_joined_with() -> Finding:
    world = clusters(3, 12, seed=5)
    apart = distances(world)
    sizes = range(1, 13)
    labels = grouped(apart, sizes)
    nested, gaps = [], []
    for fewer, more in itertools.pairwise(labels):
        pairs = set(zip(fewer.tolist(), more.tolist(), strict=True))
        nested.append(len(pairs) == more.max() + 1)
        # Joining the best two of the finer groups gives the coarser one.
        widths = {
            (one, other): apart[np.ix_((more == one) | (more == other), (more == one) | (more == other))].max()
            for one in range(more.max() + 1)
            for other in range(one)
        }
        joined = next(pair for pair in widths if len({fewer[more == number][0] for number in pair}) == 1)
        gaps.append(widths[joined] - min(_across(apart, more, *pair) for pair in widths))
    return Finding(all(nested) and max(gaps) < 1e-12, say(nested=nested, largest_difference=max(gaps)))


def _across(apart: Array, labels: Array, one: int, other: int) -> float:
    """The largest distance in the union of two groups."""
    both = (labels == one) | (labels == other)
    return float(apart[np.ix_(both, both)].max())


@claim("What estimation is expected to be off by is what it is off by, as the samples grow.")
def what_estimation_is_expected_to_be_off_by_is_what_it_is_off_by() -> Finding:
    ratios = []
    for seed in range(4):
        world = clusters(4, 64, width=0.2, seed=seed)
        labels = grouped(distances(world), (16,))[0]
        seen = drawn(world, np.zeros_like(world.transition), 60_000, ROOT.derive("noise", seed))
        member: Array = np.eye(16)[labels]
        truth = np.einsum("sat,ag->sgt", world.transition, member / member.sum(0))
        counts = np.einsum("sat,ag->sgt", seen, member)
        off = 0.5 * np.abs(counts / counts.sum(-1, keepdims=True) - truth).sum(-1).mean()
        ratios.append(off / expected(world, labels, seen)[1])
    return Finding(min(ratios) > 0.6 and max(ratios) < 1.6, say(actual_to_expected=ratios))


@claim("Distances, expected errors and the loss that chooses are those that their formulas come to, entry by entry.")
def distances_expected_errors_and_the_loss_that_chooses_are_those() -> Finding:
    gaps = []
    for seed in range(5):
        world, key = replace(random(3, 5, seed=seed), discount=0.7), ROOT.derive("by hand", seed)
        labels, seen = np.array([0, 1, 0, 0, 1]), drawn(world, np.zeros_like(world.transition), 40, key)
        worth = 0.7 * (world.reward.max() - world.reward.min()) / 0.3
        apart, near, noise = np.zeros((5, 5)), dict[int, float](), dict[int, float]()
        for one, other, state in np.ndindex(5, 5, 3):
            far = 0.5 * sum(abs(world.transition[state, one] - world.transition[state, other]))
            paid = abs(world.reward[state, one] - world.reward[state, other])
            apart[one, other] = max(apart[one, other], paid + worth * far)
        for groups, label in ((2, labels), (1, np.zeros(5, np.int64))):
            farthest, spread = [], []
            for state in range(3):
                for group in range(groups):
                    members = np.flatnonzero(label == group)
                    centre = np.mean([world.transition[state, one] for one in members], 0)
                    paid = np.mean([world.reward[state, one] for one in members])
                    farthest.append(
                        max(
                            0.5 * abs(world.transition[state, one] - centre).sum()
                            + abs(world.reward[state, one] - paid) / worth
                            for one in members
                        )
                    )
                share = (seen[state].sum(0) + 1 / 3) / (seen[state].sum() + 1)
                each = 40 / (3 * groups)
                spread.append(sum(0.5 * math.sqrt(2 * p * (1 - p) / (math.pi * each)) for p in share))
            near[groups], noise[groups] = float(np.mean(farthest)), float(np.mean(spread))
        wanted = near[2] + noise[2] * min(1.0, noise[2] / near[1])
        told = expected(world, labels, seen)
        gaps += [gap(distances(world).tolist(), apart.tolist()), gap(list(told), [near[2], noise[2]])]
        gaps.append(abs(loss(world, labels, seen) - wanted))
    return Finding(max(gaps) < 1e-12, say(largest_difference=max(gaps)))


@cache
def losses() -> dict[int, tuple[Array, list[int]]]:
    """By samples: what each number of groups loses on average over 12 worlds, and the rungs that were chosen."""
    found = {}
    for samples in SAMPLES:
        lost, chosen = [], []
        for seed in range(12):
            world = clusters(4, 64, width=0.2, seed=200 + seed)
            labels = grouped(distances(world), SIZES)
            seen = drawn(world, np.zeros_like(world.transition), samples, ROOT.derive("samples", samples, seed))
            lost.append([world.optimum - world.value(planned(world, one, seen)) for one in labels])
            chosen.append(int(np.argmin([loss(world, one, seen) for one in labels])))
        found[samples] = np.mean(lost, 0), chosen
    return found


@claim(
    "The loss over the number of groups is U-shaped, and its minimum moves to finer groups as samples grow.", slow=True
)
def the_loss_over_the_number_of_groups_is_u_shaped_and_its_minimum() -> Finding:
    best = [int(lost.argmin()) for lost, _ in losses().values()]
    shaped = [
        bool((np.diff(lost[: at + 1]) < 0).all() and (np.diff(lost[at:]) > -0.01).all())
        for (lost, _), at in zip(losses().values(), best, strict=True)
    ]
    holds = best == sorted(best) and best[0] < best[-1] and 0 < best[0] < len(SIZES) - 1 and all(shaped)
    said = {f"{samples} samples": [round(float(x), 3) for x in lost] for samples, (lost, _) in losses().items()}
    return Finding(holds, f"numbers of groups {SIZES}, losses {said}")


@claim("The number that it chooses is within one step of the best for every number of samples.", slow=True)
def the_number_that_it_chooses_is_within_one_step_of_the_best_for() -> Finding:
    off = {
        samples: max(abs(rung - int(lost.argmin())) for rung in chosen) for samples, (lost, chosen) in losses().items()
    }
    most = {
        samples: float(np.mean([lost[rung] for rung in chosen]) - lost.min())
        for samples, (lost, chosen) in losses().items()
    }
    return Finding(max(off.values()) <= 1, say(steps_off=str(off), loss_more_than_the_best=list(most.values())))


@claim("With as many groups as actions it is certainty-equivalent planning.")
def with_as_many_groups_as_actions_it_is_certainty_equivalent() -> Finding:
    gaps = []
    for seed in range(5):
        world, key = clusters(4, 16, seed=seed), Key.of(seed)
        solver = ActionGrouping(groups=16, samples=5000)
        state, _ = solver.step(world, solver.init(world, key), key)
        seen = state["seen"]
        assert seen.sum(-1).min() > 0
        model = TabularMDP(seen / seen.sum(-1, keepdims=True), world.reward, world.start, None, world.discount)
        gaps.append(gap(model.best.policy.tolist(), solver.answer(world, state).tolist()))
    return Finding(max(gaps) == 0, say(largest_difference=max(gaps)))


@claim(
    "The numbers of groups to choose from are powers of four and all actions; others are refused, and worlds with a "
    "horizon."
)
def the_numbers_of_groups_to_choose_from_are_powers_of_four_and_all() -> Finding:
    rungs = {actions: ladder(actions) for actions in (1, 3, 4, 17, 64)}
    wanted = {1: [1], 3: [1, 3], 4: [1, 4], 17: [1, 4, 16, 17], 64: [1, 4, 16, 64]}
    world, refused = clusters(4, 17), []
    for groups in (0, 1, 4, 5, 16, 17, 64):
        try:
            ActionGrouping(groups=groups).checked(world)
        except ConfigurationError:
            refused.append(groups)
    try:
        ActionGrouping().checked(replace(world, horizon=3))
    except ConfigurationError:
        refused.append(-1)
    return Finding(rungs == wanted and refused == [5, 64, -1], say(refused=str(refused)))


@claim(
    "Without samples the noise is 1 and a grouping's loss what it is off by and 1; noise beyond the first error of one "
    "group counts as it is."
)
def without_samples_the_noise_is_1_and_a_groupings_loss_what_it_is() -> Finding:
    world, labels = replace(random(3, 5, seed=1), discount=0.7), np.array([0, 1, 0, 0, 1])
    near, noise = expected(world, labels, np.zeros_like(world.transition))
    # Actions that nearly agree, and so few samples that noise exceeds what there is to tell apart.
    alike = clusters(2, 8, width=1e-3, seed=1)
    one = np.zeros(8, np.int64)
    alike = replace(alike, transition=0.01 * alike.transition + 0.99 * alike.transition[:, :1])
    seen = drawn(alike, np.zeros_like(alike.transition), 20, ROOT.derive("few"))
    every, much = expected(alike, one, seen)
    gaps = [
        abs(noise - 1),
        abs(loss(world, labels, np.zeros_like(world.transition)) - near - 1),
        abs(loss(alike, one, seen) - every - much),
    ]
    return Finding(max(gaps) < 1e-12 and 0 < every < much < 1, say(largest_difference=max(gaps), noise=much))


@claim("What a group never did is planned to lead anywhere, for the mean reward of all that was seen; by hand.")
def what_a_group_never_did_is_planned_to_lead_anywhere_for_the_mean() -> Finding:
    gaps, unseen = [], 0
    for seed in range(20):
        world, noise = replace(random(3, 5, seed=seed), discount=0.7), ROOT.derive("unseen", seed).numpy()
        labels, seen = np.array([0, 1, 2, 0, 1]), np.zeros((3, 5, 3))
        for state, action, after in zip(*noise.integers((3, 5, 3), size=(seed, 3)).T, strict=True):
            seen[state, action, after] += 1
        move, paid = np.full((3, 3, 3), 1 / 3), np.zeros((3, 3))
        total = sum(world.reward[state, action] * seen[state, action].sum() for state, action in np.ndindex(3, 5))
        for state, group in np.ndindex(3, 3):
            members = [action for action in range(5) if labels[action] == group]
            visits = [float(seen[state, action].sum()) for action in members]
            paid[state, group] = total / seen.sum() if seed else 0.0
            if sum(visits):
                move[state, group] = sum(seen[state, action] for action in members) / sum(visits)
                paid[state, group] = sum(
                    visit * world.reward[state, action] for visit, action in zip(visits, members, strict=True)
                ) / sum(visits)
            unseen += sum(visits) == 0
        best = TabularMDP(move, paid, world.start, None, 0.7).best.policy
        wanted = np.stack([best[:, labels[action]] / np.bincount(labels)[labels[action]] for action in range(5)], 1)
        gaps.append(gap(planned(world, labels, seen).tolist(), wanted.tolist()))
    return Finding(max(gaps) < 1e-12 and unseen > 20, say(largest_difference=max(gaps), groups_unseen=unseen))


claim.spares("-1 -> 1", "the last of two dimensions")
claim.spares("1e-09 -> 4e-08", "without samples the noise is 1 either way")
claim.spares("1.0 -> 40.0", "in line 98, the second: the share is 1 at most as it is")
claim.spares(
    "noise.random((samples, 1)) * edges[:, -1:] -> noise.random((samples, 1))", "the last edge is 1 but for rounding"
)
claim.spares("actions - groups -> actions + groups", "more are drawn than are needed, and cut off")
claim.spares("actions - groups -> actions", "more are drawn than are needed, and cut off")


claim.solved(ACTION_GROUPING, {"groups": 64}, better={"regret": -1})
