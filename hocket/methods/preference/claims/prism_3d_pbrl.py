"""Claims of rewards learnt from a labeller that looks ahead."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import hocket
from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import REWARD
from hocket.lab.claims.harness import Claims, Finding, below, gap, say
from hocket.methods.base.ppo import PPO
from hocket.methods.preference.prism_3d_pbrl import (
    PRISM,
    SCENE,
    SIZE,
    Flight,
    Labeller,
    LearntReward,
    PointTrap,
    SceneLabeller,
    bradley_terry,
    rewards,
)
from hocket.objectives.entropy import EntropyBonus
from hocket.recipe import Recipe
from hocket.types import Scenario, Score, Trajectory, Turn

claim = Claims("prism-3d-pbrl", "arXiv:2503.10177 (abstract)")

MYOPIC = PRISM.but({"shaping.0.labeller": SceneLabeller(ahead=0)})
TRUE = PRISM.but(shaping=())


def flown(count: int) -> list[Trajectory]:
    """Episodes in which each action is kept for a few decisions."""
    played, draw = list[Trajectory](), Key.of(3).numpy()
    for seed in range(count):
        world, seen, acted, paid = Flight(SCENE), list[Any](), list[int](), list[float]()
        at, over = world.reset(seed), False
        while not over:
            if len(acted) % 4 == 0:
                action = int(draw.integers(7))
            seen.append(at)
            acted.append(action)
            at, reward, fell, late = world.step(action)
            paid.append(reward)
            over = fell or late
        turn = Turn("agent", "policy", np.stack(seen), np.array(acted))
        scores = {"reward": Score(np.array(paid), Level.DECISION)}
        played.append(Trajectory(Scenario(str(seed), seed=seed), [turn], 0, scores=scores, terminated=fell))
    return played


def packed(played: list[Trajectory]) -> Batch:
    """With the task's rewards as the combined reward."""
    paid = torch.from_numpy(np.concatenate([np.asarray(one.scores["reward"].value) for one in played]))
    return pack(played).but(scores={REWARD[Level.DECISION]: LevelScores(Level.DECISION, paid)})


class Third(Labeller):
    """Prefers what has more of the third number."""

    def worth(self, observations: Tensor) -> Tensor:
        return observations[..., 2].double().sum(1)


class Indifferent(Labeller):
    """Nothing is better than anything."""

    def worth(self, observations: Tensor) -> Tensor:
        return torch.zeros(len(observations), dtype=torch.float64)


class Line(nn.Module):
    """r = w . x."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, seen: Tensor) -> Tensor:
        return (seen @ self.weight)[..., None]


@claim("The loss is -log of exp(sum r(s1)) / (exp(sum r(s1)) + exp(sum r(s2))), mean over pairs; the rewards have mean "
       "0 over the worse segments and deviation 1 over all.")  # fmt: skip
def the_loss_is_log_of_exp_exp_mean_over_pairs_the_rewards_have() -> Finding:
    draw = Key.of(1).numpy()
    better, worse, seen = (torch.from_numpy(draw.normal(size=size)) for size in ((7, 5, 3), (7, 5, 3), (11, 3)))
    weight = torch.from_numpy(draw.normal(size=3))
    one, two = (np.exp((part.numpy() @ weight.numpy()).sum(1)) for part in (better, worse))
    loss = float(bradley_terry(Line(weight), better, worse).detach())
    off = [abs(loss + float(np.log(one / (one + two)).mean()))]
    paid = rewards(Line(weight), seen, better, worse)
    both = np.concatenate([part.numpy() @ weight.numpy() for part in (better, worse)])
    wanted = (seen.numpy() @ weight.numpy() - (worse.numpy() @ weight.numpy()).mean()) / both.std()
    off.append(gap(paid, torch.from_numpy(wanted)))
    return below(1e-9, loss > 0.1, off=max(off))


@claim("What is learnt from are the net's rewards: they follow the labeller whatever the task pays, and with an "
       "indifferent labeller all are 0.", slow=True)  # fmt: skip
def what_is_learnt_from_are_the_nets_rewards_they_follow_the() -> Finding:
    batch = packed(flown(12))
    turned = batch.but(
        scores={REWARD[Level.DECISION]: LevelScores(Level.DECISION, -batch.scores[REWARD[Level.DECISION]].values)}
    )
    shape = LearntReward(labeller=Third(), fits=60)
    (first, state), (second, _) = (shape(one, shape.init()) for one in (batch, turned))
    told, again = (one.scores[REWARD[Level.DECISION]].values for one in (first, second))
    third = torch.from_numpy(np.concatenate(batch.observation))[:, 2].double()
    agree = float(torch.corrcoef(torch.stack([told, third]))[0, 1])
    more, after = shape(first, state)
    kept = len(after["better"]) > len(state["better"]) and after["calls"] == 2
    moved = gap(more.scores[REWARD[Level.DECISION]].values, told)
    small = LearntReward(labeller=Third(), fits=1, queries=20, window=30)
    _, one = small(batch, small.init())
    _, two = small(batch, one)
    idle = LearntReward(labeller=Indifferent())
    nothing, _ = idle(batch, idle.init())
    return Finding(
        agree > 0.9
        and gap(told, again) == 0
        and kept
        and moved > 1e-6
        and len(two["better"]) == 30
        and bool((nothing.scores[REWARD[Level.DECISION]].values == 0).all()),
        say(correlation=agree, apart_with_rewards_turned=gap(told, again), moved_by_a_second_step=moved),
    )


@claim("Segments are runs of decisions of one episode, and the better one of a pair is worth more.")
def segments_are_runs_of_decisions_of_one_episode_and_the_better() -> Finding:
    batch, shape = packed(flown(8)), LearntReward(labeller=Third(), queries=400, window=400)
    seen = torch.from_numpy(np.concatenate(batch.observation))
    better, worse = shape.compared(batch, seen, Key.of(0))
    ordered = bool((Third().worth(better) > Third().worth(worse)).all())
    runs = {bytes(turn[at : at + 5].tobytes()) for turn in batch.observation for at in range(len(turn) - 4)}
    inside = all(bytes(one.numpy().tobytes()) in runs for one in torch.cat([better, worse]))
    none = LearntReward(labeller=Third(), length=100).compared(batch, seen, Key.of(0))[0]
    return Finding(ordered and inside and len(better) > 300 and not len(none), say(pairs=len(better), found=inside))


@claim(
    "A labeller that looks ahead orders more pairs as the returns that follow do than a myopic one, above all where "
    "one of them touches the trap."
)
def a_labeller_that_looks_ahead_orders_more_pairs_as_the_returns() -> Finding:
    played = flown(200)
    segments, truth = list[Tensor](), list[float]()
    for one in played:
        paid = np.asarray(one.scores["reward"].value)
        for at in range(0, len(paid) - 4, 3):
            segments.append(torch.from_numpy(one.turns[0].observation[at : at + 5]))
            truth.append(float(paid[at:].sum()))
    pairs = torch.from_numpy(Key.of(5).numpy().integers(len(truth), size=(4000, 2)))
    want = torch.tensor(truth)[pairs]
    near = torch.tensor([bool((one[:, 3:6].norm(dim=1) < SCENE.touch).any()) for one in segments])[pairs]
    asked = {"all": want[:, 0] != want[:, 1], "trap": near[:, 0] != near[:, 1]}
    agree = {name: list[float]() for name in asked}
    for ahead in (0, 5, 20):
        worth = SceneLabeller(ahead).worth(torch.stack(segments))[pairs]
        right = (worth[:, 0] > worth[:, 1]) == (want[:, 0] > want[:, 1])
        for name, rows in asked.items():
            agree[name].append(float(right[rows].double().mean()))
    more = {name: one[2] - one[0] for name, one in agree.items()}
    return Finding(more["all"] > 0.02 and more["trap"] > 0.3, say(agreement=agree, more_with_20_ahead_than_with_0=more))


@claim("What is imagined with nothing done is what happens with nothing done.")
def what_is_imagined_with_nothing_done_is_what_happens_with_nothing() -> Finding:
    off, fell = [], 0
    for seed in range(80):
        world, draw = Flight(SCENE), Key.of(seed).numpy()
        at = world.reset(seed)
        toward = int(np.argmax(np.abs(at[3:6])))
        push = 1 + toward + (0 if at[3 + toward] > 0 else 3)
        seen = [at]
        for _ in range(2):
            at, *_ = world.step(push if seed % 2 else int(draw.integers(7)))
            seen.append(at)
        start = Flight(SCENE)
        start.prize, start.trap, start.velocity = (at[n : n + 3].astype(np.float64) for n in (0, 3, 6))
        if any(np.linalg.norm(one[3:6]) < SCENE.touch for one in seen):
            continue
        paid, over, number = 0.0, False, 0
        while not over and number < 20:
            _, reward, over, _ = start.step(0)
            paid, number = paid + reward, number + 1
        fell += over
        known = sum(float(SCENE.pays(np.linalg.norm(one[:3]), np.linalg.norm(one[3:6]))) for one in seen)
        worth = float(SceneLabeller(20).worth(torch.from_numpy(np.stack(seen))[None]))
        off.append(abs(worth - known - paid))
    return Finding(max(off) < 1e-4 and fell > 3 and len(off) > 20, say(off=max(off), runs=len(off), falls=fell))


@claim(
    "All runs of an episode are segments; the newest pairs of the window are kept; words are refused; it says little."
)
def all_runs_of_an_episode_are_segments_the_newest_pairs_of_the() -> Finding:
    batch = packed(flown(6))
    seen = torch.from_numpy(np.concatenate(batch.observation))
    shortest = min(map(len, batch.observation))
    better, worse = LearntReward(labeller=Third(), length=shortest, queries=900).compared(batch, seen, Key.of(0))
    drawn = {one.numpy().tobytes() for one in torch.cat([better, worse])}
    runs = {turn[at : at + shortest].tobytes() for turn in batch.observation for at in range(len(turn) - shortest + 1)}
    small = LearntReward(labeller=Third(), fits=1, queries=20, window=30)
    _, one = small(batch, small.init())
    _, two = small(batch, one)
    fresh = small.compared(batch, seen, Key.of(0).derive("prism", 1))
    newest = {side: torch.cat([one[side], new])[-30:] for side, new in zip(("better", "worse"), fresh, strict=True)}
    kept = all(torch.equal(two[side], new) for side, new in newest.items()) and len(one["better"]) < 30
    try:
        small(batch.but(observation=[one[:, 0] for one in batch.observation]), small.init())
        said = ""
    except ConfigurationError as error:
        said = str(error)
    last = [one for one in small.net(SIZE, small.init()).parameters() if one.ndim == 2][-1]
    little = abs(float(last.detach().norm()) - 0.1) < 1e-5
    ships = PRISM.shaping == (LearntReward(SceneLabeller(20), 5, 256, 8192, 64, 50, 3e-3),)
    ships &= PRISM.regularisers == (*PPO.regularisers, EntropyBonus(0.01))
    holds = drawn == runs and kept and "task in words" in said and little and ships
    return Finding(holds, say(runs=len(runs), drawn=len(drawn), kept=kept, says_little=little, as_shipped=ships))


def outcome(recipe: Recipe, seed: int, folder: str, **settings: Any) -> Mapping[str, float]:
    """Return and share of falls after training."""
    quiet = {"evaluation.n": 100, "evaluation.every": 0, "threads": 1, "runs": folder, **settings}
    after: Mapping[str, float] = hocket.train(PointTrap(), recipe=recipe, seed=seed, **quiet).summary["after"]
    return after


@claim("A policy that learns from the look-ahead labeller's preferences reaches nine tenths of the return with the "
       "true reward and does not fall; with the myopic one half of the flights end in the trap, for hardly any return.",
       slow=True)  # fmt: skip
def a_policy_that_learns_from_the_look_ahead_labellers_preferences() -> Finding:
    found: dict[str, list[float]] = {"true": [], "ahead": [], "myopic": [], "falls": [], "falls_of_myopic": []}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(3):
            true, ahead = (outcome(one, seed, folder) for one in (TRUE, PRISM))
            myopic = outcome(MYOPIC, seed, folder, steps=30)
            found["true"].append(true["return"])
            found["ahead"].append(ahead["return"])
            found["myopic"].append(myopic["return"])
            found["falls"].append(ahead["trapped"])
            found["falls_of_myopic"].append(myopic["trapped"])
    reached = fmean(found["ahead"]) / fmean(found["true"])
    apart = min(found["ahead"]) - max(found["myopic"])
    return Finding(
        reached > 0.9 and apart > 15 and max(found["falls"]) < 0.05 and min(found["falls_of_myopic"]) > 0.4,
        say(**found, share_reached=reached),
    )


claim.spares("-1 -> 1", "the last of two dimensions; of segments mean and deviation alone are read")
claim.shipped(PRISM, "shaping")
