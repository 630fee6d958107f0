"""MDPO's claims."""

import itertools
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.lab import bandit
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.lab.groups import document
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.control import ADVANTAGES, Process, on_par, slope, softened
from hocket.lab.toys.drawn_rows import critics, evaluated, numbers, perceptron, policy_of, reached, rows
from hocket.methods.base.sac import SAC
from hocket.methods.group_relative.mdpo import MDPO, MDPO_OFF_POLICY, ForwardKLDrift, forward_kl_drift
from hocket.methods.group_relative.trpo import TRPO
from hocket.objectives.drift import DriftSurrogate
from hocket.recipes import find
from hocket.types import Evaluation, Quantity

claim = Claims("mdpo", "arXiv 2005.09814")


@claim("The maximiser is pi exp(t A)/Z, and the inner SGD approaches it.", slow=True)
def the_maximiser_is_pi_exp_z_and_the_inner_sgd_approaches_it() -> Finding:
    noise, gaps = Key.of(3).numpy(), []
    for t in (0.3, 1.0, 2.0):
        old, advantage = torch.from_numpy(noise.dirichlet(np.full(4, 5.0))), torch.from_numpy(noise.normal(size=4))
        advantage = advantage - (old * advantage).sum()
        exact = torch.softmax(old.log() + t * advantage, -1)
        # Every action once, as a trajectory of its own, weighted by its probability.
        rows = [{"group": "bandit", "scores": {}, "logp": [logp]} for logp in old.log().tolist()]
        batch = RecordedBatch(document(rows)).batch.credited(advantage=advantage, weight=old)
        objective = DriftSurrogate(drift=ForwardKLDrift(first=t, last=t), aggregate="token-mean")

        def loss(logits: Tensor, objective: DriftSurrogate = objective, batch: Batch = batch) -> Tensor:
            return objective(Evaluation(torch.log_softmax(logits, -1)), batch).total() * len(logits)

        ends = (bandit.descended(loss, old.log(), lr=4 * t, steps=steps) for steps in (0, 3, 10, 600))
        gaps.append([gap(end, exact) for end in ends])
    nearer = all(left > right for row in gaps for left, right in itertools.pairwise(row))
    far, near = min(row[0] for row in gaps), max(row[-1] for row in gaps)
    return Finding(nearer and near < 1e-6, say(distance_at_first_at_least=far, after_600_steps_at_most=near))


@claim("The first inner step is the plain policy gradient's; later ones are not.")
def the_first_inner_step_is_the_plain_policy_gradients_later_ones() -> Finding:
    first, plain, later = ([slope(one, r, a) for a in ADVANTAGES] for one, r in ((MDPO, 1), (TRPO, 1), (MDPO, 1.3)))
    off = max(gap(first, plain), gap(first, ADVANTAGES))
    least = min(abs(one - a) for one, a in zip(later, ADVANTAGES, strict=True))
    return Finding(off < EXACT and least > 0.1, say(off_the_policy_gradient_at_1=off, at_1_3_at_least=least))


@claim("Loss and gradient are the formula's, counted by hand at three points of a run; ten steps on the whole batch.")
def loss_and_gradient_are_the_formulas_counted_by_hand_at_three() -> Finding:
    def loss(answers: Sequence[CountedAnswer], t: float) -> tuple[Tensor, dict[str, float]]:
        d, a = (torch.cat(part) for part in zip(*((one.logp - one.old, one.advantage) for one in answers), strict=True))
        return (-d.exp() * a + (d.exp() * d - d.exp() + 1) / t).mean(), {}

    alone, steps = MDPO.but(credit=find("grpo").credit, regularisers=()), ((0.0, 1.0), (0.5, 0.525), (1.0, 0.05))
    gaps = [
        off(alone, rows, partial(loss, t=t), state={"progress": at})
        for at, t in steps
        for rows in stale_rows("mdpo", count=2)
    ]
    updates = [value_at(MDPO, f"update.{name}") for name in ("epochs", "minibatches")]
    return below(EXACT, updates == [10, 1], off_by_hand=max(gaps))


@claim("The KL term is unbiased for KL(new || old) in value and gradient.", "derived")
def the_kl_term_is_unbiased_for_kl_in_value_and_gradient() -> Finding:
    noise = Key.of(4).numpy()
    old, logits = torch.from_numpy(noise.dirichlet(np.ones(7))), torch.from_numpy(noise.normal(size=7)).requires_grad_()
    logp = torch.log_softmax(logits, -1)
    both = (logp.exp() * (logp - old.log())).sum(), (old * forward_kl_drift(logp - old.log())).sum()
    (left,), (right,) = (torch.autograd.grad(one, logits, retain_graph=True) for one in both)
    return below(EXACT, value_off_by=gap(*both), gradient=gap(left, right))


@claim(
    "With exact advantages the return rises monotonically, and converges at the known O(1/K) rate.",
    "arXiv 1908.00261, theorem 5.3",
)
def with_exact_advantages_the_return_rises_monotonically_and() -> Finding:
    excess, falls = -math.inf, 0
    for process in map(Process, range(10)):
        best, policy, last, apart = process.best(), process.uniform, -math.inf, 1 - process.discount
        for step in range(1, 201):
            value, advantage, _ = process.solved(policy)
            falls += value < last - 1e-12
            last, policy = value, softened(policy, advantage, 1.0)
            bound = (math.log(process.actions) / apart + 1 / apart**2) / step
            excess = max(excess, best - process.solved(policy)[0] - bound)
    saw = say(processes=10, exact_steps_each=200, falls=falls, gap_to_the_optimum_minus_the_bound_at_most=excess)
    return Finding(falls == 0 and excess <= 0, saw)


claim("CartPole on par with PPO.", slow=True)(on_par("mdpo"))


claim.spares("mdpo: objective.horizon = 5120", "no length divides a mean over tokens")

claim.shipped(MDPO, "objective")
claim.shipped(MDPO, without={"objective.drift": None})


@claim("Off-policy, its losses are those of the paper, computed from the weights in float64.", "section 4.2")
def off_policy_its_losses_are_those_of_the_paper() -> Finding:
    policy, batch = policy_of(MDPO_OFF_POLICY, discrete=False), rows(MDPO_OFF_POLICY, discrete=False)
    held = numbers(batch)

    def drawn(network: str, seen: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        mean, log_std = np.split(perceptron(policy, network, seen), 2, 1)
        return mean + np.exp(log_std) * noise, mean, log_std

    def density(inside: np.ndarray, mean: np.ndarray, log_std: np.ndarray) -> np.ndarray:
        squashed: np.ndarray = -0.5 * ((inside - mean) / np.exp(log_std)) ** 2 - log_std - 0.5 * np.log(2 * np.pi)
        total: np.ndarray = (squashed - np.log(1 - np.tanh(inside) ** 2)).sum(1)
        return total

    inside, mean, log_std = drawn("actor.body", held["seen"], held["noise"][:, 0])
    _, *before = drawn("previous.body", held["seen"], held["noise"][:, 0])
    best = critics(policy, "critics", held["seen"], np.tanh(inside)).min(1)
    logp, logp_before = density(inside, mean, log_std), density(inside, *before)
    actor = (0.2 * logp + (logp - logp_before) / 1.25 - best).mean()
    later, *head = drawn("actor.body", held["following"], held["noise"][:, 1])
    value = critics(policy, "slow", held["following"], np.tanh(later)).min(1) - 0.2 * density(later, *head)
    backup = held["paid"] + held["goes_on"] * value
    values = critics(policy, "critics", held["seen"], held["action"])
    expected = {"CriticLoss": 0.5 * ((values - backup[:, None]) ** 2).sum(1).mean(), "PathwiseLoss": actor}
    _, losses = evaluated(MDPO_OFF_POLICY, policy, batch)
    return below(5e-5, **{name: abs(losses[name] - value) / max(1.0, abs(value)) for name, value in expected.items()})


@claim("Off-policy with a uniform policy before, the actor's gradient is SAC's at the temperature 1 / t.", "section 5")
def with_a_uniform_policy_before_the_actors_gradient_is_sacs() -> Finding:
    gradients = []
    plain = MDPO_OFF_POLICY.but(**{"objective.values.step_size": 4.0, "objective.values.entropy": 0.0})
    for recipe in (
        plain.but(**{"objective.values.previous": False}),
        SAC.but(**{"objective.values.temperature": 0.25, "objective.values.learnt": False}),
        plain,
    ):
        policy, batch = policy_of(recipe, discrete=False), rows(recipe, discrete=False)
        if "temperature" in policy.parts():
            policy.parts()["temperature"][0].data.fill_(math.log(0.25))
        loss = recipe.regularisers[0](policy.evaluate(batch, recipe.needs), batch).total()
        moved = reached(policy, loss)
        weights = policy.parts()["actor"]
        gradients.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, weights)]))
    mirror, soft, near = gradients
    off, apart = float((mirror - soft).abs().max()), float((near - soft).abs().max())
    return Finding(off < 1e-6 and apart > 1e-3 and moved == {"actor"}, say(off=off, with_the_policy_before=apart))


@claim("Off-policy, a smaller step size keeps the policy nearer to the one before.", "eq. 4")
def a_smaller_step_size_keeps_the_policy_nearer() -> Finding:
    moved = []
    for size in (1.0, 10.0):
        recipe = MDPO_OFF_POLICY.but(**{"objective.values.step_size": size, "objective.values.random": 0})
        policy = policy_of(recipe, discrete=False)
        for slow, learnt in zip(*policy.slow_parts()["previous"], strict=True):
            slow.data.copy_(learnt.data)
        start = policy.frozen_copy()
        step = torch.optim.Adam(policy.parts()["actor"], lr=3e-3)
        for number in range(40):
            batch = rows(recipe, discrete=False, seed=number, count=256)
            step.zero_grad()
            torch.autograd.backward(recipe.regularisers[0](policy.evaluate(batch, recipe.needs), batch).total())
            step.step()
        kl = policy.evaluate(batch, {Quantity.KL_EXACT}, reference=start).get(Quantity.KL_EXACT)
        moved.append(float(kl.detach().mean()))
    return Finding(0 < 3 * moved[0] < moved[1], say(kl_at_t_1_and_10=str(np.round(moved, 5).tolist())))


claim.shipped(MDPO_OFF_POLICY, without={"objective.values.previous": False})
