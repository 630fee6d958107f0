"""Diffusion-DPO: direct preference optimisation of samplers (Wallace et al., arXiv:2311.12908).

The likelihood of a picture is no number that a sampler has. In its place stand denoising errors: noise is added to the
better and to the worse picture, the same to both, and DPO's logistic loss compares how well policy and reference undo
it. `Probing` makes these errors decisions, so the loss is that of `dpo`.
"""

from __future__ import annotations

from hocket.methods.base.dpo import ONLINE_DPO
from hocket.rollout.probing import Probing

PROBED = {
    "decision": "a probe: noise of level t that is added to a finished picture, and its velocity",
    "log-prob": "minus the squared error of the velocity, summed over dimensions; the paper's is a mean over them, so "
    "its beta T / 2 is D times this beta, D being the dimensions",
    "levels": "drawn evenly in [0, 1], one in each of as many parts as there are probes, and shared with the noise by "
    "all samples of a scenario",
    "weight of a level": "1 for the velocity, as in the code for flows",
    "sampler": "without noise in its steps; samples differ by their first noise",
}
"""What recipes on probes of pictures agree on."""

DIFFUSION_DPO = ONLINE_DPO.but(
    name="diffusion-dpo",
    title="Diffusion-DPO: direct preference optimisation of samplers",
    source="Wallace et al., arXiv:2311.12908",
    formula="L = -mean_pairs log sigmoid(-beta sum_k [e_w,k - e_ref,w,k - (e_l,k - e_ref,l,k)]),  "
    "e_k = |z - x0 - v(x_t_k, t_k)|^2",
    conventions={
        **ONLINE_DPO.conventions,
        **PROBED,
        "pairs": "the best against the worst sample of a prompt, drawn before each update; the paper's are recorded "
        "before training, of which rollout.base = true comes nearest",
        "aggregation": "four probes of a pair are added up inside the logistic; the paper's bound has one in each",
    },
    task="drawn-digits",
    rollout=Probing(samples=8, probes=4),
    **{"objective.beta": 0.05},
)
