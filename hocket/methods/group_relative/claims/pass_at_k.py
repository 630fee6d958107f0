"""GRPO for pass@k: its claims."""

import itertools

import torch

from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, inspect_rows, say
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
def _() -> Finding:
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
def _() -> Finding:
    cases = {(0.2, 1.0, 0.7): [0.0, 0.3, 0.0], (1.0, 1.0, 0.0): [0.0] * 3, (0.5, 0.5): [0.0] * 2}
    off = max(gap(advantages(values), wanted) for values, wanted in cases.items())
    return below(EXACT, off_by_hand=off)


@claim("GRPO gives the second best a gradient where pass@k has none.", "derived")
def _() -> Finding:
    values = (1.0, 0.9, 0.0, 0.0)
    rows = [{"group": "g", "scores": {"reward": value}, "logp": [-1.0]} for value in values]
    second = inspect_rows(GRPO, rows)["advantages"][1][0]
    ours = advantages(values)[1]
    return Finding(second > 0.5 and ours == 0, say(of_GRPO=second, of_pass_at_k=ours))


claim.shipped(GRPO_PASS_AT_K, "credit")
