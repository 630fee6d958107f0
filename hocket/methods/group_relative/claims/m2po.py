"""M2PO's claims."""

import math
from collections.abc import Sequence

import torch

from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, below, gap, gradient, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.m2po import M2PO, within_moment

claim = Claims("m2po", "arXiv:2510.01161")
TOKENS = GRPO.but({"objective.aggregate": "token-mean"})


claim.reduces("At the policy that sampled its gradient is GRPO's.", M2PO, TOKENS, gap=0.0)


@claim("Loss, gradient and the share masked are the formula's, counted by hand, at a threshold of 0.04; four updates.")
def loss_gradient_and_the_share_masked_are_the_formulas_counted_by() -> Finding:
    def loss(answers: Sequence[CountedAnswer]) -> tuple[torch.Tensor, dict[str, float]]:
        d = torch.cat([one.logp - one.behaviour for one in answers])
        squares, size = d.detach().square(), len(d)
        order = squares.argsort()
        while squares[order[:size]].mean() >= 0.04:
            size -= 1
        kept = torch.zeros(len(d)).double().index_fill(0, order[:size], 1.0)
        value = -d.exp() * torch.cat([one.advantage for one in answers]) * kept
        return value.mean(), {"moment/masked": 1 - size / len(d), "ratio/saturated": 0}

    gaps = [off(M2PO, rows, loss) for rows in stale_rows("m2po", gap=0.3)]
    alone = within_moment(torch.tensor([2.0, 1.0, 3.0]), 0.04).tolist() == [False, True, False]
    return below(EXACT, alone, value_at(M2PO, "update.epochs") == 4, off_by_hand=max(gaps))


@claim("What remains has a second moment below the threshold, and one token more would not.")
def what_remains_has_a_second_moment_below_the_threshold_and_one() -> Finding:
    rng = Key.of(0).derive("claims", "m2po").numpy()
    over, under, masked = 0.0, math.inf, 0
    for _ in range(50):
        squares = torch.from_numpy(rng.normal(size=40)).square() * 0.2
        kept = within_moment(squares, 0.04)
        over = max(over, float(squares[kept].mean()))
        if not kept.all():
            more = torch.cat([squares[kept], squares[~kept].min()[None]])
            under, masked = min(under, float(more.mean())), masked + int((~kept).sum())
    return Finding(over < 0.04 <= under and masked > 0, say(moment=over, with_one_more=under, masked=masked))


def document(ratios: list[float]) -> dict[str, object]:
    """A right and a wrong answer with these ratios."""
    logs = [math.log(one) for one in ratios]
    rows = [
        {"group": "g", "scores": {"reward": reward}, "logp": logs, "logp_behaviour": [0.0] * len(logs)}
        for reward in (1.0, 0.0)
    ]
    return {"version": 1, "trajectories": rows}


RATIOS = [1.0, 1.25, 0.85, 0.3]
"""Squared logarithms 0, 0.0498, 0.0264 and 1.45: without the last their mean is 0.0254."""


@claim("Outliers get no gradient, on whichever side; tokens that a clip silences keep theirs.")
def outliers_get_no_gradient_on_whichever_side_tokens_that_a_clip() -> Finding:
    ours, theirs = (gradient(one, document(RATIOS)).view(2, -1) for one in (M2PO, TOKENS))
    silent = [[int((row == 0).sum()) for row in one] for one in (ours, theirs)]
    gone = bool((ours[:, 3] == 0).all())
    return Finding(gone and silent == [[1, 1], [1, 1]] and float(theirs[0, 1]) == 0, say(silent=silent[0]))


@claim("A token that stays counts with its ratio, over all tokens; AReaL divides by those that stay.")
def a_token_that_stays_counts_with_its_ratio_over_all_tokens_areal() -> Finding:
    advantage = math.sqrt(0.5) / (math.sqrt(0.5) * (1 + 1e-6 * math.sqrt(2))) * math.sqrt(0.5)
    wanted = [[-sign * advantage * r * (r != 0.3) / 8 for r in RATIOS] for sign in (1, -1)]
    found = gradient(M2PO, document(RATIOS)).view(2, -1)
    kept = gradient(M2PO.but({"objective.counted": False}), document(RATIOS)).view(2, -1)
    return below(1e-9, off_by_hand=gap(found, wanted), AReaLs=gap(kept * 6 / 8, found))


@claim("The threshold decides: at 10 nobody is masked.", "derived")
def the_threshold_decides_at_10_nobody_is_masked() -> Finding:
    wide, off, silent = M2PO.but({"objective.threshold": 10.0}), 0.0, 0
    plain = TOKENS.but({"objective.low": 1.0, "objective.high": 1e9})
    for one in batches(10, "m2po", gap=0.5):
        for row in one["trajectories"]:
            row.pop("logp_proximal")
        off = max(off, gap(gradient(wide, one), gradient(plain, one)))
        silent += int((gradient(M2PO, one) == 0).sum()) - int((gradient(wide, one) == 0).sum())
    return Finding(off < EXACT and silent > 0, say(off_the_unclipped_surrogate=off, masked_at_0_04=silent))


claim.spares("m2po: objective.horizon = 5120", "no length divides a mean over tokens")
claim.shipped(
    M2PO,
    without={"objective.threshold": 1e9},
    sees=lambda run: {"masked": run.mean("moment/masked")},
    settings={"update.lr": 0.01},
)
