"""What the policy believes in, turn by turn: the probability it gives to the right answer, had it to answer now."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hocket.core.method_columns import BELIEFS
from hocket.keys import Key
from hocket.rollout.branches import ANSWER
from hocket.stages import Forecaster, Grade, LedgerView, More, Play, Rollout, Words, forecaster_of, words_of
from hocket.types import Assignment, Experience, Scenario, Trajectory


@dataclass(frozen=True)
class WithBeliefs(Rollout):
    """`samples` trajectories per scenario, and for each turn the belief in the right answer as the turn began.

    IGPO (arXiv 2510.14967): `b = exp( (1/|g|) sum_j log pi(g_j | h, phrase, g_<j) )`, g the tokens of the scenario's
    answer (the first, where several are right) and h all that the agent had seen when the turn began, what the turn
    before it brought included. The response is imposed, never sampled, under the policy that played, at its sampling
    temperature. Column `beliefs` holds them, a list per trajectory in call order; None where nobody could tell (no
    answer, no room in the context, a role that does not learn), and as a whole where the player has no likelihoods.

    Attributes:
        phrase: what is imposed before the answer and not counted.
        measure: `probability`, b itself; or `log`, its logarithm, nats per token.
    """

    samples: int = 8
    phrase: str = ANSWER
    measure: Literal["probability", "log"] = "probability"

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if self.measure not in ("probability", "log"):
            raise ValueError(f"measure must be probability or log, not {self.measure!r}")

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
        """The samples with their beliefs. Metric `rollout/belief` is the mean belief at the last turns."""
        trajectories = await play([replace(assignment, samples=self.samples) for assignment in asked])
        await self._ask(trajectories, forecaster_of(play), words_of(play))
        await score(trajectories)
        last = [held[-1] for one in trajectories if (held := BELIEFS.get(one)) and held[-1] is not None]
        return Experience(trajectories, metrics={"rollout/belief": sum(last) / len(last)} if last else {})

    async def _ask(
        self, trajectories: Sequence[Trajectory], forecaster: Forecaster | None, words: Words | None
    ) -> None:
        """Writes the beliefs of every trajectory."""
        for trajectory in trajectories:
            BELIEFS.write(trajectory, None)
        if forecaster is None or words is None:
            return
        lead = words.encode(self.phrase) if self.phrase else ()
        golds = {one.scenario.id: _gold(one.scenario, words) for one in trajectories}
        whole = [one for one in trajectories if one.failure is None and golds[one.scenario.id]]
        asked = [(turn, (*lead, *golds[one.scenario.id])) for one in whole for turn in one.turns]
        found = iter(await forecaster.likelihood(asked))
        for one in whole:
            BELIEFS.write(one, [self._belief(next(found), len(lead)) for _ in one.turns])

    def _belief(self, logp: NDArray[np.float32] | None, lead: int) -> float | None:
        """What is believed, from the log-probs of the phrase and the answer."""
        if logp is None:
            return None
        mean = float(np.asarray(logp[lead:], np.float64).mean())
        return mean if self.measure == "log" else math.exp(mean)


def _gold(scenario: Scenario, words: Words) -> tuple[int, ...]:
    """The tokens of a scenario's answer; none where it has no answer."""
    answer: Any = scenario.answer
    if isinstance(answer, (list, tuple)):
        answer = answer[0] if answer else None
    return () if answer is None or str(answer) == "" else words.encode(str(answer))
