"""Offline learning of policy and value function from right and wrong traces alike."""

from __future__ import annotations

from hocket.credit import ValueSteps
from hocket.objectives import PathConsistency
from hocket.recipe import Recipe
from hocket.recipes.conventions import COMMON
from hocket.rewards import SegmentsByText
from hocket.rollout import Preferences
from hocket.update import ValueFirstStep

OREO = Recipe(
    name="oreo",
    title="Offline Reasoning Optimisation: path-consistency learning",
    source="Wang et al., arXiv:2412.16145",
    family="offline",
    catalogue_ids=("oreo",),
    axes=("objective", "credit", "search"),
    formula="L_V = mean_t (V_t - R_t + beta sg(S_t))^2,  L_pi = mean_t (sg(V_t) - R_t + beta l_t + beta sg(S_{t+1}))^2 "
    "+ alpha KL(pi || ref),  l_t = log pi(a_t|s_t)/ref(a_t|s_t),  S_t = sum_{i>=t} l_i",
    conventions={
        **COMMON,
        "data": "each scenario's chosen and rejected response, worth 1 and 0, though nothing pairs them in the loss; "
        "with rollout = hocket.rollout.Demonstrations the task's demonstrations, right or wrong as its verifier finds "
        "them, and with Independent the policy's own samples, for further rounds",
        "reference": "the policy before training",
        "order": "a step on V, then one on the policy against the new V. Where V lags behind a fast policy "
        "(large beta, equal learning rates) both run away; more of update.fits, or a smaller rate, keeps them",
        "aggregation": "mean over a trace's steps, then over traces",
        "alpha": "0, so that the optimum is the soft one; regularisers = hocket.objectives.ExactKL(coefficient: 0.01, "
        "aggregate: sequence-mean) adds the authors' term over all tokens, which pulls it towards the reference",
        "beta": "0.03, chosen here",
        "steps": "tokens; oreo-step has lines, objective.step = turn has turns",
        "step credit": "advantages are the rises and falls of V; the loss does not read them",
        "value head": "on the policy's own network; the paper's is a network of its own",
        "at inference": "hocket.search.beam_search with ConsistentValue(policy, reference, beta)",
    },
    note="it beats rejection-sampling SFT where right answers are often luck, not where luck is rare; alpha is 0 "
    "unless set; V shares the policy's network",
    rollout=Preferences(),
    credit=ValueSteps(),
    objective=PathConsistency(beta=0.03),
    update=ValueFirstStep(),
)

OREO_STEP = OREO.but(
    name="oreo-step",
    title="Offline Reasoning Optimisation, a line of reasoning at a time",
    formula=OREO.formula + ", t over lines, l_t summed over the tokens of one",
    conventions={**OREO.conventions, "steps": "lines of a response"},
    shaping=(SegmentsByText(separator="\n"),),
    **{"objective.step": "segment"},
)
