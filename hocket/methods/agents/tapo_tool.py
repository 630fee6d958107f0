"""TAPO: DAPO over tool calls within the reasoning (Wu et al., arXiv:2510.07038).

What tools return is no decision, in no ratio and no loss. Groups are asked again when all their samples are right or
all wrong, not when rewards happen to be equal (`AccuracySampling`), and a second clip bounds the loss where the
advantage is negative. The reward, `ToolAnswer` of `hocket.rewards.tool_answer`, pays nothing for calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hocket.core.keys import Key
from hocket.methods.base.dapo import DAPO
from hocket.objectives.aggregate import HORIZON
from hocket.rewards.shaping import OverlongPenalty
from hocket.rewards.tool_answer import ToolAnswer
from hocket.rollout.dynamic import DynamicSampling, total
from hocket.stages import Grade, LedgerView, More, Play
from hocket.types import Assignment, Experience, Score, Trajectory

_RIGHT = "right or wrong"


@dataclass(frozen=True)
class AccuracySampling(DynamicSampling):
    """`DynamicSampling` whose groups have signal when some of their samples are right and others wrong.

    As DAPO's code filters by accuracy rather than by reward (TAPO, repository Goer17/TAPO): a group of wrong answers,
    only some of them well-formed, teaches nothing.

    Attributes:
        right: an attempt is right when the sum of its scores (or the one named by `score`) exceeds this.
    """

    right: float = 0.9

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
        """Groups that differ in accuracy; metrics as those of `DynamicSampling`."""

        async def judged(trajectories: Sequence[Trajectory]) -> None:
            await score(trajectories)
            for one in trajectories:
                worth = sum(total(found) for name, found in one.scores.items() if self.score in (None, name))
                one.scores[_RIGHT] = Score(float(worth > self.right))

        sampling = DynamicSampling(self.samples, self.max_rounds, self.oversample, _RIGHT, self.enough)
        found = await sampling.collect(asked, play=play, score=judged, ledger=ledger, key=key, more=more)
        for one in (*found.trajectories, *found.discarded):
            one.scores.pop(_RIGHT, None)
        return found


TAPO_TOOL = DAPO.but(
    name="tapo-tool",
    title="Tool-Augmented Policy Optimisation: DAPO over calls inside the reasoning",
    source="Wu et al., arXiv:2510.07038, and the authors' code",
    family="agents",
    catalogue_ids=("tapo-tool",),
    axes=("rollout", "objective", "reward"),
    formula="R_i = -1 if malformed else s_i in [0, 1], minus the overlong penalty;  "
    "L = -1/sum_i n_i sum_i sum_t min(r A, clip(r, 1-0.2, 1+0.28) A), at least 10 A for A < 0",
    conventions={
        **DAPO.conventions,
        "clipping side": "0.2 below, 0.28 above; dual clip at 10",
        "calls": "a turn that ends with <tool_call> is answered by a tool message and the next turn goes on, up to the "
        "turns of the workflow; the authors' <search> and <code> stop one response instead",
        "workflow": "the task's, which brings its tools (calculator, multihop), or --workflow tool-use",
        "tool output": "observation, never a decision: in no ratio, loss or length",
        "form": "every tag closed and an answer at the end, over all turns; the authors' code lets pass tags that are "
        "never closed",
        "s": "exact match; a scenario's metadata grade may say fact (held, or near in edit distance), near (1e-3) or "
        "nearly (5%)",
        "reward for calls": "none",
        "constant group": "one whose samples are all right or all wrong, s > rollout.right = 0.9, is asked again, at "
        "most 3 rounds (the script: 10)",
        "truncated samples": f"soft penalty over the last half before shaping.0.limit = {HORIZON} decisions, -1 at it",
        "updates per batch": "4 mini-batches, as the script's",
        "start": "the shipped base calls once and answers briefly, so that nothing is charged; --task "
        "'calculator?turns=6' --lessons 40 teaches it calls that are made again, up to more than the turns allow",
    },
    task="calculator",
    rollout=AccuracySampling(samples=8, max_rounds=3),
    rewards=(ToolAnswer(),),
    shaping=(OverlongPenalty(limit=HORIZON, buffer=HORIZON // 2, penalty=1.0),),
    **{"objective.dual": 10.0, "update.minibatches": 4},
)
