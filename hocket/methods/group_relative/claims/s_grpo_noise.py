"""What s-grpo-noise claims."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hocket import recipes
from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.groups import first_advantages, recorded
from hocket.lab.policy import Tabular
from hocket.lab.toys.group_statistics import _binary_groups, finding
from hocket.lab.toys.group_statistics_training import SEEDS, guessing, recipe_of, spread, trained
from hocket.lab.world import World, answer_of, question_of
from hocket.methods.group_relative.s_grpo_noise import noise_weight
from hocket.stages import Reward
from hocket.types import Trajectory

claim = Claims("s-grpo-noise", "arXiv:2508.05928")


@claim("p = 0 leaves GRPO as it is; with noise a lone odd label weighs 0, an even group 1 - 2p")
def _noise_free_weight() -> Finding:
    groups = _binary_groups(8)
    plain = first_advantages(recipes.find("grpo"), recorded(groups))
    clean = first_advantages(recipes.find("s-grpo-noise").but({"credit.weigh.0.flip": 0.0}), recorded(groups))
    worst = max(abs(a - b) for a, b in zip(plain, clean, strict=True))
    noisy = recipes.find("s-grpo-noise").but({"credit.weigh.0.flip": 0.2, "credit.weigh.0.success": 0.5})
    lone = first_advantages(noisy, recorded([groups[1], groups[7], groups[4]]))
    even = abs(lone[-1]) / abs(first_advantages(recipes.find("grpo"), recorded([groups[4]]))[0])
    return finding(
        f"p = 0: {worst:.1e} from GRPO; p = 0.2: one odd label of eight gets {max(map(abs, lone[:16]))}, "
        f"an even group weight {even:.4f}",
        worst < 1e-6,
        max(map(abs, lone[:16])) == 0,
        abs(even - 0.6) < 1e-6,
    )


@claim("The weight minimises E[(w A_noisy - A_true)^2]")
def _noise_weight_is_least_squares() -> Finding:
    """Clean rewards, flips, population statistics of many samples: the best factor, and the weight's."""
    rng, count = Key.of(8).numpy(), 400_000
    saw, worst = [], 0.0
    for rate, flip in ((0.5, 0.2), (0.3, 0.1), (0.15, 0.2), (0.9, 0.05)):
        clean = (rng.random(count) < rate).astype(float)
        noisy = abs(clean - (rng.random(count) < flip))
        left, right = ((one - one.mean()) / one.std() for one in (noisy, clean))
        best = float((left * right).mean() / (left * left).mean())
        observed = rate * (1 - flip) + (1 - rate) * flip
        weight = float(noise_weight(torch.tensor(observed, dtype=torch.float64), flip, 0.0))
        worst = max(worst, abs(best - weight))
        saw.append(f"rate {rate}, p {flip}: {weight:.4f} against {best:.4f}")
    return finding("; ".join(saw), worst < 4 / math.sqrt(count))


@dataclass(frozen=True)
class Flipped(Reward):
    """A world's reward with labels that are wrong with probability `chance`."""

    world: World
    chance: float
    name: str = "label"
    weight: float = 1.0
    outside = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        labels: list[float | None] = []
        for one in trajectories:
            label = self.world.reward(question_of(one), answer_of(one))
            flips = key.derive(one.scenario.id, one.sample).numpy().random() < self.chance
            labels.append(1 - label if flips else label)
        return labels


def _noisy(name: str, world: World, steps: int, seed: int, changes: Mapping[str, Any], **bench: Any) -> Bench:
    made = Bench(world, recipe_of(name, changes), seed=seed, **bench)
    made.parts.rewards = (Flipped(world, 0.2),)
    return made.run(steps)


def _with_a_chance(policy: Tabular) -> None:
    policy.logits[policy.row(0, ()), 0] = 1.0
    policy.logits[policy.row(0, (0,)), 1] = 1.0


@claim("With 20 % flipped labels it ends above GRPO and Dr. GRPO where unsolvable prompts share parameters", slow=True)
def _noise_from_hopeless_prompts() -> Finding:
    """One prompt can be solved, eleven cannot, and all share their parameters; a fifth of the labels is wrong."""
    questions = 12
    world = World(questions, 5, 2, lambda question, answer: float(question == 0 and answer == (0, 1)), context="shared")
    final = {}
    for name in ("grpo", "dr-grpo", "s-grpo-noise"):
        changes = {"rollout.samples": 16, **({"credit.weigh.0.flip": 0.2} if name == "s-grpo-noise" else {})}
        runs = [_noisy(name, world, 40, seed, changes, lr=0.1, start=_with_a_chance) for seed in SEEDS]
        final[name] = [bench.success() * questions for bench in runs]
    ahead = {name: [a - b for a, b in zip(final["s-grpo-noise"], final[name], strict=True)] for name in final}
    error = statistics.stdev(ahead["grpo"]) / math.sqrt(len(SEEDS))
    return Finding(
        statistics.fmean(ahead["grpo"]) > 2 * error and statistics.fmean(ahead["dr-grpo"]) > 0.05,
        f"ahead of GRPO by {statistics.fmean(ahead['grpo']):.2f} +- {error:.2f} on the same seeds, of Dr. GRPO by "
        f"{spread(ahead['dr-grpo'], 2)}; success after 40 steps with 20 % flipped labels: "
        f"S-GRPO {spread(final['s-grpo-noise'], 2)}, GRPO "
        f"{spread(final['grpo'], 2)}, Dr. GRPO {spread(final['dr-grpo'], 2)}",
    )


@claim(
    "Where every prompt can be solved and has its own parameters, GRPO does not stall under the same noise",
    "counter-example found here",
    slow=True,
)
def _noise_without_hopeless_prompts() -> Finding:
    """The counter-example: where each prompt has parameters of its own and can be solved, GRPO does not stall."""
    world, final = guessing(2, 4), {}
    for name in ("grpo", "s-grpo-noise"):
        changes = {"credit.weigh.0.flip": 0.2} if name == "s-grpo-noise" else {}
        final[name] = [_noisy(name, world, 60, seed, changes, lr=0.1).success() for seed in SEEDS]
    return Finding(
        min(final["grpo"]) > 0.85 and statistics.fmean(final["s-grpo-noise"]) < statistics.fmean(final["grpo"]) + 0.02,
        f"success after 60 steps with 20 % flipped labels: GRPO {spread(final['grpo'])}, S-GRPO "
        f"{spread(final['s-grpo-noise'])}",
    )


@claim("With clean rewards and p = 0 the curves are GRPO's", slow=True)
def _clean_curves_coincide() -> Finding:
    world, worst = guessing(), 0.0
    for seed in range(2):
        plain = trained("grpo", world, 40, seed)
        clean = trained("s-grpo-noise", world, 40, seed, {"credit.weigh.0.flip": 0.0})
        worst = max(worst, *(abs(a.success - b.success) for a, b in zip(plain.readings, clean.readings, strict=True)))
    return Finding(worst < 1e-4, f"largest difference between the curves {worst:.1e}")
