"""Text worlds for control policies that score commands: `commands:TASK`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from hocket.agents.environments.protocol import Environment
from hocket.core.batch import Level
from hocket.core.components import has_path
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.knowledge_injection_text_games.commands import (
    SEES,
    Commanded,
    Lexicon,
    graph_of,
    objects_of,
    relations_of,
    words_of,
)
from hocket.methods.agents.knowledge_injection_text_games.reader import Commands
from hocket.stages import Reward, Split
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.gym import ACTOR_CRITIC, GROUPED
from hocket.tasks.nested_task import found_within
from hocket.types import Scenario, Trajectory

PREFIX = "commands:"

SURVEYED = 64
"""Episodes of training from which words and sizes are taken."""

_NETWORK: Mapping[str, Any] = {"steps": 60, "network.hidden": (32, 32), "credit.gamma": 0.95}

_ACTOR_CRITIC: Mapping[str, Any] = {
    **ACTOR_CRITIC,
    **_NETWORK,
    "curriculum.prompts": 64,
    "update.epochs": 4,
    "update.minibatches": 4,
}
"""Episodes of a few moves: many in a batch."""


@dataclass(frozen=True)
class CommandsTask:
    """Episodes of a text world of one agent, which chooses among all verbs with all objects, legal or not.

    Scenario n has seed 2n in training and 2n + 1 in evaluation. Words, verbs and sizes are those of the first 64
    episodes of training, played at random by verbs that fit.

    Attributes:
        inner: the task in words. named: its name, with all settings.
        graph: whether a graph is seen beside the text; None where the world tells one. length: words of a text that are
            read, the last ones; None for as many as there were.

    Raises:
        ConfigurationError: for a world of several agents, or one that does not name its objects; and where a graph is
            told and is not to be seen.
    """

    inner: EnvironmentTask
    named: str
    graph: bool | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        if len(self.inner.workflow.world.agents) != 1:
            raise ConfigurationError(
                f"task {self.name}: commands are those of one agent; {self.inner.name} has several"
            )
        if self.length is not None and self.length < 1:
            raise ConfigurationError(f"task {self.name}: length is a number of words, at least 1, not {self.length}")
        if not objects_of(self.begun(0)):
            raise ConfigurationError(
                f"task {self.name}: {self.inner.name} names no objects; take devices or household, or give the "
                "environment an attribute `affordances`, the verbs by object"
            )
        if self.graph is False and relations_of(self.begun(0)):
            raise ConfigurationError(f"task {self.name}: what is told as a graph is not seen with graph=false; drop it")

    @property
    def name(self) -> str:
        return PREFIX + self.named

    @property
    def kind(self) -> Literal["control"]:
        return "control"

    # ------------------------------------------------------------ scenarios

    def size(self, split: Split) -> int | None:
        return self.inner.size(split)

    def scenario(self, split: Split, number: int) -> Scenario:
        seed = 2 * (number % 2**30) + (split == "eval")
        return Scenario(id=f"{self.name}/{seed}", seed=seed)

    def begun(self, seed: int) -> Environment:
        """The episode of a seed, at its beginning."""
        scenario = self.inner.scenario("eval" if seed % 2 else "train", seed // 2)
        environment = self.inner.workflow.world.make(scenario)
        environment.reset(Key.of(seed).derive("commands"))
        return environment

    def make(self) -> Commanded:
        """Opens one environment."""
        return Commanded(self.begun, self.lexicon)

    @property
    def rewards(self) -> Sequence[Reward]:
        return ()

    def success(self, trajectory: Trajectory) -> float:
        """The undiscounted return of the episode."""
        score = trajectory.scores.get("reward")
        return 0.0 if score is None else float(np.sum(np.asarray(score.value, dtype=np.float64)))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`illegal`, the share of moves; and `truncated`, whether the limit of moves ended the episode."""
        moves = sum(len(turn) for turn in trajectory.turns)
        wrong = 0.0 if trajectory.final_state is None else float(np.asarray(trajectory.final_state)[-1])
        return {"illegal": wrong / max(moves, 1), "truncated": float(trajectory.truncated)}

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """What lets a recipe learn small worlds within a minute or two."""
        chosen = _ACTOR_CRITIC if has_path(recipe, "credit.lam") else {**GROUPED, **_NETWORK}
        return {**chosen, "update.minibatches": 1} if recipe.couples is Level.BATCH else chosen

    # ------------------------------------------------------------ what is seen and done

    @cached_property
    def lexicon(self) -> Lexicon:
        """How episodes are put into numbers."""
        world = self.begun(0)
        seen = self.graph if self.graph is not None else bool(relations_of(world))
        relations = (SEES, *relations_of(world)) if seen else ()
        words, verbs, most = dict[str, None](), dict.fromkeys(getattr(world.bare, "verbs", ())), [1, 1, 1, 1]
        for environment in self._surveyed():
            agent = environment.agents[0]
            text, objects = environment.observe(agent).text, objects_of(environment)
            verbs |= dict.fromkeys(verb for fitting in environment.bare.affordances.values() for verb in fitting)  # type: ignore[attr-defined]
            names = [words_of(name) for name in (*objects, *verbs)]
            words |= dict.fromkeys(word for one in (words_of(text), *names) for word in one)
            here = (len(objects), len(words_of(text)), max(map(len, names)), len(graph_of(environment, agent, text)))
            most = [max(pair) for pair in zip(most, here, strict=True)]
        objects_most, length, span, triples = most
        return Lexicon(tuple(words), tuple(verbs), relations, objects_most, self.length or length, span, triples)

    def _surveyed(self) -> Iterator[Environment]:
        """Situations of the first episodes of training."""
        for number in range(min(SURVEYED, self.inner.size("train") or SURVEYED)):
            environment = self.begun(2 * number)
            rng = Key.of(number).derive("survey").numpy()
            table: Any = environment.bare
            fitting = [f"{verb} {name}" for name, verbs in table.affordances.items() for verb in verbs]
            yield environment
            while environment.acting:
                environment.act({environment.agents[0]: fitting[int(rng.integers(len(fitting)))]})
                yield environment
            environment.close()

    @property
    def sight_form(self) -> Commands:
        """How what is seen is laid out."""
        return self.lexicon.commands

    @property
    def observations(self) -> int:
        return sum(self.sight_form.parts)

    @property
    def actions(self) -> int:
        return self.sight_form.verbs * self.sight_form.objects

    @property
    def discrete(self) -> bool:
        return True


def from_name(name: str, settings: Mapping[str, str]) -> CommandsTask:
    """The task behind the prefix; `graph` and `length` are its own."""
    inner, mine, named = found_within(PREFIX, name, settings, {"graph": bool, "length": int})
    return CommandsTask(inner, named, **mine)


COMMANDS = TaskForm(
    name="commands:TASK",
    description="a text world for control policies that score commands, e.g. commands:devices?graph=true",
    make=from_name,
)
