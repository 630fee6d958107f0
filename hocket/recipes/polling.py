"""Judges that poll each other."""

from __future__ import annotations

from hocket.casting import Alternating
from hocket.credit import BestTurnAgainstWorst
from hocket.recipes.preference import DPO
from hocket.rewards import GroupConsistency
from hocket.types import GroupBy

GENII = DPO.but(
    name="genii",
    title="Genii: judges learn what the other judges agree with",
    source="Liu et al., Mitigating Judgment Preference Bias through Group-Based Polling, arXiv:2510.08145",
    family="teams",
    catalogue_ids=("genii",),
    axes=("reward", "team", "analysis"),
    formula="c(y) = mean over servers s of p_s(y), the share of s's judgments that are y;  client: DPO on its judgment "
    "of highest c against that of lowest c",
    conventions={
        **DPO.conventions,
        "labels": "none are used",
        "poll": "chosen here: judgments agree where their final verdicts are equal, one server one vote; the paper "
        "scores similarity of whole judgments by their embeddings",
        "server's vote": "split among its samples for the question by how often each verdict was given",
        "pairs": "one per question and client, highest against lowest c; none where all its judgments score alike",
        "one judge": "polled by its own other samples",
        "aggregation": "log-probs summed over the decisions of each of the two judgments, mean over pairs",
        "no verdict": "score 0, agrees with nothing, counted among the server's samples",
        "rotation": "each judge is the client for 10 steps (cast.every), the others only answer",
        "role weights": "one policy each; roles.NAME.model gives a judge other weights",
    },
    workflow="crowd-vote",
    cast=Alternating(every=10),
    shaping=(GroupConsistency(),),
    credit=BestTurnAgainstWorst(by=GroupBy("scenario", "role")),
)
