"""A container of one episode, by the command line of docker or podman, and the tool that runs commands in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hocket.core.errors import HocketError
from hocket.core.waits import waiting_for

LONGEST = 10_000
"""Characters of a command's output that the agent reads; the middle of a longer one is left out."""


class ContainerFailed(HocketError):
    """A container could not be built, started or reached."""


@dataclass(frozen=True)
class Container:
    """A running container. `engine` is the command of docker or podman, `name` the container's."""

    engine: str
    name: str

    @staticmethod
    async def started(engine: str, image: str, options: Sequence[str] = ()) -> Container:
        """Starts one of an image, in which nothing runs yet."""
        code, output = await _run(engine, "run", "-d", "--rm", *options, image, "sh", "-c", "sleep infinity")
        if code:
            raise ContainerFailed(f"{engine} cannot start {image}: {_last(output)}")
        return Container(engine, output.split()[-1])

    async def run(
        self, command: str, *, seconds: float, variables: Mapping[str, str] | None = None
    ) -> tuple[int | None, str]:
        """The exit code and output of a command for bash; no code if it was stopped after `seconds`."""
        flags = [part for name, value in (variables or {}).items() for part in ("-e", f"{name}={value}")]
        try:
            return await asyncio.wait_for(_run(self.engine, "exec", *flags, self.name, "bash", "-c", command), seconds)
        except TimeoutError:
            return None, f"stopped after {seconds:g} s"

    async def put(self, folder: Path, place: str) -> None:
        """Copies what a folder holds to a place in the container."""
        code, output = await _run(self.engine, "cp", f"{folder}/.", f"{self.name}:{place}")
        if code:
            raise ContainerFailed(f"{self.engine} cannot copy {folder} into the container: {_last(output)}")

    async def close(self) -> None:
        """Removes it, with whatever runs in it."""
        await _run(self.engine, "rm", "-f", self.name)


async def built(engine: str, folder: Path, tag: str) -> None:
    """Builds the image `tag` of a folder with a Dockerfile, unless there is one."""
    code, _ = await _run(engine, "image", "inspect", tag)
    if not code:
        return
    with waiting_for(f"the image of {folder.parent.name}"):
        code, output = await _run(engine, "build", "-t", tag, str(folder))
    if code:
        raise ContainerFailed(f"{engine} cannot build {folder / 'Dockerfile'}: {_last(output)}")


async def _run(*words: str) -> tuple[int, str]:
    """The exit code of a command, and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    return process.returncode or 0, output.decode("utf-8", "replace")


def _last(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else "it says nothing"


BASH: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Runs a command with bash in the container of the task, and returns what it writes.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


@dataclass(frozen=True)
class Bash:
    """The tool `bash` of an episode: runs a command in its container.

    A resumed run makes its calls again, since the tests score what they leave behind.
    """

    container: Container
    seconds: float = 120.0

    name = "bash"

    @property
    def schema(self) -> Mapping[str, Any]:
        return BASH

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        command = arguments.get("command")
        if not isinstance(command, str):
            return "error: bash needs a command"
        code, output = await self.container.run(command, seconds=self.seconds)
        if len(output) > LONGEST:
            output = f"{output[: LONGEST // 2]}\n[...]\n{output[-LONGEST // 2 :]}"
        return output if code == 0 else f"error: {'no exit code' if code is None else f'exit code {code}'}\n{output}"
