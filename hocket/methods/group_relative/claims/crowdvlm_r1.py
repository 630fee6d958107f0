"""What crowdvlm-r1 claims."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import SEEDS, answers_of, apart, line, said, shaped
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.crowdvlm_r1 import CROWDVLM_R1, Closeness, closeness

claim = Claims("crowdvlm-r1", "CrowdVLM-R1, arXiv:2504.03724, released count reward")


@claim("closeness is monotone, 1.5 at the count, 0 from half away, scale free")
def closeness_is_as_released() -> Finding:
    """Every guess 0..150 of every truth 1..50, and texts through the reward itself."""
    worst, kept = 0.0, True
    for truth in range(1, 51):
        values = [closeness(guess, truth) for guess in range(151)]
        gaps = [abs(guess - truth) / truth for guess in range(151)]
        kept &= values[truth] == 1.5 and all(v == 0 for v, gap in zip(values, gaps, strict=True) if gap >= 0.5)
        ranked = sorted(zip(gaps, values, strict=True))
        kept &= all(one[1] >= other[1] for one, other in itertools.pairwise(ranked))
        worst = max(worst, apart([closeness(7 * g, 7 * truth) for g in range(151)], values))
    texts = [
        "<think>a</think><answer>44</answer>",
        "<answer>44</answer>",
        "<answer>many</answer>",
        "<answer>20</answer>",
    ]
    grade = Closeness()
    world = counting()
    scenario = replace(world.scenario("train", 0), answer=40)
    graded = [grade.grade(text, scenario) for text in texts]
    whole = shaped(CROWDVLM_R1, [said("q", text, value or 0.0) for text, value in zip(texts, graded, strict=True)])
    return Finding(
        kept and worst < 1e-12 and apart(whole, [2.4, 1.4, 0.0, 0.0]) < 1e-12,
        f"1.5 at the count, 0 from half away, falling between, scale free to {worst:.0e}; of 40, the texts 44 in "
        f"format, 44, many, 20 earn {line(whole)}",
    )


COUNTS = (4, 9, 15, 22, 28, 35, 41, 48)


def counting() -> World:
    """How many dots are there? Two digits, the tens first."""
    return World(
        questions=len(COUNTS),
        tokens=10,
        horizon=2,
        reward=lambda question, answer: float(number(answer) == COUNTS[question]),
        text=lambda question, answer: f"<think>I count them.</think><answer>{number(answer)}</answer>",
        metadata=lambda question: {"answer": COUNTS[question]},
    )


def number(answer: Answer) -> int:
    """The number that digits write."""
    return int("".join(map(str, answer)))


def undercounting(policy: Tabular) -> None:
    """A start that guesses around small counts, and around seven tenths of those above 20; a seventh of it off."""
    guesses = torch.arange(100, dtype=torch.float64)
    for question, count in enumerate(COUNTS):
        centre, width = (1.0 if count <= 20 else 0.7) * count, max(0.5, 0.15 * count)
        table = torch.softmax(-((guesses - centre) / width).square() / 2, 0).reshape(10, 10) + 1e-9
        policy.logits[policy.row(question, ())] = table.sum(1).log()
        for tens in range(10):
            policy.logits[policy.row(question, (tens,))] = table[tens].log()


def miss(bench: Bench, questions: Sequence[int]) -> float:
    """The expected absolute error over some questions."""
    found = []
    for question in questions:
        answers, chance = answers_of(bench, question)
        gaps = torch.tensor([abs(number(answer) - COUNTS[question]) for answer in answers], dtype=torch.float64)
        found.append(float(chance @ gaps))
    return fmean(found)


@claim("lower absolute error than 0/1 reward at first, most for large counts; it is overtaken once 0/1 hits", slow=True)
def nearness_counts_better() -> Finding:
    """The same samples per step, graded by closeness or by 0/1; after 40 updates, and after 80."""
    world, spans = counting(), {"all": range(8), "small": range(4), "large": range(4, 8)}
    found: dict[tuple[str, int], list[list[float]]] = {}
    for recipe in (CROWDVLM_R1, CROWDVLM_R1.but(rewards=())):
        benches = [Bench(world, recipe, seed=seed, start=undercounting) for seed in SEEDS]
        for steps, (name, chosen) in itertools.product((40, 80), spans.items()):
            values = [miss(bench.run(steps - bench.done, every=steps), chosen) for bench in benches]
            found.setdefault((name, steps), []).append(values)
    gain = {key: fmean(sides[1]) - fmean(sides[0]) for key, sides in found.items()}
    early, late = found["all", 40], found["all", 80]
    return Finding(
        max(early[0]) < min(early[1]) - 0.5 and gain["large", 40] > gain["small", 40] + 1 and gain["all", 80] < 0,
        f"mean absolute error after 40 updates {line(early[0])} against 0/1 reward {line(early[1])}: less by "
        f"{gain['small', 40]:.2f} for counts to 22, by {gain['large', 40]:.2f} from 28 on; after 80 updates, when the "
        f"exact counts are often hit, {line(late[0])} against {line(late[1])}",
    )
