"""DPPO's claims."""

import math
from collections.abc import Sequence
from functools import partial

import torch

from hocket.core.components import value_at
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, gradient, inspect_rows, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.divergence_ppo import DIVERGENCE_PPO, DIVERGENCE_PPO_KL, moved
from hocket.recipe import Recipe

claim = Claims("divergence-ppo", "arXiv:2602.04879")
TOKENS = GRPO.but({"objective.aggregate": "token-mean"})


def pulls(recipe: Recipe, changes: list[tuple[float, float]], *, right: bool) -> torch.Tensor:
    """The gradients of a right, or wrong, answer's tokens whose probabilities went from q to p, over their ratios."""
    row = {"logp": [math.log(p) for _, p in changes], "logp_behaviour": [math.log(q) for q, _ in changes]}
    other = {"logp": [-1.0] * len(changes), "logp_behaviour": [-1.0] * len(changes)}
    rows = [
        {"group": "g", "scores": {"reward": reward}, **one}
        for reward, one in ((float(right), row), (float(not right), other))
    ]
    found = gradient(recipe, {"version": 1, "trajectories": rows})
    return found[: len(changes)] / torch.tensor([p / q for q, p in changes], dtype=torch.float64)


claim.reduces("At the policy that sampled its gradient is GRPO's.", DIVERGENCE_PPO, TOKENS, gap=0.0)


@claim("Loss, gradient and the share masked are the formula's, counted by hand, in probabilities and in nats.")
def loss_gradient_and_the_share_masked_are_the_formulas_counted_by() -> Finding:
    def loss(answers: Sequence[CountedAnswer], bound: float) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        logp, old, a = (
            torch.cat([getattr(one, name) for one in answers]) for name in ("logp", "behaviour", "advantage")
        )
        p, q = logp.detach().exp(), old.exp()
        nats = (p - q).sign() * (q * (q / p).log() + (1 - q) * ((1 - q + 1e-8) / (1 - p + 1e-8)).log())
        gone = a.sign() * (p - q if bound == 0.2 else nats) > bound
        return (-(logp - old).exp() * a * ~gone).mean(), {"ratio/clipped": gone[a != 0].double().mean()}

    bounds = ((DIVERGENCE_PPO, 0.2), (DIVERGENCE_PPO_KL, 0.05))
    gaps = [off(one, rows, partial(loss, bound=bound)) for one, bound in bounds for rows in stale_rows("dppo")]
    updates = [value_at(one, "update.minibatches") for one, _ in bounds]
    far = [
        {"group": "g", "scores": {"reward": float(now)}, "logp": [now], "logp_behaviour": [old]}
        for now, old in ((-1.0, -60.0), (-25.0, -30.0))
    ]
    beyond = inspect_rows(DIVERGENCE_PPO, far)["metrics"]["ratio/saturated"]
    return below(EXACT, updates == [4, 4], beyond == 1, off_by_hand=max(gaps))


CHANGES = [(0.5, 0.69), (0.5, 0.71), (0.5, 0.31), (0.5, 0.29), (0.001, 0.1), (0.1, 0.001)]


@claim("A token is silent where its probability rose by more than 0.2 in a right answer, fell by it in a wrong one.")
def a_token_is_silent_where_its_probability_rose_by_more_than_0_2() -> Finding:
    silent = {right: (pulls(DIVERGENCE_PPO, CHANGES, right=right) == 0).tolist() for right in (True, False)}
    return Finding(
        silent[True] == [False, True, False, False, False, False]
        and silent[False] == [False, False, False, True, False, False],
        say(silent_when_right=str(silent[True]), when_wrong=str(silent[False])),
    )


@claim("Improbable tokens, which GRPO's clip silences at a touch, keep their gradient; probable ones are held sooner.")
def improbable_tokens_which_grpos_clip_silences_at_a_touch_keep() -> Finding:
    rare, sure = (0.01, 0.02), (0.9, 0.68)
    found = {
        recipe.name: [float(pulls(recipe, [rare], right=True)), float(pulls(recipe, [sure], right=False))]
        for recipe in (TOKENS.but({"objective.low": 0.3}), DIVERGENCE_PPO)
    }
    ours, theirs = found["divergence-ppo"], found["grpo"]
    return Finding(ours[0] != 0 == ours[1] and theirs[0] == 0 != theirs[1], say(of_DPPO=str(ours), GRPO=str(theirs)))


@claim("A token that stays counts with its ratio, over all tokens, masked ones too.")
def a_token_that_stays_counts_with_its_ratio_over_all_tokens_masked() -> Finding:
    sizes = pulls(DIVERGENCE_PPO, CHANGES, right=True)
    plain = pulls(TOKENS, [(0.5, 0.5)] * len(CHANGES), right=True)[0]
    kept = torch.tensor([float(number != 1) for number in range(len(CHANGES))], dtype=torch.float64)
    return below(EXACT, off_by_hand=gap(sizes, kept * plain))


@claim("In nats, 0.05 of the split into this token and the others decides, on the same sides.")
def in_nats_0_05_of_the_split_into_this_token_and_the_others() -> Finding:
    def divergence(q: float, p: float) -> float:
        return q * math.log(q / p) + (1 - q) * math.log((1 - q + 1e-8) / (1 - p + 1e-8))

    changes = [*CHANGES, (0.5, 0.6), (0.5, 0.4)]
    logs = torch.tensor([[math.log(p), math.log(q)] for q, p in changes], dtype=torch.float64)
    wanted = [math.copysign(divergence(q, p), p - q) for q, p in changes]
    apart = gap(moved(logs[:, 0], logs[:, 1], "kl"), wanted)
    sides = [
        (pulls(DIVERGENCE_PPO_KL, changes, right=right) == 0).tolist() == [sign * one > 0.05 for one in wanted]
        for right, sign in ((True, 1), (False, -1))
    ]
    return Finding(apart < EXACT and all(sides) and max(wanted) > 0.05 > min(map(abs, wanted)), say(off=apart))


claim.spares("divergence-ppo: objective.horizon = 5120", "no length divides a mean over tokens")


claim.shipped(
    DIVERGENCE_PPO,
    without={"objective.low": 1.0, "objective.high": 1.0},
    sees=lambda run: {"masked": run.mean("ratio/clipped")},
    steps=3,
)
claim.shipped(
    DIVERGENCE_PPO_KL,
    without={"objective.low": 1e9, "objective.high": 1e9},
    sees=lambda run: {"masked": run.mean("ratio/clipped")},
    steps=3,
)
