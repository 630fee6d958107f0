"""Virtual samples, steps, weights, other normalisations, semantic entropy and references, against plain arithmetic."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, counts, experiences, make, make_turn, rewards_by_hand
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import GroupBy, Level
from hocket.core.errors import ConfigurationError
from hocket.credit.group import GroupRelative, StepRelative
from hocket.credit.parts import EachScore
from hocket.credit.reinforce import GreedyBaseline
from hocket.methods.group_relative.aapo import ReferenceMargin
from hocket.methods.group_relative.bnpo import BetaDensity, beta_density, beta_moments
from hocket.methods.group_relative.gpg import SignalShare
from hocket.methods.group_relative.grpo_lead import LogisticAccuracy, logistic_weight
from hocket.methods.group_relative.mapo import MixedDeviation
from hocket.methods.group_relative.pvpo import RememberedBaseline
from hocket.methods.group_relative.s_grpo_noise import NoiseAware, noise_weight
from hocket.methods.group_relative.seed_grpo import SemanticEntropy
from hocket.methods.group_relative.vital_dgrpo import Difficulty
from hocket.types import Score

BINARY = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=8)


def credit_of(credit, *groups, **columns):
    """The advantage of each trajectory of groups given by rewards."""
    batch = batch_of([make(number, reward, length=1) for number, group in enumerate(groups) for reward in group])
    return credit(batch.but(info=columns)).advantage.tolist()


# ---------------------------------------------------------------- virtual samples


@LAW
@given(experiences(sources=("own", "own", "baseline")), st.lists(st.sampled_from([0.0, 1.0, 3.5]), max_size=3))
def test_virtual_samples_enter_the_statistics_and_get_nothing(trajectories, virtual):
    credit = GroupRelative(virtual=tuple(virtual), epsilon=0.01)
    batch = batch_of(trajectories)
    found = by_trajectory(batch, credit(batch).advantage)
    for trajectory, got in zip(trajectories, found, strict=True):
        pool = [
            math.fsum(rewards_by_hand(other))
            for other in trajectories
            if other.scenario.id == trajectory.scenario.id and counts(other)
        ] + virtual
        expected = 0.0
        if counts(trajectory) and max(pool) > min(pool):
            own = math.fsum(rewards_by_hand(trajectory))
            deviation = statistics.stdev(pool) if len(pool) > 1 else 0.0
            expected = (own - statistics.fmean(pool)) / (deviation + 0.01)
        assert got == pytest.approx([expected] * trajectory.length, abs=1e-9)


def test_a_virtual_sample_makes_a_group_of_one_comparable():
    assert GroupRelative(virtual=(1.0,)).least_samples == 1
    assert credit_of(GroupRelative(virtual=(1.0,), epsilon=0.0), [0.0]) == pytest.approx([-1 / math.sqrt(2)])
    assert credit_of(GroupRelative(virtual=(1.0,), scale=None, leave_one_out=True), [0.0, 0.5]) == [-0.75, 0.0]
    with pytest.raises(ValueError, match="virtual samples belong to the groups of by"):
        GroupRelative(virtual=(1.0,), scale_by=GroupBy())


# ---------------------------------------------------------------- steps


@LAW
@given(experiences(sources=("own", "own", "baseline")))
def test_steps_are_turns_without_segments(trajectories):
    """Every visit to a turn is a step; the sum runs from the decision's step to the end."""
    batch = batch_of(trajectories)
    found = by_trajectory(batch, StepRelative(epsilon=0.5)(batch).advantage)
    steps = [_steps(trajectory) for trajectory in trajectories]
    for trajectory, own, got in zip(trajectories, steps, found, strict=True):
        pool = [
            reward
            for other, theirs in zip(trajectories, steps, strict=True)
            if other.scenario.id == trajectory.scenario.id
            for reward, counted, _ in theirs
            if counted
        ]
        normal = []
        for reward, counted, length in own:
            varied = counted and max(pool) > min(pool)
            value = (reward - statistics.fmean(pool)) / (statistics.stdev(pool) + 0.5) if varied else 0.0
            normal.append((value, length))
        expected = [
            math.fsum(v for v, _ in normal[place:]) for place, (_, size) in enumerate(normal) for _ in range(size)
        ]
        assert got == pytest.approx(expected, abs=1e-8)


def _steps(trajectory):
    """The reward earned in each turn, whether any of its decisions counts, and its length."""
    rewards, at, found = rewards_by_hand(trajectory), 0, []
    for turn in trajectory.turns:
        forced = [False] * len(turn) if turn.forced is None else turn.forced.tolist()
        counted = trajectory.source != "baseline" and not all(forced)
        found.append((math.fsum(rewards[at : at + len(turn)]), counted, len(turn)))
        at += len(turn)
    return found


def test_segments_divide_a_turn_into_steps():
    turn = make_turn(4)
    turn.segment = torch.tensor([0, 0, 1, 1]).numpy()
    first = make("s", None, turns=[turn])
    first.scores["steps"] = Score([0.0, 1.0, 0.0, 3.0], Level.DECISION)
    other = make("s", None, turns=[make_turn(2)], sample=1)
    other.scores["steps"] = Score([0.0, 2.0], Level.DECISION)
    batch = batch_of([first, other])
    found = by_trajectory(batch, StepRelative(scale=None)(batch).advantage)
    assert found == [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0]]  # Steps earn 1, 3 and 2; their mean is 2.


def test_steps_of_turns_cannot_be_grouped_by_turns():
    with pytest.raises(ValueError, match="by may not name a column of turns"):
        StepRelative(by=GroupBy("scenario", "agent"))


# ---------------------------------------------------------------- weights


@LAW
@given(st.lists(BINARY, min_size=1, max_size=5), st.floats(0, 0.45))
def test_noise_weights_by_hand(groups, flip):
    credit = GroupRelative(weigh=(NoiseAware(flip=flip, epsilon=1e-4, success=0.5),))
    plain = credit_of(GroupRelative(), *groups)
    expected = []
    for group in groups:
        q = statistics.fmean(group)
        t = min(max((q - flip) / (1 - 2 * flip), 0.0), 1.0)
        w = (1 - 2 * flip) * t * (1 - t) / math.sqrt((q * (1 - q) + 1e-4) * (t * (1 - t) + 1e-4))
        assert 0 <= w <= 1
        expected += [w] * len(group)
    assert credit_of(credit, *groups) == pytest.approx([a * w for a, w in zip(plain, expected, strict=True)], abs=1e-9)


def test_the_noise_weight_is_that_of_a_correlation():
    """Of a Bernoulli(t) label and its flip: (1-2p) sqrt(t(1-t)) / sqrt(q(1-q))."""
    t, p = 0.3, 0.2
    q = t * (1 - p) + (1 - t) * p
    weight = float(noise_weight(torch.tensor(q, dtype=torch.float64), p, 0.0))
    assert weight == pytest.approx((1 - 2 * p) * math.sqrt(t * (1 - t) / (q * (1 - q))))


@LAW
@given(st.lists(st.lists(st.floats(-3, 3), min_size=2, max_size=5), min_size=1, max_size=5), st.floats(0, 4))
def test_difficulty_weights_have_mean_one_and_fall_with_the_mean(groups, strength):
    plain = credit_of(GroupRelative(epsilon=0.1), *groups)
    weighed = credit_of(GroupRelative(epsilon=0.1, weigh=(Difficulty(strength),)), *groups)
    sizes, means = [len(group) for group in groups], [statistics.fmean(group) for group in groups]
    raw = [math.exp(-strength * mean) for mean in means]
    scale = sum(sizes) / math.fsum(size * one for size, one in zip(sizes, raw, strict=True))
    factors = [one * scale for one, size in zip(raw, sizes, strict=True) for _ in range(size)]
    assert statistics.fmean(factors) == pytest.approx(1)
    assert weighed == pytest.approx([a * f for a, f in zip(plain, factors, strict=True)], abs=1e-9)


def test_logistic_weights_of_grpo_lead():
    at = [float(logistic_weight(torch.tensor(x, dtype=torch.float64), 0.4, 1.1, 10.0, 0.75)) for x in (0.0, 0.75, 1.0)]
    assert at == pytest.approx([1.5, 0.95, 0.4 + 1.1 / (1 + math.exp(2.5))], abs=1e-3)
    group = [1.0, 0.0, 0.0, 0.0]
    plain = credit_of(GroupRelative(), group)
    found = credit_of(GroupRelative(weigh=(LogisticAccuracy(),)), group)

    def w(x):
        return 0.4 + 1.1 / (1 + math.exp(10 * (x - 0.75)))

    assert found == pytest.approx([plain[0] * w(0.25), *(a * w(0.75) for a in plain[1:])])


@LAW
@given(st.lists(BINARY, min_size=1, max_size=6), st.sampled_from([math.inf, 1.5]))
def test_the_share_with_signal(groups, most):
    plain = credit_of(GroupRelative(scale=None), *groups)
    found = credit_of(GroupRelative(scale=None, weigh=(SignalShare(most),)), *groups)
    whole, valid = sum(map(len, groups)), sum(len(group) for group in groups if len(set(group)) > 1)
    factor = min(whole / valid, most) if valid else 1.0
    assert found == pytest.approx([a * factor for a in plain])


def test_weights_multiply_in_order():
    both = GroupRelative(weigh=(NoiseAware(flip=0.1, success=0.5), Difficulty(0.7)))
    groups = [[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    noise = credit_of(GroupRelative(weigh=(both.weigh[0],)), *groups)
    hard = credit_of(GroupRelative(weigh=(both.weigh[1],)), *groups)
    plain = credit_of(GroupRelative(), *groups)
    assert credit_of(both, *groups) == pytest.approx([a * b / c for a, b, c in zip(noise, hard, plain, strict=True)])


@pytest.mark.parametrize(
    "weight", [MixedDeviation(), BetaDensity(), NoiseAware(), Difficulty(), LogisticAccuracy(), SignalShare()]
)
@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1e6])
def test_constant_groups_and_groups_of_one_stay_exactly_zero(weight, value):
    for scale in ("std", None):
        assert credit_of(GroupRelative(scale=scale, weigh=(weight,)), [value] * 3, [value + 1]) == [0.0] * 4


@pytest.mark.parametrize(
    "make_weight",
    [
        lambda: NoiseAware(flip=0.5),
        lambda: NoiseAware(epsilon=-1.0),
        lambda: Difficulty(-1.0),
        lambda: SignalShare(0.5),
        lambda: BetaDensity(alpha=2.0),
        lambda: BetaDensity(least=1.0, most=1.0),
        lambda: SemanticEntropy(alpha=1.5),
        lambda: SemanticEntropy(form="focal"),
        lambda: ReferenceMargin(low=0.1),
    ],
)
def test_settings_are_checked(make_weight):
    with pytest.raises(ValueError, match=r"must|together"):
        make_weight()


# ---------------------------------------------------------------- normalisations


@LAW
@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.sampled_from([0, 1]))
def test_mixed_deviation_by_hand(group, ddof):
    weight = MixedDeviation(ddof=ddof, epsilon=0.01)
    found = credit_of(GroupRelative(scale=None, weigh=(weight,)), group)
    mean, deviation = statistics.fmean(group), (statistics.stdev if ddof else statistics.pstdev)(group)
    p = statistics.fmean(reward > 0.5 for reward in group)
    lam = 1 - 4 * p * (1 - p)
    for reward, got in zip(group, found, strict=True):
        relative = (reward - mean) / (mean + 0.01) if mean > 0 else 0.0
        assert got == pytest.approx((1 - lam) * (reward - mean) / (deviation + 0.01) + lam * relative, abs=1e-7)


def test_a_mean_of_zero_gives_zero():
    assert credit_of(GroupRelative(scale=None, weigh=(MixedDeviation(epsilon=0.0),)), [0.0, 0.0]) == [0.0, 0.0]


def test_moments_of_a_beta():
    rates = torch.tensor([0.1, 0.4, 0.5, 0.9], dtype=torch.float64)
    a, b = beta_moments(rates)
    mean, variance = statistics.fmean(rates.tolist()), statistics.variance(rates.tolist())
    assert a / (a + b) == pytest.approx(mean)
    assert mean * (1 - mean) / (a + b + 1) == pytest.approx(variance)
    assert beta_moments(rates[:1]) == beta_moments(rates[[0, 0]]) == (0.0, 0.0)


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (1.5, 1.5), (2.5, 4.0)])
def test_the_density_integrates_to_one(alpha, beta):
    grid = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
    assert float(beta_density(grid, alpha, beta).mean()) == pytest.approx(1.0, abs=1e-4)
    edges = beta_density(torch.tensor([0.0, 1.0], dtype=torch.float64), alpha, beta).tolist()
    assert edges == ([1.0, 1.0] if alpha == 1 else [0.0, 0.0])


def test_rewards_of_another_range_are_mapped():
    narrow = credit_of(GroupRelative(scale=None, weigh=(BetaDensity(),)), [1.0, 0.0, 0.0], [1.0, 1.0, 0.0])
    wide = credit_of(
        GroupRelative(scale=None, weigh=(BetaDensity(least=-1.0, most=3.0),)), [3.0, -1.0, -1.0], [3.0, 3.0, -1.0]
    )
    assert wide == pytest.approx(narrow)


# ---------------------------------------------------------------- scores apart


def test_each_score_refuses_what_is_not_there():
    batch = batch_of([make("s", 1.0), make("s", 0.0)])
    assert torch.equal(EachScore()(batch).advantage, GroupRelative()(batch).advantage)
    alone = EachScore(scores=("verdict",))(batch).advantage
    assert torch.equal(alone, GroupRelative()(batch).advantage)
    with pytest.raises(ConfigurationError, match=r"no score 'verdikt'.*did you mean 'verdict'"):
        EachScore(scores=("verdikt",))(batch)
    assert EachScore().least_samples == 2


# ---------------------------------------------------------------- semantic entropy


@LAW
@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=6), st.floats(0, 1))
def test_entropy_by_count(labels, alpha):
    rewards = [float(place) for place in range(len(labels))]
    weight = SemanticEntropy(alpha=alpha, mass="count")
    found = credit_of(GroupRelative(scale=None, weigh=(weight,)), rewards, label=labels)
    known = [label for label in labels if label is not None]
    counts_of = [known.count(label) for label in set(known)] + [1] * (len(labels) - len(known))
    shares = [count / len(labels) for count in counts_of]
    entropy = -math.fsum(share * math.log(share) for share in shares)
    factor = 1 - alpha * (entropy / math.log(len(labels)) if len(labels) > 1 else 0.0)
    plain = credit_of(GroupRelative(scale=None), rewards)
    assert found == pytest.approx([a * factor for a in plain], abs=1e-9)


def test_reciprocal_form_and_missing_labels():
    weight = SemanticEntropy(alpha=0.5, form="reciprocal", mass="count")
    found = credit_of(GroupRelative(scale=None, weigh=(weight,)), [1.0, 0.0], label=["x", "y"])
    assert found == pytest.approx([0.5 / 1.5, -0.5 / 1.5])
    with pytest.raises(ConfigurationError, match="SemanticEntropy reads 'label'"):
        credit_of(GroupRelative(weigh=(weight,)), [1.0, 0.0])


def test_very_unlikely_answers_stay_finite():
    rows = [make("s", float(n), turns=[make_turn(1, logp=[logp])]) for n, logp in enumerate((-0.1, -900.0, -1e4))]
    batch = batch_of(rows).but(info={"label": ["a", "b", "c"]})
    credit = GroupRelative(scale=None, weigh=(SemanticEntropy(alpha=0.5),))
    assert credit(batch).advantage.tolist() == pytest.approx([-0.5, 0.0, 0.5])
    assert {column.name for column in credit.reads} == {"behaviour"}


# ---------------------------------------------------------------- references


def test_a_baseline_is_remembered_until_measured_again():
    credit = RememberedBaseline()
    first = batch_of([make("s", 1.0), make("s", 0.25, source="baseline"), make("s", 0.75, source="baseline")])
    seen, state = credit(first, credit.init())
    assert by_trajectory(first, seen.advantage) == [[0.5, 0.5], [0.0, 0.0], [0.0, 0.0]]
    later = batch_of([make("s", 0.0), make("new", 1.0)])
    seen, state = credit(later, state)
    assert by_trajectory(later, seen.advantage) == [[-0.5, -0.5], [0.0, 0.0]]
    assert by_trajectory(later, seen.weight) == [[1.0, 1.0], [0.0, 0.0]]
    again = batch_of([make("s", 0.0), make("s", 0.125, source="baseline")])
    assert credit(again, state)[1] == {"values": {"s": 0.125}}
    assert state == {"values": {"s": 0.5}}


def test_margins_pair_samples_in_order_and_start_over():
    own = [make("s", reward, length=1) for reward in (1.0, 1.0, 0.1, 0.0)]
    references = [make("s", reward, length=1, source="baseline") for reward in (0.0, 1.0)]
    alone = make("t", 1.0, length=1)
    batch = batch_of([*own, *references, alone])
    found = ReferenceMargin(credit=GroupRelative(scale=None), low=-0.2, high=0.3)(batch).advantage.tolist()
    mean = 2.1 / 4
    expected = [1 - mean + 0.3, 1 - mean + 0.0, 0.1 - mean + 0.1, 0 - mean - 0.2, 0.0, 0.0, 0.0]
    assert found == pytest.approx(expected)


def test_greedy_baseline_from_a_decision_on():
    own = make("s", 1.0, length=3)
    own.scores["steps"] = Score([0.5, 0.0, -0.25], Level.DECISION)
    greedy = make("s", 0.5, length=1, source="baseline")
    greedy.scores["steps"] = Score([0.0], Level.DECISION)
    batch = batch_of([own, greedy])
    whole, to_go = GreedyBaseline()(batch).advantage, GreedyBaseline(to_go=True)(batch).advantage
    assert whole.tolist() == [0.75, 0.75, 0.75, 0.0]
    assert to_go.tolist() == [0.75, 0.25, 0.25, 0.0]
