"""LPO's claims."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from hocket.core.keys import Key
from hocket.core.media import MEDIA, pictures_in
from hocket.core.pictures import open_picture
from hocket.lab.claims.harness import EXACT, Claims, Finding, say
from hocket.lab.toys.recorded_answers import lines
from hocket.methods.group_relative.lpo_gui import LPO_GUI, Location, density_reward, distance_reward, entropies
from hocket.tasks.boxes import Boxes

claim = Claims("lpo-gui", "arXiv:2506.09373")

TASK = Boxes(["point"])


def entropy(values: list[int]) -> float:
    """In bits, by hand."""
    shares = [count / len(values) for count in Counter(values).values()]
    return -math.fsum(share * math.log2(share) for share in shares)


@claim("The entropy of a window is that of its grey values, in bits; a blank window has none.", "section 3")
def the_entropy_of_a_window_is_that_of_its_grey_values() -> Finding:
    rng, off = Key.of(0).numpy(), 0.0
    for size, windows in ((16, 4), (15, 4), (40, 5)):
        grey = rng.integers(0, 6, (size, size), dtype=np.uint8) * 40
        grey[: size // windows + 1, : size // windows + 1] = 7
        result = entropies(grey, windows)
        edges = [len(part) for part in np.array_split(np.arange(size), windows)]
        starts = [sum(edges[:place]) for place in range(windows)]
        for row in range(windows):
            for column in range(windows):
                y, x = starts[row], starts[column]
                window = grey[y : y + edges[row], x : x + edges[column]]
                off = max(off, abs(result[row, column] - entropy(window.ravel().tolist())))
        off = max(off, abs(result[0, 0]))
    return Finding(off < EXACT, say(off=off))


@claim("The distance reward falls linearly with the distance, from 1 on the target to 0 at the farthest.", "section 3")
def the_distance_reward_falls_linearly_with_the_distance() -> Finding:
    target, farthest = (3.0, 4.0), 10.0
    points = [(3.0 + step * 0.6, 4.0 + step * 0.8) for step in range(14)]
    result = [distance_reward(point, target, farthest) for point in points]
    off = max(abs(value - max(0.0, 1 - step / 10)) for step, value in enumerate(result))
    falls = all(item >= other for item, other in itertools.pairwise(result))
    return Finding(off < EXACT and falls, lines(rewards=result))


@claim("The reward is the product of both on a drawn screen, by hand; empty windows, and no click, earn nothing.")
def the_reward_is_the_product_of_both_on_a_drawn_screen() -> Finding:
    (reward,) = LPO_GUI.rewards
    assert isinstance(reward, Location)
    off, blank, edges = 0.0, list[float](), list[float | None]()
    for number in range(6):
        scenario = TASK.scenario("train", number)
        picture = open_picture(MEDIA.data(pictures_in(scenario.messages)[0]), "screen").convert("L")
        grey = np.asarray(picture)
        density = {
            (r, c): entropy(grey[4 * r : 4 * r + 4, 4 * c : 4 * c + 4].ravel().tolist())
            for r in range(4)
            for c in range(4)
        }
        most, (tx, ty) = max(density.values()), scenario.metadata["point"]
        for x in range(8):
            for y in range(8):
                grade = reward.grade(f"<answer>{x} {y}</answer>", scenario)
                assert grade is not None
                near = 1 - math.hypot(x - tx, y - ty) / math.hypot(8, 8)
                off = max(off, abs(grade - near * density[y // 2, x // 2] / (most + 1e-6)))
                blank += (
                    [grade] if not grey[4 * (y // 2) : 4 * (y // 2) + 4, 4 * (x // 2) : 4 * (x // 2) + 4].any() else []
                )
        edges += [reward.grade(text, scenario) for text in ("", "<answer></answer>", "<answer>3</answer>", "3 4")]
        edges += [reward.grade(f"<answer>{click}</answer>", scenario) for click in ("8 3", "-1 3", "1 2 3", "2 8")]
    holds = off < EXACT and not any(blank) and len(blank) > 50 and not any(edges)
    constants = (LPO_GUI.objective.low, LPO_GUI.objective.high, LPO_GUI.regularisers[0].coefficient)  # type: ignore[attr-defined]
    return Finding(holds and constants == (0.2, 0.28, 1e-4), say(off=off, blank=len(blank)))


@claim("The entropy reward is largest on windows that hold widgets, and a click outside the screen has none.")
def the_entropy_reward_is_largest_on_windows_that_hold_widgets() -> Finding:
    density = np.array([[0.0, 0.8], [0.4, 0.0]])
    result = {
        "widget": density_reward(density, (3.0, 1.0), (4, 4)),
        "other": density_reward(density, (0.0, 3.9), (4, 4)),
        "blank": density_reward(density, (0.0, 0.0), (4, 4)),
        "outside": density_reward(density, (4.0, 1.0), (4, 4)),
    }
    wanted: Mapping[str, float] = {"widget": 0.8 / (0.8 + 1e-6), "other": 0.4 / (0.8 + 1e-6), "blank": 0, "outside": 0}
    off = max(abs(result[name] - wanted[name]) for name in wanted)
    plain = Location(density=False).grade("<answer>0 0</answer>", TASK.scenario("train", 0))
    return Finding(off < EXACT and plain is not None and plain > 0, lines(rewards=result))


claim.shipped(LPO_GUI, "rewards", settings={"model": "nano-vlm"})
