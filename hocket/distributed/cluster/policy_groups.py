"""A group of learners for each policy, all at work at the same time: `--roles.planner.learners 2`.

Credit is given here, for all. A group is told the credited batch of a policy of its own and makes the update by itself;
this process, which samples, keeps the books and may be in a group as well, has the weights after it. What optimisers
hold stays where it is and is asked for when it is to be kept.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hocket.core.annotators import Annotator
from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.distributed.cluster.connection import Host
from hocket.distributed.cluster.learner_group import LearnerGroup, LearnerMembers, send, update
from hocket.distributed.cluster.learner_worker import OutcomeQuestion, Question, held
from hocket.distributed.cluster.sharded_problem import MomentsQuestion
from hocket.distributed.cluster.weights import packed, taken
from hocket.recipes import find
from hocket.stages import Policy, State
from hocket.train.learner import Learner, UpdateResult
from hocket.train.roles import learners_by_policy
from hocket.train.settings import Config

if TYPE_CHECKING:
    from hocket.policies.family import Precision


class GroupPart(NamedTuple):
    """The policies that one group of so many processes learns; `bound` are those that it must learn together."""

    policies: tuple[str, ...]
    size: int
    bound: tuple[str, ...] = ()


def parts_of(config: Config, learners: Mapping[str, Learner]) -> tuple[GroupPart, ...]:
    """The groups that learn a run's policies; this process is in the first.

    Policies with a number of learners of their own are a group each, and those that share weights, as adapters on one
    base do, are one together. All others are the first group, as are those that are frozen; where no other learns, the
    first of the groups is.

    Raises:
        ConfigurationError: when policies share weights and not the number, or cannot learn at the same time.
    """
    numbers = learners_by_policy(config)
    rest = [name for name, learner in learners.items() if not learner.frozen]
    parts, home = list[GroupPart](), list[str]()
    while rest:
        together = _sharing(rest[0], {name: learners[name].policy for name in rest})
        rest = [name for name in rest if name not in together]
        wanted = {name: numbers[name] for name in together if name in numbers}
        if len(set(wanted.values())) > 1:
            named = " and ".join(f"{number} for {name}" for name, number in wanted.items())
            raise ConfigurationError(
                f"learners are {named}, whose adapters stand on one base and are learnt by one group; give all of them "
                "the same number"
            )
        if wanted:
            bound = tuple(together if len(together) > 1 else ())
            parts.append(GroupPart(tuple(together), next(iter(wanted.values())), bound))
        else:
            home += together
    frozen = [name for name, learner in learners.items() if learner.frozen]
    if not home and config.learners > 1:
        raise ConfigurationError(
            f"learners = {config.learners} are for policies without a number of their own, and all have one; drop it"
        )
    first = GroupPart((*home, *frozen), config.learners)
    if not home and parts:
        largest = parts.pop(0)
        first = largest._replace(policies=(*largest.policies, *frozen))
    if parts:
        _check_together(config)
    return first, *parts


def _sharing(name: str, policies: Mapping[str, Policy]) -> list[str]:
    """The policies of which weights are those of `name` too, itself among them; of others that share with these."""
    weights_of = {other: {id(weight) for weight in policy.module.parameters()} for other, policy in policies.items()}
    sharing, weights = [name], set(weights_of[name])
    while more := [other for other in weights_of if other not in sharing and weights_of[other] & weights]:
        sharing += more
        weights = weights.union(*(weights_of[other] for other in more))
    return [other for other in policies if other in sharing]


def _check_together(config: Config) -> None:
    """Refuses what only one policy after the other can learn.

    Raises:
        ConfigurationError: with the mend.
    """
    roles = ", ".join(
        f"roles.{role}.learners" for role, settings in config.roles.items() if settings.learners is not None
    )
    recipes = [recipe for recipe, _ in config.phases]
    recipes += [find(role.recipe) for role in config.roles.values() if role.recipe]
    for recipe in recipes:
        column = next(
            (annotator for annotator in recipe.reads if isinstance(annotator, Annotator) and annotator.moving), None
        )
        if column is not None:
            raise ConfigurationError(
                f"{roles}: recipe {recipe.name} has one policy learn after the other, each from what the ones before "
                f"have become (the column {column.name}), so they cannot learn at the same time; use --learners instead"
            )


class PolicyGroups:
    """All processes that learn a run's policies beside this one.

    Args:
        config: of the run. parts: the groups, that of this process first. precision: of matrix products.
        place: where the processes are.

    Attributes:
        here: the group of this process; None where it is alone in it. apart: the others.
        remarks: what a person should know of them.
    """

    def __init__(self, config: Config, parts: Sequence[GroupPart], precision: Precision, place: Host) -> None:
        first, *others = parts
        self.remarks = [
            f"{' and '.join(part.bound)} are adapters on one base, so the same group of learners learns them, one "
            "after the other"
            for part in parts
            if part.bound
        ]
        self.here: LearnerGroup | None = None
        self.apart: list[PolicyGroup] = []
        self._first, number = first.policies, first.size
        self._named = named = any(role.learners is not None for role in config.roles.values())
        if first.size > 1:
            names = [_name(rank, first, named) for rank in range(1, first.size)]
            self.here = LearnerGroup(config, precision, place, names)
        for part in others:
            names = [_name(number + rank, part, named) for rank in range(part.size)]
            self.apart.append(PolicyGroup(config, precision, place, names, part.policies))
            number += part.size

    def stand(self, phase: int, learners: Mapping[str, Learner]) -> None:
        """Lets all processes go on from the weights and optimisers as they are here, in a phase.

        Raises:
            HocketError: when one could not be started, or is gone.
        """
        try:
            for group in self.apart:
                if not group.lines:
                    group.start()
            if self.here is not None:
                self.here.stand(phase, {name: learner for name, learner in learners.items() if name in self._first})
            for group in self.apart:
                group.stand(phase, {name: learners[name] for name in group.policies})
        except BaseException:
            self.close()
            raise

    def gather(self, learners: Mapping[str, Learner]) -> None:
        """Has this process hold the whole again where every learner holds its shares.

        Raises:
            PeerLost: when one is.
        """
        if self.here is not None:
            self.here.gather(learners)

    def close(self) -> None:
        """Ends the processes."""
        for group in self.apart:
            group.close()
        if self.here is not None:
            self.here.close()

    def status(self) -> dict[str, Any]:
        """Which process learns what, as JSON data; nothing where no policy has a number of learners of its own."""
        if not self._named:
            return {}
        rows = [_row("learner 0", f"process {os.getpid()} on {socket.gethostname()}", self._first)]
        groups = [(self.here, self._first), *((group, group.policies) for group in self.apart)]
        for members, policies in groups:
            if members is not None:
                rows += [_row(line.name, at, policies) for line, at in zip(members.lines, members.where, strict=True)]
        return {"learners": rows}


def _row(name: str, where: str, policies: Sequence[str]) -> dict[str, Any]:
    return {"name": name, "where": where, "learns": list(policies)}


def _name(number: int, part: GroupPart, named: bool) -> str:
    return f"learner {number}" + (f" ({', '.join(part.policies)})" if named else "")


class PolicyGroup(LearnerMembers):
    """The processes that learn some policies without this one.

    Args:
        config, precision, place, names: as those of `LearnerMembers`. policies: whom they learn.
    """

    def __init__(
        self, config: Config, precision: Precision, place: Host, names: Sequence[str], policies: Sequence[str]
    ) -> None:
        super().__init__(config, precision, place, names)
        self.policies = policies
        self._held: dict[str, str] = {}

    def stand(self, phase: int, learners: Mapping[str, Learner]) -> None:
        """Lets the members go on from the weights and optimisers as they are here, in a phase.

        Raises:
            HocketError: when one could not be started, or is gone.
        """
        if not self.where:
            self.where = self._answers()
            self._join()
        self._repeat(phase, learners)
        for name, learner in learners.items():
            learner.elsewhere, self._held[name] = self, held(learner)

    def _join(self) -> None:
        size = len(self.lines)
        if size > 1:
            self._meet(0, size)
            self._answers()

    def close(self) -> None:
        super().close()
        self.where = []

    # ------------------------------------------------------------ what a learner asks of them

    def begin(self, learner: Learner, batch: Batch, key: Key, step: int) -> None:
        """Has the members begin an update, from the weights as they are here."""
        name = learner.policy.name
        changed = held(learner) != self._held[name]
        weights = packed(taken(learner.policy, whole=False)) if changed else None
        self._tell(update(learner, batch, key, step, weights))
        self._ask(OutcomeQuestion(name))

    def result(self, learner: Learner) -> UpdateResult:
        """What came of the update that began first.

        Raises:
            HocketError: naming the process that failed, is gone, or has other weights than the first.
        """
        name, first, *others = learner.policy.name, *self._answers()
        for line, answer in zip(self.lines[1:], others, strict=True):
            if answer != first:
                raise HocketError(
                    f"{line.name} has other weights than {self.lines[0].name} after the same update of {name!r}; see "
                    "`hocket doctor`, and go on from the last checkpoint with --resume"
                )
        self._held[name] = first
        result: UpdateResult = self._answers(self.lines[:1])[0]
        return result

    def moments(self, learner: Learner) -> State:
        self._ask(MomentsQuestion(learner.policy.name))
        state: State = self._answers(self.lines[:1])[0]
        return state

    def _ask(self, question: Question) -> None:
        """Asks the first member, who speaks for all."""
        send(self.lines[0], pickle.dumps(question))
