"""ECHO: GRPO that also learns to foretell what its tools answer (prime-rl's `echo`).

What the environment says between an agent's turns is text that costs nothing to learn from. Beside GRPO on what was
sampled, the tokens of later observations are imitated with a small weight: each becomes a turn of its own, imposed
behind the same context (`WithObservations`). The two losses have denominators of their own (`SampledLoss`,
`ObservedLikelihood`), so neither dilutes the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.rollout.independent import Independent
from hocket.stages import Grade, LedgerView, More, Objective, Play
from hocket.types import Assignment, Evaluation, Experience, Terms, Trajectory, Turn

OBSERVED = " (observed)"
"""What a scenario's name ends in where its trajectories hold observations: they are no samples of it."""


@dataclass(frozen=True)
class WithObservations(Independent):
    """`Independent` samples, and for each a second trajectory of source `imported`: its later observations as turns.

    An observation counts where the last message before it is of one of `roles`. Its turn has the tokens that the agent
    read between its turns, with what the chat template puts around them. It has no score.

    Attributes:
        roles: whose messages are foretold; none names all.
        metrics: `rollout/observed`, the tokens of observations.
    """

    roles: tuple[str, ...] = ("tool",)

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """The sampled trajectories first, then the observed ones."""
        played = await super().collect(asked, play=play, score=score, ledger=ledger, key=key, more=more)
        observed = [text for each in played.trajectories if (text := self._observed(each)) is not None]
        tokens = float(sum(trajectory.length for trajectory in observed))
        metrics = {**(played.metrics or {}), "rollout/observed": tokens}
        return replace(played, trajectories=[*played.trajectories, *observed], metrics=metrics)

    def _observed(self, trajectory: Trajectory) -> Trajectory | None:
        """The later observations of a trajectory; None without any."""
        turns = [
            Turn(
                agent=turn.agent,
                policy=turn.policy,
                role=turn.role,
                observation=turn.observation[:0],
                action=np.asarray(turn.observation, np.int64),
                parent=turn.parent,
            )
            for turn in trajectory.turns
            if turn.parent is not None and len(turn.observation) and self._counts(turn)
        ]
        if not turns or trajectory.failure is not None:
            return None
        scenario = replace(trajectory.scenario, id=trajectory.scenario.id + OBSERVED)
        return Trajectory(scenario, turns, sample=trajectory.sample, source="imported")

    def _counts(self, turn: Turn) -> bool:
        return not self.roles or (bool(turn.prompt) and turn.prompt[-1].get("role") in self.roles)


def observed(batch: Batch) -> Tensor:
    """Which occurrences are of observations, `[E]` bool."""
    names = batch.names["scenario"]
    marked = torch.tensor([name.endswith(OBSERVED) for name in names], dtype=torch.bool)
    return marked[batch.scenario][batch.occurrences.trajectory]


@dataclass(frozen=True)
class SampledLoss(Objective):
    """The terms of `of`, as if there were no observations in the batch."""

    of: Objective = field(default_factory=ClippedSurrogate)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        return self.of(now, _weighing(batch, ~observed(batch)))


@dataclass(frozen=True)
class ObservedLikelihood(NegativeLogLikelihood):
    """coefficient times -log pi of observations' tokens, mean over these.

    Attributes:
        coefficient: ECHO's lambda, at least 0.
    """

    coefficient: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coefficient < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        terms = super().__call__(now, _weighing(batch, observed(batch)))
        return replace(terms, value=self.coefficient * terms.value)


def _weighing(batch: Batch, where: Tensor) -> Batch:
    """The batch with weight 0 elsewhere."""
    weight = batch.occurrences.weight
    return batch.credited(weight=torch.where(where, weight, torch.zeros_like(weight)))


ECHO = GRPO.but(
    name="echo",
    title="GRPO beside the likelihood of what tools answer",
    source="prime-rl, echo",
    formula=GRPO.formula + " - 0.1/sum_i m_i sum_i sum_s log pi(o_is),  o the m_i tokens that tools answered",
    conventions={
        **GRPO.conventions,
        "observations": "whole messages of role tool after the first turn, with the template's tokens around them; "
        "prime-rl leaves these out where its renderer tells them apart (rollout.roles)",
        "weight": "0.1 (regularisers.0.coefficient), a mean over observed tokens of its own",
    },
    task="calculator",
    requires=(Requirement.TURNS,),
    rollout=WithObservations(),
    objective=SampledLoss(of=GRPO.objective),
    regularisers=(ObservedLikelihood(aggregate="token-mean"),),
)
