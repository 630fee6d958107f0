"""Runs whose tools and workflows break in every way: each fault is named, and the weights are those of a second run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import call, rows, weights

BREAKS = """
import asyncio
from dataclasses import dataclass

from hocket.agents.tools import Call, carried_out
from hocket.agents.workflows import Outcome, Workflow

FAULTS = ("raises", "hangs", "bytes", "surrogates", "huge", "fails", "no number", "no outcome", "cancels")
SCHEMA = {"type": "function", "function": {"name": "oracle", "parameters": {"type": "object", "properties": {}}}}


@dataclass(frozen=True)
class Oracle:
    fault: str
    name = "oracle"
    schema = SCHEMA

    async def __call__(self, arguments):
        await asyncio.sleep(0.001)
        if self.fault == "raises":
            raise ValueError("out of order")
        if self.fault == "hangs":
            await asyncio.Event().wait()
        if self.fault == "bytes":
            return b"\\x00\\xff"
        if self.fault == "surrogates":
            return "a\\ud800b\\x00<|im_end|>"
        return "1 " * 5_000_000 if self.fault == "huge" else "12"


class Breaks(Workflow):
    roles = ("policy",)

    async def play(self, scenario, team):
        drawn = int(team.key.derive("fault").numpy().integers(90))
        fault = FAULTS[drawn] if drawn < len(FAULTS) else ""
        await team.policy(scenario.messages)
        if fault == "fails":
            raise KeyError("nothing there")
        if fault == "cancels":
            raise asyncio.CancelledError("had enough")
        said = await carried_out(Call("oracle", {}), [Oracle(fault)])
        reply = await team.policy([{"role": "tool", "content": said}])
        if fault == "no outcome":
            return "the answer"
        rewards = {"odd": float("nan")} if fault == "no number" else {}
        return Outcome(answer=str(reply), rewards=rewards, info={"fault": fault})
"""

NAMED = {
    "raises": "ToolFailed: tool 'oracle' raised ValueError: out of order",
    "bytes": "ToolFailed: tool 'oracle' answered with a bytes; a tool answers in words",
    "fails": "KeyError: 'nothing there' in play() line",
    "cancels": "CancelledError: had enough in play() line",
    "no outcome": "TypeError: play() returned str, not an Outcome or None",
    "no number": "ValueError: reward 'odd' is nan",
}
LIMITS = {
    "hangs": "the workflow called no agent for more than limits.idle_seconds = 2.0 s, and waits for oracle",
    "huge": "leaves no room for a response",
}


def run(folder: Path, name: str, prompts: int, steps: int) -> Path:
    """A run with the workflow above, 8 samples of each prompt."""
    file = folder / "breaks.py"
    file.write_text(BREAKS)
    words = ["--workflow", f"{file}:Breaks", "--task", "sums", "--curriculum.prompts", str(prompts)]
    words += ["--limits.idle_seconds", "2.0", "--threads", "1", "--evaluation.n", "8", "--evaluation.every", "1"]
    words += ["--decoding.max_tokens", "24", "--steps", str(steps), "--runs", str(folder), "--run", name, "--quiet"]
    said = call("train", *words)
    assert said.code == 0, said.err
    return folder / name


def episodes(folder: Path) -> list[dict[str, Any]]:
    """All that was recorded."""
    files = sorted((folder / "rollouts").glob("step-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def faults(folder: Path) -> Counter[str]:
    """How many episodes had each fault, by what is recorded of them; every other one came to its end."""
    found: Counter[str] = Counter()
    for one in episodes(folder):
        failure, limit = one["failure"], one["info"].get("limit")
        if failure is None and limit is None:
            assert len(one["turns"]) == 2
            found[one["info"]["fault"]] += 1
            continue
        named = NAMED if failure is not None else LIMITS
        found[next(name for name, words in named.items() if words in (failure or limit))] += 1
    return found


@pytest.mark.slow
def test_a_thousand_episodes_with_faults_name_each_and_repeat(tmp_path: Path) -> None:
    first, second = run(tmp_path, "first", 25, 5), run(tmp_path, "second", 25, 5)
    found = faults(first)
    assert sum(found.values()) == 1000
    assert found.pop("") > 800
    assert set(found) == {*NAMED, *LIMITS, "surrogates"}
    failed = sum(found[name] for name in NAMED)
    assert sum(row.get("episodes/failed", 0) for row in rows(first)) == failed
    told = (first / "messages.txt").read_text()
    assert all(words in told for words in (*NAMED.values(), LIMITS["hangs"]))
    assert rows(first) == rows(second)
    assert weights(first) == weights(second)
