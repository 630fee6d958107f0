"""The first-order update: schedules, clipping, early ends and poisoned batches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from fakes import TablePolicy, random_trajectories
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import Batch, Level
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.recipes import find
from hocket.stages import Objective
from hocket.train.learner import Learner
from hocket.types import Evaluation, Quantity, Terms
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem


@given(warmup=st.integers(0, 50), total=st.integers(1, 200), step=st.integers(1, 200))
def test_warmup_rises_linearly_and_schedules_end_near_zero(warmup: int, total: int, step: int) -> None:
    for schedule in ("constant", "linear", "cosine"):
        factor = GradientStep(warmup=warmup, schedule=schedule).lr_factor(step, total)
        assert 0.0 <= factor <= 1.0
        if step <= warmup:
            assert factor == pytest.approx(step / warmup)
        elif schedule == "constant":
            assert factor == 1.0
        elif total > warmup and step <= total:
            progress = (step - 1 - warmup) / (total - warmup)
            expected = 1 - progress if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * progress))
            assert factor == pytest.approx(expected)


def one_update(policy: TablePolicy, *, changes: dict[str, object], recipe: str = "reinforce") -> dict[str, float]:
    chosen = find(recipe).but(changes)
    learner = Learner(policy, chosen, total_steps=10)
    batch = learner.compute_credit(learner.annotate(pack(random_trajectories(0))), {}, 1)
    return learner.learn(batch, Key.of(0), step=1)


def test_the_gradient_is_scaled_to_its_norm_before_the_step() -> None:
    free, clipped = TablePolicy(5, 4, seed=1), TablePolicy(5, 4, seed=1)
    norm = one_update(free, changes={"update.clip_norm": None})["gradient/norm"]
    again = one_update(clipped, changes={"update.clip_norm": norm / 10})["gradient/norm"]
    assert again == pytest.approx(norm)
    # Adam's first step does not depend on the scale of the gradient, its second moment does.
    assert not torch.equal(clipped.module["logits"], TablePolicy(5, 4, seed=1).module["logits"])


def test_a_term_of_weight_0_is_worth_nothing_whatever_its_value() -> None:
    value = torch.tensor([math.nan, 1.0, math.inf, 2.0], requires_grad=True)
    total = Terms(value, torch.tensor([0.0, 3.0, 0.0, 0.5])).total()
    total.backward()
    assert total.item() == 4.0
    assert value.grad is not None
    assert value.grad.tolist() == [0.0, 3.0, 0.0, 0.5]
    assert float(Terms(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 0.5])).total()) == 4.0
    with pytest.raises(IndexError):
        Terms(torch.tensor([1.0]), torch.tensor([3.0, 0.5])).total()


@pytest.mark.parametrize("idle", [0, 2])
def test_losses_see_recorded_log_probs_where_nothing_was_evaluated(idle: int) -> None:
    policy, batch, seen = TablePolicy(5, 4, seed=1), pack(random_trajectories(0)), []
    advantage = torch.ones(len(batch.occurrences))
    still = torch.unique(batch.occurrences.decision)[:idle]
    advantage[torch.isin(batch.occurrences.decision, still)] = 0.0
    weight = torch.ones(len(batch.occurrences))

    def loss_terms(now: Evaluation, of: Batch) -> list[Terms]:
        seen.append(now.logp.detach())
        return [Terms(now.logp[of.occurrences.decision], of.occurrences.weight * of.occurrences.advantage)]

    problem = Problem(
        batch.credited(advantage=advantage, weight=weight),
        policy,
        torch.optim.SGD(policy.module.parameters(), lr=1.0),
        loss_terms,
        frozenset({Quantity.LOGP}),
        Level.DECISION,
        idle_without_advantage=True,
    )
    problem.measured()
    problem.gradient()
    expected = policy.evaluate(batch, {Quantity.LOGP}).logp.detach()
    recorded = batch.logp["behaviour"].values.to(expected.dtype)
    assert not torch.isclose(expected, recorded).any()
    expected[still] = recorded[still]
    for logp in seen:
        torch.testing.assert_close(logp, expected)


@pytest.mark.parametrize(
    "dtypes", [(torch.float32,), (torch.float64,), (torch.bfloat16,), (torch.float32, torch.float64)]
)
@pytest.mark.parametrize("limit", [None, 1e-3, 1e3])
def test_gradients_are_clipped_as_by_torch_to_the_last_bit(
    dtypes: tuple[torch.dtype, ...], limit: float | None
) -> None:
    shapes, draw = [(3, 5), (7,), (), (4, 1)], torch.Generator().manual_seed(2)
    ours = [torch.zeros(shape, dtype=dtypes[n % len(dtypes)], requires_grad=True) for n, shape in enumerate(shapes)]
    theirs = [torch.zeros_like(weight, requires_grad=True) for weight in ours]
    idle = torch.zeros(2, requires_grad=True)
    for weight, other in zip(ours, theirs, strict=True):
        weight.grad = torch.randn(weight.shape, generator=draw).to(weight.dtype)
        other.grad = weight.grad.clone()
    policy = TablePolicy(5, 4, seed=1)
    batch = pack(random_trajectories(0))
    optimiser = torch.optim.SGD([*ours, idle], lr=1.0)
    problem = Problem(
        batch, policy, optimiser, lambda *_: [], frozenset(), Level.DECISION, idle_without_advantage=False
    )
    norm = torch.nn.utils.clip_grad_norm_(theirs, torch.inf if limit is None else limit)
    assert problem.clip(limit) == float(norm)
    assert all(torch.equal(weight.grad, other.grad) for weight, other in zip(ours, theirs, strict=True))


def test_warmup_scales_the_first_step() -> None:
    start = TablePolicy(5, 4, seed=1).module["logits"].detach()
    moved = []
    for warmup in (0, 4):
        policy = TablePolicy(5, 4, seed=1)
        one_update(policy, changes={"update.warmup": warmup})
        moved.append((policy.module["logits"].detach() - start).abs().max())
    assert float(moved[1] / moved[0]) == pytest.approx(0.25, rel=1e-6)


@dataclass(frozen=True)
class Poison(Objective):
    """A loss that is NaN."""

    couples = Level.DECISION
    needs = frozenset({Quantity.LOGP})

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        value = now.logp[batch.occurrences.decision] * math.nan
        return Terms(value, torch.ones_like(value))


def test_a_poisoned_batch_leaves_the_weights_alone() -> None:
    policy = TablePolicy(5, 4, seed=1)
    before = policy.module["logits"].detach().clone()
    metrics = one_update(policy, changes={"regularisers": (Poison(),)})
    assert metrics["update/skipped"] == 1
    assert torch.equal(policy.module["logits"], before)


def test_target_kl_ends_a_step_early() -> None:
    changes = {"update.epochs": 20, "update.lr": 0.5}
    whole = one_update(TablePolicy(5, 4, seed=1), changes=changes, recipe="grpo")
    short = one_update(TablePolicy(5, 4, seed=1), changes={**changes, "update.target_kl": 0.01}, recipe="grpo")
    assert whole["update/gradients"] == 20
    assert short["update/gradients"] < 10


def test_a_step_without_signal_changes_nothing_but_counts() -> None:
    policy = TablePolicy(5, 4, seed=1)
    before = policy.module["logits"].detach().clone()
    learner = Learner(policy, find("grpo"), total_steps=10)
    trajectories = random_trajectories(0)
    for trajectory in trajectories:
        trajectory.scores["correct"] = type(trajectory.scores["correct"])(1.0)
    batch = learner.compute_credit(learner.annotate(pack(trajectories)), {}, 1)
    metrics = learner.learn(batch, Key.of(0), step=1)
    assert math.isnan(metrics["loss"])
    assert policy.version == 1
    assert torch.equal(policy.module["logits"], before)


@pytest.mark.parametrize("bad", [{"epochs": 0}, {"minibatches": 0}, {"lr": 0.0}, {"lr": -1.0}, {"warmup": -1}])
def test_senseless_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        GradientStep(**bad)
