"""Preferences between two ways on from the turn where a dialogue went wrong."""

from __future__ import annotations

from hocket.credit import SegmentPairs
from hocket.recipes.preference import DPO
from hocket.rollout import ProbedTurns, ResampledTurn

SDPO = DPO.but(
    name="sdpo",
    title="Segment-level Direct Preference Optimisation for social agents",
    source="Kong et al., arXiv:2501.01821, and the authors' code",
    family="agents",
    catalogue_ids=("sdpo",),
    axes=("objective", "credit", "data"),
    formula="L = -mean_pairs log sigmoid(beta sum_{t=e}^{e+k-1} [d_t^w - d_t^l]),  "
    "d_t = log pi(y_t | h_t) - log pi_ref(y_t | h_t)",
    conventions={
        **DPO.conventions,
        "aggregation": "log-probs summed over the decisions of the segment's turns, mean over pairs",
        "pairs": "a dialogue against the best of 5 that go on from just before its error turn, if that is worth more",
        "bad dialogues": "all; rollout.good sets the score from which a dialogue is left alone (the authors' 8 of 10)",
        "error turn": "after which the expected score falls most, by 4 dialogues from each history; the authors ask "
        "GPT-4o: rollout.judge = {type: hocket.rollout.NamedBy, judge: FILE.py:FUNCTION}",
        "start of the segment": "the first turn in which the two differ, which is the error turn unless it was said "
        "alike again",
        "length of the segment": "k = 3 turns of the agent, fewer where a dialogue ends before; the authors have "
        "GPT-4o choose it for each pair. credit.turns = 1 is turn-level, null session-level DPO",
        "partner": "context. Where a policy plays it, rollout.role and credit.role name the agent",
        "data": "new dialogues in every step; the authors collect once and train offline",
    },
    rollout=ResampledTurn(continuations=5, judge=ProbedTurns(rollouts=4)),
    credit=SegmentPairs(turns=3),
)
