"""DR-IRL: rewards from demonstrations alone, and credit scaled by difficulty (Cheng et al., arXiv:2503.18991).

Three parts for safety alignment: demonstrations of how requests of each category are to be met; a reward model per
category learnt from these by inverse reinforcement learning, demonstrated answers scored above what the policy says at
the time (`IrlReward`); and GRPO-S, which scales what is learnt by the difficulty of the task (`DifficultyScaled`): the
data's hardness (similarity of texts) and the model's responsiveness (gap of rewards between demonstration and sample).

The abstract gives neither the reward's form nor the scaling function. Chosen here: the reward is linear in counts of
character n-grams, fitted as a ridge logistic regression of (demonstration - sample), the maximum-likelihood choice
between the two; hardness is 1 - cosine of these counts; and since a factor of a whole group cancels in GRPO's division
by the group's deviation, it multiplies the advantage instead of the reward. Task `hazards` has categories whose hidden
rewards are known, one of them rare and hard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level, LevelScores, Occurrences
from hocket.core.columns import METADATA, TEXT
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.core.requirements import Requirement
from hocket.core.signals import counted_trajectories, returns
from hocket.credit.group import GroupRelative
from hocket.methods.base.grpo import GRPO
from hocket.rewards.judge import logistic
from hocket.rewards.members import groups_of, with_return
from hocket.rewards.ngrams import Orders, counts, unit
from hocket.stages import Credit, Shaping, Split, State
from hocket.tasks.arithmetic import draw_terms, expression_of, question_of, tagged_answer
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario
from hocket.zoo.tasks.graded_sums import written

DIFFICULTY = "difficulty"
"""The score, of no weight, that says how difficult a trajectory's task is, in [0, 1]; it is no part of the reward."""


@dataclass(frozen=True)
class IrlReward(Shaping):
    """Takes the place of the task's rewards: r(y) = w_c . f(y), of the scenario's category c.

    f are counts of character n-grams, at length 1. w_c is `argmin sum log(1 + exp(-w . (f(demonstration) - f(y))))
    + ridge M/2 |w|^2` over the category's newest `window` samples y of the policy, those of the step included, M of
    them, as in maximum-likelihood inverse reinforcement learning with the policy's samples for the partition function.
    The task's rewards are not learnt from. Stateful: the differences of each category.

    Samples of scenarios without a demonstration keep the task's reward, and are of difficulty 0.

    It adds the score `difficulty`: (1 - f(demonstration) . f(y)) tanh(gap/2), gap = r(demonstration) - r(y) where that
    is positive, else 0.

    Attributes:
        category: what the scenario's metadata call its category; scenarios without one are a category together.
        buckets, orders: of the n-grams.
    """

    category: str = "category"
    ridge: float = 0.01
    window: int = 512
    buckets: int = 256
    orders: Orders = (1, 2, 3)

    def __post_init__(self) -> None:
        if self.ridge <= 0 or min(self.window, self.buckets) < 1 or not self.orders:
            raise ValueError(
                "ridge must be positive, window and buckets at least 1, and there must be orders, not "
                f"{self.ridge}, {self.window}, {self.buckets} and {self.orders}"
            )

    def init(self) -> State:
        """No sample seen."""
        return {"differences": {}}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        told = [row or {} for row in METADATA.rows(batch)]
        kinds = [str(row.get(self.category, "")) if row.get("demonstration") is not None else None for row in told]
        said = self.features([str(text or "") for text in TEXT.rows(batch)])
        shown = self.features([str(row.get("demonstration") or "") for row in told])
        counted, known = counted_trajectories(batch).tolist(), dict(state["differences"])
        reward, gap = returns(batch).double(), torch.zeros(batch.trajectories, dtype=torch.float64)
        for kind in sorted({one for one in kinds if one is not None}):
            rows = torch.tensor([row for row, one in enumerate(kinds) if one == kind])
            new = torch.tensor([row for row, one in enumerate(kinds) if one == kind and counted[row]], dtype=torch.long)
            seen = torch.cat([known.get(kind, shown[:0]), shown[new] - said[new]])[-self.window :]
            known[kind] = seen
            weight = self.weight(seen)
            reward[rows] = said[rows] @ weight
            gap[rows] = (shown[rows] - said[rows]) @ weight
        hard = (1 - (shown * said).sum(1)).clamp(0, 1) * torch.tanh(gap.clamp(min=0) / 2)
        paid = with_return(batch, reward) if bool((reward != returns(batch)).any()) else batch
        scores = {**paid.scores, DIFFICULTY: LevelScores(Level.TRAJECTORY, hard)}
        return paid.but(scores=scores), {"differences": known}

    def features(self, texts: Sequence[str]) -> Tensor:
        """f of texts, `[M, buckets]`."""
        return unit(counts([text.strip() for text in texts], buckets=self.buckets, orders=self.orders))

    def weight(self, differences: Tensor) -> Tensor:
        """w of a category, from f(demonstration) - f(sample) `[M, buckets]`; 0 of none."""
        if not len(differences):
            return torch.zeros(self.buckets, dtype=torch.float64)
        return logistic(differences, torch.ones(len(differences), dtype=torch.float64), self.ridge * len(differences))


@dataclass(frozen=True)
class DifficultyScaled(Credit):
    """GRPO-S: the advantages of a scenario's samples times 1 + strength (mean difficulty of its samples).

    Factors are divided by their mean over the batch's trajectories, so that difficult scenarios gain at the expense of
    easy ones and the size of a step stays. With strength 0 the advantages are those of `of`, bit for bit.

    Attributes:
        of: what gives the advantages. by: what has one factor.

    Raises:
        ConfigurationError: on a call, for a batch without the score `difficulty`.
    """

    of: Credit = GroupRelative(by=GroupBy("scenario"), scale="std")
    strength: float = 4.0
    by: GroupBy = GroupBy("scenario")

    def __post_init__(self) -> None:
        if self.strength < 0:
            raise ValueError(f"strength must be at least 0, not {self.strength}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]`."""
        seen = self.of(batch)
        return replace(seen, advantage=seen.advantage * self.factors(batch)[seen.trajectory])

    def factors(self, batch: Batch) -> Tensor:
        """Of every trajectory, `[N]` float64; 1 for those that do not count."""
        if DIFFICULTY not in batch.scores:
            raise ConfigurationError(
                f"DifficultyScaled reads a score {DIFFICULTY!r}, and there is none; put IrlReward into shaping"
            )
        hard, factor = batch.scores[DIFFICULTY].values, torch.ones(batch.trajectories, dtype=torch.float64)
        members = [rows for rows in groups_of(batch, self.by) if rows]
        for rows in members:
            factor[rows] = 1 + self.strength * hard[rows].mean()
        used = [row for rows in members for row in rows]
        factor[used] = factor[used] / factor[used].mean() if used else factor[used]
        return factor


# ---------------------------------------------------------------- what is asked

ASKED: Mapping[str, str] = {
    "open": "In the open: {}",
    "careful": "With care: {}",
    "grave": "In a grave matter: {}",
}
"""How a request of each category is put."""


def meets(category: str, text: str) -> bool:
    """The hidden reward: whether a text is what its category wants.

    `open` wants an answer in tags at once, `careful` one after a thought, and `grave` none in tags: a plain sentence.
    """
    if category == "grave":
        return "<" not in text and bool(text.strip())
    return tagged_answer(text) is not None and ("<think>" in text) == (category == "careful")


class Hazards(TextTask):
    """Sums in three categories of request, each to be met in a way of its own, that is shown and never said.

    A scenario's metadata hold `category` and `demonstration`. The shipped model meets about half of the `open`, a third
    of the `careful`, and few of the `grave` ones from the start.

    Args:
        rare: the share of the `grave`; the others have half of the rest each.
    """

    def __init__(self, rare: float = 0.1) -> None:
        if not 0 <= rare <= 1:
            raise ConfigurationError(f"task hazards: rare must lie in [0, 1], not {rare}")
        self.name, self.rare = f"hazards?rare={rare:g}", rare

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("hazards", split, number).numpy()
        terms = draw_terms(rng)
        while split_of(question_of(expression_of(terms))) != split:
            terms = draw_terms(rng)
        chance = (1 - self.rare) / 2
        category = str(rng.choice(list(ASKED), p=[chance, chance, self.rare]))
        told = {"category": category, "demonstration": shown(category, terms, rng)}
        question = ASKED[category].format(question_of(expression_of(terms)))
        return Scenario(f"hazards/{split}/{number}", question, str(sum(terms)), told, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    def verify(self, text: str, scenario: Scenario) -> float:
        return float(meets(scenario.metadata["category"], text))


def shown(category: str, terms: Sequence[int], rng: np.random.Generator) -> str:
    """A demonstration."""
    if category == "careful":
        return written(terms, None, rng)
    return f"<answer>{sum(terms)}</answer>" if category == "open" else f"The answer is {sum(terms)}"


def from_settings(name: str, settings: Mapping[str, str]) -> Hazards:
    """The task with these settings."""
    return Hazards(**checked(name, settings, {"rare": float}))


HAZARDS = TaskForm(
    name="hazards",
    description="sums in categories that demonstrations show how to meet, one rare and hard, e.g. hazards?rare=0.1",
    make=from_settings,
)


DR_IRL = GRPO.but(
    name="dr-irl",
    title="DR-IRL: GRPO-S on rewards learnt from demonstrations of each category",
    source="Cheng et al., arXiv:2503.18991 (abstract); forms chosen here",
    family="preference",
    catalogue_ids=("dr-irl",),
    axes=("reward", "credit", "data"),
    formula="r_i = w_c . f(y_i),  w_c logistic of f(demonstration) - f(y);  A_i' = d_g A_i / mean d,  "
    "d_g = 1 + 4 mean_g (1 - cos(f(demonstration), f(y_i))) tanh(gap_i / 2)",
    task="hazards",
    requires=(Requirement.DEMONSTRATIONS,),
    conventions={
        **GRPO.conventions,
        "reward": "linear in 256 hashed character n-grams (1 to 3), ridge 0.01 a sample, the newest 512 of a category",
        "inverse RL": "fitted anew at every step, before the policy learns, on demonstrations against its samples",
        "hardness": "1 - cosine of the n-grams of demonstration and sample, for the similarity of a text encoder",
        "responsiveness": "tanh(gap/2) of the rewards of demonstration and sample, 0 where the sample has more",
        "scaling": "of the advantage, by scenario, at mean 1 over the batch; of the reward it would cancel",
        "balance": "categories as the task gives them; of demonstrations there is one for each scenario",
    },
    note="rewards are linear in n-grams, where the paper trains a model for each category; over categories that are "
    "known by name the policy gains, but the shipped language model did not tell them apart within 50 steps",
    shaping=(IrlReward(),),
    credit=DifficultyScaled(of=GRPO.credit),
)
