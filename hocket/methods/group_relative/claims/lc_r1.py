"""What lc-r1 claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.early_answers import NEVER, STEP, Thought
from hocket.lab.toys.rewarded import SEEDS, apart, document, line, shaped
from hocket.lab.toys.toys import Verdict, bench
from hocket.lab.world import Answer
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.lc_r1 import LC_R1, FirstMention

claim = Claims("lc-r1", "arXiv:2506.14755 and its public trainer")


@claim("the extractor cuts right after the first right answer")
def extractor_cuts_after_the_answer() -> Finding:
    """The extractor cuts right after the first right answer."""
    cases = {
        "12 + 5 = 17, so 17. Check: 17 - 5 = 12": "12 + 5 = 17",
        "117 is not it; 1.17 neither; 17.5 no; it is 17": "117 is not it; 1.17 neither; 17.5 no; it is 17",
        "no result": None,
    }
    extract = FirstMention()
    found = {text: (None if (end := extract(text, "17")) is None else text[:end]) for text in cases}
    behind = FirstMention(behind="= ")("17 is asked: 12 + 5 = 17.", 17)
    return Finding(
        found == cases and behind == 24, f"cut to {[one for one in found.values() if one]}; behind '= ' at {behind}"
    )


@claim("the tag alone gets the compression term; no right answer, no length term")
def only_the_tag_is_paid() -> Finding:
    """The tag alone gets the compression term; no right answer, no length term."""
    thoughts = [
        {"tag": 2, "kept": 2, "original": 8, "reached": True},
        {"tag": 4, "kept": 4, "original": 4, "reached": True},
        {"tag": 1, "kept": 1, "original": 1, "reached": False},
        None,
    ]
    rows = [
        {
            "group": "g",
            "scores": {"reward": float(told is not None)},
            "logp": [-1.0] * n,
            "text": "",
            "info": {"thinking": told},
        }
        for n, told in zip((4, 6, 3, 5), thoughts, strict=True)
    ]
    given = look(LC_R1, document(rows))["advantages"]
    plain = look(LC_R1.but(credit=LC_R1.credit.base), document(rows))["advantages"]  # type: ignore[attr-defined]
    extra = [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(given, plain, strict=True)]
    wanted: list[list[float]] = [[0, 0, 0.75, 0], [0] * 6, [0, -1.0, 0], [0] * 5]
    worst = max(apart(a, b) for a, b in zip(extra, wanted, strict=True))
    wrong = shaped(LC_R1, [{"group": "g", "scores": {"reward": 0.0}, "logp": [-1.0] * n, "text": ""} for n in (2, 9)])
    right = shaped(LC_R1, rows)
    lengths = apart(right, [1 + 1 - 4 / 6, 1.0, 1 + 1 - 3 / 6, 1 - 5 / 6])
    holds = worst < 1e-12 and wrong == [0.0, 0.0] and lengths < 1e-12
    return Finding(
        holds,
        f"tags get {extra[0][2]:.2f} and {extra[2][1]:.2f}, all else 0; returns {line(right)}; all wrong {line(wrong)}",
    )


@dataclass(frozen=True)
class Derivation(Thought):
    """Two steps, then the result, then as many re-checks (the same again) as one likes; tag; answer.

    Who never wrote the result down answers right by luck: in one instance of two.
    """

    def answers(self) -> Iterator[Answer]:
        yield from derivations(self.horizon)

    def finished(self, tokens: Sequence[int]) -> bool:
        return len(tokens) > 0 and (tokens[-1] == DONE or len(tokens) >= self.horizon)

    def right(self, question: int, answer: Answer) -> float:
        """How likely an answer is right."""
        return 0.0 if answer[-1] != DONE else (1.0 if RESULT in answer else 0.5)


RESULT, CLOSE, DONE = 1, 2, 3


def derivations(horizon: int) -> Iterator[Answer]:
    """Every derivation: steps and results in turn, closed at any place."""
    chain = [STEP, STEP, RESULT] * horizon
    for size in range(horizon - 1):
        yield (*chain[:size], CLOSE, DONE)
    yield (*chain[: horizon - 1], CLOSE)
    yield tuple(chain[:horizon])


def derivation(horizon: int = 13) -> Derivation:
    """One question, two instances: luck is with the first."""
    made = Derivation(
        questions=1,
        tokens=4,
        horizon=horizon,
        reward=lambda question, answer: 0.0,
        context="last",
        words=("s ", "7 ", "</think>", "<answer>7</answer>"),
        count=2,
        about=lambda number: {"question": 0, "answer": "7", "lucky": number == 0},
    )
    return Derivation(**{**vars(made), "correct": made.right})


def rechecking(policy: Tabular) -> None:
    """A start that was trained to check twice: it closes after the third result, seldom before or later."""
    policy.logits.fill_(NEVER)
    horizon = policy.world.horizon
    whole = ([STEP, STEP, RESULT] * horizon)[:horizon]
    for place in range(horizon):
        stop = 0.02 if place == 0 else (0.9 if place == 9 else 0.03)
        row = policy.row(0, whole[:place])
        policy.logits[row, whole[place]] = torch.tensor(1 - stop).log().double()
        policy.logits[row, CLOSE] = torch.tensor(stop).log().double()
        if place:
            policy.logits[policy.row(0, [*whole[: place - 1], CLOSE]), DONE] = 0.0


def derived(told: Mapping[str, Any], answer: Answer) -> float:
    """The verdict: the result was written down, or luck."""
    return float(answer[-1] == DONE and (RESULT in answer or told["lucky"]))


@claim("length falls by 40 percent or more with accuracy within 2 points; without -c2 accuracy falls", slow=True)
def compresses() -> Finding:
    """Length falls by 40 percent or more with accuracy within 2 points; without -c2 accuracy falls."""
    world, rows = derivation(), {}
    recipe = LC_R1.but(
        {"shaping.0.weight": 2.0, "credit.bonus": 2.0, "credit.penalty": 2.0}, rewards=(Verdict(derived),)
    )
    for name, made in (("lc-r1", recipe), ("no penalty", recipe.but({"credit.penalty": 0.0}))):
        runs = [bench(world, made, seed, 50, start=rechecking, lr=0.1) for seed in SEEDS]
        rows[name] = [(b.expected(lambda _, answer: len(answer)), b.success()) for b in runs]
    before = Bench(world, GRPO, start=rechecking)
    length, accuracy = before.expected(lambda _, answer: len(answer)), before.success()
    shorter = [1 - n / length for n, _ in rows["lc-r1"]]
    kept = [a - accuracy for _, a in rows["lc-r1"]]
    holds = min(shorter) >= 0.4 and min(kept) >= -0.02 and max(a for _, a in rows["no penalty"]) < accuracy - 0.05
    after, without = ([a for _, a in rows[name]] for name in ("lc-r1", "no penalty"))
    return Finding(
        holds,
        f"before: length {length:.2f}, accuracy {accuracy:.3f}; 50 steps, 5 seeds: shorter by {line(shorter)}, "
        f"accuracy {line(after)}; without the penalty accuracy {line(without)}",
    )
