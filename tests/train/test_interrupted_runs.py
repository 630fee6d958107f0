"""Answers that go on under new weights: who wrote what is noted, lags hold for every token, replays are the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
import torch
from disturbed import interrupted_often, killed_once
from tiny_runs import CONTROL, REWARDS, TEAM, TINY, call, in_child, resume, train

from hocket import tasks
from hocket.agents.workflows.player import TextPlayer
from hocket.apps.cli.parser import split_settings
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import unique_turns
from hocket.distributed.cluster.interruption import Following, name_of, with_engines
from hocket.distributed.cluster.sampler import Account, Sampler, TargetWeights
from hocket.distributed.cluster.sampler_worker import GoOn, Play, PlayResult, Plays, Underway, Worker
from hocket.distributed.cluster.setup import Setup
from hocket.distributed.cluster.weights import PackedWeights
from hocket.engine import running
from hocket.engine.requests import Request
from hocket.train.aio import run_async
from hocket.train.config import configure
from hocket.train.replay import holding
from hocket.train.trainer import Trainer
from hocket.types import Assignment, Decoding

AWAY = ["--cluster", "local", "--samplers", "2", "--order", "arrival", "--interrupt", "true"]


def configured(*more: str, runs: Path) -> Trainer:
    pairs = split_settings([*TINY, *more, "--runs", str(runs), "--run", "run", "--steps", "2"], set())[1]
    task = tasks.find("sums")
    return Trainer(configure(pairs, task), task=task)


class Here:
    """A line to a worker in this process."""

    name = "sampler 1"

    def __init__(self) -> None:
        self._worker, self._answers = Worker(), list[bytes]()

    def send(self, message: bytes, beside: Sequence[PackedWeights] = ()) -> None:
        self._answers.append(self._worker.answered(message, *beside))

    def receive(self) -> bytes:
        return self._answers.pop(0)

    def ready(self, seconds: float) -> bool:
        return bool(self._answers)

    def close(self) -> None: ...


def moved(trainer: Trainer, seed: int) -> None:
    """Makes other weights, as a step would."""
    noise = torch.Generator().manual_seed(seed)
    for learner in trainer.parts.learners.values():
        with torch.no_grad():
            for weight in learner.policy.module.parameters():
                if weight.requires_grad:
                    weight.add_((0.01 + 0.05 * weight.abs()) * torch.randn(weight.shape, generator=noise))
        learner.policy.version += 1


@pytest.mark.parametrize("case", ["fp32", "bf16", "team", "lora"])
def test_every_part_is_written_again_under_its_own_weights(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "BREATH", 0.0)
    more = {"team": TEAM, "lora": ["--lora.rank", "2"], "bf16": ["--precision", "bf16"]}.get(case, [])
    trainer = configured(*more, runs=tmp_path)
    parts, config = trainer.parts, trainer.config
    member = Sampler(Here(), Account("sampler 1"))
    member.ask(Setup(config.plain(), parts.lead.policy.precision, 1))
    assignments = [
        Assignment(trainer.task.scenario("train", n), samples=4, decoding=Decoding(max_tokens=20)) for n in (0, 1)
    ]
    seats = {} if case != "team" else {"planner": "planner", "worker": "worker"}
    goals = [TargetWeights(parts.learners)]
    goals[0].load(member)
    play = Play(assignments, seats or {"policy": "policy"}, Key.of(7))
    played, passes = member.ask(Plays([play], goals[0].versions, 0.0)), 0
    while isinstance(played, Underway):
        passes += 1
        if passes % 40 == 0 and len(goals) < 5:
            moved(trainer, len(goals))
            goals.append(TargetWeights(parts.learners))
            goals[-1].load(member)
        played = member.ask(GoOn())
    assert isinstance(played, PlayResult)
    turns = unique_turns(played.trajectories)
    several = [turn for turn in turns if len(np.unique(turn.version)) > 1]
    assert several
    assert all((np.diff(turn.version) >= 0).all() for turn in turns)
    [plans] = played.plans
    assert len(plans) >= len(several)

    def under(policy: str, version: int) -> AbstractContextManager[None]:
        return holding(parts.learners, next(one for one in goals if one.versions[policy] == version))

    followed = with_engines(parts.player, lambda actor: Following(actor.engine, actor.policy, under))
    for actor in followed.actors.values():
        actor.engine.plans = plans
    with holding(parts.learners, goals[0]):
        again = run_async(followed.play(assignments, key=Key.of(7)))
    for mine, its in zip(unique_turns(again), turns, strict=True):
        assert mine.action.tolist() == its.action.tolist()
        assert mine.logp.tobytes() == its.logp.tobytes()
        assert mine.version.tolist() == its.version.tolist()


def test_requests_of_a_group_have_different_names() -> None:
    one = Request((1, 2), Decoding(), Key.of(1))
    names = {
        name_of(other)
        for other in (
            one,
            Request((1, 3), Decoding(), Key.of(1)),
            Request((1, 2), Decoding(), Key.of(2)),
            Request((1, 2), Decoding(), Key.of(1), (5,)),
            Request((1, 2), Decoding(), Key.of(1), drawn=1),
        )
    }
    assert len(names) == 5


# ---------------------------------------------------------------- runs


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_often(monkeypatch)


LONG = ["--engine.max_rows", "2", "--decoding.max_tokens", "40", "--curriculum.prompts", "4"]


def learns(folder: Path, *more: str) -> list[str]:
    (folder / "mine.py").write_text(REWARDS)
    recipe = ["--recipe", "grpo-tis", "--update.lr", "1e-3", "--checkpoint.steps", "1"]
    return [*recipe, "--reward", f"{folder}/mine.py:spread", *AWAY, "--lag", "3", *LONG, *more]


def parts(run: Path) -> list[list[tuple[int, int]]]:
    """Of answers that several versions wrote."""
    found = []
    for line in (run / "schedule.jsonl").read_text().splitlines():
        for plans in json.loads(line).get("parts", {}).values():
            found += [plan for plan in plans.values() if len(plan) > 1]
    return found


def check(run: Path, lag: int) -> None:
    """Answers were interrupted, no token is older than it may be, and the run is the same again."""
    assert parts(run)
    for line in (run / "schedule.jsonl").read_text().splitlines():
        row = json.loads(line)
        for group, version in row["groups"]:
            assert version >= row["step"] - 1 - lag
            for plan in row.get("parts", {}).get(str(group), {}).values():
                starts, writers = zip(*plan, strict=True)
                assert starts[0] == 0
                assert list(starts) == sorted(set(starts))
                assert version <= writers[0] < row["step"]
                assert list(writers) == sorted(set(writers))
    said = call("replay", run, "--quiet")
    assert "all weights and metrics are equal" in said.out, said.out + said.err


CASES = {
    "plain": [],
    "differences": ["--differences", "true", "--precision", "bf16"],
    "team": TEAM,
    "asks for more": ["--recipe", "dapo"],
    "looks at scores": ["--recipe", "s-grpo"],
    "adapters": ["--lora.rank", "2"],
}


@pytest.mark.slow
@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("case", CASES)
def test_an_interrupted_run_is_the_same_again_in_one_process(case: str, tmp_path: Path) -> None:
    train(tmp_path, "run", *learns(tmp_path, *CASES[case]), steps=6)
    check(tmp_path / "run", 3)


@pytest.mark.slow
@pytest.mark.usefixtures("slowly")
def test_an_interrupted_run_that_was_killed_and_lost_a_sampler_is_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan: [{recipe: grpo-tis, steps: 4}, {recipe: grpo, steps: 3}]")
    flags = [*TINY, str(plan), *learns(tmp_path)[2:]]
    third = tmp_path / "run/checkpoints/step-000003"
    common = ["--runs", str(tmp_path), "--run", "run", "--quiet"]
    in_child(lambda: call("train", *flags, *common).code, until=third.is_dir)
    struck = killed_once(monkeypatch, GoOn, 0.01)
    resume(tmp_path, "run")
    assert struck
    check(tmp_path / "run", 3)


# ---------------------------------------------------------------- what is refused

REFUSED = {
    "no samplers": (["--interrupt", "true"], TINY, "add --cluster local --samplers 1 --order arrival"),
    "order of start": (["--interrupt", "true", *AWAY[:4], "--lag", "2"], TINY, "add --order arrival, or drop it"),
    "verification": ([*AWAY, "--lag", "2", "--verify", "0.1"], TINY, "drop interrupt or verify"),
    "no text": ([*AWAY, "--lag", "2", "--recipe", "ppo"], CONTROL, "answers in text are interrupted"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_interrupted_is_refused(case: str, tmp_path: Path) -> None:
    more, tiny, said = REFUSED[case]
    found = call("train", *tiny, *more, "--steps", "2", "--runs", tmp_path, "--run", "run", "--quiet")
    assert found.code == 2
    assert said in found.err


def test_a_player_without_text_keeps_its_engines(tmp_path: Path) -> None:
    player = configured(runs=tmp_path).parts.player
    assert isinstance(player, TextPlayer)
    assert with_engines(player, lambda actor: actor.engine) == player
    engine = Following(player.actors["policy"].engine, "policy", lambda policy, version: pytest.fail("not played"))
    request = Request((1, 2), Decoding(), Key.of(1))
    engine.plans = {name_of(request): []}
    with pytest.raises(ConfigurationError, match="the schedule does not tell these two apart"):
        engine.sample([request])
