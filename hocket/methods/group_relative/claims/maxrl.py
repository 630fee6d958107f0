"""MaxRL's claims."""

import itertools
from typing import Any

import torch

from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, inspect_rows, say
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.maxrl import MAXRL

claim = Claims("maxrl", "arXiv:2602.02710")


def advantages(values: tuple[float, ...], recipe: Any = MAXRL) -> list[float]:
    """Of answers of one decision each."""
    rows = [{"group": "g", "scores": {"reward": value}, "logp": [-1.0]} for value in values]
    return [one for (one,) in inspect_rows(recipe, rows)["advantages"]]


@claim(
    "Its expected gradient is that of sum_{k < N} pass@k / k, N the samples of a group.",
    "derived from arXiv:2602.02710, whose form without a baseline has the sum to N; every group enumerated",
)
def its_expected_gradient_is_that_of_sum_k_n_pass_k_k_n_the_samples() -> Finding:
    exactly, off = MAXRL.but({"credit.epsilon": 0.0}), dict[str, float]()
    for chance in (0.05, 0.5, 0.9):
        logit = torch.tensor(chance, dtype=torch.float64).logit().requires_grad_()
        right = torch.sigmoid(logit)
        logp = torch.stack([(1 - right).log(), right.log()])
        for size in (2, 3, 5):
            ours = torch.zeros((), dtype=torch.float64)
            for group in itertools.product(range(2), repeat=size):
                credit = torch.tensor(advantages(tuple(map(float, group)), exactly), dtype=torch.float64)
                ours = ours + logp[list(group)].sum().exp().detach() * (credit * logp[list(group)]).mean()
            wanted = torch.stack([(1 - (1 - right) ** k) / k for k in range(1, size)]).sum()
            gradients = [torch.autograd.grad(one, logit, retain_graph=True)[0] for one in (ours, wanted)]
            off[f"N_{size}"] = max(off.get(f"N_{size}", 0.0), gap(*gradients))
    return below(EXACT, **off)


@claim("The rarer the right answers, the more they count: 1/p - 1 each.")
def the_rarer_the_right_answers_the_more_they_count_1_p_1_each() -> Finding:
    found = {right: advantages((1.0,) * right + (0.0,) * (8 - right))[0] for right in (1, 2, 4, 7)}
    off = max(abs(value - (1 - right / 8) / (right / 8 + 1e-6)) for right, value in found.items())
    return Finding(
        off < EXACT, say(of_8_right=str(list(found)), advantages=str([round(one, 3) for one in found.values()]))
    )


@claim("Groups that are all right or all wrong give 0.")
def groups_that_are_all_right_or_all_wrong_give_0() -> Finding:
    same = [advantages((value,) * 4) for value in (0.0, 1.0, 0.3)]
    return Finding(not any(map(any, same)), say(largest=max(map(max, same))))


@claim("Against GRPO hard questions count more, easy ones less.", "derived: GRPO weighs by 1/sqrt(p (1 - p))")
def against_grpo_hard_questions_count_more_easy_ones_less() -> Finding:
    def weights(recipe: Any) -> list[float]:
        """How much a right answer counts over a wrong one, with 1 and with 7 right of 8."""
        return [max(one) - min(one) for one in (advantages((1.0,) * n + (0.0,) * (8 - n), recipe) for n in (1, 7))]

    ours, theirs = weights(MAXRL), weights(GRPO)
    return Finding(
        ours[0] / ours[1] > 6 and abs(theirs[0] / theirs[1] - 1) < 1e-9, say(ours=str(ours), GRPO=str(theirs))
    )


claim.shipped(MAXRL, "credit")
