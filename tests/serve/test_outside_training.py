"""Training somebody else's agent through the command line: exact, resumable, and it learns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_runs import assert_same, resume, rows, train

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "outside_agent.py"

SHORT = '''
import asyncio

import openai

async def agent(base_url, api_key, scenario):
    """Prefers the shorter of two answers."""
    # A client of its own: the runs of this file share a process, and connections end with the server of a run.
    async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as client:

        async def ask():
            messages = [{"role": "user", "content": scenario.prompt}]
            reply = await client.chat.completions.create(model="m", messages=messages)
            return reply.choices[0].message.content

        one, other = await asyncio.gather(ask(), ask())
    return -min(len(one), len(other)) / 50
'''


def agent_file(folder: Path) -> str:
    file = folder / "short.py"
    file.write_text(SHORT)
    return f"outside:{file}:agent"


@pytest.mark.parametrize(
    ("example", "task", "needs"),
    [
        ("outside_agent", "sums", "openai"),
        ("agents_sdk", "calculator?digits=3", "agents"),
        pytest.param("langgraph_agent", "sums", "langgraph", marks=pytest.mark.global_rng),
    ],
)
def test_the_examples_are_trained_on_what_was_sampled(tmp_path: Path, example: str, task: str, needs: str):
    pytest.importorskip(needs)
    more = ("--task", task, "--workflow", f"outside:{EXAMPLES / example}.py:agent", "--decoding.max_tokens", "60")
    train(tmp_path, "example", *more, steps=2)
    found = rows(tmp_path / "example")
    for row in found[1:]:
        assert row["episodes/failed"] == 0
        # Sampler and learner agree about every token of every call.
        assert abs(row["kl/behaviour"]) < 1e-6


def test_a_framework_calls_its_own_tool(tmp_path: Path):
    """The Agents SDK reads the call, carries it out and shows the result; all of it is one conversation here."""
    pytest.importorskip("agents")
    more = ("--task", "calculator", "--workflow", f"outside:{EXAMPLES / 'agents_sdk.py'}:agent")
    train(tmp_path, "tool", *more, "--decoding.max_tokens", "60", steps=1)
    first = json.loads((tmp_path / "tool" / "rollouts" / "step-000001.jsonl").read_text().splitlines()[0])
    ask, answer = first["turns"][:2]
    assert "<tool_call>" in ask["text"]
    assert answer["parent"] == ask["id"]
    assert answer["prompt"][-1]["role"] == "tool"


@pytest.mark.slow
def test_an_interrupted_run_ends_as_an_uninterrupted_one(tmp_path: Path):
    more = ("--workflow", agent_file(tmp_path), "--evaluation.every", "1", "--evaluation.between", "8")
    train(tmp_path, "whole", *more, steps=3)
    train(tmp_path, "parts", *more, steps=1)
    resume(tmp_path, "parts", "--steps", "3")
    assert_same(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_sampling_beside_learning(tmp_path: Path):
    train(tmp_path, "beside", "--workflow", agent_file(tmp_path), "--overlap", "1", "--recipe", "grpo-tis", steps=3)
    assert [row["episodes/failed"] for row in rows(tmp_path / "beside")[1:]] == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_example_learns(tmp_path: Path):
    """Forty steps of the planner and its workers; before, about four of ten problems are right."""
    more = ("--evaluation.n", "100", "--threads", "1", "--evaluation.every", "0")
    train(tmp_path, "learns", "--workflow", f"outside:{EXAMPLE}:agent", *more, steps=40, tiny=[])
    found = rows(tmp_path / "learns")
    assert found[0]["eval/accuracy"] < 0.6
    assert found[-1]["eval/accuracy"] > found[0]["eval/accuracy"] + 0.2
    early, late = ([row["reward/mean"] for row in part] for part in (found[1:11], found[-10:]))
    assert sum(late) > sum(early)
    assert all(row["episodes/failed"] == 0 for row in found[1:])
