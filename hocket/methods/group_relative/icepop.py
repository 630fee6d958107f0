"""IcePop: GRPO without the tokens on which sampler and learner disagree (Ling Team, arXiv:2510.18855).

Engines that sample compute other probabilities than the learner does, most of all with experts. Where their ratio
leaves a band the token counts 0, and stays in the denominators (`Counted`); within it the ratio corrects for the
sampler (`MaskedImportance`).
"""

from __future__ import annotations

from hocket.credit.corrections import MaskedImportance
from hocket.credit.kept_denominators import Counted
from hocket.methods.base.grpo import GRPO

ICEPOP = GRPO.but(
    name="icepop",
    title="IcePop: double-sided masking between sampler and learner",
    source="Ling Team, Every Step Evolves, arXiv:2510.18855",
    formula=GRPO.formula + " weighted by M(k_it),  k = pi_learner/pi_sampler,  M(k) = k if 0.5 <= k <= 5 else 0",
    conventions={
        **GRPO.conventions,
        "old policy": "the learner's own log-probs before the update; the sampler's enter the weight alone",
        "importance weight": "per decision, in [0.5, 5], the report's; outside 0",
        "aggregation": "as GRPO's, over all decisions, masked ones included; without Counted, over what is kept",
    },
    note="acts where sampler and learner disagree (another engine or precision); with the local one all weights are 1",
    correction=Counted(of=MaskedImportance(low=0.5, high=5.0, level="decision", reweight=True)),
)
