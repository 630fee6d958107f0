"""DRA-GRPO's claims."""

from __future__ import annotations

import contextlib
import math
from statistics import fmean

import torch

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, say
from hocket.lab.policy import Tabular
from hocket.lab.toys.instances import four_right
from hocket.lab.toys.recorded_answers import advantages, group_relative, lines, said, shaped
from hocket.lab.toys.training import answers_of
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.dra_grpo import DRA_GRPO, redundancy
from hocket.recipe import Recipe

claim = Claims("dra-grpo", "DRA-GRPO, arXiv:2505.09655, released trainer")


@claim("k equal answers unlike all others weigh 1/k each")
def k_equal_answers_unlike_all_others_weigh_1_k_each() -> Finding:
    axes = torch.eye(4)[[0, 0, 0, 1, 2, 3]].tolist()
    rows = [said("q", f"t{n}", float(n < 5), embedding=axis) for n, axis in enumerate(axes)]
    weights, wanted = shaped(DRA_GRPO, rows), [1 / (3 + 1e-6)] * 3 + [1 / (1 + 1e-6)] * 2 + [0.0]
    own = shaped(DRA_GRPO, [said("q", text, 1.0) for text in ("maple", "maple", "quartz")])
    holds = gap(weights, wanted) < 1e-12 and gap(advantages(DRA_GRPO, rows), group_relative(wanted)) < 1e-9
    holds &= own[0] == own[1] < 0.51 and own[2] > 0.95
    earned = {"three_equal_ones_earn": f"{sum(weights[:3]):.6f}", "one_alone": f"{weights[3]:.6f}"}
    return Finding(holds, lines(weights=weights, texts=own, **earned))


@claim("weights do not depend on the order of the group", "derived here")
def weights_do_not_depend_on_the_order_of_the_group() -> Finding:
    rng, off = Key.of(1).numpy(), 0.0
    rows = [said("q", f"t{n}", float(n % 3), embedding=rng.normal(size=4).tolist()) for n in range(8)]
    weights = shaped(DRA_GRPO, rows)
    for trial in range(20):
        order = Key.of(2).derive(trial).numpy().permutation(8).tolist()
        off = max(off, gap(shaped(DRA_GRPO, [rows[n] for n in order]), [weights[n] for n in order]))
    return Finding(off == 0.0, say(largest_difference_over_20_orders=off))


@claim("the sum stays positive, so no reward changes its sign", "derived here")
def the_sum_stays_positive_so_no_reward_changes_its_sign() -> Finding:
    """Random directions, and one vector against three opposite ones, whose released sum is 1 - 3 = -2 and refused."""
    rng, lowest, refused = Key.of(3).numpy(), math.inf, True
    for trial in range(50):
        rows = [said("q", f"{trial}/{n}", 1.0, embedding=rng.normal(size=3).tolist()) for n in range(6)]
        lowest = min(lowest, *shaped(DRA_GRPO, rows))
    opposite = torch.tensor([[1.0, 0], [-1, 0], [-1, 0], [-1, 0]], dtype=torch.float64)
    released = float(redundancy(opposite, nonnegative=False)[0])
    rows = [said("q", f"t{n}", 1.0, embedding=vector) for n, vector in enumerate(opposite.tolist())]
    guarded = shaped(DRA_GRPO, rows)
    with contextlib.suppress(ConfigurationError):
        shaped(DRA_GRPO.but({"shaping.0.nonnegative": False}), rows)
        refused = False
    figures = lines(least_of_300=lowest, plain_sum=released, refused=refused, with_cosines_below_0_as_0=guarded)
    return Finding(lowest > 0 and min(guarded) > 0 and released < 0 and refused, figures)


def uneven(policy: Tabular) -> None:
    for question in range(2):
        tokens = [(place + 4 * question) % 8 for place in range(4)]
        policy.logits[policy.row(question, ()), tokens] = torch.tensor([1.0, 0.5, 0.0, -0.5], dtype=torch.float64)


def right_entropy(bench: Bench, question: int) -> float:
    answers, chance = answers_of(bench, question)
    own = torch.tensor([bench.world.reward(question, answer) for answer in answers]) * chance
    share = (own / own.sum()).clamp(min=1e-300)
    return float(-(share * share.log()).sum())


def entropy_when_accurate(recipe: Recipe, seed: int) -> float:
    """The entropy among right answers, mean over questions, when the success rate first reaches 0.95."""
    bench = Bench(four_right(), recipe, seed=seed, start=uneven)
    while bench.success() < 0.95 and bench.done < 120:
        bench.step()
    return fmean(right_entropy(bench, question) for question in range(2))


@claim("at equal accuracy more entropy over right answers than GRPO", slow=True)
def at_equal_accuracy_more_entropy_over_right_answers_than_grpo() -> Finding:
    plain, diverse = ([entropy_when_accurate(recipe, seed) for seed in SEEDS] for recipe in (GRPO, DRA_GRPO))
    return Finding(min(diverse) > max(plain) + 0.1, lines(entropy_of_dra_grpo=diverse, grpo=plain, most=math.log(4)))


@claim("The released sum may be 0, where an answer stands against its opposite; epsilon then divides alone.", "derived")
def the_released_sum_may_be_0_where_an_answer_stands_against_its() -> Finding:
    rows = [said("q", f"t{n}", 1.0, embedding=[side, 0.0]) for n, side in enumerate((1.0, -1.0))]
    found = shaped(DRA_GRPO.but({"shaping.0.nonnegative": False}), rows)
    return Finding(gap(found, [1e6, 1e6]) < 1e-3, lines(weights=found))


claim.spares("-1 -> 1", "the last of two dimensions")


claim.shipped(DRA_GRPO, "shaping")
