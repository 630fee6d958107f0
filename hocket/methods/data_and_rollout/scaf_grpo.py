"""Scaf-GRPO: a ladder of hints for problems that all samples fail (Zhang et al., arXiv:2510.19807).

For some steps nobody is helped, so that what training solves by itself is told from true failures. Then a failed
scenario is asked with more and more of a hint, and the success made with the least hint that works replaces one failed
sample (`Rescued`). It keeps the hint it was made with, so it is on-policy; all other groups are GRPO's.
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.rollout.rescue import HintAsPrefix, HintInPrompt, Rescued

PARTS = (0.25, 0.5, 0.75, 1.0)
STAGES = ("knowledge", "plan", "solution")

TWELVE = tuple(HintInPrompt(stage, share, f"Hint ({stage}): ") for stage in STAGES for share in PARTS)
"""The paper's ladder, for models that heed what a prompt says: knowledge, plan, solution, each in four parts."""

SCAF_GRPO = GRPO.but(
    name="scaf-grpo",
    title="Scaffolded GRPO: the least hint that works, for problems that all samples fail",
    source="Zhang et al., Scaf-GRPO, arXiv:2510.19807; dvlab-research/Scaf-GRPO",
    family="data-and-rollout",
    catalogue_ids=("scaf-grpo",),
    axes=("data", "rollout", "credit"),
    formula="if max_g R < success: one y_i <- y_h ~ pi(. | x, h), h the least hint with a success;  "
    "r_h = pi(y_h | x, h)/pi_old(y_h | x, h)",
    conventions={
        **GRPO.conventions,
        "ladder": "the first 1/8, 2/8, .. 7/8 of a worked solution, imposed on the response, as the shipped base heeds "
        "no words; scaf-grpo-prompt has the paper's twelve rungs in the prompt",
        "search": "rung by rung; the release plays all rungs at once and takes the lowest that works: the same rung",
        "replaced": "the group's first sample",
        "warm-up": "rollout.after = 50 steps without help, as released",
        "prompt of the success": "the hinted one; rollout.ladder.N.bare = true puts the plain one back, as the release "
        "may",
    },
    task="worked-sums",
    requires=(Requirement.DEMONSTRATIONS,),
    rollout=Rescued(ladder=tuple(HintAsPrefix("demonstration", part / 8) for part in range(1, 8)), samples=8, after=50),
)


SCAF_GRPO_PROMPT = SCAF_GRPO.but(
    name="scaf-grpo-prompt",
    title="Scaf-GRPO with hints in the prompt: knowledge, plan, solution",
    conventions={
        **SCAF_GRPO.conventions,
        "ladder": "knowledge, plan, solution of the scenario's metadata, each in four cumulative parts, in the prompt",
    },
    **{"rollout.ladder": TWELVE},
)
