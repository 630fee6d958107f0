"""HAMMER's claims."""

from __future__ import annotations

import asyncio
from statistics import fmean

import numpy as np
import torch

from hocket import tasks
from hocket.core.casting import Separate
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.teams import interval, trained
from hocket.methods.marl.hammer.message_channel import VOICE
from hocket.methods.marl.hammer.method import HAMMER
from hocket.methods.marl.ippo import IPPO
from hocket.recipe import Recipe
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import collect, train_step
from hocket.types import Trajectory

claim = Claims("hammer", "arXiv:2102.00824")
SEEN = "mpe:spread?agents=2&own=true&local=0.1"
HIDDEN, TALKED = f"{SEEN}&hidden=true", f"{SEEN}&hidden=true&messages=5"
STEPS, FRESH = 160, (5, 6, 7)
AMPLE = (("curriculum.prompts", 256), ("update.lr", 3e-3), ("update.epochs", 4))
"""What worlds with messages suggest, for those without."""


@claim("With no messages it is independent PPO: the weights are equal bit for bit.")
def with_no_messages_it_is_independent_ppo_the_weights_are_equal() -> Finding:
    furthest, moved = 0.0, 0.0
    for world in ("mpe:spread?agents=2&hidden=true&length=8", "forage:5x5-3p-1f?length=6"):
        ours, theirs = _weights(HAMMER, f"{world}&messages=0"), _weights(IPPO, world)
        furthest = max(furthest, float((ours[-1] - theirs[-1]).abs().max()))
        moved = max(moved, float((ours[-1] - ours[0]).abs().max()))
    return Finding(furthest == 0 and moved > 0, say(largest_difference_of_weights=furthest, moved=moved))


def _weights(recipe: Recipe, name: str) -> list[torch.Tensor]:
    """Of all policies before, and after each of two steps, flat."""
    task = tasks.find(name)
    parts = build_parts(configure([("recipe", recipe), ("task", name), ("curriculum.prompts", 4)], task), task)
    found = []
    for step in (0, 1, 2):
        if step:
            asyncio.run(train_step(parts, step))
        modules = [learner.policy.module for learner in parts.learners.values()]
        found.append(torch.cat([one.detach().flatten() for module in modules for one in module.parameters()]))
    return found


@claim("Every local agent hears its own message and no other; the messenger earns the mean of all rewards.")
def every_local_agent_hears_its_own_message_and_no_other_the() -> Finding:
    heard, error, decisions = 1.0, 0.0, 0
    for name in ("forage:5x5-3p-2f?length=9&messages=3", "mpe:spread?agents=2&messages=4&hidden=true"):
        task = tasks.find(name)
        parts = build_parts(configure([("recipe", HAMMER), ("task", name), ("curriculum.prompts", 8)], task), task)
        for trajectory in asyncio.run(collect(parts, Key.of(3)))[0].trajectories:
            same, off, count = _compared(trajectory, int(name.partition("messages=")[2][0]))
            heard, error, decisions = min(heard, same), max(error, off), decisions + count
    return below(EXACT, heard == 1.0, decisions > 0, largest_error_of_rewards=error)


def _compared(trajectory: Trajectory, symbols: int) -> tuple[float, float, int]:
    """The least share of messages heard as sent, the largest error of a messenger's reward, and how many messages."""
    score = np.asarray(trajectory.scores["reward"].value, np.float64)
    earned, start = {}, 0
    for turn in trajectory.turns:
        earned[turn.agent] = score[start : start + len(turn)]
        start += len(turn)
    below_it = [turn for turn in trajectory.turns if not turn.agent.startswith(VOICE)]
    longest = max(len(turn) for turn in below_it)
    mean = np.sum([np.pad(earned[turn.agent], (0, longest - len(turn))) for turn in below_it], 0) / len(below_it)
    voices = {turn.agent: turn for turn in trajectory.turns if turn.agent.startswith(VOICE)}
    share, error, ids = 1.0, 0.0, len(below_it) if len(below_it) > 1 else 0
    for turn in below_it:
        voice = voices[f"{VOICE}_{turn.agent}"]
        assert turn.time is not None
        assert voice.time is not None
        seen = np.asarray(turn.observation)
        told = seen[:, : seen.shape[1] - ids][:, -symbols:]  # Then who it is, among its like.
        right = np.array_equal(turn.time, voice.time[: len(turn)] + 1)
        share = min(share, float((told == np.eye(symbols)[voice.action[: len(turn)]]).all()) * right)
        error = max(error, float(np.abs(earned[voice.agent] - mean).max()))
    return share, error, len(below_it) * longest


@claim(
    "Where their landmarks are hidden two agents that are told of them gain two thirds and more of what two that see "
    "them gain over independent PPO, in each of 3 seeds, and are above independent PPO and above two told at random, "
    "95 % intervals apart (predicted).",
    slow=True,
)
def where_their_landmarks_are_hidden_two_agents_that_are_told_of() -> Finding:
    mute = (*AMPLE, *((f"roles.{VOICE}_agent_{number}.frozen", True) for number in range(2)))
    told = [trained("hammer", TALKED, seed, STEPS).score for seed in FRESH]
    alone = [trained("ippo", HIDDEN, seed, STEPS // 4, AMPLE).score for seed in FRESH]
    sees = [trained("ippo", SEEN, seed, STEPS // 4, AMPLE).score for seed in FRESH]
    noise = [trained("hammer", TALKED, seed, STEPS // 4, mute).score for seed in FRESH]
    ground = fmean(alone)
    gained = [(score - ground) / (fmean(sees) - ground) for score in told]
    apart = interval(told)[0] > max(interval(alone)[1], interval(noise)[1])
    return Finding(
        min(gained) > 2 / 3 and apart,
        say(share_of_gain=gained, returns=told, independent=alone, told_at_random=noise, sees_it=sees),
    )


def _heard(shipped: ShippedRun) -> dict[str, float]:
    experience = shipped.results[0].experience
    assert experience is not None
    share = min(_compared(one, 5)[0] for one in experience.trajectories)
    return {"share of messages heard as sent": share, "policies that learnt": float(len(shipped.parts.learners))}


claim.shipped(HAMMER, without={"cast": Separate()}, sees=_heard)
