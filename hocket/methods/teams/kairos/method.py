"""KAIROS: GRPO among peers who may be right or wrong (Song et al., arXiv:2508.18321).

No new piece: GRPO with its KL term, a higher upper clip and 4 epochs, on a quiz whose prompts hold the peers' records
and answers (task `peer-quiz`), and measures of how far peers help or mislead.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO_KL

KAIROS = GRPO_KL.but(
    name="kairos",
    title="GRPO in the context of peers (KAIROS)",
    source="Song et al., LLMs Can't Handle Peer Pressure, arXiv:2508.18321, and the authors' code",
    family="teams",
    catalogue_ids=("kairos",),
    axes=("environment", "analysis", "team"),
    formula="GRPO with r = [answer = truth], asked with the peers' records and answers; measured: "
    "utility = P(right beside peers | wrong alone), resistance = P(right beside peers | right alone), their harmonic "
    "mean",
    conventions={
        **GRPO_KL.conventions,
        "clipping side": "0.2 below, 0.28 above",
        "gradient steps": "4 epochs over a batch (the authors' num_iterations)",
        "reward": "the verdict alone; the authors' setups add a point for tags, and one for inner voices",
        "context": "task peer-quiz: procedural questions, scripted peers, honest in training",
        "alone": "asked in evaluation, by a conversation of its own; the authors ask once, before all training",
        "opposition": "with the truth, or with an error all peers share; no hard and easy errors as the authors have",
        "no item wrong (right) alone": "utility (resistance) 0, as in the authors' code",
    },
    task="peer-quiz?question=sums&counts=true&peers=1",
    **{"objective.high": 0.28, "update.epochs": 4},
)
