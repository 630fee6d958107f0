"""VeriPrefer: preferences from testbenches for Verilog (Wang et al., arXiv:2504.15804).

Several designs are sampled for each specification and simulated with a testbench that was made for it. The one with
the better result is chosen, the one with a worse result rejected, and DPO draws the policy towards the first. Pairs and
loss are the library's (`BestAgainstWorst`, `Pairwise`); what is the paper's is where the preferences come from
(`VectorAgreement` of `hocket.zoo.tasks.circuits`).

The paper has testbenches written by a model, in steps, and mended by what a compiler and simulator say; here they are
generated from the circuit, and Icarus Verilog stands in for the commercial simulator. The weight of the leash, 0.1, is
that of the authors' settings (CatIIIIIIII/VeriPrefer, `scripts/llamafactory/dpo`).
"""

from __future__ import annotations

from hocket.methods.base.dpo import ONLINE_DPO
from hocket.zoo.tasks.circuits import VectorAgreement

VERIPREFER = ONLINE_DPO.but(
    name="veriprefer",
    title="DPO on Verilog designs paired by their testbench",
    source="Wang et al., VeriPrefer, arXiv:2504.15804; the loss of arXiv:2305.18290",
    family="agents",
    catalogue_ids=("veriprefer",),
    axes=("reward", "data", "objective", "environment"),
    formula="L = -mean_pairs log sigmoid(beta (log pi(y_w)/ref(y_w) - log pi(y_l)/ref(y_l))),  w, l = argmax, argmin "
    "of the share of test vectors passed",
    conventions={
        **ONLINE_DPO.conventions,
        "result": "the share of test vectors on which a design agrees with the reference; 0 where it does not compile",
        "pairs": "of 8 samples the best against the worst, where these differ; drawn at each step from the policy "
        "as it is. The paper draws once from its start, which is rollout = ranked on recorded samples with results",
        "testbench": "generated: every vector of few inputs, else corners and random ones",
        "stages": "a plan: sft on demonstrations, then veriprefer; the reference is the policy after imitation",
        "simulator": "Icarus Verilog; designs with system tasks or directives are rejected",
    },
    note="on recorded samples, the paper's form, it passes more designs than imitation of the winners; on samples "
    "drawn at each step, as here, it did not in the exact world",
    task="circuits",
    rewards=(VectorAgreement("share"),),
)
