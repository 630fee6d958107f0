"""What remax claims."""

from __future__ import annotations

import math

import torch

from hocket import recipes
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.groups import Document, Groups, document, first_advantages, gap
from hocket.lab.microscope import look
from hocket.lab.toys.group_statistics import EXACT, bandit, finding, gradients, sentences
from hocket.lab.toys.group_statistics_training import SEEDS, guessing, spread, trained

claim = Claims("remax", "arXiv:2310.10505")


def _greedy_row(group: Groups, reward: float | None = None) -> dict[str, object]:
    """The most likely answer as the baseline."""
    best = max(range(len(group.answers)), key=lambda number: group.chances[number])
    row = group.row(best, source="baseline")
    return row if reward is None else {**row, "scores": {"reward": reward}}


@claim("Its expected gradient is the true one")
def _remax_is_unbiased() -> Finding:
    group = sentences({(1, 0): 1.0, (0,): 0.25})
    recipe = recipes.find("remax")
    base = _greedy_row(group)
    gaps = [gap(group.gradient(recipe, size, [base]), group.true_gradient()) for size in (1, 2, 3)]
    return finding(f"1, 2, 3 samples: {max(gaps):.1e} from the true gradient", max(gaps) < EXACT)


@claim("It does not change when a constant of the prompt is added to the reward")
def _remax_ignores_offsets() -> Finding:
    def prompts(*offsets: float) -> Document:
        return document(
            [
                {"group": str(group), "scores": {"reward": reward + offset}, "logp": [-1.0, -0.5], "source": source}
                for group, offset in enumerate(offsets)
                for reward, source in ((1.0, "own"), (0.5, "own"), (0.25, "baseline"))
            ]
        )

    recipe = recipes.find("remax")
    same = torch.equal(gradients(recipe, prompts(0.0, 8.0)), gradients(recipe, prompts(0.0, 0.0)))
    return finding(f"gradients with offsets 0 and 8, and with none, are bit-equal: {same}", same)


@claim("Its variance is below REINFORCE's when rewards have offsets", "arXiv:2310.10505, section 4")
def _remax_variance() -> Finding:
    """Prompts whose rewards have offsets: the variance of a step, exactly."""
    offsets, remax, reinforce = (0.0, 2.0, 5.0), [], []
    for offset in offsets:
        group = bandit(0.4)
        group.rewards = [reward + offset for reward in group.rewards]
        remax.append(group.moments(recipes.find("remax"), 1, [_greedy_row(group)])[1])
        reinforce.append(group.moments(recipes.find("reinforce"), 1)[1])
    return finding(
        f"offsets {offsets}: ReMax {[round(one, 4) for one in remax]}, "
        f"REINFORCE {[round(one, 4) for one in reinforce]} (without an offset, the smaller)",
        max(remax) - min(remax) < EXACT,
        math.fsum(remax) < math.fsum(reinforce) / 5,
    )


@claim("The advantage fades as the policy becomes deterministic")
def _remax_fades() -> Finding:
    """The mean size of the advantage as the policy becomes deterministic."""
    sizes = []
    for success in (0.6, 0.9, 0.99, 0.9999):
        group = bandit(success)
        total = 0.0
        for chance, drawn in group.samples(1):
            rows = [group.row(drawn[0]), _greedy_row(group)]
            total += chance * abs(first_advantages(recipes.find("remax"), document(rows))[0])
        sizes.append(total)
    return finding(
        f"E|A| at p = 0.6, 0.9, 0.99, 0.9999: {[round(one, 5) for one in sizes]}",
        sizes == sorted(sizes, reverse=True),
        sizes[-1] < 1e-3,
    )


@claim("With rewards per token it is the return-to-go minus the baseline", "verl, compute_remax_outcome_advantage")
def _remax_to_go() -> Finding:
    """With a KL penalty in the reward: return-to-go minus the baseline."""
    recipe = recipes.find("remax").but({"credit.to_go": True})
    rows = [
        {"group": "0", "scores": {"r": 1.0}, "logp": [-1.0] * 3, "token_scores": {"kl": [-0.1, -0.2, -0.3]}},
        {"group": "0", "scores": {"r": 0.5}, "logp": [-1.0], "source": "baseline", "token_scores": {"kl": [0.0]}},
    ]
    found = look(recipe, document(rows))["advantages"][0]
    expected = [1 - 0.6 - 0.5, 1 - 0.5 - 0.5, 1 - 0.3 - 0.5]
    worst = max(abs(a - b) for a, b in zip(found, expected, strict=True))
    return finding(f"advantages {[round(one, 3) for one in found]}", worst < EXACT)


@claim("It learns with one sample per prompt", slow=True)
def _remax_learns_from_single_samples() -> Finding:
    world = guessing(4, 3)
    found = [trained("remax", world, 150, seed, lr=0.1) for seed in SEEDS]
    before, after = found[0].readings[0].success, [bench.success() for bench in found]
    return Finding(min(after) > 0.9, f"success {before:.3f} -> {spread(after)} with one sample per prompt")
