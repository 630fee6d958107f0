"""CPPO's claims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.keys import Key
from hocket.credit.refinement import Refined, only
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.hand_formulas import CountedAnswer, clipped, off, stale_rows
from hocket.lab.microscope import inspect
from hocket.lab.toys.recorded_answers import drawn, sample
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.cppo import CPPO, largest_in_groups
from hocket.rollout.independent import Independent
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory

claim = Claims("cppo", "arXiv 2503.22342")
HALF = CPPO.but({"credit.rate": 0.5})


@claim("With P = 0 it is GRPO to the bit.")
def with_p_0_it_is_grpo_to_the_bit() -> Finding:
    whole = CPPO.but({"credit.rate": 0.0, "rollout.rate": 0.0})
    equal = [inspect(whole, drawn(seed))["gradient"] == inspect(GRPO, drawn(seed))["gradient"] for seed in range(20)]
    return Finding(all(equal), say(equal_to_the_bit_of_20=sum(equal)))


@claim("What is kept, its loss and gradient are those counted by hand; slots are refilled four times over.")
def what_is_kept_its_loss_and_gradient_are_those_counted_by_hand() -> Finding:
    def loss(answers: Sequence[CountedAnswer]) -> Any:
        kept = list[CountedAnswer]()
        for group in {one.row["group"]: None for one in answers}:
            members = [one for one in answers if one.row["group"] == group]
            ranked = sorted(members, key=lambda one: -abs(float(one.advantage[0])))
            kept += ranked[: max(1, len(members) // 4)]
        return clipped(kept)

    asked = list[tuple[str, int]]()

    async def play(some: Sequence[Assignment]) -> list[Trajectory]:
        asked.extend((one.scenario.id, one.samples) for one in some)
        return []

    async def score(trajectories: Sequence[Trajectory]) -> None:
        return None

    def more(count: int) -> list[Assignment]:
        return [Assignment(Scenario(f"more {number}")) for number in range(count)]

    for recipe, count in ((CPPO, 3), (CPPO.but({"rollout.rate": 0.9}), 1)):
        first = [Assignment(Scenario(f"asked {number}")) for number in range(count)]
        plays: Any = {"play": play, "score": score, "ledger": Ledger(), "key": Key.of(0)}
        asyncio.run(recipe.rollout.collect(first, **plays, more=more))
    asyncio.run(CPPO.rollout.collect(first, **plays))
    numbers = {name: sum(one == (name, 16) for one in asked) for name in ("asked 0", "asked 2", "more 8")}
    refilled = len(asked) == 23 and numbers == {"asked 0": 3, "asked 2": 1, "more 8": 2}
    alike = torch.zeros(20, dtype=torch.long)
    refilled &= int(largest_in_groups(torch.ones(20), alike, 1, 1 - 0.9, torch.arange(20)).sum()) == 2
    gaps = [off(CPPO, rows, loss) for rows in stale_rows("cppo", samples=9)]
    return below(EXACT, refilled, off_by_hand=max(gaps))


@claim("Pruning samples without advantage leaves the gradient as it is, the normaliser kept.")
def pruning_samples_without_advantage_leaves_the_gradient_as_it_is() -> Finding:
    rows = [sample("a", r, [-1.0] * (2 + n)) for n, r in enumerate((0.0, 0.5, 0.5, 1.0))]
    ours, plain, pruned = (inspect_rows(one, rows) for one in (HALF.but({"credit.normaliser": "all"}), GRPO, HALF))
    alike = ours["gradient"] == plain["gradient"]
    twice = gap(pruned["gradient"], [[2 * x for x in row] for row in plain["gradient"]]) <= EXACT
    holds = alike and twice and pruned["kept"] == [True, False, False, True]
    return Finding(holds, say(two_pruned_of_advantage_0="", equal_with_the_normaliser_kept=alike, twice_without=twice))


@claim("Over the batch the largest advantages of all groups stay.", "the public recipe for verl")
def over_the_batch_the_largest_advantages_of_all_groups_stay() -> Finding:
    rewards = enumerate((0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0))
    rows = [sample("ab"[number // 4], reward, [-1.0]) for number, reward in rewards]
    group, batch = (inspect_rows(HALF.but(change), rows)["kept"] for change in ({}, {"credit.over": "batch"}))
    holds = sum(group[:4]) == sum(group[4:]) == 2 and group[3] and sum(batch) == 4 and batch[3] and not any(batch[:3])
    return Finding(holds, say(kept_per_group=str(group), over_the_batch=str(batch)))


@dataclass(frozen=True)
class AtRandom(Refined):
    """Prunes as many samples as CPPO, whatever their advantage."""

    rate: float = 0.75

    def refine(self, batch: Batch) -> Occurrences:
        noise = torch.from_numpy(Key.of(batch.step).numpy().random(batch.trajectories))
        groups = GroupBy("scenario")(batch)
        kept = largest_in_groups(noise, groups.index, groups.size, 1 - self.rate, batch.order)
        return only(batch.occurrences, kept[batch.occurrences.trajectory])


def spent(bench: Bench) -> tuple[int, int, float]:
    """Steps to a success of 0.9, 120 at most, decisions passed through the learner, and those per scenario."""
    decisions = scenarios = 0
    for step in range(1, 121):
        batch = bench.step().batch
        assert batch is not None
        decisions += int(((batch.occurrences.weight != 0) & (batch.occurrences.advantage != 0)).sum())
        scenarios += len(set(batch.scenario.tolist()))
        if step % 5 == 0 and bench.success() >= 0.9:
            break
    return step, decisions, decisions / scenarios


@claim(
    "P = 0.75 passes a quarter of the tokens, reaches GRPO's accuracy sooner; random pruning is worse per step.",
    "arXiv 2503.22342; cost counted in decisions, not seconds",
    slow=True,
)
def p_0_75_passes_a_quarter_of_the_tokens_reaches_grpos_accuracy() -> Finding:
    # Sums of two numbers below 4.
    world = World(16, 7, 2, lambda q, answer: float(answer[1] == q // 4 + q % 4), context="position")
    level = CPPO.but({"rollout": Independent(16)})
    recipes = {"grpo": GRPO.but({"rollout.samples": 16}), "cppo": CPPO}
    recipes |= {"without refilling": level, "at random": level.but({"credit": AtRandom()})}
    made = {
        name: list(zip(*(spent(Bench(world, one, seed=seed, lr=0.1, prompts=4)) for seed in SEEDS), strict=True))
        for name, one in recipes.items()
    }
    steps = {name: [int(step) for step in runs[0]] for name, runs in made.items()}
    total, per = ({name: fmean(runs[place]) for name, runs in made.items()} for place in (1, 2))
    holds = 3.5 <= per["grpo"] / per["cppo"] <= 4.5 and total["cppo"] < total["grpo"]
    holds &= max(steps["cppo"]) < min(steps["grpo"]) and min(steps["at random"]) > max(steps["without refilling"])
    listed = {name: str(list(taken)) for name, taken in steps.items()}
    return Finding(holds, say(decisions_per_scenario=per, steps_to_90_percent=listed, decisions=total))


claim.spares("1e-09 -> 4e-08", "only makes up for rounding")


claim.spares(
    "count * share + 1e-09 -> count * share - 1e-09",
    "lost in float32, and not needed",
)
claim.spares(
    "count * share + 1e-09 -> count * share",
    "lost in float32, and not needed",
)

claim.shipped(CPPO, "credit")
claim.shipped(CPPO, without={"rollout.rate": 0.0})
