"""diffu-GRPO and coupled-GRPO: GRPO of masked-diffusion language models by few looks at a final answer.

Under masked diffusion the probability of an answer is a mean over all orders of filling it in. diffu-GRPO (d1) looks
once, from a fully masked answer, with tokens of the prompt masked at random; coupled-GRPO (DiffuCoder) looks twice,
with complementary masks, so that every token is seen once and with some of the others. `MaskFilling` makes the looks,
and the learner evaluates them before its update. cj-grpo follows the recorded path instead.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO
from hocket.rollout.mask_filling import MaskFilling

MASKED = {
    **GRPO.conventions,
    "decision": "a token committed in a state, at its log-prob there; the mask itself has none",
    "answer": "of a fixed number of places, filled up with end tokens, which are decisions too",
}

DIFFU_GRPO = GRPO.but(
    name="diffu-grpo",
    title="diffu-GRPO: one-pass likelihoods of masked-diffusion language models",
    source="d1, Zhao et al., arXiv:2504.12216",
    formula=GRPO.formula + " with pi(o_t) from one pass over a masked answer to a prompt masked by 0.15",
    conventions={
        **MASKED,
        "masks of the prompt": "drawn for every sample, the same for old and new log-probs of an update",
        "order": "of the distributions' own confidence, one token a step",
    },
    rollout=MaskFilling(samples=8, likelihood="one-pass"),
)

COUPLED_GRPO = DIFFU_GRPO.but(
    name="coupled-grpo",
    title="coupled-GRPO: likelihoods from two complementary masks",
    source="DiffuCoder, Gong et al., arXiv:2506.20639",
    formula=GRPO.formula + " with pi(o_t) from that one of two complementary masks in which o_t is masked",
    conventions={
        **MASKED,
        "share of the first mask": "even between one place and all but one; the release means these two with a pass "
        "over a fully masked answer, which is left out",
        "order": "of the distributions' own confidence, one token a step",
    },
    rollout=MaskFilling(samples=8, likelihood="coupled"),
)
