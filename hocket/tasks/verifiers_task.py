"""Environments of the library `verifiers` as tasks: its tasksets, harnesses and rewards, with hocket's policy."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from hocket.agents.workflows import OutsideAgent
from hocket.agents.workflows.workflow import Outcome
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.options import checked, read_value
from hocket.stages import Reward, Split
from hocket.tasks.data import divided
from hocket.tasks.examples import ExampleRow
from hocket.tasks.form import TaskForm
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario, Trajectory

HARNESS = "hocket_chat"
"""The name of the chat loop in this process, see `hocket.tasks.verifiers_harness`."""

_OWN = {"harness": str, "runtime": str, "env": str, "turns": int, "seconds": float, "eval_share": float, "rows": int}


class EpisodeFailed(HocketError):
    """An episode that verifiers gave up."""


class VerifiersTask(TextTask):
    """The tasks of a taskset of `verifiers`, played by its environment and scored by its rewards.

    A task's episode is `Env.run_episode` of verifiers with a model behind an address of this process: calls are
    recorded as those of any outside agent. Its score `reward` is the weighted sum of the taskset's rewards, the mean
    over traces where an episode has several. Named rewards and metrics are columns (`info`).

    Args:
        taskset: the name of an installed package, with or without its owner.
        settings: fields of the taskset's configuration; and `harness` (the chat loop of this process), `runtime`
            (`subprocess`), `env` (the taskset's own), `turns`, `seconds` (of an episode), `rows` (of an endless
            taskset), `eval_share`.

    Raises:
        ConfigurationError: without verifiers or the taskset, and for settings that it refuses.
    """

    def __init__(self, taskset: str, settings: Mapping[str, str] | None = None) -> None:
        texts = dict(settings or {})
        query = "&".join(f"{key}={text}" for key, text in texts.items())
        self.name = f"verifiers:{taskset}" + (f"?{query}" if query else "")
        mine = checked(self.name, {key: text for key, text in texts.items() if key in _OWN}, _OWN)
        options = {key: read_value(text) for key, text in texts.items() if key not in _OWN}
        self._library = _imported()
        self.config = self._configured(taskset, options, mine)
        environment = self._loaded()
        tasks = environment.taskset
        if not tasks.bounded:
            tasks = tasks.take(mine.get("rows", 1000))
        self._tasks = {task.data.idx: task for task in itertools.islice(tasks, mine.get("rows"))}
        if not self._tasks:
            raise ConfigurationError(f"task {self.name}: the taskset has no tasks")
        rows = [_row(place, task.data) for place, task in self._tasks.items()]
        self._rows, _ = divided(rows, mine.get("eval_share", 0.1), self.name)
        self.workflow = OutsideAgent(self._play)
        self.workflow.scores = True

    def size(self, split: Split) -> int | None:
        return len(self._rows[split])

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, self.size(split) if split in self._rows else 0)
        row = self._rows[split][number]
        return Scenario(f"{self.config.taskset.id}:{row.line}", row.prompt, metadata=row.columns, seed=row.line)

    @property
    def rewards(self) -> Sequence[Reward]:
        """None: the environment scores its episodes."""
        return ()

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 256}

    def verify(self, text: str, scenario: Scenario) -> None:
        """None: a text alone is not scored."""

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        return {}

    def label(self, trajectory: Trajectory) -> str | None:
        return None

    def success(self, trajectory: Trajectory) -> float:
        """The episode's reward, clipped to [0, 1]."""
        score = trajectory.scores.get("reward")
        value = None if score is None else score.value
        return min(max(float(value), 0.0), 1.0) if isinstance(value, (int, float)) else 0.0

    async def _play(self, base_url: str, scenario: Scenario) -> Outcome:
        """One episode, with the policy behind `base_url`."""
        library = self._library
        # Of its own: an environment serves one model's address at a time.
        environment = self._loaded()
        context = library.v1.ModelContext(
            model="policy", client=library.v1.EvalClientConfig(base_url=base_url, api_key_var="HOCKET_EPISODE_KEY")
        )
        async with environment.serving():
            episode = await environment.run_episode(self._tasks[scenario.metadata["index"]], context)
        errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        if errors or not episode.traces:
            reason = f"{errors[-1].type}: {errors[-1].message}" if errors else "it has no trace"
            raise EpisodeFailed(f"{self.name}, task {scenario.metadata['index']}: {' '.join(reason.split())}")
        rewards = [trace.reward for trace in episode.traces]
        info: dict[str, Any] = {}
        for trace in episode.traces:
            info |= {name: reward.value for name, reward in trace.rewards.items() if reward is not None}
            info |= {name: value for name, value in trace.metrics.items() if value is not None}
        return Outcome(rewards={"reward": sum(rewards) / len(rewards)}, info=info)

    def _configured(self, taskset: str, options: Mapping[str, Any], mine: Mapping[str, Any]) -> Any:
        """The configuration of the environment, every seat of which has the harness and the runtime."""
        loaders = self._library.loaders
        data: dict[str, Any] = {"id": mine.get("env", ""), "taskset": {"id": taskset, **options}}
        seat: dict[str, Any] = {"harness": {"id": mine.get("harness", HARNESS)}}
        seat["runtime"] = {"type": mine.get("runtime", "subprocess")}
        seat |= {"max_turns": mine["turns"]} if "turns" in mine else {}
        seat |= {"timeout": {"rollout": mine["seconds"]}} if "seconds" in mine else {}
        try:
            kind = loaders.env_config_type(taskset, data["id"])
            seats = self._library.agents.agent_config_fields(kind(taskset={"id": taskset, **options}))
            return loaders.resolve_env_config({**data, **dict.fromkeys(seats, seat)})
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"task {self.name}: {_first(error)}; install its package, or correct the name"
            ) from error
        except Exception as error:
            raise ConfigurationError(f"task {self.name} cannot be configured: {_first(error)}") from error

    def _loaded(self) -> Any:
        try:
            return self._library.loaders.load_environment(self.config)
        except Exception as error:
            raise ConfigurationError(f"task {self.name} cannot be loaded: {_first(error)}") from error


def _imported() -> SimpleNamespace:
    """The parts of verifiers that are used, with hocket's harness among those that it finds by name."""
    try:
        parts = {
            "v1": importlib.import_module("verifiers.v1"),
            "loaders": importlib.import_module("verifiers.v1.utils.loaders"),
            "agents": importlib.import_module("verifiers.v1.configs.agent"),
        }
    except ImportError as error:
        raise ConfigurationError(
            f"verifiers:NAME needs the package verifiers, 0.4 or later: pip install 'hocket[verifiers]' ({error})"
        ) from None
    sys.modules.setdefault(HARNESS, importlib.import_module("hocket.tasks.verifiers_harness"))
    return SimpleNamespace(**parts)


def _row(place: int, data: Any) -> ExampleRow:
    """A task as a row of data: its prompt, by which it is divided, and its number."""
    messages: list[Message] = [{"role": "system", "content": data.system_prompt}] if data.system_prompt else []
    if isinstance(data.prompt, str) or data.prompt is None:
        messages.append({"role": "user", "content": data.prompt or data.name or f"task {place}"})
    else:
        messages += [message.model_dump(exclude_none=True) for message in data.prompt]
    return ExampleRow(place, tuple(messages), None, None, {"index": place, "name": data.name or data.id or str(place)})


def _first(error: Any) -> str:
    """The first sentence of an error on one line; of a list of wrong fields the first."""
    if hasattr(error, "errors") and callable(error.errors):
        wrong = error.errors()[0]
        return f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
    return " ".join(str(error).split()).partition(". ")[0][:300]


def verifiers_task(name: str, settings: Mapping[str, str]) -> VerifiersTask:
    """The task of a name with its settings."""
    return VerifiersTask(name.removeprefix("verifiers:"), settings)


VERIFIERS = TaskForm(
    name="verifiers:NAME",
    description="an environment of the library verifiers, e.g. verifiers:gsm8k",
    family="packages",
    make=verifiers_task,
)
