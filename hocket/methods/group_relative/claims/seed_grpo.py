"""What seed-grpo claims."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Sequence

import torch

from hocket import recipes, tasks
from hocket.core.batch import Batch, GroupBy
from hocket.credit.units import trajectory_units
from hocket.credit.weights import Compared
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.groups import Document, document, first_advantages
from hocket.lab.microscope import look
from hocket.lab.toys.group_statistics import EXACT, finding
from hocket.lab.toys.group_statistics_training import SEEDS, guessing, mixed, recipe_of, spread, trained
from hocket.methods.group_relative.seed_grpo import SemanticEntropy
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step

claim = Claims("seed-grpo", "arXiv:2505.12346")


def answered(groups: Sequence[Sequence[tuple[str | None, float]]], logp: float = -1.0) -> Document:
    """Groups of answers given by label and reward, all equally likely."""
    return document(
        [
            {"group": str(number), "scores": {"reward": reward}, "logp": [logp], "label": label}
            for number, group in enumerate(groups)
            for label, reward in group
        ]
    )


@claim("G answers of equal mass give 1 - alpha, one answer 1, whatever they are called; alpha = 0 is the base")
def _seed_factors() -> Finding:
    alpha = 0.4
    recipe = recipes.find("seed-grpo").but({"credit.weigh.0.alpha": alpha})
    apart = [("a", 1.0), ("b", 0.0), ("c", 0.0), ("d", 0.5)]
    alike = [("a", reward) for _, reward in apart]
    renamed = [({"a": "x", "b": "y", "c": "z", "d": "w"}[label], reward) for label, reward in apart]
    centred = first_advantages(recipes.find("dr-grpo"), answered([apart]))
    for estimator in ("likelihood", "count"):
        this = recipe.but({"credit.weigh.0.mass": estimator})
        most, none, other = (first_advantages(this, answered([group])) for group in (apart, alike, renamed))
        base = first_advantages(this.but({"credit.weigh.0.alpha": 0.0}), answered([apart]))
        right = (
            max(abs(a - (1 - alpha) * c) for a, c in zip(most, centred, strict=True)) < EXACT,
            none == centred,
            other == most,
            base == centred,
        )
        if not all(right):
            return Finding(False, f"{estimator}: {right}")
    return Finding(True, f"factor {most[0] / centred[0]:.3f} for four answers, {none[0] / centred[0]:.3f} for one")


@claim("Semantic entropy by likelihood and by count, as by hand, cut at log G", "arXiv:2505.12346, equation 5")
def _seed_estimators() -> Finding:
    """Both entropies by hand, on answers of unequal likelihood; the likelihood form beyond log G is cut."""
    logps, labels = [-0.2, -3.0, -1.0, -4.5], ["a", "b", "a", "c"]
    rows = [
        {"group": "0", "scores": {"reward": float(n == 0)}, "logp": [logp], "label": label}
        for n, (logp, label) in enumerate(zip(logps, labels, strict=True))
    ]
    total = math.fsum(math.exp(one) for one in logps)
    shares = [(math.exp(-0.2) + math.exp(-1.0)) / total, math.exp(-3.0) / total, math.exp(-4.5) / total]
    likelihood = -math.fsum(math.log(one) for one in shares) / 3
    count = -math.fsum(one * math.log(one) for one in (0.5, 0.25, 0.25))
    factors = {}
    for estimator in ("likelihood", "count"):
        recipe = recipes.find("seed-grpo").but({"credit.weigh.0.mass": estimator, "credit.weigh.0.alpha": 0.5})
        factors[estimator] = first_advantages(recipe, document(rows))[0] / 0.75
    expected = {
        "likelihood": 1 - 0.5 * min(likelihood / math.log(4), 1.0),
        "count": 1 - 0.5 * count / math.log(4),
    }
    worst = max(abs(factors[name] - expected[name]) for name in factors)
    return finding(
        f"SE {likelihood:.3f} by likelihood (log G = {math.log(4):.3f}), {count:.3f} by count; "
        f"factors within {worst:.1e}",
        worst < EXACT,
        likelihood > math.log(4),
    )


def _compared(batch: Batch) -> Compared:
    units = trajectory_units(batch)
    group, size = units.groups(GroupBy("scenario"), batch)
    return Compared(units.value, units.value, group, size, units.trajectory, batch)


@claim("Semantic entropy rises with error on a small language model", slow=True)
def _entropy_tells_errors() -> Finding:
    """The nano model's own answers to sums, eight each."""
    source = tasks.find("sums")
    with tempfile.TemporaryDirectory() as folder:
        pairs = [("recipe", "seed-grpo"), ("steps", 1), ("runs", folder), ("threads", 1), ("curriculum.prompts", 48)]
        parts = build_parts(configure([*pairs, ("update.lr", 1e-9)], source), source)
        batch = run_async(train_step(parts, 1)).batch
    assert batch is not None
    seen = _compared(batch)
    found = {}
    for weight in (SemanticEntropy(mass="likelihood"), SemanticEntropy(mass="count")):
        table = torch.stack([weight.uncertainty(seen), -seen.mean()])
        found[weight.mass] = float(torch.corrcoef(table)[0, 1])
    return Finding(
        min(found.values()) > 0.3,
        f"correlation of semantic entropy with lost reward over {seen.size} prompts of eight answers: "
        + ", ".join(f"by {mass} {value:.2f}" for mass, value in found.items()),
    )


@claim("Prompts whose answers differ make smaller updates")
def _uncertain_prompts_move_less() -> Finding:
    """The size of each prompt's gradient under SEED-GRPO over that under Dr. GRPO, by how much its answers differ."""
    labels = (["a"] * 8, ["a"] * 4 + ["b"] * 4, list("aabbccdd"), list("abcdefgh"))
    saw = {}
    for alpha in (0.02, 0.5):
        ratios = []
        for group in labels:
            rows = [
                {"group": "0", "scores": {"reward": float(place < 4)}, "logp": [-1.0], "label": label}
                for place, label in enumerate(group)
            ]
            seen = [
                torch.tensor(look(recipe, {"version": 1, "trajectories": rows})["gradient"]).norm()
                for recipe in (recipe_of("seed-grpo", {"credit.weigh.0.alpha": alpha}), recipes.find("dr-grpo"))
            ]
            ratios.append(float(seen[0] / seen[1]))
        saw[alpha] = ratios
    return Finding(
        all(ratios == sorted(ratios, reverse=True) and ratios[0] == 1 for ratios in saw.values()),
        "; ".join(f"alpha {alpha}: {[round(one, 3) for one in ratios]}" for alpha, ratios in saw.items())
        + " for 1, 2, 4 and 8 different answers (the paper's alpha changes a step by 2 % at most; boosting hard "
        "prompts instead, as vital-dgrpo does, is the opposite weighting)",
    )


@claim("No worse than its base", slow=True)
def _seed_grpo_is_no_worse() -> Finding:
    world, final = guessing(), {}
    for label, name, changes in (
        ("Dr. GRPO", "dr-grpo", {}),
        ("SEED-GRPO", "seed-grpo", {}),
        ("alpha 0.5", "seed-grpo", {"credit.weigh.0.alpha": 0.5}),
    ):
        final[label] = [trained(name, world, 80, seed, changes, start=mixed).success() for seed in SEEDS]
    means = {label: statistics.fmean(values) for label, values in final.items()}
    return Finding(
        min(means["SEED-GRPO"], means["alpha 0.5"]) > means["Dr. GRPO"] - 0.03,
        "; ".join(f"{label} {spread(values)}" for label, values in final.items()),
    )
