"""Med-R1's claims."""

from __future__ import annotations

from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.recorded_answers import advantages, answer, group_relative, shaped
from hocket.methods.group_relative.med_r1 import MED_R1

claim = Claims("med-r1", "arXiv:2503.13939")

WORKED = "<think>rs gb</think><answer>2</answer>"


@claim("The reward is the right option and a point for the tags; advantages are z-scores within the group.")
def the_reward_is_the_right_option_and_a_point_for_the_tags() -> Finding:
    texts = (WORKED, "<answer>2</answer>", "<think> </think><answer>2</answer>", "")
    rows = [answer(verdict, 2, text=text, logp_ref=[-1.0, -1.0]) for text in texts for verdict in (0.0, 1.0)]
    wanted = [verdict + (text == WORKED) for text in texts for verdict in (0.0, 1.0)]
    off = max(gap(shaped(MED_R1, rows), wanted), gap(advantages(MED_R1, rows), group_relative(wanted)))
    return Finding(off < EXACT and MED_R1.regularisers[0].coefficient == 0.04, say(off=off))  # type: ignore[attr-defined]


claim.shipped(MED_R1, "shaping", settings={"model": "nano-vlm"})
