"""GUI-RCPO's claims."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.recorded_answers import answer, lines, shaped
from hocket.methods.group_relative.gui_rcpo import GUI_RCPO, box_read, consensus, region_rewards
from hocket.rewards.regions import Box, box_overlap, inside

claim = Claims("gui-rcpo", "arXiv:2508.05615")

SCREEN = 40


def drawn(rng: np.random.Generator, count: int) -> list[Box]:
    """Boxes of whole numbers on a screen of `SCREEN` pixels a side."""
    corners = [np.sort(rng.choice(SCREEN + 1, (2, 2), replace=False), axis=0).tolist() for _ in range(count)]
    return [(a, b, c, d) for (a, b), (c, d) in corners]


def pixel_rewards(boxes: Sequence[Box | None]) -> list[float]:
    """The appendix's loop over a grid of pixels."""
    grid = np.zeros((SCREEN, SCREEN))
    for box in boxes:
        if box is not None:
            grid[int(box[1]) : int(box[3]), int(box[0]) : int(box[2])] += 1
    rewards = []
    for box in boxes:
        region = np.zeros((0, 0)) if box is None else grid[int(box[1]) : int(box[3]), int(box[0]) : int(box[2])]
        rewards.append(float(region.mean() / grid.max()) if region.size else 0.0)
    return rewards


def predictions(rng: np.random.Generator, target: Box, outliers: float, count: int = 16) -> list[Box]:
    """Boxes about a target, some of them anywhere."""
    boxes = []
    for _ in range(count):
        a, b, c, d = drawn(rng, 1)[0] if rng.random() < outliers else np.array(target) + rng.normal(0, 1.5, 4)
        boxes.append((float(a), float(b), float(c), float(d)))
    return boxes


@claim("For boxes of whole pixels the rewards are those of the appendix's loop over a grid.", "appendix A")
def for_boxes_of_whole_pixels_the_rewards_are_those_of_the_grid() -> Finding:
    rng, off = Key.of(0).numpy(), 0.0
    for count in (1, 2, 5, 16):
        for _ in range(8):
            boxes: list[Box | None] = [*drawn(rng, count), (3, 3, 3, 9), None, (9, 9, 2, 2)]
            off = max(off, gap(region_rewards(boxes), pixel_rewards(boxes)))
    return Finding(off < EXACT and region_rewards([None, None]) == [0.0, 0.0], say(off=off))


@claim("Larger units, and another order of the group, leave every reward; the verdicts that there were are replaced.")
def larger_units_and_another_order_of_the_group_leave_every_reward() -> Finding:
    rng = Key.of(1).numpy()
    boxes = drawn(rng, 6)
    rewards = region_rewards(boxes)
    larger = region_rewards([(2.5 * a + 7, 2.5 * b - 3, 2.5 * c + 7, 2.5 * d - 3) for a, b, c, d in boxes])
    off = max(gap(larger, rewards), gap(region_rewards(boxes[::-1])[::-1], rewards))
    texts = [f"<answer>{' '.join(map(str, box))}</answer>" for box in boxes]
    rows = [answer(reward, 2, "one", text=text) for text, reward in zip(texts, (1.0, 0, 0, 1.0, 0, 0), strict=True)]
    rows += [
        answer(0.5, 2, "two", text=text)
        for text in (texts[0], "", "<answer></answer>", "<answer>1 2 3</answer>", "1 2 3 4")
    ]
    value = shaped(GUI_RCPO, rows)
    alone = gap(value[:6], rewards) < EXACT and value[6:] == [1.0, 0.0, 0.0, 0.0, 0.0]
    wordless = shaped(GUI_RCPO, [answer(0.25, 2), answer(0.75, 2)]) == [0.25, 0.75]
    return Finding(off < EXACT and alone and wordless, say(off=off))


@claim("A click votes for a square of 50 around it; anything but four or two numbers is no box.", "appendix A")
def a_click_votes_for_a_square_of_50_around_it() -> Finding:
    read = [box_read(text, 50) for text in ("100, 60", "[1, 2, 3, 4]", "1 2 3", "", None, "1 2 3 4 5")]
    wanted = [(75.0, 35.0, 125.0, 85.0), (1.0, 2.0, 3.0, 4.0), None, None, None, None]
    rows = [answer(0.0, 2, text=f"<answer>{x} {y}</answer>") for x, y in ((100, 60), (125, 60), (400, 400))]
    value = shaped(GUI_RCPO, rows)  # Two squares share half: half of each has two votes.
    holds = read == wanted and gap(value, [0.75, 0.75, 0.5]) < EXACT and GUI_RCPO.rollout.samples == 16
    return Finding(holds and GUI_RCPO.regularisers[0].coefficient == 0.04, lines(rewards=value))  # type: ignore[attr-defined]


@claim("With a fifth of outliers the reward goes with the true overlap, and the consensus hits more often than one.")
def with_a_fifth_of_outliers_the_reward_goes_with_the_true_overlap() -> Finding:
    rng, pairs = Key.of(2).numpy(), list[tuple[float, float]]()
    hits: dict[str, list[bool]] = {"one": [], "mean": [], "consensus": []}
    for _ in range(200):
        x, y = rng.uniform(2, 32, 2)
        target = (float(x), float(y), float(x + 6), float(y + 6))
        boxes = predictions(rng, target, 0.2)
        pairs += zip(region_rewards(boxes), (box_overlap(box, target) for box in boxes), strict=True)
        centres = [((a + c) / 2, (b + d) / 2) for a, b, c, d in boxes]
        middle = consensus(boxes)
        hits["one"].append(inside(centres[0], target))
        hits["mean"].append(inside((fmean(x for x, _ in centres), fmean(y for _, y in centres)), target))
        hits["consensus"].append(middle is not None and inside(middle, target))
    related = float(np.corrcoef(np.array(pairs).T)[0, 1])
    share = {name: fmean(row) for name, row in hits.items()}
    holds = related > 0.7 and share["consensus"] > max(share["one"], share["mean"])
    return Finding(holds, lines(correlation=related, hits=share))


@claim("The consensus is the centre of the largest connected region of the most votes, by hand.")
def the_consensus_is_the_centre_of_the_largest_connected_region() -> Finding:
    cases: list[tuple[list[Box | None], tuple[float, float] | None]] = [
        ([(0, 0, 4, 4), (2, 2, 6, 6)], (3.0, 3.0)),
        ([(0, 0, 2, 2), (10, 10, 14, 14), None], (12.0, 12.0)),
        ([(0, 0, 4, 2), (2, 0, 6, 2), (8, 8, 9, 9)], (3.0, 1.0)),
        ([(0, 0, 2, 4), (2, 0, 4, 2)], (5 / 3, 5 / 3)),
        ([(1, 1, 1, 5), None], None),
    ]
    result = [consensus(boxes) for boxes, _ in cases]
    off = max(gap(a, b) for a, (_, b) in zip(result, cases, strict=True) if a is not None and b is not None)
    return Finding(off < EXACT and result[-1] is None, say(off=off))


claim.shipped(GUI_RCPO, "shaping", settings={"model": "nano-vlm"})
