"""AdaCoT: PPO that learns when to think before answering (Lou et al., arXiv:2505.11896).

`ThinkingPenalties` charges thinking that was needed and left out, thinking that was not needed, and broken tags;
`MaskDecision` takes the loss off the token at which the choice is made, so that one-sided data cannot tip it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import ClassVar

import torch

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.columns import TEXT, TOKEN_TEXTS, Column, InfoColumn
from hocket.core.markup import has_thought
from hocket.core.segments import segment_count, segment_sum
from hocket.core.signals import returns, token_texts
from hocket.methods.base.ppo import PPO
from hocket.rewards.shaping import added
from hocket.stages import Correction, Shaping

NEEDED = InfoColumn("needed", "How much the scenario needs thinking, in [0, 1]; None where nobody knows.")


def well_formed(text: str) -> bool:
    """Whether each `<think>` is closed before the next one opens, and nothing is closed that was not open."""
    return re.sub(r"<think>(?:(?!</?think>).)*</think>", "", text, flags=re.DOTALL).find("think>") < 0


@dataclass(frozen=True)
class ThinkingPenalties(Shaping):
    """`R = R_base - miss P_miss - over P_over - form P_fmt`: AdaCoT (arXiv 2505.11896).

    P_miss is due for not thinking where it is needed, P_over for thinking where it is not, P_fmt for broken tags. How
    much thinking is needed is the column `needed` in [0, 1] (a label, or a labeller's confidence; P_miss is then that
    number and P_over the rest). Where it is None the group's own samples tell: needed is 1 if less than half of those
    that did not think were right, 0 if more were, and neither is charged if all thought. The paper's sources seen
    name the penalties and their coefficients; their exact form is our choice.

    Attributes:
        miss, over, form: the coefficients. success: the return from which on a sample counts as right.
    """

    miss: float = 0.2
    over: float = 0.2
    form: float = 0.5
    success: float = 1.0

    def __call__(self, batch: Batch) -> Batch:
        texts = [text or "" for text in TEXT.read(batch, "ThinkingPenalties")]
        thought = torch.tensor([has_thought(text) for text in texts], dtype=torch.bool)
        broken = torch.tensor([not well_formed(text) for text in texts], dtype=torch.float64)
        told = NEEDED.or_metadata(batch)
        needed = self._needed(batch, thought, told)
        known = ~needed.isnan()
        missed = torch.where(known & ~thought, needed, 0.0)
        excess = torch.where(known & thought, 1 - needed, 0.0)
        return added(batch, Level.TRAJECTORY, -self.miss * missed - self.over * excess - self.form * broken)

    def _needed(self, batch: Batch, thought: torch.Tensor, told: Sequence[float | None]) -> torch.Tensor:
        """How much each trajectory's scenario needs thinking, `[N]` in [0, 1], NaN where nobody knows."""
        labels = torch.tensor([torch.nan if one is None else float(one) for one in told], dtype=torch.float64)
        groups = GroupBy("scenario")(batch)
        seen = batch.occurrences
        counted = segment_count(seen.trajectory[seen.weight != 0], batch.trajectories) > 0
        straight = ~thought & counted
        tried = segment_count(groups.index[straight], groups.size)
        right = (returns(batch) >= self.success).double()
        rate = segment_sum(right[straight], groups.index[straight], groups.size) / tried
        judged = torch.where(rate == 0.5, torch.nan, (rate < 0.5).double())
        judged = torch.where(rate.isnan(), torch.nan, judged)
        return torch.where(labels.isnan(), judged[groups.index], labels)


@dataclass(frozen=True)
class MaskDecision(Correction):
    """Weight 0 for the decision whether to think: selective loss masking of AdaCoT (arXiv 2505.11896).

    So a stage of training on one-sided data cannot move that boundary. A policy that always opens `tag` decides with
    the token right after it, where it may close it again: the first one that begins at or after the end of the first
    `tag` of the response. A policy that leaves the tag out to answer straight, such as the shipped base, decides with
    the first token of its turn. Both are masked; what is no decision of a policy has next to no gradient there, or is
    one token of many. Set as a recipe's correction, it leaves credit as it is. Texts of tokens are the column `pieces`.

    Attributes:
        tag: what opens a thought; empty for policies whose first token alone decides.
    """

    tag: str = "<think>"

    reads: ClassVar[frozenset[Column]] = frozenset({TOKEN_TEXTS})

    def __call__(self, batch: Batch) -> Batch:
        seen = batch.occurrences
        turn = batch.turn[seen.decision]
        opens = torch.ones(len(seen), dtype=torch.bool)
        opens[1:] = (turn[1:] != turn[:-1]) | (seen.trajectory[1:] != seen.trajectory[:-1])
        decides = opens | self._after(batch, opens) if self.tag else opens
        return batch.credited(weight=torch.where(decides, torch.zeros_like(seen.weight), seen.weight))

    def _after(self, batch: Batch, opens: torch.Tensor) -> torch.Tensor:
        """Which occurrence comes right after the tag in its response, `[E]` bool."""
        texts = [piece for row in token_texts(batch, "MaskDecision") for piece in row]
        found = torch.zeros(len(texts), dtype=torch.bool)
        starts = [*torch.nonzero(opens).flatten().tolist(), len(texts)]
        for start, end in pairwise(starts):
            response = texts[start:end]
            at = "".join(response).find(self.tag)
            if at < 0:
                continue
            places = [0, *accumulate(len(piece) for piece in response)]
            after = next((n for n in range(len(response)) if places[n] >= at + len(self.tag)), None)
            if after is not None:
                found[start + after] = True
        return found


ADACOT = PPO.but(
    name="adacot",
    title="Adaptive chain-of-thought triggering",
    source="Lou et al., AdaCoT: Pareto-Optimal Adaptive Chain-of-Thought Triggering, arXiv:2505.11896",
    catalogue_ids=("adacot",),
    axes=("reward", "objective", "policy"),
    formula="R = R_base - a1 P_miss - a2 P_over - a3 P_fmt;  PPO, with weight 0 at the decision whether to think",
    conventions={
        **PPO.conventions,
        "coefficients": "shaping.0.miss, over and form = 0.2, 0.2, 0.5; a sweep of the first two moves along the front",
        "needed": "a label in [0, 1], column or metadata; without one the group's own unthinking samples tell, half of "
        "whom must be wrong",
        "masked decision": "the first token of a response, with which the shipped base decides, and the first after "
        "<think>, with which the paper's models do; correction = null for the stages that are to move the boundary",
    },
    shaping=(ThinkingPenalties(),),
    correction=MaskDecision(tag="<think>"),
)
