"""Teams that talk: what dialogues cost, how they are branched, and what a message is worth."""

from __future__ import annotations

from hocket.credit import AlternatingCredit, BestAbove, MessageValues, SiblingTurns
from hocket.objectives import DPO, AlternatingObjective, MessageValueLoss, NegativeLogLikelihood
from hocket.recipe import Recipe
from hocket.recipes.conventions import COMMON
from hocket.rewards import MessageCost, Readability
from hocket.rollout import AlternatingRollout, DialogueTree, Independent, MessageSearch

_REWARD = {
    **COMMON,
    "reward": "R = R_task - 0.6 tokens / (most tokens of the scenario's dialogues) + 1.0 / max_u NLL(u)",
    "NLL(u)": "mean loss per token of message u under the policy before training, after what its speaker was told, "
    "at the sampling temperature; at least 0.1",
    "weights": "0.6 and 1, those of the released configurations",
    "agents": "one policy plays all roles",
    "iterations": "every step samples with the weights as they are; there is no reset to the base model",
}

OPTIMA_SFT = Recipe(
    name="optima-sft",
    title="Optima, iSFT: the best dialogue of each scenario is imitated",
    source="Chen et al., arXiv:2410.08115, and the authors' code",
    family="dialogue",
    axes=("team", "reward", "rollout"),
    formula="L = -mean_t log pi(a_t) over the best dialogue of each scenario with R > 0.5",
    conventions={
        **_REWARD,
        "selection": "the best of 10 per scenario, if R > 0.5",
        "aggregation": "mean over all decisions of the chosen dialogues, every speaker's",
    },
    workflow="two-halves",
    rollout=Independent(samples=10),
    shaping=(MessageCost(weight=0.6), Readability(weight=1.0)),
    credit=BestAbove(least=0.5),
    objective=NegativeLogLikelihood(aggregate="token-mean"),
)

OPTIMA_DPO = OPTIMA_SFT.but(
    name="optima-dpo",
    title="Optima, iDPO: turns of a dialogue tree that answer the same history are compared",
    axes=("team", "reward", "rollout", "objective"),
    formula="L = -mean_pairs log sigmoid(beta (d_w - d_l)), d = log pi(u | h) - log pi_ref(u | h), of messages "
    "u_w, u_l with V(u_w) - V(u_l) > 0.3, V the mean R of the dialogues through a message",
    conventions={
        **_REWARD,
        "tree": "8 expansions of 3 dialogues; the beginning first, then a message drawn by exp(mean score) from the "
        "ten best; one that differs by less than a quarter from an expanded one is passed over",
        "score that guides the tree": "the task's, since tokens and readability are compared only when all is said",
        "pairs": "best against worst answer to one history, if they differ by more than 0.3 and the best is worth more "
        "than 0.15; of a scenario's pairs the better half by the chosen one's value, at least one",
        "aggregation": "log-probs summed over the decisions of each of the two messages, mean over pairs",
        "reference": "the policy before training; DPO's and the reader of messages",
        "beta": "0.1",
    },
    rollout=DialogueTree(expansions=8, children=3),
    credit=SiblingTurns(margin=0.3, least=0.15, share=0.5),
    objective=DPO(beta=0.1),
)

OPTIMA = OPTIMA_DPO.but(
    name="optima",
    title="Optima, iSFT-DPO: rounds of imitation and of comparison",
    catalogue_ids=("optima",),
    formula=f"by turns of 10 steps: {OPTIMA_SFT.formula};  {OPTIMA_DPO.formula}",
    conventions={
        **OPTIMA_SFT.conventions,
        **OPTIMA_DPO.conventions,
        "aggregation": f"iSFT: {OPTIMA_SFT.conventions['aggregation']}; iDPO: {OPTIMA_DPO.conventions['aggregation']}",
        "rounds": "10 steps of iSFT, then 10 of iDPO, and so on; optima-sft and optima-dpo are the two alone",
    },
    rollout=AlternatingRollout((OPTIMA_SFT.rollout, OPTIMA_DPO.rollout), every=10),
    credit=AlternatingCredit((OPTIMA_SFT.credit, OPTIMA_DPO.credit), every=10),
    objective=AlternatingObjective((OPTIMA_SFT.objective, OPTIMA_DPO.objective), every=10),
)

MASPRM = Recipe(
    name="masprm",
    title="MASPRM: a process reward model over the messages of a team",
    source="Yazdani et al., arXiv:2510.24803, and the authors' code",
    family="dialogue",
    catalogue_ids=("masprm",),
    axes=("search", "reward", "team"),
    formula="L = mean over messages (z - atanh(clip(y, -0.95, 0.95)))^2, y the mean of +-1 outcomes through the "
    "message in a tree search;  value = tanh(z)",
    conventions={
        **COMMON,
        "search": "32 per scenario; UCT with c = 2 and 4 candidates per message; rollout.rule.c null visits evenly",
        "outcome": "2 s - 1, s the verdict in [0, 1]",
        "team": "the policies as they were before training, so that fitting the value does not change who speaks",
        "where the value is read": "at a message's last decision, after what its speaker was told and said",
        "aggregation": "mean over messages; one of several episodes counts once",
        "fit": "squared; objective.fit huber (0.1) or cross-entropy",
        "at inference": "hocket.search: beam_search, tree_search, best_of, with HeadValue(policy)",
    },
    note="with UCT, the paper's rule, node means rise towards the best candidates' outcome instead of 2p - 1; they are "
    "unbiased with even visits",
    workflow="pipeline",
    rollout=MessageSearch(searches=32),
    credit=MessageValues(),
    objective=MessageValueLoss(),
)
