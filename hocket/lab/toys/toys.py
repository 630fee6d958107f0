"""Toys of several claims: toys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.policy import Tabular
from hocket.lab.world import Answer, World, answer_of
from hocket.recipe import Recipe
from hocket.stages import Reward, Split
from hocket.types import Scenario, Trajectory


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
        told = self.about(number)
        return Scenario(f"lab/{number}", f"instance {number}", told.get("answer"), metadata=told, seed=number)


@dataclass(frozen=True)
class Verdict(Reward):
    """A verdict on an answer by what is known of its scenario, as a reward."""

    judge: Callable[[Mapping[str, Any], Answer], float]
    name: str = "correct"
    weight: float = 1.0
    outside = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.judge(trajectory.scenario.metadata, answer_of(trajectory)) for trajectory in trajectories]


@dataclass(frozen=True)
class Judged(Reward):
    """A function of a trajectory as a reward."""

    judge: Callable[[Trajectory], float | None]
    name: str = "correct"
    weight: float = 1.0
    outside = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.judge(trajectory) for trajectory in trajectories]


WORK, LEFT, RIGHT = 0, 1, 2


@dataclass(frozen=True)
class WorkOrGuess(Instances):
    """Work as long as you like, then say left or right, which ends the answer; one that never does is cut.

    Question q is `needs[q]` pieces of work hard. Who has done them is right whatever they say; who has not is right if
    they say what the instance holds, which nobody can know: half of the time, or never where `luck` is 0.
    """

    needs: tuple[int, ...] = (0, 3)
    luck: float = 0.5

    def finished(self, tokens: Sequence[int]) -> bool:
        return len(tokens) > 0 and (tokens[-1] != WORK or len(tokens) >= self.horizon)

    def answers(self) -> Iterator[Answer]:
        for work in range(self.horizon):
            yield from ((*[WORK] * work, LEFT), (*[WORK] * work, RIGHT))
        yield (WORK,) * self.horizon

    def chance(self, question: int, answer: Answer) -> float:
        """How likely an answer is right."""
        if answer[-1] == WORK:
            return 0.0
        return 1.0 if len(answer) > self.needs[question] else self.luck


def work_or_guess(needs: tuple[int, ...] = (0, 3), horizon: int = 7, *, lucky: bool = True) -> WorkOrGuess:
    """One question per number of `needs`, two instances of each: left holds in one, right in the other (or neither)."""

    def about(number: int) -> Mapping[str, Any]:
        return {"question": number // 2, "holds": LEFT + number % 2 if lucky else None}

    world = WorkOrGuess(
        questions=len(needs),
        tokens=3,
        horizon=horizon,
        reward=lambda question, answer: 0.0,
        context="position",
        count=2 * len(needs),
        about=about,
        needs=needs,
        luck=0.5 if lucky else 0.0,
    )
    return WorkOrGuess(**{**vars(world), "correct": world.chance})


def judged(world: WorkOrGuess) -> Verdict:
    """The verdict of an instance of `work_or_guess`."""

    def judge(told: Mapping[str, Any], answer: Answer) -> float:
        if answer[-1] == WORK:
            return 0.0
        return float(len(answer) > world.needs[told["question"]] or answer[-1] == told["holds"])

    return Verdict(judge)


def patient(work: float = 0.75) -> Callable[[Tabular], None]:
    """A starting policy that works on with probability `work` at every place, and says left or right evenly."""

    def start(policy: Tabular) -> None:
        shares = torch.tensor([work, (1 - work) / 2, (1 - work) / 2], dtype=torch.float64)
        policy.logits.copy_(shares.log().expand_as(policy.logits))

    return start


def on(question: int, bench: Bench, measure: Callable[[int, Answer], float]) -> float:
    """The exact mean of `measure` over answers to one question."""
    answers = list(bench.world.answers())
    with torch.no_grad():
        return float(bench.policy.expectation(question, [measure(question, answer) for answer in answers]))


def accuracy(question: int, bench: Bench) -> float:
    """The exact success rate on one question."""
    return on(question, bench, bench.world.correct or bench.world.reward)


def length(question: int, bench: Bench) -> float:
    """The exact mean length on one question."""
    return on(question, bench, lambda _, answer: len(answer))


def right_length(question: int, bench: Bench) -> float:
    """The exact mean length of right answers to one question."""
    rate = bench.world.correct or bench.world.reward
    whole = on(question, bench, lambda q, answer: len(answer) * rate(q, answer))
    return whole / max(accuracy(question, bench), 1e-12)


def bench(world: Instances, recipe: Recipe, seed: int, steps: int, **settings: Any) -> Bench:
    """Trained for `steps` on all instances of a world, without readings on the way."""
    made = Bench(world, recipe, seed=seed, steps=steps, prompts=world.count, **settings)
    return made.run(steps, every=steps + 1)
