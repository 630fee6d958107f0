"""verifiers: rollouts of a multi-turn environment on a model that answers at once, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BUILD = Path(__file__).resolve().parent.parent / "build"
PYTHON = Path(os.environ.get("HOCKET_VERIFIERS_PYTHON") or BUILD / "verifiers" / "bin" / "python")
PACKAGE = "verifiers==0.1.14"
"""The last one whose rollouts run in the caller's process; later ones send every call through a server."""


def set_up() -> None:
    """Makes its environment; it brings no torch."""
    folder = BUILD / "verifiers"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", PACKAGE], check=True)


def ask(order: dict[str, Any]) -> dict[str, Any]:
    """What this script measures when it is run in that environment."""
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", ""), "OMP_NUM_THREADS": "1"}
    said = subprocess.run(
        [str(PYTHON), str(Path(__file__).resolve()), json.dumps(order)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    found: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    return found


def measure(order: dict[str, Any]) -> list[float]:
    """Processor seconds of each round of `episodes` x `turns` calls."""
    import asyncio
    import logging

    import verifiers as vf
    from datasets import Dataset
    from verifiers.clients import Client
    from verifiers.types import Response, ResponseMessage, ResponseTokens

    logging.disable(logging.CRITICAL)
    ids = list(range(order["tokens"]))

    class Instant(Client):  # type: ignore[misc]
        """Answers at once, with tokens and log-probs as a vLLM server would give them."""

        def setup_client(self, config: Any) -> None: ...

        async def to_native_tool(self, tool: Any) -> Any: ...

        async def to_native_prompt(self, messages: Any) -> Any:
            return messages, {}

        async def get_native_response(
            self, prompt: Any, model: Any, arguments: Any, tools: Any = None, **_: Any
        ) -> Any:
            return prompt

        async def raise_from_native_response(self, response: Any) -> None: ...

        async def from_native_response(self, response: Any) -> Response:
            prompt = list(range(30 * len(response)))
            tokens = ResponseTokens(
                prompt_ids=prompt,
                prompt_mask=[0] * len(prompt),
                completion_ids=ids,
                completion_mask=[1] * len(ids),
                completion_logprobs=[0.0] * len(ids),
            )
            message = ResponseMessage(content=order["answer"], finish_reason="stop", is_truncated=False, tokens=tokens)
            return Response(id="r", created=0, model="m", message=message)

        async def close(self) -> None: ...

    class Turns(vf.MultiTurnEnv):  # type: ignore[misc]
        async def env_response(self, messages: Any, state: Any, **_: Any) -> Any:
            place = len(state["trajectory"])
            return [vf.UserMessage(content=f"{state['answer']}: what is {place} more than that?")]

    rows = [{"question": f"What is {n} + 25?", "answer": str(n)} for n in range(order["episodes"])]
    env = Turns(dataset=Dataset.from_list(rows), rubric=vf.Rubric(), max_turns=order["turns"])
    inputs = env.get_dataset().to_list()
    for number, row in enumerate(inputs):
        row["example_id"] = number
    client = Instant(None)

    async def play() -> None:
        states = await asyncio.gather(*(env.rollout(row, client, "m", {}) for row in inputs))
        assert all(len(state["trajectory"]) == order["turns"] and state.get("error") is None for state in states)

    found = []
    for _ in range(order["rounds"] + 1):
        start = time.process_time()
        asyncio.run(play())
        found.append(time.process_time() - start)
    return found[1:]


if __name__ == "__main__":
    print(json.dumps({"seconds": measure(json.loads(sys.argv[1]))}))
