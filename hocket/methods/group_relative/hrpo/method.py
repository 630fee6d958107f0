"""HRPO: GRPO for a policy that thinks in a mix of tokens and hidden summaries (Yue et al., arXiv:2505.18454).

Credit and loss are GRPO's with its KL term. The method is the policy, `LatentLM` of
`hocket.methods.group_relative.hrpo.latent`, whose gates decide how much of the last step's summary enters the next
input; `LatentThoughts` refuses any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hocket.core.policy_parts import PolicyPart
from hocket.methods.base.grpo import GRPO_KL
from hocket.rollout.independent import Independent


@dataclass(frozen=True)
class Latents(PolicyPart):
    """Gates that mix thoughts with latents: those of a `LatentLM`, which is made with them."""

    needed: ClassVar[str] = "latent thoughts"
    holders: ClassVar[str] = "the policy hocket.methods.group_relative.hrpo.LatentLM"
    advice: ClassVar[str] = "choose grpo-kl"

    def fits(self, policy: Any) -> bool:
        return bool(getattr(policy, "latents", False))

    def install(self, policy: Any) -> None:
        """There is nothing to add."""


@dataclass(frozen=True)
class LatentThoughts(Independent):
    """`samples` of every scenario from a policy whose thoughts mix tokens with latents (HRPO, arXiv 2505.18454).

    A run whose rollout it is makes its language model a `LatentLM`. Policies of other kinds are refused: without gates
    the method would be another one.

    Attributes:
        thoughts: tokens at most after which the next input is mixed; None for all before the answer.
    """

    thoughts: int | None = None

    plays: ClassVar[str] = "latent"
    kind: ClassVar[str] = "hocket.methods.group_relative.hrpo.kind:LATENT"
    policy_parts: ClassVar[tuple[PolicyPart, ...]] = (Latents(),)


HRPO = GRPO_KL.but(
    name="hrpo",
    title="Hybrid Latent Reasoning",
    source="Yue et al., arXiv:2505.18454, and the code its authors released",
    catalogue_ids=("hrpo",),
    axes=("policy", "rollout", "objective"),
    formula=GRPO_KL.formula + ";  inputs of thoughts are a e + sqrt(1 - a^2) (i h), h stored by the rollout",
    conventions={
        **GRPO_KL.conventions,
        "KL": "k3 in the loss, coefficient 0.005 (the paper's); the reference has the gates it began with",
        "latents": "summaries of the rollout are constants when learning; gates and embeddings get gradients",
        "mix": "1 - a^2 is computed as -expm1(2 log a), so that squares sum to 1 and a = 1 is exact; the released code "
        "adds 1e-8",
        "learning rates": "one; Lambda is stored divided by 20, where the released code has rates 20 and 200 times "
        "the model's for gates and Lambda",
        "summary": "embeddings averaged under the distribution sampled from, over the norm of its probabilities",
        "answer marker": "<answer>, after which inputs are plain, where it is one token of the model; else none",
        "sampler": "plain: a pass of the model for each token of all samples, in fp32, so for small models",
    },
    rollout=LatentThoughts(samples=8),
    **{"regularisers.0.coefficient": 0.005},
)
