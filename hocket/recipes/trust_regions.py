"""How far one batch may carry the policy: penalties, drifts, trust regions, and repositioned steps."""

from __future__ import annotations

from hocket.objectives import DriftSurrogate, ForwardKLDrift, LearntDrift, QuadraticDrift, TanhDrift
from hocket.recipes.actor_critic import PPO
from hocket.recipes.group_relative import GRPO, GRPO_KL
from hocket.rewards import AdaptiveKLInReward
from hocket.rollout import DelayedNucleus, LatentThoughts
from hocket.update import DelayedMaskStep, GradientStep, SlowFastStep, TrustRegionStep

SPO = PPO.but(
    name="spo",
    title="Simple Policy Optimization",
    source="Xie et al., arXiv:2401.16025",
    catalogue_ids=("spo",),
    axes=("objective",),
    formula="L = -mean_t (r_t A_t - |A_t| (r_t - 1)^2/(2 eps)) + 1/2 mean_t (V_t - y_t)^2,  A = GAE(gamma, lam)",
    conventions={
        **PPO.conventions,
        "clipping side": "none: both sides are drawn to r = 1 + eps sign(A), eps = 0.2; values are not clipped",
        "saturation": "log-ratios beyond +-50 nats (+-40 in float32) take the value and the gradient of the bound",
        "tokens": "the same term in GRPO: --recipe grpo --objective '{type: hocket.objectives.DriftSurrogate, "
        "drift: {type: hocket.objectives.QuadraticDrift}, aggregate: sequence-mean}'",
    },
    objective=DriftSurrogate(drift=QuadraticDrift(epsilon=0.2), aggregate="token-mean"),
)

MDPO = PPO.but(
    name="mdpo",
    title="Mirror Descent Policy Optimization, on-policy",
    source="Tomar et al., arXiv:2005.09814",
    catalogue_ids=("mdpo",),
    axes=("objective",),
    formula="L = -mean_t (r_t A_t - 1/t_k (r_t log r_t - r_t + 1)) + 1/2 mean_t (V_t - y_t)^2,  t_k from 1 to 0.05",
    conventions={
        **PPO.conventions,
        "clipping side": "none; values are not clipped",
        "KL": "KL(new || old), estimated from the old policy's actions, unbiased in value and gradient",
        "step size": "t_k falls linearly from 1 to 0.05 over the run; the paper's ends at 0, an infinite penalty",
        "updates per batch": "10 steps on the whole batch; with one the KL would have no gradient at all",
    },
    note="the on-policy form; fitting KL(pi || pi_k exp(t Q)/Z) on replayed states needs a learnt Q and is open",
    objective=DriftSurrogate(drift=ForwardKLDrift(), aggregate="token-mean"),
    update=GradientStep(epochs=10, minibatches=1),
)

TRPO = PPO.but(
    name="trpo",
    title="Trust Region Policy Optimization",
    source="Schulman et al., arXiv:1502.05477; GAE arXiv:1506.02438",
    catalogue_ids=("trpo",),
    axes=("objective", "update"),
    formula="max mean_t r_t A_t  s.t.  mean_t KL(old || new) <= 0.01;  step sqrt(2 delta / x'Fx) x, x = F^-1 g",
    conventions={
        **PPO.conventions,
        "clipping side": "none; values are not clipped",
        "trust region": "KL over all actions, mean over the batch's decisions, at most 0.01 nats",
        "Fisher matrix": "over all actions at all decisions of the batch, plus 0.01 I, which also enters x'Fx",
        "line search": "factor 0.5, 10 trials; accepted where the KL holds and the loss has fallen",
        "updates per batch": "1 of the policy; the critic alone takes 4 epochs of 4 mini-batches of AdamW",
    },
    objective=DriftSurrogate(drift=None, aggregate="token-mean"),
    update=TrustRegionStep(),
)

DPO_DISCOVERED = PPO.but(
    name="discovered-policy-optimisation",
    title="Discovered Policy Optimisation (its DPO is no relative of direct preference optimisation)",
    source="Lu et al., arXiv:2210.05639; mirror learning arXiv:2201.02373",
    catalogue_ids=("discovered-policy-optimisation",),
    axes=("objective", "search"),
    formula="L = -mean_t (r A - f(r, A)) + 1/2 mean_t (V - y)^2,  f = relu(x - a tanh(x/a)),  "
    "x = (r-1) A and a = 2 for A >= 0,  x = A log r and a = 0.6 for A < 0",
    conventions={
        **PPO.conventions,
        "clipping side": "none: the drift grows on both sides, without a corner; values are not clipped",
    },
    objective=DriftSurrogate(drift=TanhDrift(alpha=2.0, beta=0.6), aggregate="token-mean"),
)

LPO = DPO_DISCOVERED.but(
    name="learnt-policy-optimisation",
    title="Learnt Policy Optimisation: the drift is a small network found by evolution strategies",
    catalogue_ids=("discovered-policy-optimisation",),
    formula="L = -mean_t (r A - f(r, A)) + 1/2 mean_t (V - y)^2,  f = relu(w . tanh(W x(r, A)) - 1e-6), x(1, A) = 0",
    conventions={
        **DPO_DISCOVERED.conventions,
        "clipping side": "none: whatever the network says; values are not clipped",
        "parameters": "80 weights, found on two-state bandits by python -m hocket.lab.discover; the paper's are of "
        "another family of tasks",
    },
    objective=DriftSurrogate(drift=LearntDrift(), aggregate="token-mean"),
)

SFPO = GRPO.but(
    name="sfpo",
    title="Slow-Fast Policy Optimization",
    source="Wang et al., arXiv:2510.04072, and the code its authors released",
    catalogue_ids=("sfpo",),
    axes=("update",),
    formula="w0 -> wK by K steps of GRPO;  w' = w0 + alpha (wK - w0);  one more step at w', all on one batch",
    conventions={
        **GRPO.conventions,
        "updates per batch": "K + 1 = 4: 3 fast ones, back to alpha = 0.8 of the way, and a slow one",
        "optimiser state": "carried through; update.moments = rewound gives the slow step the state before the fast",
        "entropy alarm": "plain GRPO for good once the entropy is 1 deviation above the mean of the last 30 steps; "
        "entropy is that of sampling, per decision",
    },
    update=SlowFastStep(fast=3, alpha=0.8, window=30, threshold=1.0),
)

NLPO = PPO.but(
    name="nlpo",
    title="Natural Language Policy Optimization",
    source="Ramamurthy et al., arXiv:2210.01241, and the released RL4LMs",
    catalogue_ids=("nlpo",),
    axes=("objective", "policy", "reward", "system"),
    formula=PPO.formula + ",  r_t = score at the end - beta log(pi_t/ref_t);  pi masked to the nucleus of an old copy",
    conventions={
        **PPO.conventions,
        "mask": "the smallest set with mass 0.9 under the copy, ties to the lower number; the released code also "
        "always allows special tokens and at least 100 tokens",
        "temperature": "the nucleus is taken at temperature 1, the masked distribution sampled at its own",
        "refresh": "the copy becomes the policy after every 20 steps; it starts as the policy",
        "log-probs": "of the masked distribution in ratios and entropies, of the whole one in the KL",
        "KL": "k1 in the reward at every decision, beta from 0.1, adapted by a tenth of the relative error (at most "
        "0.2) to a target of 0.1 nats per decision; the paper's targets differ by task",
        "evaluation": "greedy, without masks",
    },
    rollout=DelayedNucleus(samples=1, mass=0.9),
    shaping=(AdaptiveKLInReward(coefficient=0.1, target=0.1),),
    update=DelayedMaskStep(epochs=4, minibatches=4, every=20),
)

HRPO = GRPO_KL.but(
    name="hrpo",
    title="Hybrid Latent Reasoning",
    source="Yue et al., arXiv:2505.18454, and the code its authors released",
    catalogue_ids=("hrpo",),
    axes=("policy", "rollout", "objective"),
    formula=GRPO_KL.formula + ";  inputs of thoughts are a e + sqrt(1 - a^2) (i h), h stored by the rollout",
    conventions={
        **GRPO_KL.conventions,
        "KL": "k3 in the loss, coefficient 0.005 (the paper's); the reference has the gates it began with",
        "latents": "summaries of the rollout are constants when learning; gates and embeddings get gradients",
        "mix": "1 - a^2 is computed as -expm1(2 log a), so that squares sum to 1 and a = 1 is exact; the released code "
        "adds 1e-8",
        "learning rates": "one; Lambda is stored divided by 20, where the released code has rates 20 and 200 times "
        "the model's for gates and Lambda",
        "summary": "embeddings averaged under the distribution sampled from, over the norm of its probabilities",
    },
    rollout=LatentThoughts(samples=8),
    note="the policy is hocket.policies.latent.LatentLM, with a plain sampler for small models, built in Python; "
    "hocket train builds ordinary language models and refuses",
    **{"regularisers.0.coefficient": 0.005},
)
