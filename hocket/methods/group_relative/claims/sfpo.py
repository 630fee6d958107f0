"""What sfpo claims."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.world import World
from hocket.methods.group_relative.sfpo import SlowFastStep, entropy_alarm
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.stages import Metrics
from hocket.update.problem import Problem

claim = Claims("sfpo", "arXiv 2510.04072")


SEEDS = (0, 1, 2, 3, 4)


def _digits() -> World:
    """Three digits whose sum modulo 5 is asked for."""
    return World(questions=4, tokens=5, horizon=3, reward=lambda question, answer: float(sum(answer) % 5 == question))


def _recipe(**changes: object) -> Recipe:
    """SFPO by the changed settings of its update."""
    return find("sfpo").but({f"update.{name}": value for name, value in changes.items()})


def _weights(recipe: Recipe, steps: int = 1, lr: float = 0.5) -> Tensor:
    """The table after some steps from one start."""
    bench = Bench(_digits(), recipe.but({"update.clip_norm": None}), seed=3, lr=lr)
    bench.run(steps)
    return bench.policy.logits.detach().clone()


@claim("With plain SGD alpha = 0 is one normal step, and alpha = 1 is K + 1.")
def _ends_of_the_way() -> Finding:
    found = []
    for alpha, epochs in ((0.0, 1), (1.0, 4)):
        ours = _weights(_recipe(alpha=alpha, method="sgd"))
        plain = _weights(find("grpo").but({"update.method": "sgd", "update.epochs": epochs}))
        found.append(float((ours - plain).abs().max()))
    moved = float((_weights(_recipe(alpha=0.5, method="sgd")) - plain).abs().max())
    return Finding(
        max(found) == 0 and moved > 1e-3,
        f"plain SGD: alpha = 0 off one step of GRPO by {found[0]:.1g}, alpha = 1 off K + 1 = 4 steps by {found[1]:.1g}",
    )


class _Vector(nn.Module):
    """The only weights of a quadratic problem."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.w = nn.Parameter(start.clone())


@dataclass
class _Quadratic(Problem):
    """A problem whose loss is w'Hw/2 - g'w, whatever was sampled."""

    curvature: Tensor = field(default_factory=lambda: torch.eye(1))
    pull: Tensor = field(default_factory=lambda: torch.zeros(1))

    def gradient(self, batch: object = None) -> Metrics:
        (w,) = self.optimiser.param_groups[0]["params"]
        w.grad = self.curvature @ w.detach() - self.pull
        return {"loss": float(0.5 * w.detach() @ self.curvature @ w.detach() - self.pull @ w.detach())}


@claim("On a quadratic the update is the closed-form matrix polynomial.")
def _quadratic_closed_form() -> Finding:
    noise = Key.of(2).numpy()
    root = torch.from_numpy(noise.normal(size=(5, 5)))
    curvature, pull = root @ root.T / 5, torch.from_numpy(noise.normal(size=5))
    start, lr, gap = torch.from_numpy(noise.normal(size=5)), 0.2, 0.0
    bench = Bench(_digits(), find("grpo"), seed=0)
    batch, one = bench.step().batch, torch.eye(5, dtype=torch.float64)
    assert batch is not None
    for fast in (1, 3, 6):
        for alpha in (0.0, 0.3, 0.8, 1.0):
            module = _Vector(start)
            update = SlowFastStep(fast=fast, alpha=alpha, window=0, clip_norm=None, method="sgd")
            sgd = torch.optim.SGD(module.parameters(), lr=lr)
            told = find("grpo")
            problem = _Quadratic(
                batch, bench.policy, sgd, told.loss, told.needs, told.couples, True, curvature=curvature, pull=pull
            )
            update.step(problem, Key.of(0))
            # With M = I - lr H, and w* the optimum: K steps multiply w - w* with M^K.
            step, optimum = one - lr * curvature, torch.linalg.solve(curvature, pull)
            power = torch.linalg.matrix_power(step, fast)
            expected = optimum + step @ ((1 - alpha) * one + alpha * power) @ (start - optimum)
            gap = max(gap, float((module.w.detach() - expected).abs().max()))
    return Finding(
        gap < 1e-12, f"12 pairs of K and alpha: off M((1 - alpha) I + alpha M^K) (w - w*) by at most {gap:.1e}"
    )


@claim("With Adam alpha = 0 differs from one step, unless moments are rewound.", "released code")
def _moments() -> Finding:
    one = _weights(find("grpo"), lr=0.05)
    carried, rewound = (_weights(_recipe(alpha=0.0, moments=state), lr=0.05) for state in ("carried", "rewound"))
    apart, same = (float((one - other).abs().max()) for other in (carried, rewound))
    return Finding(
        apart > 1e-3 and same == 0,
        f"Adam, alpha = 0, against one step: moments carried through {apart:.3f} apart, rewound {same:.1g}",
    )


@claim("The entropy alarm goes off once, and for good.", "released code")
def _alarm_is_one_way() -> Finding:
    low, high = [1.0] * 29, [1.0] * 28 + [1.1, 2.0]
    quiet = entropy_alarm([*low, 1.0], 30, 1.0) or entropy_alarm(high[1:], 30, 1.0)
    loud = entropy_alarm(high, 30, 1.0)
    bench = Bench(_digits(), _recipe(window=3, threshold=1.0), seed=0)
    bench.learner.memory["update"] = {"entropies": [1.0, 1.0, 2.0], "alarmed": False}
    bench.run(6)
    told = [row["update/alarmed"] for row in bench.history]
    return Finding(
        not quiet and loud and told == [1.0] * 6,
        f"a rise of the entropy after 30 steps sets it off, a level one and 29 steps do not; then {told}",
    )


def _divergence(alpha: float, seed: int) -> float:
    """Mean KL(after || before) over contexts of one step."""
    bench = Bench(_digits(), _recipe(alpha=alpha), seed=seed)
    before = torch.log_softmax(bench.policy.logits.detach().clone(), -1)
    bench.step()
    after = torch.log_softmax(bench.policy.logits.detach(), -1)
    return float((after.exp() * (after - before)).sum(-1).mean())


@claim("The further back, the smaller KL(next || before).")
def _nearer_with_alpha() -> Finding:
    alphas = (1.0, 0.8, 0.4, 0.0)
    means = [statistics.mean(_divergence(alpha, seed) for seed in SEEDS) for alpha in alphas]
    falls = all(left > right for left, right in itertools.pairwise(means))
    figures = ", ".join(f"{alpha:g}: {mean:.4f}" for alpha, mean in zip(alphas, means, strict=True))
    return Finding(falls, f"KL(next || before) of one step by alpha, {len(SEEDS)} seeds: {figures} nats")


@claim("Fewer rollouts than GRPO to a set accuracy.", slow=True)
def _fewer_rollouts() -> Finding:
    goal, steps = 0.9, 120
    noisy = World(
        questions=4,
        tokens=5,
        horizon=3,
        reward=_flipped,
        correct=lambda question, answer: float(sum(answer) % 5 == question),
    )
    needed: dict[str, list[int]] = {"grpo": [], "sfpo": []}
    for name, found in needed.items():
        for seed in SEEDS:
            bench = Bench(noisy, find(name), seed=seed, lr=0.03, steps=steps)
            while bench.done < steps and bench.success() < goal:
                bench.step()
            found.append(bench.done)
    grpo, sfpo = (statistics.mean(needed[name]) * 32 for name in ("grpo", "sfpo"))
    return Finding(
        sfpo < 0.7 * grpo and max(needed["sfpo"]) < min(needed["grpo"]),
        f"noisy rewards, {len(SEEDS)} seeds: rollouts to success {goal}: {sfpo:.0f} (steps {needed['sfpo']}) against "
        f"GRPO's {grpo:.0f} (steps {needed['grpo']})",
    )


def _flipped(question: int, answer: tuple[int, ...]) -> float:
    """The truth, but a sixth of the answers, always the same ones, are judged wrongly by half a point."""
    right = float(sum(answer) % 5 == question)
    return 0.5 if (7 * answer[0] + 3 * answer[1] + answer[2] + question) % 6 == 0 else right
