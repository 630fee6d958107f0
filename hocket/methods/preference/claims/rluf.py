"""Claims of reinforcement learning from user feedback."""

from __future__ import annotations

import math
import tempfile
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.bandit import least
from hocket.lab.claims.claim import Check
from hocket.lab.claims.harness import Claims, Finding, batches, below, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import Pupil, begin
from hocket.lab.claims.shipped_check import Shipment
from hocket.lab.microscope import RecordedBatch
from hocket.lab.theory import tilted
from hocket.methods.base.rloo import RLOO
from hocket.methods.preference.rluf import RLUF, Reactions, UserLove, live_rate
from hocket.rewards.combine import WeightedSum
from hocket.rewards.score import grade
from hocket.rewards.shaping import KLInReward
from hocket.rewards.verifiers import ExactMatch
from hocket.train.aio import run_async
from hocket.types import Assignment, Trajectory

claim = Claims("rluf", "arXiv:2505.14946")

_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
"""Classifiers; gone with the process."""


@claim("Credit and loss are RLOO's on w_h help + w_l sigmoid(f) - beta log pi/ref, love paid from the floor on.")
def credit_and_loss_are_rloos_on_w_h_help_w_l_sigmoid_beta_log_pi() -> Finding:
    draw, gaps, unpaid = Key.of(0).derive("rluf").numpy(), [], 0
    plain = RLOO.but({"shaping": (KLInReward(coefficient=0.05, estimator="k1"),)})
    for floor in (None, 0.5):
        for document in batches(5, "rluf"):
            rows, told, summed = document["trajectories"], list[Any](), list[Any]()
            for row in rows:
                help_, odds = float(draw.random()), float(draw.normal() * 2)
                paid = floor is None or help_ >= floor
                unpaid += not paid
                told.append({**row, "scores": {"helpful": help_, "love": odds}})
                value = 0.7 * help_ + 1.5 * paid / (1 + math.exp(-odds))
                summed.append({**row, "scores": {"reward": value}})
            recipe = RLUF.but({"combine": UserLove(floor=floor, weights={"helpful": 0.7, "love": 1.5})})
            gaps.append(gap(inspect_rows(recipe, told)["gradient"], inspect_rows(plain, summed)["gradient"]))
    return below(1e-12, unpaid > 5, off=max(gaps))


@claim("It ships as RLOO on help and on love from a classifier, without a floor, and asks for the score that it lacks.")
def it_ships_as_rloo_on_help_and_on_love_from_a_classifier_without() -> Finding:
    shipped = UserLove(love="love", help="helpful", floor=None, weights=None) == RLUF.combine
    shipped = shipped and RLUF.rewards == (ExactMatch(name="helpful", weight=1.0),)
    shipped = shipped and RLUF.shaping == (KLInReward(coefficient=0.05, estimator="k1"),)
    row = {"group": "g", "scores": {"love": 1.0, "helpful": 1.0}, "logp": [-1.0], "logp_ref": [-1.0]}
    try:
        inspect_rows(RLUF.but({"combine.love": "hearts"}), [row, row])
    except ConfigurationError as error:
        return Finding(shipped and "'hearts'" in str(error) and "combine.love" in str(error), str(error))
    return Finding(False, "no refusal")


class Audience:
    """Answers with a quality q and flattery f, which share a budget (q + f <= 1), and users who react to both.

    The odds of a genuine reaction are exp(-4 + 4 q + 8 f); a quarter of the logged votes are cast by people who vote
    the other way. The classifier sees q, f and four features that mean nothing.
    """

    def __init__(self, seed: int, answers: int = 400, logged: int = 2000, adversarial: float = 0.25) -> None:
        self.draw = torch.Generator().manual_seed(seed)
        both = torch.rand(answers * 8, 2, generator=self.draw, dtype=torch.float64)
        self.quality, self.flattery = both[both.sum(1) <= 1][:answers].unbind(1)
        noise = torch.randn(answers, 4, generator=self.draw, dtype=torch.float64)
        self.seen = torch.cat([self.quality[:, None], self.flattery[:, None], noise, torch.ones_like(noise[:, :1])], 1)
        self.love = torch.sigmoid(-4 + 4 * self.quality + 8 * self.flattery)
        shown = torch.randint(answers, (logged,), generator=self.draw)
        votes = self.reactions(shown)
        turned = torch.rand(logged, generator=self.draw, dtype=torch.float64) < adversarial
        self.odds = self.fitted(shown, torch.where(turned, 1 - votes, votes))

    def reactions(self, shown: Tensor) -> Tensor:
        """Genuine ones to answers shown, 0 or 1."""
        return (torch.rand(len(shown), generator=self.draw, dtype=torch.float64) < self.love[shown]).double()

    def fitted(self, shown: Tensor, votes: Tensor) -> Tensor:
        """A logistic classifier's log-odds of every answer, from logged votes."""
        shows = self.seen[shown]
        return self.seen @ least(lambda at: binary_cross_entropy_with_logits(shows @ at, votes), torch.zeros(7))

    def reward(self, combine: UserLove | WeightedSum, weight: float) -> Tensor:
        """What the combiner makes of every answer."""
        rows = [
            {"group": "g", "scores": {"helpful": q, "love": f}, "logp": [-1.0]}
            for q, f in zip(self.quality.tolist(), self.odds.tolist(), strict=True)
        ]
        batch = RecordedBatch({"version": 1, "trajectories": rows}).batch
        found: Tensor = combine(batch, {"helpful": 1.0, "love": weight}).scores["reward"].values
        return found

    def best(self, floor: float | None, weight: float, beta: float = 0.1) -> Tensor:
        """The policy that is best under the reward less beta KL from the uniform one."""
        uniform = torch.full_like(self.quality, 1 / len(self.quality))
        return tilted(uniform, self.reward(UserLove(floor=floor), weight), beta)


@claim("With a quarter of the votes adversarial the classifier's AUC on genuine reactions exceeds .8, and over 30 "
       "policies its offline score ranks the simulated live rates (correlation > .9).")  # fmt: skip
def with_a_quarter_of_the_votes_adversarial_the_classifiers_auc_on() -> Finding:
    found: dict[str, list[float]] = {"AUC": [], "AUC of true chances": [], "rank correlation": []}
    for seed in range(3):
        world = Audience(seed)
        shown = torch.randint(400, (3000,), generator=world.draw)
        votes = world.reactions(shown) > 0.5
        found["AUC"].append(_auc(world.odds[shown[votes]], world.odds[shown[~votes]]))
        found["AUC of true chances"].append(_auc(world.love[shown[votes]], world.love[shown[~votes]]))
        offline, live = [], []
        for _ in range(30):
            taste = torch.randn(2, generator=world.draw, dtype=torch.float64) * 3
            policy = torch.softmax(taste[0] * world.quality + taste[1] * world.flattery, 0)
            logged, shown_ = (torch.multinomial(policy, n, replacement=True, generator=world.draw) for n in (500, 2000))
            offline.append(live_rate(world.odds[logged]))
            live.append(float(world.reactions(shown_).mean()))
        ranks = torch.tensor([offline, live]).argsort().argsort().double()
        found["rank correlation"].append(float(torch.corrcoef(ranks)[0, 1]))
    holds = min(found["AUC"]) > 0.8 and min(found["rank correlation"]) > 0.9
    return Finding(holds, say(**found))


def _auc(higher: Tensor, lower: Tensor) -> float:
    return float((higher[:, None] > lower).double().mean() + (higher[:, None] == lower).double().mean() / 2)


@claim("Raising the weight of love raises the love rate; past a knee help falls below the untrained policy's, which a "
       "floor of help prevents at some cost in love.")  # fmt: skip
def raising_the_weight_of_love_raises_the_love_rate_past_a_knee() -> Finding:
    weights, told, holds = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0), [], True
    for seed in range(3):
        world = Audience(seed)
        before = float(world.quality.mean())
        open_, floored = ([world.best(floor, weight) for weight in weights] for floor in (None, 0.5))
        love, help_ = ([float(one @ values) for one in open_] for values in (world.love, world.quality))
        kept, loved = ([float(one @ values) for one in floored] for values in (world.quality, world.love))
        rises = all(a < b for a, b in pairwise(love))
        knee = next((w for w, value in zip(weights, help_, strict=True) if value < before), None)
        holds = holds and rises and knee is not None and help_[1] > before and min(kept) > 0.5 and loved[-1] < love[-1]
        told.append(say(untrained_help=before, knee=knee, love=str(love), help=str(help_), help_with_floor=str(kept)))
    return Finding(holds, told[0])


@cache
def classifier() -> str:
    """The folder `love` of a `reward-binary` run on logged reactions."""
    holder = tempfile.TemporaryDirectory()
    _FOLDERS.append(holder)
    folder = Path(holder.name) / "love"
    begin("reward-binary", "reactions", {"update.lr": 3e-4, "curriculum.prompts": 32}).run(60).parts.lead.policy.save(
        folder
    )
    return str(folder)


def _answers(pupil: Pupil) -> list[Trajectory]:
    """Answers to 150 unseen questions, scored by what the run pays."""
    assignments = [Assignment(pupil.parts.task.scenario("eval", n), 1, pupil.parts.decoding) for n in range(150)]
    played = run_async(pupil.parts.player.play(assignments, key=Key.of(0)))
    run_async(grade(played, pupil.parts.rewards, key=Key.of(1)))
    return played


@claim(
    "On the policy's answers the classifier of logged reactions ranks those that the user is more likely to love "
    "(AUC > .8); 25 steps on what it says raise that chance by less than two standard errors.",
    slow=True,
    learns=True,
)
def the_classifier_of_logged_reactions_ranks_the_policys_answers() -> Finding:
    pupil = begin(RLUF, "reactions", {"reward": [f"model:{classifier()}=0.5", "task"]})
    task, loved, right = Reactions(), list[list[float]](), list[float]()
    first = _answers(pupil)
    for played in (first, _answers(pupil.run(25))):
        loved.append([task.describe(trajectory)["loved"] for trajectory in played])
        right.append(fmean(task.success(trajectory) for trajectory in played))
    odds = torch.tensor([float(trajectory.scores["love"].value) for trajectory in first])  # type: ignore[arg-type]
    high = torch.tensor(loved[0]) > 0.5
    ranked = _auc(odds[high], odds[~high])
    before, after = map(fmean, loved)
    error = math.sqrt(sum(pvariance(values) / len(values) for values in loved))
    figures = say(loved_before=before, loved_after=after, standard_error=error, right=right, AUC=ranked)
    return Finding(abs(after - before) < 2 * error and ranked > 0.8, f"25 steps: {figures}")


def _shipped() -> Finding:
    settings = {"reward": [f"model:{classifier()}=0.5", "task"]}
    return Shipment(RLUF, without={"combine": WeightedSum({"love": 0.0})}, settings=settings)()


claim.append(
    Check(
        claim.row,
        "As shipped, `hocket train --recipe rluf --reward model:love=0.5 --reward task`, love being `hocket train "
        "--recipe reward-binary --task reactions --steps 60 --update.lr 0.0003 --curriculum.prompts 32`: the chance of "
        "being loved in effect; without, the gradient is another.",
        _shipped,
        claim.source,
        slow=True,
        shipped=True,
    )
)
