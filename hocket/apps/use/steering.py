"""Stepping through the episodes of a controller: a person looks on, and may take any decision instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.apps.play.screen import TerminalScreen
from hocket.apps.play.table import NOBODY, Another, Left
from hocket.apps.use.controller import TrainedController
from hocket.apps.use.environment_form import EnvironmentForm
from hocket.apps.use.episode_view import play_episode, returns_of, steps_of, viewed_player
from hocket.core.errors import ConfigurationError, nearest
from hocket.rollout.joint import JointPlayer
from hocket.rollout.vector import VectorPlayer
from hocket.stages import Player

COMMANDS = (
    ("Enter", "the policy acts"),
    ("an action", "you act instead: its number, or the numbers of a vector"),
    ("/run", "the policy plays the episode to its end"),
    ("/new", "begin another episode"),
    ("/help", "this list"),
    ("/quit", "leave; so does the end of input"),
)

LONGEST = 24
"""Numbers of an observation that are shown."""


class SteeredPolicy:
    """A controller that lets a person take its decisions: a `VectorController` and a `JointController`.

    Attributes:
        runs: whether it plays on without being asked.
    """

    def __init__(self, policy: Any, form: EnvironmentForm, screen: TerminalScreen) -> None:
        self.name, self.version = policy.name, policy.version
        self.runs = False
        self._policy, self._form, self._screen = policy, form, screen

    @property
    def observations(self) -> int:
        return int(self._policy.observations)

    @property
    def draws(self) -> int:
        return int(self._policy.draws)

    @property
    def carries(self) -> int:
        return int(getattr(self._policy, "carries", 0))

    def sample(
        self,
        observations: NDArray[np.float32],
        uniforms: NDArray[np.float64],
        temperature: NDArray[np.float32],
        allowed: NDArray[np.bool_] | None = None,
        **carried: NDArray[np.float32],
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The policy's actions, the first of which a person may replace."""
        options: dict[str, Any] = dict(carried) if allowed is None else {"allowed": allowed, **carried}
        actions, logps = self._policy.sample(observations, uniforms, temperature, **options)
        if self.runs:
            return actions, logps
        permitted = None if allowed is None else np.flatnonzero(allowed[0]).tolist()
        self._screen.note(f"observation {_numbers(self._observation(observations[0]))}")
        actions = actions.copy()
        choice = self._ask(actions[0], permitted)
        if choice is not None:
            actions[0] = choice
        return actions, logps

    def _observation(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        """The numbers to show: of a discrete observation its own."""
        discrete = self._form.shape == ()
        return np.array([row.argmax() + self._form.first]) if discrete else row

    def _ask(self, action: Any, permitted: Sequence[int] | None) -> Any:
        """The person's action; None leaves it to the policy."""
        while True:
            line = self._screen.ask(f"Enter: {_numbers(np.atleast_1d(action))}")
            match None if line is None else line.strip():
                case None | "/quit" | "/exit":
                    raise Left
                case "":
                    return None
                case "/new":
                    raise Another
                case "/run":
                    self.runs = True
                    return None
                case "/help":
                    self._screen.help(COMMANDS)
                case words if words.startswith("/"):
                    self._screen.wrong(f"there is no command {words.split()[0]}; /help lists them")
                case words:
                    choice = self._read(words, np.asarray(action), permitted)
                    if choice is not None:
                        return choice

    def _read(self, words: str, action: NDArray[Any], permitted: Sequence[int] | None) -> Any:
        """An action in words; None, and a sentence on the screen, where it is none."""
        if action.ndim == 0:
            choices = range(self._form.choices) if permitted is None else permitted
            if words.isdigit() and int(words) in choices:
                return int(words)
            self._screen.wrong(f"{words!r} is no action; choose from {', '.join(map(str, choices))}")
            return None
        try:
            numbers = np.array([float(word) for word in words.replace(",", " ").split()])
        except ValueError:
            numbers = np.zeros(0)
        if numbers.shape == action.shape and np.isfinite(numbers).all():
            return numbers
        self._screen.wrong(f"{words!r} is no action; an action is {len(action)} numbers, -1 to 1 from end to end")
        return None


def step_through(
    trained: TrainedController, screen: TerminalScreen, *, first: int = 0, greedy: bool = True, seat: str | None = None
) -> None:
    """Plays unseen episodes, one decision at a time, until the person leaves. In seat `none` the person only watches.

    Raises:
        ConfigurationError: for a world of several agents, and a seat that there is not.
    """
    subject, agent = trained.subject, trained.role
    if seat not in (None, agent, NOBODY):
        raise ConfigurationError(f"--seat {seat}: there is no such seat{nearest(seat, [agent, NOBODY])}")
    steered = SteeredPolicy(trained.policy, trained.form, screen)
    steered.runs = seat == NOBODY
    player = _player(trained, steered, screen)
    screen.say("[dim]Enter lets the policy act, an action takes its place; /help lists commands[/]")
    number = first
    while True:
        screen.note(f"episode {number}: {subject.task.scenario('eval', number).id}")
        try:
            steps = steps_of(play_episode(subject, player, number, greedy=greedy))
            screen.say(f"[bold]the episode is over[/] after {len(steps)} steps: return {returns_of(steps)[agent]:g}")
            if not _continues(screen):
                return
        except Another:
            pass
        except Left:
            return
        number, steered.runs = number + 1, seat == NOBODY


def _player(trained: TrainedController, steered: SteeredPolicy, screen: TerminalScreen) -> Player:
    """The run's player with the person beside the policy; the environment is drawn where it is drawn in words."""
    player = trained.subject.parts.player
    if isinstance(player, JointPlayer):
        return JointPlayer(player.world, {steered.name: steered}, player.seats, player.identified, player.width)
    task: Any = trained.subject.task

    def view(drawing: Any, reward: float | None) -> None:
        if reward is not None:
            screen.note(f"reward {reward:g}")
        if drawing is not None:
            screen.tell(str(drawing).rstrip("\n"))

    try:
        viewed = viewed_player(trained.subject, view, "ansi" if hasattr(task, "rendered") else None)
    except ConfigurationError:  # It is not drawn in words.
        viewed = viewed_player(trained.subject, view, None)
    assert isinstance(viewed, VectorPlayer)
    viewed.policy = steered
    return viewed


def _continues(screen: TerminalScreen) -> bool:
    """Whether the person wants another episode."""
    while True:
        line = screen.ask("Enter for another, /quit")
        match None if line is None else line.strip():
            case None | "/quit" | "/exit":
                return False
            case "" | "/new":
                return True
            case words:
                screen.wrong(f"the episode is over, so {words!r} has no effect")


def _numbers(values: NDArray[Any]) -> str:
    shown = " ".join(f"{float(value):.4g}" for value in values[:LONGEST])
    return shown + (f" and {len(values) - LONGEST} more" if len(values) > LONGEST else "")
