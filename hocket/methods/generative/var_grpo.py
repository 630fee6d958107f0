"""VAR-GRPO: GRPO of a next-scale generator of pictures (arXiv:2505.23331).

A picture is a sequence of token maps of growing resolution. All tokens of a map are drawn at once, given the coarser
maps, so a picture of three scales takes three passes, and its log-probability is the sum over scales and tokens. The
reward is of the finished picture. Pictures, judge and rewards are those of `ar_grpo`, without its realism.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO_KL
from hocket.methods.generative.ar_grpo.method import AR_GRPO

VAR_GRPO = AR_GRPO.but(
    name="var-grpo",
    title="GRPO of next-scale visual autoregressive models",
    source="arXiv:2505.23331",
    catalogue_ids=("var-grpo",),
    axes=("policy", "credit"),
    formula=GRPO_KL.formula + " with log pi = sum over scales k and places p of log pi(x_kp | x_1..x_k-1)",
    conventions={
        **GRPO_KL.conventions,
        "decision": "a token of a scale; those of one scale are independent given the coarser ones",
        "scales": "2, 8 and 32 tokens, each the nearest code of what the coarser maps leave; a book for each",
        "guidance": "none",
        "KL": "k3 in the loss, coefficient 0.01; the paper's is unknown",
    },
    task="digit-tokens?order=scales",
    rewards=AR_GRPO.rewards[:2],
)
