"""ExPO: for problems it cannot solve the policy explains the known answer, and imitates that (arXiv:2507.02834).

Where all samples fail, the policy is shown the answer a* and asked again, `c ~ pi(. | q, a*)` (`Rescued`, a bare hint
in the prompt). An explanation that ends in a* is then read as though it had been written from q alone, and GRPO's loss
has a term beside it, `-w log pi(c, a* | q)`. Such text is likelier under pi(. | q) than an expert's solution.

`expo-dpo` has the explanation for the winner of a pair, one of the policy's own failures for the loser.
"""

from __future__ import annotations

from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.base.grpo import GRPO
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.subset import Among
from hocket.rollout.rescue import HELPED, HintInPrompt, Rescued

SHOWN = HintInPrompt("answer", lead="The answer is ", bare=True)

EXPO = GRPO.but(
    name="expo-self-explanation",
    title="Self-explanations of known answers, imitated where all samples fail",
    source="ExPO, arXiv:2507.02834",
    family="data-and-rollout",
    catalogue_ids=("expo-self-explanation",),
    axes=("rollout", "data", "objective"),
    formula="L = L_GRPO - w 1/M sum_c 1/n_c log pi(c, a* | q),  c ~ pi(. | q, a*) for q that all samples fail",
    conventions={
        **GRPO.conventions,
        "weight": "w = regularisers.0.coefficient = 0.5, mean over an explanation's decisions, then over explanations; "
        "the paper's could not be confirmed",
        "explanations": "at most one of four tries per failed scenario, the first that ends in the right answer; it is "
        "in no group's mean and has no advantage",
        "how the answer is shown": "a line under the prompt, rollout.ladder.0.lead",
        "start": "the paper starts from chat models, which explain when told the answer; the shipped base needs a "
        "phase of sft on task worked-sums?told=0.5 first",
    },
    task="worked-sums",
    rollout=Rescued(ladder=(SHOWN,), samples=8, tries=4, beside=True),
    objective=Among(of=GRPO.objective, column=HELPED.name, chosen=False),
    regularisers=(Among(of=NegativeLogLikelihood("sequence-mean"), column=HELPED.name, chosen=True, coefficient=0.5),),
)


EXPO_DPO = ONLINE_DPO.but(
    name="expo-dpo",
    title="Self-explanations of known answers, preferred to own failures",
    source="ExPO, arXiv:2507.02834",
    family="data-and-rollout",
    formula="DPO, y+ = c ~ pi(. | q, a*) and y- ~ pi(. | q) a failure where all samples fail; else the best and worst",
    conventions={
        **ONLINE_DPO.conventions,
        "pairs": "of every group the best against the worst; where all fail an explanation takes one sample's place",
        "how the answer is shown": "a line under the prompt, rollout.ladder.0.lead",
    },
    task="worked-sums",
    rollout=Rescued(ladder=(SHOWN,), samples=8, tries=4),
)
