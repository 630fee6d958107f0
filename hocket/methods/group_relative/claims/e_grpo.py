"""What e-grpo claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.toys.graded_rewards import area, runs
from hocket.lab.toys.rewarded import advantages, apart, group_relative, line, said, shaped
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.e_grpo import E_GRPO, matched_share

claim = Claims("e-grpo", "arXiv:2510.24694; alpha chosen here")


KNOWN = ["Ada Lovelace", "London", "1843", "Babbage"]


@claim("an all-wrong group ranks near misses, equal g gives no signal")
def entities_rank() -> Finding:
    """Right, near miss, half, blind, and one without an answer; then all-wrong groups with different and equal g."""
    texts = ["I guess.", "Ada Lovelace met Babbage in London.", "Babbage in london", "no idea", "Ada Lovelace, 1843"]
    labels = ["x", "y", "y", "y", None]
    rows = [
        said("q", text, float(n == 0), label=label, info={"entities": KNOWN})
        for n, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    found = shaped(E_GRPO, rows)
    wanted = [1.0, 0.3 * 1.0, 0.3 * 2 / 3, 0.0, 0.0]
    wrong = advantages(E_GRPO, rows[1:4])
    equal = advantages(E_GRPO, [rows[3], rows[3], rows[3]])
    plain = advantages(GRPO, rows[1:4])
    holds = apart(found, wanted) < 1e-12 and apart(wrong, group_relative(wanted[1:4])) < 1e-9
    return Finding(
        holds and wrong[0] > wrong[1] > wrong[2] and equal == [0.0] * 3 and plain == [0.0] * 3,
        f"rewards {line(found)}; all-wrong groups get {line(wrong)} (grpo {line(plain)}), with equal g {line(equal)}",
    )


@claim("any right answer outranks any wrong one")
def right_outranks_wrong() -> Finding:
    """Random groups at the largest alpha that is allowed but for rounding."""
    generator, gap = Key.of(5).numpy(), math.inf
    recipe = E_GRPO.but({"shaping.0.alpha": 0.999})
    for trial in range(40):
        rows = []
        for _ in range(6):
            named = [name for name in KNOWN if generator.random() < 0.5]
            right = float(generator.random() < 0.4)
            rows.append(said(str(trial), " and ".join(named), right, label="x", info={"entities": KNOWN}))
        found = shaped(recipe, rows)
        best = [value for value, row in zip(found, rows, strict=True) if row["scores"]["reward"] == 0]
        worst = [value for value, row in zip(found, rows, strict=True) if row["scores"]["reward"] == 1]
        if best and worst:
            gap = min(gap, min(worst) - max(best))
    return Finding(gap > 0, f"least lead of a right answer over a wrong one in 40 groups, alpha = 0.999: {gap:.4f}")


HOPS, LINKS = 4, 4


def entity(question: int, path: Sequence[int]) -> str:
    """The name of what following links leads to."""
    return f"node{question}{''.join('abcd'[step] for step in path)}"


def trail(question: int) -> Answer:
    """The links that lead to the answer."""
    return tuple((2 * question + 3 * hop + 1) % LINKS for hop in range(HOPS))


def lookups() -> World:
    """Questions over several hops: each token follows a link of a local index, and what it finds is written down."""

    def text(question: int, answer: Answer) -> str:
        found = [entity(question, answer[: hop + 1]) for hop in range(len(answer))]
        return " ".join(f"search finds {name}." for name in found[:-1]) + f" <answer>{found[-1]}</answer>"

    return World(
        questions=2,
        tokens=LINKS,
        horizon=HOPS,
        reward=lambda question, answer: float(answer == trail(question)),
        text=text,
        label=lambda question, answer: entity(question, answer),
        metadata=lambda question: {"entities": known_entities(question)},
    )


def known_entities(question: int) -> list[str]:
    """What the question was made from: the entities on the way."""
    return [entity(question, trail(question)[:hop]) for hop in range(1, HOPS)]


def dropped(bench: Bench) -> float:
    """Expected share of known entities matched in answers that are wrong."""
    world = bench.world

    def spam(question: int, answer: Answer) -> float:
        wrong = world.reward(question, answer) == 0
        return matched_share(world.written(question, answer), known_entities(question)) if wrong else 0.0

    return bench.expected(spam)


@claim("faster than 0/1 reward, without growing entity-dropping", slow=True)
def near_misses_help() -> Finding:
    """Four hops of four links: a blind agent is right once in 256 attempts."""
    world, steps = lookups(), 80
    plain, graded = runs(world, GRPO, steps, lr=0.1), runs(world, E_GRPO, steps, lr=0.1)
    start = Bench(world, E_GRPO)
    spam, ends = [[measure(bench) for bench in graded] for measure in (dropped, Bench.success)]
    areas = [[area(bench) for bench in side] for side in (graded, plain)]
    return Finding(
        all(own > other for own, other in zip(*areas, strict=True))
        and fmean(areas[0]) > fmean(areas[1]) + 0.15
        and max(spam) < dropped(start),
        f"mean success over the run {line(areas[0])} against 0/1 reward {line(areas[1])}, at the end {line(ends)} "
        f"against {line([bench.success() for bench in plain])}; entities matched without the answer "
        f"{dropped(start):.3f} -> {line(spam)}",
    )
