"""VideoChat-R1's claims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, say
from hocket.methods.group_relative.videochat_r1 import VIDEOCHAT_R1, formed, overlap_of
from hocket.rewards.regions import Interval, box_overlap, interval_overlap
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("videochat-r1", "arXiv:2504.06958")


def steps_overlap(some: Sequence[Interval], others: Sequence[Interval], steps: int = 200) -> float:
    """Intersection over union, counted on steps of a tenth."""
    times = (np.arange(steps) + 0.5) / 10
    left, right = (np.any([(times > a) & (times < b) for a, b in [*rows, (0, 0)]], axis=0) for rows in (some, others))
    return float((left & right).sum() / max(1, (left | right).sum()))


@claim("The overlap of sets of intervals is that counted step by step; disjoint, nested and overlapping members too.")
def the_overlap_of_sets_of_intervals_is_that_counted_step_by_step() -> Finding:
    rng, off = Key.of(0).numpy(), 0.0
    for _ in range(60):
        ours, theirs = (
            [(a / 10, b / 10) for a, b in np.sort(rng.integers(0, 200, (int(rng.integers(0, 4)), 2)), axis=1).tolist()]
            for _ in range(2)
        )
        off = max(off, abs(interval_overlap(ours, theirs) - steps_overlap(ours, theirs)))
        off = max(off, abs(interval_overlap(ours, theirs) - interval_overlap(theirs, ours)))
    empty = [interval_overlap(item, other) for item, other in (([], []), ([(2, 2)], [(2, 2)]), ([(5, 3)], [(3, 5)]))]
    return Finding(off < 1e-9 and not any(empty), say(off=off))


@claim("The overlap of boxes is that counted on a grid; reversed and empty boxes overlap nothing.")
def the_overlap_of_boxes_is_that_counted_on_a_grid() -> Finding:
    rng, off = Key.of(1).numpy(), 0.0
    for _ in range(60):
        masks, boxes = [], []
        for _ in range(2):
            a, b, c, d = rng.integers(0, 12, 4).tolist()
            mask = np.zeros((12, 12), bool)
            mask[b:d, a:c] = True
            masks.append(mask)
            boxes.append((a, b, c, d))
        counted = (masks[0] & masks[1]).sum() / max(1, (masks[0] | masks[1]).sum())
        off = max(off, abs(box_overlap(boxes[0], boxes[1]) - counted))
    return Finding(off < EXACT, say(off=off))


WHEN = {"kind": "when", "times": [[2, 8]]}
LONGEST = {"kind": "longest", "times": [[2, 4], [6, 8]]}
TRACK = {"kind": "track", "boxes": [[0, 0, 2, 2], [1, 0, 3, 2]]}

CASES: Sequence[tuple[dict[str, Any], str, float | None, bool | None]] = (
    (WHEN, "<think>a</think><answer>2 to 8</answer>", 1.0, True),
    (WHEN, "<answer>5 and 11</answer>", 3 / 9, False),
    (WHEN, "<think>a</think> <answer>9 to 12</answer>", 0.0, True),
    (WHEN, "<think>2 to 8</think><answer>2-8</answer>", 0.0, True),
    (WHEN, "<think>a</think><answer>8 to 2</answer>", 0.0, True),
    (WHEN, "<answer>1 to 2</answer><answer>0 to 2 or 2 to 5</answer>", 0.5, False),
    (WHEN, "", 0.0, False),
    (LONGEST, "<think>a</think><answer>A</answer><glue>[(2, 4), (6, 8)]</glue>", 1.0, True),
    (LONGEST, "<think>a</think><answer>A</answer>\n<glue>[(2, 8)]</glue>", 4 / 6, True),
    (LONGEST, "<answer>A</answer><glue>[(3, 4), (2, 3.5)]</glue>", 0.5, False),
    (LONGEST, "<think>a</think><answer>A</answer><glue>[]</glue>", 0.0, False),
    (LONGEST, "<think>a</think><answer>A</answer><glue>[(4, 2)]</glue>", 0.0, False),
    (LONGEST, "<think>a</think><answer>A</answer><glue>2 to 4</glue>", 0.0, False),
    (LONGEST, "<think>a</think><answer>A</answer>", 0.0, False),
    (TRACK, "<think>a</think><answer>[[0,0,2,2],[1,0,3,2]]</answer>", 1.0, True),
    (TRACK, "<answer>[[0,0,2,2],[2,0,4,2]]</answer>", (1 + 1 / 3) / 2, False),
    (TRACK, "<think>a</think><answer>[[0,0,2,2]]</answer>", 0.0, False),
    (TRACK, "<think>a</think><answer>[[0,0,2],[1,0,3]]</answer>", 0.0, False),
    (TRACK, "<think>a</think><answer>[]</answer>", 0.0, False),
    ({"kind": "count"}, "<think>a</think><answer>2</answer>", None, None),
)
"""What is known, an answer, its overlap, and whether it has the form: by hand, after the released code."""


@claim("Overlap, form and option of each task are those of the released code, by hand; an empty answer earns nothing.")
def overlap_form_and_option_of_each_task_are_those_of_the_released_code() -> Finding:
    wrong = [
        (text, overlap_of(text, known), formed(text, known))
        for known, text, overlap, form in CASES
        if formed(text, known) != form
        or (overlap is None) != (overlap_of(text, known) is None)
        or abs((overlap_of(text, known) or 0.0) - (overlap or 0.0)) > 1e-9
    ]
    answers = (
        "<answer>A</answer>",
        "<answer>the answer is A.</answer>",
        "<answer>B</answer>",
        "<answer></answer>",
        "A",
    )
    zeros = np.zeros(1, np.float32)
    rows = [Trajectory(Scenario("s", "?", "A", LONGEST), [Turn("p", "p", zeros, zeros, text=text)]) for text in answers]
    rows.append(
        Trajectory(Scenario("w", "?", "2 to 8", WHEN), [Turn("p", "p", zeros, zeros, text="<answer>A</answer>")])
    )
    overlap, option, form = (asyncio.run(reward(rows, key=Key.of(0))) for reward in VIDEOCHAT_R1.rewards)
    holds = not wrong and option == [1.0, 1.0, 0.0, 0.0, 0.0, None] and overlap == [0.0] * 6 and form == [0.0] * 6
    weights = [reward.weight for reward in VIDEOCHAT_R1.rewards]
    return Finding(holds and weights == [1.0] * 3, say(cases=len(CASES), wrong=str(wrong), option=str(option)))


claim.shipped(VIDEOCHAT_R1, "rewards", settings={"model": "nano-vlm"})
