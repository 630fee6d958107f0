"""Temporal-R1's claims."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from statistics import fmean

import torch

from hocket.core.keys import Key
from hocket.curriculum.variable import sample_variance, variable
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, say
from hocket.lab.policy import Tabular
from hocket.lab.toys.recorded_answers import lines
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.temporal_r1 import TEMPORAL_R1, Chosen, IntervalIoU, interval_iou
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Decoding, Scenario, Trajectory, Turn

claim = Claims("temporal-r1", "arXiv:2506.01908")
ITEMS = 32


def kind(question: int) -> str:
    """A quarter of the items is open, half are known from the start, a quarter is hopeless."""
    return ("open", "known", "known", "hopeless")[question // 8]


def truth(question: int) -> tuple[int, int]:
    """When the event of an item's kind, two items each, happens; of the last quarter outside of what can be said."""
    first = (3 * (question // 2)) % 5
    return (first, first + 3) if kind(question) != "hopeless" else (20, 22)


# When does it happen in a sequence of events? Two tokens, the start and the end; items of a kind share skill.
MOMENTS = World(
    *(ITEMS, 8, 2, lambda question, answer: interval_iou((float(answer[0]), float(answer[1])), truth(question))),
    context=lambda question, prefix: (question // 2, tuple(prefix)),
    text=lambda question, answer: f"<answer>{answer[0]} to {answer[1]}</answer>",
    metadata=lambda question: {"interval": truth(question)},
)


@claim("IoU is symmetric, 1 for equal and 0 for disjoint intervals")
def iou_is_symmetric_1_for_equal_and_0_for_disjoint_intervals() -> Finding:
    generator, gaps, symmetric = Key.of(7).numpy(), [], True
    for _ in range(200):
        (a, b), (c, d) = one, other = [sorted(generator.integers(0, 12, 2).tolist()) for _ in range(2)]
        cells, more = set(range(a, b)), set(range(c, d))
        counted = 1.0 if one == other else len(cells & more) / max(1, len(cells | more))
        gaps.append(abs(interval_iou((a, b), (c, d)) - counted))
        symmetric &= interval_iou((a, b), (c, d)) == interval_iou((c, d), (a, b))
    scenario = replace(MOMENTS.scenario("train", 0), metadata={"interval": [2, 6]})
    texts = [f"<answer>{text}</answer>" for text in ("2 to 6", "from 4 to 8", "7-9", "at 3")]
    graded = [IntervalIoU().grade(text, scenario) or 0.0 for text in texts]
    holds = max(gaps) < 1e-12 and symmetric and gap(graded, [1.0, 1 / 3, 0.0, 0.0]) < 1e-12
    figures = lines(largest_difference_to_counted_cells=max(gaps), symmetric=symmetric, texts_said_of_2_to_6=graded)
    return Finding(holds, figures)


@claim("the reward is the verdict plus the IoU of what was said; where no interval is known, the verdict")
def the_reward_is_the_verdict_plus_the_iou_of_what_was_said_where() -> Finding:
    zeros, told = torch.zeros(1).numpy(), {"interval": [2.5, 6.5]}
    said = {"2.5 to 6.5": 2.0, "2.50 to 6.5": 1.0, "from 4.5 to 8.5": 1 / 3, "6.5 to 2.5": 0.0, "at 3": 0.0}
    rows = [(Scenario("s", "?", "2.5 to 6.5", told), text) for text in said] + [(Scenario("t", "?", "yes"), "yes")]
    texts = [Turn("p", "p", zeros, zeros, text=f"<answer>{text}</answer>") for _, text in rows]
    played = [Trajectory(scenario, [turn]) for (scenario, _), turn in zip(rows, texts, strict=True)]
    verdicts, overlaps = (list(asyncio.run(one(played, key=Key.of(0)))) for one in TEMPORAL_R1.rewards)
    a, b = (one.weight for one in TEMPORAL_R1.rewards)
    sums = [a * (one or 0.0) + b * (other or 0.0) for one, other in zip(verdicts, overlaps, strict=True)]
    holds = gap(sums, [*said.values(), 1.0]) < 1e-12 and overlaps[-1] is None
    points = [interval_iou(*pair) for pair in (((3, 3), (3, 3)), ((5, 3), (5, 3)), ((3, 3), (4, 4)), ((6, 2), (2, 6)))]
    return Finding(holds and points == [1, 0, 0, 0], lines(rewards=sums, empty_and_reversed_intervals=points))


@claim("an item is kept iff its reward variance exceeds the threshold")
def an_item_is_kept_iff_its_reward_variance_exceeds_the_threshold() -> Finding:
    generator = Key.of(8).numpy()
    rewards = {n: (generator.random(6) * (n % 4)).tolist() for n in range(40)} | {40: [1.0] * 6, 41: [0.1] * 6}
    spread = {n: torch.tensor(own, dtype=torch.float64).var().item() for n, own in rewards.items()}
    kept = {t: set(variable(rewards, threshold=t)) for t in (0.0, 0.1, 0.5)}
    exact = all(some == {n for n, v in spread.items() if v > t + 1e-15} for t, some in kept.items())
    quarter = set(variable(rewards, share=0.25))
    exact &= quarter == set(sorted(spread, key=lambda n: -spread[n])[: round(42 / 4)])
    exact &= sample_variance([0.1] * 6) == 0
    chosen = TEMPORAL_R1.but({"curriculum.numbers": (3, 5, 8)}).curriculum
    asked = [one.id for one in chosen(MOMENTS, 0, 6, Ledger(), Key.of(0))]
    once = set(asked[:3]) == set(asked[3:]) == {MOMENTS.scenario("train", n).id for n in (3, 5, 8)}
    once &= [one.id for one in chosen(MOMENTS, 2, 4, Ledger(), Key.of(0))] == asked[2:]
    every = {one.id for one in TEMPORAL_R1.curriculum(MOMENTS, 0, ITEMS, Ledger(), Key.of(0))}
    once &= len(every) == ITEMS and chosen.prompts == GRPO.curriculum.prompts
    counts = str({threshold: len(some) for threshold, some in kept.items()})
    figures = say(kept_of_42_by_threshold=counts, most_variable_quarter=len(quarter), a_pass_asks_each_once=once)
    return Finding(exact and once, figures)


def schooled(policy: Tabular) -> None:
    """Known kinds are nearly always said right at the start."""
    for question in (n for n in range(ITEMS) if kind(n) == "known"):
        for length, token in enumerate(truth(question)):
            policy.logits[policy.row(question, truth(question)[:length]), token] = 12.0


def chosen_items(seed: int) -> tuple[int, ...]:
    """The quarter of items on which eight samples of the start model vary most."""
    bench, rewards = Bench(MOMENTS, TEMPORAL_R1, seed=seed, start=schooled), dict[int, list[float]]()
    asked = [Assignment(MOMENTS.scenario("train", n), samples=8, decoding=Decoding(max_tokens=2)) for n in range(ITEMS)]
    for one in asyncio.run(bench.parts.player.play(asked, key=Key.of(seed).derive("probe"))):
        own = rewards.setdefault(int(one.scenario.metadata["question"]), [])
        own.append(IntervalIoU().grade(one.text, one.scenario) or 0.0)
    return variable(rewards, share=0.25)


@claim("the most variable quarter reaches what the full set does", slow=True)
def the_most_variable_quarter_reaches_what_the_full_set_does() -> Finding:
    chosen = [chosen_items(seed) for seed in SEEDS]
    shares = [fmean(kind(n) == "open" for n in numbers) for numbers in chosen]
    full, part = (
        [Bench(MOMENTS, one, n, prompts=8, start=schooled).run(40).success() for n, one in enumerate(recipes)]
        for recipes in ([TEMPORAL_R1] * 5, [TEMPORAL_R1.but(curriculum=Chosen(numbers=one)) for one in chosen])
    )
    before = Bench(MOMENTS, TEMPORAL_R1, start=schooled).success()
    figures = lines(before=before, on_the_quarter=part, on_everything=full, open_items_in_it=shares)
    return Finding(all(a >= b for a, b in zip(part, full, strict=True)), f"mean IoU over all items {figures}")
