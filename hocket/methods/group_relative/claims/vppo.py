"""VPPO's claims."""

from __future__ import annotations

import math
import tempfile
from statistics import fmean
from typing import Any

import numpy as np
import torch

import hocket
from hocket.agents.workflows.chat import Chat
from hocket.core.keys import Key
from hocket.core.media import FIRST, MEDIA, pictures_in, reader_of
from hocket.core.packing import pack
from hocket.core.pictures import open_picture
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.recorded_answers import document, lines, sample
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.vppo import (
    DEPENDENCE,
    VPPO,
    counterfactual,
    dependence,
    measured,
    patched,
    weights_of,
)
from hocket.nano import SIGHT
from hocket.policies.causal_lm import CausalLM
from hocket.recipe import Recipe
from hocket.tasks.digits import Digits
from hocket.types import Decoding, Evaluation, Quantity, Scenario, Trajectory, Turn

claim = Claims("vppo", "arXiv 2510.09285")

REWARDS = (1.0, 0.0, 0.0, 1.0, 1.0, 0.0)
SCORES = ((0.5, 0.0, 2.0, 0.1), (3.0,), (0.2, 0.2, 0.2), (0.0, 1.0), (4.0, 0.5, 0.5, 1.0, 2.0), (0.3, 0.7))


def gradients(recipe: Recipe) -> list[list[float]]:
    """The gradient at every decision of two groups of three answers whose dependence is `SCORES`."""
    rng = Key.of(3).numpy()
    rows = [
        sample("ab"[n // 3], reward, (-rng.random(len(row))).tolist(), tokens=[0] * len(row))
        for n, (reward, row) in enumerate(zip(REWARDS, SCORES, strict=True))
    ]
    read = RecordedBatch(document(rows))
    annotations = {DEPENDENCE.name: torch.tensor([s for row in SCORES for s in row], dtype=torch.float64)}
    batch, _ = recipe.compute_credit(read.batch.but(annotations=annotations), recipe.init(), {})
    leaf = read.logp.clone().requires_grad_()
    loss = torch.stack([term.total() for term in recipe.loss(Evaluation(logp=leaf), batch)]).sum()
    return read.by_trajectory(torch.autograd.grad(loss, leaf)[0])


def factors(share: float, least: float) -> list[list[float]]:
    """What GRPO's gradient is multiplied by, counted by hand."""
    means = [fmean(row) for row in SCORES]
    low, high = min(means), max(means)
    scaled = [(mean - low) / (high - low) for mean in means]
    most = least + (1 - least) / fmean(scaled)
    rows = []
    for row, place in zip(SCORES, scaled, strict=True):
        first = sorted(range(len(row)), key=lambda t: (-row[t], t))[: math.ceil(share * len(row))]
        alpha = least + place * (most - least)
        rows.append([alpha if t in first else 0.0 for t in range(len(row))])
    return rows


@claim("Each answer's gradient is GRPO's times its weight at its most dependent tokens, and 0 at the others, by hand.")
def each_answers_gradient_is_grpos_times_its_weight_at_its_most() -> Finding:
    plain, off = gradients(GRPO), []
    for share, least in ((0.4, 0.9), (0.7, 0.2)):
        ours = gradients(VPPO.but({"credit.share": share, "credit.least": least}))
        wanted = [
            [f * g for f, g in zip(*rows, strict=True)] for rows in zip(factors(share, least), plain, strict=True)
        ]
        off.append(gap(ours, wanted))
    shipped = gap(gradients(VPPO), gradients(VPPO.but({"credit.share": 0.4, "credit.least": 0.9})))
    return Finding(max(off) < EXACT and shipped == 0, f"off by {max(off):.2g}")


@claim("With share 1 and least 1 it is GRPO; weights have the mean 1, and are 1 where all depend alike.")
def with_share_1_and_least_1_it_is_grpo_weights_have_the_mean_1() -> Finding:
    off = gap(gradients(VPPO.but({"credit.share": 1.0, "credit.least": 1.0})), gradients(GRPO))
    scores = torch.from_numpy(Key.of(4).numpy().gamma(1.0, size=9))
    weights = weights_of(scores, 0.9)
    alike = weights_of(torch.full((3,), 2.0, dtype=torch.float64), 0.9).tolist() == [1.0] * 3
    mean, least = float(weights.mean()), float(weights.min())
    holds = off == 0 and abs(mean - 1) < 1e-12 and abs(least - 0.9) < 1e-12 and alike
    return Finding(holds, lines(off_by=off, mean=mean, least=least))


@claim("The score is e^d - d - 1 of the log-probs' difference, cut to [0, 10], by hand.")
def the_score_is_e_d_d_1_of_the_log_probs_difference_cut_to_0_10() -> Finding:
    real, without = [-1.0, -2.0, -0.5, -30.0, -1.0], [-1.0, -0.5, -3.0, -1.0, -90.0]
    scores = dependence(torch.tensor(real), torch.tensor(without)).tolist()
    gaps = [min(max(b - a, -20.0), 20.0) for a, b in zip(real, without, strict=True)]
    wanted = [min(math.exp(d) - d - 1, 10.0) for d in gaps]
    return Finding(gap([scores], [wanted]) < 1e-6 and scores[0] == 0, lines(scores=scores))


@claim("Half of the patches are black, of 14 pixels or a quarter of a small side; the others are as they were.")
def half_of_the_patches_are_black_of_14_pixels_or_a_quarter_of_a() -> Finding:
    rng, shares, sizes = Key.of(5).numpy(), [], []
    for side, size in ((16, 4), (140, 14), (60, 14)):
        pixels = rng.integers(1, 256, (side, side, 3), dtype=np.uint8)
        drawn = np.stack([patched(pixels, rng) for _ in range(40)])
        black = (drawn == 0).all(-1)
        cells = black[:, : side // size * size, : side // size * size].reshape(40, side // size, size, -1, size)
        sizes.append(bool((cells.all((2, 4)) == cells.any((2, 4))).all() and (drawn[~black] > 0).all()))
        sizes.append(bool((np.where(black[..., None], 0, pixels) == drawn).all()))
        shares.append(float(black.mean()))
    return Finding(all(sizes) and all(abs(share - 0.5) < 0.06 for share in shares), lines(black=shares))


@claim("On digits the tokens that read the picture depend on it, tags hardly, and none on a picture that is whole.")
def on_digits_the_tokens_that_read_the_picture_depend_on_it_tags() -> Finding:
    """Worked answers that are right, to 24 questions."""
    policy, task = CausalLM.from_pretrained(SIGHT, key=Key.of(0)), Digits(kinds=("largest",))
    chat, reading, tags = Chat(policy.tokenizer), list[int](), list[int]()
    trajectories, count = [], 0
    for number in range(24):
        scenario = task.scenario("train", number)
        action = [*chat.encode(str(scenario.metadata["demonstration"])), chat.end_of_turn]
        turn = Turn("a", "policy", np.array(chat.opening(scenario.messages)), np.array(action), decoding=Decoding())
        trajectories.append(Trajectory(Scenario(str(number)), [turn], terminated=True))
        words = [chat.render([token]) for token in action]
        first = words.index("</think>")
        reading += [count + n for n, word in enumerate(words) if n < first and word.isdigit()]
        tags += [count + n for n, word in enumerate(words) if word in ("</think>", "<answer>", "</answer>")]
        count += len(action)
    every = torch.arange(count)
    logp = policy.evaluate(pack(trajectories), {Quantity.LOGP}).get(Quantity.LOGP).detach().numpy()
    ends = np.cumsum([len(trajectory.turns[0]) for trajectory in trajectories])
    for trajectory, row in zip(trajectories, np.split(logp, ends[:-1]), strict=True):
        trajectory.turns[0].logp = row
    batch = pack(trajectories)
    scores, intact = measured(batch, policy, every), measured(batch, policy, every, chance=0.0)
    read, written = float(scores[reading].mean()), float(scores[tags].mean())
    holds = bool((scores >= 0).all()) and read > 1 and written < read / 10 and not intact.any()
    return Finding(holds, lines(reading=read, tags=written, intact=float(intact.max())))


@claim("A counterfactual has the same words and as many picture tokens, of another picture, the same for all answers.")
def a_counterfactual_has_the_same_words_and_as_many_picture_tokens() -> Finding:
    policy = CausalLM.from_pretrained(SIGHT, key=Key.of(0))
    reader, scenario = reader_of(policy.tokenizer), Digits().scenario("train", 0)
    assert reader is not None
    tokens = np.array(Chat(policy.tokenizer).opening(scenario.messages))
    other, again = counterfactual(tokens, reader), counterfactual(tokens, reader)
    pictured = tokens >= FIRST
    source = MEDIA.processed(MEDIA.token(int(other[pictured][0])).picture).source
    pixels = [np.asarray(open_picture(MEDIA.data(name), name)) for name in (*pictures_in(scenario.messages), source)]
    holds = bool(
        (tokens[~pictured] == other[~pictured]).all() and (other[pictured] >= FIRST).all() and (other == again).all()
    )
    holds &= not set(tokens[pictured].tolist()) & set(other[pictured].tolist())
    holds &= bool(((pixels[1] == pixels[0]) | (pixels[1] == 0)).all()) and bool((pixels[1] != pixels[0]).any())
    return Finding(holds, f"{int(pictured.sum())} picture tokens replaced")


@claim(
    "On handwriting that nobody has seen it learns to read before it answers: accuracy rises by 10 points.", slow=True
)
def on_handwriting_that_nobody_has_seen_it_learns_to_read_before_it() -> Finding:
    more: dict[str, Any] = {"evaluation.n": 300, "evaluation.every": 0, "threads": 1, "precision": "fp32"}
    with tempfile.TemporaryDirectory() as folder:
        run = hocket.train("digits", model="nano-vlm", recipe=VPPO, steps=30, runs=folder, **more)
        before, after = (float(run.summary[when]["accuracy"]) for when in ("before", "after"))
    return Finding(after > before + 0.1, lines(before=before, after=after))


claim.shipped(VPPO, "credit", settings={"model": "nano-vlm"})
