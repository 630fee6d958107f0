"""AAPO's claims."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, each, gradient, runs, say
from hocket.lab.groups import first_advantages, gap
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows, standardised
from hocket.lab.toys.enumerable_groups import beside_reference
from hocket.lab.toys.quick_worlds import choosing, leaning
from hocket.methods.group_relative.gpg import GPG
from hocket.recipes import AAPO, GRPO
from hocket.rollout.reference import WithReference

claim = Claims("aapo", "arXiv:2505.14264; authors' code")


@claim("An all-right group with a failing reference gets 0.28 each, where GRPO has no gradient")
def an_all_right_group_with_a_failing_reference_gets_0_28_each() -> Finding:
    solved, failed = beside_reference([1.0] * 4, [0.0] * 4), beside_reference([0.0] * 4, [1.0] * 4)
    leading, trailing = first_advantages(AAPO, solved)[:4], first_advantages(AAPO, failed)[:4]
    own, plain = (float(gradient(recipe, solved)[0]) for recipe in (AAPO, GRPO))
    saw = say(all_right=str(leading), all_wrong=str(trailing), gradient=own, GRPOs=plain)
    return Finding(leading == [0.28] * 4 and own != 0 == plain and trailing == [-0.2] * 4, saw)


@claim("Advantages, loss and gradient are those counted by hand, beside fewer answers of the reference than its own.")
def advantages_loss_and_gradient_are_those_counted_by_hand_beside() -> Finding:
    def both(members: Sequence[CountedAnswer], rows: Sequence[Mapping[str, Any]]) -> list[float]:
        met = [row["scores"]["reward"] for row in rows if row["group"] == members[0].row["group"] and "source" in row]
        margins = [min(0.28, max(-0.2, one.reward - met[n % 3])) if met else 0.0 for n, one in enumerate(members)]
        return [a + added for a, added in zip(standardised(members), margins, strict=True)]

    def loss(answers: Sequence[CountedAnswer]) -> Any:
        return -torch.cat([one.logp * one.advantage for one in answers]).mean(), {}

    gaps = []
    for rows in stale_rows("aapo"):
        (more,) = stale_rows("aapo reference", count=1, samples=3, groups=2)
        rows = [
            *rows,
            *(
                {**row, "id": f"reference {n}", "source": "baseline", "trained": [False] * len(row["logp"])}
                for n, row in enumerate(more)
            ),
        ]
        gaps.append(off(AAPO, rows, loss, partial(both, rows=rows)))
    return below(EXACT, AAPO.rollout == WithReference(samples=8, references=8), off_by_hand=max(gaps))


@claim("Without the margin it is group-relative REINFORCE", "derived here")
def without_the_margin_it_is_group_relative_reinforce() -> Finding:
    batch = beside_reference([1.0, 0.0, 0.4, 0.4], [0.0, 1.0, 0.5, 0.0])
    bare = AAPO.but({"credit.low": 0.0, "credit.high": 0.0})
    plain = GPG.but({"credit.scale": "std", "credit.weigh": ()})
    return below(EXACT, relative_difference_of_gradients=gap(gradient(bare, batch), gradient(plain, batch)))


@claim(
    "On mostly solved prompts it goes on where GRPO's groups fall silent; entropy falls with it",
    "arXiv:2505.14264",
    slow=True,
)
def on_mostly_solved_prompts_it_goes_on_where_grpos_groups_fall() -> Finding:
    world, fours = choosing(2, 5, lambda question, token: float(token == 0)), {"rollout.samples": 4}
    recipes = (GRPO.but(fours), AAPO.but({**fours, "rollout.references": 4}))
    made = runs(world, *recipes, steps=140, every=140, lr=0.05, start=leaning(0, math.log(0.6 / 0.4 * 4)))
    failure, entropy = each(made, lambda bench: 1 - bench.success()), each(made, Bench.entropy)
    shares = each(made, lambda bench: fmean(one["groups/with_signal"] / 2 for one in bench.history[-40:]))
    signal = {name: fmean(some) for name, some in shares.items()}
    holds = max(failure["aapo"]) < min(failure["grpo"]) and signal["aapo"] > 3 * signal["grpo"]
    failed = {n: " ".join(f"{one:.4f}" for one in rates) for n, rates in failure.items()}
    return Finding(holds, say(failure_from_0_4=failed, groups_with_a_signal_in_the_last_40=signal, entropy=entropy))


claim.spares("aapo: objective.horizon = 5120", "no length divides a mean over tokens")

claim.shipped(AAPO, "credit")
claim.shipped(AAPO, "objective")
