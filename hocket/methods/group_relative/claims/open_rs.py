"""What open-rs claims."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Check, Claims, Finding
from hocket.lab.toys.lengths import answer
from hocket.lab.toys.rewarded import SEEDS, apart, line, shaped
from hocket.lab.toys.toys import (
    Instances,
    Verdict,
    accuracy,
    bench,
    judged,
    length,
    patient,
    right_length,
    work_or_guess,
)
from hocket.lab.world import Answer
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.open_rs import OPEN_RS, CosineLength
from hocket.recipe import Recipe

claim = Claims("open-rs", "arXiv:2503.16219; its lessons, shown on a toy")


def rewards_by_length(recipe: Recipe, verdict: float, lengths: Sequence[int]) -> list[float]:
    """What an answer earns at each length, alone in its group."""
    return shaped(recipe, [answer(verdict, n, f"g{n}") for n in lengths])


@claim("the cosine reward hits its values at length 0 and at the limit", "arXiv:2503.16219, rewards of its public code")
def cosine_ends() -> Finding:
    """The cosine reward hits its values at length 0 and at the limit."""
    recipe = OPEN_RS.but({"shaping.0.limit": 40})
    right, wrong = (rewards_by_length(recipe, verdict, [0, 20, 40, 60]) for verdict in (1.0, 0.0))
    # A group of one of no decisions counts in no statistic but is paid all the same.
    holds = apart(right, [2.0, 1.5, 1.0, 1.0]) < 1e-12 and apart(wrong, [-2.0, -1.5, -1.0, -1.0]) < 1e-12
    return Finding(holds, f"right at 0, L/2, L, 1.5 L: {line(right)}; wrong: {line(wrong)} (weight 2)")


@claim(
    "it falls with length for right answers, rises for wrong ones, and every right answer beats every wrong one",
    "arXiv:2503.16219, rewards of its public code",
)
def cosine_is_monotone() -> Finding:
    """It falls with length for right answers, rises for wrong ones, and every right answer beats every wrong one."""
    recipe, lengths = OPEN_RS.but({"shaping.0.limit": 40}), range(1, 41)
    right, wrong = (rewards_by_length(recipe, verdict, lengths) for verdict in (1.0, 0.0))
    falls = all(a > b for a, b in pairwise(right))
    rises = all(a < b for a, b in pairwise(wrong))
    return Finding(
        falls and rises and min(right) > max(wrong),
        f"40 lengths: right {right[0]:.3f} falls to {right[-1]:.3f}, wrong {wrong[0]:.3f} rises to {wrong[-1]:.3f}",
    )


@claim("the script's reversed defaults for wrong answers are refused", "arXiv:2503.16219, rewards of its public code")
def reversed_defaults_are_refused() -> Finding:
    """The script's reversed defaults for wrong answers are refused."""
    said = []
    for values in ({"wrong_short": 0.0, "wrong_long": -0.5}, {"wrong_long": 0.6, "wrong_short": 0.55}):
        try:
            CosineLength(limit=40, **values)
            return Finding(False, f"{values} was accepted")
        except ValueError as error:
            said.append(str(error))
    return Finding(True, said[0])


def ladder(levels: Sequence[int], tokens: int = 6) -> Instances:
    """Problems that share one skill, a sequence of right tokens: level k asks for the first k of them."""
    longest = 4
    return Instances(
        questions=1,
        tokens=tokens,
        horizon=longest,
        reward=lambda question, answer: 0.0,
        correct=lambda question, answer: float(not any(answer)),
        context="position",
        count=len(levels),
        about=lambda number: {"question": 0, "level": levels[number]},
    )


def climbed(told: Mapping[str, Any], answer: Answer) -> float:
    """Whether the first `level` tokens are right."""
    return float(not any(answer[: told["level"]]))


def hard_accuracy(levels: Sequence[int], seeds: Sequence[int], steps: int = 80) -> list[float]:
    """The exact success rate on the hardest problems after training on some levels, by seed."""
    recipe = OPEN_RS.but(rewards=(Verdict(climbed),))
    return [bench(ladder(levels), recipe, seed, steps, lr=0.15).success() for seed in seeds]


@claim("data that is too hard makes runs a matter of luck: easy problems beside hard ones steady them", slow=True)
def mixing_steadies() -> Finding:
    """Easy problems beside hard ones make runs differ less between seeds."""
    hard, mixed = hard_accuracy((4, 4, 4, 4), range(8)), hard_accuracy((1, 2, 3, 4), range(8))
    spread = [statistics.stdev(found) for found in (hard, mixed)]
    return Finding(
        spread[1] < 0.7 * spread[0] and fmean(mixed) > fmean(hard),
        f"accuracy on hard problems after 80 steps of 4 x 8 samples, 8 seeds: hard alone {line(hard)}, deviation "
        f"{spread[0]:.3f}; easy to hard {line(mixed)}, deviation {spread[1]:.3f}",
    )


@claim(
    "a length limit below the work that is needed teaches to guess: answers collapse instead of fitting in",
    slow=True,
)
def cap_breaks() -> Finding:
    """A limit shorter than the work that is needed."""
    found = {}
    for limit in (5, 8):
        world = work_or_guess((5,), limit)
        runs = [bench(world, GRPO.but(rewards=(judged(world),)), seed, 60, start=patient()) for seed in SEEDS]
        found[limit] = [(accuracy(0, b), length(0, b)) for b in runs]
    tight, wide = found[5], found[8]
    return Finding(
        max(a for a, _ in tight) < 0.55 and max(n for _, n in tight) < 3 and min(a for a, _ in wide) > 0.8,
        f"problems that need 6 tokens, 60 steps, 5 seeds: cut at 5 tokens accuracy {line([a for a, _ in tight])}, and "
        f"answers shrink to {line([n for _, n in tight])} tokens; cut at 8, accuracy {line([a for a, _ in wide])} at "
        f"{line([n for _, n in wide])}",
    )


@claim("long training goes on after accuracy has stopped to gain: what it still changes is variety", slow=True)
def long_training_narrows() -> Finding:
    """Accuracy is reached early; what training goes on to change is entropy."""
    world, rows = work_or_guess((2,), 6), []
    for seed in SEEDS:
        made = Bench(world, GRPO.but(rewards=(judged(world),)), seed=seed, steps=200, prompts=2, start=patient())
        seen = []
        for steps in (60, 140):
            made.run(steps, every=1000)
            seen.append((made.success(), made.entropy()))
        rows.append(seen)
    gained = fmean([later[0] - earlier[0] for earlier, later in rows])
    entropy = [fmean([seen[k][1] for seen in rows]) for k in (0, 1)]
    return Finding(
        gained < 0.05 and entropy[1] < 0.8 * entropy[0],
        f"from step 60 to 200 accuracy gains {gained:.3f} while the entropy of answers falls from {entropy[0]:.3f} to "
        f"{entropy[1]:.3f} nats, means of 5 seeds",
    )


@claim("the cosine reward shortens right answers without giving up the hard ones", slow=True)
def cosine_shortens() -> Finding:
    """The cosine reward against plain accuracy."""
    world = work_or_guess((0, 3), 7)
    verdict, rows = judged(world), {}
    for recipe in (GRPO, OPEN_RS.but({"shaping.0.limit": 7})):
        runs = [bench(world, recipe.but(rewards=(verdict,)), seed, 60, start=patient()) for seed in SEEDS]
        rows[recipe.name] = [(right_length(0, b), accuracy(1, b)) for b in runs]
    plain, cosine = rows["grpo"], rows["open-rs"]
    return Finding(
        max(n for n, _ in cosine) < min(n for n, _ in plain) and min(a for _, a in cosine) > 0.9,
        f"60 steps, 5 seeds: right easy answers have {line([n for n, _ in plain])} tokens under accuracy alone, "
        f"{line([n for n, _ in cosine])} under the cosine reward; hard accuracy {line([a for _, a in cosine])}",
    )


def page(lessons: Sequence[Check] = claim) -> str:
    """The page of lessons with the figures seen now, as Markdown."""
    parts = [
        "# Lessons of a small budget",
        "What breaks reinforcement learning of small models, after *Reinforcement Learning for Reasoning in Small "
        "LLMs* (arXiv:2503.16219, catalogue row `open-rs`). Each lesson is a check: `hocket recipes --check open-rs` "
        "runs them, and `python -m hocket.methods.group_relative.claims.open_rs` writes this page from what they see. "
        "The worlds are toys with exact success rates; the paper saw the same on a model of 1.5 billion weights.",
    ]
    for lesson in lessons:
        verdict = lesson()
        holds = "" if verdict.holds else " (did not hold when this was written)"
        parts += [f"## {lesson.claim[0].upper()}{lesson.claim[1:]}{holds}", f"Seen: {verdict.saw}."]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(page(), end="")
