"""What cppo claims."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

import torch

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.keys import Key
from hocket.credit.refined import Refined, only
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.toys.token_weights import GRPO, SEEDS, document, drawn, same, sample
from hocket.lab.world import World
from hocket.methods.group_relative.cppo import largest_in_groups
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.rollout.independent import Independent

claim = Claims("cppo", "arXiv 2503.22342")


CPPO = find("cppo")


@claim("With P = 0 it is GRPO to the bit.")
def nothing_pruned_is_grpo() -> Finding:
    """Gradients with P = 0."""
    whole = CPPO.but({"credit.rate": 0.0, "rollout.rate": 0.0})
    equal = [look(whole, drawn(s))["gradient"] == look(GRPO, drawn(s))["gradient"] for s in range(20)]
    return Finding(all(equal), f"gradients equal to the bit on {sum(equal)} of 20 batches")


@claim("Pruning samples without advantage leaves the gradient as it is, the normaliser kept.")
def idle_samples_change_nothing() -> Finding:
    """Gradients when only samples without advantage are pruned."""
    rows = document(*(sample("a", r, [-1.0] * (2 + n)) for n, r in enumerate((0.0, 0.5, 0.5, 1.0))))
    pruned = CPPO.but({"credit.rate": 0.5, "credit.normaliser": "all"})
    ours, plain = look(pruned, rows), look(GRPO, rows)
    kept = look(CPPO.but({"credit.rate": 0.5}), rows)
    doubled = [[2 * x for x in row] for row in plain["gradient"]]
    holds = ours["gradient"] == plain["gradient"] and same(kept["gradient"], doubled)
    holds &= kept["kept"] == [True, False, False, True]
    return Finding(
        holds, "pruning the two samples of advantage 0: gradient equal with the normaliser kept, twice it without"
    )


@claim("Over the batch the largest advantages of all groups stay.", "the public recipe for verl")
def pruned_over_the_batch() -> Finding:
    """What is kept per group and over the batch."""
    rows = [sample("a", r, [-1.0]) for r in (0.0, 0.0, 0.0, 1.0)] + [
        sample("b", r, [-1.0]) for r in (0.0, 0.0, 1.0, 1.0)
    ]
    group = look(CPPO.but({"credit.rate": 0.5}), document(*rows))["kept"]
    batch = look(CPPO.but({"credit.rate": 0.5, "credit.over": "batch"}), document(*rows))["kept"]
    holds = sum(group[:4]) == sum(group[4:]) == 2 and group[3] and sum(batch) == 4 and batch[3] and not any(batch[:3])
    return Finding(holds, f"kept per group {group}, over the batch {batch}")


@dataclass(frozen=True)
class AtRandom(Refined):
    """Prunes as many samples as CPPO, whatever their advantage."""

    rate: float = 0.75

    def refine(self, batch: Batch) -> Occurrences:
        noise = torch.from_numpy(Key.of(batch.step).numpy().random(batch.trajectories))
        groups = GroupBy("scenario")(batch)
        kept = largest_in_groups(noise, groups.index, groups.size, 1 - self.rate, batch.order)
        return only(batch.occurrences, kept[batch.occurrences.trajectory])


@dataclass(frozen=True)
class Spent:
    """What a run took to reach a success rate: steps, decisions passed through the learner, and those per scenario."""

    steps: int
    decisions: int
    per_scenario: float


def spent(bench: Bench, success: float, most: int, every: int = 5) -> Spent:
    """Trains until the success rate is reached, looking `every` steps; `most` steps at most."""
    decisions = scenarios = 0
    for step in range(1, most + 1):
        batch = bench.step().batch
        assert batch is not None
        seen = batch.occurrences
        decisions += int(((seen.weight != 0) & (seen.advantage != 0)).sum())
        scenarios += len(set(batch.scenario.tolist()))
        if step % every == 0 and bench.success() >= success:
            break
    return Spent(step, decisions, decisions / scenarios)


@claim(
    "P = 0.75 passes a quarter of the tokens, reaches GRPO's accuracy sooner; random pruning is worse per step.",
    "arXiv 2503.22342; cost counted in decisions, not seconds",
    slow=True,
)
def pruning_saves_tokens() -> Finding:
    """Cost to a success rate, pruned well, at random and not at all."""
    world = World(
        questions=16,
        tokens=7,
        horizon=2,
        reward=lambda question, answer: float(answer[1] == question // 4 + question % 4),
        context="position",
    )
    level = CPPO.but({"rollout": Independent(16)})
    recipes: dict[str, Recipe] = {
        "grpo": GRPO.but({"rollout.samples": 16}),
        "cppo": CPPO,
        "unfilled": level,
        "random": level.but({"credit": AtRandom()}),
    }
    runs = {
        name: [spent(Bench(world, recipe, seed=seed, lr=0.1, prompts=4), 0.9, 120) for seed in SEEDS]
        for name, recipe in recipes.items()
    }
    per = {name: fmean([run.per_scenario for run in found]) for name, found in runs.items()}
    steps = {name: [run.steps for run in found] for name, found in runs.items()}
    total = {name: fmean([run.decisions for run in found]) for name, found in runs.items()}
    holds = 3.5 <= per["grpo"] / per["cppo"] <= 4.5 and total["cppo"] < total["grpo"]
    holds &= max(steps["cppo"]) < min(steps["grpo"]) and min(steps["random"]) > max(steps["unfilled"])
    return Finding(
        holds,
        f"decisions through the learner per scenario: {per['grpo']:.1f} and pruned {per['cppo']:.1f}; to 90 % of sums "
        f"right GRPO takes {steps['grpo']} steps and {total['grpo']:.0f} decisions, CPPO {steps['cppo']} and "
        f"{total['cppo']:.0f}, without refilling {steps['unfilled']}, pruned at random {steps['random']}",
    )
