"""RePO: a group's fresh samples, and beside them earlier samples of the same question (Li et al., arXiv:2506.09340).

`WithReplays` keeps what was sampled for each question with the log-probs it was sampled with, and brings some of it
back. `repo-replay` compares fresh and earlier samples each among themselves, `repo-replay-mixed` all together; both
sets go through the same clipped surrogate, in which the ratio of an earlier token is to the policy that sampled it.
"""

from __future__ import annotations

from hocket.core.batch import GroupBy
from hocket.curriculum.scenario_worth import Weighted
from hocket.methods.base.grpo import GRPO
from hocket.objectives.replay_surrogate import ReplayedSurrogate
from hocket.rollout.replay import WithReplays

REPO_REPLAY = GRPO.but(
    name="repo-replay",
    title="RePO: earlier samples of a question beside the fresh ones",
    source="Li et al., RePO: Replay-Enhanced Policy Optimization, arXiv:2506.09340, and the released code",
    family="data-and-rollout",
    catalogue_ids=("repo-replay",),
    axes=("data", "rollout", "credit"),
    formula="A_i = (R_i - mean R)/(std R + eps), over the fresh samples and over the replayed ones apart;  "
    "L = -1/N sum_i 1/n_i sum_t min(r_it A_i, clip(r_it) A_i),  r_it = pi/pi_stored for replayed ones",
    conventions={
        **GRPO.conventions,
        "what is kept": "the latest 16 samples of a question, of steps before this one; rollout.store",
        "what comes back": "the latest 8; rollout.take best (highest reward), spread (largest variance of reward), all",
        "advantages": "split; repo-replay-mixed compares fresh and replayed samples together",
        "weight of the two sets": "one mean over all sequences, fresh and replayed",
        "questions": "all of a finite task and 256 of an endless one (curriculum.pool) come again in random "
        "order, else none would come back",
    },
    task="sums",
    curriculum=Weighted(),
    rollout=WithReplays(),
    objective=ReplayedSurrogate(),
    **{"credit.by": GroupBy("scenario", "source")},
)

REPO_REPLAY_MIXED = REPO_REPLAY.but(
    name="repo-replay-mixed",
    title="RePO with one mean over fresh and replayed samples",
    formula="A_i = (R_i - mean R)/(std R + eps), over the fresh and the replayed samples together",
    conventions={**REPO_REPLAY.conventions, "advantages": "mixed"},
    **{"credit.by": GroupBy("scenario")},
)
