"""What scorers pay: the reward of models that give trajectories scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.rewards.opinions import Opinions, opinions_of
from hocket.stages import Policy, Reward
from hocket.types import Trajectory, Turn

if TYPE_CHECKING:
    from hocket.policies.scorer import Scorer

By = Literal["mean", "min"]

FORM = "write model:RUN_OR_PATH=WEIGHT, or model:A+B+C?by=min=WEIGHT"


@dataclass(frozen=True)
class ScorerReward(Reward):
    """What scorers that are not trained give a trajectory after its last decision; None where nothing was decided.

    Token ids are read as they were recorded, and what trajectories have in common is computed once. A member whose
    tokenizer or chat template is another than the policy's reads the last turn's messages by its own instead, see
    `beside`. Nothing is drawn, so an interrupted run hears the same again.

    Attributes:
        members: the scorers. name: of the score. weight: in the sum of rewards.
        by: `mean` or `min` over the members. deviations: so many standard deviations (of the members, divided by their
            number) are taken from the mean. output: which of the scores counts, from 0.
        retold: which members read messages instead of the recorded ids; all that are not named read the ids.

    Raises:
        ConfigurationError: at construction, for settings that do not fit the members, or weights that are not finite.
    """

    members: tuple[Scorer, ...] = field(repr=False, compare=False)
    name: str = "model"
    weight: float = 1.0
    by: By = "mean"
    deviations: float = 0.0
    output: int = 0
    retold: tuple[int, ...] = ()

    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        where = f"reward {self.name}"
        if not self.members:
            raise ConfigurationError(f"{where} has no scorer; {FORM}")
        if self.by not in get_args(By):
            raise ConfigurationError(f"{where}: by = {self.by!r}; choose from {', '.join(get_args(By))}")
        if self.deviations < 0 or (self.deviations > 0 and (self.by != "mean" or len(self.members) < 2)):
            raise ConfigurationError(f"{where}: deviations, at least 0, are those of several members from their mean")
        least = min(member.outputs for member in self.members)
        if not 0 <= self.output < least:
            raise ConfigurationError(f"{where}: output = {self.output}, but outputs are numbered from 0 to {least - 1}")
        if not all(
            torch.isfinite(parameter).all() for member in self.members for parameter in member.module.parameters()
        ):
            raise ConfigurationError(f"{where}: some weights of the scorer are not finite; train it again")

    def beside(self, policies: Iterable[Policy]) -> ScorerReward:
        """The same, where every member whose words are not those of all `policies` reads messages instead of ids."""
        spoken = [words for policy in policies if (words := getattr(policy, "tokenizer", None)) is not None]
        members = enumerate(self.members)
        apart = (n for n, member in members if not all(_alike(member.tokenizer, other) for other in spoken))
        return replace(self, retold=tuple(apart))

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        """One opinion per trajectory, a problem in words where a score is not finite."""
        read = [self.read_by(number, trajectories) for number in range(len(self.members))]
        each = [member.scores(rows)[:, self.output] for member, rows in zip(self.members, read, strict=True)]
        values = self._together(torch.stack(each).double()).tolist()
        known = [value if played.length else None for played, value in zip(trajectories, values, strict=True)]
        return opinions_of(known, len(trajectories), self.name)

    def _together(self, each: Tensor) -> Tensor:
        """From the members' scores `[M, N]` to the reward `[N]`."""
        if self.by == "min":
            return each.min(0).values
        return each.mean(0) - (self.deviations * each.std(0, unbiased=False) if self.deviations else 0.0)

    def read_by(self, number: int, trajectories: Sequence[Trajectory]) -> Sequence[Trajectory]:
        """Trajectories as the member of this number reads them."""
        if number not in self.retold:
            return trajectories
        chat = Chat(self.members[number].tokenizer)
        return [_retold(trajectory, chat, self.name) for trajectory in trajectories]


def _alike(left: Any, other: Any) -> bool:
    """Whether two tokenizers give the same ids for the same messages."""
    if left is other:
        return True
    return bool(left.chat_template == other.chat_template and left.get_vocab() == other.get_vocab())


def _retold(trajectory: Trajectory, chat: Chat, name: str) -> Trajectory:
    """The last turn by another tokenizer and template: its messages and its response."""
    if not trajectory.turns or not trajectory.length:
        return trajectory
    turn = trajectory.turns[-1]
    if not turn.prompt:
        raise HocketError(
            f"reward {name}: its tokenizer is not the policy's, and trajectory {trajectory.scenario.id!r} kept no "
            "messages that it could read instead; use a scorer with the policy's tokenizer"
        )
    tokens = chat.demonstration(turn.text, turn.prompt)
    action = tokens[:-1] if turn.finish == "length" and len(tokens) > 1 else tokens
    rewritten = Turn(
        agent=turn.agent,
        policy=turn.policy,
        observation=np.asarray(chat.opening(turn.prompt), np.int64),
        action=np.asarray(action, np.int64),
    )
    return replace(trajectory, turns=[rewritten], branches=[])
