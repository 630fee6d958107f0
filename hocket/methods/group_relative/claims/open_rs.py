"""Open-RS's claims."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, stdev

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Check, Claims, Finding
from hocket.lab.claims.harness import SEEDS, gap, say
from hocket.lab.toys.lengths import answer
from hocket.lab.toys.rewarded import line, shaped
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
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.open_rs import OPEN_RS, CosineLength

claim = Claims("open-rs", "arXiv:2503.16219; its lessons, shown on a toy")
CODE = "arXiv:2503.16219, rewards of its public code"


def paid(verdict: float, lengths: Sequence[int]) -> list[float]:
    """What an answer earns at each length, alone in its group, where the limit is 40."""
    return shaped(OPEN_RS.but({"shaping.0.limit": 40}), [answer(verdict, n, f"g{n}") for n in lengths])


@claim("the cosine reward hits its values at length 0 and at the limit", CODE)
def _() -> Finding:
    # A group of one of no decisions counts in no statistic but is paid all the same.
    right, wrong = (paid(verdict, [0, 20, 40, 60]) for verdict in (1.0, 0.0))
    holds = gap(right, [2.0, 1.5, 1.0, 1.0]) < 1e-12 and gap(wrong, [-2.0, -1.5, -1.0, -1.0]) < 1e-12
    return Finding(holds, f"at 0, L/2, L, 1.5 L: {say(right=line(right), wrong=line(wrong), weight=2)}")


@claim(
    "it falls with length for right answers, rises for wrong ones, and every right answer beats every wrong one", CODE
)
def _() -> Finding:
    right, wrong = (paid(verdict, range(1, 41)) for verdict in (1.0, 0.0))
    ordered = all(a > b for a, b in pairwise(right)) and all(a < b for a, b in pairwise(wrong))
    figures = say(right=line([right[0], right[-1]]), wrong=line([wrong[0], wrong[-1]]))
    return Finding(ordered and min(right) > max(wrong), f"first and last of 40 lengths: {figures}")


@claim("the script's reversed defaults for wrong answers are refused", CODE)
def _() -> Finding:
    errors = []
    for values in ({"wrong_short": 0.0, "wrong_long": -0.5}, {"wrong_long": 0.6, "wrong_short": 0.55}):
        try:
            CosineLength(limit=40, **values)
            return Finding(False, f"{values} was accepted")
        except ValueError as error:
            errors.append(str(error))
    return Finding(True, errors[0])


def hard_accuracy(*levels: int) -> list[float]:
    """The exact success rate on the hardest problems after training on some levels, by seed.

    Problems share one skill, a sequence of right tokens: level k asks for the first k of them.
    """
    world = Instances(
        *(1, 6, 4, lambda question, answer: 0.0),
        correct=lambda question, answer: float(not any(answer)),
        context="position",
        count=len(levels),
        about=lambda number: {"question": 0, "level": levels[number]},
    )
    climbed = Verdict(lambda told, answer: float(not any(answer[: told["level"]])))
    return [bench(world, OPEN_RS.but(rewards=(climbed,)), seed, 80, lr=0.15).success() for seed in range(8)]


@claim("data that is too hard makes runs a matter of luck: easy problems beside hard ones steady them", slow=True)
def _() -> Finding:
    hard, mixed = hard_accuracy(4, 4, 4, 4), hard_accuracy(1, 2, 3, 4)
    holds = stdev(mixed) < 0.7 * stdev(hard) and fmean(mixed) > fmean(hard)
    spread = say(deviation_of_hard=stdev(hard), of_mixed=stdev(mixed))
    return Finding(holds, f"accuracy on hard problems {say(hard_alone=line(hard), easy_to_hard=line(mixed))}, {spread}")


@claim(
    "a length limit below the work that is needed teaches to guess: answers collapse instead of fitting in", slow=True
)
def _() -> Finding:
    rates, lengths = {}, {}
    for limit in (5, 8):
        world = work_or_guess((5,), limit)
        benches = [bench(world, GRPO.but(rewards=(judged(world),)), seed, 60, start=patient()) for seed in SEEDS]
        rates[limit], lengths[limit] = [accuracy(0, b) for b in benches], [length(0, b) for b in benches]
    tight = say(accuracy_cut_at_5=line(rates[5]), tokens=line(lengths[5]))
    wide = say(accuracy_cut_at_8=line(rates[8]), tokens=line(lengths[8]))
    holds = max(rates[5]) < 0.55 and max(lengths[5]) < 3 and min(rates[8]) > 0.8
    return Finding(holds, f"problems that need 6 tokens, {tight}, {wide}")


@claim("long training goes on after accuracy has stopped to gain: what it still changes is variety", slow=True)
def _() -> Finding:
    world, gains, early, late = work_or_guess((2,), 6), [], [], []
    for seed in SEEDS:
        one = Bench(world, GRPO.but(rewards=(judged(world),)), seed=seed, steps=200, prompts=2, start=patient())
        before = one.run(60, every=1000).success()
        early.append(one.entropy())
        gains.append(one.run(140, every=1000).success() - before)
        late.append(one.entropy())
    figures = say(accuracy_gained_from_step_60_to_200=gains, entropy_at_60=early, entropy_at_200=late)
    return Finding(fmean(gains) < 0.05 and fmean(late) < 0.8 * fmean(early), figures)


@claim("the cosine reward shortens right answers without giving up the hard ones", slow=True)
def _() -> Finding:
    world, tokens, hard = work_or_guess((0, 3), 7), [], []
    for recipe in (GRPO, OPEN_RS.but({"shaping.0.limit": 7})):
        benches = [bench(world, recipe.but(rewards=(judged(world),)), seed, 60, start=patient()) for seed in SEEDS]
        tokens.append([right_length(0, b) for b in benches])
        hard = [accuracy(1, b) for b in benches]
    figures = {"tokens_of_right_easy_answers": line(tokens[0]), "with_the_cosine": line(tokens[1])}
    holds = max(tokens[1]) < min(tokens[0]) and min(hard) > 0.9
    return Finding(holds, say(**figures, hard_accuracy_with_the_cosine=line(hard)))


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
