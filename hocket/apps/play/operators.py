"""Who decides for an agent of a joint world: a trained policy, a language model, a function, a person, chance."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.user_files import load_file
from hocket.core.worlds import Seat
from hocket.tasks.joint import JointTask

if TYPE_CHECKING:
    from hocket.apps.play.screen import TerminalScreen
    from hocket.rollout.joint import JointController

Action = int | Sequence[float]

KINDS = "random, run:RUN, model:NAME, FILE.py:NAME or person"


@dataclass(frozen=True)
class Place:
    """Where an operator sits.

    Attributes:
        task: what is played. agent: its name. number: among the agents, from 0. seat: what it sees and may do.
    """

    task: str
    agent: str
    number: int
    seat: Seat


def joint_task(name: str) -> JointTask:
    """A joint task.

    Raises:
        ConfigurationError: for a task of one agent, or of words, or whose actions have parts.
    """
    task = tasks.find(name)
    if not isinstance(task, JointTask):
        raise ConfigurationError(f"task {name} is no joint world; take one such as dilemma:prisoners or mpe:spread")
    if any(seat.action_form is not None or seat.choices for seat in task.world.seats):
        raise ConfigurationError(
            f"task {name}: an operator chooses one action of a list, and here an action is a function with arguments; "
            "take a task such as mpe:spread, or measure a run with hocket eval"
        )
    return task


def places_of(task: str) -> dict[str, Place]:
    """The places of a joint task, by agent."""
    world = joint_task(task).world
    pairs = enumerate(zip(world.agents, world.seats, strict=True))
    return {agent: Place(task, agent, number, seat) for number, (agent, seat) in pairs}


class Operator(Protocol):
    """Decides for one agent.

    Attributes:
        draws: how many uniform numbers it takes for a decision. It draws no others, so that equal seeds are equal
            episodes, wherever it runs.
    """

    draws: int

    def begin(self, seed: int) -> None:
        """An episode begins."""

    def act(
        self, observation: NDArray[np.float32], allowed: NDArray[np.bool_] | None, uniforms: NDArray[np.float64]
    ) -> Action:
        """What to do, having seen `[O]`, where only the actions `allowed` `[A]` may be taken."""

    def close(self) -> None:
        """It is no longer needed."""


class RandomOperator:
    """Any action that is allowed, each as likely; vectors are uniform in [-1, 1]."""

    def __init__(self, place: Place) -> None:
        self.seat = place.seat
        self.draws = 1 if place.seat.discrete else place.seat.actions

    def begin(self, seed: int) -> None:
        pass

    def act(
        self, observation: NDArray[np.float32], allowed: NDArray[np.bool_] | None, uniforms: NDArray[np.float64]
    ) -> Action:
        if not self.seat.discrete:
            return cast(list[float], (2 * uniforms - 1).tolist())
        return drawn(self.seat.actions, allowed, float(uniforms[0]))

    def close(self) -> None:
        pass


def drawn(actions: int, allowed: NDArray[np.bool_] | None, uniform: float) -> int:
    """One of the allowed actions by a uniform number."""
    legal = np.arange(actions) if allowed is None else np.flatnonzero(allowed)
    return int(legal[min(int(uniform * len(legal)), len(legal) - 1)])


class PolicyOperator:
    """The policy of a run, of the agent whose name or place it takes; temperature 0 takes its likeliest action."""

    def __init__(self, place: Place, run: str, runs: str, temperature: float, *, trust: bool = False) -> None:
        self.policy, self.told = _policy(place, run, runs, trust=trust)
        self.draws = self.policy.draws
        self._temperature = np.full(1, temperature, np.float32)
        self._carried = np.zeros((1, getattr(self.policy, "carries", 0)), np.float32)

    def begin(self, seed: int) -> None:
        self._carried[...] = 0

    def act(
        self, observation: NDArray[np.float32], allowed: NDArray[np.bool_] | None, uniforms: NDArray[np.float64]
    ) -> Action:
        inputs = np.concatenate([observation, self.told])[None]
        possible = None if allowed is None else allowed[None]
        memory = {"carried": self._carried} if self._carried.shape[1] else {}
        action, _ = self.policy.sample(inputs, uniforms[None], self._temperature, possible, **memory)
        return int(action[0]) if action.ndim == 1 else cast(list[float], action[0].tolist())

    def close(self) -> None:
        pass


def _policy(place: Place, run: str, runs: str, *, trust: bool) -> tuple[JointController, NDArray[np.float32]]:
    """The policy of a run that sits in a place, and the one-hot number by which it tells its agents apart."""
    from hocket.rollout.joint import JointPlayer
    from hocket.train import config as configuration
    from hocket.train.assemble import build_parts
    from hocket.train.checkpoint import checkpoint_of, weights_in
    from hocket.train.runfolder import find_run
    from hocket.train.trust import run_pairs

    folder = find_run(run, runs)
    settings = run_pairs(folder, trust=trust)
    task = tasks.find(configuration.task_of(settings))
    config = configuration.configure([pair for pair in settings if pair[0] != "task"] + [("task", task.name)], task)
    player = build_parts(config, task, weights=weights_in(checkpoint_of(folder, "last"))).player
    if not isinstance(player, JointPlayer):
        raise ConfigurationError(f"run:{run} plays {task.name}, which is no joint world; train one on {place.task}")
    world = player.world
    agent = place.agent if place.agent in world.agents else world.agents[place.number % len(world.agents)]
    seat = world.seats[world.agents.index(agent)]
    if seat != place.seat:
        raise ConfigurationError(
            f"run:{run} was trained on {task.name}, where {agent} sees and does other things than {place.agent} here; "
            f"train one on {place.task}"
        )
    members = [member for member in world.agents if player.seats[member] == player.seats[agent]]
    position = np.zeros(len(members) if player.identified and len(members) > 1 else 0, np.float32)
    if len(position):
        position[members.index(agent)] = 1.0
    return player.policies[player.seats[agent]], position


class FunctionOperator:
    """`act(observation, allowed, uniforms)` of a user's file: a function, or a class made with the `Place`.

    A class may have `begin(seed)`, `draws` (1 unless it says so) and `close()`.
    """

    def __init__(self, place: Place, file: Path, name: str) -> None:
        function = getattr(load_file(file, "--agents"), name, None)
        if function is None:
            raise ConfigurationError(f"{file} has nothing called {name!r}")
        self._what = function(place) if isinstance(function, type) else function
        self.draws = int(getattr(self._what, "draws", 1))
        self._act = cast(Callable[..., Action], getattr(self._what, "act", self._what))

    def begin(self, seed: int) -> None:
        getattr(self._what, "begin", lambda seed: None)(seed)

    def act(
        self, observation: NDArray[np.float32], allowed: NDArray[np.bool_] | None, uniforms: NDArray[np.float64]
    ) -> Action:
        return self._act(observation, allowed, uniforms)

    def close(self) -> None:
        getattr(self._what, "close", lambda: None)()


class LanguageOperator:
    """A language model that is told what it sees in words, and says the number of an action.

    The first whole number in its answer counts; where that is no action that is allowed, one is drawn, and counted.

    Attributes:
        unread: how many answers named no allowed action. said: the latest answer.
    """

    draws = 1

    def __init__(self, place: Place, model: str, *, trust: bool = False) -> None:
        if not place.seat.discrete:
            raise ConfigurationError(
                f"model:{model}: {place.agent} of {place.task} acts by vectors, which no words name"
            )
        self.place, self.unread, self.said = place, 0, ""
        self._answer = _speaker(model, trust=trust)
        self._key, self._time = Key.of(0), 0

    def begin(self, seed: int) -> None:
        self._key, self._time = Key.of(seed).derive("speaker", self.place.agent), 0

    def act(
        self, observation: NDArray[np.float32], allowed: NDArray[np.bool_] | None, uniforms: NDArray[np.float64]
    ) -> Action:
        self.said = self._answer(asked(self.place, observation, allowed), self._key.derive(self._time))
        self._time += 1
        match = re.search(r"\d+", self.said)
        number = int(match[0]) if match else -1
        actions = self.place.seat.actions
        if 0 <= number < actions and (allowed is None or allowed[number]):
            return number
        self.unread += 1
        return drawn(actions, allowed, float(uniforms[0]))

    def close(self) -> None:
        pass


def asked(place: Place, observation: NDArray[np.float32], allowed: NDArray[np.bool_] | None) -> str:
    """What a place sees and may do, in words."""
    legal = range(place.seat.actions) if allowed is None else np.flatnonzero(allowed).tolist()
    numbers = " ".join(f"{value:.3g}" for value in observation.tolist())
    return (
        f"You are {place.agent} in {place.task}. You see: {numbers}. Your actions: {', '.join(map(str, legal))}. "
        "Answer with the number of one."
    )


def _speaker(model: str, *, trust: bool) -> Callable[[str, Key], str]:
    """What asks a language model, given the words and a key."""
    from hocket.agents.workflows.player import TextPlayer
    from hocket.apps.play.talk import Conversation
    from hocket.apps.serve.source import ModelSource
    from hocket.train.assemble import build_parts
    from hocket.train.checkpoint import weights_in
    from hocket.types import Decoding

    source = ModelSource.of(Path(model), task="sums", trust=trust)
    machine = source.machine()
    parts = build_parts(
        source.config, source.task, weights=weights_in(source.checkpoint()), precision=machine.precision
    )
    actor = next(iter(cast(TextPlayer, parts.player).actors.values()))
    engine, chat = cast(Any, actor.engine), cast(Any, actor.chat)

    def answer(words: str, key: Key) -> str:
        talk = Conversation(engine, chat, Decoding(max_tokens=24), key)
        return "".join(talk.say(words))

    return answer


class PersonOperator:
    """Somebody at the terminal, who types the numbers of actions; the end of input leaves."""

    draws = 0

    def __init__(self, place: Place, screen: TerminalScreen) -> None:
        self.place, self.screen = place, screen

    def begin(self, seed: int) -> None:
        self.screen.say(f"an episode begins (seed {seed}); you are [bold]{self.place.agent}[/]")

    def act(
        self, observation: NDArray[np.float32], allowed: NDArray[np.bool_] | None, uniforms: NDArray[np.float64]
    ) -> Action:
        legal = range(self.place.seat.actions) if allowed is None else np.flatnonzero(allowed).tolist()
        self.screen.say("you see " + " ".join(f"{value:.3g}" for value in observation.tolist()))
        while (line := self.screen.ask(f"{self.place.agent}: one of {', '.join(map(str, legal))}")) is not None:
            if line.strip().isdigit() and int(line) in legal:
                return int(line)
            self.screen.say(f"{line.strip()!r} is none of them")
        raise HocketError(f"{self.place.agent} has left: the input ended")

    def close(self) -> None:
        pass


def operator(
    spec: str, place: Place, *, runs: str = "runs", temperature: float = 1.0, screen: Any = None, trust: bool = False
) -> Operator:
    """Who `spec` says, one of `KINDS`, in a place.

    Raises:
        ConfigurationError: for who cannot sit there, and without `trust` for runs that name code of others.
    """
    kind, _, rest = spec.partition(":")
    if spec == "random":
        return RandomOperator(place)
    if kind == "run" and rest:
        return PolicyOperator(place, rest, runs, temperature, trust=trust)
    if kind == "model" and rest:
        return LanguageOperator(place, rest, trust=trust)
    if kind.endswith(".py") and rest:
        return FunctionOperator(place, Path(kind), rest)
    if spec == "person":
        if screen is None or not place.seat.discrete:
            raise ConfigurationError(f"{place.agent} = person: people sit here, and choose among numbered actions")
        return PersonOperator(place, screen)
    raise ConfigurationError(f"agents: {place.agent} = {spec!r} is unknown; write {KINDS}")
