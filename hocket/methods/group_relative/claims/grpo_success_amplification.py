"""The claims on GRPO's success amplification, and their page."""

import itertools
import math

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.bandit import Bandit, minimised
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap
from hocket.lab.claims.pages import write
from hocket.lab.theory import amplified, fixed_points, grpo_advantage, slope, success, success_map, success_path
from hocket.lab.toys.enumerable_groups import binary_groups
from hocket.methods.base.grpo import GRPO

claim = Claims("grpo-success-amplification", "arXiv 2503.06639, section 2")
SETTINGS = list(itertools.product((0.01, 0.1, 0.3, 0.5, 0.7, 0.9), (0.3, 1.0, 3.0, 10.0), (1e-4, 1e-2, 0.1)))
"""Success rates of the reference, beta, epsilon."""


def answers(rate: float, number: int) -> tuple[Tensor, Tensor]:
    """A reference over six answers, the first two of which are right with probability `rate` together."""
    noise = Key.of(0).derive("checks", "amplification", "answers", number).numpy()
    weights = torch.from_numpy(noise.uniform(0.2, 1.0, 6))
    right = torch.arange(6) < 2
    return torch.where(right, rate * weights / weights[:2].sum(), (1 - rate) * weights / weights[2:].sum()), right


@claim("the success rate of iterated tilts follows p_n = h(p_{n-1}) to 1e-10", "arXiv 2503.06639, theorem 2")
def the_success_rate_of_iterated_tilts_follows_p_n_h_to_1e_10() -> Finding:
    worst = 0.0
    for number, (rate, beta, epsilon) in enumerate(SETTINGS):
        reference, right = answers(rate, number)
        policy = reference
        for predicted in success_path(success(reference, right), 8, beta=beta, epsilon=epsilon)[1:]:
            policy = amplified(policy, reference, right, beta=beta, epsilon=epsilon)
            worst = max(worst, abs(success(policy, right) - predicted))
    return Finding(worst < 1e-10, f"largest difference over 72 settings of 8 rounds: {worst:.1e}")


@claim("h has a fixed point and every fixed point exceeds p_ref", "arXiv 2503.06639, theorem 3")
def h_has_a_fixed_point_and_every_fixed_point_exceeds_p_ref() -> Finding:
    points = [fixed_points(rate, beta=beta, epsilon=epsilon, grid=500) for rate, beta, epsilon in SETTINGS]
    least = min(point - rate for own, (rate, _, _) in zip(points, SETTINGS, strict=True) for point in own)
    saw = f"least p* - p_ref over 72 settings: {least:.1e}; at most {max(map(len, points))} fixed points"
    return Finding(all(points) and least > 0, saw)


@claim("GRPO's advantages are w_plus and -w_minus")
def grpos_advantages_are_w_plus_and_w_minus() -> Finding:
    # Also w_plus + w_minus = 1/sqrt(p(1-p) + e).
    worst, recipe, blank = 0.0, GRPO.but({"credit.ddof": 0, "credit.epsilon": 0.0}), torch.zeros(16).double()
    for right, rewards in enumerate(binary_groups(16)[1:16], start=1):
        ours = Bandit(rewards, blank, blank, [1] * 16).batch(recipe).occurrences.advantage
        p, wanted = right / 16, grpo_advantage(torch.tensor(rewards) > 0, right / 16, 0.0)
        worst = max(worst, gap(ours, wanted), gap(wanted.max() - wanted.min(), 1 / math.sqrt(p * (1 - p))))
    return Finding(worst < EXACT, f"largest difference at success rates 1/16 to 15/16: {worst:.1e}")


@claim("one round's optimum is the closed-form tilt of the reference", "arXiv 2503.06639, theorem 1", slow=True)
def one_rounds_optimum_is_the_closed_form_tilt_of_the_reference() -> Finding:
    worst = 0.0
    for number, (rate, beta) in enumerate(((0.05, 0.5), (0.3, 2.0), (0.8, 1.0))):
        reference, right = answers(rate, number)
        advantage = grpo_advantage(right, rate, 1e-4)

        def loss(logits: Tensor, old: Tensor = reference, beta: float = beta, gain: Tensor = advantage) -> Tensor:
            logp = torch.log_softmax(logits, 0)
            return beta * (logp.exp() * (logp - old.log())).sum() - (logp.exp() * gain).sum()

        tilt = amplified(reference, reference, right, beta=beta, epsilon=1e-4)
        worst = max(worst, gap(minimised(loss, reference.log(), 60), tilt))
    return Finding(worst < 1e-6, f"largest difference of probabilities over 3 settings: {worst:.1e}")


@claim("a softmax policy trained on the recipe's loss has success p_n after round n", "arXiv 2503.06639", slow=True)
def a_softmax_policy_trained_on_the_recipes_loss_has_success_p_n() -> Finding:
    # Two answers stand for the two kinds; each round's samples hold them in the old policy's shares, rounded to 1/200,
    # so that nothing else is left to chance, and h is taken at the rounded share. Unclipped, with an unbiased KL term.
    beta, number, worst, paths = 1.5, 200, 0.0, []
    leash = {"type": "hocket.objectives.KLToReference", "estimator": "k1", "coefficient": beta, "unbiased": True}
    exact = {"credit.ddof": 0, "credit.epsilon": 0.0, "objective.low": 1.0, "objective.high": 1e9}
    mean = {"regularisers": [{**leash, "aggregate": "token-mean"}], "objective.aggregate": "token-mean"}
    recipe = GRPO.but(exact | mean)
    for share in (0.05, 0.1, 0.3):
        reference, rates = torch.tensor([share, 1 - share], dtype=torch.float64).log(), [share]
        for _ in range(3):
            good = round(rates[-1] * number)
            old = torch.tensor([good / number, 1 - good / number], dtype=torch.float64).log()
            bandit = Bandit([1.0, 0.0], old, reference, [good, number - good])
            rates.append(float(bandit.minimise(recipe, start=old, steps=40)[0]))
            worst = max(worst, abs(rates[-1] - success_map(good / number, share, beta=beta, epsilon=0.0)))
        paths.append(" ".join(f"{value:.3f}" for value in rates))
    return Finding(worst < 1e-6, f"rounds {'; '.join(paths)}; largest distance from h {worst:.1e}")


@claim("rounds converge to the fixed point exactly where |h'| < 1 there", "derived")
def rounds_converge_to_the_fixed_point_exactly_where_h_1_there() -> Finding:
    """Rounds need not converge to p*, they may circle it: the last case has one fixed point, and it is unstable."""
    holds, cases = True, []
    for rate, beta in ((0.3, 3.0), (0.01, 1.0), (0.001, 1.0)):
        (point,) = fixed_points(rate, beta=beta, epsilon=1e-2, grid=2000)
        end, s = success_path(rate, 400, beta=beta, epsilon=1e-2)[-1], slope(point, rate, beta=beta, epsilon=1e-2)
        holds &= (abs(s) < 1) == (abs(end - point) < 1e-6)
        cases.append(f"p_ref {rate}, beta {beta}: p* {point:.3f}, h' {s:.2f}, after 400 rounds {end:.3f}")
    return Finding(holds, "; ".join(cases))


PAGE = """# Success amplification

*Made by `python -m hocket.methods.group_relative.claims.grpo_success_amplification`;
`hocket recipes --check grpo-success-amplification` runs the checks.
The examples are run as tests.*

With rewards 0 and 1 and an old policy that is right with probability p, GRPO's advantage is (1-p)/sqrt(p(1-p)+e) for
a right answer and -p/sqrt(p(1-p)+e) for a wrong one. Without clipping, a round maximises
E_old[pi/pi_old A] - beta KL(pi || ref), and its optimum is known (arXiv:2503.06639): the reference tilted by
exp(A/beta).

```python
>>> import torch
>>> from hocket.lab.theory import amplified, fixed_points, slope, success, success_map, success_path
>>> reference = torch.tensor([0.05, 0.05, 0.6, 0.3], dtype=torch.float64)
>>> right = torch.tensor([True, True, False, False])
>>> tilted = amplified(reference, reference, right, beta=2.0, epsilon=0.01)
>>> round(success(tilted, right), 6)
0.350672
>>> round(success_map(0.1, 0.1, beta=2.0, epsilon=0.01), 6)
0.350672

```

Right answers keep their proportions among each other, and so do wrong ones; only the odds between the two move. So the
success rate alone follows a recurrence, p_n = h(p_{n-1}), h(p) = 1/(1 + (1-p_ref)/p_ref exp(-1/(beta sqrt(p(1-p)+e)))).

```python
>>> [round(p, 4) for p in success_path(0.1, 5, beta=2.0, epsilon=0.01)]
[0.1, 0.3507, 0.2366, 0.2589, 0.2527, 0.2543]
>>> [round(p, 4) for p in fixed_points(0.1, beta=2.0, epsilon=0.01)]
[0.2539]

```

Since the exponent is positive, h(p) > p_ref for every p, so every fixed point lies above the reference: rounds amplify
success. There is always one, as h maps [0, 1] into itself. It need be neither unique nor stable:

```python
>>> [(round(p, 3), round(slope(p, 0.1, beta=1.0, epsilon=0.01), 2)) for p in fixed_points(0.1, beta=1.0, epsilon=0.01)]
[(0.444, -0.11), (0.985, 1.83), (0.999, 0.24)]
>>> [round(p, 3) for p in success_path(0.001, 400, beta=1.0, epsilon=0.01)[-2:]]
[0.65, 0.008]

```

In the first case rounds end at the fixed point on whose side they start; in the second the only fixed point, 0.054, has
slope -1.5, and the success rate jumps between two values for ever. A larger beta or e calms it.

## What the checks saw

{figures}
"""


if __name__ == "__main__":
    write("success-amplification", PAGE, claim)
