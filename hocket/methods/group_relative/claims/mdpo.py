"""What mdpo claims."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.toys.trust_regions import ADVANTAGES, Process, _on_par, slope, softened, worst
from hocket.methods.group_relative.mdpo import ForwardKLDrift, forward_kl_drift
from hocket.objectives.drift import DriftSurrogate
from hocket.recipes import find
from hocket.types import Evaluation, Scenario, Trajectory, Turn

claim = Claims("mdpo", "arXiv 2005.09814")


def bandit_batch(old: Tensor, advantage: Tensor) -> Batch:
    """Every action of a bandit once, as a trajectory of its own, weighted by its probability under `old`."""
    turns = [Turn("agent", "policy", np.zeros(1, np.int64), np.array([a]), logp=None) for a in range(len(old))]
    batch = pack([Trajectory(Scenario("bandit"), [turn], sample=a) for a, turn in enumerate(turns)])
    column = batch.logp["behaviour"]._replace(values=old.log(), present=torch.ones(len(old), dtype=torch.bool))
    return batch.but(logp={"behaviour": column}).credited(advantage=advantage, weight=old)


def descended(objective: DriftSurrogate, old: Tensor, advantage: Tensor, steps: int, lr: float) -> Tensor:
    """Probabilities after `steps` of SGD on logits, the expectation over actions taken exactly."""
    batch, logits = bandit_batch(old, advantage), old.log().clone()
    for _ in range(steps):
        leaf = logits.detach().requires_grad_()
        loss = objective(Evaluation(torch.log_softmax(leaf, -1)), batch).total() * len(old)
        (gradient,) = torch.autograd.grad(loss, leaf)
        logits = logits - lr * gradient
    return torch.softmax(logits, -1)


@claim("The maximiser is pi exp(t A)/Z, and the inner SGD approaches it.", slow=True)
def _mirror_maximiser() -> Finding:
    noise, gaps = Key.of(3).numpy(), []
    for t in (0.3, 1.0, 2.0):
        old = torch.from_numpy(noise.dirichlet(np.full(4, 5.0)))
        advantage = torch.from_numpy(noise.normal(size=4))
        advantage = advantage - (old * advantage).sum()
        exact = torch.softmax(old.log() + t * advantage, -1)
        objective = DriftSurrogate(drift=ForwardKLDrift(first=t, last=t), aggregate="token-mean")
        steps = (0, 3, 10, 600)
        gaps.append([float((descended(objective, old, advantage, n, 4 * t) - exact).abs().max()) for n in steps])
    nearer = all(left > right for row in gaps for left, right in itertools.pairwise(row))
    far, near = min(row[0] for row in gaps), max(row[-1] for row in gaps)
    return Finding(
        nearer and near < 1e-6,
        f"distance to pi exp(t A)/Z for t = 0.3, 1, 2: at first {far:.2f} or more, after 600 steps {near:.1e} or less",
    )


@claim("The first inner step is the plain policy gradient's; later ones are not.")
def _mirror_first_step() -> Finding:
    mdpo, plain = find("mdpo"), find("trpo")
    gap = worst([(slope(mdpo, 1.0, a), slope(plain, 1.0, a)) for a in ADVANTAGES])
    gap = max(gap, worst([(slope(mdpo, 1.0, a), a) for a in ADVANTAGES]))
    later = min(abs(slope(mdpo, 1.3, a) - a) for a in ADVANTAGES)
    return Finding(
        gap < 1e-12 and later > 0.1,
        f"slope at r = 1 off the policy gradient by {gap:.1e}; at r = 1.3 the KL changes it by at least {later:.2f}",
    )


@claim("The KL term is unbiased for KL(new || old) in value and gradient.", "derived")
def _mirror_kl_is_unbiased() -> Finding:
    noise = Key.of(4).numpy()
    old = torch.from_numpy(noise.dirichlet(np.ones(7)))
    logits = torch.from_numpy(noise.normal(size=7)).requires_grad_()
    logp = torch.log_softmax(logits, -1)
    exact = (logp.exp() * (logp - old.log())).sum()
    estimate = (old * forward_kl_drift(logp - old.log())).sum()
    (left,), (right,) = (torch.autograd.grad(one, logits, retain_graph=True) for one in (exact, estimate))
    value, gradient = float((exact - estimate).detach().abs()), float((left - right).abs().max())
    return Finding(
        value < 1e-12 and gradient < 1e-12, f"KL(new || old): value off by {value:.1e}, gradient by {gradient:.1e}"
    )


@claim(
    "With exact advantages the return rises monotonically, and converges at the known O(1/K) rate.",
    "arXiv 1908.00261, theorem 5.3",
)
def _mirror_converges() -> Finding:
    t, steps, worst_excess, falls = 1.0, 200, -math.inf, 0
    for seed in range(10):
        process = Process(seed)
        best, policy = process.best(), np.full((process.states, process.actions), 1 / process.actions)
        rate, last = t * (1 - process.discount), -math.inf
        for step in range(1, steps + 1):
            value, advantage, _ = process.solved(policy)
            falls += value < last - 1e-12
            last, policy = value, softened(policy, advantage, t)
            bound = (math.log(process.actions) / rate + 1 / (1 - process.discount) ** 2) / step
            worst_excess = max(worst_excess, best - process.solved(policy)[0] - bound)
    return Finding(
        falls == 0 and worst_excess <= 0,
        f"10 random processes, {steps} exact steps each: {falls} falls of the return; gap to the optimum minus the "
        f"O(1/K) bound at most {worst_excess:.2f}",
    )


@claim("CartPole on par with PPO.", slow=True)
def on_par_with_ppo_mdpo() -> Finding:
    return _on_par("mdpo")()
