"""Talk learnt by what it means: intents, a game of intents, and its solution."""

from __future__ import annotations

from hocket.credit import IntentPairs
from hocket.recipes.preference import DPO
from hocket.rollout import Independent

LSPO_WEREWOLF = DPO.but(
    name="lspo-werewolf",
    title="Latent Space Policy Optimisation: utterances are clustered, their game is solved, DPO follows the solution",
    source="Xu et al., Learning Strategic Language Agents in the Werewolf Game, arXiv:2502.04686",
    family="teams",
    catalogue_ids=("lspo-werewolf",),
    axes=("team", "policy", "objective", "search", "environment"),
    formula="z = k-means(embedding) per role and place;  pi = CFR(game of z);  DPO on utterances of argmax_z pi/p "
    "against argmin_z pi/p in a situation, p the policy's own shares",
    conventions={
        **DPO.conventions,
        "embedding": "words and pairs of neighbouring words, chosen here; the paper takes a text embedding model",
        "clusters": "credit.intents of them, 4, of the texts that a role says at a place of the episode; found anew "
        "every step, in which iterations refine them",
        "abstract game": "estimated from the step's own episodes: frequencies stand for chance, means for payoffs",
        "CFR": "tabular and linear, 200 iterations, the average strategy; the paper's is Deep CFR",
        "pairs": "chosen here: intents of an equilibrium's mix are worth the same, so the preferred is the one played "
        "too rarely, the other the one played too often, by more than 0.05 each; any other is worth no more",
        "situation": "role, scenario, the turn's own state, and who meant what before, in whatever words",
        "aggregation": "log-probs summed over the decisions of each of the two turns, mean over pairs",
        "iteration": "every step collects new talk",
        "prompts": "those of the two utterances may differ in wording",
    },
    rollout=Independent(samples=64),
    credit=IntentPairs(intents=4),
)
