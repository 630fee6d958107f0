"""R1-VL's claims."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, each, gap, inspect_rows, runs
from hocket.lab.toys.recorded_answers import lines, said, shaped
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.r1_vl import R1_VL, keyword_density, match_ratio

claim = Claims("r1-vl", "R1-VL, arXiv:2503.12937, released rewards")
STEPS: list[Any] = [["12 plus 5 is 17", "12 + 5 = 17"], ["17 times 2", "twice 17", "double 17"], "34"]


def told(text: str, right: bool, label: str | None = "x") -> dict[str, Any]:
    return said("q", text, float(right), label=label, info={"key_steps": STEPS})


@claim("the match ratio is invariant to synonyms and to the order of steps")
def the_match_ratio_is_invariant_to_synonyms_and_to_the_order_of() -> Finding:
    texts = (
        "First 12 + 5 = 17, then twice 17 makes 34. <answer>34</answer>",
        "We get 34 because double 17 does, and 12 plus 5 is 17. <answer>34</answer>",
        "First 12 PLUS 5   is 17. <answer>30</answer>",
        "Hm. <answer>34</answer>",
    )
    ratios = [match_ratio(text, STEPS) for text in texts]
    rows = [*(told(text, n < 2) for n, text in enumerate(texts)), told("12 plus 5 is 17", False, None)]
    credit = shaped(R1_VL, rows)
    holds = ratios == [1.0, 1.0, 1 / 3, 0.0] and gap(credit, [1.1, 1.1, 0.1 / 3, 0.0, 0.0]) < 1e-12
    return Finding(holds, lines(match_ratios=ratios, rewards=credit))


@claim("alpha = 0 and no validity term is GRPO; validity asks for stages in order")
def alpha_0_and_no_validity_term_is_grpo_validity_asks_for_stages() -> Finding:
    bare = R1_VL.but({"shaping.0.alpha": 0.0, "shaping.1.weight": 0.0}, name="grpo")
    rows = [told("12 plus 5 is 17" * (n % 2), n % 3 == 0) for n in range(6)]
    same = inspect_rows(bare, rows) == inspect_rows(GRPO, rows)
    think, answer = "<think>so</think>", "<answer>1</answer>"
    forms = (think + answer, answer + think, f"<think>so{answer}", f"{think}{answer}<think>")
    valid = shaped(R1_VL, [said("q", text, label="1") for text in forms])
    return Finding(same and valid == [1.0, 0.0, 0.0, 0.0], lines(equal_to_grpo=same, validity_of_four_forms=valid))


@claim("a keyword-stuffing text is detectable", "derived here")
def a_keyword_stuffing_text_is_detectable() -> Finding:
    """An honest solution, key words alone, and every value listed: what the probe sees of each.

    Listing values passes the probe and is seen only in k = 1 beside a wrong answer.
    """
    honest = (
        "The question asks for the double of a sum. First we add the two numbers: 12 plus 5 is 17. Then we take "
        "17 times 2, so the result must be 34. <answer>34</answer>"
    )
    stuffed = "12 plus 5 is 17 12 + 5 = 17 17 times 2 twice 17 double 17 34 <answer>7</answer>"
    listed = " ".join(f"12 plus 5 is {n}. 17 times {n}. {n}." for n in range(40)) + " <answer>7</answer>"
    texts = (honest, stuffed, listed)
    ratios, density = ([measure(text, STEPS) for text in texts] for measure in (match_ratio, keyword_density))
    rows = [told(text, n == 0) for n, text in enumerate(texts)]
    plain, guarded = (shaped(recipe, rows) for recipe in (R1_VL, R1_VL.but({"shaping.0.most_density": 0.8})))
    holds = ratios == [1.0] * 3 and density[0] < 0.6 < 0.9 < density[1] and plain[1] > 0 and guarded[1] == 0.0
    halves = keyword_density("red red blue sky", ["red", "blue"])
    holds &= halves == 0.75 and keyword_density("", ["red"]) == keyword_density("red", []) == 0.0
    figures = lines(k=ratios, density=density, rewards=plain, with_most_density_0_8=guarded)
    return Finding(holds, f"honest, stuffed, every value listed: {figures}")


PLACES = ("units", "tens", "hundreds")


def column_sum(question: int) -> Answer:
    return tuple((137 + 211 * question) // 10**place % 10 for place in range(3))


def text(question: int, answer: Answer) -> str:
    steps = [f"the {place} give {digit}" for place, digit in zip(PLACES, answer, strict=True)]
    return f"<think>{', '.join(steps)}.</think><answer>{''.join(map(str, reversed(answer)))}</answer>"


def metadata(question: int) -> Mapping[str, Any]:
    digits = zip(PLACES, column_sum(question), strict=True)
    return {"key_steps": [[f"the {place} give {digit}", f"{digit} in the {place}"] for place, digit in digits]}


def silent_share(bench: Bench) -> float:
    """The share of groups without signal over a run."""
    signal, total = (sum(one.get(f"groups/{name}", 0.0) for one in bench.history) for name in ("with_signal", "total"))
    return 1 - signal / total


@claim("fewer groups without signal and higher accuracy per step", slow=True)
def fewer_groups_without_signal_and_higher_accuracy_per_step() -> Finding:
    # Sums by columns, a digit of the result per token, from the units on.
    world = World(4, 10, 3, lambda q, a: float(a == column_sum(q)), text=text, context="position", metadata=metadata)
    made, places = runs(world, GRPO, R1_VL, steps=40, every=40), range(3)
    silent = each(made, silent_share)
    right = each(made, lambda one: one.expected(lambda q, a: fmean(float(a[n] == column_sum(q)[n]) for n in places)))
    holds = max(silent["r1-vl"]) < min(silent["grpo"]) - 0.3 and min(right["r1-vl"]) > max(right["grpo"]) + 0.2
    return Finding(holds, lines(groups_without_signal=silent, accuracy_per_step=right))


claim.spares("r1-vl: shaping.0.most_density = 40.0", "no density exceeds 1")

claim.shipped(R1_VL, without={"shaping.0.alpha": 0.0})
claim.shipped(R1_VL, without={"shaping.1.weight": 0.0})
