"""The library from Python: one call, one step at a time, in notebooks; and where its randomness comes from."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import REWARDS, TINY, rows, weights

import hocket
from hocket.methods.base.grpo import GRPO
from hocket.rewards.functions import FunctionReward
from hocket.train.config import configure

SETTINGS: dict[str, Any] = {
    "rollout.samples": 4,
    "curriculum.prompts": 2,
    "evaluation.n": 4,
    "decoding.max_tokens": 8,
    "threads": 1,
}


def spread(prompts: list[str], completions: list[str], completion_ids: list[list[int]], **columns: Any) -> list[float]:
    assert len(prompts) == len(completions) == len(completion_ids) == len(columns["answer"])
    return [float(sum(map(ord, text)) % 7) for text in completions]


def trained(runs: Path, **more: Any) -> Any:
    return hocket.train("sums", reward=spread, runs=str(runs), **{"steps": 2, **SETTINGS, **more})  # type: ignore[operator]


def test_one_call_trains_and_returns_the_run(tmp_path: Path) -> None:
    run = trained(tmp_path)
    assert run.path.parent == tmp_path
    assert [row["step"] for row in run.metrics] == [0, 1, 2]
    assert run.metrics[1]["loss"] is not None
    found = run.evaluate(6)
    assert found.n == 6
    assert 0 <= found.low <= found.success <= found.high <= 1
    assert run.policy.version == 2
    assert run.summary["reason"] == "finished"
    assert str(run.path) in repr(run)


def test_it_works_inside_a_running_event_loop(tmp_path: Path) -> None:
    async def cell() -> Any:
        return trained(tmp_path, run="inside", seed=3)

    inside = asyncio.run(cell())
    outside = trained(tmp_path, run="outside", seed=3)
    assert rows(inside.path) == rows(outside.path)
    assert weights(inside.path) == weights(outside.path)


def test_the_trainer_steps(tmp_path: Path) -> None:
    pairs = [*SETTINGS.items(), ("steps", 2), ("runs", str(tmp_path)), ("recipe", GRPO.but(name="mine"))]
    config = configure(pairs, hocket.tasks.find("sums"))
    trainer = hocket.Trainer(config, rewards=[FunctionReward(spread)])
    assert trainer.step()["eval/n"] == 4
    before = [parameter.clone() for parameter in trainer.parts.lead.policy.module.parameters()]
    assert trainer.step()["groups/total"] == 2
    after = list(trainer.parts.lead.policy.module.parameters())
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert not trainer.done
    trainer.step()
    assert trainer.done
    trainer.finish("finished")
    assert (trainer.folder.path / "summary.json").is_file()


def test_a_task_of_ones_own_and_several_rewards(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text("".join(f'{{"prompt": "Say {n}.", "answer": "{n}", "extra": {n}}}\n' for n in range(12)))
    run = hocket.train(str(file), reward=[spread, "task"], steps=1, runs=str(tmp_path), **SETTINGS)  # type: ignore[operator]
    row = run.metrics[1]
    assert row["reward/mean"] == pytest.approx(row["reward/spread"] + row["reward/correct"])


def test_equal_seeds_give_equal_numbers_whatever_python_hashes_to(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(REWARDS)
    flags = [*TINY, "--reward", f"{tmp_path / 'mine.py'}:spread", "--steps", "2", "--runs", str(tmp_path), "--quiet"]
    from hocket.apps.cli.parser import main

    assert main(["train", *flags, "--run", "here"]) == 0
    own = sys.flags.hash_randomization and os.environ.get("PYTHONHASHSEED", "random")
    other = {**os.environ, "PYTHONHASHSEED": "12" if own != "12" else "13", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "hocket", "train", *flags, "--run", "there"], env=other, check=True)
    assert rows(tmp_path / "here") == rows(tmp_path / "there")
    assert weights(tmp_path / "here") == weights(tmp_path / "there")


def test_public_names_are_listed_typed_and_loaded_when_used() -> None:
    assert [name for name in hocket.__all__ if name not in dir(hocket)] == []
    assert list(hocket._HOMES) == hocket.__all__
    assert all(callable(getattr(hocket, name)) for name in hocket.__all__)
    tree = ast.parse(Path(hocket.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {name.name: node.module for node in imports for name in node.names} == hocket._HOMES
    assert "on_step" in inspect.signature(hocket.train).parameters  # type: ignore[arg-type]


# ---------------------------------------------------------------- no global generator


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every draw from a global generator raise."""

    def refuse(name: str) -> Callable[..., Any]:
        def raising(*args: Any, **keywords: Any) -> Any:
            raise AssertionError(f"{name} draws from a global generator")

        return raising

    own: Any = random
    for name in dir(own):
        if getattr(getattr(own, name), "__self__", None) is own._inst and name != "getstate":
            monkeypatch.setattr(random, name, refuse(f"random.{name}"))
    legacy: Any = np.random
    for name in dir(legacy):
        if getattr(getattr(legacy, name), "__self__", None) is legacy.mtrand._rand and name != "get_state":
            monkeypatch.setattr(np.random, name, refuse(f"numpy.random.{name}"))

    def keyed(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, **keywords: Any) -> Any:
            nothing_drawn = bool(args) and isinstance(args[0], torch.Tensor) and args[0].is_meta
            if keywords.get("generator") is None and not nothing_drawn:
                raise AssertionError(f"{name} draws from torch's global generator")
            return original(*args, **keywords)

        return checked

    drawing = ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson")
    for name in drawing:
        monkeypatch.setattr(torch, name, keyed(f"torch.{name}", getattr(torch, name)))
    for name in ("uniform_", "normal_", "bernoulli_", "exponential_", "random_", "multinomial", "bernoulli"):
        monkeypatch.setattr(torch.Tensor, name, keyed(f"Tensor.{name}", getattr(torch.Tensor, name)))
    for name in ("rand_like", "randn_like", "randint_like", "seed", "manual_seed"):
        monkeypatch.setattr(torch, name, refuse(f"torch.{name}"))


def test_the_ban_on_global_draws_would_notice_one(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid(monkeypatch)
    draws: list[Callable[[], Any]] = [
        lambda: random.random(),
        lambda: np.random.rand(),  # noqa: NPY002
        lambda: torch.rand(2),
        lambda: torch.zeros(2).normal_(),
    ]
    for draw in draws:
        with pytest.raises(AssertionError, match="global generator"):
            draw()
    assert torch.rand(2, generator=torch.Generator().manual_seed(0)).shape == (2,)


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("sums", {"update.epochs": 2, "update.minibatches": 2}),
        ("sums", {"lora.rank": 2}),
        ("sums", {"recipe": "ppo", "update.epochs": 1, "update.minibatches": 2}),
        ("gym:CartPole-v1?max_episode_steps=20", {"recipe": "ppo", "update.epochs": 2}),
    ],
)
def test_a_run_draws_from_no_global_generator(
    task: str, more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {**SETTINGS, **more}
    hocket.train(task, steps=0, runs=str(tmp_path), **settings)  # type: ignore[operator] # loads what is imported late
    forbid(monkeypatch)
    reward = spread if task == "sums" else None
    run = hocket.train(task, reward=reward, steps=2, runs=str(tmp_path), **settings)  # type: ignore[operator]
    assert run.metrics[-1]["loss"] is not None
