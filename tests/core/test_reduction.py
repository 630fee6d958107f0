"""The law: a gradient does not depend on how the batch is split, ordered or accumulated; coupled losses included."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from fakes import TablePolicy, random_trajectories
from hypothesis import given, settings
from hypothesis import strategies as st
from unrecorded import recordable

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.methods.preference.representation_reward_reranking import STATES
from hocket.recipe import Recipe
from hocket.recipes import all_recipes
from hocket.stages import Objective
from hocket.train.learner import Learner
from hocket.types import Evaluation, Quantity, Score, Terms
from hocket.update.problem import Problem

SECOND = {
    "safe-rlhf-v": "cost",
    "rluf": "love",
    "mpo-mixed": "preference",
    "mobile-r1-steps": "right",
    "mobile-r1": "finished",
}
"""Recipes that read a second score, and its name."""

SPLITTABLE = sorted(
    name
    for name, recipe in all_recipes().items()
    if recordable(name, recipe)
    and all(part.fits(TablePolicy(1, 1)) for part in recipe.policy_parts)
    and not (recipe.credit.needs_baseline or STATES in recipe.reads)
)


def problem_for(recipe: Recipe, policy: TablePolicy, batch: Batch) -> tuple[Problem, Batch]:
    learner = Learner(policy, recipe, total_steps=1)
    learner.reference = TablePolicy(5, 4, seed=99)
    credited = learner.compute_credit(learner.annotate(batch), {}, 1)
    problem = Problem(
        batch=credited,
        policy=policy,
        optimiser=torch.optim.SGD(policy.module.parameters(), lr=1.0),
        loss_terms=recipe.loss,
        needs=recipe.needs,
        couples=recipe.couples,
        idle_without_advantage=all(loss.idle_without_advantage for loss in recipe.losses),
        reference=learner.reference,
    )
    return problem, credited


def numbered_as_whole(part: Batch) -> torch.Tensor:
    decision = part.occurrences.decision
    return decision if part.taken is None else part.taken.decision[decision]


def gradient_of(recipe: Recipe, seed: int, *, chunk: int, order: list[int] | None = None) -> tuple[float, torch.Tensor]:
    trajectories = random_trajectories(seed)
    for number, trajectory in enumerate(trajectories if recipe.name in SECOND else ()):
        trajectory.scores[SECOND[recipe.name]] = Score(number % 3 / 2)
    if order is not None:
        trajectories = [trajectories[i] for i in order]
    policy = TablePolicy(5, 4, seed=1, chunk=chunk)
    batch = pack(trajectories)
    if order is not None:
        batch = batch.but(order=torch.tensor(order))  # The place in assignment order, by which ties are broken.
    problem, _ = problem_for(recipe, policy, batch)
    loss = problem.gradient()["loss"]
    flat = [torch.zeros_like(p) if p.grad is None else p.grad for p in policy.module.parameters()]
    return loss, torch.cat([g.flatten() for g in flat])


@pytest.mark.parametrize("name", SPLITTABLE)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 1000), fine=st.integers(1, 4), coarse=st.integers(5, 30))
def test_gradient_is_the_same_under_any_micro_batch_split(name: str, seed: int, fine: int, coarse: int) -> None:
    recipe = all_recipes()[name]
    whole_loss, whole = gradient_of(recipe, seed, chunk=10**9)
    for chunk in (fine, coarse):
        split_loss, split = gradient_of(recipe, seed, chunk=chunk)
        assert split_loss == pytest.approx(whole_loss, abs=1e-12)
        torch.testing.assert_close(split, whole, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("name", [n for n in SPLITTABLE if not all_recipes()[n].credit.pairs])
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 1000), data=st.data())
def test_gradient_is_the_same_under_any_order(name: str, seed: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(12)))
    _, plain = gradient_of(all_recipes()[name], seed, chunk=10**9)
    _, shuffled = gradient_of(all_recipes()[name], seed, chunk=10**9, order=order)
    torch.testing.assert_close(shuffled, plain, atol=1e-10, rtol=1e-7)


@dataclass(frozen=True)
class SquaredGroupMean(Objective):
    """A loss that couples whole groups: the square of each group's mean log-prob."""

    couples = Level.GROUP
    needs = frozenset({Quantity.LOGP})

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        groups = GroupBy("scenario")(batch)
        seen = batch.occurrences
        index = groups.index[seen.trajectory]
        total = torch.zeros(groups.size, dtype=now.logp.dtype).index_add(0, index, now.logp[seen.decision])
        mean = total / torch.bincount(index, minlength=groups.size)
        return Terms(mean.square(), torch.ones(groups.size, dtype=mean.dtype), Level.GROUP)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), chunk=st.integers(1, 20))
def test_a_loss_that_couples_groups_has_the_same_gradient_through_the_cotangent(seed: int, chunk: int) -> None:
    recipe = all_recipes()["grpo"].but(name="coupled", regularisers=(SquaredGroupMean(),))
    assert recipe.couples is Level.GROUP
    _, whole = gradient_of(recipe, seed, chunk=10**9)
    _, split = gradient_of(recipe, seed, chunk=chunk)
    torch.testing.assert_close(split, whole, atol=1e-12, rtol=1e-9)


def test_decisions_without_signal_are_not_evaluated() -> None:
    recipe = all_recipes()["grpo"]
    policy = TablePolicy(5, 4, seed=1)
    trajectories = random_trajectories(3)
    for trajectory in trajectories[:8]:  # Two of the three groups have equal rewards.
        trajectory.scores["correct"] = type(trajectory.scores["correct"])(1.0)
    for trajectory, reward in zip(trajectories[8:], (0.0, 1.0, 0.0, 1.0), strict=True):
        trajectory.scores["correct"] = type(trajectory.scores["correct"])(reward)
    problem, _ = problem_for(recipe, policy, pack(trajectories))
    policy.evaluated = 0
    problem.gradient()
    assert policy.evaluated == sum(t.length for t in trajectories[8:])


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 100), minibatches=st.integers(1, 5), level=st.sampled_from([Level.DECISION, Level.TRAJECTORY])
)
def test_minibatches_partition_the_occurrences(seed: int, minibatches: int, level: Level) -> None:
    policy = TablePolicy(5, 4, level=level)
    problem, batch = problem_for(all_recipes()["reinforce"], policy, pack(random_trajectories(seed)))
    parts = list(problem.batches(1, minibatches, Key.of(seed)))
    decisions = torch.cat([numbered_as_whole(part) for part in parts])
    assert sorted(decisions.tolist()) == sorted(batch.occurrences.decision.tolist())


def test_minibatches_of_a_pairwise_loss_keep_groups_whole() -> None:
    policy = TablePolicy(5, 4)
    problem, batch = problem_for(all_recipes()["dpo"], policy, pack(random_trajectories(0, groups=6)))
    for part in problem.batches(1, 3, Key.of(0)):
        counts = torch.bincount(part.scenario, minlength=6)
        assert set(counts.tolist()) <= {0, 4}
    kept = sum(len(part.occurrences.pairs) for part in problem.batches(1, 3, Key.of(0)))
    assert kept == len(batch.occurrences.pairs)
