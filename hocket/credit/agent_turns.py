"""Credit among answers to one and the same prompt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from hocket.credit.formulas import centred, scaled
from hocket.credit.units import Units, agent_returns, turn_units
from hocket.segments import segment_sum
from hocket.signals import REWARD
from hocket.stages import Credit
from hocket.types import Batch, Level, LevelScores, Occurrences


@dataclass(frozen=True)
class PromptRelative(Credit):
    """`A_k = (r_k - mean_g r) / (std_g r + epsilon)` over the turns g of an agent that answer an identical prompt.

    AT-GRPO (arXiv 2510.11062): in a team prompts differ by role and by turn, so groups are taken per environment, agent
    and turn, and are made comparable by sampling several candidates at each turn (`hocket.rollout.AgentTurnTree`).
    Members of a group here have the same scenario, agent and prompt by construction: every token from the beginning of
    the agent's conversation on. Turns that nobody else answered get 0.

    r_k is the turn's own reward where any member of the group has a score of its turn; so what happened after the
    candidate that was executed does not count for it alone. In a group without such scores it is the agent's
    reward-to-go, so with one agent, one turn and plain sampling this is `GroupRelative`. Turns whose weights are all 0
    enter no statistic and get 0.

    Attributes:
        scale, ddof, epsilon: as in `GroupRelative`; the epsilon is the paper's.
    """

    scale: Literal["std"] | None = "std"
    ddof: int = 1
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        if self.scale not in ("std", None):
            raise ValueError(f"scale must be 'std' or null, not {self.scale!r}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = turn_units(batch)
        group, size = prompt_groups(batch, units)
        value = self._values(batch, units, group, size)[units.counted]
        group = group[units.counted]
        credit = centred(value, group, size)
        if self.scale == "std":
            credit = scaled(credit, credit, group, size, ddof=self.ddof, epsilon=self.epsilon)
        spread = torch.zeros(len(units.counted), dtype=torch.float64)
        spread[units.counted] = credit
        return replace(batch.occurrences, advantage=spread[units.member])

    def _values(self, batch: Batch, units: Units, group: Tensor, size: int) -> Tensor:
        assert units.turn is not None
        judged = segment_sum(turns_judged(batch)[units.turn].double(), group, size) > 0
        local = REWARD[Level.TURN]
        own = batch.scores[local].values[units.turn] if local in batch.scores else torch.zeros_like(units.value)
        return torch.where(judged[group], own.double(), agent_returns(batch, units, 1.0))


def turns_judged(batch: Batch) -> Tensor:
    """Which turns have a score of their own, `[U]` bool."""
    scores = {n: s for n, s in batch.scores.items() if s.level is Level.TURN}
    # The combined reward counts 0 where nobody had an opinion; only the scores it was made of tell.
    named: dict[str, LevelScores] = {n: s for n, s in scores.items() if n != REWARD[Level.TURN]} or scores
    found = torch.zeros(batch.turns, dtype=torch.bool)
    for score in named.values():
        found |= ~score.values.isnan()
    return found


def prompt_groups(batch: Batch, units: Units) -> tuple[Tensor, int]:
    """Groups of visits to turns of one agent of a scenario with an identical prompt: their numbers `[M]`, and how many.

    A prompt is what was observed and answered from the root of the conversation on. Where every decision has an
    observation of its own (control), it is the first one.
    """
    assert units.turn is not None
    prompts = _prompts(batch)
    codes: dict[tuple[int, int, int], int] = {}
    rows = zip(
        batch.scenario[units.trajectory].tolist(), batch.agent[units.turn].tolist(), units.turn.tolist(), strict=True
    )
    group = [codes.setdefault((scenario, agent, prompts[turn]), len(codes)) for scenario, agent, turn in rows]
    return torch.tensor(group, dtype=torch.long), len(codes)


def _prompts(batch: Batch) -> list[int]:
    """A number per turn, equal for equal prompts, `[U]`. Contexts stand before what extends them."""
    sizes = torch.bincount(batch.turn, minlength=batch.turns).tolist()
    answers = torch.split(batch.action[torch.argsort(batch.turn, stable=True)], sizes)
    codes: dict[tuple[int, bytes, bytes], int] = {}
    found: list[int] = []
    for turn, parent in enumerate(batch.parent.tolist()):
        seen = batch.observation[turn]
        control = seen.ndim > 1 or seen.dtype.kind == "f"
        before, said = (found[parent], answers[parent].numpy().tobytes()) if parent >= 0 else (-1, b"")
        prompt = (before, said, (seen[:1] if control else seen).tobytes())
        found.append(codes.setdefault(prompt, len(codes)))
    return found
