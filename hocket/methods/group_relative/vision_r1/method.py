"""Vision-R1: a cold start from descriptions in words, and thinking that is allowed to grow in stages (Huang et al.).

arXiv:2503.06749, recalled. A text reasoner that is handed a description of the picture writes the thoughts of the cold
start (lessons of `bridged-digits`), after which the model thinks too long. Progressive thinking suppression begins GRPO
with a low limit of length and many samples, and raises the limit while it lowers the number of samples
(`ThinkingStages`), so that short right thoughts are learnt before long ones are allowed. The reward is 1 only if format
and answer are right, `FormatAndAnswer`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from hocket.core.batch import Batch
from hocket.core.columns import TEXT
from hocket.core.keys import Key
from hocket.core.signals import RIGHT, returns
from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.rewards.members import with_return
from hocket.rewards.tags import TagFormat, Thought
from hocket.rollout.independent import Independent
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Shaping
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class CappedSamples(Rollout):
    """`samples` independent answers to every scenario, cut at a share of `decoding.max_tokens`, rounded up."""

    samples: int = 8
    share: float = 1.0

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
        capped = [
            replace(item, decoding=replace(item.decoding, max_tokens=math.ceil(self.share * item.decoding.max_tokens)))
            for item in asked
        ]
        return await Independent(self.samples).collect(capped, play=play, score=score, ledger=ledger, key=key)


@dataclass(frozen=True)
class ThinkingStages(Rollout):
    """Progressive thinking suppression: stages of longer and fewer answers. The last one lasts for the rest of the run.

    Attributes:
        shares: the limit of length in each stage, as a share of `decoding.max_tokens`. sizes: the answers to a scenario
            in each. every: steps of a stage.
    """

    shares: tuple[float, ...] = (0.25, 0.5, 1.0)
    sizes: tuple[int, ...] = (16, 8, 4)
    every: int = 10

    def __post_init__(self) -> None:
        if not self.shares or len(self.shares) != len(self.sizes):
            raise ValueError(
                f"shares and sizes must be of one length, at least 1, not {len(self.shares)} and {len(self.sizes)}"
            )
        if not all(0 < share <= 1 for share in self.shares):
            raise ValueError(f"shares must lie in (0, 1], not {list(self.shares)}")
        if min(self.sizes) < 1 or self.every < 1:
            raise ValueError("sizes and every must be at least 1")

    @property
    def samples(self) -> int:
        """The fewest answers to a scenario."""
        return min(self.sizes)

    def at(self, step: int) -> CappedSamples:
        """The rollout of the stage of `step`."""
        stage = min((step - 1) // self.every, len(self.shares) - 1)
        return CappedSamples(self.sizes[stage], self.shares[stage])

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
        return await self.at(1).collect(asked, play=play, score=score, ledger=ledger, key=key)


@dataclass(frozen=True)
class FormatAndAnswer(Shaping):
    """The return becomes 1 for a right answer in the right form, else 0. Reads `text`, the last turn's.

    Attributes:
        thought: as in `hocket.rewards.tags.TagFormat`. least: an answer is right when its return is at least this.
    """

    thought: Thought = "filled"
    least: float = RIGHT

    def __call__(self, batch: Batch) -> Batch:
        texts, form = TEXT.read(batch, "FormatAndAnswer"), TagFormat(thought=self.thought)
        formed = torch.tensor([form.mark(text or "") for text in texts], dtype=torch.float64)
        return with_return(batch, formed * (returns(batch) >= self.least).double())


VISION_R1 = GRPO_KL.but(
    name="vision-r1",
    title="Vision-R1: a cold start in words, and progressive thinking suppression",
    source="Huang et al., Vision-R1: Incentivizing Reasoning Capability in Multimodal Large Language Models, "
    "arXiv:2503.06749 (recalled)",
    catalogue_ids=("vision-r1",),
    axes=("data", "reward", "rollout"),
    task="bridged-digits",
    formula="stage s: G_s answers of at most L_s tokens, L_s rising, G_s L_s constant;  R = [format] [right];  "
    "A_i = (R_i - mean_g R)/(std_g R + eps),  clipped, KL k3 0.04",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 0.04 (chosen here)",
        "cold start": "`--lessons 60`: supervised steps on right answers behind descriptions of the picture in words",
        "stages": "rollout.shares = 1/4, 1/2 and all of decoding.max_tokens with rollout.sizes = 16, 8 and 4 answers, "
        "rollout.every = 10 steps each; the paper's first two are 4,096 tokens x 16 and 8,192 x 8",
        "format": "a filled thought and one answer in tags (shaping.0.thought)",
    },
    note="shown on questions about handwriting, where a script writes the cold start; the paper has mathematics with "
    "pictures, and two language models write it; at equal sampled tokens stages made answers shorter, not more often "
    "right",
    rollout=ThinkingStages(),
    shaping=(FormatAndAnswer(),),
)
