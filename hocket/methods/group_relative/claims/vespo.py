"""VESPO's claims."""

import math

import torch

from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, gradient, say
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.vespo import VESPO, gamma_weight

claim = Claims("vespo", "arXiv:2602.10693")
TOKENS = GRPO.but({"objective.aggregate": "token-mean"})


claim.reduces("At the policy that sampled its gradient is GRPO's.", VESPO, TOKENS, gap=0.0)


@claim("The weight is 1 at w = 1, most at w = k / lambda, and falls to 0 on both sides.")
def the_weight_is_1_at_w_1_most_at_w_k_lambda_and_falls_to_0_on() -> Finding:
    logs = torch.linspace(-8, 4, 4801, dtype=torch.float64)
    off, ends = [], []
    for power, decay in ((2.0, 3.0), (3.0, 2.0)):
        weight = gamma_weight(logs, torch.full_like(logs, power), torch.full_like(logs, decay))
        at_one = gamma_weight(torch.zeros(1).double(), torch.tensor([power]).double(), torch.tensor([decay]).double())
        top = float(logs[weight.argmax()])
        off += [abs(float(at_one) - 1), abs(top - math.log(power / decay)) / 1e3]
        ends += [float(weight[0]), float(weight[-1])]
    return Finding(max(off) < 3e-6 and max(ends) < 1e-4, say(off=max(off), at_the_ends=max(ends)))


@claim("All tokens of an answer have one weight, phi of the product of their ratios.")
def all_tokens_of_an_answer_have_one_weight_phi_of_the_product_of() -> Finding:
    steps = torch.tensor([0.3, -0.7, 0.2], dtype=torch.float64)
    rows = [
        {"group": "g", "scores": {"reward": reward}, "logp": steps.tolist(), "logp_behaviour": [0.0] * 3}
        for reward in (1.0, 0.0)
    ]
    plain = VESPO.but({"credit.scale": None})
    ours = gradient(plain, {"version": 1, "trajectories": rows})
    whole = float(steps.sum().exp())
    weights = [whole**k * math.exp(decay * (1 - whole)) for k, decay in ((2, 3), (3, 2))]
    wanted = [-0.5 * weights[0] / 6] * 3 + [0.5 * weights[1] / 6] * 3
    return below(EXACT, gradient_off_by_hand=gap(ours, wanted))


@claim(
    "A decision's log-ratio is cut to [-20, 20], an answer's at log 1e-8 from below; a batch serves in four parts.",
    "TRL 1.16; the four parts are chosen here",
)
def a_decisions_log_ratio_is_cut_to_20_20_an_answers_at_log_1e_8() -> Finding:
    rows = [
        {"group": "g", "scores": {"reward": reward}, "logp": steps, "logp_behaviour": [0.0] * 2}
        for reward, steps in ((1.0, [-30.0, 20.0]), (0.0, [0.0, 0.0]))
    ]
    slopes = gradient(VESPO.but({"credit.scale": None}), {"version": 1, "trajectories": rows})
    at = [torch.tensor([one], dtype=torch.float64) for one in (-100.0, 2.0, 3.0)]
    least = float(gamma_weight(*at)) / (1e-16 * math.exp(3 * (1 - 1e-8)))
    parts = VESPO.update == GRPO.but({"update.minibatches": 4}).update
    return below(EXACT, parts, as_if_unmoved=gap(slopes, [-0.5 / 4] * 2 + [0.5 / 4] * 2), least_off=abs(least - 1))


claim.spares("vespo: objective.horizon = 5120", "no length divides a mean over tokens")

claim.shipped(VESPO, "objective")
