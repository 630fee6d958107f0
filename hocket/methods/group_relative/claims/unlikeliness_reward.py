"""The unlikeliness reward's claims."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import torch

from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, gap, inspect_rows
from hocket.lab.microscope import inspect
from hocket.lab.toys.recorded_answers import advantages, drawn, lines, sample
from hocket.lab.toys.training import chances, trained
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.unlikeliness_reward import UNLIKELINESS

claim = Claims("unlikeliness-reward", "arXiv 2506.02355, section 4")


@claim("Of two right samples the less likely one gains more, wrong ones stay alike.")
def of_two_right_samples_the_less_likely_one_gains_more_wrong_ones() -> Finding:
    logps = ([-0.5, -0.5], [-3.0], [-0.1], [-5.0, -5.0])
    rows = [sample("a", reward, logp) for reward, logp in zip((1.0, 1.0, 0.0, 0.0), logps, strict=True)]
    likely, rare, *wrong = own = advantages(UNLIKELINESS, rows)
    # Ranks 2, 1, 3, 0 of G = 4: rewards 1 - 0.25 * 2/4 and 1 - 0.25 * 1/4.
    reward = torch.tensor([0.875, 0.9375, 0.0, 0.0], dtype=torch.float64)
    hand = ((reward - reward.mean()) / (reward.std() + 1e-6)).tolist()
    holds = rare > likely > 0 and wrong[0] == wrong[1] and gap(own, hand) <= EXACT
    return Finding(holds, f"advantages likely {likely:.4f}, rare {rare:.4f}, {lines(wrong=wrong, by_hand=hand)}")


@claim("It is GRPO on rewards lowered by rank, where those are positive and count; equally likely ones share a rank.")
def it_is_grpo_on_rewards_lowered_by_rank_where_those_are_positive() -> Finding:
    def likely(row: dict[str, Any]) -> float:
        return fmean(old for old, counts in zip(row["logp_behaviour"], row["trained"], strict=True) if counts)

    off = 0.0
    for batch in batches(20, "ranks", graded=True):
        rows = batch["trajectories"]
        for number, row in enumerate(rows):
            size = len(row["tokens"])
            # One in two equally likely, one of each group masked, of the others the first decision where not alone.
            old = [-1.0] * size if number % 2 == 0 else row["logp_behaviour"]
            alone = [size == 1, *[True] * (size - 1)]
            row |= {"logp_behaviour": old, "trained": [False] * size if number % 4 == 1 else alone}
            row["scores"] = {"reward": row["scores"]["reward"] - 0.3}
        ranked = [dict(row) for row in rows]
        for row in (row for row in ranked if any(row["trained"]) and row["scores"]["reward"] > 0):
            group = [other for other in rows if other["group"] == row["group"] and any(other["trained"])]
            own, *_ = (likely(other) for other in group if other["id"] == row["id"])
            below = [(likely(other) < own) + (likely(other) == own) / 2 for other in group]
            row["scores"] = {"reward": row["scores"]["reward"] * (1 - 0.25 * (sum(below) - 0.5) / len(group))}
        made, wanted = (inspect_rows(recipe, some) for recipe, some in ((UNLIKELINESS, rows), (GRPO, ranked)))
        off = max(off, gap(made["advantages"], wanted["advantages"]), gap(made["gradient"], wanted["gradient"]))
    return Finding(off < EXACT, f"advantages and gradients of 20 batches off by {off:.2g}")


claim.constants(
    "A batch is passed over twice, in two mini-batches each time.",
    UNLIKELINESS,
    {"update.epochs": 2, "update.minibatches": 2},
    "the released script: 512 samples by 256",
)


@claim("With beta = 0 it is GRPO.", "derived")
def with_beta_0_it_is_grpo() -> Finding:
    plain, batches = UNLIKELINESS.but({"shaping.0.beta": 0.0}), [drawn(seed) for seed in range(20)]
    equal = sum(inspect(plain, one)["gradient"] == inspect(GRPO, one)["gradient"] for one in batches)
    return Finding(equal == 20, f"gradients equal to the bit on {equal} of 20 batches")


MODES = torch.tensor((0.55, 0.2, 0.04, 0.01, 0.1, 0.1), dtype=torch.float64)
"""Four right modes of very different probability, two wrong ones."""


def pass_at(chance: torch.Tensor, tries: int) -> float:
    """The mean over problems, each solved by one mode, of the chance that one of `tries` samples solves it."""
    return float((1 - (1 - chance[:4]) ** tries).mean())


@claim(
    "pass@N for large N does not fall below the base's, while GRPO's does although its pass@1 is higher.",
    "arXiv 2506.02355, figure 1",
    slow=True,
)
def pass_n_for_large_n_does_not_fall_below_the_bases_while_grpos() -> Finding:
    world, before = World(1, 6, 1, lambda question, answer: float(answer[0] < 4)), pass_at(MODES, 64)
    one, many = dict[str, list[float]](), dict[str, list[float]]()
    for recipe in (GRPO, UNLIKELINESS):
        often, start = (
            recipe.but({"rollout.samples": 16, "update": GRPO.update}),
            lambda policy: policy.logits.copy_(MODES.log()),
        )
        shares = [chances(bench) for bench in trained(world, often, 200, start=start)]
        one[recipe.name], many[recipe.name] = ([pass_at(share, tries) for share in shares] for tries in (1, 64))
    holds = min(many[UNLIKELINESS.name]) >= before and min(one["grpo"]) > 0.2 and max(many["grpo"]) < before
    return Finding(holds, lines(pass_at_64_before=before, pass_at_64=many, pass_at_1_before=0.2, pass_at_1=one))


claim.shipped(UNLIKELINESS, "shaping")
claim.shipped(UNLIKELINESS, "update")
