"""What each recipe computes on a small batch, written out by hand, and its paper's stated properties."""

import itertools
import math

import numpy as np
import pytest
import torch
from recipe_batches import packed, result, sample, without_proximal
from torch import Tensor
from unrecorded import recordable

from hocket.methods.teams.collabuiagents import GRADES, OPPOSES
from hocket.recipes import all_recipes, find
from hocket.types import Quantity, Score

REWARDS = {"a": [1.0, 0.0, 0.0], "b": [1.0, 1.0, 1.0], "c": [0.25, 0.5, 1.0]}
LENGTHS = {"a": [2, 3, 1], "b": [2, 2, 4], "c": [1, 5, 2]}


SECOND = {
    "safe-rlhf-v": "cost",
    "rluf": "love",
    "mpo-mixed": "preference",
    "mobile-r1-steps": "right",
    "mobile-r1": "finished",
}
"""Recipes that read a second score, and its name."""
OPPOSED = ("collabuiagents",)
"""Recipes that compare two answers to a question of an episode: here a trajectory's and that of the one after it."""

FLEETS = ("ospo",)
"""Recipes whose credit is against the agents that act at the same time; here each acts alone, and earns none."""


def groups(*, baseline: bool = False):
    """Three scenarios of three answers each, and their greedy answers (reward 0.5) where asked."""
    found = []
    for name in REWARDS:
        found += [sample(name, r, n) for r, n in zip(REWARDS[name], LENGTHS[name], strict=True)]
        if baseline:
            found.append(sample(name, 0.5, 2, source="baseline"))
    return found


def near(batch, shift=0.05):
    """Current log-probs a little off the old ones, inside every clip."""
    steps = torch.arange(batch.decisions, dtype=torch.float64)
    return batch.logp["behaviour"].values + shift * torch.cos(steps)


def per_trajectory(batch, credit):
    """The advantage of each trajectory, which must be the same at all its decisions."""
    found = []
    for number in range(batch.trajectories):
        own = credit.advantage[credit.trajectory == number]
        assert float(own.max() - own.min()) == 0
        found.append(float(own[0]))
    return found


def group_relative(rewards, *, scale):
    mean = sum(rewards) / len(rewards)
    deviation = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1))
    return [(r - mean) / (deviation + 1e-6) if scale and deviation else r - mean for r in rewards]


def surrogate(batch, logp: Tensor, advantages, weight, ratio=None, high=0.2, low=0.2):
    """sum_k weight_k * -min(r A, clip(r) A), decision by decision."""
    owner = batch.occurrences.trajectory.tolist()
    log_ratio = logp - batch.logp["behaviour"].values
    total = torch.zeros((), dtype=torch.float64)
    for t, i in enumerate(owner):
        r = torch.exp(log_ratio[t]) if ratio is None else ratio(i)
        a = advantages[i]
        clipped = min(max(float(r.detach()), 1 - low), 1 + high)
        total = total - weight(i) * (r * a if float(r.detach()) * a <= clipped * a else clipped * a)
    return total


def gradient(function, at):
    leaf = at.clone().requires_grad_()
    total = function(leaf)
    return float(total.detach()), torch.autograd.grad(total, [leaf])[0]


@pytest.mark.parametrize("shift", [0.05, 0.6])
@pytest.mark.parametrize("name", ["grpo", "dr-grpo", "dapo", "gspo"])
def test_group_relative_recipes(name, shift):
    batch = without_proximal(packed(groups()))
    recipe, logp = find(name), near(batch, shift)
    lengths = [n for row in LENGTHS.values() for n in row]
    advantages = [a for row in REWARDS.values() for a in group_relative(row, scale=name != "dr-grpo")]
    weight = {
        "grpo": lambda i: 1 / (9 * lengths[i]),
        "dr-grpo": lambda i: 1 / (9 * 128),
        "dapo": lambda i: 1 / sum(lengths),
        "gspo": lambda i: 1 / (9 * lengths[i]),
    }[name]
    clips = {"dapo": {"high": 0.28}, "gspo": {"low": 3e-4, "high": 4e-4}}.get(name, {})

    def expected(x):
        owner, own = batch.occurrences.trajectory, x - batch.logp["behaviour"].values
        means = (lambda i: own[owner == i].mean().exp()) if name == "gspo" else None
        return surrogate(batch, x, advantages, weight, means, **clips)

    loss, found, credit = result(recipe, batch, logp)
    assert per_trajectory(batch, credit) == pytest.approx(advantages, abs=1e-12)
    value, slope = gradient(expected, logp)
    assert loss == pytest.approx(value, rel=1e-9)
    torch.testing.assert_close(found, slope, rtol=1e-9, atol=1e-12)
    assert not found[6:14].any()  # scenario b is constant: no signal


def test_a_group_of_one_and_an_empty_step_give_nothing():
    batch = without_proximal(packed([sample("a", 1.0, 3), sample("b", 0.0, 1)]))
    for name in ("grpo", "dr-grpo", "gspo", "cispo", "rloo"):
        loss, found, credit = result(find(name), batch, near(batch))
        assert loss == 0
        assert not found.any()
        assert not credit.advantage.any()
    filtered = batch.credited(weight=torch.zeros(4))
    for name in ("grpo", "dapo", "ppo", "sft", "cispo"):
        loss, found, _ = result(find(name), filtered, near(batch))
        assert loss == 0
        assert not found.any()


@pytest.mark.parametrize("name", ["grpo", "grpo-tis", "dr-grpo", "dapo", "gspo-token", "cispo"])
def test_at_the_old_policy_the_gradient_is_reinforce_with_the_recipes_advantages(name):
    recipe, batch = find(name), packed(groups())
    if name != "grpo-tis":
        batch = without_proximal(batch)
    logp = batch.logp["proximal" if name == "grpo-tis" else "behaviour"].values
    _, found, credit = result(recipe, batch, logp)
    lengths = batch.lengths()[credit.trajectory]
    counts = {
        "dr-grpo": 9 * 128 * torch.ones_like(lengths),
        "dapo": lengths.numel() * torch.ones_like(lengths),
        "cispo": lengths.numel() * torch.ones_like(lengths),
    }.get(name, 9 * lengths)
    torch.testing.assert_close(found, -credit.advantage * credit.weight / counts, rtol=1e-9, atol=1e-12)


def test_truncated_importance_weights_multiply_terms_and_leave_denominators():
    batch = packed(groups())
    _, _, credit = result(find("grpo-tis"), batch, near(batch))
    ratio = (batch.logp["proximal"].values - batch.logp["behaviour"].values).exp().clamp(max=2)
    torch.testing.assert_close(credit.weight, ratio)


def test_grpo_kl_adds_its_papers_term():
    batch = without_proximal(packed(groups()))
    logp = near(batch)
    plain, with_kl = (result(find(name), batch, logp) for name in ("grpo", "grpo-kl"))
    d = logp - batch.logp["reference"].values
    weight = 0.04 / (9 * batch.lengths()[batch.occurrences.trajectory].double())
    assert with_kl[0] - plain[0] == pytest.approx(float((weight * (torch.exp(-d) - 1 + d)).sum()), rel=1e-9)
    torch.testing.assert_close(with_kl[1] - plain[1], weight * (1 - torch.exp(-d)))


def test_rloo_and_remax():
    batch = without_proximal(packed(groups()))
    _, found, credit = result(find("rloo"), batch, near(batch))
    expected = [r - (sum(row) - r) / 2 for row in REWARDS.values() for r in row]
    assert per_trajectory(batch, credit) == pytest.approx(expected, abs=1e-12)
    torch.testing.assert_close(found, -credit.advantage / 9)
    greedy = without_proximal(packed(groups(baseline=True)))
    _, found, credit = result(find("remax"), greedy, near(greedy))
    own = greedy.source == greedy.names["source"].index("own")
    expected = [r - 0.5 for row in REWARDS.values() for r in row]
    assert [a for a, keep in zip(per_trajectory(greedy, credit), own.tolist(), strict=True) if keep] == expected
    assert not found[~own[credit.trajectory]].any()
    torch.testing.assert_close(found[own[credit.trajectory]], -credit.advantage[own[credit.trajectory]] / 9)


def test_reinforce_and_its_running_baseline():
    batch = without_proximal(packed(groups()))
    rewards = torch.tensor([r for row in REWARDS.values() for r in row], dtype=torch.float64)
    _, found, credit = result(find("reinforce"), batch, near(batch))
    torch.testing.assert_close(found, -rewards[credit.trajectory] / 9)
    recipe = find("reinforce-baseline")
    first, state = recipe.compute_credit(batch, recipe.init(), {})
    second, _ = recipe.compute_credit(batch, state, {})
    torch.testing.assert_close(first.occurrences.advantage, rewards[credit.trajectory])
    torch.testing.assert_close(second.occurrences.advantage, (rewards - rewards.mean())[credit.trajectory])


def test_reinforce_plus_plus():
    batch = without_proximal(packed(groups()))
    _, _, credit = result(find("reinforce++"), batch, near(batch))
    gap = batch.logp["behaviour"].values - batch.logp["reference"].values
    rewards = [r for row in REWARDS.values() for r in row]
    to_go = []
    for number in range(9):
        own = gap[credit.trajectory == number]
        to_go += [rewards[number] - 0.01 * float(own[t:].sum()) for t in range(len(own))]
    expected = (np.array(to_go) - np.mean(to_go)) / (np.std(to_go, ddof=1) + 1e-8)
    assert credit.advantage.tolist() == pytest.approx(expected.tolist(), rel=1e-9)
    _, _, centred = result(find("reinforce++-baseline"), batch, near(batch))
    raw = np.array([r - np.mean(row) for row in REWARDS.values() for r in row])
    found = np.array(per_trajectory(batch, centred))
    assert found == pytest.approx(raw / (np.sqrt((raw**2).sum() / 8) + 1e-6), rel=1e-6)


def test_ppo_values_have_gradient_and_targets_are_advantage_plus_value():
    batch = without_proximal(packed(groups()))
    recipe = find("ppo").but({"credit.whiten": False})
    value = batch.value.clone().requires_grad_()
    credited, _ = recipe.compute_credit(batch, {}, {})
    seen = credited.occurrences
    torch.testing.assert_close(seen.target, seen.advantage + batch.value)
    from hocket.types import Evaluation

    terms = recipe.loss(Evaluation(near(batch), value=value), credited)
    terms[1].total().backward()
    torch.testing.assert_close(value.grad, (batch.value - seen.target) / batch.decisions)
    last = seen.target[credited.last()]
    torch.testing.assert_close(last, torch.tensor([r for row in REWARDS.values() for r in row]).double())


def test_dapo_punishes_answers_that_come_near_the_limit():
    batch = without_proximal(packed([sample("a", 1.0, 10), sample("a", 1.0, 128), sample("a", 1.0, 116)]))
    recipe = find("dapo").but({"credit.scale": None})
    _, _, credit = result(recipe, batch, near(batch))
    penalty = np.array([0.0, -1.0, -13 / 25])
    assert per_trajectory(batch, credit) == pytest.approx((penalty - penalty.mean()).tolist(), abs=1e-9)


def test_sft_and_dpo():
    batch = without_proximal(packed(groups()))
    _, found, _ = result(find("sft"), batch, near(batch))
    torch.testing.assert_close(found, torch.full_like(found, -1 / batch.decisions))
    _, found, credit = result(find("dpo"), batch, near(batch))
    assert credit.pairs.tolist() == [[0, 1], [8, 6]]
    signs = {number: float(found[credit.trajectory == number].sum()) for number in range(9)}
    assert [n for n, s in signs.items() if s < 0] == [0, 8]  # descending the loss raises these
    assert [n for n, s in signs.items() if s > 0] == [1, 6]


@pytest.mark.parametrize("name", sorted(n for n, one in all_recipes().items() if recordable(n, one)))
def test_every_recipe_gives_finite_numbers_that_do_not_depend_on_order(name):
    recipe, trajectories = find(name), groups(baseline=True)
    for number, trajectory in enumerate(trajectories if name in SECOND else ()):
        trajectory.scores[SECOND[name]] = Score(number % 3 / 2)
    for number, trajectory in enumerate(trajectories if name in OPPOSED else ()):
        OPPOSES.write(trajectory, (number // 2, number % 2 - 1))
        GRADES.write(trajectory, [number % 3 / 2])
    batch = packed(trajectories)
    loss, found, _ = result(recipe, batch, near(batch))
    assert math.isfinite(loss)
    assert bool(found.isfinite().all())
    assert found.any() or Quantity.LOGP not in recipe.needs or name in FLEETS
    order = torch.arange(batch.trajectories).flip(0)
    seen = batch.occurrences
    index = torch.cat([torch.nonzero(seen.trajectory == i).flatten() for i in order.tolist()])
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    turned = batch.but(
        scenario=batch.scenario[order],
        source=batch.source[order],
        order=batch.order[order],
        terminated=batch.terminated[order],
        truncated=batch.truncated[order],
        scores={key: score._replace(values=score.values[order]) for key, score in batch.scores.items()},
        final_value=batch.final_value[order],
        info={name: [column[i] for i in order.tolist()] for name, column in batch.info.items()},
    ).credited(
        decision=seen.decision[index],
        trajectory=place[seen.trajectory[index]],
        advantage=seen.advantage[index],
        weight=seen.weight[index],
    )
    again, slope, _ = result(recipe, turned, near(batch))
    assert again == pytest.approx(loss, rel=1e-9, abs=1e-12)
    torch.testing.assert_close(slope, found, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- by enumeration on a bandit

REWARD = [0.0, 1.0, 0.3]
LOGITS = torch.tensor([0.2, -0.7, 0.4], dtype=torch.float64)


def expected_gradient(name, samples, *, shift=0.0, greedy=None):
    """E[-gradient of the loss] in the logits over all outcomes of one scenario's group of one-token answers."""
    probability = torch.softmax(LOGITS, 0)
    total = torch.zeros(3, dtype=torch.float64)
    for actions in itertools.product(range(3), repeat=samples):
        answers = [sample("x", REWARD[a] + shift, 1) for a in actions]
        if greedy is not None:
            answers.append(sample("x", REWARD[greedy] + shift, 1, source="baseline"))
            actions = (*actions, greedy)
        batch = without_proximal(packed(answers))
        logp = torch.log_softmax(LOGITS, 0)[list(actions)]
        batch = batch.but(logp={"behaviour": batch.logp["behaviour"]._replace(values=logp)})
        _, slope, _ = result(find(name), batch, logp)
        jacobian = torch.eye(3, dtype=torch.float64)[list(actions)] - probability
        total -= probability[list(actions[:samples])].prod() * (slope @ jacobian)
    return total


def true_gradient():
    probability, reward = torch.softmax(LOGITS, 0), torch.tensor(REWARD, dtype=torch.float64)
    return probability * (reward - probability @ reward)


def test_reinforce_rloo_and_remax_are_unbiased():
    torch.testing.assert_close(expected_gradient("reinforce", 2), true_gradient())
    for samples in (2, 3):
        torch.testing.assert_close(expected_gradient("rloo", samples), true_gradient())
    torch.testing.assert_close(expected_gradient("remax", 1, greedy=2), true_gradient())


def test_remax_does_not_see_an_offset_of_the_reward():
    before, after = (expected_gradient("remax", 1, shift=shift, greedy=2) for shift in (0.0, 5.0))
    torch.testing.assert_close(before, after)


@pytest.mark.parametrize("samples", [2, 3, 4])
def test_dr_grpo_is_the_true_gradient_up_to_a_constant(samples):
    """The group mean holds the own reward: (G-1)/G of the true gradient, over the constant length."""
    found = expected_gradient("dr-grpo", samples)
    torch.testing.assert_close(found * 128 * samples / (samples - 1), true_gradient())
