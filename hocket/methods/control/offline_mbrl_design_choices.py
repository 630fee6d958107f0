"""Which uncertainty of learnt models tells their error (Lu et al., Revisiting Design Choices, arXiv:2110.04135).

Offline planning in a learnt world pays `r - lambda u(s, a)`, and the paper compares forms of u of an ensemble of
Gaussian models by how well they follow the true error. `penalty` of `hocket.policies.dynamics` has five of them; the
claims beside this file measure their rank correlation with the error where the dynamics are known. The paper's search
over number of models, horizon, lambda and form by Bayesian optimisation is left out.
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

OFFLINE_MBRL_DESIGN_CHOICES = Analysis(
    name="offline-mbrl-design-choices",
    title="Revisiting design choices in offline model-based reinforcement learning",
    where="docs/control.md, learnt worlds",
)
