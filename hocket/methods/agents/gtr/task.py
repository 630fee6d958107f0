"""The game of 24 points as a task, with lessons in thinking before each move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.agents.gtr.world import Joined, Points24, solution
from hocket.stages import Split
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.solitary import played
from hocket.tasks.split import split_of
from hocket.tasks.text import check_number
from hocket.types import Scenario

TRIES = 1000
"""Hands that are drawn at most until one belongs to a split."""


@dataclass(frozen=True)
class Points24Task(EnvironmentTask):
    """Hands of which the number can be made, drawn without end.

    Which split a hand belongs to, its cards as they are dealt decide: the same cards in another order are another hand.

    Attributes:
        led: the share of moves in lessons that follow the thought; the others follow a way of their own, as good, so
            that at first thoughts say little about moves.
    """

    led: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.led <= 1:
            raise ConfigurationError(f"points24: led is a share in [0, 1], not {self.led}")

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        world, tries = self.workflow.world, 0
        assert isinstance(world, Points24)
        key = Key.of(0).derive("points24", world.cards, world.target, world.most, split, number)
        while split_of(" ".join(map(str, hand := world.hand(key.derive(tries))))) != split:
            tries += 1
            if tries == TRIES:
                raise ConfigurationError(
                    f"points24: there are too few hands of {world.cards} cards for the {split} split; take more cards, "
                    "or larger ones"
                )
        name = f"points24/{world.cards}/{split}/{number}"
        return Scenario(name, f"Make {world.target}.", metadata={"hand": list(hand)}, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 40}

    @property
    def lessons(self) -> Lessons:
        """What a beginner thinks and plays, who half of the time thinks of a way that misses the number."""
        apart = "" if self.led == 1 else f", and to follow it in {self.led:.0%} of moves"
        return Lessons(
            f"to think of a way to join all cards before each move, half of the time one that misses{apart}",
            80,
            lambda scenario, rng: self._episode(scenario, rng),
            talks=2,
            then=lambda recipe: THEN,
        )

    def _episode(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        world = self.workflow.world
        assert isinstance(world, Points24)
        environment, found = world.make(scenario), list[Lesson]()
        while environment.acting:
            seen = environment.observe(environment.agents[0])
            way = beginning(environment.situation, rng)
            move = way[0] if self.led == 1 or rng.random() < self.led else beginning(environment.situation, rng)[0]
            said = thought_of(environment.situation, way) + self.workflow.reading_of(seen).written(move)
            found.append(
                Lesson(
                    ({"role": "user", "content": self.workflow.question(seen, first=True)},),
                    ({"role": "assistant", "content": said},),
                )
            )
            environment.act({environment.agents[0]: move})
        return found


SKILL = 0.5
"""How often a beginner thinks of a way that comes out, where there is one."""

THEN = {"steps": 30, "curriculum.prompts": 16, "update.lr": 2.5e-4, "evaluation.n": 100}
"""What suits after the lessons."""


def beginning(situation: Joined, rng: np.random.Generator) -> tuple[str, ...]:
    """The way that a beginner thinks of."""
    return (solution(situation) if rng.random() < SKILL else None) or wandering(situation, rng)


def wandering(situation: Joined, rng: np.random.Generator) -> tuple[str, ...]:
    """Legal moves drawn at random until all cards are joined."""
    found = list[str]()
    while situation.left:
        moves = tuple(situation.moves())
        found.append(moves[int(rng.integers(len(moves)))])
        after = situation.after(found[-1])
        assert after is not None
        situation = after
    return tuple(found)


def chain_of(situation: Joined, moves: Sequence[str]) -> str:
    """The totals that moves lead to: `3*8=24*1=24`."""
    written = "" if situation.total is None else str(situation.total)
    for move in moves:
        after = situation.after(move)
        assert after is not None
        written += move if situation.total is None else f"{move}={after.total}"
        situation = after
    return written


def thought_of(situation: Joined, moves: Sequence[str]) -> str:
    """A closed thought that goes through `moves`."""
    return f"<think>{chain_of(situation, moves)}</think>"


def from_settings(name: str, settings: Mapping[str, str]) -> Points24Task:
    """The task with settings of the hands and of how they are played; moves stand in `<answer>` tags unless told."""
    hints, own = {"cards": int, "target": int, "most": int, "penalty": float}, {"led": float}
    apart = checked(name, {key: value for key, value in settings.items() if key in own}, own)
    rest = {key: value for key, value in settings.items() if key not in own}
    workflow = played(name, {"reading": "answer", "instruct": "false", **rest}, Points24, hints)
    return Points24Task(workflow, **apart)


POINTS24 = TaskForm(
    name="points24",
    description="cards are joined, one a move, and must come to 24, e.g. points24?cards=3&most=6",
    make=from_settings,
)
