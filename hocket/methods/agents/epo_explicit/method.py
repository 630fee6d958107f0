"""EPO: REINFORCE for a strategist who advises a frozen agent turn by turn (Liu et al., arXiv:2502.12486).

A judge reads each finished episode and names the decisive turns (`JudgedTurns`); the advice of these turns is paid the
episode's score and all other advice nothing (`DecisiveTurns`), discounted turn by turn. Only the adviser learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from hocket.agents.workflows.adviser import ADVISES
from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.casting import Leading
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_sum
from hocket.core.signals import REWARD, paid_at_decisions, returns, rewards_by_occurrence, turn_visits
from hocket.credit.turn_level import TurnRelative
from hocket.methods.base.conventions import COMMON
from hocket.methods.base.reinforce import REINFORCE
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.rollout.groups import groups
from hocket.rollout.named_turns import ProbedTurns, Transcript, TurnJudge, own_turns
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Shaping
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class JudgedTurns(Rollout):
    """`samples` trajectories per scenario, and for each, when it is scored, the turns that a judge calls decisive.

    The process labels of EPO (arXiv 2502.12486). Column `decisive` holds their places among all turns, a list per
    trajectory; it is for `hocket.rewards.DecisiveTurns`. Metric `rollout/decisive` is their mean number. Where several
    agents are advised (`hocket.agents.workflows.adviser`), the judge is asked about each by itself: its own advice, and
    what it earned.

    Attributes:
        judge: who names them. role: whose turns can be named; None, or a role nobody plays: everybody's.
    """

    samples: int = 8
    judge: TurnJudge = field(default_factory=lambda: ProbedTurns(by="change"))
    role: str | None = None

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")

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
        """The trajectories in assignment order."""
        played = await groups(play, [replace(one, samples=self.samples) for one in asked])
        trajectories = [one for group in played for one in group]
        await score(trajectories)
        finished = [
            part
            for asking, group in zip(asked, played, strict=True)
            for one in group
            if one.failure is None
            for part in _sides(Transcript(asking, one, own_turns(one, self.role)))
        ]
        named = await self.judge(finished, play=play, score=score, key=key.derive("judge"))
        for trajectory in trajectories:
            DECISIVE.write(trajectory, [])
        for one, turns in zip(finished, named, strict=True):
            found = [*DECISIVE.get(one.dialogue), *(one.own[turn] for turn in turns)]
            DECISIVE.write(one.dialogue, sorted(found))
        counts = [len(DECISIVE.get(one)) for one in trajectories if one.failure is None]
        return Experience(trajectories, metrics={"rollout/decisive": sum(counts) / len(counts)} if counts else {})


def _sides(whole: Transcript) -> list[Transcript]:
    """A dialogue once for each agent that was advised in it, with its own advice and score; else as it is."""
    told: Sequence[str | None] = ADVISES.get(whole.dialogue, ())
    whose = [told[place] if place < len(told) else None for place in whole.own]
    return [
        whole._replace(
            own=tuple(place for place, one in zip(whole.own, whose, strict=True) if one == agent), agent=agent
        )
        for agent in dict.fromkeys(whose)
    ]


@dataclass(frozen=True)
class DecisiveTurns(Shaping):
    """`r_t = R` at each turn that was named decisive, and 0 at all others.

    The process reward of EPO (arXiv 2502.12486, and the authors' code). R is the trajectory's return; of advice what
    the agent earned that heard it, in its own turns and by the trajectory as a whole, where the column `advises` says
    who that was. Reads the column `decisive`, places of turns per trajectory (`hocket.rollout.JudgedTurns`); where no
    turn is named nothing is earned. A reward stands at the last decision of its turn, so that a turn which trajectories
    share may have another one in each. Without the column nobody was asked, and rewards stay as they are.
    """

    def __call__(self, batch: Batch) -> Batch:
        if not DECISIVE.present(batch):
            return batch
        seen = batch.occurrences
        visit, starts = turn_visits(batch)
        owner, place = seen.trajectory[starts].tolist(), batch.index[batch.turn[seen.decision[starts]]].tolist()
        named = [set(turns or ()) for turns in DECISIVE.rows(batch)]
        decided = [at in named[trajectory] for trajectory, at in zip(owner, place, strict=True)]
        ends = torch.ones(len(seen), dtype=torch.bool)
        ends[:-1] = visit[1:] != visit[:-1]
        here = ends & torch.tensor(decided, dtype=torch.bool)[visit]
        value = _earned(batch, owner, place)[visit]
        return paid_at_decisions(batch, torch.where(here, value, torch.zeros((), dtype=torch.float64)))


def _earned(batch: Batch, owner: Sequence[int], place: Sequence[int]) -> Tensor:
    """R of each visit of a trajectory to one of its turns, `[V]` float64."""
    whole, told = returns(batch), ADVISES.rows(batch)
    own = batch.but(scores={name: one for name, one in batch.scores.items() if name != REWARD[Level.TRAJECTORY]})
    agents, seen = batch.names["agent"], batch.occurrences
    by_agent = seen.trajectory * len(agents) + batch.agent[batch.turn[seen.decision]]
    local = segment_sum(rewards_by_occurrence(own), by_agent, batch.trajectories * len(agents))
    common = whole - segment_sum(local, torch.arange(len(local)) // len(agents), batch.trajectories)
    found = []
    for trajectory, at in zip(owner, place, strict=True):
        row = told[trajectory] or ()
        agent = row[at] if at < len(row) else None
        one = None if agent is None else trajectory * len(agents) + agents.index(agent)
        found.append(whole[trajectory] if one is None else common[trajectory] + local[one])
    return torch.stack(found) if found else torch.zeros(0, dtype=torch.float64)


DECISIVE = InfoColumn("decisive", "The places of the turns that a judge called decisive, a list.")


EPO_EXPLICIT = REINFORCE.but(
    name="epo-explicit",
    title="Explicit Policy Optimisation: a strategist beside a frozen agent",
    source="Liu et al., arXiv:2502.12486, and the authors' process labels",
    family="agents",
    catalogue_ids=("epo-explicit",),
    axes=("team", "credit", "reward"),
    formula="L = -sum_t A_t mean_i log pi(s_{t,i} | h_t),  A_t = sum_{k>=t} gamma^(k-t) r_k,  "
    "r_t = R if the judge calls the strategy of turn t decisive, else 0",
    conventions={
        **COMMON,
        "aggregation": "mean over the tokens of a strategy, then over all strategies of the batch: the sum over turns "
        "up to a factor",
        "loss": "as recalled: the authors' training code was not found, so baseline and discount are chosen here",
        "baseline": "none",
        "discount": "0.9 per strategy",
        "process labels": "the turn at which the expected score changed most, by 4 episodes from each history; the "
        "authors ask GPT-4o to name decisive ones: rollout.judge = {type: hocket.rollout.NamedBy, judge: "
        "FILE.py:FUNCTION}",
        "score": "what the agent earned that heard the advice, each side of a talk its own",
        "who learns": "the adviser; agents are the model as it was, or any others by --roles.policy.model",
        "what is advised": "any environment, --task advised:TASK, or workflow, --workflow 'advised?inner=NAME'",
        "self-play": "both sides of a talk are advised by the one strategist, with the weights as they are; ?who=NAME "
        "advises one side",
        "supervised start": "none, as in the paper; --lessons N for a model that has no footing",
    },
    task="advised:magpie",
    requires=(Requirement.AGENTS, Requirement.TURNS),
    cast=Leading(leader="adviser", others="actor"),
    rollout=JudgedTurns(samples=8, judge=ProbedTurns(rollouts=4, by="change"), role="adviser"),
    shaping=(DecisiveTurns(),),
    credit=TurnRelative(by=GroupBy("scenario", "agent", "turn_index"), baseline="none", gamma=0.9),
    objective=PolicyGradient(aggregate="turn-mean"),
)
