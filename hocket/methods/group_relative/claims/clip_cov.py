"""Clip-Cov's and KL-Cov's claims."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, below, gap, gradient, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.clip_cov import CLIP_COV, KL_COV, covariances
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.recipe import Recipe

claim = Claims("clip-cov", "arXiv:2505.22617")
TOKENS = GRPO.but({"objective.aggregate": "token-mean"})
LOGP = [-0.01, -0.5, -4.0, -1.5]
"""Of one right and one wrong answer; their mean is -1.5025, advantages are +-0.7071."""


def document(logp: Sequence[float] = LOGP, drift: float = 0.0) -> dict[str, Any]:
    """A right and a wrong answer with these log-probs, each token having moved by `drift` nats."""
    rows = [
        {"group": "g", "scores": {"reward": r}, "logp": list(logp), "logp_behaviour": [one - drift for one in logp]}
        for r in (1.0, 0.0)
    ]
    return {"version": 1, "trajectories": rows}


def silent(recipe: Recipe, batch: dict[str, Any]) -> list[int]:
    return torch.nonzero(gradient(recipe, batch) == 0).flatten().tolist()


@claim("The change of entropy under a small natural step is minus the covariance.", "section 3, theorem 1")
def the_change_of_entropy_under_a_small_natural_step_is_minus_the() -> Finding:
    rng, off = Key.of(0).derive("claims", "clip-cov").numpy(), 0.0
    for _ in range(20):
        logits = torch.from_numpy(rng.normal(size=6)).requires_grad_()
        advantage = torch.from_numpy(rng.normal(size=6))
        logp = torch.log_softmax(logits, 0)
        (slope,) = torch.autograd.grad(-(logp.exp() * logp).sum(), logits)
        chance, logp = logp.exp().detach(), logp.detach()
        mean, gain = (chance * logp).sum(), (chance * advantage).sum()
        off = max(off, gap((slope * advantage).sum(), -(chance * (logp - mean) * (advantage - gain)).sum()))
    return below(EXACT, off=off)


@claim("Losses, gradients and shares of both are the formulas', counted by hand; two updates.")
def losses_gradients_and_shares_of_both_are_the_formulas_counted_by() -> Finding:
    def loss(answers: Sequence[CountedAnswer], held: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        logp, old, a = (torch.cat([getattr(one, name) for one in answers]) for name in ("logp", "old", "advantage"))
        d, apart = logp - old, (logp - logp.mean()).detach() * (a - a.mean())
        gaps.append(gap(covariances(logp, a + 1), apart))
        if held:
            chosen = apart == apart.max()
            value = -d.exp() * a + d.abs() * chosen
        else:
            chosen = (apart > 1) & (apart < 5) & ~((a > 0) & (d.exp() > 2))
            value = -torch.minimum(d.exp() * a, d.exp().clamp(0, 2) * a) * ~chosen
        return value.mean(), {f"covariance/{'held' if held else 'clipped'}": chosen.double().mean()}

    forms, gaps = (CLIP_COV.but({"objective.portion": 1.0}), KL_COV), list[float]()
    for one in forms:
        gaps += [off(one, rows, partial(loss, held=one == KL_COV)) for rows in stale_rows("clip-cov", groups=6)]
    return below(EXACT, *(value_at(one, "update.epochs") == 2 for one in forms), off_by_hand=max(gaps))


@claim("Clip-Cov silences tokens of covariance between 1 and 5 alone: praised likely, blamed unlikely ones.")
def clip_cov_silences_tokens_of_covariance_between_1_and_5_alone() -> Finding:
    every = CLIP_COV.but({"objective.portion": 1.0})
    # Covariances in the right answer: 1.055, 0.709, -1.766, 0.002; in the wrong one minus those.
    found = silent(every, document())
    # Further apart, 7.4 x 0.7071 = 5.24 is beyond the upper bound, 3.4 x 0.7071 = 2.42 within.
    wide = silent(every, document([-0.1, -0.1, -4.9, -0.1 - 0.0]))
    far = silent(every, document([-0.1, -0.1, -0.1, -10.0]))
    return Finding(
        found == [0, 6] and wide == [6] and far == [0, 1, 2], say(first=str(found), wide=str(wide), far=str(far))
    )


@claim("As many as the portion says are drawn among them, at least one; the others count as GRPO's, over all.")
def as_many_as_the_portion_says_are_drawn_among_them_at_least_one() -> Finding:
    rows = document([-0.01] * 300 + [-4.0] * 300)
    counts = {portion: len(silent(CLIP_COV.but({"objective.portion": portion}), rows)) for portion in (1e-4, 0.01, 0.1)}
    ours, plain = gradient(CLIP_COV, document()), gradient(TOKENS, document())
    kept = ours != 0
    counts[2e-4] = len(silent(CLIP_COV, document([-0.01] * 3000 + [-4.0] * 3000)))
    holds = counts == {1e-4: 1, 0.01: 12, 0.1: 120, 2e-4: 2} and int((~kept).sum()) == 1
    return Finding(holds and gap(ours[kept], plain[kept]) < EXACT, say(silent_of_1200_or_12000=str(counts)))


@claim("Who is drawn changes from batch to batch, and not from one evaluation to the next.", "derived")
def who_is_drawn_changes_from_batch_to_batch_and_not_from_one() -> Finding:
    drawn = [silent(CLIP_COV, document([-0.01] * size + [-4.0] * size))[0] / (4 * size) for size in range(20, 40)]
    again = silent(CLIP_COV, document([-0.01] * 20 + [-4.0] * 20))[0] / 80
    return Finding(again == drawn[0] and max(drawn) - min(drawn) > 0.3, say(place=drawn))


@claim("What the clip has silenced already is not chosen.", "released code")
def what_the_clip_has_silenced_already_is_not_chosen() -> Finding:
    narrow = CLIP_COV.but({"objective.portion": 1.0, "objective.low": 0.2, "objective.high": 0.2})
    # All ratios are e^0.5: the right answer is clipped, the wrong one is not.
    found = silent(narrow, document(drift=0.5))
    return Finding(found == [0, 1, 2, 3, 6], say(silent=str(found)))


@claim(
    "KL-Cov holds the tokens of largest covariance: 1 + sign(log r) away from -A r, at no others; nothing is clipped."
)
def kl_cov_holds_the_tokens_of_largest_covariance_1_sign_away_from() -> Finding:
    chosen, off = KL_COV.but({"objective.portion": 0.25}), 0.0
    advantage = 0.5**0.5 / (1 + 1e-6 * 2**0.5)
    for drift in (0.7, -0.7):
        plain = [-sign * advantage * torch.tensor(drift).double().exp() / 8 for sign in (1, -1) for _ in LOGP]
        held = [0.0] * 8
        held[0] = held[6] = 1 / 8 if drift > 0 else -1 / 8
        wanted = [float(one) + extra for one, extra in zip(plain, held, strict=True)]
        off = max(off, gap(gradient(chosen, document(drift=drift)), wanted))
    return below(1e-6, off_by_hand=off)


@claim("At least one token is held, 2e-3 of them otherwise.")
def at_least_one_token_is_held_2e_3_of_them_otherwise() -> Finding:
    counts = {}
    for size in (4, 500):
        rows = document([-0.01, -4.0] * size, drift=0.3)
        free = KL_COV.but({"objective.coefficient": 0.0})
        counts[4 * size] = int((gradient(KL_COV, rows) != gradient(free, rows)).sum())
    return Finding(counts == {16: 1, 2000: 4}, say(held=str(counts)))


@claim("With coefficient 0 it is the unclipped surrogate.", "derived")
def with_coefficient_0_it_is_the_unclipped_surrogate() -> Finding:
    free = KL_COV.but({"objective.coefficient": 0.0})
    plain = TOKENS.but({"objective.low": 1.0, "objective.high": 1e9})
    off = max(gap(gradient(free, one), gradient(plain, one)) for one in batches(10, "kl-cov", gap=0.5))
    return below(EXACT, largest_difference_of_gradients=off)


claim.spares("clip-cov: objective.horizon = 5120", "no length divides a mean over tokens")
claim.spares("kl-cov: objective.horizon = 5120", "no length divides a mean over tokens")
claim.shipped(CLIP_COV, without={"objective": ClippedSurrogate(low=1.0, high=1.0, aggregate="token-mean")})
claim.shipped(KL_COV, without={"objective.coefficient": 0.0})
