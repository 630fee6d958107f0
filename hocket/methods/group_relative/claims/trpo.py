"""TRPO's claims."""

import functools
import itertools
import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any, cast
from unittest import mock

import numpy as np
import torch

from hocket.core.batch import Batch
from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.lab.toys.control import LONGEST, Array, Process, cart_pole, softened
from hocket.lab.toys.quick_worlds import summing, uneven
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.ppo import PPO
from hocket.methods.group_relative import trpo as method
from hocket.methods.group_relative.trpo import TRPO, acting_weights, divergence, fisher_vector, policy_before, write
from hocket.nano import BASE
from hocket.objectives.drift import DriftSurrogate
from hocket.policies.causal_lm import CausalLM
from hocket.train.learner import Learner
from hocket.types import Decoding, Scenario, Trajectory, Turn
from hocket.update.problem import Problem

claim = Claims("trpo", "arXiv 1502.05477")
GRPO_TRPO = GRPO.but(name="grpo-trpo", objective=DriftSurrogate(aggregate="token-mean"), update=TRPO.update)


def penalised(process: Process, old: Array, new: Array) -> float:
    """J(old) + E[sum_a new A]/(1 - gamma) - 4 gamma max|A| / (1 - gamma)^2 max_s KL(old || new)."""
    (value, advantage, visits), apart = process.solved(old), 1 - process.discount
    surrogate = value + float(visits @ (new * advantage).sum(1)) / apart
    worth = 4 * process.discount * float(np.abs(advantage).max()) / apart**2
    return surrogate - worth * float((old * np.log(old / new)).sum(1).max())


@claim("J(new) is at least the penalised surrogate for random policies.", "arXiv 1502.05477, eq. 9")
def j_is_at_least_the_penalised_surrogate_for_random_policies() -> Finding:
    noise, slack = Key.of(5).numpy(), []
    for process in map(Process, range(40)):
        old = noise.dirichlet(np.ones(process.actions), size=process.states)
        for mix in (0.01, 0.1, 0.5, 1.0):
            new = (1 - mix) * old + mix * noise.dirichlet(np.ones(process.actions), size=process.states)
            slack.append(process.solved(new)[0] - penalised(process, old, new))
    return Finding(min(slack) >= 0, say(random_pairs=len(slack), exceeds_the_bound_by_at_least=min(slack)))


@claim("No penalised update lowers the return.", "arXiv 1502.05477, section 3", slow=True)
def no_penalised_update_lowers_the_return() -> Finding:
    falls, gains, lengths = 0, [], [0.0, *np.geomspace(1e-5, 1.0, 40).tolist()]
    for process in map(Process, range(10)):
        policy, values = process.uniform, [process.solved(process.uniform)[0]]
        for _ in range(50):
            advantage = process.solved(policy)[1]
            steps = (softened(policy, advantage, t) for t in lengths)
            policy = max(steps, key=functools.partial(penalised, process, policy))
            values.append(process.solved(policy)[0])
        falls += sum(after < before - 1e-12 for before, after in itertools.pairwise(values))
        gains.append(values[-1] - values[0])
    return Finding(falls == 0 and min(gains) > 0, say(steps=500, falls=falls, least_gain_of_50=min(gains)))


def problem_of(learner: Learner, batch: Batch) -> Problem:
    """The optimisation problem that a learner would make of a credited batch."""
    recipe = learner.recipe
    idle = all(loss.idle_without_advantage for loss in recipe.losses)
    return Problem(batch, learner.policy, learner.optimiser, recipe.loss, recipe.needs, recipe.couples, idle)


def laboratory() -> tuple[Problem, Batch]:
    """A credited batch of a small world, at a policy that is not uniform, with TRPO as GRPO's update."""
    bench = Bench(summing(2, 3, 2), GRPO_TRPO, seed=0, start=uneven(Key.of(6)))
    batch = bench.step().batch
    assert batch is not None
    return problem_of(bench.learner, batch), batch


@claim("The Fisher-vector product is the explicit Fisher matrix times the vector.")
def the_fisher_vector_product_is_the_explicit_fisher_matrix_times() -> Finding:
    problem, batch = laboratory()
    policy: Any = problem.policy
    before, acting = policy_before(problem), acting_weights(problem)
    size, tokens = policy.logits.numel(), policy.world.tokens
    explicit, unit = torch.zeros(size, size, dtype=torch.float64), torch.eye(size, dtype=torch.float64)
    for row in np.concatenate(batch.observation).tolist():
        chance, own = torch.softmax(policy.logits.detach()[row], -1), slice(row * tokens, (row + 1) * tokens)
        explicit[own, own] += (torch.diag(chance) - torch.outer(chance, chance)) / batch.decisions
    off = gap(torch.stack([fisher_vector(problem, one, before, acting) for one in unit], 1), explicit)
    vector = torch.from_numpy(Key.of(9).numpy().normal(size=size))
    # Policies whose kernels are not twice differentiable get the product by a difference.
    with mock.patch.object(policy, "twice_differentiable", False):
        apart = gap(fisher_vector(problem, vector, policy_before(problem), acting), explicit @ vector)
    solved = method.conjugate_gradient(lambda v: explicit @ v + 0.1 * v, vector, 50, 1e-24)
    residual = gap(solved, torch.linalg.solve(explicit + 0.1 * unit, vector))
    saw = say(size=size, columns_off_by=off, by_difference=apart, conjugate_gradients_against_a_solution=residual)
    return Finding(off < EXACT and residual < 1e-9 and apart < 1e-5, saw)


@claim("The quadratic KL model matches the true KL to second order.", "arXiv 1502.05477, appendix C")
def the_quadratic_kl_model_matches_the_true_kl_to_second_order() -> Finding:
    problem, _ = laboratory()
    before, acting = policy_before(problem), acting_weights(problem)
    start = method.flat(acting, acting).detach()
    direction, off = torch.from_numpy(Key.of(7).numpy().normal(size=len(start))), []
    half = 0.5 * float(direction @ fisher_vector(problem, direction, before, acting))
    for length in (0.1, 0.05, 0.025):
        write(start + length * direction, acting)
        off.append(abs(divergence(problem, before) - half * length**2))
    orders = [math.log2(coarse / fine) for coarse, fine in itertools.pairwise(off)]
    return Finding(min(orders) > 2.5, say(what_the_model_misses_falls_with_the_length_to_the_power=min(orders)))


def by_hand(update: Any, problem: Problem, batch: Batch) -> tuple[torch.Tensor, float, float, float]:
    """The logits after a step, its KL, trials and whether none was good, from the table alone."""
    start = cast(Any, problem.policy).logits.detach().clone()
    rows, actions = (np.concatenate(one).tolist() for one in (batch.observation, [batch.action.numpy()]))
    advantage, old = batch.occurrences.advantage, batch.logp["behaviour"].values.double()
    first, places = torch.log_softmax(start, -1)[rows], range(len(rows))

    def loss(logits: torch.Tensor) -> torch.Tensor:
        return -((torch.log_softmax(logits, -1)[rows, actions] - old).exp() * advantage).mean()

    moving = start.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(moving), moving)
    size, tokens = start.numel(), start.shape[1]
    fisher = update.damping * torch.eye(size, dtype=torch.float64)
    for place in places:
        chance, own = first[place].exp(), slice(rows[place] * tokens, (rows[place] + 1) * tokens)
        fisher[own, own] += (torch.diag(chance) - torch.outer(chance, chance)) / len(rows)
    # Conjugate gradients find the best of the span of g, Fg, FFg, ... until the residual is small.
    target = -slope.flatten()
    span, best = [target / target.norm()], torch.zeros_like(target)
    for _ in range(update.iterations):
        basis = torch.stack(span, 1)
        best = basis @ torch.linalg.solve(basis.T @ fisher @ basis, basis.T @ target)
        further = target - fisher @ best
        if further.norm() <= 1e-5 * target.norm():
            break
        for _ in range(2):
            further = further - basis @ (basis.T @ further)
        span.append(further / further.norm())
    whole = (2 * update.radius / (best @ fisher @ best)).sqrt() * best.view_as(start)
    for trial in range(update.trials):
        logits = start + update.backtrack**trial * whole
        moved = float((first.exp() * (first - torch.log_softmax(logits, -1)[rows])).sum(1).mean())
        if moved <= update.radius and loss(logits) < loss(start):
            return logits, moved, trial + 1.0, 0.0
    return start, 0.0, float(update.trials), 1.0


@claim("A step is the formula's, by hand: sqrt(2 delta / x'Fx) x, shortened until KL and loss hold, else none.")
def a_step_is_the_formulas_by_hand_sqrt_x_shortened_until_kl_and() -> Finding:
    gaps, trials = [], []
    step = method.TrustRegionStep
    short, rough = step(radius=0.05, damping=1e-4, backtrack=0.97), step(radius=0.5, iterations=2, damping=0.3)
    for update in (TRPO.update, short, rough, step(radius=0.05, damping=1e-4, trials=1)):
        problem, batch = laboratory()
        logits, *figures = by_hand(update, problem, batch)
        metrics = update.step(problem, Key.of(0))
        names = ("update/kl", "update/trials", "update/skipped")
        gaps += [gap(cast(Any, problem.policy).logits, logits), gap([metrics[name] for name in names], figures)]
        trials.append(figures[1:])
    settings = [value_at(TRPO, f"update.{name}") for name in ("radius", "iterations", "damping", "backtrack", "trials")]
    holds = settings == [0.01, 10, 0.01, 0.5, 10] and trials[1][0] == 2 and trials[-1] == [1.0, 1.0]
    return Finding(holds and max(gaps) < EXACT, say(trials_and_skipped=str(trials), off_by_hand=max(gaps)))


@claim(
    "The surrogate is the plain ratio times the advantage, counted by hand: nothing is clipped; the rate is constant."
)
def the_surrogate_is_the_plain_ratio_times_the_advantage_counted_by() -> Finding:
    def loss(answers: Sequence[CountedAnswer]) -> tuple[torch.Tensor, dict[str, float]]:
        return torch.cat([-(one.logp - one.old).exp() * one.advantage for one in answers]).mean(), {}

    alone = TRPO.but(credit=GRPO.credit, regularisers=())
    gaps = [off(alone, rows, loss) for rows in stale_rows("trpo", count=2)]
    rates = [TRPO.update.lr_factor(step, 10) for step in (1, 10)]
    return below(EXACT, rates == [1.0, 1.0], off_by_hand=max(gaps))


@claim("Differences are taken some 1e-4 nats away, however large weights are; residuals end 1e-5 of what they were.")
def differences_are_taken_some_1e_4_nats_away_however_large_weights() -> Finding:
    moved, left = [], []
    for size in (1.0, 1e4, 1e6):
        problem, _ = laboratory()
        policy: Any = problem.policy
        with torch.no_grad():
            policy.logits.add_(size)  # Which changes no chance.
        before, acting = policy_before(problem), acting_weights(problem)
        vector = torch.from_numpy(Key.of(9).numpy().normal(size=policy.logits.numel()))
        start = method.flat(acting, acting).detach()
        reach = method._reach(problem, vector, before, acting)
        write(start + reach * vector, acting)
        moved.append(divergence(problem, before))
        scaled = vector * 10.0 ** -(3 * math.log10(size) / 2)
        curves = torch.linspace(0.1, 3, len(vector), dtype=torch.float64)
        found = method.conjugate_gradient(lambda v, curves=curves: curves * v, scaled, 50)  # type: ignore[misc]
        left.append(float((curves * found - scaled).norm() / scaled.norm()))
    holds = max(moved) <= 4e-4 and min(moved[1:]) > 5e-6 and 1e-7 < min(left) <= max(left) <= 1e-5
    return Finding(holds, say(nats=str(moved), residuals=str(left)))


@claim("After the step the critic alone learns, as PPO's does: 4 epochs of 4 mini-batches.")
def after_the_step_the_critic_alone_learns_as_ppos_does_4_epochs_of() -> Finding:
    plain = {"update.clip_norm": None}
    ours, theirs = (Bench(summing(2, 3, 2), one.but(plain), seed=0, start=uneven(Key.of(6))) for one in (TRPO, PPO))
    updates = ours.step().metrics["update/gradients"]
    theirs.step()
    values = [cast(torch.Tensor, one.policy.module.values) for one in (ours, theirs)]
    norms = [value_at(one, "update.clip_norm") for one in (TRPO, PPO)]
    apart, moved = gap(*values), gap(values[0], 0.0)
    return Finding(apart < EXACT < moved and updates == 16 and norms[0] == norms[1], say(off=apart, moved=moved))


@claim("CartPole: the KL after each step is at most delta.", slow=True)
def cartpole_the_kl_after_each_step_is_at_most_delta() -> Finding:
    played = [cart_pole("trpo", seed) for seed in SEEDS]
    moves, gained = [value for run in played for value in run.backward], fmean(run.score for run in played)
    accepted = fmean(value > 0 for value in moves)
    saw = say(KL_of_before_to_after_at_most=max(moves), accepted=accepted, mean_return_of_200=gained)
    return Finding(max(moves) <= 0.01 * (1 + 1e-4) and accepted > 0.9 and gained > LONGEST / 2, saw)


@claim("The same products and steps serve a language model.", "derived", slow=True)
def the_same_products_and_steps_serve_a_language_model() -> Finding:
    policy, way, played = CausalLM.from_pretrained(BASE, key=Key.of(0)), Decoding(max_tokens=12), []
    for number, text in enumerate(("What is 3 + 4?", "What is 12 + 7?") * 2):
        context = tuple(policy.tokenizer(text)["input_ids"])
        (one,) = LocalEngine(policy).sample([Request(context, way, Key.of(number))])
        turn = Turn("agent", "policy", np.array(context), one.tokens, logp=one.logp, decoding=way)
        played.append(Trajectory(Scenario(f"s{number % 2}"), [turn], sample=number))
    batch, update = pack(played), method.TrustRegionStep(radius=0.002)
    batch = batch.credited(advantage=torch.from_numpy(Key.of(1).numpy().normal(size=len(batch.occurrences))))
    problem = problem_of(Learner(policy, GRPO_TRPO.but(update=update), total_steps=1), batch)
    problem.gradient()
    acting = acting_weights(problem)
    steepest = method.flat([weight.grad for weight in acting], acting).clone()
    before, start = policy_before(problem), method.flat(acting, acting).detach().clone()
    steepest = steepest / steepest.norm()
    curvature, around = float(steepest @ fisher_vector(problem, steepest, before, acting)), 0.0
    length = math.sqrt(2e-4 / curvature)
    for sign in (1, -1):
        write(start + sign * length * steepest, acting)
        around += divergence(problem, before)
    write(start, acting)
    by_KL, moved = around / length**2, update.step(problem, Key.of(0))["update/kl"]
    saw = say(tokens=batch.decisions, curvature_along_the_gradient=curvature, by_the_KL=by_KL, KL_of_a_step=moved)
    return Finding(abs(curvature / by_KL - 1) < 0.02 and 0 < moved <= update.radius, saw)


claim.spares("trpo: objective.horizon = 5120", "no length divides a mean over tokens")
claim.spares("here + reach * vector -> here - reach * vector", "KL is nearly alike on both sides")
claim.spares(
    "0.001 * float(here.norm()) / max(float(vector.norm()), 1e-30) -> 0.001 * float(here.norm())",
    "where the search for a reach begins",
)
claim.spares(
    "0.001 * float(here.norm()) -> 0.001",
    "where the search for a reach begins",
)
claim.spares("1e-30 -> 4.0000000000000003e-29", "only keeps a division by 0 away")
claim.spares(
    "min(0.5, max(0.01, (NEARBY / moved) ** 0.5)) -> max(0.5, max(0.01, (NEARBY / moved) ** 0.5))",
    "how fast the reach is found",
)
claim.spares("0.5 -> 20.0", "how fast the reach is found")
claim.spares("max(0.01, (NEARBY / moved) ** 0.5) -> min(0.01, (NEARBY / moved) ** 0.5)", "how fast the reach is found")
claim.spares("0.01 -> 0.4", "how fast the reach is found")
claim.spares("(NEARBY / moved) ** 0.5 -> NEARBY / moved", "how fast the reach is found")
claim.spares("NEARBY / moved -> NEARBY", "how fast the reach is found")
claim.spares(
    "not math.isfinite(metrics['gradient/norm'] + report['loss']) or metrics['gradient/norm'] == 0 -> "
    "not math.isfinite(metrics['gradient/norm'] + report['loss']) and metrics['gradient/norm'] == 0",
    "one of two guards against numbers that are not finite",
)
claim.spares(
    "metrics['gradient/norm'] + report['loss'] -> metrics['gradient/norm'] - report['loss']",
    "one of two guards against numbers that are not finite",
)
claim.spares(
    "metrics['gradient/norm'] + report['loss'] -> metrics['gradient/norm']",
    "one of two guards against numbers that are not finite",
)
claim.spares(
    "not math.isfinite(curvature) or curvature <= 0 -> not math.isfinite(curvature) and curvature <= 0",
    "one of two guards against numbers that are not finite",
)
claim.spares(
    "problem.clip(self.clip_norm) + report['loss'] -> problem.clip(self.clip_norm) - report['loss']",
    "finite when both are",
)
claim.spares(
    "problem.clip(self.clip_norm) + report['loss'] -> problem.clip(self.clip_norm)",
    "finite when both are",
)

claim.shipped(TRPO, "update")
