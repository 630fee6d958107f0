"""IPPO's claims."""

from __future__ import annotations

import asyncio
from statistics import fmean, pstdev
from typing import cast

import numpy as np
import torch

from hocket import tasks
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, say
from hocket.lab.toys.teams import by_chance, interval, trained
from hocket.methods.base.ppo import PPO
from hocket.methods.marl.ippo import IPPO
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.value import ValueLoss
from hocket.recipe import Recipe
from hocket.stages import Task
from hocket.tasks.gym import GymTask
from hocket.tasks.joint import JointTask
from hocket.train.annotate import annotate
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import collect, train_step
from hocket.zoo.joint.solo import Solo

claim = Claims("ippo", "arXiv:2011.09533")
NO_BONUS = (ValueLoss(coefficient=0.5, aggregate="token-mean"),)
PAIR, STEPS = "mpe:spread?agents=2", 10


@claim("With one agent and without the bonus for entropy it is PPO step for step: the weights are equal bit for bit.")
def with_one_agent_and_without_the_bonus_for_entropy_it_is_ppo_step() -> Finding:
    furthest, moved = 0.0, 0.0
    for environment in ("CartPole-v1?max_episode_steps=40", "Pendulum-v1?max_episode_steps=20"):
        alone = cast(GymTask, tasks.find(f"gym:{environment}"))
        ours = _weights(IPPO.but(regularisers=NO_BONUS), JointTask(Solo(alone)), alone)
        theirs = _weights(PPO, alone, alone)
        furthest = max(furthest, float((ours[-1] - theirs[-1]).abs().max()))
        moved = max(moved, float((ours[-1] - ours[0]).abs().max()))
    return Finding(furthest == 0 and moved > 0, say(largest_difference_of_weights=furthest, moved=moved))


def _weights(recipe: Recipe, task: Task, like: Task) -> list[torch.Tensor]:
    """Before, and after each of three steps, flat, with the settings that the task `like` suggests."""
    small = [("recipe", PPO), ("steps", 3), ("curriculum.prompts", 4), ("update.epochs", 2)]
    config = configure(small, like)
    own = recipe.but(
        {slot: getattr(config.recipe, slot) for slot in ("curriculum", "rollout", "credit", "objective", "update")}
    )
    parts = build_parts(configure([*small, ("recipe", own)], like), task)
    found = [_flat(parts.lead.policy.module)]
    for step in (1, 2, 3):
        asyncio.run(train_step(parts, step))
        found.append(_flat(parts.lead.policy.module))
    return found


def _flat(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([one.detach().flatten() for one in module.parameters()])


@claim("Each agent's advantages are GAE along its own decisions, whatever the others saw and earned.")
def each_agents_advantages_are_gae_along_its_own_decisions_whatever() -> Finding:
    task = tasks.find("forage:6x6-3p-2f?length=12")
    config = configure([("recipe", IPPO.but({"credit.whiten": False})), ("curriculum.prompts", 8)], task)
    parts = build_parts(config, task)
    experience, _ = asyncio.run(collect(parts, Key.of(1)))
    learner = parts.lead
    batch = annotate(pack(experience.trajectories), learner.recipe.reads, learner.policy, None)
    given = learner.compute_credit(batch, {}, 1)
    gamma, lam = config.recipe.credit.gamma, config.recipe.credit.lam  # type: ignore[attr-defined]
    reward, start, error, cut = batch.scores["reward"].values.numpy(), 0, 0.0, 0
    assert batch.value is not None
    assert batch.parts is not None
    assert batch.parts.final_value is not None
    value = batch.value.double().numpy()
    for part, turn in enumerate(turn for one in experience.trajectories for turn in one.turns):
        following = float(batch.parts.final_value[part]) if bool(batch.parts.truncated[part]) else 0.0
        cut += bool(batch.parts.truncated[part])
        trace = 0.0
        for t in reversed(range(start, start + len(turn))):
            trace = reward[t] + gamma * following - value[t] + gamma * lam * trace
            following = value[t]
            error = max(error, abs(trace - float(given.occurrences.advantage[t])))
        start += len(turn)
    return below(EXACT, cut > 0, start == batch.decisions, largest_error=error)


@claim("In a game with a penalty for miscoordination it can end in the safe equilibrium (predicted: in most seeds).")
def in_a_game_with_a_penalty_for_miscoordination_it_can_end_in_the() -> Finding:
    scores = [trained("ippo", "dilemma:penalty", seed, 15).score for seed in SEEDS]
    safe = sum(abs(score - 2) < 0.5 for score in scores)
    return Finding(safe >= 3 and max(scores) <= 10, say(return_of_the_safe_pair=2.0, seeds_there=safe, returns=scores))


@claim(
    "On spread and on foraging it is above random play in every seed, 95 % interval of the mean included.", slow=True
)
def on_spread_and_on_foraging_it_is_above_random_play_in_every_seed() -> Finding:
    holds, said = True, []
    for task, steps in ((PAIR, STEPS), ("forage:5x5-2p-1f", 20)):
        scores, chance = [trained("ippo", task, seed, steps).score for seed in SEEDS], by_chance(task)
        low, high = interval(scores)
        holds &= low > chance and min(scores) > chance
        said.append(f"{task}: {fmean(scores):.3f} ({low:.3f} to {high:.3f}) against {chance:.3f} by chance")
    return Finding(holds, ", ".join(said))


@claim("On spread it comes within 10 percent of MAPPO, whose critic sees the joint state.", slow=True)
def on_spread_it_comes_within_10_percent_of_mappo_whose_critic_sees() -> Finding:
    ours, theirs = (fmean(trained(name, PAIR, seed, STEPS).score for seed in SEEDS) for name in ("ippo", "mappo"))
    return Finding(ours > theirs - 0.1 * abs(theirs), say(ippo=ours, mappo=theirs))


@claim("Without the clip of the ratio, 20 epochs to a batch spread the seeds' returns wider.", slow=True)
def without_the_clip_of_the_ratio_20_epochs_to_a_batch_spread_the() -> Finding:
    often = (("update.epochs", 20),)
    loose = (*often, ("objective.low", 1.0), ("objective.high", 1e9))
    kept, free = ([trained("ippo", PAIR, seed, 8, given).score for seed in SEEDS] for given in (often, loose))
    wider, narrow = pstdev(free), pstdev(kept)
    figures = say(deviation_without=wider, deviation_with=narrow, returns_without=free, returns_with=kept)
    return Finding(bool(np.isfinite(wider)) and wider > narrow, figures)


@claim("What it adds to PPO is a bonus of 0.01 for entropy; the critic's loss counts half the square, unclipped.")
def what_it_adds_to_ppo_is_a_bonus_of_0_01_for_entropy_the_critics() -> Finding:
    added = (ValueLoss(coefficient=0.5, aggregate="token-mean"), EntropyBonus(coefficient=0.01))
    same = [getattr(IPPO, slot) == getattr(PPO, slot) for slot in ("rollout", "credit", "objective", "update")]
    return Finding(IPPO.regularisers == added and all(same), say(slots_as_in_ppo=sum(same)))


claim.shipped(IPPO, without={"objective.low": 1.0, "objective.high": 1e9})
