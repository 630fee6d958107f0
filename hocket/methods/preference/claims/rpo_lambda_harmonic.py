"""RPO's claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from hocket import tasks
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, gradient, inspect_rows, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.recorded_answers import document, sample, shaped
from hocket.methods.preference.rpo_lambda_harmonic.kind import ReferencePlayer
from hocket.methods.preference.rpo_lambda_harmonic.method import RPO
from hocket.methods.preference.rpo_lambda_harmonic.task import SubjectDigits, likeness, references, subject_pixels
from hocket.nano.flow import WORDS, quarters
from hocket.policies.denoising.denoiser import Denoiser
from hocket.policies.denoising.network import FlowShape
from hocket.tasks.handwriting import canvas, digits
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.evaluate import evaluate
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Decoding, Trajectory

claim = Claims("rpo-lambda-harmonic", "arXiv 2407.12164")


def mean(image: float, text: float, share: float) -> float:
    return image * text / (share * text + (1 - share) * image) if image * text > 0 else 0.0


@claim(
    "The reward lies between the two scores, is theirs when they agree, never above the weighted arithmetic mean, and "
    "0 when one is 0."
)
def the_reward_is_the_harmonic_mean() -> Finding:
    draws, gaps, above, outside = Key.of(0).numpy(), [], 0, 0
    for share in (0.3, 0.5, 0.8):
        pairs = [*draws.uniform(0.01, 1.0, (12, 2)).tolist(), [0.0, 0.7], [0.7, 0.0], [0.4, 0.4], [0.0, 0.0]]
        rows = [{**sample("g", 0.0, [-1.0]), "scores": {"subject": image, "digits": text}} for image, text in pairs]
        value = shaped(RPO.but({"combine.share": share}), rows)
        gaps += [abs(r - mean(image, text, share)) for r, (image, text) in zip(value, pairs, strict=True)]
        above += sum(r > share * a + (1 - share) * b + 1e-12 for r, (a, b) in zip(value, pairs, strict=True))
        outside += sum(not min(pair) - 1e-12 <= r <= max(pair) + 1e-12 for r, pair in zip(value, pairs, strict=True))
    return Finding(max(gaps) < EXACT and above == outside == 0, say(off=max(gaps), above=above, outside=outside))


def recorded(seed: int) -> list[dict[str, Any]]:
    """Three prompts with a sample and a reference, and two references under their own prompts, at moved weights."""
    draws, rows = Key.of(seed).derive("pairs").numpy(), []
    for number in range(8):
        imported = number >= 6
        logp = draws.normal(-60.0, 20.0, 5 if imported else 3)
        source = "imported" if imported else ("own", "expert")[number % 2]
        row = sample(f"g{number if imported else number // 2}", 0.0, logp.tolist(), source=source)
        row["logp_ref"] = (logp + draws.normal(0.0, 100.0, len(logp))).tolist()
        row["scores"] = {"subject": float(draws.random()), "digits": float(draws.random())}
        rows.append(row)
    return rows


def by_hand(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """d loss / d logp of every probe, from the formula with the shipped constants."""
    slopes = [np.full(len(row["logp"]), -1 / 256 / 10 if row["source"] == "imported" else 0.0) for row in rows]
    for first in (0, 2, 4):
        drift = [float(np.sum(row["logp"]) - np.sum(row["logp_ref"])) for row in rows[first : first + 2]]
        reward = [mean(row["scores"]["subject"], row["scores"]["digits"], 0.5) for row in rows[first : first + 2]]
        chance = 1 / (1 + math.exp(reward[1] - reward[0]))
        slope = 0.003 * (1 / (1 + math.exp(-0.003 * (drift[0] - drift[1]))) - chance) / 3
        slopes[first] += slope
        slopes[first + 1] -= slope
    return [float(value) for slope in slopes for value in slope]


@claim("The gradient is that of Bradley and Terry's labels on denoising errors, and of the references' own errors.")
def the_gradient_is_the_formulas() -> Finding:
    gaps = []
    for seed in range(6):
        rows = recorded(seed)
        gaps.append(gap(gradient(RPO, document(rows)), torch.tensor(by_hand(rows), dtype=torch.float64)))
    return Finding(max(gaps) < EXACT, say(batches=6, largest_difference=max(gaps)))


@claim("References under their own prompts are in no pair, and every prompt's sample and reference are one.")
def references_of_their_own_are_in_no_pair() -> Finding:
    batch, _ = RPO.compute_credit(RecordedBatch(document(recorded(0))).batch, RPO.init(), {})
    pairs = batch.occurrences.pairs
    assert pairs is not None
    output = inspect_rows(RPO.but({"regularisers.0.coefficient": 0.0}), recorded(0))["gradient"]
    apart = max(abs(value) for row in output[6:] for value in row)
    return Finding(
        sorted(map(sorted, pairs.tolist())) == [[0, 1], [2, 3], [4, 5]] and apart == 0.0,
        say(pairs=len(pairs), own_slope=apart),
    )


def drawn() -> tuple[list[Trajectory], Denoiser]:
    """What the rollout collects for three prompts, from a small sampler whose reference is another."""
    shape = FlowShape(16, 4, 8, 2, 1, WORDS, 4, 3, quarters(16, 4), steps=2)
    policy, before = Denoiser(shape, Key.of(3)), Denoiser(shape, Key.of(3))
    with torch.no_grad():
        policy.module.write.normal_(0.0, 0.3, generator=Key.of(4).torch())
    player, task = ReferencePlayer(policy), SubjectDigits()
    player.reference = before

    async def play(requests: Sequence[Assignment]) -> list[Trajectory]:
        return await player.play(requests, key=Key.of(5))

    async def score(trajectories: Sequence[Trajectory]) -> None:
        """Nothing."""

    requests = [Assignment(task.scenario("train", number)) for number in range(3)]
    call: Any = RPO.rollout.collect
    return run_async(call(requests, play=play, score=score, ledger=None, key=Key.of(5))).trajectories, before


@claim("The rollout pairs a sample of the sampler before training with a reference, under one prompt and one noise.")
def samples_stand_beside_references() -> Finding:
    trajectories, before = drawn()
    sources = [trajectory.source for trajectory in trajectories]
    samples, paired, shown = trajectories[:3], trajectories[3:6], trajectories[6:]
    known = references(4)
    drift = max(gap(t.final_state, known[t.sample % 4].picture) for t in (*paired, *shown))
    noise = [[t.turns[0].action + t.final_state for t in pair] for pair in zip(samples, paired, strict=True)]
    same = max(gap(first, second) for first, second in noise)
    player, cold = ReferencePlayer(before), replace(Decoding(), temperature=0.0)
    options = RPO.rollout._options()[:1]  # type: ignore[attr-defined]
    requests = [Assignment(entry.scenario, decoding=cold, options=options) for entry in samples]
    base = run_async(player.play(requests, key=Key.of(5)))
    old = max(gap(entry.final_state, other.final_state) for entry, other in zip(samples, base, strict=True))
    words = [int((t.turns[0].observation["words"][0] > 0).any(1).sum()) for t in (*paired, *shown)]
    probes = [len(t.turns[0].action) for t in trajectories]
    holds = (
        sources == ["own"] * 3 + ["expert"] * 3 + ["imported"] * 4
        and [t.scenario.id for t in samples] == [t.scenario.id for t in paired]
        and words == [4] * 3 + [1] * 4
        and probes == [4] * 6 + [8] * 4
        and len(pack(trajectories).names["policy"]) == 1
    )
    return Finding(holds and drift == 0.0 and same < 1e-5 and old == 0.0, say(noise_differs_by=same, probes=probes))


@claim("Likeness is 1 where the subject stands in any quarter, and 0 for what is empty or not finite.")
def likeness_is_of_the_subject() -> Finding:
    held, subject = digits("judge"), subject_pixels(4)
    others = held.pixels[held.label != 4][:40].reshape(10, 4, 64)
    alone, beside = [], []
    for place, four in enumerate(others):
        beside.append(likeness(canvas(four[None])[0], 4))
        four = four.copy()
        four[place % 4] = subject
        alone.append(likeness(canvas(four[None])[0], 4))
    empty = [likeness(np.full(256, fill, np.float32), 4) for fill in (-1.0, 1.0, np.nan)]
    holds = min(alone) > 1 - 1e-6 and max(beside) < 0.8 and max(empty) == 0.0
    return Finding(holds, say(with_it=min(alone), without=max(beside)))


VALIDATED, OTHERS, EVERY, STEPS = 64, 128, 15, 60


@cache
def curve(*, alone: bool) -> list[dict[str, float]]:
    """Every `EVERY` steps of a run: r on the unseen prompts that choose, and on others, with likeness and prompt.

    With `alone` it learns from the similarity loss, and nothing from pairs.
    """
    task = tasks.find("subject-digits")
    recipe = RPO.but({"objective.beta": 1e-9}) if alone else RPO
    pairs: list[tuple[str, Any]] = [("task", task.name), ("recipe", recipe), ("seed", 0), ("threads", 1)]
    pairs += [("curriculum.prompts", 2)] if alone else []
    parts = build_parts(configure(pairs, task), task)
    rows = [_measured(parts)]
    for step in range(1, STEPS + 1):
        run_async(train_step(parts, step))
        if step % EVERY == 0:
            rows.append(_measured(parts))
    return rows


def _measured(parts: RunContext) -> dict[str, float]:
    played = run_async(
        evaluate(
            *(parts.task, parts.player, ()),
            n=VALIDATED + OTHERS,
            decoding=parts.decoding,
            key=Key.of(0),
            split="eval",
        )
    ).trajectories
    value = [parts.task.success(trajectory) for trajectory in played]
    traits = [parts.task.describe(trajectory) for trajectory in played]
    shares = {name: float(np.mean([row[name] for row in traits])) for name in traits[0]}
    likely = float(np.mean([row["likeness"] for row in traits[:VALIDATED]]))
    return {"chosen by": float(np.mean(value[:VALIDATED])), "r": float(np.mean(value[VALIDATED:])), **shares} | {
        "likeness by": likely
    }


TRAITS = ("r", "likeness", "prompt")


@claim("As shipped, 60 steps raise r on unseen prompts by a tenth or more.", slow=True, learns=True)
def as_shipped_it_learns() -> Finding:
    before, after = curve(alone=False)[0], curve(alone=False)[-1]
    return Finding(after["r"] - before["r"] >= 0.1, say(**{f"{name}_before": before[name] for name in TRAITS}, **after))


@claim("With the preference loss, r and the share of the prompt that is followed end above those without.", slow=True)
def preferences_keep_to_the_prompt() -> Finding:
    ours, alone = curve(alone=False)[-1], curve(alone=True)[-1]
    holds = ours["prompt"] > alone["prompt"] + 0.05 and ours["r"] > alone["r"] and alone["likeness"] > ours["likeness"]
    return Finding(
        holds, say(**{name: ours[name] for name in TRAITS}, **{f"{name}_without": alone[name] for name in TRAITS})
    )


@claim(
    "The checkpoint that r chooses on 64 unseen prompts scores higher on 128 others than the last one does.", slow=True
)
def the_chosen_checkpoint_is_better() -> Finding:
    rows = curve(alone=False)
    chosen, like = (max(rows[1:], key=lambda row: row[by]) for by in ("chosen by", "likeness by"))
    figures = {"chosen": chosen["r"], "last": rows[-1]["r"], "chosen by likeness": like["r"]}
    return Finding(chosen["r"] > rows[-1]["r"] and chosen["r"] >= like["r"], say(**figures))


claim.shipped(RPO, "rollout", "combine", "credit", "regularisers")
