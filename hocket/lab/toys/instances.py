"""Worlds whose scenarios differ in what nobody can know beforehand, rewards that judge them, and starts for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.policy import Tabular
from hocket.lab.world import Answer, World, answer_of
from hocket.stages import Reward, Split
from hocket.types import Scenario, Trajectory


def nothing(question: int, answer: Answer) -> float:
    """The reward of a world that a recipe's own rewards judge."""
    return 0.0


class PositionWorld(World):
    """A world for policies of positions alone: one answer per token, all of it that token, visits every context."""

    def answers(self) -> Iterator[Answer]:
        yield from ((token,) * self.horizon for token in range(self.tokens))


@dataclass(frozen=True)
class Instances(World):
    """A world with `count` scenarios; `about(number)` tells each one's `question`, `answer` and whatever else.

    Scenarios of one question share the policy's contexts, so what differs between them cannot be known beforehand.
    """

    count: int = 1
    about: Callable[[int], Mapping[str, Any]] = lambda number: {"question": number}

    def size(self, split: Split) -> int | None:
        return self.count

    def scenario(self, split: Split, number: int) -> Scenario:
        facts = self.about(number)
        return Scenario(f"lab/{number}", f"instance {number}", facts.get("answer"), metadata=facts, seed=number)


@dataclass(frozen=True)
class JudgedReward(Reward):
    """A function of a trajectory as a reward."""

    judge: Callable[[Trajectory], float | None]
    name: str = "correct"
    weight: float = 1.0
    outside = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.judge(trajectory) for trajectory in trajectories]


def by_instance(judge: Callable[[Mapping[str, Any], Answer], float]) -> JudgedReward:
    """A verdict on an answer by what is known of its scenario, as a reward."""
    return JudgedReward(lambda trajectory: judge(trajectory.scenario.metadata, answer_of(trajectory)))


@dataclass(frozen=True)
class EndedInstances(Instances):
    """Instances whose answers end with one of the tokens `last`, or are cut at the horizon.

    The answers named are those of token 0 again and again, then one of `last`: all contexts of a policy of positions.
    """

    last: tuple[int, ...] = ()

    def finished(self, tokens: Sequence[int]) -> bool:
        return len(tokens) > 0 and (tokens[-1] in self.last or len(tokens) >= self.horizon)

    def answers(self) -> Iterator[Answer]:
        for size in range(self.horizon):
            yield from ((*[0] * size, end) for end in self.last)
        yield (0,) * self.horizon


WORK, LEFT, RIGHT = 0, 1, 2


@dataclass(frozen=True)
class WorkOrGuess(EndedInstances):
    """Work as long as you like, then say left or right, which ends the answer; one that never does is cut.

    Question q is `needs[q]` pieces of work hard. Who has done them is right whatever they say; who has not is right if
    they say what the instance holds, which nobody can know: half of the time, or never where `luck` is 0.
    """

    needs: tuple[int, ...] = (0, 3)
    luck: float = 0.5
    last: tuple[int, ...] = (LEFT, RIGHT)

    def chance(self, question: int, answer: Answer) -> float:
        """How likely an answer is right."""
        if answer[-1] == WORK:
            return 0.0
        return 1.0 if len(answer) > self.needs[question] else self.luck

    def judge(self, told: Mapping[str, Any], answer: Answer) -> float:
        """The verdict on an answer to an instance."""
        if answer[-1] == WORK:
            return 0.0
        return float(len(answer) > self.needs[told["question"]] or answer[-1] == told["holds"])


def held(number: int) -> dict[str, Any]:
    """Two instances of every question: left holds in one, right in the other."""
    return {"question": number // 2, "holds": LEFT + number % 2}


def work_or_guess(needs: tuple[int, ...] = (0, 3), horizon: int = 7, *, lucky: bool = True) -> WorkOrGuess:
    """One question per number of `needs`, two instances of each, in which left, right, or neither holds."""
    world = WorkOrGuess(
        *(len(needs), 3, horizon, nothing),
        context="position",
        count=2 * len(needs),
        about=held if lucky else lambda number: {**held(number), "holds": None},
        needs=needs,
        luck=0.5 if lucky else 0.0,
    )
    return replace(world, correct=world.chance)


def judged(world: WorkOrGuess) -> JudgedReward:
    """The verdict of an instance of `work_or_guess`."""
    return by_instance(world.judge)


def everywhere(*shares: float) -> Callable[[Tabular], None]:
    """A starting policy with these probabilities of the tokens in every context."""

    def start(policy: Tabular) -> None:
        policy.logits.copy_(torch.tensor(shares, dtype=torch.float64).log().expand_as(policy.logits))

    return start


def patient(work: float = 0.75) -> Callable[[Tabular], None]:
    """A starting policy that works on with probability `work` at every place, and says left or right evenly."""
    return everywhere(work, (1 - work) / 2, (1 - work) / 2)


NEVER = -40.0
"""A logit that is never drawn."""

TREES = ("alder", "birch", "cedar", "maple", "quartz", "slate", "flint", "jasper")


def four_right() -> World:
    """Two questions with four right answers of eight."""
    return World(2, 8, 1, lambda q, answer: float((answer[0] + 4 * q) % 8 < 4), text=lambda _, answer: TREES[answer[0]])
