"""LC-R1's claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch

from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.credit.group import GroupRelative
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.policy import Tabular
from hocket.lab.toys.instances import NEVER, EndedInstances, by_instance, nothing
from hocket.lab.toys.recorded_answers import answer, lines, shaped
from hocket.lab.toys.training import trained
from hocket.lab.world import Answer
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.lc_r1 import (
    COMPRESSED,
    LC_R1,
    CompressedThoughts,
    FirstMention,
    RelativeLength,
    TagBonus,
)
from hocket.recipe import Recipe
from hocket.rewards.judging import Answer as Said
from hocket.rewards.judging import Judge, Question
from hocket.rewards.tags import TagFormat
from hocket.rollout.branches import NUMBERED
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Score, Trajectory, Turn

claim = Claims("lc-r1", "arXiv:2506.14755 and its public trainer")


@claim("the extractor cuts right after the first right answer")
def the_extractor_cuts_right_after_the_first_right_answer() -> Finding:
    whole = "117 is not it; 1.17 neither; 17.5 no; it is 17"
    cases = {"12 + 5 = 17, so 17. Check: 17 - 5 = 12": "12 + 5 = 17", whole: whole, "no result": None}
    cuts = {text: None if (end := FirstMention()(text, "17")) is None else text[:end] for text in cases}
    behind = FirstMention(behind="= ")("17 is asked: 12 + 5 = 17.", 17)
    return Finding(cuts == cases and behind == 24, say(cut_to=str(list(cuts.values())), behind=behind))


@claim("the tag alone gets the compression term; no right answer, no length term")
def the_tag_alone_gets_the_compression_term_no_right_answer_no() -> Finding:
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


@claim(
    "A right thought is cut behind the tokens that reach the answer, by the rule or by a judge's quote, and read again."
)
def a_right_thought_is_cut_behind_the_tokens_that_reach_the_answer() -> Finding:
    pieces = ["<think>", "12+5", " = 17", ", ok", " 17", "</think>", "<answer>17</answer>", "hm", "x 17", "!!"]
    chains = [[0, 1, 2, 3, 4, 5, 6], [8, 9, 5, 6], [0, 7, 5, 6], [5, 0, 4], [4, 4], [0, 4, 5, 6], [0, 1, 2, 3, 5, 6]]
    worth, calls = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0], list[list[Assignment]]()
    told = {"12+5": '"12+5 = 17, ok"', "x 17": None, "hm": "None.", " 17": "It is so."}

    class Quotes(Judge):
        def ask(self, questions: Sequence[Question]) -> list[Said]:
            thoughts = [one.prompt.partition("Thought:\n")[2] for one in questions]
            quotes = [next(quote for begin, quote in told.items() if one.startswith(begin)) for one in thoughts]
            return [Said(one, problem=None if one else "silent") for one in quotes]

    class Words:
        def decode(self, tokens: Sequence[int]) -> str:
            return "".join(pieces[token] for token in tokens)

        def encode(self, text: str) -> list[int]:
            raise AssertionError(text)

    class Player:
        tokenizer = Words()

        async def __call__(self, asked: Sequence[Assignment]) -> list[Trajectory]:
            calls.append([*asked])
            return [self._said(one, number) for one in asked for number in range(one.samples)]

        def _said(self, one: Assignment, number: int) -> Trajectory:
            tokens = np.array(one.prefix or chains[number])
            turn = Turn("a", "policy", tokens[:0], tokens, forced=np.full(len(tokens), bool(one.prefix)))
            return Trajectory(one.scenario, [turn], one.first + number)

    async def score(played: Sequence[Trajectory]) -> None:
        for one in played:
            one.scores["reward"] = Score(worth[one.sample - 5])

    asked = [Assignment(Scenario("s", "12 + 5?", "17"), first=5), Assignment(Scenario("open", "?"), first=5)]
    found = list[tuple[list[list[int]], list[int], list[Any], list[int]]]()
    for judge in (None, Quotes("quotes")):
        rollout, play = CompressedThoughts(samples=7, judge=judge), cast(Any, Player())
        experience = run_async(rollout.collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
        rows = experience.trajectories
        heard = [one.first - 5 - NUMBERED for one in calls[-1]]
        thinking = [COMPRESSED.get(one) for one in rows]
        kept = [one.sample for one in experience.discarded if one.source == "baseline"]
        found.append(([one.turns[0].action.tolist() for one in rows], heard, thinking, kept))
        assert not any(one.turns[0].forced.any() for one in rows if one.turns[0].forced is not None)
    whole = [*chains, *chains]
    names = ("tag", "kept", "original", "reached")
    marks: list[list[tuple[int, ...] | None]] = [
        [(3, 2, 4, True), (1, 1, 2, True), (2, 1, 1, False), None, None, (2, 1, 1, True), None],
        [(4, 3, 4, True), None, (2, 1, 1, False), None, None, None, None],
    ]
    due = [
        ([[0, 1, 2, 5, 6], [8, 5, 6], *whole[2:]], [5, 6], [5, 6]),
        ([[0, 1, 2, 3, 5, 6], *whole[1:]], [5], [5]),
    ]
    same = [(one[0], one[1], one[3]) for one in found] == due
    for (_, _, thinking, _), wanted in zip(found, marks, strict=True):
        described = [None if one is None else dict(zip(names, one, strict=True)) for one in wanted]
        same &= thinking == [*described, *[None] * 7]
    base = GroupRelative(scale=None)
    ships = LC_R1.rollout == CompressedThoughts(samples=8) and LC_R1.credit == TagBonus(base, 1.0, 1.0)
    ships &= LC_R1.shaping == (RelativeLength(weight=1.0), TagFormat(weight=1.0))
    ships &= value_at(LC_R1, "objective.aggregate") == "sequence-mean" and value_at(LC_R1, "rollout.least") == 0.5
    return Finding(same and ships, say(as_by_hand=same, as_shipped=ships, thoughts=str(found[0][2][:7])))


STEP, RESULT, CLOSE, DONE = range(4)


def chain(size: int) -> Answer:
    return tuple(([STEP, STEP, RESULT] * size)[:size])


class Derivation(EndedInstances):
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
def length_falls_by_40_percent_or_more_with_accuracy_within_2() -> Finding:
    # Who is right wrote the result down, or had luck.
    derived = by_instance(lambda told, answer: float(answer[-1] == DONE and (RESULT in answer or told["lucky"])))
    recipe = LC_R1.but({"shaping.0.weight": 2.0, "credit.bonus": 2.0, "credit.penalty": 2.0}, rewards=(derived,))
    (lengths, right), (_, without) = map(after, (recipe, recipe.but({"credit.penalty": 0.0})))
    length, accuracy = measured(Bench(WORLD, GRPO, start=rechecking))
    shorter = [1 - n / length for n in lengths]
    holds = min(shorter) >= 0.4 and min(right) - accuracy >= -0.02 and max(without) < accuracy - 0.05
    figures = lines(steps=50, length_before=length, accuracy_before=accuracy, shorter_by=shorter, accuracy=right)
    return Finding(holds, figures + ", " + lines(accuracy_without_the_penalty=without))


claim.spares(
    "thought is None or turn is None or tokenizer is None -> thought is None and turn is None and (tokenizer is None)",
    "a thought is known where all three are",
)
claim.shipped(LC_R1, "shaping")
claim.shipped(LC_R1, "rollout", task="reasoning-gym:letter_counting")
claim.shipped(LC_R1, "credit", task="reasoning-gym:letter_counting")

JUDGED = "marked-sums?asks=lc-r1&checks=0.5&slip=0.1"


def compare_cuts(run: ShippedRun) -> dict[str, float]:
    """Of right thoughts: from how many a judge quoted, how many were cut, and what share of these is left."""
    batch = run.results[0].batch
    assert batch is not None
    thoughts = [row for row in COMPRESSED.rows(batch) if row is not None]
    cut = [row for row in thoughts if int(row["kept"]) < int(row["original"])]
    left = sum(int(row["kept"]) for row in cut) / max(1, sum(int(row["original"]) for row in cut))
    return {
        "quoted": float(sum(bool(row["reached"]) for row in thoughts)),
        "cut": float(len(cut)),
        "left of these": left,
        "asked": run.mean("judge/questions"),
    }


claim.shipped(
    LC_R1,
    *("rollout", "credit"),
    task=JUDGED,
    first={"recipe": "sft", "task": f"lessons:{JUDGED}", "update.lr": 0.003},
    judged=True,
    sees=compare_cuts,
)
