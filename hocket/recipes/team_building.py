"""Teams whose design is learnt: who takes part in answering a question, and who reads whom."""

from __future__ import annotations

from hocket.casting import Leading
from hocket.credit import EpisodeAndTurn, GroupRelative, TurnRelative
from hocket.recipes.group_relative import GRPO
from hocket.types import GroupBy

MASHOST = GRPO.but(
    name="mashost",
    title="MasHost: a controller builds the team (HRPO)",
    source="Yang et al., arXiv:2506.08507",
    family="teams",
    catalogue_ids=("mashost",),
    axes=("team", "search", "credit"),
    formula="A_it = (R_i - mean R)/(std R + eps) + lambda r_it,  R = v(answer) - cost,  "
    "r_it = v(answer with the new agent) - v(answer before) - price",
    conventions={
        **GRPO.conventions,
        "action": "a node and its edges in one answer of the controller, so drawn jointly; or delete, or exit",
        "state": "question, graph and messages in a conversation of its own at every step; workflow setting "
        "live = false builds first and lets agents act afterwards",
        "action reward": "ours, as the abstract gives none: the change in the verdict on the team's answer, "
        "less a price of 0.1; the price alone for what is taken back or unreadable; exit is free",
        "lambda": "1 in credit.weight, ours; absolute, neither centred nor scaled; of the action's own turn alone",
        "cost": "0.05 an agent, 0.01 an edge, in the reward of the whole; workflow settings cost, edge, price",
        "what is optimal": "the price is paid besides the cost, so lambda moves the trade between right and cheap",
        "who learns": "the controller; agents are the model as it was, or any others by --roles.solver.model",
    },
    workflow="built-team",
    cast=Leading(leader="controller"),
    credit=EpisodeAndTurn(
        episode=GroupRelative(by=GroupBy("scenario"), scale="std"),
        turn=TurnRelative(by=GroupBy("scenario", "agent", "turn_index"), baseline="none", gamma=0.0),
        weight=1.0,
        apart=True,
    ),
    **{"objective.aggregate": "turn-mean"},
)
