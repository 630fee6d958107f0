"""Claims of mixed preference optimisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np
import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import returns
from hocket.lab.bandit import minimised
from hocket.lab.claims.harness import Claims, Finding, batches, below, gap, gradient, inspect_rows, say
from hocket.lab.theory import tilted
from hocket.methods.base.dpo import DPO
from hocket.methods.base.ppo import PPO_RLHF
from hocket.methods.preference.mpo_mixed import MPO_MIXED, MPO_MIXED_ONLINE, GapSplit, HardPrompts, largest
from hocket.rewards.combine import WeightedSum
from hocket.rewards.strength import REWARDS_ALONE
from hocket.rollout.scored_pairs import ScoredPreferences
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Experience, Scenario, Score, Trajectory, Turn

claim = Claims("mpo-mixed", "arXiv:2403.19443")


@claim("The gradient is DPO's on the pairs of the larger gaps, in the order recorded, and 0 on the others; the hard "
       "part is the rest.")  # fmt: skip
def the_gradient_is_dpos_on_the_pairs_of_the_larger_gaps_in_the() -> Finding:
    draw, gaps, count = Key.of(0).derive("mixed").numpy(), [], 0
    for document in batches(10, "mixed", groups=5, samples=2):
        rows, said = list[dict[str, object]](), list[float]()
        for number, row in enumerate(document["trajectories"]):
            said.append(float(draw.normal()))
            rows.append({**row, "scores": {"preference": float(number % 2), "model": said[-1]}})
        apart = [abs(said[2 * n] - said[2 * n + 1]) for n in range(5)]
        easy = set(sorted(range(5), key=lambda n: -apart[n])[:3])
        for keep, numbers in (("easy", easy), ("hard", set(range(5)) - easy)):
            part = [
                {**document["trajectories"][n], "scores": {"reward": float(n % 2)}}
                for n in range(10)
                if n // 2 in numbers
            ]
            alone = iter(gradient(DPO, {"version": 1, "trajectories": part}).tolist())
            wanted = [
                next(alone) if n // 2 in numbers else 0.0
                for n in range(10)
                for _ in document["trajectories"][n]["logp"]
            ]
            recipe = MPO_MIXED.but({"shaping": (GapSplit(keep=keep),)})  # type: ignore[arg-type]
            found = inspect_rows(recipe, rows)["gradient"]
            gaps.append(gap([one for row in found for one in row], wanted))
            count += len(numbers)
    return below(1e-12, count == 50, off=max(gaps))


SAID = ((5.0, 5.2), (0.0, -3.0), (-1.0, 0.0), (2.0, 2.1), (0.1, 2.6))
"""What a reward model says of the chosen and the rejected answers; gaps of .2, 3, 1, .1 and 2.5."""


def collected() -> tuple[list[list[Assignment]], Experience, int]:
    """What the second stage has played of five prompts, what it learns from, and how many answers were scored."""
    asked, scored = list[list[Assignment]](), list[Trajectory]()

    async def play(wanted: Sequence[Assignment]) -> list[Trajectory]:
        asked.append(list(wanted))
        none = np.zeros(1, np.int64)
        return [
            Trajectory(one.scenario, [Turn("policy", "policy", none, none)], sample, source=one.source)
            for one in wanted
            for sample in range(one.first, one.first + one.samples)
        ]

    async def score(played: Sequence[Trajectory]) -> None:
        scored.extend(played)
        for one in played:
            said = SAID[int(one.scenario.id)][one.sample % 2]
            one.scores |= {"model": Score(0.75 * said), "form": Score([0.25 * said])}

    wanted = [Assignment(Scenario(f"{n}", "?", None, {"chosen": "a", "rejected": "b"}), first=2) for n in range(5)]
    work = HardPrompts(samples=3).collect(wanted, play=play, score=score, ledger=Ledger(), key=Key.of(0))
    return asked, run_async(work), len(scored)


@claim("The second stage samples the prompts of the smaller gaps of all scores, and learns from nothing else; the "
       "first's chosen members earn 1.")  # fmt: skip
def the_second_stage_samples_the_prompts_of_the_smaller_gaps_of_all() -> Finding:
    asked, found, scored = collected()
    pairs, samples = ([(one.scenario.id, one.source, one.samples, one.first) for one in part] for part in asked)
    told = pairs == [(f"{number}", "imported", 2, 0) for number in range(5)]
    hard = samples == [("0", "own", 3, 2), ("3", "own", 3, 2)] and found.metrics == {"prompts/hard": 2.0}
    mine = [one.scenario.id for one in found.trajectories] == ["0"] * 3 + ["3"] * 3 and scored == 16
    none, played = np.zeros(1, np.int64), list[Trajectory]()
    for number, both in enumerate(SAID):
        for sample, value in enumerate(both):
            scores = {"preference": Score(1.0 - sample), "model": Score(value)}
            turn = Turn("policy", "policy", none, none)
            played.append(Trajectory(Scenario(f"{number}"), [turn], sample, scores=scores))
    split = GapSplit()(REWARDS_ALONE(pack(played), {"model": 1.0}))
    earned = returns(split).tolist() == [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    kept = split.occurrences.weight.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    return Finding(told and hard and mine and earned and kept, say(hard=str(samples), earned=earned, kept=kept))


@claim("The stages ship with halves, the first on recorded pairs, the second PPO with its KL on 4 samples a prompt.")
def the_stages_ship_with_halves_the_first_on_recorded_pairs_the() -> Finding:
    split = MPO_MIXED.shaping == (GapSplit(keep="easy", share=0.5),)
    online = MPO_MIXED_ONLINE.rollout == HardPrompts(samples=4, share=0.5)
    same = MPO_MIXED_ONLINE.but({"rollout": PPO_RLHF.rollout}).losses == PPO_RLHF.losses
    ties = largest(torch.tensor([1.0, 2.0, 1.0, 1.0, 0.0]), 0.5).tolist() == [True, True, True, False, False]
    split = split and MPO_MIXED.rollout == ScoredPreferences() and MPO_MIXED.combine == REWARDS_ALONE
    kept = MPO_MIXED_ONLINE.shaping == PPO_RLHF.shaping and MPO_MIXED.objective == DPO.objective
    return Finding(split and online and same and ties and kept, say(split=split, online=online, ties=ties))


class Arms:
    """30 answers of one prompt with known rewards, 400 pairs of them, and a reward model that errs."""

    def __init__(self, seed: int, error: float = 0.5, pairs: int = 400) -> None:
        self.draw = torch.Generator().manual_seed(seed)
        self.reward, noise = (torch.randn(30, generator=self.draw, dtype=torch.float64) for _ in range(2))
        self.model = self.reward + error * noise
        both = torch.stack([torch.randperm(30, generator=self.draw)[:2] for _ in range(pairs)])
        first = self.reward[both[:, 0]] > self.reward[both[:, 1]]
        self.right = torch.where(first[:, None], both, both.flip(1))
        self.easy = largest((self.model[both[:, 0]] - self.model[both[:, 1]]).abs(), 0.5)
        self.uniform = torch.full((30,), 1 / 30, dtype=torch.float64)

    def told(self, flip: float | None) -> Tensor:
        """The pairs with their labels: hard ones wrong at this rate; None: all by Bradley and Terry's chance."""
        chance = torch.rand(len(self.right), generator=self.draw, dtype=torch.float64)
        if flip is None:
            wrong = chance > torch.sigmoid(self.reward[self.right[:, 0]] - self.reward[self.right[:, 1]])
        else:
            wrong = (chance < flip) & ~self.easy
        return torch.where(wrong[:, None], self.right.flip(1), self.right)

    def dpo(self, pairs: Tensor) -> Tensor:
        """log pi/ref of what DPO on `pairs` converges to at beta = 1, from the uniform reference, `[30]`.

        At another beta it is a multiple. A little ridge keeps pairs that can be separated finite.
        """

        def loss(logits: Tensor) -> Tensor:
            h = logits[pairs[:, 0]] - logits[pairs[:, 1]]
            return -torch.nn.functional.logsigmoid(h).mean() + 1e-3 * logits.square().sum()

        return minimised(loss, torch.zeros(30), steps=100).log()

    def within(self, base: Tensor, gain: Tensor, nats: float = 1.0) -> Tensor:
        """base * exp(s gain), normalised, s such that its KL from the uniform policy is `nats`."""
        low, high = 0.0, 1e3
        for _ in range(60):
            middle = (low + high) / 2
            policy = tilted(base, gain, 1 / middle)
            over = float((policy * (policy.clamp(min=1e-300) * 30).log()).sum()) > nats
            low, high = (low, middle) if over else (middle, high)
        return tilted(base, gain, 1 / high)

    def reached(self, base: Tensor, gain: Tensor) -> float:
        """The true reward of `within` one nat."""
        return float(self.within(base, gain) @ self.reward)


RATES = (None, 0.0, 0.3, 0.5, 0.7, 1.0)


@claim("Easy pairs alone reach most of what all pairs do under Bradley-Terry noise, are behind where labels are right, "
       "and ahead from where about half of the others' labels are wrong.", slow=True)  # fmt: skip
def easy_pairs_alone_reach_most_of_what_all_pairs_do_under_bradley() -> Finding:
    ahead: dict[float | None, list[float]] = {rate: [] for rate in RATES}
    share = []
    for seed in range(6):
        world = Arms(seed)
        for rate in RATES:
            told = world.told(rate)
            easy, every = (world.reached(world.uniform, world.dpo(one)) for one in (told[world.easy], told))
            ahead[rate].append(easy - every)
            if rate is None:
                share.append(easy / every)
    means = {rate: fmean(values) for rate, values in ahead.items()}
    rates = [rate for rate in RATES if rate is not None]
    crossing = next((rate for rate in rates if means[rate] > 0), None)
    holds = max(means[None], means[0.0]) < 0 < min(means[0.7], means[1.0]) and fmean(share) > 0.8
    named = {("BT" if rate is None else f"{rate:g}"): f"{value:+.3f}" for rate, value in means.items()}
    return Finding(holds, say(ahead_by_flip_rate=named, crossing=crossing, share_of_all_pairs=share))


def two_stages(seed: int, error: float) -> dict[str, float]:
    """True rewards at one nat from the start: DPO, exact PPO by the reward model, and PPO from DPO's model."""
    world = Arms(seed, error=error)
    told = world.told(None)
    gain = world.dpo(told[world.easy])
    # Half of the budget is the first stage's.
    start = world.within(world.uniform, gain, nats=0.5)
    return {
        "DPO": world.reached(world.uniform, gain),
        "PPO": world.reached(world.uniform, world.model),
        "both": world.reached(start, world.model),
    }


@claim("By a reward model that errs, PPO from DPO's model reaches more true reward at equal KL from the start than PPO "
       "or DPO alone; by the true reward none exceeds PPO, whose optimum is the most that the budget buys.",
       slow=True)  # fmt: skip
def by_a_reward_model_that_errs_ppo_from_dpos_model_reaches_more() -> Finding:
    errs = [two_stages(seed, 1.0) for seed in range(10)]
    true = [two_stages(seed, 0.0) for seed in range(10)]
    gains = {name: [one["both"] - one[name] for one in errs] for name in ("DPO", "PPO")}
    most = max(max(one["both"], one["DPO"]) - one["PPO"] for one in true)
    clear = all(fmean(values) > 2 * stdev(values) / math.sqrt(len(values)) for values in gains.values())
    shown = {name: _mean(errs, name) for name in ("DPO", "PPO", "both")}
    return Finding(clear and most < 1e-6, say(**shown, ahead_of=gains, ahead_of_PPO_by_the_true_reward=most))


def _mean(found: Sequence[dict[str, float]], name: str) -> float:
    return fmean(one[name] for one in found)


claim.shipped(MPO_MIXED, without={"shaping": (), "combine": WeightedSum({"correct": 0.0})})
claim.shipped(MPO_MIXED_ONLINE, "rollout")
