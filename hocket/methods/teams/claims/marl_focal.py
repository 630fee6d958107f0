"""Claims of committees chosen by focal diversity."""

from __future__ import annotations

import itertools
import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from hocket import tasks
from hocket.core.answers import add_answers
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.claims.lesson_data import begin
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.panels import Panel, of_answers, panel
from hocket.methods.teams.marl_focal import (
    LEAST,
    MARL_FOCAL,
    SURE,
    Committees,
    figures,
    focal_diversity,
    members,
)
from hocket.train.aio import run_async
from hocket.train.evaluate import evaluate

claim = Claims("marl-focal", "recalled")


def learnt(world: Panel, seed: int = 0, steps: int = 800, solver: Committees | None = None) -> Array:
    """The weights of votes on held-out questions."""
    solver = solver or Committees()
    state = solver.init(world, Key.of(seed))
    for step in range(steps):
        state, _ = solver.step(world, state, Key.of(seed).derive(step))
    return solver.answer(world, state)


def voting(world: Panel, *experts: int) -> float:
    """What a committee is worth whose votes count alike."""
    return world.value(np.tile(np.isin(np.arange(world.experts), experts) * 1.0, (len(world.truth[world.held]), 1)))


@claim("Focal diversity is 0 where members fail together, 1 where never two do, and in between as independence has it.")
def focal_diversity_is_0_where_members_fail_together_1_where_never() -> Finding:
    draw, off = Key.of(0).numpy(), 0.0
    one = draw.random((500, 1)) < 0.7
    alone = np.ones((9, 3), bool)
    alone[np.arange(9), np.arange(9) % 3] = False
    off = abs(focal_diversity(np.repeat(one, 4, 1))) + abs(focal_diversity(alone) - 1)
    off = max(off, abs(focal_diversity(np.ones((5, 2), bool)) - 1))
    for _ in range(20):
        record = draw.random((40, 3)) < 0.6
        found = []
        for member in range(3):
            shares = np.zeros(4)
            for row in record:
                shares[3 - row.sum()] += not row[member]
            shares /= shares.sum()
            first = sum(j / 3 * shares[j] for j in range(4))
            found.append(1 - sum(j * (j - 1) / 6 * shares[j] for j in range(4)) / first)
        off = max(off, abs(focal_diversity(record) - float(np.mean(found))))
    gap = 0.0
    for size, wrong in ((2, 0.3), (3, 0.4), (5, 0.2)):  # Others fail by Binomial(size - 1, wrong).
        share = [math.comb(size - 1, k) * wrong**k * (1 - wrong) ** (size - 1 - k) for k in range(size)]
        first = sum((k + 1) / size * p for k, p in enumerate(share))
        second = sum((k + 1) * k / (size * (size - 1)) * p for k, p in enumerate(share))
        gap = max(gap, abs(focal_diversity(draw.random((200_000, size)) > wrong) - (1 - second / first)))
    return Finding(off < 1e-12 and gap < 0.005, say(off=off, from_independence=gap))


@claim("Both agents' steps are the gradient of what the committees and answers drawn earned, by torch.")
def both_agents_steps_are_the_gradient_of_what_the_committees_and() -> Finding:
    import torch

    world, solver = panel(60), Committees(batch=40, rate=1.0)
    noise = Key.of(3).derive("noise").numpy()
    state = {**solver.init(world, Key.of(0))}
    state["decider"] = noise.normal(size=(2, 3))
    state["fuser"] = noise.normal(size=(2, 6))
    key = Key.of(8)
    after, told = solver.step(world, state, key)
    draw, asked = key.numpy(), members(world, 3)
    place, picks, words = draw.integers(0, 30, 40), draw.random(40), draw.random(40)
    decider, fuser = (torch.from_numpy(state[name]).requires_grad_() for name in ("decider", "fuser"))
    terms, earned = [], []
    for question, pick, word in zip(place, picks, words, strict=True):
        kind = int(world.kinds[question])
        chance = (torch.from_numpy(state["figures"][kind]) @ decider[kind]).log_softmax(-1)
        chosen = int((chance.exp().detach().cumsum(-1).numpy() <= pick).sum())
        speaking = [int(one) for one in np.flatnonzero(asked[chosen])]
        heard = list(dict.fromkeys(int(world.answers[question, one]) for one in speaking))
        support = torch.stack(
            [
                torch.stack([fuser[kind, one] for one in speaking if world.answers[question, one] == said]).sum()
                for said in heard
            ]
        ).log_softmax(-1)
        spoken = int((support.exp().detach().cumsum(-1).numpy() <= word).sum())
        terms.append(chance[chosen] + support[spoken])
        earned.append(float(heard[spoken] == world.truth[question]) - 0.01 * len(speaking))
    better = np.array(earned)
    for kind in (0, 1):
        better[world.kinds[place] == kind] -= better[world.kinds[place] == kind].mean()
    total = sum(float(gain) * term for gain, term in zip(better, terms, strict=True)) / 40
    assert isinstance(total, torch.Tensor)
    slopes = torch.autograd.grad(total, (decider, fuser))
    off = [
        float(np.abs(after[n] - state[n] - s.numpy()).max()) for n, s in zip(("decider", "fuser"), slopes, strict=True)
    ]
    return below(1e-12, decider=off[0], fuser=off[1], earned=abs(told["earned"] - float(np.mean(earned))))


@claim("A committee's figures are its focal diversity, accuracy and size on what was shown, standardised.")
def a_committees_figures_are_its_focal_diversity_accuracy_and_size() -> Finding:
    world = panel(200)
    asked, off = members(world, 3), 0.0
    sets = [one for size in (2, 3) for one in itertools.combinations(range(6), size)]
    same = [tuple(int(m) for m in np.flatnonzero(row)) for row in asked] == sets
    for kind in (0, 1):
        rows = [q for q in range(100) if world.kinds[q] == kind]
        raw = []
        for one in sets:
            right = world.answers[rows][:, list(one)] == world.truth[rows][:, None]
            raw.append([focal_diversity(right), right.mean(), len(one)])
        table = np.array(raw)
        off = max(off, float(np.abs(figures(world, asked, True)[kind] - (table - table.mean(0)) / table.std(0)).max()))
    blind = np.abs(figures(world, asked, False)[..., 0]).max()
    return below(1e-12, same, off=off, blind=float(blind))


@claim("The vote with most weight is the answer, those of weight 0 are not asked, and each who is costs its price.")
def the_vote_with_most_weight_is_the_answer_those_of_weight_0_are() -> Finding:
    answers = np.array([[0, 0, 0], [0, 0, 0], [1, 2, 2], [3, 1, 0]])
    world = Panel(answers, np.array([0, 0, 1, 0]), np.zeros(4, np.int64), 0.1)
    cases = (
        (world.value(np.array([[1.0, 0.4, 0.4], [0, 0, 1.0]])), 1 - 0.1 * 2),
        (world.value(np.array([[1.0, 0.6, 0.6], [1.0, 1.0, 1.0]])), 0.5 - 0.1 * 3),
        (world.value(np.array([[0.0, 0.6, 0.6], [LEAST, 1.0, 0]])), 0 - 0.1 * 2),
    )
    off = max(abs(found - right) for found, right in cases)
    return below(1e-12, SURE > 1, off=off, optimum=abs(world.optimum - 0.9))


@claim("What is chosen beats the three most accurate by vote, and all six, and asks fewer than all.")
def what_is_chosen_beats_the_three_most_accurate_by_vote_and_all() -> Finding:
    world = panel(2000)
    shown = world.right[world.shown].mean(0)
    best = [int(one) for one in np.argsort(-shown)[:3]]
    values = [world.value(learnt(world, seed)) for seed in range(3)]
    asked = float((learnt(world) > 0).sum(-1).mean())
    top, whole = voting(world, *best), voting(world, *range(6))
    return Finding(
        min(values) > max(top, whole) + 0.05 and asked <= 3, say(chosen=values, top_three=top, all=whole, asked=asked)
    )


@claim("Where one who was asked is corrupted, learning anew leaves it out and loses less than its committee does.")
def where_one_who_was_asked_is_corrupted_learning_anew_leaves_it() -> Finding:
    world = panel(2000)
    weights = learnt(world)
    kind = world.kinds[world.held]
    rarest = 4 if (weights[kind == 0][0] > 0)[4] else 3
    spoilt = world.answers.copy()
    spoilt[:, rarest] = Key.of(1).derive("spoilt").numpy().integers(0, 4, len(spoilt))
    after = replace(world, answers=spoilt)
    kept, anew = after.value(weights), learnt(after)
    left_out = not (anew[:, rarest] > 0).any()
    better = after.value(anew)
    return Finding(better > kept + 0.01 and left_out, say(before=world.value(weights), kept=kept, anew=better))


# ---------------------------------------------------------------- language models

SUMS, CHAINS = "sums", "reasoning-gym:chain_sum"
TAUGHT = ((SUMS, 0), (SUMS, 1), (SUMS, 2), (CHAINS, 0), (CHAINS, 1))
"""Five experts: the shipped model after GRPO on one of two tasks, with a seed of its own."""


def on_record(folder: Path, steps: int = 24, questions: int = 100) -> Panel:
    """What these five answered, each to the same questions of both tasks, read from their files."""
    files = []
    for number, (task, seed) in enumerate(TAUGHT):
        pupil = begin("grpo", task, {"seed": seed, "curriculum.prompts": 8, "update.lr": 6e-4}).run(steps)
        files.append(folder / f"{number}.jsonl")
        for asked in map(tasks.find, (SUMS, CHAINS)):
            found = run_async(
                evaluate(
                    asked,
                    pupil.parts.player,
                    asked.rewards,
                    n=questions,
                    decoding=pupil.parts.decoding,
                    key=Key.of(0).derive("record"),
                )
            )
            add_answers(files[-1], asked, found.trajectories, found.each)
    return of_answers(files)


@claim(
    "Of five language models' answers on record, taught by two tasks and alike, the committee learnt asks at most "
    "three and is worth what the vote of the three most accurate is, within .02; the vote of all is worth more.",
    slow=True,
)
def of_five_language_models_answers_on_record_taught_by_two_tasks() -> Finding:
    """Predicted was that the committee is worth more than both."""
    with tempfile.TemporaryDirectory() as folder:
        world = on_record(Path(folder))
    best = [int(one) for one in np.argsort(-world.right[world.shown].mean(0))[:3]]
    values = [world.value(learnt(world, seed)) for seed in range(3)]
    asked = float((learnt(world) > 0).sum(-1).mean())
    top, whole = voting(world, *best), voting(world, *range(world.experts))
    right = world.right[world.held]
    each = [right[world.kinds[world.held] == kind].mean(0).tolist() for kind in (0, 1)]
    alike = [focal_diversity(right[:, list(pair)]) for pair in itertools.combinations(range(world.experts), 2)]
    return Finding(
        max(abs(one - top) for one in values) < 0.02 and max(values) < whole and asked <= 3,
        say(chosen=values, top_three=top, all=whole, asked=asked, right=each[0], and_of_the_other=each[1], pairs=alike),
    )


@claim("Every vote weighs 4 at first; who is asked and came to less than nothing has 1e-6, and who is not asked none.")
def every_vote_weighs_4_at_first_who_is_asked_and_came_to_less_than() -> Finding:
    world, solver = panel(60), Committees()
    state = solver.init(world, Key.of(0))
    low = {**state, "fuser": np.full_like(state["fuser"], -3.0)}
    found = solver.answer(world, low)
    holds = bool((state["fuser"] == 4.0).all()) and set(np.unique(found)) == {0.0, 1e-6}
    return Finding(holds, say(first=float(state["fuser"].max()), weights=sorted(set(found.ravel().tolist()))))


claim.spares("-1 -> 1", "the last of two dimensions")
claim.spares("1.0 -> 40.0", "of no failures the share of two failing is 0, whatever it is divided by")
claim.solved(MARL_FOCAL, {"focal": False}, better={"value": 1})
