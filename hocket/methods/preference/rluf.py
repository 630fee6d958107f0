"""RLUF: what users love, learnt from their reactions, as one head of the reward (arXiv:2505.14946; the sum is chosen).

A classifier of logged reactions (`reward-binary`) says how likely an answer is loved. `UserLove` pays that probability
beside help and safety, and only where the answer helps enough if a floor is set, since a policy that is paid for love
alone learns to flatter. The mean of the probability over a policy's answers to logged prompts predicts its live rate.
`examples/user_feedback.yaml` is both as one plan, on logged reactions of a simulated user (task `reactions`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.core.requirements import Requirement
from hocket.core.signals import REWARD
from hocket.methods.base.rloo import RLOO
from hocket.rewards.combine import Weights, sources, summed
from hocket.rewards.shaping import KLInReward
from hocket.rewards.verifiers import ExactMatch
from hocket.stages import Combine, Split
from hocket.tasks.arithmetic import draw_terms, expression_of, question_of, verify
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory
from hocket.zoo.tasks.graded_sums import FLAWS, written


@dataclass(frozen=True)
class UserLove(Combine):
    """reward = sum_k w_k r_k + w_love sigmoid(f), f a classifier's log-odds; 0 for love where help is below `floor`.

    An answer without an opinion on love gets none; one without an opinion on help passes.

    Attributes:
        love: the score with the log-odds. help: the score that the floor is of.
        floor: the least help at which love is paid; None always pays.
        weights: replaces those of the rewards it names.

    Raises:
        ConfigurationError: on a call, for a batch without the score `love`, or, with a floor, without `help`.
    """

    love: str = "love"
    help: str = "helpful"
    floor: float | None = None
    weights: Weights | None = None

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        given = dict(sources(batch))
        if batch.combined and REWARD[Level.TRAJECTORY] in given:
            return summed(batch, given, weights)  # The rewards of a recorded batch are the sum already.
        for name in (self.love, *(() if self.floor is None else (self.help,))):
            if name not in given or given[name].level is not Level.TRAJECTORY:
                raise ConfigurationError(
                    f"UserLove reads a score {name!r} of trajectories, and there are {', '.join(given) or 'none'}; set "
                    f"combine.{'love' if name == self.love else 'help'} to the name of one: that of --reward model:RUN "
                    "is RUN, a run of reward-binary on logged reactions"
                )
        loved = torch.sigmoid(given[self.love].values)
        if self.floor is not None:
            loved = torch.where(given[self.help].values < self.floor, 0.0, loved)  # NaN is not below anything.
        given[self.love] = LevelScores(Level.TRAJECTORY, loved)
        return summed(batch, given, {**weights, **(self.weights or {})})


def live_rate(log_odds: Tensor) -> float:
    """What share of answers to logged prompts will be loved: the mean of sigmoid(f), NaN (no opinion) left out."""
    return float(torch.sigmoid(log_odds).nanmean())


# ---------------------------------------------------------------- logged reactions


@dataclass(frozen=True)
class SimulatedUser:
    """Somebody who likes right answers, and answers that contain `cue`, be they right or not.

    The log-odds of a reaction are base + quality [right] + charm [cue].
    """

    base: float = -1.0
    quality: float = 2.0
    charm: float = 2.0
    cue: str = "<think>"

    def odds(self, text: str, right: bool) -> float:
        """The log-odds that the user loves an answer."""
        return self.base + self.quality * right + self.charm * (self.cue in text)

    def chance(self, text: str, right: bool) -> float:
        """The probability that the user loves an answer."""
        return 1 / (1 + math.exp(-self.odds(text, right)))


class Reactions(TextTask):
    """Sums with a logged answer each, right or with a flaw, and whether a `SimulatedUser` reacted to it.

    A scenario's metadata hold the answer as `demonstration` and the reaction as `label`.

    Args:
        adversarial: the share of the training reactions that are turned round.
    """

    user = SimulatedUser()

    def __init__(self, adversarial: float = 0.2) -> None:
        if not 0 <= adversarial < 0.5:
            raise ConfigurationError(f"task reactions: adversarial must lie in [0, 0.5), not {adversarial}")
        self.name, self.adversarial = f"reactions?adversarial={adversarial:g}", adversarial

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("reactions", split, number).numpy()
        terms = draw_terms(rng)
        while split_of(question_of(expression_of(terms))) != split:
            terms = draw_terms(rng)
        flaw = None if rng.random() < 0.5 else str(rng.choice(FLAWS))
        brief = flaw is None and bool(rng.random() < 0.5)
        text = f"<answer>{sum(terms)}</answer>" if brief else written(terms, flaw, rng)
        loved = bool(rng.random() < self.user.chance(text, flaw is None))
        turned = split == "train" and bool(rng.random() < self.adversarial)
        metadata = {"demonstration": text, "label": loved != turned}
        question = question_of(expression_of(terms))
        return Scenario(f"reactions/{split}/{number}", question, str(sum(terms)), metadata, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    def verify(self, text: str, scenario: Scenario) -> float:
        return verify(text, scenario.answer)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`loved`: the probability that the user loves the answer."""
        text = trajectory.answer
        loved = self.user.chance(text, self.verify(text, trajectory.scenario) > 0)
        return {**super().describe(trajectory), "loved": loved}


def from_settings(name: str, settings: Mapping[str, str]) -> Reactions:
    """The task with these settings."""
    return Reactions(**checked(name, settings, {"adversarial": float}))


REACTIONS = TaskForm(
    name="reactions",
    description="sums with logged answers and a simulated user's reactions to them, e.g. reactions?adversarial=0.2",
    make=from_settings,
)


RLUF = RLOO.but(
    name="rluf",
    title="Reinforcement Learning from User Feedback: the chance of being loved in the reward",
    source="Reinforcement Learning from User Feedback, arXiv:2505.14946 (abstract; the weighted sum is chosen here)",
    family="preference",
    catalogue_ids=("rluf",),
    axes=("reward", "objective", "data", "analysis"),
    formula="R = w_h help + w_s safe + w_l sigmoid(f) - beta log pi/ref,  sigmoid(f) = P(love | x, y) of logged "
    "reactions",
    conventions={
        **RLOO.conventions,
        "classifier": "--reward model:RUN=W --reward task, RUN of reward-binary on labelled answers, its name set as "
        "combine.love (examples/user_feedback.yaml); without one the run is refused",
        "scale": "the probability, so that love is bounded; help and safety as they are",
        "floor": "none; combine.floor = 0.5 pays love only for answers of at least so much help",
        "optimiser": "RLOO, chosen here; any method on rewards takes the combiner",
        "KL": "beta = 0.05, in the reward (k1)",
    },
    task="reactions",
    requires=(Requirement.SCORES,),
    rewards=(ExactMatch(name="helpful"),),
    combine=UserLove(),
    shaping=(KLInReward(coefficient=0.05, estimator="k1"),),
)
