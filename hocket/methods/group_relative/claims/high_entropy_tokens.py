"""The claims on high-entropy tokens."""

from collections.abc import Sequence
from functools import partial

import torch

from hocket.lab.claims.harness import EXACT, Claims, Finding, batches, below, gap, gradient, inspect_rows, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows, standardised
from hocket.methods.base.dapo import DAPO
from hocket.methods.group_relative.high_entropy_tokens import HIGH_ENTROPY_TOKENS

claim = Claims("high-entropy-tokens", "arXiv:2506.01939")


def entropies(batch: dict[str, object]) -> torch.Tensor:
    rows: list[dict[str, list[float]]] = batch["trajectories"]  # type: ignore[assignment]
    return torch.tensor([value for row in rows for value in row["entropy"]], dtype=torch.float64)


@claim("A fifth of the tokens keep their gradient, those of highest entropy over the whole batch.")
def a_fifth_of_the_tokens_keep_their_gradient_those_of_highest() -> Finding:
    entropy = [[0.1, 2.0, 0.3, 0.2, 0.5], [0.0, 0.6, 0.4, 0.7, 1.5], [3.0, 0.1, 0.1, 0.1, 0.1]]
    rows = [
        {"group": "g", "scores": {"reward": reward}, "logp": [-1.0] * 5, "entropy": row}
        for reward, row in zip((1.0, 0.0, 0.5), entropy, strict=True)
    ]
    found = gradient(HIGH_ENTROPY_TOKENS.but({"credit.share": 0.2}), {"version": 1, "trajectories": rows}).view(3, 5)
    # The third answer earned the mean: its fork has no advantage anyway.
    kept = torch.nonzero(found).tolist()
    return Finding(kept == [[0, 1], [1, 4]], say(tokens_with_gradient=str(kept)))


@claim("Where it acts its gradient is DAPO's: what is left out stays in the denominator.")
def where_it_acts_its_gradient_is_dapos_what_is_left_out_stays_in() -> Finding:
    off, silent, whole = 0.0, 0, 0
    for batch in batches(20, "high-entropy-tokens", gap=0.3):
        ours, plain, entropy = gradient(HIGH_ENTROPY_TOKENS, batch), gradient(DAPO, batch), entropies(batch)
        kept = entropy >= torch.quantile(entropy, 0.8)
        off = max(off, gap(ours[kept], plain[kept]), float(ours[~kept].abs().max()))
        silent, whole = silent + int((~kept).sum()), whole + len(kept)
    return below(EXACT, abs(silent / whole - 0.8) < 0.05, off_DAPOs=off)


@claim("Advantages, loss and gradient are those counted by hand; one token alone is no matter.")
def advantages_loss_and_gradient_are_those_counted_by_hand_one() -> Finding:
    def loss(answers: Sequence[CountedAnswer]) -> tuple[torch.Tensor, dict[str, float]]:
        r, a = torch.cat([(one.logp - one.old).exp() for one in answers]), torch.cat([one.advantage for one in answers])
        return -torch.minimum(r * a, r.clamp(0.8, 1.28) * a).mean(), {}

    def credit(members: Sequence[CountedAnswer], least: float) -> list[torch.Tensor]:
        return [a * (one.entropy >= least).double() for a, one in zip(standardised(members), members, strict=True)]

    gaps = []
    for rows in stale_rows("high entropy"):
        seen = [h for row in rows for h, used in zip(row["entropy"], row["trained"], strict=True) if used]
        least = float(torch.tensor(seen, dtype=torch.float64).quantile(0.8))
        gaps.append(off(HIGH_ENTROPY_TOKENS, rows, loss, partial(credit, least=least)))
    alone = {"group": "g", "scores": {"reward": 1.0}, "logp": [-1.0], "entropy": [0.5]}
    return below(EXACT, inspect_rows(HIGH_ENTROPY_TOKENS, [alone])["advantages"] == [[0.0]], off_by_hand=max(gaps))


claim.reduces(
    "With share 1 it is DAPO.",
    HIGH_ENTROPY_TOKENS.but({"credit.share": 1.0}),
    DAPO,
    "share",
    source="derived",
    count=10,
    gap=0.3,
)


claim.shipped(HIGH_ENTROPY_TOKENS, "credit")
