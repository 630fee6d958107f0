"""Med-R1's claims."""

from __future__ import annotations

from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.pictured_runs import AnswerLabels, PicturedRun
from hocket.lab.toys.recorded_answers import advantages, answer, group_relative, lines, shaped
from hocket.methods.base.sft import SFT
from hocket.methods.group_relative.med_r1 import MED_R1
from hocket.tasks.digits import Digits

claim = Claims("med-r1", "arXiv:2503.13939")

WORKED = "<think>rs gb</think><answer>2</answer>"


@claim("The reward is the right option and a point for the tags; advantages are z-scores within the group.")
def the_reward_is_the_right_option_and_a_point_for_the_tags() -> Finding:
    texts = (WORKED, "<answer>2</answer>", "<think> </think><answer>2</answer>", "")
    rows = [answer(verdict, 2, text=text, logp_ref=[-1.0, -1.0]) for text in texts for verdict in (0.0, 1.0)]
    wanted = [verdict + (text == WORKED) for text in texts for verdict in (0.0, 1.0)]
    off = max(gap(shaped(MED_R1, rows), wanted), gap(advantages(MED_R1, rows), group_relative(wanted)))
    return Finding(off < EXACT and MED_R1.regularisers[0].coefficient == 0.04, say(off=off))  # type: ignore[attr-defined]


@claim(
    "As shipped, trained on one kind of question, it is right more often on the others than supervised fine-tuning is.",
    slow=True,
    learns=True,
)
def trained_on_one_kind_it_is_right_more_often_on_the_others() -> Finding:
    steps, n, others = 16, 100, "digits?kinds=sum,largest"
    run = PicturedRun.of(MED_R1, "digits?kinds=count")
    before = [run.measured(n).success, run.measured(n, others).success]
    run.train(steps)
    after, blind = [run.measured(n).success, run.measured(n, others).success], run.blind(n).success
    settings = {"curriculum.prompts": 16, "update.lr": 3e-4}
    taught = PicturedRun.of(SFT, AnswerLabels(Digits(kinds=("count",))), **settings).train(steps)
    sft = [taught.measured(n).success, taught.measured(n, others).success]
    holds = after[1] > sft[1] and after[1] > before[1] and blind < after[0] - 0.2
    return Finding(holds, lines(this_kind_and_others_before=before, after_rl=after, after_sft=sft, blind=blind))


claim.shipped(MED_R1, "shaping", settings={"model": "nano-vlm"})
