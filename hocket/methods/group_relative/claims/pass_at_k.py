"""GRPO for pass@k: its claims."""

import itertools
from statistics import stdev

import torch

from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, below, gap, inspect_rows, say
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.pass_at_k import GRPO_PASS_AT_K

claim = Claims("pass-at-k", "arXiv:2503.19595")

REWARDS = (0.0, 0.4, 1.0)
"""Of three answers."""


def advantages(values: tuple[float, ...], **changes: object) -> list[float]:
    """Of answers of one decision each."""
    recipe = GRPO_PASS_AT_K.but(dict(changes)) if changes else GRPO_PASS_AT_K
    rows = [{"group": "g", "scores": {"reward": value}, "logp": [-1.0]} for value in values]
    return [one for (one,) in inspect_rows(recipe, rows)["advantages"]]


@claim("Its expected gradient is that of the expected best of k.", "derived; every group of k samples enumerated")
def its_expected_gradient_is_that_of_the_expected_best_of_k() -> Finding:
    logits, off = torch.tensor([0.3, -0.5, 0.1], dtype=torch.float64, requires_grad=True), {}
    logp = torch.log_softmax(logits, 0)
    for k in (2, 3, 4):
        best = found = torch.zeros((), dtype=torch.float64)
        for group in itertools.product(range(3), repeat=k):
            chance = logp[list(group)].sum().exp()
            values = tuple(REWARDS[answer] for answer in group)
            best = best + chance * max(values)
            credit = torch.tensor(advantages(values), dtype=torch.float64)
            found = found + chance.detach() * (credit * logp[list(group)]).sum()
        exact, ours = (torch.autograd.grad(one, logits, retain_graph=True)[0] for one in (best, found))
        off[f"k_{k}"] = gap(ours, exact)
    return below(EXACT, **off)


@claim("The best earns its lead over the second, the others nothing; ties and equal groups give 0.")
def the_best_earns_its_lead_over_the_second_the_others_nothing_ties() -> Finding:
    cases = {(0.2, 1.0, 0.7): [0.0, 0.3, 0.0], (1.0, 1.0, 0.0): [0.0] * 3, (0.5, 0.5): [0.0] * 2}
    off = max(gap(advantages(values), wanted) for values, wanted in cases.items())
    return below(EXACT, off_by_hand=off)


@claim("Samples that do not count enter no maximum; every decision counts alike; scale std divides by the deviation.")
def samples_that_do_not_count_enter_no_maximum_every_decision() -> Finding:
    off = 0.0
    for batch in batches(10, "pass", gap=0.0, graded=True):
        rows = [
            *batch["trajectories"],
            {"group": "alone", "scores": {"reward": 0.5}, "logp": [-1.0], "trained": [True]},
        ]
        for number, row in enumerate(rows[:-1]):
            row["trained"] = [number % 4 > 0 and place % 3 != 1 for place in range(len(row["logp"]))]
        total = sum(sum(row["trained"]) for row in rows)
        for recipe in (GRPO_PASS_AT_K, GRPO_PASS_AT_K.but({"credit.scale": "std"})):
            credit, slope = [], []
            for row in rows:
                group = [one for one in rows if one["group"] == row["group"] and any(one["trained"])]
                second, best = sorted([0.0, 0.0, *(one["scores"]["reward"] for one in group)])[-2:]
                lead = best - second if len(group) > 1 and row["scores"]["reward"] == best else 0.0
                if recipe is not GRPO_PASS_AT_K and lead:
                    lead /= stdev(one["scores"]["reward"] for one in group) + 1e-6
                credit.append([lead * any(row["trained"])] * len(row["logp"]))
                slope.append([-lead * counts / total for counts in row["trained"]])
            made = inspect_rows(recipe, rows)
            off = max(off, gap(made["advantages"], credit), gap(made["gradient"], slope))
    return below(EXACT, advantages_and_gradients_off_by_hand=off)


@claim("GRPO gives the second best a gradient where pass@k has none.", "derived")
def grpo_gives_the_second_best_a_gradient_where_pass_k_has_none() -> Finding:
    values = (1.0, 0.9, 0.0, 0.0)
    rows = [{"group": "g", "scores": {"reward": value}, "logp": [-1.0]} for value in values]
    second = inspect_rows(GRPO, rows)["advantages"][1][0]
    ours = advantages(values)[1]
    return Finding(second > 0.5 and ours == 0, say(of_GRPO=second, of_pass_at_k=ours))


claim.shipped(GRPO_PASS_AT_K, "credit")
