"""Plain functions as rewards, in TRL's signature.

    def brevity(prompts, completions, completion_ids, **columns) -> list[float | None]

A function may be sync or async. It receives only the arguments that it names, or all with `**columns`: `answer`, `id`
(the scenario's, unless the data have a column of that name) and all metadata of scenarios. An argument `trajectories`
receives the recorded trajectories. Completions are strings. Only if the prompt is a chat and the function asks for
messages, they are lists of messages: it asks by the annotation `completions: list[list[dict]]`, or by reading a
completion as messages, as in `completion[0]["content"]`. Prompts are strings, or lists of messages if they are chats.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import math
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from hocket.core.components import load_named
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.notices import say
from hocket.core.occurrences import unmarked
from hocket.rewards.opinions import Opinions, RewardError, opinions_of
from hocket.rewards.outside_calls import call_outside
from hocket.stages import Reward
from hocket.types import Trajectory

_PAUSE = 0.5
"""Seconds before the first retry; doubled before each further one."""


class _CallFailed(Exception):
    """A call failed; `again` says whether a retry may help."""

    def __init__(self, sentence: str, again: bool) -> None:
        super().__init__(sentence)
        self.again = again


@dataclass
class _Memory:
    worked: bool = False
    messages: bool = False


@dataclass(frozen=True)
class FunctionReward(Reward):
    """A TRL-style function as a reward.

    A call that raises or takes longer than `timeout` seconds is repeated up to `retries` times; a call that returns
    anything but a number or None per completion is not. If all attempts fail, the trajectories get no opinion, the
    problem is reported, and the run continues. If no call has ever worked, the function itself is wrong, and a
    `RewardError` stops the run. NaN and infinities count as no opinion.

    Attributes:
        function: the function, or `FILE.py:FUNCTION`.
        name: the name of its score; the function's name when empty.
        weight: the weight of its score in the sum of rewards.
        timeout: the most seconds of a call.
        retries: further attempts after a call that raised or timed out.

    Raises:
        ConfigurationError: at construction, for settings out of range or something that cannot be called.
        RewardError: when called, if no call has worked yet and this one failed after its retries.
    """

    function: Callable[..., Any] | str
    name: str = ""
    weight: float = 1.0
    timeout: float = 60.0
    retries: int = 2
    _call: Callable[..., Any] = field(init=False, repr=False, compare=False)
    _memory: _Memory = field(init=False, repr=False, compare=False, default_factory=_Memory)

    def __post_init__(self) -> None:
        call = load_named(self.function, "reward") if isinstance(self.function, str) else self.function
        if not callable(call):
            raise ConfigurationError(f"reward {self.function}: it is of type {type(call).__name__}; name a function")
        object.__setattr__(self, "_call", call)
        if not self.name:
            name = getattr(call, "__name__", type(call).__name__)
            object.__setattr__(self, "name", "reward_function" if name == "<lambda>" else name)
        if not math.isfinite(self.weight):
            raise ConfigurationError(f"reward {self.name}: its weight must be a finite number, not {self.weight}")
        if not self.timeout > 0 or self.retries < 0:
            raise ConfigurationError(
                f"reward {self.name}: timeout must be above 0 seconds (it is {self.timeout}) and retries at least 0 "
                f"(it is {self.retries})"
            )

    @property
    def label(self) -> str:
        """`FILE.py:FUNCTION`, for messages."""
        if isinstance(self.function, str):
            return self.function
        source = inspect.getsourcefile(self._call) if inspect.isfunction(self._call) else None
        return f"{Path(source).name}:{self._call.__qualname__}" if source else self.name

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        """One opinion per trajectory. The function does not use `key`."""
        if not trajectories:
            return Opinions([])
        for attempt in range(self.retries + 1):
            try:
                opinions = await self._attempt(trajectories)
            except _CallFailed as failure:
                sentence, tries = str(failure), attempt + 1
                if not failure.again:
                    break
                if attempt < self.retries:
                    await asyncio.sleep(min(_PAUSE * 2**attempt, self.timeout))
            else:
                self._memory.worked = True
                return opinions
        if not self._memory.worked:
            counted = "" if tries == 1 else f" (tried {tries} times)"
            raise RewardError(f"{sentence}{counted}. It has never worked, so the run stops; correct {self.label}.")
        return Opinions.none(len(trajectories), f"{sentence}; these trajectories have no opinion from it")

    async def _attempt(self, trajectories: Sequence[Trajectory]) -> Opinions:
        outcome = await call_outside(self._call, self._arguments(trajectories), self.timeout)
        if _read_as_messages(outcome.error) and not self._gets_messages and any(map(_is_chat, trajectories)):
            arguments = self._arguments(trajectories, messages=True)
            other = await call_outside(self._call, arguments, self.timeout)
            if other.error is None and not other.timed_out:
                self._memory.messages, outcome = True, other
                say(f"reward {self.label} reads completions as messages, so it gets messages instead of text")
        if outcome.timed_out:
            raise _CallFailed(f"reward {self.label} took longer than its timeout of {self.timeout:g} s", True)
        if outcome.error is not None:
            raise _CallFailed(f"reward {self.label} raised {_described(outcome.error)}", True)
        try:
            return opinions_of(outcome.value, len(trajectories), self.label)
        except RewardError as error:
            raise _CallFailed(str(error), False) from None

    @property
    def _gets_messages(self) -> bool:
        """Whether completions of a chat are lists of messages."""
        return self._memory.messages or self._asks_for_messages

    @cached_property
    def _asks_for_messages(self) -> bool:
        try:
            parameter = inspect.signature(self._call).parameters.get("completions")
        except (TypeError, ValueError):  # some builtins have no signature
            return False
        return parameter is not None and bool(_MESSAGES.search(str(parameter.annotation)))

    @property
    def asked_for(self) -> list[str]:
        """The required arguments of the function; empty if it has no signature."""
        try:
            parameters = inspect.signature(self._call).parameters
        except (TypeError, ValueError):  # some builtins have no signature
            return []
        return [
            name
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty and parameter.kind not in _VARIADIC
        ]

    def _arguments(self, trajectories: Sequence[Trajectory], *, messages: bool = False) -> dict[str, Any]:
        """The arguments of the function, from the columns; with `messages` the completions of chats as messages.

        Raises:
            RewardError: if it requires a column that is missing.
        """
        columns = columns_of(trajectories)
        if messages or self._gets_messages:
            columns["completions"] = [_as_messages(entry) if _is_chat(entry) else entry.text for entry in trajectories]
        try:
            parameters = inspect.signature(self._call).parameters
        except (TypeError, ValueError):  # some builtins have no signature
            return {name: columns[name] for name in ("prompts", "completions")}
        for name in self.asked_for:
            if name not in columns and name != "trajectories":
                raise RewardError(
                    f"reward {self.label} asks for {name!r}, which this task does not give{nearest(name, columns)}"
                )
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            wanted = dict(columns)
        else:
            wanted = {name: values for name, values in columns.items() if name in parameters}
        return {**wanted, "trajectories": list(trajectories)} if "trajectories" in parameters else wanted


GIVEN = ("prompts", "completions", "completion_ids", "trajectories")
"""The arguments computed from samples; columns of data cannot have these names."""

_MESSAGES = re.compile(r"\b(?:dict|Dict|Mapping|Message)\b")
"""In the annotation of `completions`: it asks for messages."""

_TEXT_TAKEN_FOR_MESSAGES = re.compile(r"string indices must be integers|'str' object has no attribute")

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def columns_of(trajectories: Sequence[Trajectory]) -> dict[str, list[Any]]:
    """TRL's columns, each a list with one entry per trajectory.

    `prompts`, `completions`, `completion_ids` (of the last turn), `answer`, every metadata key, None where a scenario
    lacks it, and `id`, the scenario's where that is no metadata key.
    """
    scenarios = [trajectory.scenario for trajectory in trajectories]
    names = {name: None for scenario in scenarios for name in scenario.metadata}
    columns = {name: [scenario.metadata.get(name) for scenario in scenarios] for name in names}
    return {
        "id": [unmarked(scenario.id) for scenario in scenarios],
        **columns,
        "answer": [scenario.answer for scenario in scenarios],
        "prompts": [_prompt(trajectory) for trajectory in trajectories],
        "completions": [trajectory.text for trajectory in trajectories],
        "completion_ids": [t.turns[-1].action.tolist() if t.turns else [] for t in trajectories],
    }


def _prompt(trajectory: Trajectory) -> str | list[dict[str, Any]]:
    prompt = trajectory.scenario.prompt
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return [dict(message) for message in prompt]


def _is_chat(trajectory: Trajectory) -> bool:
    prompt = trajectory.scenario.prompt
    return prompt is not None and not isinstance(prompt, str)


def _as_messages(trajectory: Trajectory) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": trajectory.text}]


def _read_as_messages(error: BaseException | None) -> bool:
    """Whether a function failed because it took a completion for a list of messages."""
    return isinstance(error, (TypeError, AttributeError)) and bool(_TEXT_TAKEN_FOR_MESSAGES.search(str(error)))


def _described(error: BaseException) -> str:
    """`ValueError: boom (judge.py, line 12)`, the line being the innermost one outside of libraries."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "site-packages" not in f.filename]
    frames = [f for f in frames if Path(f.filename).parent != Path(__file__).parent]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    words = " ".join(str(error).split())
    words = words if len(words) <= 200 else f"{words[:197]}..."
    return f"{type(error).__name__}{': ' if words else ''}{words}{place}"


# ---------------------------------------------------------------- from the command line

_REFERENCE = re.compile(r"(?P<object>.+\.py:[^=:]+|hocket\.rewards\.\w+)(?:=(?P<weight>.*))?")


def load_reward(reference: str) -> Reward:
    """The reward `FILE.py:FUNCTION` or `hocket.rewards.NAME`, either with `=WEIGHT`.

    The name may also be that of a reward object (with `name`, `weight` and an async call over trajectories), or of a
    class that makes one without arguments.

    Raises:
        ConfigurationError: if the reference, the file, the name or the weight is wrong.
    """
    match = _REFERENCE.fullmatch(reference.strip())
    if match is None:
        raise ConfigurationError(
            f"reward = {reference!r}: write FILE.py:FUNCTION or FILE.py:FUNCTION=WEIGHT, or hocket.rewards.NAME"
        )
    weight = None if match["weight"] is None else _weight(match["weight"], reference)
    loaded = load_named(match["object"], "reward")
    if inspect.isclass(loaded):
        try:
            loaded = loaded()
        except TypeError as error:
            raise ConfigurationError(f"reward {match['object']} is a class that needs arguments: {error}") from None
    if hasattr(loaded, "name") and hasattr(loaded, "weight") and callable(loaded):
        return cast(Reward, loaded) if weight is None else _weighted(loaded, weight, match["object"])
    if not callable(loaded):
        kind = type(loaded).__name__
        raise ConfigurationError(f"reward {match['object']} is of type {kind}; name a function or a reward object")
    return FunctionReward(
        match["object"] if inspect.isfunction(loaded) else loaded, weight=1.0 if weight is None else weight
    )


def load_rewards(references: Iterable[str]) -> tuple[Reward, ...]:
    """Several rewards; functions of the same name in different files get their file's name in front.

    Raises:
        ConfigurationError: as `load_reward`, and if two still share a name.
    """
    listed = list(references)
    rewards = [load_reward(reference) for reference in listed]
    names = [reward.name for reward in rewards]
    for place, reward in enumerate(rewards):
        if names.count(reward.name) > 1 and isinstance(reward, FunctionReward):
            stem = Path(listed[place].partition(".py:")[0]).name
            rewards[place] = dataclasses.replace(reward, name=f"{stem}.{reward.name}")
    refuse_duplicates(rewards)
    return tuple(rewards)


def refuse_duplicates(rewards: Sequence[Reward]) -> None:
    """Raises `ConfigurationError` if two rewards would write the same score."""
    names = [reward.name for reward in rewards]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"two rewards are called {twice!r}; give one of them another name, or leave it out")


def _weight(text: str, reference: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise ConfigurationError(
            f"reward = {reference!r}: the weight {text!r} is no number; write =0.5 or leave it out"
        )
    return weight


def _weighted(reward: Any, weight: float, reference: str) -> Reward:
    if not dataclasses.is_dataclass(reward):
        raise ConfigurationError(f"reward {reference} is an object with a weight of its own; set it there, not by =")
    return cast(Reward, dataclasses.replace(cast(Any, reward), weight=weight))
