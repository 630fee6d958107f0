"""`hocket serve` as a person starts it: a child process, the official client, and a signal that ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from tiny_runs import call, train

QUICK = ("--threads", "1", "--precision", "fp32", "--port", "0", "--json")


@contextmanager
def served(*arguments: str | Path, **environment: str) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """A running server and what it told when it was ready."""
    words = [sys.executable, "-m", "hocket", "serve", *map(str, arguments), *QUICK]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as child:
        try:
            assert child.stdout is not None
            line = child.stdout.readline()
            assert line, child.communicate()[1]
            yield json.loads(line), child
        finally:
            child.kill()


def test_a_run_is_served_to_the_official_client_until_a_signal(tmp_path: Path):
    train(tmp_path, "small", "--precision", "fp32", steps=1)
    with served("small", "--runs", tmp_path, "--key-variable", "SECRET", SECRET="hush") as (told, child):
        assert told["models"] == ["small"]
        assert told["weights"] == "step-000001"
        assert httpx.get(f"{told['url']}/models").status_code == 401
        client = openai.OpenAI(base_url=told["url"], api_key="hush")
        assert [model.id for model in client.models.list()] == ["small"]
        asked: Any = {"model": "small", "messages": [{"role": "user", "content": "What is 1 + 2?"}], "seed": 1}
        whole = client.chat.completions.create(**asked)
        parts = client.chat.completions.create(**asked, stream=True)
        assert "".join(part.choices[0].delta.content or "" for part in parts) == whole.choices[0].message.content
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(**{**asked, "model": "gpt-4o"})
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
        assert child.returncode == 0, said
        assert "Traceback" not in said
        assert "serving small (step-000001)" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nano", "--host", "0.0.0.0"), "a key is required"),
        (("nano", "--host", "0.0.0.0", "--key", "k"), "fewer than 16 characters"),
        (("nano", "--key-variable", "NO_SUCH_VARIABLE"), "the environment has no such variable"),
        (("nano", "--key", " x"), "a key must be ASCII text without space"),
        (("nano", "--max-tokens", "0"), "is not a whole number of at least 1"),
        (("nano", "--port", "70000"), "ports are numbers from 0 to 65535"),
        (("nano", "--prot", "1"), "prot"),
        (("no-such-run",), "there is no run 'no-such-run'"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], words: str):
    said = call("serve", *arguments, "--threads", "1", "--precision", "fp32")
    assert said.code == 2
    assert words in said.err
    assert said.out == ""


def test_control_runs_cannot_be_served(tmp_path: Path):
    (tmp_path / "walk").mkdir()
    (tmp_path / "walk" / "config.yaml").write_text("task: gym:CartPole-v1\n")
    said = call("serve", "walk", "--runs", tmp_path)
    assert said.code == 2
    assert "only language models can talk" in said.err
