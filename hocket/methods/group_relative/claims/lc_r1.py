"""LC-R1's claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, gap, inspect_rows, say
from hocket.lab.policy import Tabular
from hocket.lab.toys.instances import NEVER, Ended, by_instance, nothing
from hocket.lab.toys.rewarded import answer, lines, shaped
from hocket.lab.toys.training import trained
from hocket.lab.world import Answer
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.lc_r1 import LC_R1, FirstMention
from hocket.recipe import Recipe

claim = Claims("lc-r1", "arXiv:2506.14755 and its public trainer")


@claim("the extractor cuts right after the first right answer")
def _() -> Finding:
    whole = "117 is not it; 1.17 neither; 17.5 no; it is 17"
    cases = {"12 + 5 = 17, so 17. Check: 17 - 5 = 12": "12 + 5 = 17", whole: whole, "no result": None}
    cuts = {text: None if (end := FirstMention()(text, "17")) is None else text[:end] for text in cases}
    behind = FirstMention(behind="= ")("17 is asked: 12 + 5 = 17.", 17)
    return Finding(cuts == cases and behind == 24, say(cut_to=str(list(cuts.values())), behind=behind))


@claim("the tag alone gets the compression term; no right answer, no length term")
def _() -> Finding:
    numbers = ((2, 2, 8, True), (4, 4, 4, True), (1, 1, 1, False))
    thoughts = [*(dict(zip(("tag", "kept", "original", "reached"), one, strict=True)) for one in numbers), None]
    pairs = zip((4, 6, 3, 5), thoughts, strict=True)
    rows = [answer(float(told is not None), n, info={"thinking": told}) for n, told in pairs]
    plain = inspect_rows(LC_R1.but(credit=LC_R1.credit.base), rows)["advantages"]  # type: ignore[attr-defined]
    both = zip(inspect_rows(LC_R1, rows)["advantages"], plain, strict=True)
    extra = [[a - b for a, b in zip(*pair, strict=True)] for pair in both]
    wrong, right = shaped(LC_R1, [answer(0.0, 2), answer(0.0, 9)]), shaped(LC_R1, rows)
    off = gap(extra, [[0, 0, 0.75, 0], [0] * 6, [0, -1.0, 0], [0] * 5])
    off = max(off, gap(right, [1 + 1 - 4 / 6, 1.0, 1 + 1 - 3 / 6, 1 - 5 / 6]))
    figures = lines(tags_get=[extra[0][2], extra[2][1]], all_else=0, returns=right, all_wrong=wrong)
    return Finding(off < 1e-12 and wrong == [0.0, 0.0], figures)


STEP, RESULT, CLOSE, DONE = range(4)


def chain(size: int) -> Answer:
    return tuple(([STEP, STEP, RESULT] * size)[:size])


class Derivation(Ended):
    """Two steps, then the result, then as many re-checks (the same again) as one likes; tag; answer.

    Who never wrote the result down answers right by luck: in one instance of two.
    """

    def answers(self) -> Iterator[Answer]:
        yield from ((*chain(size), CLOSE, DONE) for size in range(self.horizon - 1))
        yield from ((*chain(self.horizon - 1), CLOSE), chain(self.horizon))


WORLD = Derivation(
    # One question, two instances: luck is with the first.
    *(1, 4, 13, nothing),
    correct=lambda _, answer: 0.0 if answer[-1] != DONE else (1.0 if RESULT in answer else 0.5),
    last=(DONE,),
    context="last",
    words=("s ", "7 ", "</think>", "<answer>7</answer>"),
    count=2,
    about=lambda number: {"question": 0, "answer": "7", "lucky": number == 0},
)


def rechecking(policy: Tabular) -> None:
    """A start that was trained to check twice: it closes after the third result, seldom before or later."""
    policy.logits.fill_(NEVER)
    whole = chain(policy.world.horizon)
    for place, token in enumerate(whole):
        stop = 0.02 if place == 0 else (0.9 if place == 9 else 0.03)
        row = policy.row(0, whole[:place])
        policy.logits[row, token] = torch.tensor(1 - stop).log().double()
        policy.logits[row, CLOSE] = torch.tensor(stop).log().double()
        if place:
            policy.logits[policy.row(0, [*whole[: place - 1], CLOSE]), DONE] = 0.0


def measured(made: Bench) -> tuple[float, float]:
    return made.expected(lambda _, answer: len(answer)), made.success()


def after(recipe: Recipe) -> list[Any]:
    return list(zip(*map(measured, trained(WORLD, recipe, 50, start=rechecking, lr=0.1)), strict=True))


@claim("length falls by 40 percent or more with accuracy within 2 points; without -c2 accuracy falls", slow=True)
def _() -> Finding:
    # Who is right wrote the result down, or had luck.
    derived = by_instance(lambda told, answer: float(answer[-1] == DONE and (RESULT in answer or told["lucky"])))
    recipe = LC_R1.but({"shaping.0.weight": 2.0, "credit.bonus": 2.0, "credit.penalty": 2.0}, rewards=(derived,))
    (lengths, right), (_, without) = map(after, (recipe, recipe.but({"credit.penalty": 0.0})))
    length, accuracy = measured(Bench(WORLD, GRPO, start=rechecking))
    shorter = [1 - n / length for n in lengths]
    holds = min(shorter) >= 0.4 and min(right) - accuracy >= -0.02 and max(without) < accuracy - 0.05
    figures = lines(steps=50, length_before=length, accuracy_before=accuracy, shorter_by=shorter, accuracy=right)
    return Finding(holds, figures + ", " + lines(accuracy_without_the_penalty=without))


claim.shipped(LC_R1, "shaping")
claim.shipped(LC_R1, "rollout", task="reasoning-gym:letter_counting")
claim.shipped(LC_R1, "credit", task="reasoning-gym:letter_counting")
