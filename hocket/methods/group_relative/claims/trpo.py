"""What trpo claims."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.policy import Tabular
from hocket.lab.toys.control_runs import LONGEST, SEEDS, cart_pole
from hocket.lab.toys.trust_regions import Array, Process, softened
from hocket.lab.world import World
from hocket.methods.group_relative.trpo import (
    TrustRegionStep,
    acting_weights,
    conjugate_gradient,
    divergence,
    fisher_vector,
    flat,
    policy_before,
    write,
)
from hocket.nano import BASE
from hocket.objectives.drift import DriftSurrogate
from hocket.policies.causal_lm import CausalLM
from hocket.recipes import find
from hocket.train.learner import Learner
from hocket.types import Decoding, Scenario, Trajectory, Turn
from hocket.update.problem import Problem

claim = Claims("trpo", "arXiv 1502.05477")


@claim("J(new) is at least the penalised surrogate for random policies.", "arXiv 1502.05477, eq. 9")
def _lower_bound_holds() -> Finding:
    noise, tightest = Key.of(5).numpy(), math.inf
    for seed in range(40):
        process = Process(seed)
        old = noise.dirichlet(np.ones(process.actions), size=process.states)
        for mix in (0.01, 0.1, 0.5, 1.0):
            new = (1 - mix) * old + mix * noise.dirichlet(np.ones(process.actions), size=process.states)
            tightest = min(tightest, process.solved(new)[0] - penalised(process, old, new))
    return Finding(tightest >= 0, f"160 random pairs: J(new) exceeds the bound by at least {tightest:.2g}")


def penalised(process: Process, old: Array, new: Array) -> float:
    """J(old) + E[sum_a new A]/(1 - gamma) - 4 gamma max|A| / (1 - gamma)^2 max_s KL(old || new)."""
    value, advantage, visits = process.solved(old)
    surrogate = value + float(visits @ (new * advantage).sum(1)) / (1 - process.discount)
    divergence = float((old * np.log(old / new)).sum(1).max())
    worth = 4 * process.discount * float(np.abs(advantage).max()) / (1 - process.discount) ** 2
    return surrogate - worth * divergence


@claim("No penalised update lowers the return.", "arXiv 1502.05477, section 3", slow=True)
def _penalised_steps_never_fall() -> Finding:
    falls, gained = 0, math.inf
    lengths = [0.0, *np.geomspace(1e-5, 1.0, 40).tolist()]
    for seed in range(10):
        process = Process(seed)
        policy = np.full((process.states, process.actions), 1 / process.actions)
        first = last = process.solved(policy)[0]
        for _ in range(50):
            _, advantage, _ = process.solved(policy)
            steps = [softened(policy, advantage, t) for t in lengths]
            policy = max(steps, key=lambda step, old=policy: penalised(process, old, step))  # type: ignore[misc]
            value = process.solved(policy)[0]
            falls, last = falls + (value < last - 1e-12), value
        gained = min(gained, last - first)
    return Finding(falls == 0 and gained > 0, f"500 penalised steps: {falls} falls; least gain of 50 {gained:.2g}")


def laboratory() -> tuple[Problem, Batch]:
    """A credited batch of a small world, at a policy that is not uniform, with TRPO as GRPO's update."""
    recipe = find("grpo").but(
        name="grpo-trpo", objective=DriftSurrogate(aggregate="token-mean"), update=find("trpo").update
    )
    world = World(questions=2, tokens=3, horizon=2, reward=lambda question, answer: float(sum(answer) % 3 == question))
    bench = Bench(world, recipe, seed=0, start=_uneven)
    batch = bench.step().batch
    assert batch is not None
    return problem_of(bench.learner, batch), batch


def _uneven(policy: Tabular) -> None:
    noise = Key.of(6).numpy().normal(size=tuple(policy.logits.shape))
    policy.logits.data = torch.from_numpy(noise)


def problem_of(learner: Learner, batch: Batch) -> Problem:
    """The optimisation problem that a learner would make of a credited batch."""
    recipe = learner.recipe
    idle = all(loss.idle_without_advantage for loss in recipe.losses)
    return Problem(batch, learner.policy, learner.optimiser, recipe.loss, recipe.needs, recipe.couples, idle)


@claim("The Fisher-vector product is the explicit Fisher matrix times the vector.")
def _fisher_products() -> Finding:
    problem, batch = laboratory()
    policy = problem.policy
    assert isinstance(policy, Tabular)
    before, size = policy_before(problem), policy.logits.numel()
    rows = torch.from_numpy(np.concatenate([np.asarray(seen) for seen in batch.observation]))
    tokens, probability = policy.world.tokens, torch.softmax(policy.logits.detach(), -1)
    explicit = torch.zeros(size, size, dtype=torch.float64)
    for row in rows.tolist():
        block = torch.diag(probability[row]) - torch.outer(probability[row], probability[row])
        start = row * tokens
        explicit[start : start + tokens, start : start + tokens] += block / len(rows)
    units, acting = torch.eye(size, dtype=torch.float64), acting_weights(problem)
    product = torch.stack([fisher_vector(problem, unit, before, acting) for unit in units], 1)
    gap = float((product - explicit).abs().max())
    vector = torch.from_numpy(Key.of(9).numpy().normal(size=size))
    apart = float((_by_difference(problem, vector) - explicit @ vector).abs().max())
    solved = conjugate_gradient(lambda v: explicit @ v + 0.1 * v, vector, 50, 1e-24)
    solution = torch.linalg.solve(explicit + 0.1 * torch.eye(size, dtype=torch.float64), vector)
    residual = float((solved - solution).abs().max())
    return Finding(
        gap < 1e-12 and residual < 1e-9 and apart < 1e-5,
        f"{size} x {size} matrix, column by column: off by {gap:.1e}; by difference {apart:.1e}; conjugate gradients "
        f"against a direct solution {residual:.1e}",
    )


def _by_difference(problem: Problem, vector: Tensor) -> Tensor:
    """The product as policies get it whose kernels are not twice differentiable."""
    policy: Any = problem.policy
    policy.twice_differentiable = False
    try:
        return fisher_vector(problem, vector, policy_before(problem), acting_weights(problem))
    finally:
        del policy.twice_differentiable


@claim("The quadratic KL model matches the true KL to second order.", "arXiv 1502.05477, appendix C")
def _quadratic_model() -> Finding:
    problem, _ = laboratory()
    before, acting = policy_before(problem), acting_weights(problem)
    start = flat(acting, acting).detach()
    direction = torch.from_numpy(Key.of(7).numpy().normal(size=len(start)))
    half = 0.5 * float(direction @ fisher_vector(problem, direction, before, acting))
    off = []
    for length in (0.1, 0.05, 0.025):
        write(start + length * direction, acting)
        off.append(abs(divergence(problem, before) - half * length**2))
    write(start, acting)
    orders = [math.log2(coarse / fine) for coarse, fine in itertools.pairwise(off)]
    return Finding(
        min(orders) > 2.5, f"KL minus its quadratic model falls with the length to the power {min(orders):.2f} or more"
    )


@claim("CartPole: the KL after each step is at most delta.", slow=True)
def _trust_region_holds() -> Finding:
    radius = 0.01
    runs = [cart_pole("trpo", seed) for seed in SEEDS]
    most = max(value for run in runs for value in run.backward)
    moved = statistics.mean(value > 0 for run in runs for value in run.backward)
    gained = statistics.mean(run.score for run in runs)
    return Finding(
        most <= radius * (1 + 1e-4) and moved > 0.9 and gained > LONGEST / 2,
        f"{len(SEEDS)} seeds, 8 steps: KL(before || after) at most {most:.4f}, {moved:.0%} of the steps accepted, "
        f"return {gained:.0f} of {LONGEST}",
    )


@claim("The same products and steps serve a language model.", "derived", slow=True)
def _language_model() -> Finding:
    policy = CausalLM.from_pretrained(BASE, key=Key.of(0))
    asked = [tuple(policy.tokenizer(text)["input_ids"]) for text in ("What is 3 + 4?", "What is 12 + 7?")]
    way, told = Decoding(max_tokens=12), []
    for number, context in enumerate([*asked, *asked]):
        (sample,) = LocalEngine(policy).sample([Request(context, way, Key.of(number))])
        turn = Turn("agent", "policy", np.array(context), sample.tokens, logp=sample.logp, decoding=way)
        told.append(Trajectory(Scenario(f"s{number % 2}"), [turn], sample=number))
    batch = pack(told)
    credit = Key.of(1).numpy().normal(size=len(batch.occurrences))
    batch = batch.credited(advantage=torch.from_numpy(credit))
    update = TrustRegionStep(radius=0.002)
    recipe = find("grpo").but(name="grpo-trpo", objective=DriftSurrogate(aggregate="token-mean"), update=update)
    problem = problem_of(Learner(policy, recipe, total_steps=1), batch)
    problem.gradient()
    acting = acting_weights(problem)
    steepest = flat([weight.grad for weight in acting], acting).clone()
    before, start = policy_before(problem), flat(acting, acting).detach().clone()
    steepest = steepest / steepest.norm()
    curvature = float(steepest @ fisher_vector(problem, steepest, before, acting))
    length = math.sqrt(2e-4 / curvature)
    write(start + length * steepest, acting)
    ahead = divergence(problem, before)
    write(start - length * steepest, acting)
    model = (ahead + divergence(problem, before)) / length**2
    write(start, acting)
    metrics = update.step(problem, Key.of(0))
    return Finding(
        abs(curvature / model - 1) < 0.02 and 0 < metrics["update/kl"] <= update.radius,
        f"the shipped model, {batch.decisions} tokens: v'Fv along the gradient {curvature:.0f}, by the KL itself "
        f"{model:.0f}; a step of radius {update.radius} moved it by {metrics['update/kl']:.4f} nats",
    )
