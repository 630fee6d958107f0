"""SAPO's claims."""

import torch

from hocket.lab.claims.harness import (
    EXACT,
    Claims,
    Finding,
    batches,
    below,
    gap,
    gradient,
    inspect_rows,
    say,
)
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.sapo import SAPO

claim = Claims("sapo", "arXiv:2511.20347")


def pulls(reward: float, ratios: torch.Tensor) -> torch.Tensor:
    """The gradient of answers of one token, all of one reward beside one of the other, over their advantage."""
    rows = [
        {"group": "g", "scores": {"reward": reward}, "logp": [float(ratio.log())], "logp_behaviour": [0.0]}
        for ratio in ratios
    ]
    other = {"group": "g", "scores": {"reward": 1 - reward}, "logp": [0.0], "logp_behaviour": [0.0]}
    plain = SAPO.but({"credit.scale": None})
    slopes = gradient(plain, {"version": 1, "trajectories": [*rows, other]})[:-1]
    return -slopes * (len(rows) + 1) / (reward - (reward * len(rows) + 1 - reward) / (len(rows) + 1))


claim.reduces("At the policy that sampled its gradient is GRPO's.", SAPO, GRPO, gap=0.0)


RATIOS = torch.tensor([0.05, 0.5, 0.9, 1.0, 1.1, 2.0, 5.0], dtype=torch.float64)


@claim("A token's gradient is that of r A times 4 p (1 - p), p = sigmoid(tau (r - 1)): never 0, and most at r = 1.")
def a_tokens_gradient_is_that_of_r_a_times_4_p_p_sigmoid_never_0() -> Finding:
    off, weights = [], []
    for reward, tau in ((1.0, 1.0), (0.0, 1.05)):
        chance = 1 / (1 + torch.exp(-tau * (RATIOS - 1)))
        weight = pulls(reward, RATIOS) / RATIOS
        off.append(gap(weight, 4 * chance * (1 - chance)))
        weights.append(weight)
    most = [bool(weight.argmax() == RATIOS.tolist().index(1.0)) for weight in weights]
    return below(EXACT, all(most), bool(min(map(torch.min, weights)) > 0), weight_off_4p_1_minus_p=max(off))


@claim("Negative advantages fade faster.")
def negative_advantages_fade_faster() -> Finding:
    away = RATIOS[RATIOS != 1.0]
    rising, falling = pulls(1.0, away), pulls(0.0, away)
    return Finding(bool((falling < rising).all()), say(largest_share=float((falling / rising).max())))


@claim("Where GRPO's clip silences tokens, it does not.")
def where_grpos_clip_silences_tokens_it_does_not() -> Finding:
    silent = {
        recipe.name: sum(int((gradient(recipe, batch) == 0).sum()) for batch in batches(10, "sapo", gap=0.5))
        for recipe in (GRPO, SAPO)
    }
    return Finding(silent["sapo"] < silent["grpo"], say(tokens_without_gradient=silent))


@claim("It tells how many ratios are beyond e^50, of decisions that count; a batch serves in four parts.")
def it_tells_how_many_ratios_are_beyond_e_50_of_decisions_that() -> Finding:
    far = {"logp": [60.0, 40.0, 60.0, 60.0], "logp_behaviour": [0.0] * 4, "trained": [True, True, False, False]}
    rows = [{"group": "g", "scores": {"reward": reward}, **far} for reward in (1.0, 0.0)]
    same = [{"group": "h", "scores": {"reward": 1.0}, **far}] * 3  # Of advantage 0.
    metrics = inspect_rows(SAPO, rows + same)["metrics"]
    (count,) = [value for name, value in metrics.items() if name.endswith("ratio/saturated")]
    return below(EXACT, SAPO.update == GRPO.but({"update.minibatches": 4}).update, off=abs(count - 2))


claim.spares("sapo: objective.horizon = 5120", "no length divides a mean over answers")

claim.shipped(
    SAPO,
    "objective",
    small="the gates are open at the policy that sampled, and a step's updates move little from it",
)
