"""Losses of pairs take one pass however a batch is split, and give the gradient of the whole."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_models

from hocket.core.batch import RecordedNumbers
from hocket.core.columns import Column
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.credit.pairs import AllPairs, BestAgainstWorst
from hocket.methods.preference.p3o import PairwiseSurrogate
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.links import Aot, Squared
from hocket.objectives.measures import Likelihood
from hocket.objectives.preference import Pairwise
from hocket.policies.causal_lm import CausalLM
from hocket.train.annotate import annotate
from hocket.types import Scenario, Score, Trajectory, Turn
from hocket.update.gradient import GradientStep
from hocket.update.pair_chunks import chunks_of_pairs
from hocket.update.problem import Problem

torch.set_num_threads(1)

LOSSES = {
    "dpo": [Pairwise()],
    "ipo": [Pairwise(link=Squared())],
    "simpo with a likelihood": [
        Pairwise(measure=Likelihood(length_normalised=True), margin=0.3),
        NegativeLogLikelihood(),
    ],
    "lone and top": [Pairwise(lone=True, top=2.0)],
    "p3o": [PairwiseSurrogate()],
}


def answers(scenarios=5, samples=2, seed=0, turns=1):
    """Groups with a prompt and a first turn in common; answers of unequal lengths."""
    draw = Key.of(seed).numpy()
    found = []
    for number in range(scenarios):
        first = Turn("policy", "policy", draw.integers(3, 40, 12), draw.integers(3, 40, 4)) if turns > 1 else None
        for sample in range(samples):
            said = draw.integers(3, 40, draw.integers(2, 20))
            last = Turn("policy", "policy", draw.integers(3, 40, 6 if turns > 1 else 12), said, parent=first)
            if turns == 1 and sample:
                last = Turn("policy", "policy", found[-1].turns[-1].observation, said)
            played = [last] if first is None else [first, last]
            found.append(Trajectory(Scenario(str(number)), played, sample, scores={"reward": Score(float(sample))}))
    return found


def problem_of(losses, played, credit):
    policy: CausalLM = tiny_models.policy("qwen3", 0)
    batch = pack(played)
    batch = batch.but(occurrences=credit(batch))
    drift = torch.linspace(-1, 1, len(batch.occurrences), dtype=torch.float64)
    batch = batch.credited(advantage=drift.to(batch.occurrences.advantage.dtype))
    batch = annotate(batch, frozenset({Column.REFERENCE}), policy, tiny_models.policy("qwen3", 1))
    # Recorded by another policy: what stands in for decisions of other micro-batches must not matter.
    values, present = batch.logp["behaviour"]
    older = RecordedNumbers(values + 0.3 * torch.linspace(-1, 1, len(values)).sin(), present)
    batch = batch.but(logp={**batch.logp, "behaviour": older})
    return policy, Problem(
        batch=batch,
        policy=policy,
        optimiser=GradientStep().optimiser(policy),
        loss_terms=lambda now, part: [loss(now, part) for loss in losses],
        needs=frozenset(),
        couples=max((loss.couples for loss in losses), key=lambda level: list(type(level)).index(level)),
        idle_without_advantage=False,
    )


def gradients(policy, problem, budget):
    policy.token_budget = budget
    metrics = problem.gradient()
    return metrics, [weight.grad for weight in policy.module.parameters()]


@pytest.fixture
def without_gradient(monkeypatch):
    """Decisions that were evaluated without gradient."""
    counted = []
    whole = CausalLM.evaluate

    def evaluate(self, batch, needs, decisions=None, **named):
        if not torch.is_grad_enabled():
            counted.append(decisions)
        return whole(self, batch, needs, decisions, **named)

    monkeypatch.setattr(CausalLM, "evaluate", evaluate)
    return counted


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("turns", [1, 2])
def test_the_gradient_of_pairs_does_not_depend_on_micro_batches_and_takes_one_pass(name, turns, without_gradient):
    policy, problem = problem_of(LOSSES[name], answers(turns=turns), BestAgainstWorst())
    metrics, whole = gradients(policy, problem, 10_000)
    for budget in (60, 90):
        without_gradient.clear()
        again, split = gradients(policy, problem, budget)
        assert len(policy.chunks(problem.batch, problem.live(problem.batch))) > 1
        assert not without_gradient
        assert again == pytest.approx(metrics, rel=1e-5, abs=1e-5)
        for one, other in zip(whole, split, strict=True):
            assert (one is None) == (other is None)
            assert one is None or (one - other).abs().max() < 2e-5 * one.abs().max().clamp(min=1.0)
    assert any(one is not None and one.abs().max() > 1e-3 for one in whole)


def test_chunks_keep_what_pairs_connect_and_every_decision_once():
    policy, problem = problem_of(LOSSES["dpo"], answers(samples=3), AllPairs())
    batch = problem.batch
    every = torch.arange(batch.decisions)
    cuts = 0
    for budget in range(60, 200, 10):
        policy.token_budget = budget
        chunks = policy.chunks(batch, every)
        found = chunks_of_pairs(policy, batch, chunks)
        assert found is not None
        assert torch.equal(torch.cat(found).sort().values, every)
        whose = [batch.scenario[batch.occurrences.trajectory[chunk]].unique().tolist() for chunk in found]
        together = [one for scenarios in whose for one in scenarios]
        assert len(together) == len(set(together))
        assert all(len(policy.chunks(batch, chunk)) == 1 for chunk in found)
        cuts += len(found) > len(chunks)
    assert cuts


def test_pairs_too_large_for_a_pass_and_losses_of_the_batch_go_by_cotangents(without_gradient):
    for losses, budget in ((LOSSES["dpo"], 1), ([Pairwise(link=Aot())], 90)):
        policy, problem = problem_of(losses, answers(), BestAgainstWorst())
        metrics, whole = gradients(policy, problem, 10_000)
        without_gradient.clear()
        again, split = gradients(policy, problem, budget)
        assert without_gradient
        assert again["loss"] == pytest.approx(metrics["loss"], abs=1e-6)
        for one, other in zip(whole, split, strict=True):
            assert one is None or (one - other).abs().max() < 2e-5 * one.abs().max().clamp(min=1.0)
