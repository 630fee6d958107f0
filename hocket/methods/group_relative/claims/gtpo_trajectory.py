"""GTPO_TRAJECTORY's claims."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from statistics import fmean

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.toys.recorded_answers import sample, shown
from hocket.lab.toys.training import chances, starting
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.gtpo_trajectory import GTPO_TRAJECTORY
from hocket.recipe import Recipe

claim = Claims("gtpo-trajectory", "arXiv 2508.03772 and its code")
FREE = GTPO_TRAJECTORY.but({"credit.cost": 0.0})
PLAIN = GRPO.but({"credit.scale": None})


@claim("Shared openings and closings get gradient 0 in wrong and double in right completions, undecided ones none.")
def shared_openings_and_closings_get_gradient_0_in_wrong_and_double() -> Finding:
    group = ((1.0, [7, 8, 1, 9], 0.1), (0.0, [7, 8, 2, 9], 0.1), (0.0, [7, 3, 3], 0.1), (1.0, [5, 6], 0.9))
    rows = [sample("a", r, [-1.0] * len(t), tokens=t, entropy=[entropy] * len(t)) for r, t, entropy in group]
    seen, plain, paid = (inspect_rows(recipe, rows) for recipe in (FREE, PLAIN, GTPO_TRAJECTORY))
    high, low = (row[0] for row in plain["advantages"][:2])
    # Right: 7 8 shared from the start, 9 from the end, n = 3; wrong: likewise, and 7 alone. The fourth is undecided.
    right = [2 * high / 3, 2 * high / 3, high / 3, 2 * high / 3]
    expected = [right, [0, 0, low / 3, 0], [0, low, low], [0, 0]]
    slopes = [[-a / n / 4 for a in row] for row, n in zip(expected, (4, 4, 3, 2), strict=True)]
    holds = gap(seen["advantages"], expected) < 1e-12 and gap(seen["gradient"], slopes) < 1e-12
    holds &= gap(paid["advantages"][0][2], (high - 0.1 * 0.1) / 3) < 1e-12 and paid["advantages"][3] == [0, 0]
    return Finding(holds, f"advantages {[[round(x, 3) for x in row] for row in seen['advantages']]}, as by hand")


def shared(own: Sequence[int], good: Sequence[Sequence[int]], bad: Sequence[Sequence[int]]) -> int:
    """How many tokens from the start some good and some bad completion have at the same places."""

    def at(some: Sequence[Sequence[int]], place: int) -> bool:
        return any(len(one) > place and one[place] == own[place] for one in some)

    return next((n for n in range(len(own)) if not (at(good, n) and at(bad, n))), len(own))


def weighed(reward: float, own: Sequence[int], group: Sequence[tuple[float, Sequence[int]]]) -> list[float]:
    """Advantages of a completion, found by looking at every place of every other one; no entropy."""
    advantage = reward - fmean(one for one, _ in group)
    if advantage == 0:
        return [0.0] * len(own)
    good, bad = ([one for other, one in group if (other > 0) == which] for which in (True, False))
    start = shared(own, good, bad)
    end = len(own) - shared(own[::-1], *([one[::-1] for one in some] for some in (good, bad)))
    factor, runs = 2.0 if advantage > 0 else 0.0, [(n < start) + (n >= end) for n in range(len(own))]
    return [factor**run * advantage / max(1, sum(map(bool, runs))) for run in runs]


@claim("Advantages and gradient are those of a search through all completions for shared openings and closings.")
def advantages_and_gradient_are_those_of_a_search_through_all() -> Finding:
    rng, gaps, found = Key.of(0).derive("gtpo").numpy(), [], 0
    for _ in range(40):
        groups = [
            [
                (float(rng.integers(2)), rng.integers(3, 5, rng.integers(1, 7)).tolist())
                for _ in range(rng.integers(2, 6))
            ]
            for _ in range(3)
        ]
        rows = [sample(str(n), r, [-1.0] * len(t), tokens=t) for n, group in enumerate(groups) for r, t in group]
        for row in rows:
            row["entropy"] = [0.1] * len(row["tokens"])
            row["logp_behaviour"] = rng.normal(-1, 1, len(row["tokens"])).tolist()
        expected = [weighed(reward, own, group) for group in groups for reward, own in group]
        seen, plain = (inspect_rows(recipe, rows)["advantages"] for recipe in (FREE, PLAIN))
        gaps.append(gap(seen, expected))
        slopes = [[-one / len(row) / len(rows) for one in row] for row in expected]
        gaps.append(gap(inspect_rows(FREE, rows)["gradient"], slopes))
        found += sum(one != other for one, other in zip(seen, plain, strict=True))
    return Finding(max(gaps) < 1e-12 and found > 100, f"off by {max(gaps):.2g}; in conflict {found} completions")


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
def tags_shared_by_right_and_wrong_answers_do_not_dip_by_the() -> Finding:
    recipes = (GRPO, FREE, GTPO_TRAJECTORY)
    (plain, _), (mask, _), (whole, most) = (zip(*(course(one, s) for s in SEEDS), strict=True) for one in recipes)
    holds = fmean(plain) < -0.01 and min(mask) >= 0 and fmean(whole) > fmean(plain) and max(most) < 0.1
    # The whole method's cost 0.1 H_i pushes down groups without a right answer.
    dips = say(GRPO=shown(plain), conflict_mask_alone=shown(mask), whole_method=shown(whole), its_entropy=shown(most))
    return Finding(holds, f"lowest probability of the tag and highest entropy, minus those of the start: {dips}")


DECODED = "the slower way to tell actions apart tells the same"
NUMBERED = "as good a number for each group, place and token"
UNSCALED = "its scale is None: nothing is divided"

claim.spares(
    "action.ndim == 1 and (not action.is_floating_point()) -> action.ndim == 1 or not action.is_floating_point()",
    DECODED,
)
claim.spares("action.ndim == 1 -> action.ndim != 1", DECODED)
claim.spares("not action.is_floating_point() -> action.is_floating_point()", DECODED)
claim.spares("action.long() - action.min() -> action.long() + action.min()", "tokens are not negative")
claim.spares("action.long() - action.min() -> action.long()", "tokens are not negative")
claim.spares("(group * places + place) * tokens + token -> (group * places + place) * tokens - token", NUMBERED)
claim.spares("group * places + place -> group * places - place", NUMBERED)
claim.spares("lengths[trajectory] - 1 -> lengths[trajectory] + 1", "places from the end move alike")
claim.spares("lengths[trajectory] - 1 -> lengths[trajectory]", "places from the end move alike")
claim.spares("gtpo-trajectory: credit.of.ddof = 40", UNSCALED)
claim.spares("gtpo-trajectory: credit.of.epsilon = 3.9999999999999996e-05", UNSCALED)
claim.spares("gtpo-trajectory: credit.of.epsilon = 0.0", UNSCALED)
claim.spares("gtpo-trajectory: objective.horizon = 5120", "no length divides a mean over sequences")

claim.shipped(GTPO_TRAJECTORY, "credit")
