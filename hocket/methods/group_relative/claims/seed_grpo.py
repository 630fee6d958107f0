"""SEED-GRPO's claims."""

import math
import tempfile
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch

from hocket import tasks
from hocket.core.batch import GroupBy
from hocket.credit.units import trajectory_units
from hocket.credit.weights import Compared
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, each, gap, gradient, runs, say
from hocket.lab.groups import Document, document, first_advantages
from hocket.lab.toys.quick_worlds import guessing, mixed
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.group_relative.seed_grpo import SEED_GRPO, SemanticEntropy
from hocket.recipe import Recipe
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step

claim = Claims("seed-grpo", "arXiv:2505.12346")


def answered(labels: Sequence[str], rewards: Sequence[float], logps: Sequence[float] = (-1.0,) * 8) -> Document:
    """A group of answers."""
    ways = zip(labels, rewards, logps, strict=False)
    return document([{"group": "0", "scores": {"reward": r}, "logp": [logp], "label": name} for name, r, logp in ways])


def seed_grpo(**weigh: Any) -> Recipe:
    """SEED-GRPO by the changed settings of its weight."""
    return SEED_GRPO.but({f"credit.weigh.0.{name}": value for name, value in weigh.items()})


@claim("G answers of equal mass give 1 - alpha, one answer 1, whatever they are called; alpha = 0 is the base")
def g_answers_of_equal_mass_give_1_alpha_one_answer_1_whatever_they() -> Finding:
    rewards, holds = (1.0, 0.0, 0.0, 0.5), True
    base = first_advantages(DR_GRPO, answered("abcd", rewards))
    for mass in ("likelihood", "count"):
        recipe = seed_grpo(mass=mass, alpha=0.4)
        most, one, renamed = (first_advantages(recipe, answered(names, rewards)) for names in ("abcd", "aaaa", "xyzw"))
        holds &= gap(most, [0.6 * value for value in base]) < EXACT and one == base and renamed == most
        holds &= first_advantages(seed_grpo(mass=mass, alpha=0.0), answered("abcd", rewards)) == base
    return Finding(holds, say(factor_for_four_answers=most[0] / base[0], for_one=one[0] / base[0]))


@claim("as shipped, four answers of equal mass are damped by the paper's 0.02, one answer by nothing")
def as_shipped_four_answers_of_equal_mass_are_damped_by_the_papers() -> Finding:
    rewards = (1.0, 0.0, 0.0, 0.5)
    base = first_advantages(DR_GRPO, answered("abcd", rewards))
    most, one = (first_advantages(SEED_GRPO, answered(names, rewards)) for names in ("abcd", "aaaa"))
    off = gap(most, [0.98 * value for value in base])
    return Finding(off < EXACT and one == base, say(factor=most[0] / base[0], off=off))


@claim("Semantic entropy by likelihood and by count, as by hand, cut at log G", "arXiv:2505.12346, equation 5")
def semantic_entropy_by_likelihood_and_by_count_as_by_hand_cut_at() -> Finding:
    rows = answered("abac", (1.0, 0.0, 0.0, 0.0), logps := (-0.2, -3.0, -1.0, -4.5))
    a, b, again, c = (math.exp(logp) / math.fsum(map(math.exp, logps)) for logp in logps)
    likelihood = -math.fsum(map(math.log, (a + again, b, c))) / 3
    # By count the shares are a half and two quarters.
    entropy = {"likelihood": likelihood, "count": 1.5 * math.log(2)}
    factors = [first_advantages(seed_grpo(mass=mass, alpha=0.5), rows)[0] / 0.75 for mass in entropy]
    worst = gap(factors, [1 - 0.5 * min(one / math.log(4), 1.0) for one in entropy.values()])
    saw = say(semantic_entropy=entropy, log_G=math.log(4), factors_within=worst)
    return Finding(worst < EXACT and likelihood > math.log(4), saw)


@claim(
    "The other form is 1/(1 + alpha x); likelihoods too small for a float are compared all the same.", "derived here"
)
def the_other_form_is_1_likelihoods_too_small_for_a_float_are() -> Finding:
    labels, rewards = "aab", (1.0, 0.0, 0.0)
    logps = (-2000.0, -2001.0, -2000.5)
    a, again, b = (math.exp(logp + 2000) for logp in logps)
    shares = ((a + again) / (a + again + b), b / (a + again + b))
    x = min(-math.fsum(map(math.log, shares)) / 2 / math.log(3), 1.0)
    base = first_advantages(DR_GRPO, answered(labels, rewards, logps))
    found = first_advantages(seed_grpo(alpha=0.5, form="reciprocal"), answered(labels, rewards, logps))
    off = gap(found, [value / (1 + 0.5 * x) for value in base])
    return Finding(off < EXACT and 0 < x < 1, say(x=x, factor=found[0] / base[0], off=off))


claim.spares(
    "size > 1 and len(meanings) > 1 -> size > 1 or len(meanings) > 1",
    "one cluster has no entropy, and a group of one has one cluster",
)


@claim("Semantic entropy rises with error on a small language model", slow=True)
def semantic_entropy_rises_with_error_on_a_small_language_model() -> Finding:
    source = tasks.find("sums")
    with tempfile.TemporaryDirectory() as folder:
        pairs = [("recipe", "seed-grpo"), ("steps", 1), ("runs", folder), ("threads", 1), ("curriculum.prompts", 48)]
        parts = build_parts(configure([*pairs, ("update.lr", 1e-9)], source), source)
        batch = run_async(train_step(parts, 1)).batch
    assert batch is not None
    units = trajectory_units(batch)
    group, size = units.groups(GroupBy("scenario"), batch)
    compared = Compared(units.value, units.value, group, size, units.trajectory, batch)
    weights = (SemanticEntropy(mass="likelihood"), SemanticEntropy(mass="count"))
    tables = {one.mass: torch.stack([one.uncertainty(compared), -compared.mean()]) for one in weights}
    correlation = {mass: float(torch.corrcoef(table)[0, 1]) for mass, table in tables.items()}
    saw = say(correlation_with_lost_reward_by=correlation, prompts_of_eight_answers=compared.size)
    return Finding(min(correlation.values()) > 0.3, saw)


@claim("Prompts whose answers differ make smaller updates")
def prompts_whose_answers_differ_make_smaller_updates() -> Finding:
    def size(recipe: Recipe, labels: str) -> float:
        return float(gradient(recipe, answered(labels, (1.0,) * 4 + (0.0,) * 4)).norm())

    groups, holds, shown = ("a" * 8, "aaaabbbb", "aabbccdd", "abcdefgh"), True, {}
    for alpha in (0.02, 0.5):
        ratios = [size(seed_grpo(alpha=alpha), labels) / size(DR_GRPO, labels) for labels in groups]
        holds &= ratios == sorted(ratios, reverse=True) and ratios[0] == 1
        shown[f"alpha {alpha}:"] = " ".join(f"{ratio:.4f}" for ratio in ratios)
    # Boosting hard prompts instead, as vital-dgrpo does, is the opposite weighting.
    return Finding(holds, f"for 1, 2, 4 and 8 answers {say(update_over_Dr_GRPOs=shown)}; the paper's alpha is 0.02")


@claim("No worse than its base", slow=True)
def no_worse_than_its_base() -> Finding:
    sides = (DR_GRPO.but(name="Dr. GRPO"), SEED_GRPO.but(name="SEED-GRPO"), seed_grpo(alpha=0.5).but(name="alpha 0.5"))
    success = each(runs(guessing(), *sides, steps=80, every=80, start=mixed), Bench.success)
    base, *own = map(fmean, success.values())
    return Finding(min(own) > base - 0.03, say(success=success))


claim.shipped(SEED_GRPO, "credit")
