"""What grpo claims."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Sequence
from typing import Any

import torch

import hocket
from hocket import recipes
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.groups import Document, document, first_advantages, gap, recorded
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.group_statistics import EXACT, GRPO_EXACT, bandit, finding, gradients
from hocket.train.learner import Learner

claim = Claims("grpo", "derived here")


@claim(
    "Advantages have mean 0 and (sample) standard deviation 1, and are 0 in an all-equal group",
    "arXiv:2402.03300, 4.1.2",
)
def _standardised() -> Finding:
    rng = Key.of(1).numpy()
    groups = [rng.normal(size=size).tolist() for size in (2, 3, 5, 8)] + [[0.7] * 4]
    means, deviations = [], []
    advantages = first_advantages(GRPO_EXACT, recorded(groups))
    for group in groups:
        own, advantages = advantages[: len(group)], advantages[len(group) :]
        means.append(abs(statistics.fmean(own)))
        deviations.append(statistics.stdev(own))
    return finding(
        f"largest |mean| {max(means):.1e}, sample deviations (ddof 1) {[round(one, 12) for one in deviations]}",
        max(means) < EXACT,
        all(abs(one - 1) < EXACT for one in deviations[:-1]),
        deviations[-1] == 0,
    )


@claim(
    "k3 is not negative, its value is unbiased for KL(pi || ref), its gradient that of KL(ref || pi)",
    "arXiv:2402.03300, equation 4; Schulman 2020; gradient derived here",
)
def _k3_of_a_distribution() -> Finding:
    """The KL term of every action alone, averaged exactly over the policy."""
    policy = torch.tensor([0.2, -0.4, 1.1, 0.0], dtype=torch.float64, requires_grad=True)
    reference = torch.log_softmax(torch.tensor([0.5, 0.3, -0.2, -1.0], dtype=torch.float64), 0)
    logp = torch.log_softmax(policy, 0)
    recipe = recipes.find("grpo-kl").but({"regularisers.0.coefficient": 1.0})
    values, slopes = [], []
    for now, old in zip(logp.tolist(), reference.tolist(), strict=True):
        seen = look(recipe, document([{"group": "0", "scores": {"r": 1.0}, "logp": [now], "logp_ref": [old]}]))
        values.append(seen["loss"])
        slopes.append(seen["gradient"][0][0])
    chance = logp.detach().exp()
    forward = (logp.exp() * (logp - reference)).sum()
    backward = (reference.exp() * (reference - logp)).sum()
    value = float((chance * torch.tensor(values, dtype=torch.float64)).sum())
    step = chance * torch.tensor(slopes, dtype=torch.float64)
    expected = step - chance * step.sum()
    (of_forward,) = torch.autograd.grad(forward, policy, retain_graph=True)
    (of_backward,) = torch.autograd.grad(backward, policy)
    return finding(
        f"E[k3] - KL(pi||ref) = {value - forward.item():.1e}; gradient against KL(ref||pi) "
        f"{gap(expected, of_backward):.1e}, against KL(pi||ref) {gap(expected, of_forward):.2f}; least k3 "
        f"{min(values):.3f}",
        abs(value - forward.item()) < EXACT,
        gap(expected, of_backward) < EXACT,
        gap(expected, of_forward) > 0.05,
        min(values) >= 0,
    )


def processes(steps: Sequence[Sequence[Sequence[float]]], length: int = 2) -> Document:
    """Groups of trajectories given by their step rewards, `length` decisions a step, scored at a step's last one."""
    rows = []
    for number, group in enumerate(steps):
        for rewards in group:
            scores = [value for reward in rewards for value in (*[0.0] * (length - 1), reward)]
            rows.append(
                {
                    "group": str(number),
                    "scores": {},
                    "token_scores": {"reward/decision": scores},
                    "segment": [place for place, _ in enumerate(rewards) for _ in range(length)],
                    "logp": [-0.4] * len(scores),
                }
            )
    return document(rows)


@claim("The process form with one final step equals the outcome form")
def _process_with_one_step() -> Finding:
    rng = Key.of(2).numpy()
    groups = [rng.normal(size=4).tolist(), [1.0, 0.0, 0.0], [0.5, 0.5]]
    outcome = gradients(recipes.find("grpo"), recorded(groups, lengths=3))
    process = gradients(recipes.find("grpo-process"), recorded(groups, lengths=3))
    apart = float((outcome - process).abs().max())
    return finding(f"largest difference of gradients {apart:.1e}", apart < 1e-15, float(outcome.abs().max()) > 0)


@claim("The process form sums normalised step rewards from each token on", "arXiv:2402.03300, 4.1.3")
def _process_by_hand() -> Finding:
    steps = [[[0.1, 0.9, 0.4], [0.3], [0.8, 0.2]], [[1.0, 1.0], [1.0]]]
    found = look(recipes.find("grpo-process").but({"credit.epsilon": 0.0}), processes(steps))["advantages"]
    worst, place = 0.0, 0
    for group in steps:
        pool = [reward for rewards in group for reward in rewards]
        mean, deviation = statistics.fmean(pool), statistics.stdev(pool)
        for rewards in group:
            normal = [(reward - mean) / deviation if deviation else 0.0 for reward in rewards]
            expected = [math.fsum(normal[step:]) for step, _ in enumerate(rewards) for _ in range(2)]
            worst = max(worst, *(abs(a - b) for a, b in zip(found[place], expected, strict=True)))
            place += 1
    return finding(f"largest difference from the sum by hand {worst:.1e}", worst < EXACT)


@claim("At pi = pi_old the gradient is REINFORCE's, each sequence weighted 1/(G |o_i|)")
def _on_policy_reinforce() -> Finding:
    """At pi = pi_old the gradient is -A_i / (G |o_i|) at every decision."""
    group, lengths = [1.0, 0.0, 0.25, 1.0], [3, 1, 7, 4]
    batch = recorded([group], lengths=[lengths])
    found = look(GRPO_EXACT, batch)["gradient"]
    mean, deviation = statistics.fmean(group), statistics.stdev(group)
    worst = max(
        abs(value + (reward - mean) / deviation / (len(group) * size))
        for row, reward, size in zip(found, group, lengths, strict=True)
        for value in row
    )
    return finding(f"largest difference from -A_i/(G |o_i|) {worst:.1e}", worst < EXACT)


@claim("The iterative form resets the reference to the policy at each round", "arXiv:2402.03300, algorithm 1")
def _reference_of_a_round() -> Finding:
    """A phase of a plan makes its learners anew, and a learner's reference is the policy as it then is."""
    policy = bandit(0.3).policy
    recipe = recipes.find("grpo-iterative")
    first = Learner(policy, recipe, total_steps=1)
    policy.logits.data += torch.arange(3, dtype=torch.float64)
    second = Learner(policy, recipe, total_steps=1)
    assert isinstance(first.reference, Tabular)
    assert isinstance(second.reference, Tabular)
    old = float((first.reference.logits - policy.logits).detach().abs().max())
    new = float((second.reference.logits - policy.logits).detach().abs().max())
    return finding(
        f"distance of the reference from the policy: first round {old}, second round {new}", old > 1, new == 0
    )


@claim("A small language model clearly improves over its start on arithmetic", "arXiv:2402.03300", slow=True)
def _grpo_improves_the_nano_model() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        quiet: dict[str, Any] = {"evaluation.n": 200, "evaluation.every": 0, "threads": 1}
        run = hocket.train("sums", recipe=recipes.find("grpo"), steps=40, runs=folder, **quiet)
        before, after = (run.summary[when]["accuracy"] for when in ("before", "after"))
    error = math.sqrt((before * (1 - before) + after * (1 - after)) / 200)
    return Finding(
        after - before > 4 * error,
        f"greedy accuracy on unseen sums {before:.3f} -> {after:.3f} in 40 steps (standard error {error:.3f})",
    )
