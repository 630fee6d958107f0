"""GHPO: problems beyond reach are asked again with the beginning of their solution (Liu et al., arXiv:2507.10628).

Difficulty is read off the group: where all samples fail, the scenario is asked again with the first quarter of a
reference solution, then with half, then with three quarters, and the first whole group with a success takes the place
of the failed one (`Rescued` with `take` None). Hint tokens are never learnt from.
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.rewards.tags import TagFormat
from hocket.rollout.rescue import HintAsPrefix, HintInPrompt, Rescued

SHARES = (0.25, 0.5, 0.75)
LEAD = "The following text is the beginning part of the answer, which you can refer to for solving the problem:\n"

IN_PROMPTS = tuple(HintInPrompt("demonstration", share, LEAD) for share in SHARES)
"""The released form, for models that heed what a prompt says."""

GHPO = GRPO.but(
    name="ghpo",
    title="Adaptive guidance: failed problems asked again with a part of their solution",
    source="GHPO, arXiv:2507.10628; hkgc-1/GHPO",
    family="data-and-rollout",
    catalogue_ids=("ghpo",),
    axes=("data", "rollout", "reward"),
    formula="if max_g R < success: q <- q + h_{1:floor(w |h|)}, w = 1/4, 1/2, 3/4 until it works;  "
    "R = verdict + form/2",
    conventions={
        **GRPO.conventions,
        "hint": "the first tokens of the solution, imposed on the response (HintAsPrefix), as the shipped base heeds "
        "no words; ghpo-prompt has the released form, a line under the prompt with the first characters",
        "length of a hint": "floor(w n); the released code rounds",
        "shares": "0.25, 0.5, 0.75 as in the released code; its configuration names a fixed 0.5 besides",
        "group": "as many hinted samples as before replace the whole group; if none works the first group stays, which "
        "has no gradient either way",
        "form": "half a point for an answer in its tags after a thought, if any; success is the verdict's alone",
    },
    task="worked-sums",
    requires=(Requirement.DEMONSTRATIONS,),
    rollout=Rescued(
        ladder=tuple(HintAsPrefix("demonstration", share) for share in SHARES), samples=8, take=None, tries=None
    ),
    shaping=(TagFormat(weight=0.5, thought="optional"),),
)


GHPO_PROMPT = GHPO.but(
    name="ghpo-prompt",
    title="GHPO with the part of the solution in the prompt",
    conventions={
        **GHPO.conventions,
        "hint": "a line under the prompt with the solution's first characters, as released",
    },
    **{"rollout.ladder": IN_PROMPTS},
)
