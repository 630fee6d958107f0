"""Process reward models: a scorer that judges every step of an answer (Uesato et al., arXiv:2211.14275).

Labels stand where a step has ended (`LabelledSteps` of `hocket.rollout.labelled_steps`), the score is read there, and
the loss is that of `reward-binary`. Lightman et al. (arXiv:2305.20050) learn from labels of people in the same way.
"""

from __future__ import annotations

from hocket.methods.base.reward_model import READ, REWARD_BINARY
from hocket.rollout.labelled_steps import LabelledSteps

PROCESS_REWARD = REWARD_BINARY.but(
    name="process-reward",
    title="Process reward model from labelled steps or turns",
    source="Uesato et al., arXiv:2211.14275; Lightman et al., arXiv:2305.20050",
    formula="L = 1/M sum_i sum_k -y_ik log sigmoid(s_ik) - (1 - y_ik) log sigmoid(-s_ik),  M labelled steps in all",
    conventions={
        **READ,
        "place": "the score is read where a step, or a turn, has ended: after the separator, and after the last token",
        "score": "log-odds that the step is right",
        "aggregation": "mean over all labelled steps of the batch",
        "after the first wrong step": "steps count as the data label them; null leaves one out",
    },
    rollout=LabelledSteps(),
)
