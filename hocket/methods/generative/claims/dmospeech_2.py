"""DMOSpeech 2's claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, gap, gradient, say
from hocket.lab.toys.recorded_answers import document, group_relative, sample
from hocket.methods.generative.claims.ar_grpo import weighed
from hocket.methods.generative.dmospeech_2.method import DMOSPEECH_2
from hocket.methods.generative.dmospeech_2.speech import (
    SYMBOLS,
    drawn_utterance,
    recognised,
    recognition_loss,
    sound_logp,
    utter,
    voice_distance,
)
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.evaluate import evaluate
from hocket.train.loop import RunContext, train_step

claim = Claims("dmospeech-2", "arXiv 2507.14988")


@claim("Over all groups of three, its expected gradient is the bandit's policy gradient by 1 - 1/3, but for the scale.")
def it_is_a_bandits_policy_gradient() -> Finding:
    unscaled = DMOSPEECH_2.but({"credit.scale": None, "credit.weigh": ()})
    reward = [-0.4, -2.0, -1.1]
    logits = torch.tensor([0.3, -0.5, 0.8], dtype=torch.float64, requires_grad=True)
    logp = torch.log_softmax(logits, 0)
    chance = logp.detach().exp()
    exact = torch.autograd.grad((logp.exp() * torch.tensor(reward, dtype=torch.float64)).sum(), logits)[0]
    score = torch.eye(3, dtype=torch.float64) - chance  # d log pi(a) / d logits, row by row.
    expected = torch.zeros(3, dtype=torch.float64)
    for group in itertools.product(range(3), repeat=3):
        rows = [sample("g", reward[a], [float(logp[a])], logp_ref=[float(logp[a])]) for a in group]
        slopes = gradient(
            unscaled, document([{**row, "scores": {"recognition": row["scores"]["reward"]}} for row in rows])
        )
        weight = chance[list(group)].prod()
        expected -= weight * sum(slope * score[a] for slope, a in zip(slopes, group, strict=True))
    off = gap(expected, exact * (1 - 1 / 3))
    return Finding(off < 1e-9, say(off=off, gradient=exact.tolist()))


def recorded(seed: int) -> list[dict[str, Any]]:
    """Twelve utterances of three texts, of which those of the third are nearly equal, at a head that has moved on."""
    draws, rows = Key.of(seed).derive("durations").numpy(), []
    for number in range(12):
        logp = float(draws.normal(-3.0, 0.7))
        more = {
            "logp_behaviour": [logp + float(draws.normal(0, 0.2))],
            "logp_ref": [logp + float(draws.normal(0, 0.5))],
        }
        spread = 0.005 if number % 3 == 2 else 1.0
        scores = {"recognition": spread * float(draws.normal()), "voice": spread * float(draws.normal())}
        rows.append({**sample(f"g{number % 3}", 0.0, [logp], **more), "scores": scores})
    return rows


def by_hand(rows: Sequence[dict[str, Any]]) -> list[float]:
    """d loss / d logp of every decision, from the formula with the paper's constants."""
    reward = [row["scores"]["recognition"] + 3.0 * row["scores"]["voice"] for row in rows]
    slopes = []
    for number, row in enumerate(rows):
        group = [value for value, other in zip(reward, rows, strict=True) if other["group"] == row["group"]]
        advantage = group_relative(group)[number // 3] if float(np.std(group, ddof=1)) >= 0.05 else 0.0
        ratio = math.exp(row["logp"][0] - row["logp_behaviour"][0])
        cut = ratio > 1.2 if advantage > 0 else ratio < 0.8
        pulled = 0.04 * (1.0 - math.exp(row["logp_ref"][0] - row["logp"][0]))
        slopes.append((pulled - (0.0 if cut else ratio * advantage)) / len(rows))
    return slopes


@claim("The gradient is the formula's: -(L_ctc + 3 L_sim) within the group, clip, k3; nearly equal groups are skipped.")
def the_gradient_is_the_formulas() -> Finding:
    gaps = [
        gap(
            gradient(DMOSPEECH_2, weighed(DMOSPEECH_2, recorded(seed))),
            torch.tensor(by_hand(recorded(seed)), dtype=torch.float64),
        )
        for seed in range(8)
    ]
    return Finding(max(gaps) < 1e-9, say(batches=8, largest_difference=max(gaps)))


@claim("The recognition loss is minus the log of the summed probability of all alignments, a symbol.")
def the_loss_is_that_of_all_alignments() -> Finding:
    draws, gaps = Key.of(4).numpy(), []
    for text in ((2, 5), (1, 1), (3,)):
        frames = draws.normal(0.0, 0.3, (4, 12))
        logp, total = sound_logp(frames).numpy(), 0.0
        for path in itertools.product(range(1 + SYMBOLS), repeat=4):
            merged = [label for label, _ in itertools.groupby(path) if label]
            if merged == [1 + symbol for symbol in text]:
                total += math.exp(sum(float(logp[place, label]) for place, label in enumerate(path)))
        gaps.append(abs(-math.log(total) / len(text) - recognition_loss(frames, text)))
    return Finding(max(gaps) < 1e-9, say(off=max(gaps)))


@claim("The frozen speaker is understood at natural length and not when squeezed or stretched to double.")
def squeezed_and_stretched_are_misheard() -> Finding:
    draws = Key.of(5).numpy()
    utterances = [drawn_utterance(draws) for _ in range(40)]
    understood, distance = {}, {}
    for factor in (0.3, 1.0, 2.2):
        output = [utter(each, round(factor * each.natural), draws) for each in utterances]
        understood[factor] = float(np.mean([recognised(f) == u.text for f, u in zip(output, utterances, strict=True)]))
        distance[factor] = float(np.mean([voice_distance(f, u) for f, u in zip(output, utterances, strict=True)]))
    holds = understood[1.0] > 0.75 and max(understood[0.3], understood[2.2]) < 0.3 and distance[1.0] < distance[0.3]
    return Finding(holds, say(understood=understood, voice_distance=distance))


def attained(steps: int, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """What is understood, greedy and sampled, and the voice's distance, before and after so many steps as shipped."""
    task = tasks.find("spoken-symbols")
    pairs = [("task", task.name), ("recipe", DMOSPEECH_2), ("seed", seed), ("threads", 1)]
    parts = build_parts(configure(pairs, task), task)
    before = _measured(parts)
    for step in range(1, steps + 1):
        run_async(train_step(parts, step))
    return before, _measured(parts)


def _measured(parts: RunContext) -> dict[str, float]:
    common: dict[str, Any] = {"n": 256, "decoding": parts.decoding, "key": Key.of(0), "split": "eval"}
    results = [run_async(evaluate(parts.task, parts.player, (), temperature=heat, **common)) for heat in (0.0, 1.0)]
    voice = float(np.mean([parts.task.describe(trajectory)["voice"] for trajectory in results[1].trajectories]))
    return {"greedy": float(results[0].success), "sampled": float(results[1].success), "voice": voice}


@claim(
    "As shipped, 25 steps raise what is understood of sampled durations by 15 points over maximum likelihood's, and "
    "the voice comes nearer.",
    slow=True,
    learns=True,
)
def as_shipped_it_learns() -> Finding:
    before, after = attained(25, 0)
    holds = after["sampled"] > before["sampled"] + 0.15 and after["greedy"] >= before["greedy"] - 0.02
    return Finding(holds and after["voice"] < before["voice"], say(before=before, after=after))


claim.shipped(DMOSPEECH_2, "rewards")
