"""What temporal-r1 claims."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from statistics import fmean

import torch

from hocket.core.keys import Key
from hocket.curriculum.variable import sample_variance, variable
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import SEEDS, apart, line
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.temporal_r1 import TEMPORAL_R1, Chosen, IntervalIoU, interval_iou
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Decoding

claim = Claims("temporal-r1", "arXiv:2506.01908")


@claim("IoU is symmetric, 1 for equal and 0 for disjoint intervals")
def iou_laws() -> Finding:
    """Random pairs of intervals against counting on a fine grid, and the texts that say them."""
    generator, worst, symmetric = Key.of(7).numpy(), 0.0, True
    for _ in range(200):
        ends = sorted(generator.integers(0, 12, 2).tolist()), sorted(generator.integers(0, 12, 2).tolist())
        one, other = (float(ends[0][0]), float(ends[0][1])), (float(ends[1][0]), float(ends[1][1]))
        cells = [set(range(int(a), int(b))) for a, b in (one, other)]
        union = cells[0] | cells[1]
        wanted = 1.0 if one == other else (len(cells[0] & cells[1]) / len(union) if union else 0.0)
        worst = max(worst, abs(interval_iou(one, other) - wanted))
        symmetric &= interval_iou(one, other) == interval_iou(other, one)
    scenario = replace(moments().scenario("train", 0), metadata={"interval": [2, 6]})
    texts = ["<answer>2 to 6</answer>", "<answer>from 4 to 8</answer>", "<answer>7-9</answer>", "<answer>at 3</answer>"]
    graded = [IntervalIoU().grade(text, scenario) or 0.0 for text in texts]
    return Finding(
        worst < 1e-12 and symmetric and apart(graded, [1.0, 1 / 3, 0.0, 0.0]) < 1e-12,
        f"largest difference to counted cells {worst:.0e}, symmetric: {symmetric}; texts said of [2, 6] {line(graded)}",
    )


@claim("an item is kept iff its reward variance exceeds the threshold")
def filter_keeps_by_variance() -> Finding:
    """Random rewards, constant ones, and thresholds: an item is kept if and only if its variance exceeds it."""
    generator = Key.of(8).numpy()
    rewards = {n: (generator.random(6) * (n % 4)).tolist() for n in range(40)} | {40: [1.0] * 6, 41: [0.1] * 6}
    spread = {n: torch.tensor(own, dtype=torch.float64).var().item() for n, own in rewards.items()}
    kept = {t: variable(rewards, threshold=t) for t in (0.0, 0.1, 0.5)}
    exact = all(set(found) == {n for n, v in spread.items() if v > t + 1e-15} for t, found in kept.items())
    quarter = variable(rewards, share=0.25)
    best = sorted(spread, key=lambda n: -spread[n])[: round(42 / 4)]
    scenarios = {n: moments().scenario("train", n) for n in range(32)}
    asked = Chosen(prompts=4, numbers=(3, 5, 8))(moments(), 0, 6, Ledger(), Key.of(0))
    passes = [{scenario.id for scenario in asked[:3]}, {scenario.id for scenario in asked[3:]}]
    wanted = {scenarios[n].id for n in (3, 5, 8)}
    return Finding(
        exact and set(quarter) == set(best) and passes == [wanted, wanted] and sample_variance([0.1] * 6) == 0.0,
        f"kept of 42 at thresholds 0, 0.1, 0.5: {[len(found) for found in kept.values()]}; the most variable quarter: "
        f"{len(quarter)}; a pass over the chosen asks each once",
    )


SLOTS, ITEMS, SKILLS = 8, 32, 16


def skill(question: int) -> int:
    """Which kind of event an item asks for: two items each."""
    return question // 2


def truth(question: int) -> tuple[int, int]:
    """When the event of an item's kind happens; of the last quarter it lies outside of what can be said."""
    first = (3 * skill(question)) % 5
    return (first, first + 3) if kind(question) != "hopeless" else (20, 22)


def kind(question: int) -> str:
    """A quarter of the items is open, half are known from the start, a quarter is hopeless."""
    return ("open", "known", "known", "hopeless")[skill(question) // 4]


def moments() -> World:
    """When does it happen in a sequence of events? Two tokens, the start and the end; items of a kind share skill."""

    def right(question: int, answer: Answer) -> float:
        return interval_iou((float(answer[0]), float(answer[1])), truth(question))

    return World(
        questions=ITEMS,
        tokens=SLOTS,
        horizon=2,
        context=lambda question, prefix: (skill(question), tuple(prefix)),
        reward=right,
        text=lambda question, answer: f"<answer>{answer[0]} to {answer[1]}</answer>",
        metadata=lambda question: {"interval": truth(question)},
    )


def schooled(policy: Tabular) -> None:
    """Known kinds are nearly always said right at the start."""
    for question in range(ITEMS):
        if kind(question) == "known":
            for length in range(2):
                policy.logits[policy.row(question, truth(question)[:length]), truth(question)[length]] = 12.0


def chosen_items(world: World, seed: int) -> tuple[int, ...]:
    """The quarter of items on which eight samples of the start model vary most."""
    bench = Bench(world, TEMPORAL_R1, seed=seed, start=schooled)
    asked = [Assignment(world.scenario("train", n), samples=8, decoding=Decoding(max_tokens=2)) for n in range(ITEMS)]
    played = asyncio.run(bench.parts.player.play(asked, key=Key.of(seed).derive("probe")))
    grade, rewards = IntervalIoU(), dict[int, list[float]]()
    for trajectory in played:
        own = rewards.setdefault(int(trajectory.scenario.metadata["question"]), [])
        own.append(grade.grade(trajectory.text, trajectory.scenario) or 0.0)
    return variable(rewards, share=0.25)


@claim("the most variable quarter reaches what the full set does", slow=True)
def a_quarter_is_enough() -> Finding:
    """Eight prompts a step from all items or from the chosen quarter, as many updates."""
    world, steps = moments(), 40
    full: list[float] = []
    part: list[float] = []
    shares: list[float] = []
    for seed in SEEDS:
        numbers = chosen_items(world, seed)
        shares.append(fmean([float(kind(n) == "open") for n in numbers]))
        few = TEMPORAL_R1.but(curriculum=Chosen(numbers=numbers))
        for side, recipe in ((full, TEMPORAL_R1), (part, few)):
            side.append(Bench(world, recipe, seed=seed, prompts=8, start=schooled).run(steps, every=steps).success())
    before = Bench(world, TEMPORAL_R1, start=schooled).success()
    return Finding(
        min(a - b for a, b in zip(part, full, strict=True)) >= 0.0,
        f"mean IoU over all items {before:.3f} -> {line(part)} on the chosen quarter, {line(full)} on everything; of "
        f"the chosen {line(shares)} are open items",
    )
