"""Hawkeye: a large model writes a short chain of thought, a small one the answer (She et al., arXiv:2504.00424).

The planner writes a thought, and the expander, a frozen model, goes on from it (`BriefThought`). GRPO trains the
planner on the quality of the expander's answer, less what its chain is longer than a fraction of the chain that was
written before training (`ChainLength`). What the expander does not need disappears.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.batch import Batch, GroupBy
from hocket.core.casting import Leading
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_count, segment_mean, segment_sum
from hocket.core.signals import counted_trajectories, returns
from hocket.methods.base.grpo import GRPO
from hocket.rewards.members import with_return
from hocket.rollout.branches import CLOSED, OPENED
from hocket.rollout.reference import WithReference
from hocket.stages import Shaping
from hocket.types import Scenario


@dataclass(frozen=True)
class BriefThought(Workflow):
    """The planner thinks, the expander answers: its response begins with the planner's thought, imposed.

    Hawkeye (arXiv 2504.00424). The thought begins with `opening` and ends where `closing` is said, or at its longest,
    and then `closing` is put behind it. Both are asked the question alone. What is imposed is nobody's to learn from.

    Attributes:
        thought: the most tokens of a thought; None is the run's own limit.
    """

    name = "brief-thought"
    description = "one writes a short thought, the other answers from it (Hawkeye)"

    opening: str = OPENED
    closing: str = CLOSED
    thought: int | None = None

    roles = ("planner", "expander")

    def __post_init__(self) -> None:
        if self.thought is not None and self.thought < 1:
            raise ConfigurationError(f"workflow brief-thought: thought must be at least 1, not {self.thought}")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        question, decoding = asked(team.assignment), team.assignment.decoding
        begun = team.planner.encoded(self.opening) if self.opening else ()
        most = decoding.max_tokens if self.thought is None else self.thought
        stops = (*decoding.stop, self.closing) if self.closing else decoding.stop
        brief = replace(decoding, max_tokens=len(begun) + most, stop=stops)
        plan = await team.planner.fresh()(question, prefix=begun, decoding=brief)
        tokens: Sequence[int] = plan.tokens.tolist()
        if not self.closing or not plan.text.rstrip().endswith(self.closing):
            ended = tokens[:-1] if plan.turn.finish == "stop" else tokens  # Nobody goes on behind an end of turn.
            tokens = (*ended, *(team.expander.encoded(self.closing, ended) if self.closing else ()))
        longer = replace(decoding, max_tokens=decoding.max_tokens + len(tokens))
        reply = await team.expander.fresh()(question, prefix=tuple(tokens), decoding=longer)
        return Outcome(answer=reply.text, rewards={"task": team.verify(reply)})


@dataclass(frozen=True)
class ChainLength(Shaping):
    """Takes `weight max(0, len / len_full - share)` from the return: Hawkeye (arXiv 2504.00424).

    `len` is the number of decisions of `policy` that may be learnt from, `len_full` their mean over the scenario's
    trajectories of the reference (source `baseline`): the chain for the same question as it was before training. The
    paper's penalty is not known in detail; this is a shape of our own. Without such trajectories nothing is taken.

    Attributes:
        policy: whose decisions are counted.
    """

    weight: float = 1.0
    share: float = 0.3
    policy: str = "planner"

    needs_baseline: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.weight < 0 or not 0 < self.share <= 1:
            raise ValueError(f"weight must be at least 0 and share in (0, 1], not {self.weight} and {self.share}")

    def __call__(self, batch: Batch) -> Batch:
        length, counted = self.lengths_of(batch), counted_trajectories(batch)
        names, groups = batch.names["source"], GroupBy("scenario")(batch)
        before = batch.source == (names.index("baseline") if "baseline" in names else -1)
        known = segment_count(groups.index[before], groups.size)[groups.index] > 0
        full = segment_mean(length[before], groups.index[before], groups.size)[groups.index]
        over = (length / full.clamp(min=1.0) - self.share).clamp(min=0.0)
        return with_return(batch, returns(batch) - self.weight * torch.where(counted & known & ~before, over, 0.0))

    def lengths_of(self, batch: Batch) -> Tensor:
        """Decisions of each trajectory's chain, `[N]` float64, those of the reference's too."""
        seen = batch.occurrences
        mine = torch.tensor([name.partition(" ")[0] == self.policy for name in batch.names["policy"]])
        own = (mine[batch.policy[batch.turn]] & ~batch.forced)[seen.decision]
        return segment_sum(own.double(), seen.trajectory, batch.trajectories)


HAWKEYE = GRPO.but(
    name="hawkeye",
    title="Hawkeye: short chains of thought for a small model that answers",
    source="She et al., Hawkeye: Efficient Reasoning with Model Collaboration, arXiv:2504.00424",
    family="data-and-rollout",
    catalogue_ids=("hawkeye",),
    axes=("team", "reward", "system"),
    formula="R = score(the expander's answer) - lambda max(0, len/len_full - f);  A_i = (R_i - mean R)/(std R + eps), "
    "for the planner's tokens alone",
    conventions={
        **GRPO.conventions,
        "penalty": "lambda = 1, f = 0.3 (the paper's shape is not known); len_full is the mean of 4 chains that the "
        "planner wrote before training for the same question",
        "who learns": "the planner; a copy of the model as it was is the expander, roles.expander.model names another",
    },
    task="sums",
    requires=(Requirement.AGENTS,),
    workflow="brief-thought",
    cast=Leading(leader="planner", others="expander"),
    rollout=WithReference(samples=8, references=4),
    shaping=(ChainLength(),),
)
