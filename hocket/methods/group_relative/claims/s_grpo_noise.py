"""S-GRPO's claims about noisy labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, each, gap, runs, say
from hocket.lab.groups import first_advantages, recorded
from hocket.lab.policy import Tabular
from hocket.lab.toys.enumerable_groups import binary_advantages, binary_groups
from hocket.lab.toys.quick_worlds import guessing, lead
from hocket.lab.world import World, answer_of, question_of
from hocket.methods.group_relative.s_grpo_noise import S_GRPO_NOISE, noise_weight
from hocket.recipes import GRPO, find
from hocket.stages import Reward
from hocket.types import Trajectory

claim = Claims("s-grpo-noise", "arXiv:2508.05928")
FLIP = "credit.weigh.0.flip"


@claim("p = 0 leaves GRPO as it is; with noise a lone odd label weighs 0, an even group 1 - 2p")
def p_0_leaves_grpo_as_it_is_with_noise_a_lone_odd_label_weighs_0() -> Finding:
    clean, plain = (binary_advantages(one, 8) for one in (S_GRPO_NOISE.but({FLIP: 0.0}), GRPO))
    noisy, groups = S_GRPO_NOISE.but({FLIP: 0.2, "credit.weigh.0.success": 0.5}), binary_groups(8)
    mixed = first_advantages(noisy, recorded([groups[1], groups[7], groups[4]]))
    even = abs(mixed[-1]) / abs(plain[4][0])
    lone, off = max(map(abs, mixed[:16])), gap(plain, clean)
    saw = say(off_GRPO_without_noise=off, one_odd_label_of_eight_at_p_of_one_fifth=lone, weight_of_an_even_group=even)
    return Finding(off < 1e-6 and lone == 0 and abs(even - 0.6) < 1e-6, saw)


@claim("as shipped, p = 0.15: one odd label of eight weighs 0, two of eight less than an even group's 0.7")
def as_shipped_p_0_15_one_odd_label_of_eight_weighs_0_two_of_eight() -> Finding:
    groups = binary_groups(8)
    mixed = first_advantages(S_GRPO_NOISE, recorded([groups[rate] for rate in (1, 7, 2, 4)]))
    plain = first_advantages(GRPO, recorded([groups[rate] for rate in (1, 7, 2, 4)]))
    weights = [mixed[place] / plain[place] for place in (0, 8, 16, 24)]
    share = (0.25 - 0.15) / 0.7
    wanted = [0.0, 0.0, 0.7 * math.sqrt(share * (1 - share) / (0.25 * 0.75)), 0.7]
    return Finding(gap(weights, wanted) < 1e-6, say(weights_of_1_7_2_and_4_of_8=weights, off=gap(weights, wanted)))


@claim("The weight by hand, e inside both roots; q beyond what flips explain is no more than all right, and weighs 0.")
def the_weight_by_hand_e_inside_both_roots_q_beyond_what_flips() -> Finding:
    off = 0.0
    for epsilon in (1e-8, 0.01):
        for observed in (0.2, 0.5, 0.75):
            true = (observed - 0.15) / 0.7
            first, second = (math.sqrt(one * (1 - one) + epsilon) for one in (observed, true))
            found = float(noise_weight(torch.tensor(observed, dtype=torch.float64), 0.15, epsilon))
            off = max(off, abs(found - 0.7 * true * (1 - true) / (first * second)))
    beyond = noise_weight(torch.tensor([0.0, 0.1, 0.9, 1.0], dtype=torch.float64), 0.15, 1e-8).tolist()
    groups = binary_groups(8)
    weighed = (
        first_advantages(S_GRPO_NOISE, recorded([groups[4]]))[0] / first_advantages(GRPO, recorded([groups[4]]))[0]
    )
    shipped = abs(weighed - 0.7 * 0.25 / (0.25 + 1e-8))
    return Finding(off < 1e-12 and shipped < 1e-12 and beyond == [0.0] * 4, say(off=off, shipped=shipped, at=beyond))


@claim("The weight minimises E[(w A_noisy - A_true)^2]")
def the_weight_minimises_e_2() -> Finding:
    rng, count, weights = Key.of(8).numpy(), 400_000, {}
    for rate, flip in ((0.5, 0.2), (0.3, 0.1), (0.15, 0.2), (0.9, 0.05)):
        clean = (rng.random(count) < rate).astype(float)
        noisy = abs(clean - (rng.random(count) < flip))
        left, right = ((one - one.mean()) / one.std() for one in (noisy, clean))
        observed = torch.tensor(rate * (1 - flip) + (1 - rate) * flip, dtype=torch.float64)
        best = float((left * right).mean() / (left * left).mean())
        weights[f"rate {rate}, p {flip}:"] = float(noise_weight(observed, flip, 0.0)), best
    holds = max(abs(own - best) for own, best in weights.values()) < 4 / math.sqrt(count)
    shown = {name: f"{own:.4f} against {best:.4f}" for name, (own, best) in weights.items()}
    return Finding(holds, say(weight_and_best_factor=shown))


@dataclass(frozen=True)
class Flipped(Reward):
    """A world's reward with labels of which a fifth is wrong."""

    world: World
    name: str = "label"
    weight: float = 1.0
    outside = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        labels = [self.world.reward(question_of(one), answer_of(one)) for one in trajectories]
        flips = [key.derive(one.scenario.id, one.sample).numpy().random() < 0.2 for one in trajectories]
        return [1 - label if flip else label for label, flip in zip(labels, flips, strict=True)]


def noisy(world: World, steps: int, *names: str, samples: int = 8, **bench: Any) -> dict[str, list[float]]:
    """Success after training with a fifth of the labels flipped, by recipe and seed."""
    recipes = (find(name).but({"rollout.samples": samples}, rewards=(Flipped(world),)) for name in names)
    flipped = (one.but({FLIP: 0.2}) if one.name == S_GRPO_NOISE.name else one for one in recipes)
    return each(runs(world, *flipped, steps=steps, every=steps, lr=0.1, **bench), Bench.success)


@claim("With 20 % flipped labels it ends above GRPO and Dr. GRPO where unsolvable prompts share parameters", slow=True)
def with_20_flipped_labels_it_ends_above_grpo_and_dr_grpo_where() -> Finding:
    def start(policy: Tabular) -> None:
        policy.logits[policy.row(0, ()), 0] = 1.0
        policy.logits[policy.row(0, (0,)), 1] = 1.0

    # One prompt can be solved, eleven cannot.
    world = World(12, 5, 2, lambda question, answer: float(question == 0 and answer == (0, 1)), context="shared")
    made = noisy(world, 40, "s-grpo-noise", "grpo", "dr-grpo", samples=16, start=start)
    success = {name: [12 * one for one in some] for name, some in made.items()}
    own, plain, centred = success.values()
    (ahead, error), of_centred = lead(own, plain), [a - b for a, b in zip(own, centred, strict=True)]
    saw = say(ahead_of_GRPO=ahead, error=error, of_Dr_GRPO=of_centred, success_after_40_steps=success)
    return Finding(ahead > 2 * error and fmean(of_centred) > 0.05, saw)


@claim(
    "Where every prompt can be solved and has its own parameters, GRPO does not stall under the same noise",
    "counter-example found here",
    slow=True,
)
def where_every_prompt_can_be_solved_and_has_its_own_parameters() -> Finding:
    success = noisy(guessing(2, 4), 60, "grpo", "s-grpo-noise")
    holds = min(success["grpo"]) > 0.85 and fmean(success["s-grpo-noise"]) < fmean(success["grpo"]) + 0.02
    return Finding(holds, say(success_after_60_steps=success))


@claim("With clean rewards and p = 0 the curves are GRPO's", slow=True)
def with_clean_rewards_and_p_0_the_curves_are_grpos() -> Finding:
    made = runs(guessing(), GRPO, S_GRPO_NOISE.but({FLIP: 0.0}), steps=40, every=10, seeds=range(2))
    worst = gap(*([[one.success for one in bench.readings] for bench in side] for side in made.values()))
    return Finding(worst < 1e-4, say(largest_difference_between_the_curves=worst))


claim.shipped(S_GRPO_NOISE, "credit")
