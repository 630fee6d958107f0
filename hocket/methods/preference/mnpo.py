"""MNPO: INPO against a population of past selves (Wu et al., arXiv:2509.23102).

A log-ratio is taken to the reference and to the last J policies, each with its weight. `PopulationStep` keeps their
weights, asks each about the samples, and puts their weighted log-probs in the place of the sampler's, which is the
newest of them; loss and pairs are INPO's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from hocket.core.batch import Batch, RecordedNumbers
from hocket.core.evaluating import evaluate_detached
from hocket.core.keys import Key
from hocket.methods.preference.inpo import INPO
from hocket.objectives.ratios import recorded
from hocket.stages import Metrics, State
from hocket.types import Quantity
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem
from hocket.update.weights import moved_to, restored, trained_weights


def population_weights(count: int, decay: float) -> list[float]:
    """lambda_j proportional to decay^j, the newest first; they sum to 1."""
    whole = sum(decay**place for place in range(count))
    return [decay**place / whole for place in range(count)]


@dataclass(frozen=True)
class PopulationStep(GradientStep):
    """`GradientStep` on a batch whose log-probs of the sampler are those of a population, sum_j lambda_j log pi_{t-j}.

    The population is the policy that sampled and up to `opponents` - 1 earlier ones, as they were before their rounds.
    The trained weights of each are kept, and saved with a checkpoint.

    Stateful: the past selves' weights, the newest first.

    Attributes:
        opponents: J, at least 1; with 1 it is INPO's update.
        decay: lambda_j is proportional to decay^j; 1 is uniform.
        every: steps of a round, after which a policy enters.
    """

    opponents: int = 3
    decay: float = 1.0
    every: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.opponents < 1 or self.every < 1 or not 0 < self.decay <= 1:
            raise ValueError(
                f"opponents and every must be at least 1 and decay in (0, 1], not {self.opponents}, {self.every} and "
                f"{self.decay}"
            )

    def init(self) -> State:
        """Nobody yet."""
        return {"steps": 0, "past": []}

    def step(self, problem: Problem, key: Key) -> Metrics:
        known = {**self.init(), **problem.memory}
        past: list[list[Tensor]] = list(known["past"])
        weights = trained_weights(problem.optimiser)
        now = [weight.detach().clone() for weight in weights]
        batch = problem.batch
        try:
            problem.batch = self._against(problem, weights, past)
            found = super().step(problem, key)
        finally:
            problem.batch = batch
        if int(known["steps"]) % self.every == 0:
            past = [now, *past][: self.opponents - 1]
        problem.memory = {"steps": int(known["steps"]) + 1, "past": past}
        return {**found, "population/opponents": 1.0 + min(len(known["past"]), self.opponents - 1)}

    def _against(self, problem: Problem, weights: Sequence[Tensor], past: Sequence[Sequence[Tensor]]) -> Batch:
        """The batch with the population's log-probs at its decisions in the place of the sampler's."""
        batch, decisions = problem.batch, problem.counted()
        shares = population_weights(1 + len(past), self.decay)
        values = shares[0] * recorded(batch, "behaviour")
        for share, one in zip(shares[1:], past, strict=True):
            with restored(weights):
                moved_to(weights, one)
                logp = evaluate_detached(problem.policy, batch, {Quantity.LOGP}, decisions).logp
            values[decisions] += share * logp[decisions].to(values.dtype)
        return batch.but(logp={**batch.logp, "behaviour": RecordedNumbers(values, batch.logp["behaviour"].present)})


MNPO = INPO.but(
    name="mnpo",
    title="Multiplayer Nash Preference Optimisation: INPO against a population of past selves",
    source="Wu et al., arXiv:2509.23102; the form of the catalogue, which names the authors' trainer",
    catalogue_ids=("mnpo",),
    formula="L = mean_pairs (h - 1/(2 eta))^2,  h = d(pi) - r d(ref) - (1 - r) sum_j lambda_j d(pi_{t-j}),  "
    "d(p) = log p(y_w) - log p(y_l)",
    conventions={
        **{name: text for name, text in INPO.conventions.items() if name != "tau"},
        "population": "the policy that sampled and the two before it, uniformly weighted (update.opponents, "
        "update.decay); other models are not seated",
        "eta": "as INPO's here; the release has 0.0075",
        "r": "a third: objective.measure.old = 1 - r = 2/3, as INPO's here",
        "round": "a step of four passes; update.every makes rounds longer",
    },
    update=PopulationStep(epochs=4, opponents=3),
)
