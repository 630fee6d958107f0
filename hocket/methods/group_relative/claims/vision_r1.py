"""Vision-R1's claims."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.pictured_runs import PicturedRun
from hocket.lab.toys.recorded_answers import advantages, answer, group_relative, lines, shaped
from hocket.lab.toys.warmed_runs import taught
from hocket.methods.group_relative.vision_r1.method import VISION_R1, FormatAndAnswer, ThinkingStages
from hocket.methods.group_relative.vision_r1.task import BridgedDigits
from hocket.recipe import Recipe
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.train.loop import train_step
from hocket.types import Assignment, Decoding, Scenario, Score, Trajectory, Turn

claim = Claims("vision-r1", "arXiv:2503.06749")

WORKED = "<think>3 . 4 .; 3 7</think><answer>7</answer>"


@claim("The reward is the product of a right answer and of a filled thought with one answer in tags: 0 or 1.")
def the_reward_is_the_product_of_answer_and_format() -> Finding:
    texts = (WORKED, "<answer>7</answer>", "<think> </think><answer>7</answer>", "7", "", f"{WORKED}<answer>8</answer>")
    pairs = [(verdict, text) for text in texts for verdict in (0.0, 0.49, 0.5, 1.0)]
    result = shaped(VISION_R1, [answer(verdict, 2, text=text) for verdict, text in pairs])
    wanted = [float(text == WORKED) * float(verdict >= 0.5) for verdict, text in pairs]
    tagged = shaped(VISION_R1.but({"shaping.0.thought": "tagged"}), [answer(1.0, 2, text=text) for text in texts])
    holds = gap(result, wanted) < EXACT and tagged == [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    return Finding(holds and VISION_R1.shaping == (FormatAndAnswer(thought="filled"),), say(texts=len(texts)))


@claim("Advantages are z-scores of these rewards within the group, with a KL of 0.04.")
def advantages_are_z_scores_of_these_rewards() -> Finding:
    rows = [answer(verdict, 2, text=text, logp_ref=[-1.0, -1.0]) for text in (WORKED, "7") for verdict in (0.0, 1.0)]
    off = gap(advantages(VISION_R1, rows), group_relative([0.0, 1.0, 0.0, 0.0]))
    (penalty,) = VISION_R1.regularisers
    return Finding(off < EXACT and penalty.coefficient == 0.04, say(off=off))  # type: ignore[attr-defined]


def played(rollout: ThinkingStages, step: int, longest: int) -> tuple[list[tuple[int, int]], int]:
    """Samples and limits of what is sampled in a step for two questions, and how many answers are scored."""
    limits, scored = list[tuple[int, int]](), list[int]()

    async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
        limits.extend((one.samples, one.decoding.max_tokens) for one in asked)
        return [
            Trajectory(one.scenario, [Turn("p", "p", np.zeros(1), np.zeros(1))], scores={"correct": Score(1.0)})
            for one in asked
            for _ in range(one.samples)
        ]

    async def score(rows: Sequence[Trajectory]) -> None:
        scored.append(len(rows))

    asked = [Assignment(Scenario(name, "?"), decoding=Decoding(max_tokens=longest)) for name in "ab"]
    collected = rollout.at(step).collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(0))
    experience = asyncio.run(collected)
    assert scored == [len(experience.trajectories)]
    return limits, scored[0]


@claim(
    "Limits of a quarter, half and all of the length come with 16, 8 and 4 answers, 10 steps each, the last for good, "
    "so that every stage has as many tokens at most. Limits are rounded up."
)
def limits_rise_while_answers_become_fewer() -> Finding:
    rollout = VISION_R1.rollout
    assert isinstance(rollout, ThinkingStages)
    due = {1: (16, 32), 10: (16, 32), 11: (8, 64), 20: (8, 64), 21: (4, 128), 400: (4, 128)}
    holds = all(played(rollout, step, 128) == ([pair, pair], 2 * pair[0]) for step, pair in due.items())
    odd = [played(rollout, step, 101)[0][0][1] for step in (1, 11, 21)] == [math.ceil(101 / n) for n in (4, 2, 1)]
    first = played(ThinkingStages((0.5,), (3,), 1), 7, 10)[0][0] == (3, 5)
    return Finding(holds and odd and first and rollout.samples == 4, say(stages=len(rollout.shares)))


@claim("Lessons describe the picture's quarters in order, and end with a right round of thought and the answer.")
def lessons_describe_the_picture_and_end_right() -> Finding:
    task, rounds, doubted = BridgedDigits(), list[int](), 0
    for number in range(60):
        scenario = task.scenario("train", number)
        (lesson,) = task.lessons.play(scenario, Key.of(0).numpy())
        text = str(lesson.said[0]["content"])
        thought = text.removeprefix("<think>").split("</think>")[0]
        described, *thoughts = thought.replace("; no ", "; ").split("; ")
        quarters = [-1 if mark == "." else int(mark) for mark in described.split()]
        digits = [digit for digit in quarters if digit >= 0]
        due = [
            {"sum": sum(digits[:count]), "count": count, "largest": max(digits[:count])}[scenario.metadata["kind"]]
            for count in range(1, len(digits) + 1)
        ]
        right = " ".join(map(str, due))
        if quarters != scenario.metadata["digits"] or thoughts[-1] != right or task.verify(text, scenario) != 1.0:
            return Finding(False, say(text=text))
        rounds.append(len(thoughts))
        doubted += any(thought != right for thought in thoughts)
    holds = set(rounds) == {1, 2, 3, 4, 5} and 10 < doubted < 50
    return Finding(holds, say(rounds=float(np.mean(rounds)), with_a_misreading=doubted / 60))


def success_by_tokens(
    recipe: Recipe, task: str, model: str, budget: float, n: int, **settings: Any
) -> tuple[PicturedRun, float, float]:
    """A run until it has sampled `budget` tokens: itself, success on `n` unseen scenarios, and tokens of an answer."""
    run = PicturedRun.of(recipe, task, model=model, **settings)
    tokens, step = 0.0, 0
    while tokens < budget:
        step += 1
        tokens += run_async(train_step(run.parts, step)).metrics["tokens/generated"]
    result = run.measured(n)
    return run, result.success, sum(item.length for item in result.trajectories) / n


@claim(
    "From the same cold start, at 120,000 sampled tokens, stages end in shorter answers than the full length from the "
    "first step on, and as right within 10 points; blind they guess. That they are right more often was not seen.",
    slow=True,
)
def stages_end_in_shorter_answers_at_equal_tokens() -> Finding:
    n, task, budget = 100, "bridged-digits", 120_000.0
    unstaged = {"rollout.shares": (1.0,), "rollout.sizes": (8,)}
    with tempfile.TemporaryDirectory() as folder:
        model = taught(task, 60, Path(folder))
        _, before, length = success_by_tokens(VISION_R1, task, model, 0, n)
        run, staged, short = success_by_tokens(VISION_R1.but({"rollout.every": 5}), task, model, budget, n)
        blind = run.blind(n).success
        _, full, long = success_by_tokens(VISION_R1.but(unstaged), task, model, budget, n)
    holds = abs(staged - full) < 0.1 and short < 0.95 * long and blind < 0.4
    right = {"cold_start": [before, length], "staged": [staged, short], "full_length": [full, long]}
    return Finding(holds, lines(right_and_tokens=right, blind=blind))


claim.shipped(VISION_R1, "rollout", "shaping", settings={"model": "nano-vlm"})
