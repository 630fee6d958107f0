"""Gradients over leaves: one fixed tree, the same bits on any number of ranks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fakes import TablePolicy, random_trajectories
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_threads import on_ranks
from torch import Tensor

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.distributed.cluster.leaves import Ranks, SingleProcess, TreeSum, climbed, leaves_of
from hocket.recipe import Recipe
from hocket.recipes import all_recipes
from hocket.train.learner import Learner

RECIPES = ("grpo", "dapo", "gvpo", "ppo", "gspo", "online-dpo", "grpo-kl")


# ---------------------------------------------------------------- the tree


def in_pairs(values: list[Tensor]) -> Tensor:
    """The sum of a balanced tree, told apart from how it is built."""
    half = len(values) // 2
    return values[0] if len(values) == 1 else in_pairs(values[:half]) + in_pairs(values[half:])


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**31), depth=st.integers(0, 5), ranks=st.integers(0, 3))
def test_any_number_of_ranks_sums_to_the_same_bits(seed: int, depth: int, ranks: int) -> None:
    count, size = 2**depth, 2 ** min(ranks, depth)
    values = list(torch.randn(count, 7, generator=torch.Generator().manual_seed(seed)) * 10.0 ** torch.arange(-3, 4))

    def part(rank: Ranks) -> Tensor:
        tree, share = TreeSum(), count // rank.size
        for value in values[share * rank.rank : share * (rank.rank + 1)]:
            tree.add(value.clone())
        return climbed(tree.total, rank)

    expected = in_pairs(values)
    assert all(torch.equal(found, expected) for found in on_ranks(size, part))


def test_the_order_matters_to_the_bits() -> None:
    values = [torch.tensor(value) for value in (1e8, 1.0, -1e8, 1.0)]
    assert float(in_pairs(values)) != float(sum(values, torch.tensor(0.0)))


def test_a_tree_wants_a_power_of_two() -> None:
    tree = TreeSum()
    for _ in range(3):
        tree.add(torch.ones(1))
    with pytest.raises(ValueError, match="power of two"):
        _ = tree.total


# ---------------------------------------------------------------- the partition


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), depth=st.integers(0, 4))
def test_leaves_are_a_partition_by_whole_scenarios(seed: int, depth: int) -> None:
    batch = pack(random_trajectories(seed))
    decisions = torch.arange(0, batch.decisions, 2)
    leaves = leaves_of(batch, decisions, 2**depth)
    assert len(leaves) == 2**depth
    assert torch.equal(torch.cat(leaves).sort().values, decisions)
    seen = batch.occurrences
    scenario = {int(d): int(batch.scenario[t]) for d, t in zip(seen.decision, seen.trajectory, strict=True)}
    owners = [{scenario[int(d)] for d in leaf} for leaf in leaves]
    assert sum(len(owner) for owner in owners) == len(set().union(*owners))
    assert all(bool((leaf[1:] > leaf[:-1]).all()) for leaf in leaves if len(leaf) > 1)


def test_leaves_are_balanced() -> None:
    batch = pack(random_trajectories(3))
    sizes = [len(leaf) for leaf in leaves_of(batch, torch.arange(batch.decisions), 2)]
    groups = torch.bincount(batch.scenario[batch.occurrences.trajectory])
    assert abs(sizes[0] - sizes[1]) <= int(groups.max())


# ---------------------------------------------------------------- the learner


def steps(recipe: Recipe, seed: int, leaves: int, ranks: Ranks, *, chunk: int = 10**9, count: int = 2) -> Any:
    """The weights after some updates, and what was told of them."""
    policy = TablePolicy(5, 4, seed=1, chunk=chunk)
    learner = Learner(policy, recipe, total_steps=count, leaves=leaves)
    learner.ranks = ranks
    told = []
    for step in range(1, count + 1):
        batch = learner.compute_credit(learner.annotate(pack(random_trajectories(seed + step))), {}, step)
        told.append(learner.learn(batch, Key.of(0).derive(step), step))
    return torch.cat([p.detach().flatten() for p in policy.module.parameters()]), told


def same(left: Any, right: Any) -> None:
    assert torch.equal(left[0], right[0])
    for one, other in zip(left[1], right[1], strict=True):
        assert one.keys() == other.keys()
        assert all(one[name] == other[name] or one[name] != one[name] for name in one)


@pytest.mark.parametrize("name", RECIPES)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 1000), size=st.sampled_from([2, 4]), leaves=st.sampled_from([4, 8]))
def test_any_number_of_ranks_learns_the_same_bits(name: str, seed: int, size: int, leaves: int) -> None:
    recipe = all_recipes()[name]
    alone = steps(recipe, seed, leaves, SingleProcess(), chunk=7)
    for found in on_ranks(size, lambda ranks: steps(recipe, seed, leaves, ranks, chunk=7)):
        same(found, alone)


@pytest.mark.parametrize("epochs", [1, 2])
def test_epochs_and_mini_batches_too(epochs: int) -> None:
    recipe = all_recipes()["ppo"].but({"update.epochs": epochs, "update.minibatches": 2})
    alone = steps(recipe, 5, 4, SingleProcess())
    for found in on_ranks(4, lambda ranks: steps(recipe, 5, 4, ranks)):
        same(found, alone)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("leaves", [2, 8])
def test_leaves_change_no_gradient_but_its_rounding(name: str, leaves: int) -> None:
    plain, split = (steps(all_recipes()[name], 11, count, SingleProcess()) for count in (1, leaves))
    torch.testing.assert_close(split[0], plain[0], atol=1e-6, rtol=1e-4)


def test_one_leaf_is_what_it_was() -> None:
    from hocket.distributed.cluster.leaves import LeafProblem
    from hocket.update.problem import Problem

    recipe = all_recipes()["grpo"]
    policy = TablePolicy(5, 4, seed=1)
    learner = Learner(policy, recipe, total_steps=1)
    batch = learner.compute_credit(learner.annotate(pack(random_trajectories(2))), {}, 1)
    problem = learner._problem(batch, 1.0)
    assert isinstance(problem, LeafProblem)
    found = []
    for gradient in (problem.gradient, lambda: Problem.gradient(problem)):
        gradient()
        found.append([p.grad.clone() for p in policy.module.parameters() if p.grad is not None])
    assert all(torch.equal(*both) for both in zip(*found, strict=True))


def test_a_weight_without_a_gradient_has_none_afterwards() -> None:
    policy = TablePolicy(5, 4, seed=1)
    spare = torch.nn.Parameter(torch.ones(3))
    policy.module.register_parameter("spare", spare)
    learner = Learner(policy, all_recipes()["grpo"], total_steps=1, leaves=4)
    batch = learner.compute_credit(learner.annotate(pack(random_trajectories(2))), {}, 1)
    learner.learn(batch, Key.of(0), 1)
    assert spare.grad is None
    assert torch.equal(spare, torch.ones(3))
