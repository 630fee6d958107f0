"""Groups of answers that nodes of a swarm send each other, as text, and how a rollout sends and reads them.

A node owns its model, its prompts and its verifier. It publishes answers, never rewards: who receives them reads the
text with its own tokenizer and scores it with its own reward. `hocket.distributed.swarm` carries groups from node to
node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from hocket.core.columns import SENDER, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.rollout.groups import groups
from hocket.stages import Play, Stage
from hocket.types import Assignment, Scenario, Trajectory

TOLD_LOGP = InfoColumn("told_logp", "Of a received answer, the log-prob that its sender told, in nats; None if none.")


@dataclass(frozen=True)
class SharedGroup:
    """One node's answers to one scenario.

    Attributes:
        scenario: the question, what its sender holds for the right answer, and its metadata.
        answers: texts. logps: the log-prob of each under its sender, in nats, None where unknown; for reports alone.
        node: who published it, and at which of its steps.
    """

    scenario: Scenario
    answers: tuple[str, ...]
    logps: tuple[float | None, ...] = ()
    node: str = ""
    step: int = 0


@runtime_checkable
class Sharing(Protocol):
    """A node's way to the others."""

    def publish(self, groups: Sequence[SharedGroup]) -> None:
        """Tells the others."""
        ...

    def received(self) -> Sequence[SharedGroup]:
        """The groups received from others and held at present, oldest first."""
        ...


def sharing_of(play: Play) -> Sharing | None:
    """The swarm that the player behind `play` belongs to; None where it trains alone."""
    sharing = getattr(getattr(play, "player", None), "sharing", None)
    return sharing if isinstance(sharing, Sharing) else None


@dataclass(frozen=True)
class Publication(Stage):
    """What a node publishes of the groups it sampled: each whole, as it was sampled.

    Only episodes of a single turn are text that another can read as an answer; a group with any other is kept.
    """

    room = "rollout"

    def __call__(self, sampled: Sequence[Sequence[Trajectory]], key: Key) -> list[SharedGroup]:
        """A message per group."""
        plain_groups = (group for group in sampled if group and all(_plain(trajectory) for trajectory in group))
        return [as_sampled(group) for group in plain_groups]


def as_sampled(group: Sequence[Trajectory]) -> SharedGroup:
    """A group's texts, with their sampler's log-probs."""
    return SharedGroup(group[0].scenario, tuple(entry.text for entry in group), tuple(_logp(entry) for entry in group))


async def received_group(group: SharedGroup, like: Assignment, play: Play) -> list[Trajectory] | None:
    """A received group as episodes of source `imported`, unscored; None where this player cannot read it.

    Text is encoded anew, and the answers' own log-probs are unknown, so that the learner's stand in: ratio 1, as though
    it had sampled them itself. A group never mixes with one's own group of the same scenario.
    """
    scenario = group.scenario
    apart = f"{scenario.id} of {group.node or 'another'} at {group.step}"
    assignments = [
        replace(
            like,
            scenario=replace(scenario, id=apart, metadata={**scenario.metadata, "demonstration": answer}),
            samples=1,
            first=place,
            source="expert",
        )
        for place, answer in enumerate(group.answers)
    ]
    try:
        played = [trajectory for each in await groups(play, assignments) for trajectory in each]
    except (ConfigurationError, ValueError):  # Too long for this model, or of words that it does not have.
        return None
    logps = group.logps or (None,) * len(played)
    for trajectory, logp in zip(played, logps, strict=True):
        trajectory.source = "imported"
        SENDER.write(trajectory, group.node)
        TOLD_LOGP.write(trajectory, logp)
    return played


def _plain(trajectory: Trajectory) -> bool:
    return trajectory.failure is None and len(trajectory.turns) == 1


def _logp(trajectory: Trajectory) -> float | None:
    logp = trajectory.turns[0].logp
    return None if logp is None else float(logp.sum(dtype="float64"))
