"""Rewards by nearness, steps and experts: e-grpo, r1-vl, crowdvlm-r1, temporal-r1, tempsamp-r1, pm4grpo."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import io
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch

from hocket.checks.check import Check, Finding
from hocket.checks.rewarded import (
    SEEDS,
    advantages,
    answers_of,
    apart,
    document,
    group_relative,
    line,
    said,
    shaped,
)
from hocket.curriculum import Chosen, variable
from hocket.curriculum.variable import sample_variance
from hocket.keys import Key
from hocket.lab import Answer, Bench, Tabular, World
from hocket.microscope import look
from hocket.recipe import Recipe
from hocket.recipes.graded_rewards import CROWDVLM_R1, E_GRPO, PM4GRPO, R1_VL, TEMPORAL_R1, TEMPSAMP_R1
from hocket.recipes.group_relative import GRPO, GSPO
from hocket.rewards.conformance import activities, conformance, harmonic_mean
from hocket.rewards.curves import asymmetric_curve
from hocket.rewards.graded import Closeness, IntervalIoU, closeness, interval_iou, matched_share
from hocket.rewards.key_steps import keyword_density, match_ratio
from hocket.rollout import Independent
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Decoding


def runs(world: World, recipe: Recipe, steps: int, *, every: int = 10, **setting: Any) -> list[Bench]:
    """Five runs, one per seed."""
    return [Bench(world, recipe, seed=seed, steps=steps, **setting).run(steps, every=every) for seed in SEEDS]


def area(bench: Bench) -> float:
    """The mean success rate over a run's readings: high for one that learnt early."""
    return fmean([one.success for one in bench.readings])


# ---------------------------------------------------------------- e-grpo

KNOWN = ["Ada Lovelace", "London", "1843", "Babbage"]


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


# ---------------------------------------------------------------- r1-vl

STEPS: list[Any] = [["12 plus 5 is 17", "12 + 5 = 17"], ["17 times 2", "twice 17", "double 17"], "34"]


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


# ---------------------------------------------------------------- crowdvlm-r1


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


# ---------------------------------------------------------------- temporal-r1


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


# ---------------------------------------------------------------- tempsamp-r1


def curve_laws() -> Finding:
    """On a fine grid: continuous, increasing, fixed at the threshold, flatter above than below."""
    shape: Any = TEMPSAMP_R1.shaping[0]
    t, a, b = shape.threshold, shape.above, shape.below
    grid = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    value = asymmetric_curve(grid, t, a, b)
    slope = value.diff() / grid.diff()
    at = float(asymmetric_curve(torch.tensor([t], dtype=torch.float64), t, a, b))
    above, below = slope[grid[:-1] > t].max(), slope[0]
    wanted = [t + a * math.log1p(0.2), t - (math.exp(b * 0.5) - 1) / (math.exp(b) - 1)]
    found = asymmetric_curve(torch.tensor([t + 0.2, t - 0.5], dtype=torch.float64), t, a, b).tolist()
    return Finding(
        bool((slope > 0).all())
        and float(value.diff().max()) < 2e-5
        and at == t
        and float(above) < float(below)
        and apart(found, wanted) < 1e-12,
        f"least slope {float(slope.min()):.4f}, largest step {float(value.diff().max()):.1e}, value at t {at}, slope "
        f"above at most {float(above):.4f}, near r = 0 {float(below):.3f}",
    )


def best_sample_stays_positive() -> Finding:
    """Three samples and a perfect expert."""
    rewards = (0.65, 0.65, 0.4, 1.0)
    rows = [said("q", str(n), r, source="own" if n < 3 else "expert") for n, r in enumerate(rewards)]
    bent, plain = advantages(TEMPSAMP_R1, rows), advantages(TEMPSAMP_R1.but(shaping=()), rows)
    counted = group_relative(shaped(TEMPSAMP_R1, rows))
    return Finding(
        max(plain[:3]) < 0 < max(bent[:3]) and apart(bent, counted) < 1e-9,
        f"rewards {line(rewards)}, the last the expert's: advantages {line(plain)} plain, {line(bent)} reshaped",
    )


SECONDS = 24


def grounding() -> World:
    """When does it happen in a long sequence? Two tokens of 24: 576 answers, of which few overlap a short event."""

    def event(question: int) -> tuple[int, int]:
        return (5 * question + 3, 5 * question + 5)

    def text(question: int, answer: Answer) -> str:
        return f"<answer>{answer[0]} to {answer[1]}</answer>"

    return World(
        questions=4,
        tokens=SECONDS,
        horizon=2,
        reward=lambda question, answer: interval_iou((float(answer[0]), float(answer[1])), event(question)),
        text=text,
        metadata=lambda question: {"interval": event(question), "demonstration": event(question)},
    )


def experts_show_the_way() -> Finding:
    """Groups of eight: eight samples, or seven and the annotation."""
    world, steps = grounding(), 60
    alone = TEMPSAMP_R1.but(rollout=Independent(samples=8), shaping=())
    taught, own = runs(world, TEMPSAMP_R1, steps), runs(world, alone, steps)
    unbent = runs(world, TEMPSAMP_R1.but(shaping=()), steps)
    areas = [[area(bench) for bench in side] for side in (taught, own, unbent)]
    return Finding(
        min(areas[0]) > max(areas[1]) + 0.1,
        f"mean IoU over the run {line(areas[0])} against on-policy GRPO {line(areas[1])} (the expert without "
        f"reshaping {line(areas[2])}); at the end {line([bench.success() for bench in taught])} against "
        f"{line([bench.success() for bench in own])}",
    )


# ---------------------------------------------------------------- pm4grpo


def needs_pm4py(run: Callable[[], Finding]) -> Callable[[], Finding]:
    """A check that says so, and does not hold, where pm4py is not installed."""

    def checked() -> Finding:
        if importlib.util.find_spec("pm4py") is None:
            return Finding(False, "not run: pm4py is not installed (pip install 'hocket[process]')")
        return run()

    checked.__name__ = run.__name__
    return checked


def of(policy: str, teacher: str) -> float:
    """The conformance of two traces of one-letter activities."""
    return harmonic_mean(*conformance(tuple(policy), tuple(teacher)))


def own_words(policy: str, teacher: str) -> tuple[float, float]:
    """Fitness and precision by pm4py's simplified interface on data frames."""
    import pm4py

    pandas: Any = importlib.import_module("pandas")

    def log(trace: str) -> Any:
        times = pandas.date_range("2020-01-01", periods=len(trace), freq="s")
        return pandas.DataFrame(
            {"case:concept:name": ["1"] * len(trace), "concept:name": list(trace), "time:timestamp": times}
        )

    with contextlib.redirect_stderr(io.StringIO()):
        net = pm4py.discover_petri_net_inductive(log(policy))
        fitness = pm4py.fitness_alignments(log(teacher), *net)["log_fitness"]
        return float(fitness), float(pm4py.precision_alignments(log(teacher), *net))


@needs_pm4py
def conformance_is_pm4py() -> Finding:
    """Traces with and without repeats, equal, disjoint and mixed, through the reward and through pm4py itself."""
    pairs = [
        ("abcd", "abcd"),
        ("a", "a"),
        ("badc", "badc"),
        ("abc", "xyz"),
        ("abcd", "acbd"),
        ("axbcd", "abcd"),
        ("abcbcd", "abcd"),
    ]
    worst = max(apart(conformance(tuple(p), tuple(q)), own_words(p, q)) for p, q in pairs)
    same, none = [of(*pair) for pair in pairs[:3]], of("abc", "xyz")
    text = "We are asked for a sum. Add 3 and 4, it makes 7. Let me check it. <answer>7</answer>"
    trace = activities(text.split("<answer>")[0])
    rows = [said("q", f"<think>{text.split('<answer>')[0]}</think><answer>7</answer>", 1.0, info={"teacher": trace})]
    reward = shaped(PM4GRPO, rows)[0]
    return Finding(
        worst < 1e-9
        and same == [1.0] * 3
        and none == 0.0
        and trace == ("restate", "derive", "check")
        and reward == 3.0,
        f"largest difference to pm4py {worst:.0e}; equal traces {line(same)}, disjoint ones {none}; a text labelled "
        f"{', '.join(trace)} with the same teacher earns 1 + 1 + 1 = {reward:.3f}",
    )


@needs_pm4py
def pitfalls_are_kept() -> Finding:
    """Repeats against themselves, one leading activity too many, and further repeats."""
    itself, leading = of("abcbcd", "abcbcd"), of("xabcd", "abcd")
    rising = [of(trace, "abcd") for trace in ("xabcd", "axbcd", "abcbcd", "abcdd")]
    return Finding(
        abs(itself - 0.857) < 1e-3 and leading == 0.0 and rising[1] < rising[2] < rising[3],
        f"abcbcd against itself {itself:.3f}; xabcd against abcd {leading:.3f}; against abcd axbcd {rising[1]:.3f}, "
        f"abcbcd {rising[2]:.3f}, abcdd {rising[3]:.5f}: repeats are not monotone",
    )


SENTENCES = (
    "we are asked for the total",
    "add 3 and 4",
    "check it once more",
    "therefore it is 7",
    "therefore it is 9",
    "hm, wait",
    "let me see",
    "this is fine",
    "no matter",
)
TEACHER = ("restate", "derive", "check", "conclude")


def procedure() -> World:
    """Restate, derive, check, conclude: right if all four sentences stand in this order, the right conclusion last."""
    return World(
        questions=1,
        tokens=len(SENTENCES),
        horizon=4,
        context="last",
        reward=lambda question, answer: float(answer == (0, 1, 2, 3)),
        text=lambda question, answer: (
            "<think>" + ". ".join(SENTENCES[token] for token in answer) + "</think><answer>7</answer>"
        ),
        metadata=lambda question: {"teacher": TEACHER},
    )


def adherence(bench: Bench) -> float:
    """The chance of all four activities standing in the teacher's order."""

    def ordered(question: int, answer: Answer) -> float:
        trace = iter(activities(". ".join(SENTENCES[token] for token in answer)))
        return float(all(name in trace for name in TEACHER))

    return bench.expected(ordered)


@needs_pm4py
def procedure_is_learnt() -> Finding:
    """Outcome alone, the teacher's log, and the same log shuffled."""
    world, steps = procedure(), 75
    shuffled = replace(world, metadata=lambda question: {"teacher": ("conclude", "check", "restate", "derive")})
    sides = {
        name: runs(which, recipe.but({"rollout.samples": 16}), steps, every=steps, lr=0.1)
        for name, which, recipe in (
            ("taught", world, PM4GRPO),
            ("outcome", world, GSPO),
            ("shuffled", shuffled, PM4GRPO),
        )
    }
    keeps = {name: [adherence(bench) for bench in side] for name, side in sides.items()}
    right = {name: [bench.success() for bench in side] for name, side in sides.items()}
    return Finding(
        fmean(keeps["taught"]) > fmean(keeps["outcome"]) + 0.4
        and fmean(right["taught"]) > fmean(right["outcome"]) + 0.4
        and max(right["shuffled"]) <= max(right["outcome"]) + 0.01
        and max(keeps["shuffled"]) <= max(keeps["outcome"]) + 0.01,
        f"adherence {line(keeps['taught'])}, outcome only {line(keeps['outcome'])}, shuffled teacher "
        f"{line(keeps['shuffled'])}; accuracy {line(right['taught'])}, {line(right['outcome'])}, "
        f"{line(right['shuffled'])}",
    )


_E = "arXiv:2510.24694; alpha chosen here"
_STEP = "R1-VL, arXiv:2503.12937, released rewards"
_CROWD = "CrowdVLM-R1, arXiv:2504.03724, released count reward"
_TEMPORAL = "arXiv:2506.01908"
_SAMP = "TempSamp-R1, arXiv:2509.18056; constants chosen here"
_PM = "PM4GRPO, arXiv:2510.25065, released checker"

CHECKS = (
    Check("e-grpo", "an all-wrong group ranks near misses, equal g gives no signal", entities_rank, _E),
    Check("e-grpo", "any right answer outranks any wrong one", right_outranks_wrong, _E),
    Check("e-grpo", "faster than 0/1 reward, without growing entity-dropping", near_misses_help, _E, slow=True),
    Check("r1-vl", "the match ratio is invariant to synonyms and to the order of steps", synonyms_and_order, _STEP),
    Check(
        "r1-vl",
        "alpha = 0 and no validity term is GRPO; validity asks for stages in order",
        without_terms_it_is_grpo,
        _STEP,
    ),
    Check("r1-vl", "a keyword-stuffing text is detectable", stuffing_shows, "derived here"),
    Check("r1-vl", "fewer groups without signal and higher accuracy per step", steps_carry_signal, _STEP, slow=True),
    Check(
        "crowdvlm-r1",
        "closeness is monotone, 1.5 at the count, 0 from half away, scale free",
        closeness_is_as_released,
        _CROWD,
    ),
    Check(
        "crowdvlm-r1",
        "lower absolute error than 0/1 reward at first, most for large counts; it is overtaken once 0/1 hits",
        nearness_counts_better,
        _CROWD,
        slow=True,
    ),
    Check("temporal-r1", "IoU is symmetric, 1 for equal and 0 for disjoint intervals", iou_laws, _TEMPORAL),
    Check(
        "temporal-r1",
        "an item is kept iff its reward variance exceeds the threshold",
        filter_keeps_by_variance,
        _TEMPORAL,
    ),
    Check(
        "temporal-r1",
        "the most variable quarter reaches what the full set does",
        a_quarter_is_enough,
        _TEMPORAL,
        slow=True,
    ),
    Check("tempsamp-r1", "the curve is continuous, increasing, fixed at t and flatter above", curve_laws, _SAMP),
    Check(
        "tempsamp-r1", "the best sample beside an expert keeps a positive advantage", best_sample_stays_positive, _SAMP
    ),
    Check(
        "tempsamp-r1",
        "an expert in the group learns faster in a large search space",
        experts_show_the_way,
        _SAMP,
        slow=True,
    ),
    Check("pm4grpo", "equal traces give 1, disjoint ones 0, as pm4py counts", conformance_is_pm4py, _PM, slow=True),
    Check("pm4grpo", "repeats and leading activities: the measure's pitfalls", pitfalls_are_kept, "measured here"),
    Check(
        "pm4grpo",
        "adherence and accuracy above outcome only, not with a shuffled teacher",
        procedure_is_learnt,
        _PM,
        slow=True,
    ),
)
