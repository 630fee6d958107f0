"""What r1-vl claims."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.toys.graded_rewards import runs
from hocket.lab.toys.rewarded import apart, document, line, said, shaped
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.r1_vl import R1_VL, keyword_density, match_ratio

claim = Claims("r1-vl", "R1-VL, arXiv:2503.12937, released rewards")


STEPS: list[Any] = [["12 plus 5 is 17", "12 + 5 = 17"], ["17 times 2", "twice 17", "double 17"], "34"]


@claim("the match ratio is invariant to synonyms and to the order of steps")
def synonyms_and_order() -> Finding:
    """The same steps in other words, in another order; half of them; none."""
    texts = (
        "First 12 + 5 = 17, then twice 17 makes 34. <answer>34</answer>",
        "We get 34 because double 17 does, and 12 plus 5 is 17. <answer>34</answer>",
        "First 12 PLUS 5   is 17. <answer>30</answer>",
        "Hm. <answer>34</answer>",
    )
    found = [match_ratio(text, STEPS) for text in texts]
    rows = [said("q", text, float(n < 2), label="x", info={"key_steps": STEPS}) for n, text in enumerate(texts)]
    rows.append(said("q", "12 plus 5 is 17", 0.0, label=None, info={"key_steps": STEPS}))
    credit = shaped(R1_VL, rows)
    wanted = [1.1, 1.1, 0.1 / 3, 0.0, 0.0]
    return Finding(
        found == [1.0, 1.0, 1 / 3, 0.0] and apart(credit, wanted) < 1e-12,
        f"match ratios {line(found)}; rewards {line(credit)}, the last without an answer",
    )


@claim("alpha = 0 and no validity term is GRPO; validity asks for stages in order")
def without_terms_it_is_grpo() -> Finding:
    """alpha = 0 and no validity term; and what the validity term says of ordered and disordered texts."""
    bare = R1_VL.but({"shaping.0.alpha": 0.0, "shaping.1.weight": 0.0})
    rows = [
        said("q", "12 plus 5 is 17" * (n % 2), float(n % 3 == 0), label="x", info={"key_steps": STEPS})
        for n in range(6)
    ]
    same = {**look(bare, document(rows)), "recipe": ""} == {**look(GRPO, document(rows)), "recipe": ""}
    forms = (
        "<think>so</think><answer>1</answer>",
        "<answer>1</answer><think>so</think>",
        "<think>so<answer>1</answer>",
        "<think>so</think><answer>1</answer><think>",
    )
    valid = shaped(R1_VL, [said("q", text, label="1") for text in forms])
    return Finding(
        same and valid == [1.0, 0.0, 0.0, 0.0], f"equal to grpo: {same}; validity of four forms {line(valid)}"
    )


@claim("a keyword-stuffing text is detectable", "derived here")
def stuffing_shows() -> Finding:
    """An honest solution, key words alone, and every value listed: what the probe sees of each."""
    honest = (
        "The question asks for the double of a sum. First we add the two numbers: 12 plus 5 is 17. Then we take "
        "17 times 2, so the result must be 34. <answer>34</answer>"
    )
    stuffed = "12 plus 5 is 17 12 + 5 = 17 17 times 2 twice 17 double 17 34 <answer>7</answer>"
    listed = " ".join(f"12 plus 5 is {n}. 17 times {n}. {n}." for n in range(40)) + " <answer>7</answer>"
    texts = (honest, stuffed, listed)
    ratio, density = [match_ratio(t, STEPS) for t in texts], [keyword_density(t, STEPS) for t in texts]
    rows = [said("q", text, float(n == 0), label="x", info={"key_steps": STEPS}) for n, text in enumerate(texts)]
    open_, guarded = shaped(R1_VL, rows), shaped(R1_VL.but({"shaping.0.most_density": 0.8}), rows)
    return Finding(
        ratio == [1.0] * 3 and density[0] < 0.6 < 0.9 < density[1] and open_[1] > 0 and guarded[1] == 0.0,
        f"all three have k = 1; key-word density {line(density)} (honest, stuffed, every value listed); rewards "
        f"{line(open_)}, with most_density = 0.8 {line(guarded)}: listing values passes the probe and is seen only in "
        "k = 1 beside a wrong answer",
    )


PLACES = ("units", "tens", "hundreds")


def column_sum(question: int) -> Answer:
    """The digits of a sum of two numbers, units first."""
    total = 137 + 211 * question
    return tuple(total // 10**place % 10 for place in range(3))


def additions() -> World:
    """Sums by columns: each token writes a digit of the result, from the units on; right if all three are."""

    def text(question: int, answer: Answer) -> str:
        lines = [f"the {place} give {digit}" for place, digit in zip(PLACES, answer, strict=True)]
        return f"<think>{', '.join(lines)}.</think><answer>{''.join(map(str, reversed(answer)))}</answer>"

    def metadata(question: int) -> Mapping[str, Any]:
        digits = zip(PLACES, column_sum(question), strict=True)
        return {"key_steps": [[f"the {place} give {digit}", f"{digit} in the {place}"] for place, digit in digits]}

    return World(
        questions=4,
        tokens=10,
        horizon=3,
        context="position",
        reward=lambda question, answer: float(answer == column_sum(question)),
        text=text,
        metadata=metadata,
    )


def step_accuracy(bench: Bench) -> float:
    """The expected share of right digits."""
    return bench.expected(lambda q, answer: fmean([float(a == b) for a, b in zip(answer, column_sum(q), strict=True)]))


def silent_share(bench: Bench) -> float:
    """The share of groups without signal over a run."""
    groups = [(one["groups/total"], one.get("groups/with_signal", 0.0)) for one in bench.history]
    return 1 - sum(signal for _, signal in groups) / sum(total for total, _ in groups)


@claim("fewer groups without signal and higher accuracy per step", slow=True)
def steps_carry_signal() -> Finding:
    """A start that is right once in a thousand."""
    world, steps = additions(), 40
    plain, dense = runs(world, GRPO, steps), runs(world, R1_VL, steps)
    silent = [[silent_share(bench) for bench in side] for side in (dense, plain)]
    right = [[step_accuracy(bench) for bench in side] for side in (dense, plain)]
    return Finding(
        max(silent[0]) < min(silent[1]) - 0.3 and min(right[0]) > max(right[1]) + 0.2,
        f"groups without signal {line(silent[0])} against outcome reward {line(silent[1])}; accuracy per step "
        f"{line(right[0])} against {line(right[1])}",
    )
