"""L2RLCF's claims."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, cases, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.methods.base.ppo import PPO
from hocket.methods.systems.l2rlcf.method import (
    L2RLCF,
    L2RLCF_ALONE,
    L2RLCF_CONSOLIDATION,
    L2RLCF_REHEARSAL,
    Consolidation,
    LifelongMeasures,
    Performance,
    Rehearsal,
    TaskSequence,
    importance,
    kind,
    pulled,
)
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.value import ValueLoss
from hocket.policies.control import ControlPolicy
from hocket.recipe import Recipe
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, collect, train_step

claim = Claims("l2rlcf", "arXiv:2212.04603")
KINDS = "errands:ABC"
ARMS = {one.name.removeprefix("l2rlcf-"): one for one in (L2RLCF_ALONE, L2RLCF_REHEARSAL, L2RLCF_CONSOLIDATION, L2RLCF)}


def begun(recipe: Recipe, seed: int = 0, **settings: Any) -> RunContext:
    """A run as the task suggests it, before its first step."""
    task = tasks.find(KINDS)
    pairs = [(name.replace("__", "."), value) for name, value in settings.items()]
    return build_parts(configure([("recipe", recipe), ("seed", seed), ("threads", 1), *pairs], task), task)


def advanced(parts: RunContext, steps: int, prompts: int) -> list[dict[str, float]]:
    """The metrics of so many steps, the first ones of a run."""
    rows = []
    for step in range(1, steps + 1):
        rows.append(asyncio.run(train_step(parts, step)).metrics)
        parts.asked = step * prompts
    return rows


# ---------------------------------------------------------------- measures


@claim("Forgetting, forward transfer and relative performance of a matrix are those reckoned by hand.")
def forgetting_forward_transfer_and_relative_performance_of_a() -> Finding:
    rows = [
        {"A": 0.1, "B": 0.1, "C": 0.2},
        {"A": 0.9, "B": 0.3, "C": 0.2},
        {"A": 0.4, "B": 0.8, "C": 0.1},
        {"A": 0.7, "B": 0.6, "C": 0.4},
        {"A": 0.5, "B": 0.9, "C": 0.6},
    ]
    found = Performance(["", "A", "B", "A", "C"], rows)
    early = Performance(["", "A", "B"], rows[:3])
    gaps = {
        "A": found.forgetting("A") - 0.4,
        "B": found.forgetting("B"),
        "C": found.forgetting("C"),
        "mean": found.mean_forgetting() - 0.2,
        "early": early.mean_forgetting() - 0.5,
        "not_met": early.forgetting("C"),
        "first": Performance([""], rows[:1]).mean_forgetting(),
        "to_A": found.transfer("A"),
        "to_B": found.transfer("B") - 0.2,
        "to_C": found.transfer("C") - 0.2,
        "not_yet": early.transfer("C") + 0.1,
        "relative": found.relative({"A": 1.0, "B": 0.9, "C": 0.8}) - (0.5 + 1.0 + 0.75) / 3,
    }
    return below(EXACT, **{name: abs(gap) for name, gap in gaps.items()})


# ---------------------------------------------------------------- components


@claim(
    "The pull is the exact minimiser of distance and penalty, however strong, and leaves what nobody needs as it is."
)
def the_pull_is_the_exact_minimiser_of_distance_and_penalty_however() -> Finding:
    policy = cast(ControlPolicy, begun(L2RLCF, curriculum__prompts=2).lead.policy)
    policy.module.double()
    noise = Key.of(3).torch()
    names = [name for name, _ in policy.module.named_parameters()]
    start = {name: one.detach().clone() for name, one in policy.module.named_parameters()}
    anchor = {name: one + torch.randn(one.shape, generator=noise, dtype=one.dtype) for name, one in start.items()}
    fisher = {name: torch.rand(one.shape, generator=noise, dtype=one.dtype) for name, one in start.items()}
    fisher[names[0]].zero_()
    slope, far, norm = 0.0, 0.0, 0.0
    for strength in (0.3, 1e6):
        for name, one in policy.module.named_parameters():
            one.data.copy_(start[name])
        norm = pulled(policy, anchor, fisher, strength)
        for name, one in policy.module.named_parameters():
            left = (one - start[name] + strength * fisher[name] * (one - anchor[name])) / (1 + strength * fisher[name])
            slope = max(slope, float(left.detach().abs().max()))
    moved = {name: one.detach() - start[name] for name, one in policy.module.named_parameters()}
    far = sum(float(one.square().sum()) for one in moved.values()) ** 0.5
    kept = float(moved[names[0]].abs().max())
    return below(1e-9, slope=slope, norm=abs(norm - far) / far, unneeded=kept)


@claim("Importance is the mean over episodes of the squared slope of all log-probs of one, by a network of its own.")
def importance_is_the_mean_over_episodes_of_the_squared_slope_of() -> Finding:
    parts = begun(L2RLCF, curriculum__prompts=6)
    policy = cast(ControlPolicy, parts.lead.policy)
    played = asyncio.run(collect(parts, Key.of(1)))[0].trajectories
    ours = importance(policy, pack(played), 4)
    weights = dict(policy.module.named_parameters())
    by_hand = {name: torch.zeros_like(one) for name, one in weights.items()}
    for episode in played[:4]:
        (turn,) = episode.turns
        seen = torch.as_tensor(np.asarray(turn.observation), dtype=torch.float32)
        logits = policy.module.actor(seen)
        moves = torch.as_tensor(np.asarray(turn.action)).long().reshape(-1, 1)
        total = logits.log_softmax(-1).gather(1, moves).sum()
        for name, slope in zip(
            weights, torch.autograd.grad(total, list(weights.values()), allow_unused=True), strict=True
        ):
            by_hand[name] += 0 if slope is None else slope**2 / 4
    size = max(float(one.abs().max()) for one in by_hand.values())
    gap = max(float((ours[name] - by_hand[name]).abs().max()) for name in weights)
    idle = sum(float(one.abs().max()) == 0 for one in ours.values())
    return below(1e-5 * size, size > 0, 0 < idle < len(ours), largest_difference=gap)


@claim("Tasks follow one another as told, over again at the end, no scenario twice; a kind that is none is refused.")
def tasks_follow_one_another_as_told_over_again_at_the_end_no() -> Finding:
    task, ledger = tasks.find(KINDS), cast(Any, None)
    sequence, order, ids = TaskSequence(prompts=4, order="A-B-A-C", every=2), "", Counter[str]()
    for step in range(16):
        asked = sequence(task, 4 * step, 4, ledger, Key.of(5))
        (letter,) = {one.metadata["kind"] for one in asked}
        order += letter
        ids.update(one.id for one in asked)
    try:
        TaskSequence(order="A-D")(task, 0, 1, ledger, Key.of(5))
        said = ""
    except ConfigurationError as error:
        said = str(error)
    holds = order == "AABBAACC" * 2 and max(ids.values()) == 1 and "has no kind 'D'" in said
    return Finding(holds, say(order=order, scenarios=len(ids), refused=said))


@claim("Rehearsal brings back other tasks' episodes alone, as they were sampled, evenly, and the newest that it kept.")
def rehearsal_brings_back_other_tasks_episodes_alone_as_they_were() -> Finding:
    small = L2RLCF_REHEARSAL.but(
        {"curriculum.every": 2, "rollout.keep": 6, "rollout.count": 4, "curriculum.prompts": 4}
    )
    parts = begun(small, curriculum__prompts=4)
    fresh: dict[str, Any] = {}
    met: dict[str, list[str]] = {"A": [], "B": [], "C": []}
    came, same = [], True
    for step in range(1, 9):
        result = asyncio.run(train_step(parts, step))
        parts.asked = 4 * step
        new = [one for one in result.trajectories if one.source != "replay"]
        old = [one for one in result.trajectories if one.source == "replay"]
        came.append("".join(sorted(map(kind, old))))
        for one in old:
            same &= np.array_equal(np.asarray(one.turns[0].logp), fresh[one.scenario.id])
            same &= one.scenario.id in met[kind(one)][-6:]
        for one in new:
            fresh[one.scenario.id] = np.asarray(one.turns[0].logp).copy()
            met[kind(one)].append(one.scenario.id)
    holds = came == ["", "", "AAAA", "AAAA", "BBBB", "BBBB", "AABB", "AABB"] and same
    return Finding(holds, say(came_back=" ".join(one or "-" for one in came), as_sampled=same))


@claim("Beside rehearsal, too, a step is of the task that is played in it: for what is held, and for the measures.")
def beside_rehearsal_too_a_step_is_of_the_task_that_is_played_in_it() -> Finding:
    small = L2RLCF.but({"curriculum.every": 2, "curriculum.prompts": 4, "hooks.0.samples": 3, "hooks.1.every": 2})
    parts = begun(small, curriculum__prompts=4)
    rows = advanced(parts, 8, 4)
    trained = "".join(parts.hooks.memories["LifelongMeasures"]["trained"])
    pulls, back = ([row[name] for row in rows[2:]] for name in ("consolidation/pull", "replay/trajectories"))
    return Finding(trained == "ABAC" and min(pulls) > 0 and min(back) > 0, say(trained=trained, pulls=pulls, back=back))


@claim(
    "Nothing is held fast within the first task; at the first step of the next the weights at the end of the last are."
)
def nothing_is_held_fast_within_the_first_task_at_the_first_step_of() -> Finding:
    small = L2RLCF_CONSOLIDATION.but({"curriculum.every": 2, "curriculum.prompts": 4, "hooks.0.samples": 3})
    parts = begun(small, curriculum__prompts=4)
    pulls, before, anchors = [], [], []
    for step in range(1, 6):
        before.append([one.detach().clone() for one in parts.lead.policy.module.parameters()])
        pulls.append(asyncio.run(train_step(parts, step)).metrics["consolidation/pull"])
        parts.asked = 4 * step
        anchors.append(parts.hooks.memories["Consolidation"]["policies"][parts.lead.policy.name].get("anchor"))
    fast = [anchor is not None for anchor in anchors]
    same = all(torch.equal(held, old) for held, old in zip((anchors[2] or {}).values(), before[2], strict=True))
    later = all(torch.equal(held, old) for held, old in zip((anchors[4] or {}).values(), before[4], strict=True))
    holds = fast == [False, False, True, True, True] and pulls[:2] == [0.0, 0.0] and min(pulls[2:]) > 0
    return Finding(holds and same and later, say(pulls=pulls, held_is_the_end=same, and_of_the_next=later))


@claim(
    "Within a task importance is a running mean of what steps measure, over tasks a sum; held is the end of the last."
)
def within_a_task_importance_is_a_running_mean_of_what_steps() -> Finding:
    parts = begun(L2RLCF, curriculum__prompts=4, curriculum__every=2)
    policy, hook = cast(ControlPolicy, parts.lead.policy), Consolidation(strength=0.5, samples=3, decay=0.75)
    run, memory = cast(Any, SimpleNamespace(trained={policy.name: policy})), hook.begin(cast(Any, None), None)
    measured, ends, off = list[dict[str, torch.Tensor]](), list[dict[str, torch.Tensor]](), 0.0
    noise, total, recent = Key.of(4).torch(), dict[str, torch.Tensor](), dict[str, torch.Tensor]()
    for step in range(5):
        parts.asked = 4 * step
        played = asyncio.run(collect(parts, Key.of(step)))[0].trajectories
        for one in policy.module.parameters():
            one.data += 0.1 * torch.randn(one.shape, generator=noise, dtype=one.dtype)
        measured.append(importance(policy, pack(played), 3))
        before = {name: one.detach().clone() for name, one in policy.module.named_parameters()}
        result = StepResult({}, played, pack(played))
        memory = asyncio.run(hook.after(run, step + 1, result, memory))
        held = memory["policies"][policy.name]
        if step in (2, 4):
            total = {name: one + total[name] if total else one for name, one in recent.items()}
        joins = step % 2 == 0
        recent = {name: one if joins else 0.75 * recent[name] + 0.25 * one for name, one in measured[-1].items()}
        moved = 0.0
        for name, one in policy.module.named_parameters():
            hold = 0.5 * total[name] if total else torch.zeros(())
            anchor = ends[step // 2 * 2 - 1][name] if total else before[name]
            due = (before[name] + hold * anchor) / (1 + hold)
            off = max(
                off, float((one.detach() - due).abs().max()), float((held["recent"][name] - recent[name]).abs().max())
            )
            moved += float((due - before[name]).square().sum())
        off = max(off, abs(result.metrics["consolidation/pull"] - moved**0.5))
        ends.append({name: one.detach().clone() for name, one in policy.module.named_parameters()})
    return below(1e-5, off=off)


@claim("It ships as it says: 40 steps of 64 of A, B, A, C, 64 of 256 kept, strength 1, and parts left out by name.")
def it_ships_as_it_says_40_steps_of_64_of_a_b_a_c_64_of_256_kept() -> Finding:
    learner = (ValueLoss(coefficient=0.5, aggregate="token-mean"), EntropyBonus(coefficient=0.01))
    measures, hold = LifelongMeasures(every=40, n=60), Consolidation(1.0, 16, 0.9)
    back, asked = Rehearsal(samples=1, keep=256, count=64), TaskSequence(64, "A-B-A-C", 40)
    parts = [
        (L2RLCF, back, (hold, measures)),
        (L2RLCF_REHEARSAL, back, (measures,)),
        (L2RLCF_CONSOLIDATION, PPO.rollout, (hold, measures)),
        (L2RLCF_ALONE, PPO.rollout, (measures,)),
    ]

    def stated(one: Recipe, *parts: Any) -> bool:
        return (one.rollout, one.hooks, one.curriculum, one.regularisers) == (*parts, asked, learner)

    return cases(parts, stated)


# ---------------------------------------------------------------- a sequence


@functools.cache
def learnt(arm: str, seed: int) -> Performance:
    """How well each task was done before, and after each of the four tasks of the sequence."""
    parts = begun(ARMS[arm], seed)
    advanced(parts, 160, 64)
    memory = parts.hooks.memories["LifelongMeasures"]
    return Performance(memory["trained"], memory["rows"])


def lost(found: Performance) -> float:
    """Of A, while B was learnt: shares of the way."""
    return found.rows[1]["A"] - found.rows[2]["A"]


@claim(
    "In a sequence A, B, A, C the learner alone forgets A while it learns B; rehearsal, consolidation and both "
    "together forget less each.",
    slow=True,
)
def in_a_sequence_a_b_a_c_the_learner_alone_forgets_a_while_it() -> Finding:
    losses = {arm: [lost(learnt(arm, seed)) for seed in (0, 1)] for arm in ARMS}
    alone = losses.pop("alone")
    holds = min(alone) > 0.5 and all(
        own < base for arm in losses.values() for own, base in zip(arm, alone, strict=True)
    )
    return Finding(holds, say(alone=alone, **losses))


@claim("What keeps A costs something of B: the learner alone, which forgets, learns it best.", slow=True)
def what_keeps_a_costs_something_of_b_the_learner_alone_which() -> Finding:
    gained: Mapping[str, list[float]] = {arm: [learnt(arm, seed).rows[2]["B"] for seed in (0, 1)] for arm in ARMS}
    best = fmean(gained["alone"])
    return Finding(all(fmean(one) < best for arm, one in gained.items() if arm != "alone"), say(**gained))


def _acting(run: ShippedRun) -> dict[str, float]:
    """In the second task: how many episodes came back, and how far weights were pulled."""
    last = run.results[-1].metrics
    return {"brought back": last["replay/trajectories"], "pull": last["consolidation/pull"]}


claim.spares("-1 -> 1", "all fresh episodes of a step are of one task")
claim.spares("2 ** 20 -> 2", "where a run begins among the scenarios is chance")
claim.shipped(L2RLCF, "rollout", "hooks", steps=42, sees=_acting)
