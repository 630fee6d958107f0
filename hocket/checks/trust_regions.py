"""Penalties, drifts and trust regions: what bounds a batch's effect on the policy, and what the papers promise."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.checks.check import Check, Finding
from hocket.checks.control_runs import LONGEST, SEEDS, cart_pole, in_words
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.keys import Key
from hocket.lab import Bench, Tabular, World
from hocket.lab.discover import Bandits, Strategy, compared
from hocket.microscope import look
from hocket.nano import BASE
from hocket.objectives import (
    ClipDrift,
    ClippedSurrogate,
    DriftSurrogate,
    ForwardKLDrift,
    LearntDrift,
    QuadraticDrift,
    TanhDrift,
)
from hocket.objectives.drift import Drift
from hocket.objectives.learnt_drift import network_drift
from hocket.objectives.trust_region import forward_kl_drift
from hocket.packing import pack
from hocket.policies.causal_lm import CausalLM
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.train.learner import Learner
from hocket.types import Batch, Decoding, Evaluation, Scenario, Trajectory, Turn
from hocket.update import TrustRegionStep
from hocket.update.problem import Problem
from hocket.update.trust_region import (
    acting_weights,
    conjugate_gradient,
    divergence,
    fisher_vector,
    flat,
    policy_before,
    write,
)

Array = NDArray[np.float64]

# ---------------------------------------------------------------- one decision, any objective


def slope(recipe: Recipe, ratio: float, advantage: float) -> float:
    """d gain / d r of one decision under a recipe's objective, by the microscope; gain is minus the loss.

    A decision of advantage A is its own trajectory of reward A, without whitening and with value 0.
    """
    plain = recipe.but({"credit.whiten": False})
    row = {
        "group": "g",
        "scores": {"reward": advantage},
        "logp": [math.log(ratio) - 1.0],
        "logp_behaviour": [-1.0],
        "value": [0.0],
    }
    found: Mapping[str, Any] = look(plain, {"version": 1, "trajectories": [row]})
    return -float(found["gradient"][0][0]) / ratio


def worst(pairs: Sequence[tuple[float, float]]) -> float:
    """The largest difference."""
    return max(abs(left - right) for left, right in pairs)


ADVANTAGES = (-3.0, -1.0, -0.2, 0.2, 1.0, 3.0)

# ---------------------------------------------------------------- SPO


def _optimum_of_the_penalty() -> Finding:
    spo, epsilon = find("spo"), 0.2
    at = [abs(slope(spo, 1 + epsilon * math.copysign(1, a), a)) for a in ADVANTAGES]
    return Finding(max(at) < 1e-12, f"largest |slope| at 1 + eps sign(A), over {len(at)} advantages: {max(at):.1e}")


def _penalty_starts_as_the_policy_gradient() -> Finding:
    gap = worst([(slope(find("spo"), 1.0, a), a) for a in ADVANTAGES])
    return Finding(gap < 1e-12, f"largest |slope at r = 1 minus A|: {gap:.1e}")


def _penalty_pulls_back_where_the_clip_is_silent() -> Finding:
    spo, ppo = find("spo"), find("ppo")
    beyond = [(1 + math.copysign(far, a), a) for a in ADVANTAGES for far in (0.21, 0.4, 0.8)]
    back = all(slope(spo, r, a) * a < 0 for r, a in beyond)
    silent = all(slope(ppo, r, a) == 0 for r, a in beyond)
    return Finding(back and silent, f"{len(beyond)} places beyond the range: SPO points back {back}, PPO is 0 {silent}")


def _penalty_for_tokens() -> Finding:
    objective = DriftSurrogate(drift=QuadraticDrift(0.2), aggregate="sequence-mean")
    recipe = find("grpo").but(name="grpo-spo", objective=objective)
    noise = Key.of(1).numpy()
    rows = []
    for number, length in enumerate((3, 1, 5, 2)):
        old = -noise.uniform(0.1, 2.0, length)
        new = old + noise.normal(scale=0.3, size=length)
        scores = {"reward": float(number % 2)}
        rows.append({"group": "g", "scores": scores, "logp": new.tolist(), "logp_behaviour": old.tolist()})
    seen = look(recipe, {"version": 1, "trajectories": rows})
    gap = 0.0
    for row, advantages, gradients in zip(rows, seen["advantages"], seen["gradient"], strict=True):
        ratio = np.exp(np.array(row["logp"]) - np.array(row["logp_behaviour"]))
        a = np.array(advantages)
        expected = -ratio * (a - np.abs(a) * (ratio - 1) / 0.2) / len(ratio) / len(rows)
        gap = max(gap, float(np.abs(expected - np.array(gradients)).max()))
    bench = Bench(sums(), recipe.but({"update.epochs": 4}), seed=0)
    start = bench.success()
    bench.run(40)
    learnt = bench.success() > start + 0.3
    return Finding(
        gap < 1e-12 and learnt,
        f"GRPO with the penalty: gradient off by {gap:.1e}; success on sequences {start:.2f} -> {bench.success():.2f}",
    )


def sums() -> World:
    """Three digits whose sum modulo 5 is asked for."""
    return World(questions=4, tokens=5, horizon=3, reward=lambda question, answer: float(sum(answer) % 5 == question))


def _penalty_keeps_ratios_near() -> Finding:
    steps, epochs, epsilon = 5, 16, 0.2
    spo = [cart_pole("spo", seed, steps, epochs) for seed in SEEDS]
    ppo = [cart_pole("ppo", seed, steps, epochs) for seed in SEEDS]
    near, far = (statistics.mean(run.furthest[-1] for run in runs) for runs in (spo, ppo))
    most = max(value for run in spo for value in run.furthest)
    ours, theirs = [run.score for run in spo], [run.score for run in ppo]
    holds = most < 2 * epsilon and near < far / 2 and statistics.mean(ours) > statistics.mean(theirs) - 0.1 * LONGEST
    return Finding(
        holds,
        f"{epochs} epochs per batch, {len(SEEDS)} seeds: largest |r - 1| in the last step {near:.2f} against PPO's "
        f"{far:.2f} (ever: {most:.2f}); return of at most {LONGEST}: {in_words(ours)} against {in_words(theirs)}",
    )


# ---------------------------------------------------------------- MDPO


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


def _mirror_first_step() -> Finding:
    mdpo, plain = find("mdpo"), find("trpo")
    gap = worst([(slope(mdpo, 1.0, a), slope(plain, 1.0, a)) for a in ADVANTAGES])
    gap = max(gap, worst([(slope(mdpo, 1.0, a), a) for a in ADVANTAGES]))
    later = min(abs(slope(mdpo, 1.3, a) - a) for a in ADVANTAGES)
    return Finding(
        gap < 1e-12 and later > 0.1,
        f"slope at r = 1 off the policy gradient by {gap:.1e}; at r = 1.3 the KL changes it by at least {later:.2f}",
    )


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


class Process:
    """A random Markov decision process with exact values."""

    def __init__(self, seed: int, states: int = 6, actions: int = 4, discount: float = 0.9) -> None:
        noise = Key.of(seed).derive("process").numpy()
        self.transition: Array = noise.dirichlet(np.full(states, 0.3), size=(states, actions))
        self.reward: Array = noise.uniform(size=(states, actions))
        self.start: Array = np.full(states, 1 / states)
        self.discount = discount
        self.states, self.actions = states, actions

    def solved(self, policy: Array) -> tuple[float, Array, Array]:
        """Return from the start distribution, advantages `[S, A]` and discounted visits `[S]` (they sum to 1)."""
        matrix = np.einsum("sa,sat->st", policy, self.transition)
        system = np.eye(self.states) - self.discount * matrix
        value = np.linalg.solve(system, (policy * self.reward).sum(1))
        quality = self.reward + self.discount * self.transition @ value
        visits = (1 - self.discount) * np.linalg.solve(system.T, self.start)
        return float(self.start @ value), quality - value[:, None], visits

    def best(self) -> float:
        """The return of an optimal policy, by policy iteration."""
        policy = np.full((self.states, self.actions), 1 / self.actions)
        for _ in range(100):
            _, advantage, _ = self.solved(policy)
            policy = np.eye(self.actions)[advantage.argmax(1)]
        return self.solved(policy)[0]


def softened(policy: Array, advantage: Array, t: float) -> Array:
    """pi exp(t A) / Z in every state."""
    raised: Array = policy * np.exp(t * (advantage - advantage.max(1, keepdims=True)))
    whole: Array = raised / raised.sum(1, keepdims=True)
    return whole


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


def _on_par(name: str) -> Callable[[], Finding]:
    def run() -> Finding:
        ours = [cart_pole(name, seed).score for seed in SEEDS]
        theirs = [cart_pole("ppo", seed).score for seed in SEEDS]
        spread = math.hypot(_error(ours), _error(theirs))
        gap = statistics.mean(ours) - statistics.mean(theirs)
        return Finding(
            gap > -max(2 * spread, 0.05 * LONGEST),
            f"CartPole, 8 batches, {len(SEEDS)} seeds, return of at most {LONGEST}: {in_words(ours)} against PPO's "
            f"{in_words(theirs)}",
        )

    return run


def _error(scores: list[float]) -> float:
    return statistics.stdev(scores) / math.sqrt(len(scores))


# ---------------------------------------------------------------- TRPO


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


# ---------------------------------------------------------------- drifts

DRIFTS: Mapping[str, Drift] = {
    "PPO": ClipDrift(),
    "DPO": TanhDrift(),
    "learnt": LearntDrift(),
    "SPO": QuadraticDrift(),
    "MDPO": ForwardKLDrift(),
}


def _drift_conditions() -> Finding:
    log_ratio = torch.linspace(-3, 3, 601, dtype=torch.float64)
    noise, least, at_one, flatness = Key.of(8).numpy(), math.inf, 0.0, 0.0
    networks = [torch.from_numpy(noise.normal(size=(9, 8))) for _ in range(20)]
    drifts: list[Callable[[Tensor, Tensor], Tensor]] = [
        *(lambda x, a, f=drift: f(x, a, 0.5) for drift in DRIFTS.values()),
        *(lambda x, a, w=one: network_drift(x, a, w[:8], w[8]) for one in networks),
    ]
    for drift in drifts:
        for advantage in ADVANTAGES:
            least = min(least, float(drift(log_ratio, torch.full_like(log_ratio, advantage)).min()))
            leaf = torch.zeros(1, dtype=torch.float64, requires_grad=True)
            value = drift(leaf, torch.tensor([advantage], dtype=torch.float64)).sum()
            (gradient,) = torch.autograd.grad(value, leaf)
            at_one, flatness = max(at_one, float(value.detach().abs())), max(flatness, float(gradient.abs()))
    return Finding(
        least >= 0 and at_one == 0 and flatness < 1e-12,
        f"{', '.join(DRIFTS)} and 20 random networks: least value {least:.1g}, at r = 1 value {at_one:.1g} and slope "
        f"{flatness:.1g}",
    )


def _drifts_start_as_the_policy_gradient() -> Finding:
    names = ("ppo", "discovered-policy-optimisation", "learnt-policy-optimisation", "spo", "mdpo", "trpo")
    gap = max(worst([(slope(find(name), 1.0, a), a) for a in ADVANTAGES]) for name in names)
    clip = find("ppo").but(name="ppo-as-drift", objective=DriftSurrogate(drift=ClipDrift(), aggregate="token-mean"))
    places = [(r, a) for a in ADVANTAGES for r in (0.3, 0.79, 0.81, 1.0, 1.19, 1.21, 2.5)]
    same = worst([(slope(clip, r, a), slope(find("ppo"), r, a)) for r, a in places])
    assert isinstance(find("ppo").objective, ClippedSurrogate)
    return Finding(
        gap < 1e-12 and same < 1e-12,
        f"slope at r = 1 off A by at most {gap:.1e} in {len(names)} recipes; the clip as a drift off PPO by {same:.1e}",
    )


def _shipped_drift_is_worth_it() -> Finding:
    inner, outer = LearntDrift().weights
    penalties = [lambda x, a: network_drift(x, a, inner, outer), None]
    rows = torch.stack([compared(Bandits(), penalties, 64, Key.of(90 + seed)) for seed in SEEDS])
    gains = (rows[:, 0] - rows[:, 1]).tolist()
    return Finding(
        min(gains) > 0,
        f"fresh two-state bandits, {len(SEEDS)} seeds of 64, 8 epochs per batch: return {float(rows[:, 0].mean()):.3f} "
        f"with the shipped drift, {float(rows[:, 1].mean()):.3f} without; least gain {min(gains):.3f}",
    )


def _discovery_finds_a_drift() -> Finding:
    family, strategy = Bandits(noise=3.0, iterations=30), Strategy(pairs=8, bandits=8)
    gains = []
    for seed in SEEDS:
        weights = strategy.run(family, 16, Key.of(seed).derive("check"))
        learnt, none = compared(family, [strategy.penalty(weights[None]), None], 64, Key.of(seed).derive("fresh"))
        gains.append(float(learnt - none))
    return Finding(
        statistics.mean(gains) > 0 and min(gains) > -0.05,
        f"16 generations of 16 candidates from random weights, {len(SEEDS)} seeds: gain over f = 0 on fresh bandits "
        f"{statistics.mean(gains):+.3f} ({min(gains):+.3f} to {max(gains):+.3f})",
    )


# ---------------------------------------------------------------- the list

_SPO, _MDPO = "arXiv 2401.16025", "arXiv 2005.09814"
_TRPO, _DPO = "arXiv 1502.05477", "arXiv 2210.05639"

CHECKS = (
    Check("spo", "The slope is zero at r = 1 + eps sign(A) for every A.", _optimum_of_the_penalty, _SPO),
    Check("spo", "At r = 1 the slope is the policy gradient's.", _penalty_starts_as_the_policy_gradient, _SPO),
    Check(
        "spo",
        "Outside the range the slope has the opposite sign, where PPO's is 0.",
        _penalty_pulls_back_where_the_clip_is_silent,
        _SPO,
    ),
    Check("spo", "The same term stands in for the clip of a token policy.", _penalty_for_tokens, "derived", slow=True),
    Check(
        "spo",
        "With many epochs per batch |r - 1| stays near eps while PPO's grows; the return is within a tenth of PPO's.",
        _penalty_keeps_ratios_near,
        _SPO,
        slow=True,
    ),
    Check(
        "mdpo", "The maximiser is pi exp(t A)/Z, and the inner SGD approaches it.", _mirror_maximiser, _MDPO, slow=True
    ),
    Check(
        "mdpo", "The first inner step is the plain policy gradient's; later ones are not.", _mirror_first_step, _MDPO
    ),
    Check(
        "mdpo", "The KL term is unbiased for KL(new || old) in value and gradient.", _mirror_kl_is_unbiased, "derived"
    ),
    Check(
        "mdpo",
        "With exact advantages the return rises monotonically, and converges at the known O(1/K) rate.",
        _mirror_converges,
        "arXiv 1908.00261, theorem 5.3",
    ),
    Check("mdpo", "CartPole on par with PPO.", _on_par("mdpo"), _MDPO, slow=True),
    Check(
        "trpo", "J(new) is at least the penalised surrogate for random policies.", _lower_bound_holds, f"{_TRPO}, eq. 9"
    ),
    Check(
        "trpo", "No penalised update lowers the return.", _penalised_steps_never_fall, f"{_TRPO}, section 3", slow=True
    ),
    Check("trpo", "The Fisher-vector product is the explicit Fisher matrix times the vector.", _fisher_products, _TRPO),
    Check(
        "trpo", "The quadratic KL model matches the true KL to second order.", _quadratic_model, f"{_TRPO}, appendix C"
    ),
    Check("trpo", "The same products and steps serve a language model.", _language_model, "derived", slow=True),
    Check("trpo", "CartPole: the KL after each step is at most delta.", _trust_region_holds, _TRPO, slow=True),
    Check(
        "discovered-policy-optimisation",
        "PPO's, DPO's and any learnt f meet the three conditions of a drift.",
        _drift_conditions,
        "arXiv 2201.02373",
    ),
    Check(
        "discovered-policy-optimisation",
        "For all of them the slope at r = 1 is the policy gradient's.",
        _drifts_start_as_the_policy_gradient,
        "arXiv 2201.02373",
    ),
    Check(
        "discovered-policy-optimisation",
        "The shipped learnt drift is worth more than f = 0 under repeated epochs.",
        _shipped_drift_is_worth_it,
        _DPO,
        slow=True,
    ),
    Check(
        "discovered-policy-optimisation",
        "Meta-training on two-state bandits finds an f not worse than f = 0.",
        _discovery_finds_a_drift,
        _DPO,
        slow=True,
    ),
    Check(
        "discovered-policy-optimisation",
        "DPO matches PPO within noise on CartPole.",
        _on_par("discovered-policy-optimisation"),
        _DPO,
        slow=True,
    ),
)
