"""VAR-GRPO's claims."""

from __future__ import annotations

import itertools
import math

import torch

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import Claims, Finding, gap, say
from hocket.methods.generative.ar_grpo.codes import SCALES, Layout, books_of
from hocket.methods.generative.ar_grpo.policy import TokenPainter
from hocket.methods.generative.ar_grpo.pretraining import pairs
from hocket.methods.generative.claims.ar_grpo import attained, drawn, off_by_hand
from hocket.methods.generative.var_grpo import VAR_GRPO
from hocket.types import Quantity

claim = Claims("var-grpo", "arXiv 2505.23331")


@claim("A picture of three scales takes three passes; its log-probs are the teacher-forced ones to the last bit.")
def three_passes_and_teacher_forcing() -> Finding:
    painter, passes = TokenPainter.shipped("policy", "scales"), 0
    plain = painter.logits

    def counted(tokens: torch.Tensor, labels: torch.Tensor, guidance: torch.Tensor) -> torch.Tensor:
        nonlocal passes
        passes += 1
        return plain(tokens, labels, guidance)

    painter.logits = counted  # type: ignore[method-assign]
    output = drawn(painter, 5, 1.0)
    taken = passes
    batch = pack(output)
    apart = gap(painter.evaluate(batch, {Quantity.LOGP}).logp.detach(), batch.logp["behaviour"].values)
    return Finding(taken == len(SCALES) and apart == 0.0, say(passes=taken, log_probs_differ_by=apart))


@claim("The log-probs of a picture are those of the product over scales and places: the second scale's sum to one.")
def scales_are_products() -> Finding:
    painter = TokenPainter.shipped("policy", "scales")
    layout, labels = painter.layout, torch.tensor([[7, 12]])
    tokens = torch.from_numpy(Key.of(0).numpy().integers(0, 32, (1, layout.length)))
    with torch.no_grad():
        logp = torch.log_softmax(painter.module(tokens, labels), -1)[0].double()
        # All pairs of tokens at two places of the second scale, beside the same others.
        total, moved = 0.0, 0.0
        for first, second in itertools.product(range(32), repeat=2):
            total += math.exp(float(logp[2, first] + logp[5, second]))
        for first in range(0, 32, 8):
            other = tokens.clone()
            other[0, 2] = first
            again = torch.log_softmax(painter.module(other, labels), -1)[0].double()
            moved = max(moved, float((again[2:10] - logp[2:10]).abs().max()))
    return Finding(abs(total - 1) < 1e-5 and moved == 0.0, say(mass_of_pairs=total, moved_by_its_own_scale=moved))


@claim("Each scale codes what the coarser ones leave: the picture so far comes nearer with every scale.")
def every_scale_comes_nearer() -> Finding:
    pictures = torch.from_numpy(pairs(Key.of(5).numpy(), 200)[0])
    layout = Layout("scales")
    books = books_of("scales", pictures, Key.of(6))
    tokens, errors = layout.encode(pictures, books), [float(pictures.square().mean())]
    for scale in range(1, len(SCALES) + 1):
        partial = books.clone()
        partial[scale:] = 0.0
        errors.append(float((layout.decode(tokens, partial) - pictures).square().mean()))
    falls = all(after < 0.95 * before for before, after in itertools.pairwise(errors))
    return Finding(falls, say(mean_square_errors=errors))


@claim("The gradient is the formula's: two rewards within the group, clip and k3 at each token.")
def the_gradient_is_the_formulas() -> Finding:
    off = off_by_hand(VAR_GRPO, {"digits": 1.0, "strokes": 0.5}, 0.01)
    return Finding(off < 1e-9, say(batches=6, largest_difference=off))


@claim(
    "As shipped, 24 steps draw 7 points more of unseen digits as asked, more whole numbers, and more strokes as asked, "
    "within .2 nats a token.",
    slow=True,
    learns=True,
)
def as_shipped_it_learns() -> Finding:
    before, after = attained(VAR_GRPO, 24)
    rises = after["digits"] > before["digits"] + 0.07 and after["right"] > before["right"]
    holds = rises and after["strokes"] > before["strokes"] and after["kl"] < 0.2
    return Finding(holds, say(before=before, after=after))


claim.shipped(VAR_GRPO, "rewards")
