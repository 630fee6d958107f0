"""SFPO's claims."""

import itertools
from dataclasses import dataclass, field
from statistics import fmean

import torch
from torch import Tensor, nn

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, say
from hocket.lab.toys.quick_worlds import summing
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.sfpo import SFPO, SlowFastStep, entropy_alarm
from hocket.recipe import Recipe
from hocket.stages import Metrics
from hocket.update.problem import Problem

claim = Claims("sfpo", "arXiv 2510.04072")


DIGITS = summing(4, 5, 3)
"""Three digits whose sum modulo 5 is asked for."""


def sfpo(**changes: object) -> Recipe:
    """SFPO by the changed settings of its update."""
    return SFPO.but({f"update.{name}": value for name, value in changes.items()})


def weights(recipe: Recipe, lr: float = 0.5) -> Tensor:
    """The table after a step from one start."""
    return Bench(DIGITS, recipe.but({"update.clip_norm": None}), seed=3, lr=lr).run(1).policy.logits.detach().clone()


@claim("With plain SGD alpha = 0 is one normal step, and alpha = 1 is K + 1.")
def with_plain_sgd_alpha_0_is_one_normal_step_and_alpha_1_is_k_1() -> Finding:
    stay, half, go = (weights(sfpo(alpha=alpha, method="sgd")) for alpha in (0.0, 0.5, 1.0))
    one, four = (weights(GRPO.but({"update.method": "sgd", "update.epochs": epochs})) for epochs in (1, 4))
    off = {"alpha = 0, 1 step": gap(stay, one), "alpha = 1, 4 steps": gap(go, four)}
    return Finding(max(off.values()) == 0 and gap(half, four) > 1e-3, say(off_plain_SGD_on_GRPO=off))


@dataclass
class Quadratic(Problem):
    """A problem whose loss is w'Hw/2 - g'w, whatever was sampled."""

    curvature: Tensor = field(default_factory=lambda: torch.eye(1))
    pull: Tensor = field(default_factory=lambda: torch.zeros(1))

    def gradient(self, batch: object = None) -> Metrics:
        (w,) = self.optimiser.param_groups[0]["params"]
        w.grad = self.curvature @ w.detach() - self.pull
        return {"loss": float(0.5 * w.detach() @ self.curvature @ w.detach() - self.pull @ w.detach())}


@claim("On a quadratic the update is the closed-form matrix polynomial.")
def on_a_quadratic_the_update_is_the_closed_form_matrix_polynomial() -> Finding:
    noise, one, gaps = Key.of(2).numpy(), torch.eye(5, dtype=torch.float64), []
    root, pull, start = (torch.from_numpy(noise.normal(size=size)) for size in ((5, 5), 5, 5))
    curvature, bench = root @ root.T / 5, Bench(DIGITS, GRPO, seed=0)
    batch = bench.step().batch
    assert batch is not None
    # With M = I - lr H, and w* the optimum: K steps multiply w - w* with M^K.
    step, optimum = one - 0.2 * curvature, torch.linalg.solve(curvature, pull)
    arms = list(itertools.product((1, 3, 6), (0.0, 0.3, 0.8, 1.0)))
    shipped = sfpo(clip_norm=None, method="sgd").update
    updates = [SlowFastStep(fast=fast, alpha=alpha, window=0, clip_norm=None, method="sgd") for fast, alpha in arms]
    for update, (fast, alpha) in zip([*updates, shipped], [*arms, (3, 0.8)], strict=True):
        w = nn.Parameter(start.clone())
        made = (batch, bench.policy, torch.optim.SGD([w], lr=0.2), GRPO.loss, GRPO.needs, GRPO.couples, True)
        update.step(Quadratic(*made, curvature=curvature, pull=pull), Key.of(0))
        power = torch.linalg.matrix_power(step, fast)
        gaps.append(gap(w, optimum + step @ ((1 - alpha) * one + alpha * power) @ (start - optimum)))
    return below(EXACT, off_the_polynomial_for_12_pairs_of_K_and_alpha=max(gaps))


@claim("With Adam alpha = 0 differs from one step, unless moments are rewound.", "released code")
def with_adam_alpha_0_differs_from_one_step_unless_moments_are() -> Finding:
    one = weights(GRPO, lr=0.05)
    off = {state: gap(weights(sfpo(alpha=0.0, moments=state), lr=0.05), one) for state in ("carried", "rewound")}
    return Finding(off["carried"] > 1e-3 and off["rewound"] == 0, say(off_one_step_with_moments=off))


@claim("The alarm is of the entropies of the last steps, goes off once, and for good.", "released code")
def the_alarm_is_of_the_entropies_of_the_last_steps_goes_off_once() -> Finding:
    high, bench = [1.0] * 28 + [1.1, 2.0], Bench(DIGITS, sfpo(window=3, threshold=1.0), seed=0)
    usual = SFPO.update
    assert isinstance(usual, SlowFastStep)
    level, early, loud = (entropy_alarm(one, usual.window, usual.threshold) for one in ([1.0] * 30, high[1:], high))
    bench.learner.memory["update"] = {"entropies": [1.0, 1.0, 2.0], "alarmed": False}
    alarmed = [row["update/alarmed"] for row in bench.run(6).history]
    faint, slight = (entropy_alarm([1.0] * 29 + [1.0 + rise], 30, 1.0) for rise in (1e-9, 3e-9))
    wanted = [1.0, 1.0, 2.0]
    bench.learner.memory["update"] = {"entropies": wanted, "alarmed": False}
    for _ in range(2):
        batch = bench.step().batch
        assert batch is not None
        counts = batch.occurrences.weight != 0
        wanted.append(-float(batch.logp["behaviour"].values[batch.occurrences.decision[counts]].double().mean()))
    kept = gap(bench.learner.memory["update"]["entropies"], wanted[-3:]) < EXACT
    saw = say(after_a_rise_over_30_steps=loud, level_or_after_29=level or early, then=str(alarmed))
    holds = not (level or early or faint) and loud and slight and alarmed == [1.0] * 6
    return Finding(holds and kept and usual.clip_norm == getattr(GRPO.update, "clip_norm", None), saw)


def divergence(alpha: float, seed: int) -> float:
    """Mean KL(after || before) over contexts of one step."""
    bench = Bench(DIGITS, sfpo(alpha=alpha), seed=seed)
    bench.step()
    before, after = (torch.log_softmax(one.logits.detach(), -1) for one in (bench.reference, bench.policy))
    return float((after.exp() * (after - before)).sum(-1).mean())


@claim("The further back, the smaller KL(next || before).")
def the_further_back_the_smaller_kl() -> Finding:
    means = {f"alpha {alpha}:": fmean(divergence(alpha, seed) for seed in SEEDS) for alpha in (1.0, 0.8, 0.4, 0.0)}
    falls = all(left > right for left, right in itertools.pairwise(means.values()))
    return Finding(falls, say(nats_in_one_step=means))


@claim("Fewer rollouts than GRPO to a set accuracy.", slow=True)
def fewer_rollouts_than_grpo_to_a_set_accuracy() -> Finding:
    def flipped(question: int, answer: Answer) -> float:
        """The truth, but a sixth of the answers, always the same ones, are judged wrongly by half a point."""
        wrong = (7 * answer[0] + 3 * answer[1] + answer[2] + question) % 6 == 0
        return 0.5 if wrong else DIGITS.reward(question, answer)

    noisy, steps = World(4, 5, 3, flipped, correct=DIGITS.reward), dict[str, list[int]]()
    for recipe in (GRPO, SFPO):
        benches = [Bench(noisy, recipe, seed=seed, lr=0.03, steps=120) for seed in SEEDS]
        for bench in benches:
            while bench.done < 120 and bench.success() < 0.9:
                bench.step()
        steps[recipe.name] = [bench.done for bench in benches]
    rollouts = {name: 32 * fmean(needed) for name, needed in steps.items()}
    holds = rollouts["sfpo"] < 0.7 * rollouts["grpo"] and max(steps["sfpo"]) < min(steps["grpo"])
    listed = {name: str(needed) for name, needed in steps.items()}
    return Finding(holds, say(rollouts_to_success_0_9_with_noisy_rewards=rollouts, steps=listed))


claim.shipped(SFPO, "update")
claim.shipped(SFPO, without={"update.alpha": 1.0})
