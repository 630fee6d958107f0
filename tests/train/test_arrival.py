"""Steps that learn from what is ready: which groups they take, how old those are, and the same again in one process."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from disturbed import killed_once
from tiny_runs import CONTROL, REWARDS, TEAM, TINY, call, in_child, resume, rows, train, weights

from hocket.core.errors import ConfigurationError
from hocket.distributed.cluster.async_order import check_order, merged
from hocket.distributed.cluster.sampler import Sampler
from hocket.distributed.cluster.sampler_worker import Plays
from hocket.recipes import find
from hocket.types import Experience

ARRIVAL = ["--cluster", "local", "--samplers", "2", "--order", "arrival"]
LEARNS = ["--recipe", "grpo-tis", "--update.lr", "1e-3", "--checkpoint.steps", "1"]


def learns(folder: Path, *more: str) -> list[str]:
    (folder / "mine.py").write_text(REWARDS)
    return [*LEARNS, "--reward", f"{folder}/mine.py:spread", *more]


def schedule(run: Path) -> list[list[list[int]]]:
    return [json.loads(line)["groups"] for line in (run / "schedule.jsonl").read_text().splitlines()]


def replayed(run: Path) -> str:
    said = call("replay", run, "--quiet")
    return said.out if said.code == 0 else f"code {said.code}: {said.out}{said.err}"


@pytest.fixture
def unsteady(monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Samplers answer late, at random."""
    luck, ask = random.Random(7), Sampler.ask

    def late(sampler: Sampler, message: Any) -> Any:
        found = ask(sampler, message)
        if isinstance(message, Plays):
            time.sleep(luck.choice([0.0, 0.1, 0.5, 1.5]))
        return found

    monkeypatch.setattr(Sampler, "ask", late)
    return luck


def check_schedule(run: Path, lag: int, phases: tuple[int, ...], batch: int = 2) -> None:
    """Every group is learnt from once, and none by weights more than `lag` versions old."""
    taken, first = schedule(run), 0
    for steps in phases:
        groups = [group for step in taken[first : first + steps] for group, _ in step]
        assert len(groups) == len(set(groups)) == steps * batch
        for step in range(first, first + steps):
            assert all(max(first, step - lag) <= version <= step for _, version in taken[step])
        first += steps
    assert len(taken) == first


# ---------------------------------------------------------------- the same as one process


@pytest.mark.slow
def test_without_lag_it_is_the_run_of_one_process(tmp_path: Path) -> None:
    train(tmp_path, "one", *learns(tmp_path), steps=3)
    train(tmp_path, "two", *learns(tmp_path, *ARRIVAL), steps=3)
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    assert schedule(tmp_path / "two") == [[[2 * n, n], [2 * n + 1, n]] for n in range(3)]
    alone, arrived = rows(tmp_path / "one"), rows(tmp_path / "two")
    for one, other in zip(alone, arrived, strict=True):
        assert {name: value for name, value in other.items() if name in one} == {
            name: value for name, value in one.items() if name in other
        }


CASES = {
    "grpo": (TINY, []),
    "cartpole": (CONTROL, ["--recipe", "ppo", "--curriculum.prompts", "2"]),
    "team": (TINY, TEAM),
    "asks for more": (TINY, ["--recipe", "dapo"]),
    "looks at scores": (TINY, ["--recipe", "s-grpo"]),
    "learners": (TINY, ["--leaves", "2", "--learners", "2"]),
    "verified": (TINY, ["--verify", "0.5"]),
}


@pytest.mark.slow
@pytest.mark.usefixtures("unsteady")
@pytest.mark.parametrize("case", CASES)
def test_a_run_is_the_same_again_in_one_process(case: str, tmp_path: Path) -> None:
    tiny, more = CASES[case]
    own = learns(tmp_path, *ARRIVAL, "--lag", "2", *more)
    own = [one for place, one in enumerate(own) if case != "cartpole" or place not in (6, 7)]
    train(tmp_path, "run", *own, steps=5, tiny=tiny)
    check_schedule(tmp_path / "run", 2, (5,))
    assert "all weights and metrics are equal" in replayed(tmp_path / "run")


@pytest.mark.slow
def test_a_run_that_was_killed_and_lost_samplers_is_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan: [{recipe: grpo-tis, steps: 3}, {recipe: grpo, steps: 2}]")
    flags = [*TINY, str(plan), *learns(tmp_path)[2:], *ARRIVAL, "--lag", "1"]
    common = ["--runs", str(tmp_path), "--run", "run", "--quiet"]
    second = tmp_path / "run/checkpoints/step-000002"
    in_child(lambda: call("train", *flags, *common).code, until=second.is_dir)
    struck = killed_once(monkeypatch, Plays, 0.05)
    resume(tmp_path, "run")
    assert struck
    check_schedule(tmp_path / "run", 1, (3, 2))
    assert "all weights and metrics are equal" in replayed(tmp_path / "run")
    found = json.loads((tmp_path / "run" / "cluster.json").read_text())
    assert sum(found["lag"].values()) > 0


@pytest.mark.slow
def test_a_run_in_order_of_start_is_the_same_again(tmp_path: Path) -> None:
    train(tmp_path, "run", *learns(tmp_path, "--cluster", "local", "--samplers", "2", "--lag", "2"), steps=5)
    assert "5 steps repeated in one process; all weights and metrics are equal" in replayed(tmp_path / "run")
    train(tmp_path, "plain", *learns(tmp_path), steps=2)
    assert "all weights and metrics are equal" in replayed(tmp_path / "plain")


@pytest.mark.slow
def test_what_is_not_the_same_is_named(tmp_path: Path) -> None:
    train(tmp_path, "run", *learns(tmp_path, *ARRIVAL, "--lag", "1"), steps=3)
    log = tmp_path / "run" / "schedule.jsonl"
    whole = log.read_text()
    log.write_text(re.sub(r'"step": 2, "groups": \[\[\d+,', '"step": 2, "groups": [[40,', whole))
    said = call("replay", tmp_path / "run", "--quiet")
    assert said.code == 1
    assert re.search(r"step 2: \S+ was \S+ and is \S+ now", said.out), said.out
    log.write_text("".join(whole.splitlines(keepends=True)[:1]))
    said = call("replay", tmp_path / "run", "--quiet")
    assert said.code == 2
    assert "lacks step 2" in said.err


# ---------------------------------------------------------------- what is refused, and what is averaged


@pytest.mark.parametrize("recipe", ["rema", "cory", "xpo"])
def test_steps_that_differ_in_who_plays_are_refused(recipe: str) -> None:
    if recipe == "xpo":
        check_order(find(recipe), ["policy"])
        return
    with pytest.raises(ConfigurationError, match="use order = start"):
        check_order(find(recipe), ["one", "two"])


REFUSED = {
    "a changing cast": ([*ARRIVAL, *TEAM, "--recipe", "rema"], "use order = start"),
    "no samplers": (["--order", "arrival"], "order = arrival: groups arrive from samplers"),
    "another order": ([*ARRIVAL[:-1], "arival"], "order = 'arival'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str, tmp_path: Path) -> None:
    more, words = REFUSED[case]
    said = call("train", *TINY, *more, "--runs", tmp_path, "--run", "run", "--quiet")
    assert said.code == 2
    assert words in " ".join(said.err.split())
    assert not (tmp_path / "run").exists()


def test_metrics_of_groups_are_averaged_over_those_that_have_them() -> None:
    several = [Experience([], [], {"rounds": 1.0}), Experience([], [], {"rounds": 2.0, "kept": 4.0}), Experience([])]
    assert merged(several).metrics == {"rounds": 1.5, "kept": 4.0}
