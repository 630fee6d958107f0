"""Affordance-R1's claims."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np

from hocket.core.keys import Key
from hocket.core.media import MEDIA, pictures_in
from hocket.core.pictures import open_picture
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.pictured_runs import PicturedRun
from hocket.lab.toys.recorded_answers import advantages, answer, group_relative, lines
from hocket.lab.toys.warmed_runs import taught
from hocket.methods.base.grpo import GRPO_KL
from hocket.methods.group_relative.affordance_r1.method import AFFORDANCE_R1, AffordanceName, PartReward, Perception
from hocket.methods.group_relative.affordance_r1.parts import Part, code_of
from hocket.methods.group_relative.affordance_r1.task import Affordances, hurried, posed, read_first
from hocket.stages import Split
from hocket.tasks.digits import handwriting
from hocket.train.evaluate import EvaluationResult

claim = Claims("affordance-r1", "arXiv:2508.06206")


def answered(parts: Sequence[Part], thoughts: str = "<think>a</think><rethink>b</rethink>") -> str:
    """An answer in the right form."""
    return f"{thoughts}<answer>{code_of(parts)}</answer>"


def pair_score(mine: Part, true: Part) -> int:
    """The score of a pair by sets of pixels and single numbers, for boxes of integers."""

    def pixels(box: Sequence[float]) -> set[tuple[int, int]]:
        x0, y0, x1, y1 = map(int, box)
        return {(x, y) for x in range(x0, x1 + 1) for y in range(y0, y1 + 1)}

    ours, theirs = pixels(mine.box), pixels(true.box)
    overlap = len(ours & theirs) / len(ours | theirs)
    edges = math.fsum(abs(a - b) for a, b in zip(mine.box, true.box, strict=True)) / 4
    (x, y), (u, v), (a, b, c, d) = mine.point, true.point, mine.box
    near = (x - u) ** 2 + (y - v) ** 2 < 900 and a <= x <= c and b <= y <= d
    return (20 * len(ours & theirs) > 13 * len(ours | theirs)) + (edges < 10) + near if overlap else (edges < 10) + near


def best_match(mine: Sequence[Part], true: Sequence[Part]) -> float:
    """The best sum of scores over all ways to pair parts, over the larger number."""
    short, long = sorted((mine, true), key=len)
    scores = [[pair_score(a, b) if short is mine else pair_score(b, a) for b in long] for a in short]
    sums = (
        sum(scores[row][column] for row, column in enumerate(way)) for way in permutations(range(len(long)), len(short))
    )
    return max(sums) / len(long)


def random_parts(rng: np.random.Generator, count: int) -> list[Part]:
    """Parts in a small corner, so that several are near each other."""
    parts = []
    for _ in range(count):
        x, y, wide, high = (int(rng.integers(*limits)) for limits in ((0, 24), (0, 24), (4, 40), (4, 40)))
        point = (x + int(rng.integers(-3, wide + 4)), y + int(rng.integers(-3, high + 4)))
        parts.append(Part((x, y, x + wide, y + high), point, "hang"))
    return parts


@claim("Perception is the best sum of scores over all pairings, by counted pixels, over the larger number of parts.")
def perception_is_the_best_sum_over_all_pairings() -> Finding:
    rng, off, values, moved = Key.of(0).numpy(), 0.0, set[float](), 0.0
    reward = AFFORDANCE_R1.rewards[1]
    assert isinstance(reward, Perception)
    for _ in range(150):
        mine, true = (random_parts(rng, int(rng.integers(1, 5))) for _ in range(2))
        value = reward.grade(answered(mine), code_of(true))
        assert value is not None
        values.add(value)
        off = max(off, abs(value - best_match(mine, true)))
        turned = [mine[place] for place in rng.permutation(len(mine)).tolist()]
        moved = max(moved, abs(value - (reward.grade(answered(turned), code_of(true)) or 0.0)))
    return Finding(off < EXACT and moved < EXACT and len(values) > 8, say(off=off, moved=moved, values=len(values)))


@claim("A perfect answer earns 3, whatever the order; each missing or additional part lowers it by 1 / larger number.")
def each_missing_or_additional_part_lowers_it_by_the_larger_number() -> Finding:
    reward = Perception()
    parts = [Part((60 * n, 10, 60 * n + 40, 50), (60 * n + 20, 30), "hang") for n in range(6)]
    far = [Part((60 * n, 500, 60 * n + 40, 550), (60 * n + 20, 525), "hang") for n in range(3)]
    off = abs((reward.grade(answered(parts[::-1]), code_of(parts)) or 0.0) - 3)
    for gone in range(1, 6):
        off = max(off, abs((reward.grade(answered(parts[gone:]), code_of(parts)) or 0.0) - 3 * (6 - gone) / 6))
    for more in range(1, 4):
        off = max(off, abs((reward.grade(answered(parts + far[:more]), code_of(parts)) or 0.0) - 18 / (6 + more)))
    many = [Part((n, 0, n + 4, 4), (n + 2, 2), "hang") for n in range(0, 1210, 10)]
    cut = reward.grade(answered(many), code_of(many[:120])) == 3.0
    return Finding(off < EXACT and cut, say(off=off))


TRUE = [Part((10, 10, 50, 50), (30, 30), "hang"), Part((90, 90, 130, 140), (110, 115), "hang")]
TAGS = "<think>a</think> <rethink>b</rethink>\n"
CASES: list[tuple[str, tuple[float, ...]]] = [
    (answered(TRUE), (4, 3, 1, 1, 1)),
    (f" {TAGS}<answer> {json.dumps(json.loads(code_of(TRUE)))} </answer>", (4, 3, 1, 1, 1)),
    (answered(TRUE[:1]), (4, 1.5, 1, 0, 1)),
    (answered(TRUE, "<think>a</think>"), (3, 3, 1, 1, 1)),
    (answered(TRUE) + ".", (3, 3, 1, 1, 1)),
    (answered([part._replace(affordance="poke") for part in TRUE]), (4, 3, 0, 1, 1)),
    (answered([TRUE[0], TRUE[1]._replace(affordance="poke")]), (4, 3, 0, 1, 1)),
    (answered([part._replace(affordance=" Hang ") for part in TRUE]), (4, 3, 1, 1, 1)),
    (answered([part._replace(affordance="hangs") for part in TRUE]), (4, 3, 0, 1, 1)),
    (answered([part._replace(point=(500, 500)) for part in TRUE]), (4, 2, 1, 1, 1)),
    (answered([part._replace(box=(500, 500, 540, 540)) for part in TRUE]), (4, 0, 1, 1, 1)),
    (answered([part._replace(box=(50, 50, 10, 10)) for part in TRUE]), (4, 0, 1, 1, 1)),
    (TAGS + '<answer>[{"bbox_2d":[10,10,50,50],"affordance":"hang"},{"point_2d":[1,2,3]}]</answer>', (2, 0, 0, 1, 1)),
    (TAGS + "<answer>[]</answer>", (1, 0, 0, 0, 1)),
    (TAGS + "<answer>[1, 2]</answer>", (1, 0, 0, 0, 1)),
    (TAGS + "<answer>no</answer>", (1, 0, 0, 0, 1)),
    (answered(TRUE, "<think>It. It. It.</think><rethink>b</rethink>"), (4, 3, 1, 1, 1)),
    (answered(TRUE, "<think>a. It. It. It.</think><rethink>b</rethink>"), (4, 3, 1, 1, 0)),
    ("", (0, 0, 0, 0, 1)),
]
"""Answers to `TRUE`, with what they earn for form, perception, names, number, and no repetition."""


@claim("Form, perception, names, number and repetition are those of the authors, by hand: 10 points at most.")
def the_five_rewards_are_those_of_the_authors_by_hand() -> Finding:
    rewards = [reward for reward in AFFORDANCE_R1.rewards if isinstance(reward, PartReward)]
    wrong = []
    for text, due in CASES:
        value = tuple(reward.grade(text, code_of(TRUE)) for reward in rewards)
        wrong += [f"{text}: {value}"] * (value != due)
    silent = all(reward.grade(answered(TRUE), other) is None for reward in rewards for other in (None, "3", "[]"))
    plain = all(reward.weight == 1.0 for reward in rewards) and len(rewards) == len(AFFORDANCE_R1.rewards) == 5
    return Finding(not wrong and silent and plain, say(wrong=str(wrong)))


@claim("Each threshold must be passed, not reached: .65 of overlap, 10 of edges, 30 of points, 0.8 of letters.")
def each_threshold_must_be_passed_not_reached() -> Finding:
    true = [Part((0, 0, 99, 99), (50, 50), "abcdef")]
    reward = Perception()

    def earned(box: Sequence[int], point: tuple[int, int]) -> float | None:
        part = Part((box[0], box[1], box[2], box[3]), point, "abcdef")
        return reward.grade(answered([part]), code_of(true))

    # 65 and 66 of 100 columns; edges that are off by 40 and by 39 in all; points 30 and 29 away.
    values = [earned((0, 0, side, 99), (0, 0)) for side in (64, 65)]
    values += [earned((20, 20, 99, 99 - off), (20, 20)) for off in (0, -1)]
    values += [earned((20, 20, 99, 98), (90, 90))] + [earned((20, 20, 99, 99), (50 - away, 50)) for away in (30, 29)]
    named = AFFORDANCE_R1.rewards[2]
    assert isinstance(named, AffordanceName)
    pairs = [("abcdef", "abcdef"), ("abcdef", "abcdeX"), ("abcdef", "abcXeX")]
    pairs += [("abcdefghij", "abcdefghXX"), ("abcdefghij", "abcdefghiX")]
    names = [
        named.grade(answered([true[0]._replace(affordance=word)]), code_of([true[0]._replace(affordance=due)]))
        for due, word in pairs
    ]
    return Finding(
        values == [1, 2, 0, 0, 0, 0, 1] and names == [1, 1, 0, 0, 1], say(values=str(values), names=str(names))
    )


@claim("Advantages are z-scores of the sum of all five, with a KL of 0.005.")
def advantages_are_z_scores_of_the_sum() -> Finding:
    names = [reward.name for reward in AFFORDANCE_R1.rewards]
    rows = [tuple(float(part) for part in due) for _, due in CASES[:6]]
    parts = [{**answer(0.0, 2, logp_ref=[-1.0, -1.0]), "scores": dict(zip(names, row, strict=True))} for row in rows]
    off = gap(advantages(AFFORDANCE_R1, parts), group_relative([sum(row) for row in rows]))
    (penalty,) = AFFORDANCE_R1.regularisers
    return Finding(off < EXACT and penalty.coefficient == 0.005, say(off=off))  # type: ignore[attr-defined]


def part_by_hand(shown: Sequence[Sequence[int]], label: int) -> list[int]:
    """The edges of a digit's part, from its numbers: a ring's by a walk from the margin, a tip's by its lowest rows."""
    side = len(shown)
    ink = {(x, y) for y in range(side) for x in range(side) if shown[y][x] >= 80}
    if label in (1, 4, 7):
        last = max(y for _, y in ink)
        chosen = {(x, y) for x, y in ink if y > last - 4}
        grow = 0
    else:
        walk, outside = [(-1, -1)], {(-1, -1)}
        while walk:
            x, y = walk.pop()
            for near in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
                if all(-1 <= edge <= side for edge in near) and near not in ink and near not in outside:
                    outside.add(near)
                    walk.append(near)
        chosen = {(x, y) for y in range(side) for x in range(side)} - ink - outside
        grow = 1
    xs, ys = ([place[axis] for place in chosen] for axis in (0, 1))
    low, high = (
        [max(0, min(edges) - grow) for edges in (xs, ys)],
        [min(side, max(edges) + 1 + grow) for edges in (xs, ys)],
    )
    return [*low, *high]


@claim(
    "Boxes are those of the pixels shown, by a walk around the ink; the splits share no hand; right answers earn 10."
)
def boxes_are_those_of_the_pixels_shown() -> Finding:
    task, rewards, hands, haste = Affordances(), AFFORDANCE_R1.rewards, dict[str, set[bytes]](), 0
    for split in get_args(Split):
        pixels, labels = handwriting(split)
        known = {hand.tobytes(): int(label) for hand, label in zip(pixels, labels, strict=True)}
        for number in range(60):
            scenario = task.scenario(split, number)
            shown = np.asarray(open_picture(MEDIA.data(pictures_in(scenario.messages)[0]), "things").convert("L"))
            words: Any = scenario.messages[0]["content"]
            digits = (0, 6, 9) if "Hook?" in str(words) else (1, 4, 7)
            boxes = []
            for quarter in range(4):
                top, left = (8 * place for place in divmod(quarter, 2))
                part = shown[top : top + 8, left : left + 8]
                label = known.get(part.tobytes(), -1)
                hands.setdefault(split, set()).update({part.tobytes()} if part.any() else ())
                if label in digits:
                    x0, y0, x1, y1 = part_by_hand(part.tolist(), label)
                    boxes.append([10 * (x0 + left), 10 * (y0 + top), 10 * (x1 + left), 10 * (y1 + top)])
            use, things = posed(split, number)
            text = read_first(use, things)
            earned = sum(reward.grade(text, scenario.answer) for reward in rewards)  # type: ignore[attr-defined]
            right = [item["bbox_2d"] for item in json.loads(str(scenario.answer))] == boxes
            if not right or earned != 10 or task.verify(text, scenario) != 1 or task.verify("", scenario):
                return Finding(False, say(boxes=str(boxes), answer=str(scenario.answer), earned=earned))
            haste += task.verify(hurried(things), scenario) == 1
    return Finding(not hands["train"] & hands["eval"] and 0 < haste < 60, say(right_in_haste=haste))


def figures(result: EvaluationResult) -> list[float]:
    """The share of right answers and the mean overlap."""
    return [result.success, result.traits["overlap"]]


@claim(
    "After 250 lessons 16 steps as shipped raise the greedy mean overlap on 200 pictures of unseen hands by over 0.02 "
    "and move the sampled one by less than 0.05; blind it is below 0.1. GRPO on the overlap alone ends ahead, by less "
    "than 0.15.",
    slow=True,
)
def after_lessons_16_steps_find_few_more_parts() -> Finding:
    steps, n, measured = 16, 200, dict[str, list[float]]()

    def measure(name: str, run: PicturedRun) -> None:
        measured[name] = figures(run.measured(n))
        measured[f"{name}, sampled"] = figures(run.measured(n, temperature=1.0))

    with TemporaryDirectory() as folder:
        model = taught("affordances", 250, Path(folder))
        run = PicturedRun.of(AFFORDANCE_R1, "affordances", model=model)
        measure("lessons", run)
        measure("points", run.train(steps))
        blind = figures(run.blind(n))
        measure("overlap", PicturedRun.of(GRPO_KL, "affordances", model=model).train(steps))
    ways = ("", ", sampled")
    gains = [measured[f"points{way}"][1] - measured[f"lessons{way}"][1] for way in ways]
    behind = [measured[f"overlap{way}"][1] - measured[f"points{way}"][1] for way in ways]
    holds = gains[0] > 0.02 and abs(gains[1]) < 0.05 and blind[1] < 0.1 and min(behind) > 0 and max(behind) < 0.15
    return Finding(holds, lines(**measured, blind=blind))


claim.shipped(
    AFFORDANCE_R1,
    "rewards",
    settings={"model": "nano-vlm"},
    first={
        "recipe": "sft",
        "steps": 60,
        "task": "lessons:affordances",
        "curriculum.prompts": 16,
        "update.lr": 1e-3,
        "model": "nano-vlm",
    },
)
