"""SALT: GRPO whose advantages are averaged over steps that several trajectories share (Li et al., arXiv:2510.20022).

The samples of a scenario form a graph of states and actions. `MergedEdges` gives a step that several of them took the
mean of their advantages, so that what winners and losers do alike counts little and credit stays where they part.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import ACTIONS, InfoColumn
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_mean
from hocket.credit.group import GroupRelative
from hocket.credit.turn_level import in_units
from hocket.credit.units import Units, chains, turn_units
from hocket.methods.base.conventions import TURNS
from hocket.methods.base.grpo import GRPO
from hocket.stages import Credit

FINAL = InfoColumn("final_state", "The key of the state in which the trajectory ended.")


@dataclass(frozen=True)
class MergedEdges(Credit):
    """Each turn's credit is the mean of `base`'s over all turns of the scenario that are the same edge.

    SALT (arXiv 2510.20022): an edge is a state, what was done there, and the state that followed. So what winners and
    losers do alike drifts to 0 and where they part carries the credit. An edge crossed twice by one trajectory counts
    twice, hence the sum of credit over an edge's occurrences is what it was. The paper leaves open how states are
    told apart; here they are equal when their keys are.

    The state of a turn is its key; one without a key is unlike any other, and so are the edges at it. What was done is
    the turn's entry in the column `actions` where the experience has one, else its tokens: agents that think aloud
    need the column, or no two edges are ever equal. What followed is the state of the same agent's next turn; after
    its last turn the column `final_state`, and where that is missing only whether the episode ended or was cut.
    Turns whose weights are all 0 enter no mean and get 0.

    Attributes:
        base: credit of whole trajectories; where it varies within a turn, the turn's mean counts.
    """

    base: Credit = field(default_factory=GroupRelative)

    def __post_init__(self) -> None:
        if self.base.pairs:
            raise ValueError("base yields pairs; set it to a credit that gives advantages")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        given, units = self.base(batch), turn_units(batch)
        live = given.weight != 0
        own = segment_mean(given.advantage[live], units.member[live], len(units.counted))[units.counted]
        edge, size = edges(batch, units)
        edge = edge[units.counted]
        return replace(given, advantage=in_units(segment_mean(own, edge, size)[edge], units))


def edges(batch: Batch, units: Units) -> tuple[Tensor, int]:
    """The edge that each visit to a turn crosses, `[M]`, and how many edges there are."""
    assert units.turn is not None
    names = batch.names["state"]
    states: list[str] = [names[code] for code in batch.state[units.turn].tolist()]
    done, after = _actions(batch, units), _successors(batch, units, states)
    scenario = batch.scenario[units.trajectory].tolist()
    agent = batch.agent[units.turn].tolist()
    codes: dict[Hashable, int] = {}
    found = [codes.setdefault(key, len(codes)) for key in zip(scenario, agent, states, done, after, strict=True)]
    return torch.tensor(found, dtype=torch.long), len(codes)


def _successors(batch: Batch, units: Units, states: Sequence[str]) -> list[str]:
    """The state that followed each visit for its agent; how the trajectory ended after the last."""
    ends = [_ending(batch, number) for number in range(batch.trajectories)]
    after = [ends[number] for number in units.trajectory.tolist()]
    last: dict[int, int] = {}
    for place, chain in enumerate(chains(batch, units).tolist()):
        if chain in last:
            after[last[chain]] = states[place]
        last[chain] = place
    return after


def _ending(batch: Batch, number: int) -> str:
    """Names the state in which a trajectory ended. A name of its own kind never equals a state's key."""
    recorded: Any = FINAL.rows(batch)[number]
    if recorded is None and batch.final_state and isinstance(batch.final_state[number], str):
        recorded = batch.final_state[number]
    if recorded is not None:
        return str(recorded)
    return "\0cut" if bool(batch.truncated[number]) else "\0over"


def _actions(batch: Batch, units: Units) -> list[Hashable]:
    """What was done in each visit: its entry in the column, else its tokens."""
    column = ACTIONS.rows(batch)
    index = batch.index[units.turn].tolist() if units.turn is not None else []
    seen = batch.occurrences
    first = torch.searchsorted(units.member, torch.arange(len(units.counted)))
    bounds = [*first.tolist(), len(seen)]
    found: list[Hashable] = []
    for place, (number, turn) in enumerate(zip(units.trajectory.tolist(), index, strict=True)):
        said = column[number]
        if said is not None and turn < len(said) and said[turn] is not None:
            found.append(str(said[turn]))
        else:
            decisions = seen.decision[bounds[place] : bounds[place + 1]]
            found.append(tuple(batch.action[decisions].flatten().tolist()))
    return found


SALT = GRPO.but(
    name="salt",
    title="Step-level advantages from the trajectory graph",
    source="Li et al., arXiv:2510.20022",
    family="agents",
    catalogue_ids=("salt",),
    axes=("credit",),
    formula="A(e) = 1/|S_e| sum_{i in S_e} (R_i - mean R)/(std R + eps),  e = (state, action, next state)",
    conventions={
        **GRPO.conventions,
        "several agents": TURNS["several agents"],
        "tool output": TURNS["tool output"],
        "merge rule": "equal state key, action and next state key, within the scenario; an edge crossed twice by one "
        "trajectory counts twice (the paper's public summary says only that shared and distinct steps are told apart)",
        "action": "the entry in the column actions where the workflow gives one, else the tokens",
        "last step": "its next state is the column final_state, else only whether the episode ended or was cut",
    },
    task="maze?width=3&height=3&steps=10&reading=number",
    requires=(
        Requirement.TURNS,
        Requirement.STATES,
    ),
    credit=MergedEdges(base=GRPO.credit),
)
