"""GCPO: GRPO that rewards auxiliary constructions where they help (GeometryZero, Wang et al., arXiv:2506.07160).

Two probing groups are told to construct and not to (`ContrastGroups`); the difference of their success gives the sign
of a bonus for samples that construct (`ContrastBonus`). Form and length are paid a little besides (`LongerIsBetter`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import TRACE, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import TOOL_CALL
from hocket.core.signals import returns
from hocket.methods.base.conventions import LENGTH
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON
from hocket.rewards.members import with_return
from hocket.rewards.tags import TagFormat
from hocket.rollout.branches import ANSWER, NUMBERED, OPENED
from hocket.rollout.dynamic import total
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Shaping, Tokenizer, tokenizer_of
from hocket.types import Assignment, Experience, Trajectory

TOLD = InfoColumn("told", "`use` or `avoid`, what the sample was told; absent where it was told nothing.")


USE = "Use an auxiliary construction: write down a helpful intermediate quantity before you solve the problem."
AVOID = "Solve the problem directly, without any auxiliary construction."


@dataclass(frozen=True)
class ContrastGroups(Rollout):
    """Per scenario `probes` rollouts told to construct, as many told not to, and `samples` told nothing.

    GCPO (arXiv 2506.07160). The mean scores of the two told groups are written into every trajectory of the scenario,
    columns `accuracy_with` and `accuracy_without`, for `hocket.rewards.ContrastBonus`. The told groups inform and are
    not learnt from (source `baseline`): what should be learnt is to decide without being told. With `samples` 0 they
    are learnt from themselves, as the paper's abstract can also be read.

    Attributes:
        use, avoid: what the two groups are told, a line under the prompt; empty for nothing.
        score: whose mean is taken; None for all.
        use_opening, avoid_opening: what their responses are made to begin with, for policies that heed no words; empty
            for nothing, and without meaning for players without words.
    """

    samples: int = 8
    probes: int = 4
    use: str = USE
    avoid: str = AVOID
    use_opening: str = ""
    avoid_opening: str = ""
    score: str | None = None

    def __post_init__(self) -> None:
        if self.probes < 1 or self.samples < 0:
            raise ValueError(f"probes must be at least 1, samples at least 0, not {self.probes} and {self.samples}")

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
        """Per scenario the untold, those told to construct, those told not to."""
        words = tokenizer_of(play)
        played = await play([told for asking in asked for told in self._told(asking, words)])
        await score(played)
        size, found = self.samples + 2 * self.probes, []
        for number in range(len(asked)):
            group = played[number * size : (number + 1) * size]
            self._compare(group)
            found += group
        return Experience(found)

    def _told(self, asking: Assignment, words: Tokenizer | None) -> list[Assignment]:
        source = "baseline" if self.samples else asking.source
        orders, told = ((self.use, self.use_opening), (self.avoid, self.avoid_opening)), []
        for place, (hint, opening) in enumerate(orders, start=1):
            begun = (
                asking.prefix
                if words is None or not opening
                else (*asking.prefix, *words.encode(opening, asking.prefix))
            )
            one = replace(asking, samples=self.probes, hint=hint or asking.hint, source=source, prefix=begun)
            told.append(replace(one, first=asking.first + place * NUMBERED))
        return [replace(asking, samples=self.samples), *told] if self.samples else told

    def _compare(self, group: Sequence[Trajectory]) -> None:
        """Writes the mean scores of a scenario's two told groups into all of its trajectories."""
        sides = group[self.samples :]
        means = [self._mean(side) for side in (sides[: self.probes], sides[self.probes :])]
        for place, trajectory in enumerate(group):
            trajectory.info |= {ACCURACY_WITH.name: means[0], ACCURACY_WITHOUT.name: means[1]}
            if place >= self.samples:
                TOLD.write(trajectory, "use" if place < self.samples + self.probes else "avoid")

    def _mean(self, side: Sequence[Trajectory]) -> float | None:
        values = [
            sum(total(one) for name, one in trajectory.scores.items() if self.score in (None, name))
            for trajectory in side
            if trajectory.failure is None
        ]
        return sum(values) / len(values) if values else None


@dataclass(frozen=True)
class LongerIsBetter(Shaping):
    """Adds `weight min(l / limit, 1)`: a bonus for longer chains, as in GCPO (arXiv 2506.07160)."""

    lengths: ClassVar[tuple[str, ...]] = ("limit",)

    limit: int
    weight: float = 0.1

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, not {self.limit}")

    def __call__(self, batch: Batch) -> Batch:
        term = (batch.lengths().double() / self.limit).clamp(max=1.0)
        return with_return(batch, returns(batch) + self.weight * term)


CONSTRUCTS = InfoColumn("constructs", "Whether the response uses what is contrasted; without it the text is searched.")


def contrast_sign(with_it: Tensor, without: Tensor, band: float) -> Tensor:
    """+1 where `a_w > a_o + band`, -1 where `a_w < a_o - band`, 0 between; same shape."""
    gap = with_it - without
    return (gap > band).double() - (gap < -band).double()


@dataclass(frozen=True)
class ContrastBonus(Shaping):
    """Adds `weight * sign` to rollouts that construct, the sign telling whether constructing helps on this scenario.

    GCPO (arXiv 2506.07160): the mean returns of rollouts told to construct and told not to give the sign, see
    `contrast_sign`. Reads column `accuracy_with` and `accuracy_without`, which `hocket.rollout.ContrastGroups` writes
    (a scenario without them has sign 0), and `constructs` where the task tells; else `marker` is sought in the texts of
    all turns.

    Attributes:
        weight: of the bonus. band: differences up to this are no difference.
        marker: what a response that constructs contains.
        unconditional: sign +1 everywhere: the ablation.
    """

    weight: float = 0.5
    band: float = 0.1
    marker: str = TOOL_CALL
    unconditional: bool = False

    def __post_init__(self) -> None:
        if self.band < 0:
            raise ValueError(f"band must be at least 0, not {self.band}")

    def __call__(self, batch: Batch) -> Batch:
        sign = torch.ones(batch.trajectories, dtype=torch.float64) if self.unconditional else self._sign(batch)
        return with_return(batch, returns(batch) + self.weight * sign * self._constructs(batch))

    def _sign(self, batch: Batch) -> Tensor:
        told = [column.rows(batch) for column in (ACCURACY_WITH, ACCURACY_WITHOUT)]
        known = [None not in pair for pair in zip(*told, strict=True)]
        values = [torch.tensor([one or 0.0 for one in column], dtype=torch.float64) for column in told]
        return torch.where(torch.tensor(known), contrast_sign(values[0], values[1], self.band), 0.0)

    def _constructs(self, batch: Batch) -> Tensor:
        if CONSTRUCTS.present(batch):
            return torch.tensor([float(bool(one)) for one in CONSTRUCTS.rows(batch)], dtype=torch.float64)
        if not TRACE.present(batch):
            raise ConfigurationError("ContrastBonus reads 'trace' or 'constructs', which this experience does not hold")
        return torch.tensor([float(self.marker in (text or "")) for text in TRACE.rows(batch)], dtype=torch.float64)


ACCURACY_WITH = InfoColumn("accuracy_with", "The mean score of the scenario's samples told to use what is compared.")
ACCURACY_WITHOUT = InfoColumn("accuracy_without", "The mean score of the scenario's samples told to avoid it.")


GCPO_GEOMETRYZERO = GRPO.but(
    name="gcpo-geometryzero",
    title="Group contrastive policy optimisation",
    source="Wang et al., GeometryZero, arXiv:2506.07160",
    catalogue_ids=("gcpo-geometryzero",),
    axes=("reward", "rollout"),
    formula="R_i = verdict_i + w sign(a_w - a_o) constructs_i + tags_i + c min(l_i/L, 1), sign 0 within eps",
    conventions={
        **GRPO.conventions,
        **LENGTH,
        "told groups": "4 rollouts each, they give a_w and a_o and are not learnt from; 8 untold ones are",
        "band": "eps = shaping.0.band = 0.1",
        "construction": "column constructs, else <think> (shaping.0.marker) in the texts of all turns: a quantity "
        "written down before the answer, as auxiliary lines are drawn; a thought is therefore no matter of form",
        "told": "by the first tokens, <think> or <answer>, imposed (rollout.use_opening, avoid_opening), as the "
        "shipped base heeds no words; rollout.use and avoid are lines under the prompt for models that do",
        "weights": "bonus 0.5, tags 0.5, length 0.1; the paper's are not known here",
    },
    rollout=ContrastGroups(8, 4, use="", avoid="", use_opening=OPENED, avoid_opening=ANSWER),
    shaping=(ContrastBonus(marker=OPENED), TagFormat(weight=0.5, thought="optional"), LongerIsBetter(limit=HORIZON)),
)
