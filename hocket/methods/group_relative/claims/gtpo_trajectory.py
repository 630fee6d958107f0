"""GTPO_TRAJECTORY's claims."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from statistics import fmean

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.toys.rewarded import sample, shown
from hocket.lab.toys.training import chances, starting
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.gtpo_trajectory import GTPO_TRAJECTORY
from hocket.recipe import Recipe

claim = Claims("gtpo-trajectory", "arXiv 2508.03772 and its code")
FREE = GTPO_TRAJECTORY.but({"credit.cost": 0.0})


@claim("Shared openings and closings get gradient 0 in wrong and double in right completions, undecided ones none.")
def _() -> Finding:
    group = ((1.0, [7, 8, 1, 9], 0.1), (0.0, [7, 8, 2, 9], 0.1), (0.0, [7, 3, 3], 0.1), (1.0, [5, 6], 0.9))
    rows = [sample("a", r, [-1.0] * len(t), tokens=t, entropy=[entropy] * len(t)) for r, t, entropy in group]
    centred = GRPO.but({"credit.scale": None})
    seen, plain, paid = (inspect_rows(recipe, rows) for recipe in (FREE, centred, GTPO_TRAJECTORY))
    high, low = (row[0] for row in plain["advantages"][:2])
    # Right: 7 8 shared from the start, 9 from the end, n = 3; wrong: likewise, and 7 alone. The fourth is undecided.
    right = [2 * high / 3, 2 * high / 3, high / 3, 2 * high / 3]
    expected = [right, [0, 0, low / 3, 0], [0, low, low], [0, 0]]
    slopes = [[-a / n / 4 for a in row] for row, n in zip(expected, (4, 4, 3, 2), strict=True)]
    holds = gap(seen["advantages"], expected) < 1e-12 and gap(seen["gradient"], slopes) < 1e-12
    holds &= gap(paid["advantages"][0][2], (high - 0.1 * 0.1) / 3) < 1e-12 and paid["advantages"][3] == [0, 0]
    return Finding(holds, f"advantages {[[round(x, 3) for x in row] for row in seen['advantages']]}, as by hand")


TAG, THINK, GOOD, BAD, RAMBLE, STOP = range(6)
LONGEST = 12


class Scaffold(World):
    """Right and wrong answers open with the same tag; wrong ones are short, and untagged ones ramble."""

    def answers(self) -> Iterator[Answer]:
        yield (TAG, BAD, STOP)
        yield from ((TAG, THINK, THINK, end, STOP) for end in (GOOD, BAD))
        yield from ((RAMBLE,) * length + (STOP,) for length in range(1, LONGEST))
        yield (RAMBLE,) * LONGEST


def scaffold(question: int, prefix: Answer) -> Hashable:
    if not prefix or prefix[0] != TAG:
        return "ramble" if prefix else "first"
    return ("thought", len(prefix)) if len(prefix) > 1 and prefix[1] == THINK else ("tagged", len(prefix) > 1)


ODDS: dict[Answer, dict[int, float]] = {
    (): {TAG: 0.8, RAMBLE: 0.2},
    (RAMBLE,): {RAMBLE: 0.97, STOP: 0.03},
    (TAG,): {THINK: 0.1, BAD: 0.9},
    (TAG, BAD): {STOP: 1.0},
    (TAG, THINK): {THINK: 1.0},
    (TAG, THINK, THINK): {GOOD: 0.9, BAD: 0.1},
    (TAG, THINK, THINK, GOOD): {STOP: 1.0},
}
START = starting({(0, prefix): odds for prefix, odds in ODDS.items()}, 1e-7)
GOAL = (TAG, THINK, THINK, GOOD, STOP)
SCAFFOLD = Scaffold(1, 6, LONGEST, lambda _, answer: float(answer == GOAL), end=STOP, context=scaffold)


def course(recipe: Recipe, seed: int) -> tuple[float, float]:
    """In 60 steps the tag's lowest probability and, every ten, the highest entropy, both minus the start's."""
    bench = Bench(SCAFFOLD, recipe.but({"rollout.samples": 16}), seed=seed, lr=0.05, start=START)
    tags, entropies = [float(chances(bench)[TAG])], [bench.entropy()]
    for step in range(60):
        bench.step()
        tags.append(float(chances(bench)[TAG]))
        entropies += [bench.entropy()] if step % 10 == 9 else []
    return min(tags[1:]) - tags[0], max(entropies[1:]) - entropies[0]


@claim(
    "Tags shared by right and wrong answers do not dip by the conflict mask, but do under GRPO; entropy is held.",
    "arXiv 2508.03772",
    slow=True,
)
def _() -> Finding:
    recipes = (GRPO, FREE, GTPO_TRAJECTORY)
    (plain, _), (mask, _), (whole, most) = (zip(*(course(one, s) for s in SEEDS), strict=True) for one in recipes)
    holds = fmean(plain) < -0.01 and min(mask) >= 0 and fmean(whole) > fmean(plain) and max(most) < 0.1
    # The whole method's cost 0.1 H_i pushes down groups without a right answer.
    dips = say(GRPO=shown(plain), conflict_mask_alone=shown(mask), whole_method=shown(whole), its_entropy=shown(most))
    return Finding(holds, f"lowest probability of the tag and highest entropy, minus those of the start: {dips}")


claim.shipped(GTPO_TRAJECTORY, "credit")
