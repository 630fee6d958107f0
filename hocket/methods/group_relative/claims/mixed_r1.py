"""Mixed-R1's claims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, say
from hocket.lab.toys.instances import Instances
from hocket.lab.toys.training import on, trained
from hocket.lab.world import Answer
from hocket.methods.group_relative.mixed_r1 import MIXED_R1, bag_similarity, box_overlap, near_number, overlap
from hocket.stages import Curriculum
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("mixed-r1", "arXiv:2505.24164")


@claim("BMAS is 1 for equal bags of words, symmetric, and blind to their order; IoU is that of boxes done by hand")
def bmas_is_1_for_equal_bags_of_words_symmetric_and_blind_to_their() -> Finding:
    rng, gaps = Key.of(0).derive("bags").numpy(), []
    words = ["the", "red", "box", "lies", "left", "of", "a", "small", "green", "table", "near", "two", "chairs"]
    for _ in range(50):
        one, other = (" ".join(rng.choice(words, int(rng.integers(1, 8)))) for _ in range(2))
        mixed, both = " ".join(rng.permutation(one.split())), bag_similarity(one, other)
        gaps += [bag_similarity(one, mixed) - 1, both - bag_similarity(other, one), both - bag_similarity(mixed, other)]
    boxes = {
        ((0, 0, 2, 2), (1, 1, 3, 3)): 1 / 7,
        ((0, 0, 4, 4), (1, 1, 3, 3)): 4 / 16,
        ((0, 0, 1, 1), (1, 0, 2, 1)): 0.0,
        ((1, 2, 5, 4), (1, 2, 5, 4)): 1.0,
        ((0, 0, 3, 1), (1, 0, 4, 1)): 0.5,
        ((2, 2, 2, 5), (0, 0, 9, 9)): 0.0,
    }
    for (first, second), known in boxes.items():
        gaps += [overlap(first, second) - known, box_overlap(f"[{first}]", second) - known]
    numbers = [near_number("it is 104", 100), near_number("105.1", 100), near_number("about 9.6", "10")]
    worst = max(map(abs, gaps))
    return Finding(worst < EXACT and numbers == [1.0, 0.0, 1.0], say(texts=50, boxes=len(boxes), largest_gap=worst))


@claim("Each scenario is graded by the reward that it names, by the match if it names none; empty texts agree")
def each_scenario_is_graded_by_the_reward_that_it_names_by_the() -> Finding:
    zeros = np.zeros(1, np.float32)
    answers = {"match": "0 0 4 4", "chart": "4", "box": "0 0 4 4", "open": "0 0 4 4"}
    asked = [Scenario(kind, "?", answers[kind], {"reward": kind}) for kind in answers]
    asked += [Scenario("plain", "?", "0 0 4 4"), Scenario("open ended", "?")]
    asked += [Scenario("no box", "?", None, {"reward": "box"})]
    seen = [Trajectory(one, [Turn("p", "p", zeros, zeros, text="0 0 4 4")]) for one in asked]
    opinions = [asyncio.run(route(seen, key=Key.of(0))) for route in MIXED_R1.rewards]
    graded = [[one.scenario.id for one, said in zip(seen, some, strict=True) if said is not None] for some in opinions]
    weights = [route.weight for route in MIXED_R1.rewards]
    empty = [bag_similarity("", ""), bag_similarity("", "a"), bag_similarity("a", ""), box_overlap("4", (0, 0, 1, 1))]
    holds = graded == [["match", "plain"], ["chart"], ["box"], ["open"]] and weights == [1.0] * 4
    return Finding(holds and empty == [1.0, 0.0, 0.0, 0.0], say(graded=str(graded), empty=str(empty)))


NUMBERS = ("5", "6", "7", "8", "12", "70")
BOXES = ("0 0 4 4", "0 0 4 2", "2 2 6 6", "9 9 10 10", "1 1 4 4", "0 4")
TEXTS = ("a red box", "box red a dog", "the green box", "two dogs run", "a red fox", "")
MIXTURE = (
    *(("match", "7", NUMBERS), ("match", "12", NUMBERS), ("box", "0 0 4 4", BOXES), ("box", "2 2 6 6", BOXES)),
    *(("open", "a red box", TEXTS), ("open", "two dogs run", TEXTS)),
    ("chart", "40", ("41", "45", "4", "400", "-40", "many")),
)
"""Kind, reference and the answers a policy can give."""


def graded(question: int, answer: Answer) -> float:
    kind, reference, options = MIXTURE[question]
    route: Any = next(route for route in MIXED_R1.rewards if route.name == kind)
    return float(route.graded(options[answer[0]], reference))


@dataclass(frozen=True)
class Only(Curriculum):
    """The same few scenarios in every step."""

    numbers: tuple[int, ...]
    prompts: int = 1

    def __call__(self, task: Any, asked: int, count: int, ledger: Any, key: Key) -> list[Scenario]:
        return [task.scenario("train", self.numbers[(asked + n) % len(self.numbers)]) for n in range(count)]


@claim("one policy on a mixture of tasks loses no accuracy on any, and each task's reward is reported apart", slow=True)
def one_policy_on_a_mixture_of_tasks_loses_no_accuracy_on_any_and() -> Finding:
    kinds = [kind for kind, _, _ in MIXTURE]
    world = Instances(
        *(len(MIXTURE), 6, 1, graded),
        text=lambda question, answer: MIXTURE[question][2][answer[0]],
        count=len(MIXTURE),
        about=lambda number: {"question": number, "answer": MIXTURE[number][1], "reward": kinds[number]},
    )
    asked = {kind: [n for n, one in enumerate(kinds) if one == kind] for kind in dict.fromkeys(kinds)}

    def accuracy(benches: Sequence[Bench], questions: Sequence[int]) -> float:
        return fmean(fmean(on(question, bench, graded) for question in questions) for bench in benches)

    benches, together, alone, worst = trained(world, MIXED_R1, 60), {}, {}, 0.0
    for kind, mine in asked.items():
        own = MIXED_R1.but({"curriculum": Only(tuple(mine))})
        together[kind] = accuracy(benches, mine)
        alone[kind] = accuracy(trained(world, own, 60, prompts=len(mine)), mine)
    for last in (bench.step() for bench in benches):
        for kind in asked:
            ours = [one.scores[kind].value for one in last.trajectories if one.scenario.metadata["reward"] == kind]
            worst = max(worst, abs(last.metrics[f"reward/{kind}"] - sum(ours) / len(ours)))  # type: ignore[arg-type]
    lost = max(alone[kind] - together[kind] for kind in asked)
    saw = say(mixed=together, alone=alone, reported_reward_off_by=worst)
    return Finding(lost < 0.03 and min(together.values()) > 0.8 and worst < 1e-9, saw)


claim.spares("not left or not right -> not left and (not right)", "a similarity with an empty side is 0 as well")

claim.shipped(MIXED_R1, "rewards")
