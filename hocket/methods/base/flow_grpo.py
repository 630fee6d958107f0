"""Flow-GRPO and its relatives: GRPO on the denoising steps of a flow sampler.

A flow sampler is deterministic. With the noise of a law (`hocket.core.noise_laws`) every step is a draw from a
normal distribution, whose log-density is what GRPO's ratio is made of; the picture's reward is credited to all steps.
Recipes differ in the law and in the steps that have noise. Their settings are stated in nats: a log-density here is
the sum over all dimensions, where the published code has the mean (docs/generative.md converts one into the other).
"""

from __future__ import annotations

from hocket.core.batch import GroupBy
from hocket.core.noise_laws import ConstantSDE, FlowSDE, Window
from hocket.methods.base.grpo import GRPO
from hocket.objectives.divergence import KLToReference
from hocket.rollout.noisy_sampling import NoisySampling

STEPS = {
    **GRPO.conventions,
    "log-density": "of the recorded next state, summed over dimensions, in nats, float64",
    "steps without noise": "no decisions",
    "clipping side": "both, 0.2 of the ratio of all dimensions; flow_grpo's 1e-4 is of its D-th root",
}

FLOW_GRPO = GRPO.but(
    name="flow-grpo",
    title="Flow-GRPO: online reinforcement learning of flow samplers",
    source="Liu et al., arXiv:2505.05470; window of the authors' Flow-GRPO-Fast",
    formula=GRPO.formula + " with r_it = N(x_t+1; mu_pi(x_t), s_t) / N(x_t+1; mu_old(x_t), s_t) of an SDE of level 0.7",
    conventions={
        **STEPS,
        "noisy steps": "the first four; the paper's are all, its code's fast variant a window",
        "KL": "coefficient 0; flow-grpo-kl has it",
    },
    task="drawn-digits",
    rollout=NoisySampling(samples=8, law=FlowSDE(0.7), window=Window(0, 4)),
)

FLOW_GRPO_KL = FLOW_GRPO.but(
    name="flow-grpo-kl",
    title="Flow-GRPO with the KL term of its paper",
    formula=FLOW_GRPO.formula + " + beta 1/N sum_i 1/n_i sum_t (ref/pi - log(ref/pi) - 1)",
    conventions={
        **FLOW_GRPO.conventions,
        "KL": "k3 in the loss, coefficient 1e-3 a nat; the code's exact form has another scale, see docs/generative.md",
    },
    regularisers=(KLToReference("k3", coefficient=1e-3, aggregate="sequence-mean"),),
)

DANCE_GRPO = FLOW_GRPO.but(
    name="dance-grpo",
    title="DanceGRPO: GRPO of visual generators",
    source="Xue et al., arXiv:2505.07818",
    formula=GRPO.formula
    + " with steps of an SDE of constant diffusion 0.3, from one noise for all samples of a prompt",
    conventions={
        **STEPS,
        "noisy steps": "the first six of ten; the paper draws 60 % of them at random",
        "first noise": "the same for the samples of a prompt",
        "KL": "none",
    },
    rollout=NoisySampling(samples=8, law=ConstantSDE(0.3), window=Window(0, 6), same_noise=True),
)

MIX_GRPO = FLOW_GRPO.but(
    name="mix-grpo",
    title="MixGRPO: a sliding window of stochastic steps among deterministic ones",
    source="Li et al., arXiv:2507.21802",
    formula=FLOW_GRPO.formula + ", in a window of 4 steps that moves on by one every 25 updates",
    conventions={**STEPS, "noisy steps": "those of the window, from the noisiest on", "KL": "none"},
    rollout=NoisySampling(samples=8, law=FlowSDE(0.7), window=Window(0, 4), moving=1, every=25),
)

DDPO = FLOW_GRPO.but(
    name="ddpo",
    title="Denoising Diffusion Policy Optimisation",
    source="Black et al., arXiv:2305.13301",
    formula="A_i = (R_i - mean_batch R)/(std_batch R + eps), clipped surrogate at every one of all denoising steps",
    conventions={
        **STEPS,
        "compared": "all samples of a step; the paper's tracker by prompt is flow-grpo's group where prompts recur",
        "noisy steps": "all",
        "law": "the SDE of the flow in place of DDIM, as the samplers here predict velocities",
        "KL": "none",
    },
    rollout=NoisySampling(samples=8, law=FlowSDE(0.7)),
    **{"credit.by": GroupBy()},
)
