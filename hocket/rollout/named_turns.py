"""Who says which turns of a finished dialogue mattered: a function asked about it, or the dialogue played on anew."""

from __future__ import annotations

import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

from hocket.core import sums
from hocket.core.components import load_named
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.rollout.branches import NUMBERED
from hocket.rollout.dynamic import total
from hocket.rollout.groups import groups
from hocket.stages import Grade, Play
from hocket.types import Assignment, Level, Replay, Score, Trajectory


class Transcript(NamedTuple):
    """A dialogue that came to its end, how it was asked for, and which of its turns are the agent's own, by place.

    What it is worth is all that was earned, or what `agent` earned where one is named.
    """

    asking: Assignment
    dialogue: Trajectory
    own: tuple[int, ...]
    agent: str | None = None


class TurnJudge(Protocol):
    """Names turns of finished dialogues."""

    async def __call__(self, finished: Sequence[Transcript], *, play: Play, score: Grade, key: Key) -> list[list[int]]:
        """Per dialogue the turns it names, as numbers among the agent's own from 0, the most important first."""
        ...


def own_turns(dialogue: Trajectory, role: str | None) -> tuple[int, ...]:
    """The places of a role's turns, or of everybody's where the role is None or nobody plays it.

    Turns that were imposed as a whole, such as those of a model behind an endpoint, are nobody's.
    """
    decided = [len(turn) > 0 and (turn.forced is None or not turn.forced.all()) for turn in dialogue.turns]
    free = tuple(place for place, decision in enumerate(decided) if decision)
    return tuple(place for place in free if dialogue.turns[place].role == role) or free


def resumed(asking: Assignment, dialogue: Trajectory, place: int, *, first: int, samples: int) -> Assignment:
    """`samples` further dialogues, numbered from `first`, that go on from the history just before turn `place`."""
    replay = Replay(tuple(dialogue.turns[:place]), sample=dialogue.sample)
    return replace(asking, samples=samples, first=first, replay=replay)


def worth(dialogue: Trajectory, agent: str | None = None) -> float:
    """The sum of all scores of a dialogue; with an agent those of its own turns and those of the whole dialogue."""
    scores = dialogue.scores.values()
    if agent is None:
        return sums.total(map(total, scores))
    return sums.total(
        total(_own(score, [turn.agent == agent for turn in dialogue.turns], dialogue)) for score in scores
    )


def _own(score: Score, mine: Sequence[bool], dialogue: Trajectory) -> Score:
    """A score with 0 at the turns that are not one's own; one of the whole dialogue as it is."""
    if score.level is Level.TRAJECTORY or score.value is None:
        return score
    long = [1 if score.level is Level.TURN else len(turn) for turn in dialogue.turns]
    flags = [flag for flag, size in zip(mine, long, strict=True) for _ in range(size)]
    values: Any = score.value
    return Score([value if flag else 0.0 for value, flag in zip(values, flags, strict=True)], score.level)


@dataclass(frozen=True)
class NamedBy:
    """What a function says: `judge(dialogue, turns)` returns the number of a turn, a list of them, or None.

    `dialogue` is the whole scored `Trajectory`, `turns` the agent's own turns, each with its `text` and `prompt`; the
    function may be async and may ask a model. What it says is not journalled. Numbers out of range are passed over.

    Attributes:
        judge: the function, or `FILE.py:FUNCTION`.
    """

    judge: Callable[..., Any] | str
    _call: Callable[..., Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        call = load_named(self.judge, "judge") if isinstance(self.judge, str) else self.judge
        if not callable(call):
            raise ConfigurationError(f"judge {self.judge}: it is of type {type(call).__name__}; name a function")
        object.__setattr__(self, "_call", call)

    async def __call__(self, finished: Sequence[Transcript], *, play: Play, score: Grade, key: Key) -> list[list[int]]:
        return [await self._named(transcript) for transcript in finished]

    async def _named(self, transcript: Transcript) -> list[int]:
        answer = self._call(transcript.dialogue, [transcript.dialogue.turns[place] for place in transcript.own])
        if inspect.isawaitable(answer):
            answer = await answer
        listed = [] if answer is None else [answer] if isinstance(answer, int) else list(answer)
        return [int(number) for number in dict.fromkeys(listed) if 0 <= int(number) < len(transcript.own)]


@dataclass(frozen=True)
class ProbedTurns:
    """The turns at which the expected score changed most, by Monte Carlo: nobody is asked, the dialogue is played on.

    `V_j` is the mean score of `rollouts` dialogues that go on from the history before own turn j, `V_n` the score of
    the dialogue itself, and turn j changed it by `V_(j+1) - V_j`. A dialogue with one own turn is not probed: that turn
    is named. Estimates are unbiased and noisy; more `rollouts` make them better.

    Attributes:
        rollouts: from each history. by: `fall` names turns after which less was to be expected, `change` also those
            after which more was. most: named at most. least: a change must exceed this to be named.
    """

    rollouts: int = 4
    by: Literal["fall", "change"] = "fall"
    most: int = 1
    least: float = 0.0

    def __post_init__(self) -> None:
        if self.rollouts < 1 or self.most < 1:
            raise ValueError(f"rollouts and most must be at least 1, not {self.rollouts} and {self.most}")
        if self.by not in ("fall", "change"):
            raise ValueError(f"by must be fall or change, not {self.by!r}")
        if self.least < 0:
            raise ValueError(f"least must be at least 0, not {self.least}")

    async def __call__(self, finished: Sequence[Transcript], *, play: Play, score: Grade, key: Key) -> list[list[int]]:
        assignments, probed = [], Counter[int]()
        for log in finished:
            if len(log.own) > 1:
                first = probed[id(log.dialogue)]  # Several may ask about one dialogue.
                assignments += [self._probe(log, first + number, place) for number, place in enumerate(log.own)]
                probed[id(log.dialogue)] += len(log.own)
        played = await groups(play, assignments)
        if played:
            await score([trajectory for group in played for trajectory in group])
        probes = iter(played)
        named = []
        for log in finished:
            many = len(log.own) > 1
            named.append(self.named(values(log.dialogue, [next(probes) for _ in log.own], log.agent)) if many else [0])
        return [turns[: len(log.own)] for log, turns in zip(finished, named, strict=True)]

    def _probe(self, one: Transcript, number: int, place: int) -> Assignment:
        # Every dialogue of a scenario has numbers of its own, so that no two probes draw the same.
        first = NUMBERED * (1 + one.dialogue.sample) + number * self.rollouts
        return resumed(one.asking, one.dialogue, place, first=first, samples=self.rollouts)

    def named(self, value: Sequence[float]) -> list[int]:
        """The turns that the values `V_0 .. V_n` of a dialogue name, the largest change first."""
        change = [after - before for before, after in itertools.pairwise(value)]
        size = [-difference if self.by == "fall" else abs(difference) for difference in change]
        order = sorted(range(len(size)), key=lambda turn: -size[turn])
        return [turn for turn in order if size[turn] > self.least][: self.most]


def values(dialogue: Trajectory, probes: Sequence[Sequence[Trajectory]], agent: str | None = None) -> list[float]:
    """The mean score of each group of probes, then the dialogue's own; where all probes failed, what comes after."""
    means = [worth(dialogue, agent)]
    for group in reversed(probes):
        scores = [worth(probe, agent) for probe in group if probe.failure is None]
        means.append(sums.mean(scores) if scores else means[-1])
    return means[::-1]
