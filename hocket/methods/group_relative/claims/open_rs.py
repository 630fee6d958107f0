"""Open-RS's claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, stdev

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Check, Claims, Finding, below, gap, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows, standardised
from hocket.lab.toys.instances import Instances, WorkOrGuess, by_instance, judged, nothing, patient, work_or_guess
from hocket.lab.toys.recorded_answers import answer, lines, shaped
from hocket.lab.toys.training import accuracy, length, right_length, trained
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.open_rs import OPEN_RS, CosineLength
from hocket.recipe import Recipe

claim = Claims("open-rs", "arXiv:2503.16219; its lessons, shown on a toy")


@claim("advantages and loss are those counted by hand, the cosine of length in [1, 2] if right, else in [-2, -1]")
def advantages_and_loss_are_those_counted_by_hand_the_cosine_of() -> Finding:
    def credit(members: Sequence[CountedAnswer]) -> list[float]:
        earned = []
        for one in members:
            near = (1 + math.cos(math.pi * min(len(one.row["logp"]), 128) / 128)) / 2
            tags = one.row["info"]["tags"]
            earned.append(tags + (2 * (0.5 + 0.5 * near) if one.reward >= 0.5 else -2 * (0.5 + 0.5 * near)))
        return standardised([replace(one, reward=value) for one, value in zip(members, earned, strict=True)])

    gaps, tagged = [], "<think>\nso\n</think>\n<answer>\n7\n</answer>"
    for rows in stale_rows("open-rs", longest=150, samples=4):
        for number, row in enumerate(rows):
            row |= {"info": {"tags": float(number % 2)}, "text": tagged if number % 2 else "<think>\nso\n</think>\n7"}
        gaps.append(off(OPEN_RS, rows, credit=credit))
    return below(1e-12, off_by_hand=max(gaps))


CODE = "arXiv:2503.16219, rewards of its public code"


def paid(verdict: float, lengths: Sequence[int]) -> list[float]:
    """What an answer earns at each length, alone in its group, where the limit is 40."""
    return shaped(OPEN_RS.but({"shaping.0.limit": 40}), [answer(verdict, n, f"g{n}") for n in lengths])


@claim("the cosine reward hits its values at length 0 and at the limit", CODE)
def the_cosine_reward_hits_its_values_at_length_0_and_at_the_limit() -> Finding:
    # A group of one of no decisions counts in no statistic but is paid all the same.
    right, wrong = (paid(verdict, [0, 20, 40, 60]) for verdict in (1.0, 0.0))
    off = gap([right, wrong], [[2.0, 1.5, 1.0, 1.0], [-2.0, -1.5, -1.0, -1.0]])
    return Finding(off < 1e-12, f"at 0, L/2, L, 1.5 L: {lines(right=right, wrong=wrong, weight=2)}")


@claim(
    "it falls with length for right answers, rises for wrong ones, and every right answer beats every wrong one", CODE
)
def it_falls_with_length_for_right_answers_rises_for_wrong_ones_and() -> Finding:
    right, wrong = (paid(verdict, range(1, 41)) for verdict in (1.0, 0.0))
    ordered = all(a > b for a, b in pairwise(right)) and all(a < b for a, b in pairwise(wrong))
    figures = lines(right=right[:: len(right) - 1], wrong=wrong[:: len(wrong) - 1])
    return Finding(ordered and min(right) > max(wrong), f"first and last of 40 lengths: {figures}")


claim.refuses(
    "the script's reversed defaults for wrong answers are refused",
    lambda: CosineLength(limit=40, wrong_short=0.0, wrong_long=-0.5),
    "wrong_short = 0.0 is above wrong_long = -0.5",
    CODE,
)


def hard_accuracy(*levels: int) -> list[float]:
    """The exact success rate on the hardest problems after training on some levels, by seed.

    Problems share one skill, a sequence of right tokens: level k asks for the first k of them.
    """
    world = Instances(
        *(1, 6, 4, nothing),
        correct=lambda question, answer: float(not any(answer)),
        context="position",
        count=len(levels),
        about=lambda number: {"question": 0, "level": levels[number]},
    )
    climbed = by_instance(lambda told, answer: float(not any(answer[: told["level"]])))
    return [one.success() for one in trained(world, OPEN_RS.but(rewards=(climbed,)), 80, seeds=range(8), lr=0.15)]


@claim("data that is too hard makes runs a matter of luck: easy problems beside hard ones steady them", slow=True)
def data_that_is_too_hard_makes_runs_a_matter_of_luck_easy_problems() -> Finding:
    hard, mixed = hard_accuracy(4, 4, 4, 4), hard_accuracy(1, 2, 3, 4)
    holds = stdev(mixed) < 0.7 * stdev(hard) and fmean(mixed) > fmean(hard)
    figures = lines(hard_alone=hard, easy_to_hard=mixed, deviation_of_hard=stdev(hard), of_mixed=stdev(mixed))
    return Finding(holds, f"accuracy on hard problems {figures}")


def on_guesses(world: WorkOrGuess, recipe: Recipe = GRPO) -> list[Bench]:
    """Benches that began by working on and were paid for right answers, after 60 steps."""
    return trained(world, recipe.but(rewards=(judged(world),)), 60, start=patient())


@claim(
    "a length limit below the work that is needed teaches to guess: answers collapse instead of fitting in", slow=True
)
def a_length_limit_below_the_work_that_is_needed_teaches_to_guess() -> Finding:
    tight, wide = (on_guesses(work_or_guess((5,), limit)) for limit in (5, 8))
    (right, size), (wide_right, wide_size) = (
        [[measure(0, one) for one in benches] for measure in (accuracy, length)] for benches in (tight, wide)
    )
    figures = lines(cut_at_5_accuracy=right, tokens=size, cut_at_8_accuracy=wide_right, their_tokens=wide_size)
    holds = max(right) < 0.55 and max(size) < 3 and min(wide_right) > 0.8
    return Finding(holds, f"problems that need 6 tokens: {figures}")


@claim("long training goes on after accuracy has stopped to gain: what it still changes is variety", slow=True)
def long_training_goes_on_after_accuracy_has_stopped_to_gain_what() -> Finding:
    world = work_or_guess((2,), 6)
    benches = trained(world, GRPO.but(rewards=(judged(world),)), 60, steps=200, start=patient())
    before, early = [one.success() for one in benches], [one.entropy() for one in benches]
    gains = [one.run(140).success() - then for one, then in zip(benches, before, strict=True)]
    late = [one.entropy() for one in benches]
    figures = say(accuracy_gained_from_step_60_to_200=gains, entropy_at_60=early, entropy_at_200=late)
    return Finding(fmean(gains) < 0.05 and fmean(late) < 0.8 * fmean(early), figures)


@claim("the cosine reward shortens right answers without giving up the hard ones", slow=True)
def the_cosine_reward_shortens_right_answers_without_giving_up_the() -> Finding:
    world = work_or_guess((0, 3), 7)
    plain, cosine = (on_guesses(world, recipe) for recipe in (GRPO, OPEN_RS.but({"shaping.0.limit": 7})))
    tokens, shorter = ([right_length(0, one) for one in benches] for benches in (plain, cosine))
    hard = [accuracy(1, one) for one in cosine]
    figures = lines(tokens_of_right_easy_answers=tokens, with_the_cosine=shorter, hard_accuracy_with_it=hard)
    return Finding(max(shorter) < min(tokens) and min(hard) > 0.9, figures)


LESSONS = [check for check in claim if check.slow]
"""What the page tells of: the claims that train something."""


def page(lessons: Sequence[Check] = LESSONS) -> str:
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


claim.shipped(OPEN_RS, without={"shaping": OPEN_RS.shaping[1:]})
claim.shipped(OPEN_RS, without={"shaping.1.weight": 0.0})
