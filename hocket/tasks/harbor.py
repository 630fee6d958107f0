"""Tasks in Harbor's form, which Terminal-Bench 2 has: an instruction, a container to work in, and tests that score it.

A task is a folder with `task.toml`, `instruction.md`, `environment/Dockerfile` (or `docker_image` in `task.toml`) and
`tests/test.sh`, which writes a number into `/logs/verifier/reward.txt` or numbers by name into `reward.json`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hocket.agents.tools.container import BASH, Bash, Container, ContainerFailed, built
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.tool_loop import converse
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.columns import CALLS, TOOL_CALLS
from hocket.core.errors import ConfigurationError
from hocket.core.options import checked
from hocket.stages import Reward, Split
from hocket.tasks.data import divided
from hocket.tasks.examples import ExampleRow
from hocket.tasks.form import TaskForm
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

_SETTINGS = {"engine": str, "turns": int, "seconds": float, "eval_share": float}
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_LOGS = "/logs/verifier"


@dataclass(frozen=True)
class HarborFolder:
    """One task: its folder, instruction and settings."""

    path: Path
    instruction: str
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> HarborFolder:
        """Reads and checks a folder.

        Raises:
            ConfigurationError: naming the file that is missing or wrong.
        """
        try:
            settings = tomllib.loads((path / "task.toml").read_text(encoding="utf-8"))
            instruction = (path / "instruction.md").read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"{error.filename} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise ConfigurationError(f"{path / 'task.toml'} is not valid TOML: {error}") from None
        environment = settings.get("environment", {})
        for name in ("docker-compose.yaml", "docker-compose.yml"):
            if (path / "environment" / name).exists():
                raise ConfigurationError(f"{path}: the task needs several containers ({name}); leave it out")
        if "docker_image" not in environment and not (path / "environment" / "Dockerfile").is_file():
            raise ConfigurationError(f"{path} has neither environment/Dockerfile nor docker_image in task.toml")
        if not (path / "tests" / "test.sh").is_file():
            raise ConfigurationError(f"{path} has no tests/test.sh, which scores the task")
        if not instruction.strip():
            raise ConfigurationError(f"{path / 'instruction.md'} is empty")
        return cls(path, instruction, settings)

    @property
    def image(self) -> str | None:
        """The image that the task names; None where its Dockerfile is built."""
        name = self.settings.get("environment", {}).get("docker_image")
        return None if name is None else str(name)

    @property
    def tag(self) -> str:
        """The name of the image that is built: by what the folder of its Dockerfile holds."""
        digest = hashlib.blake2b(digest_size=8)
        for file in sorted((self.path / "environment").rglob("*")):
            if file.is_file():
                digest.update(str(file.relative_to(self.path)).encode() + b"\0" + file.read_bytes() + b"\0")
        return f"hocket-harbor:{digest.hexdigest()}"

    @property
    def options(self) -> list[str]:
        """Limits of the container, as docker takes them."""
        environment = self.settings.get("environment", {})
        flags = [f"--cpus={environment['cpus']}"] if "cpus" in environment else []
        memory = f"{environment['memory_mb']}m" if "memory_mb" in environment else environment.get("memory")
        flags += [f"--memory={str(memory).lower()}"] if memory else []
        flags += ["--network=none"] if environment.get("allow_internet") is False else []
        return flags + [part for name, value in _variables(environment).items() for part in ("-e", f"{name}={value}")]

    def seconds(self, part: str, otherwise: float) -> float:
        """The time that the task allows its `agent` or `verifier`."""
        return float(self.settings.get(part, {}).get("timeout_sec", otherwise))


class HarborWork(Workflow):
    """A policy works with `bash` in a container of its own; then the task's tests score what it left there."""

    roles = ("policy",)
    scores = True
    opens = True

    def __init__(self, folders: Sequence[HarborFolder], engine: str, turns: int, seconds: float) -> None:
        self.folders, self.engine, self.turns, self.seconds = tuple(folders), engine, turns, seconds

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        folder = self.folders[scenario.metadata["index"]]
        if folder.image is None:
            await built(self.engine, folder.path / "environment", folder.tag)
        container = await Container.started(self.engine, folder.image or folder.tag, folder.options)
        try:
            agent = team.policy.fresh(tools=[BASH])
            tools = [Bash(container, self.seconds)]
            reply, calls = await converse(agent, asked(team.assignment), tools, turns=self.turns)
            rewards = await _verified(container, folder)
        finally:
            await container.close()
        info = {TOOL_CALLS.name: len(calls), CALLS.name: [record.plain for record in calls], **rewards}
        return Outcome(answer=str(reply), rewards={"reward": rewards["reward"]}, info=info)


class HarborTask(TextTask):
    """The tasks in a folder, or the one that it is; each is an episode in a container.

    Args:
        settings: `engine` (docker; podman takes the same commands), `turns` (20 replies), `seconds` (120, of a
            command), `eval_share` (0.1, by the instruction).

    Raises:
        ConfigurationError: for folders that are none of Harbor's tasks, and without docker.
    """

    def __init__(self, path: str, settings: Mapping[str, str] | None = None) -> None:
        self.name = f"harbor:{path}"
        options = checked(self.name, settings or {}, _SETTINGS)
        engine = str(options.get("engine", "docker"))
        if shutil.which(engine) is None:
            raise ConfigurationError(
                f"task {self.name}: episodes are in containers, and there is no command {engine!r}; install docker, or "
                "name another one (?engine=podman)"
            )
        root = Path(path).expanduser()
        paths = [root] if (root / "task.toml").exists() else sorted(file.parent for file in root.glob("*/task.toml"))
        if not paths:
            raise ConfigurationError(f"task {self.name}: there is no task.toml in {root} or in a folder in it")
        folders = [HarborFolder.read(folder) for folder in paths]
        rows = [_row(place, folder) for place, folder in enumerate(folders)]
        self._rows, _ = divided(rows, float(options.get("eval_share", 0.1)), self.name)
        self.workflow = HarborWork(folders, engine, options.get("turns", 20), options.get("seconds", 120.0))

    def size(self, split: Split) -> int | None:
        return len(self._rows[split])

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, self.size(split) if split in self._rows else 0)
        row = self._rows[split][number]
        return Scenario(f"harbor/{row.columns['task']}", row.prompt, metadata=row.columns, seed=row.line)

    @property
    def rewards(self) -> Sequence[Reward]:
        """None: the tests score the container."""
        return ()

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 512}

    def verify(self, text: str, scenario: Scenario) -> None:
        """None: a text alone is not scored."""

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`worked`: whether a command succeeded."""
        return {"worked": float(any(call["worked"] for call in CALLS.get(trajectory, ())))}

    def label(self, trajectory: Trajectory) -> str | None:
        return None

    def success(self, trajectory: Trajectory) -> float:
        """The reward of the tests, clipped to [0, 1]."""
        score = trajectory.scores.get("reward")
        value = None if score is None else score.value
        return min(max(float(value), 0.0), 1.0) if isinstance(value, (int, float)) else 0.0


def _row(place: int, folder: HarborFolder) -> ExampleRow:
    metadata = {**folder.settings.get("metadata", {}), "task": folder.path.resolve().name, "index": place}
    return ExampleRow(place, folder.instruction, None, None, metadata)


def _variables(part: Mapping[str, Any]) -> dict[str, str]:
    """Variables of a part of the settings; `${NAME}` and `${NAME:-DEFAULT}` are those of this process."""
    texts = {str(name): str(value) for name, value in part.get("env", {}).items()}
    return {
        name: _VARIABLE.sub(lambda found: os.environ.get(found[1], found[2] or ""), text)
        for name, text in texts.items()
    }


async def _verified(container: Container, folder: HarborFolder) -> dict[str, float]:
    """The rewards by name that the tests write; `reward` is among them."""
    verifier = folder.settings.get("verifier", {})
    await container.run(f"mkdir -p {_LOGS} /tests", seconds=60)
    await container.put(folder.path / "tests", "/tests")
    code, output = await container.run(
        "bash /tests/test.sh", seconds=folder.seconds("verifier", 600.0), variables=_variables(verifier)
    )
    if code is None:
        raise ContainerFailed(f"{folder.path}: tests/test.sh {output}")
    for name in ("reward.json", "reward.txt"):
        missing, text = await container.run(f"cat {_LOGS}/{name}", seconds=60)
        if not missing:
            return _rewards(text, f"{folder.path}: tests/test.sh wrote {name} with {text.strip()[:80]!r}")
    last = (output.strip().splitlines() or ["nothing"])[-1]
    raise ContainerFailed(f"{folder.path}: tests/test.sh wrote no reward; it ended with code {code}: {last}")


def _rewards(text: str, where: str) -> dict[str, float]:
    try:
        value = json.loads(text)
        rewards = {
            str(name): float(number)
            for name, number in (value if isinstance(value, dict) else {"reward": value}).items()
        }
    except (ValueError, TypeError):
        rewards = {}
    if "reward" not in rewards and len(rewards) == 1:
        rewards["reward"] = next(iter(rewards.values()))
    if "reward" not in rewards or not all(map(math.isfinite, rewards.values())):
        raise ContainerFailed(f"{where}, which is no reward; write a number, or numbers by name with one named reward")
    return rewards


def harbor_task(name: str, settings: Mapping[str, str]) -> HarborTask:
    """The task of a name with its settings."""
    return HarborTask(name.removeprefix("harbor:"), settings)


HARBOR = TaskForm(
    name="harbor:PATH",
    description="a folder of tasks in Harbor's form, each in a container, e.g. harbor:terminal-bench/tasks",
    family="packages",
    make=harbor_task,
)
