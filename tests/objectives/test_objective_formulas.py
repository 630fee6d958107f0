"""Every objective against a naive float64 loop over trajectories, values and gradients, on random batches."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import batches, close, naive_total, occurrences, total_of, value_and_gradient
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.objectives.aggregate import weights
from hocket.objectives.divergence import ExactKL, KLToReference
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.importance import ClippedImportanceWeight
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.objectives.value import ValueLoss
from hocket.types import Evaluation

AGGREGATES = ["token-mean", "sequence-mean", "sequence-sum", "constant-length"]
aggregates = st.sampled_from(AGGREGATES)
many = settings(max_examples=60, deadline=None)


def naive(batch: Batch, term, aggregate: str, horizon: int = 7) -> Tensor:
    """term(decision, advantage, mates) -> scalar, mates being the counted decisions of the trajectory."""
    parts = []
    for row in occurrences(batch):
        mates = [decision for decision, _, _ in row]
        parts.append([(weight, term(decision, advantage, mates)) for decision, advantage, weight in row])
    return naive_total(parts, aggregate, horizon)


def agree(objective, batch: Batch, logp: Tensor, make_term, aggregate: str) -> None:
    expected = value_and_gradient(lambda x: naive(batch, make_term(x), aggregate), logp)
    found = value_and_gradient(total_of(objective, batch), logp)
    close(found[0], expected[0])
    close(found[1], expected[1])


@many
@given(batches(), aggregates)
def test_policy_gradient(drawn, aggregate):
    batch, logp = drawn
    agree(PolicyGradient(aggregate, 7), batch, logp, lambda x: lambda t, a, _: -a * x[t], aggregate)


@many
@given(batches(), aggregates)
def test_negative_log_likelihood_ignores_advantages(drawn, aggregate):
    batch, logp = drawn
    agree(NegativeLogLikelihood(aggregate, 7), batch, logp, lambda x: lambda t, a, _: -x[t], aggregate)


def ppo(ratio: Tensor, advantage: float, low: float, high: float, dual: float | None) -> Tensor:
    """The loss of one decision by cases, without min or clamp."""
    if advantage >= 0:
        return -advantage * (ratio if ratio <= 1 + high else torch.full_like(ratio, 1 + high).detach())
    if dual is not None and ratio > dual:
        return torch.tensor(-advantage * dual, dtype=torch.float64)
    return -advantage * (ratio if ratio >= 1 - low else torch.full_like(ratio, 1 - low).detach())


@many
@given(batches(), aggregates, st.sampled_from([None, 1.1, 3.0]), st.sampled_from([(0.2, 0.2), (0.2, 0.28), (0.0, 0.0)]))
def test_clipped_surrogate(drawn, aggregate, dual, clip):
    batch, logp = drawn
    old = batch.logp["behaviour"].values
    objective = ClippedSurrogate(*clip, dual=dual, aggregate=aggregate, horizon=7)
    # On the bound itself the two branches tie and any subgradient is right: keep off it.
    ratios = (logp - old)[batch.occurrences.decision].exp()
    for edge in (1 - clip[0], 1 + clip[1], *([dual] if dual else [])):
        if bool(((ratios - edge).abs() < 1e-9).any()):
            return
    agree(objective, batch, logp, lambda x: lambda t, a, _: ppo(torch.exp(x[t] - old[t]), a, *clip, dual), aggregate)


@many
@given(batches(), aggregates)
def test_sequence_ratio_is_the_geometric_mean(drawn, aggregate):
    batch, logp = drawn
    old = batch.logp["behaviour"].values

    def make(x):
        def term(t, a, mates):
            product = torch.exp(sum(x[m] - old[m] for m in mates))
            return ppo(product ** (1 / len(mates)), a, 0.1, 0.3, None)

        return term

    agree(ClippedSurrogate(0.1, 0.3, ratio="sequence", aggregate=aggregate, horizon=7), batch, logp, make, aggregate)


@many
@given(batches(), aggregates)
def test_sequence_token_ratio(drawn, aggregate):
    batch, logp = drawn
    old = batch.logp["behaviour"].values

    def make(x):
        def term(t, a, mates):
            mean = math.exp(sum(float(x[m].detach() - old[m]) for m in mates) / len(mates))
            return ppo(mean * torch.exp(x[t]) / math.exp(float(x[t].detach())), a, 0.1, 0.3, None)

        return term

    objective = ClippedSurrogate(0.1, 0.3, ratio="sequence-token", aggregate=aggregate, horizon=7)
    agree(objective, batch, logp, make, aggregate)


@many
@given(batches(), aggregates, st.sampled_from([None, 0.2]))
def test_clipped_importance_weight(drawn, aggregate, low):
    batch, logp = drawn
    old = batch.logp["behaviour"].values

    def make(x):
        def term(t, a, _):
            weight = min(math.exp(float(x[t].detach() - old[t])), 1.5)
            return -(weight if low is None else max(weight, 1 - low)) * a * x[t]

        return term

    agree(ClippedImportanceWeight(low, 0.5, aggregate, 7), batch, logp, make, aggregate)


@many
@given(batches(), aggregates, st.sampled_from(["k1", "k2", "k3"]), st.booleans())
def test_kl_to_reference(drawn, aggregate, estimator, unbiased):
    batch, logp = drawn
    reference, old = batch.logp["reference"].values, batch.logp["behaviour"].values

    def make(x):
        def term(t, a, _):
            d = x[t] - reference[t]
            estimate = {"k1": d, "k2": d * d / 2, "k3": torch.exp(-d) - 1 + d}[estimator]
            return 0.3 * estimate * (torch.exp(x[t] - old[t]) if unbiased else 1.0)

        return term

    agree(KLToReference(estimator, 0.3, aggregate, 7, unbiased), batch, logp, make, aggregate)


@many
@given(batches(), aggregates)
def test_exact_kl_and_entropy(drawn, aggregate):
    batch, numbers = drawn
    for objective, field, scale in (
        (ExactKL(0.3, aggregate, 7), "kl_exact", 0.3),
        (EntropyBonus(0.2, aggregate, 7), "entropy", -0.2),
    ):
        expected = value_and_gradient(lambda x, s=scale: naive(batch, lambda t, a, _: s * x[t], aggregate), numbers)
        found = value_and_gradient(
            lambda x, o=objective, f=field: o(Evaluation(numbers, **{f: x}), batch).total(), numbers
        )
        close(found[0], expected[0])
        close(found[1], expected[1])


@many
@given(batches(), aggregates, st.sampled_from([None, 0.4]))
def test_value_loss(drawn, aggregate, clip):
    batch, value = drawn
    old, target = batch.value, iter([])

    def make(x):
        nonlocal target
        seen = batch.occurrences
        target = iter(seen.target[seen.weight != 0].tolist())

        def term(t, a, _):
            y = next(target)
            plain = (x[t] - y) ** 2
            if clip is None:
                return 0.5 * plain
            change = x[t] - old[t]
            inside = x[t] if change.abs() <= clip else (old[t] + clip * torch.sign(change)).detach()
            return 0.5 * (plain if plain >= (inside - y) ** 2 else (inside - y) ** 2)

        return term

    expected = value_and_gradient(lambda x: naive(batch, make(x), aggregate), value)
    objective = ValueLoss(0.5, clip, aggregate, 7)
    found = value_and_gradient(lambda x: objective(Evaluation(value, value=x), batch).total(), value)
    close(found[0], expected[0])
    close(found[1], expected[1])


# ---------------------------------------------------------------- laws of all of them

LOCAL = [
    PolicyGradient(),
    NegativeLogLikelihood(),
    ClippedSurrogate(dual=3.0),
    ClippedSurrogate(aggregate="constant-length", horizon=9),
    ClippedImportanceWeight(low=0.2, high=0.3),
    KLToReference("k3"),
    KLToReference("k2", unbiased=True, aggregate="token-mean"),
]
COUPLED = [ClippedSurrogate(ratio="sequence"), ClippedSurrogate(ratio="sequence-token", aggregate="token-mean")]


@pytest.mark.parametrize("objective", LOCAL, ids=repr)
@settings(max_examples=25, deadline=None)
@given(drawn=batches(), parts=st.integers(1, 4))
def test_any_split_of_the_decisions_sums_to_the_whole(objective, drawn, parts):
    """Also when only a part's decisions are evaluated, the others standing at their recorded log-probs."""
    batch, logp = drawn
    assert objective.couples is Level.DECISION
    old, part = batch.logp["behaviour"].values, torch.arange(len(logp)) % parts

    def split(x):
        total = torch.zeros((), dtype=torch.float64)
        for number in range(parts):
            terms = objective(Evaluation(torch.where(part == number, x, old)), batch)
            assert len(terms.value) == len(terms.weight) == len(batch.occurrences)
            here = part[batch.occurrences.decision] == number
            total = total + (terms.value[here] * terms.weight[here]).sum()
        return total

    whole, pieces = value_and_gradient(total_of(objective, batch), logp), value_and_gradient(split, logp)
    close(pieces[0], whole[0])
    close(pieces[1], whole[1])


@pytest.mark.parametrize("objective", [loss for loss in LOCAL if loss.idle_without_advantage], ids=repr)
@settings(max_examples=25, deadline=None)
@given(drawn=batches())
def test_decisions_without_advantage_need_no_evaluation(objective, drawn):
    batch, logp = drawn
    seen = batch.occurrences
    thinned = torch.where(torch.arange(len(seen)) % 2 == 0, seen.advantage, 0.0)
    batch = batch.credited(advantage=thinned)
    live = torch.zeros(len(logp), dtype=torch.bool)
    live[seen.decision[(thinned != 0) & (seen.weight != 0)]] = True
    old = batch.logp["behaviour"].values
    whole = value_and_gradient(total_of(objective, batch), logp)
    thin = value_and_gradient(lambda x: total_of(objective, batch)(torch.where(live, x, old)), logp)
    close(thin[0], whole[0])
    close(thin[1], whole[1])
    metrics = objective(Evaluation(torch.where(live, logp, old - 99.0)), batch).metrics
    assert {k: float(v) for k, v in metrics.items()} == {
        k: float(v) for k, v in objective(Evaluation(logp), batch).metrics.items()
    }


@pytest.mark.parametrize("objective", [*LOCAL, *COUPLED], ids=repr)
@settings(max_examples=15, deadline=None)
@given(drawn=batches(), shift=st.integers(0, 4))
def test_order_of_trajectories_does_not_matter(objective, drawn, shift):
    batch, logp = drawn
    number, seen = batch.trajectories, batch.occurrences
    place = (torch.arange(number) + shift) % number
    order = torch.argsort(place[seen.trajectory], stable=True)
    turned = batch.credited(
        decision=seen.decision[order],
        trajectory=place[seen.trajectory][order],
        advantage=seen.advantage[order],
        weight=seen.weight[order],
    )
    one, two = (value_and_gradient(total_of(objective, b), logp) for b in (batch, turned))
    close(one[0], two[0])
    close(one[1], two[1])


@many
@given(batches())
def test_uncounted_occurrences_leave_no_trace(drawn):
    """Dropping weight-0 occurrences altogether changes neither weights nor losses."""
    batch, logp = drawn
    kept = batch.occurrences.weight != 0
    small = batch.restricted(kept)
    for aggregate in AGGREGATES:
        close(weights(batch, aggregate)[kept], weights(small, aggregate))
    for objective in (*LOCAL, *COUPLED):
        close(total_of(objective, batch)(logp), total_of(objective, small)(logp))


def test_the_loss_follows_the_dtype_of_the_log_probs():
    from objective_batches import batch_of

    batch = batch_of([[0, 1]], behaviour=torch.zeros(2), advantage=torch.ones(2))
    for dtype in (torch.float32, torch.float64):
        assert ClippedSurrogate()(Evaluation(torch.zeros(2, dtype=dtype)), batch).total().dtype is dtype
