"""Several processes that sample: the same bits as one, and what becomes of what a lost one was asked."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import CONTROL, REWARDS, TEAM, TINY, TWICE, call, in_child, resume, rows, train, weights

from hocket import tasks
from hocket.apps.cli.parser import split_settings
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.distributed.cluster import connection
from hocket.distributed.cluster.connection import ChildProcess
from hocket.distributed.cluster.messages import pack_answer, pack_question, unpack_answer, unpack_question
from hocket.distributed.cluster.sampler import Sampler
from hocket.distributed.cluster.sampler_worker import Load, Play, PlayResult, Plays
from hocket.distributed.cluster.samplers import dealt, engine_of
from hocket.distributed.cluster.verify import picked, unlike
from hocket.distributed.cluster.weights import digest
from hocket.tasks.sums import Sums
from hocket.train.config import configure
from hocket.train.settings import EngineSettings
from hocket.train.trainer import Trainer
from hocket.types import Assignment, Replay, Scenario, Trajectory, Turn

AWAY = ["--cluster", "local", "--samplers"]

CASES: dict[str, tuple[list[str], list[str]]] = {
    "grpo": (TINY, ["--recipe", "grpo-kl", "--update.lr", "1e-3"]),
    "ppo": (TINY, ["--recipe", "ppo", *TWICE]),
    "bf16": (TINY, ["--precision", "bf16"]),
    "lora": (TINY, ["--lora.rank", "2", "--update.lr", "1e-3"]),
    "team": (TINY, TEAM),
    "cartpole": (CONTROL, ["--recipe", "ppo", *TWICE]),
    "learners": (TINY, ["--leaves", "2", "--learners", "2"]),
}


def flags(name: str, file: Path) -> tuple[list[str], list[str]]:
    tiny, more = CASES[name]
    file.write_text(REWARDS)
    return tiny, [*more, *([] if name == "cartpole" else ["--reward", f"{file}:spread"])]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_samplers_draw_what_one_process_draws(name: str, tmp_path: Path) -> None:
    tiny, more = flags(name, tmp_path / "mine.py")
    alone = [one for one in more if one != "--learners"] if name != "learners" else more[:2] + more[4:]
    train(tmp_path, "one", *alone, steps=3, tiny=tiny)
    train(tmp_path, "away", *more, *AWAY, "3", steps=3, tiny=tiny)
    assert weights(tmp_path / "one") == weights(tmp_path / "away")
    assert rows(tmp_path / "one") == rows(tmp_path / "away")
    learnt = [value for row in rows(tmp_path / "one") for key, value in row.items() if key.endswith("gradient/norm")]
    assert any(learnt), "a run without gradients would prove nothing"


ROLLOUTS = ("xpo", "optima", "at-grpo", "s-grpo", "igpo", "sdpo", "cory", "masprm", "tempsamp-r1", "zo-ranksgd-words")
"""Recipes whose rollouts branch, search, look at scores, impose turns, recast, play the reference or move weights."""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ROLLOUTS)
def test_rollouts_of_every_kind_are_the_same_on_samplers(recipe: str, tmp_path: Path) -> None:
    more = ["--recipe", recipe, "--curriculum.prompts", "4", "--checkpoint.steps", "1"]
    tiny = ["--evaluation.n", "4", "--evaluation.between", "2", "--threads", "1"]
    train(tmp_path, "one", *more, steps=2, tiny=tiny)
    train(tmp_path, "away", *more, *AWAY, "2", steps=2, tiny=tiny)
    assert weights(tmp_path / "one") == weights(tmp_path / "away")
    assert rows(tmp_path / "one") == rows(tmp_path / "away")


@pytest.mark.slow
def test_a_new_phase_plays_its_own_reference_on_samplers(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan: [{recipe: xpo, steps: 2}, {recipe: xpo, steps: 2}]")
    more = [str(plan), "--update.lr", "1e-3", "--checkpoint.steps", "1"]
    train(tmp_path, "one", *more, steps=4)
    train(tmp_path, "away", *more, *AWAY, "2", steps=4)
    assert weights(tmp_path / "one") == weights(tmp_path / "away")
    assert rows(tmp_path / "one") == rows(tmp_path / "away")


@pytest.mark.slow
def test_what_only_this_process_can_play_is_refused(tmp_path: Path) -> None:
    more = ["--recipe", "past-selves", "--steps", "1", *AWAY, "1"]
    said = call("train", *TINY, *more, "--runs", tmp_path, "--run", "run", "--quiet")
    assert said.code == 2
    assert "drop samplers" in said.err


# ---------------------------------------------------------------- what is lost is done again


def made(runs: Path, name: str, *more: str, steps: int = 3) -> Trainer:
    (runs / "mine.py").write_text(REWARDS)
    flags = [*TINY, "--recipe", "grpo-kl", "--update.lr", "1e-3", "--reward", f"{runs}/mine.py:spread", *more]
    pairs: list[tuple[str, Any]] = split_settings([*flags, "--runs", str(runs), "--run", name], set())[1]
    pairs = [(key, (value,) if key == "reward" else value) for key, value in [*pairs, ("steps", steps)]]
    task = tasks.find("sums")
    return Trainer(configure(pairs, task), task=task)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("undisturbed")
    made(runs, "one").run()
    return runs / "one"


class Misfortune:
    """Sends a signal to the sampler that has just been asked something of a kind, so many times.

    Args:
        after: seconds; with 0 it is sent before the question, so that the answer cannot be sooner.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, kind: type[object], *, sent: int, times: int, after: float = 0.05
    ) -> None:
        self.left, self.lock = times, threading.Lock()
        ask = Sampler.ask

        def disturbed(sampler: Sampler, message: Any) -> Any:
            with self.lock:
                struck = isinstance(message, kind) and self.left > 0
                self.left -= struck
            if struck:
                assert isinstance(sampler.line, ChildProcess)
                process = sampler.line.process
                if after:
                    threading.Timer(after, lambda: os.kill(process.pid, sent)).start()
                else:
                    os.kill(process.pid, sent)
            return ask(sampler, message)

        patch.setattr(Sampler, "ask", disturbed)


@pytest.mark.parametrize(
    ("kind", "sent", "times", "words"),
    [
        pytest.param(Plays, signal.SIGKILL, 1, r"sampler \d ended by SIGKILL, as when memory runs out", id="playing"),
        pytest.param(Plays, signal.SIGKILL, 2, r"sampler \d ended by SIGKILL", id="twice", marks=pytest.mark.slow),
        pytest.param(Load, signal.SIGKILL, 2, r"sampler \d ended by SIGKILL", id="loading", marks=pytest.mark.slow),
        pytest.param(Plays, signal.SIGSTOP, 2, r"no sign of life for 2 s", id="stopped", marks=pytest.mark.slow),
    ],
)
def test_what_a_lost_sampler_was_asked_another_does(
    kind: type[object],
    sent: int,
    times: int,
    words: str,
    undisturbed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if sent == signal.SIGSTOP:
        monkeypatch.setattr(connection, "HEARTBEAT_TIMEOUT", 2.0)
    trainer = made(tmp_path, "run", *AWAY, "2")
    trainer.step()
    misfortune = Misfortune(monkeypatch, kind, sent=sent, times=times)
    trainer.run()
    assert misfortune.left == 0
    assert weights(tmp_path / "run") == weights(undisturbed)
    assert rows(tmp_path / "run") == rows(undisturbed)
    said = (tmp_path / "run" / "messages.txt").read_text()
    assert re.search(words, said), said


@pytest.mark.slow
def test_samplers_that_all_end_stop_the_run_which_goes_on_later(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = made(tmp_path, "run", *AWAY, "1", "--checkpoint.steps", "1")
    trainer.step()
    trainer.step()
    with monkeypatch.context() as patch:
        Misfortune(patch, Plays, sent=signal.SIGKILL, times=99, after=0.0)
        with pytest.raises(HocketError, match=r"sampler 1 ended by SIGKILL.*3th in a row.*--resume"):
            trainer.step()
    assert trainer.samplers is not None
    assert not trainer.samplers.members
    trainer.folder.release()
    resume(tmp_path, "run")
    assert weights(tmp_path / "run") == weights(undisturbed)
    assert rows(tmp_path / "run") == rows(undisturbed)


@pytest.mark.slow
def test_a_sampler_with_other_weights_is_not_asked_to_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = made(tmp_path, "run", *AWAY, "1")
    ask, loads = Sampler.ask, []

    def flipped(sampler: Sampler, message: Any) -> Any:
        if isinstance(message, Load) and not loads:
            loads.append(message)
            given = message.weights["policy"]
            data = given.data.copy()
            data[1000] ^= 1
            weights = {"policy": replace(given, data=data)}
            message = replace(message, weights=weights)
        return ask(sampler, message)

    monkeypatch.setattr(Sampler, "ask", flipped)
    trainer.step()
    trainer.finish("interrupted")
    assert "sampler 1 holds other weights than it was given" in (tmp_path / "run" / "messages.txt").read_text()


@pytest.mark.slow
def test_a_task_that_only_this_process_knows_is_refused(tmp_path: Path) -> None:
    other = Sums(instruct=True)
    other.name = "sums"
    pairs = [*split_settings([*TINY, *AWAY, "1"], set())[1], ("runs", str(tmp_path)), ("run", "run"), ("steps", 1)]
    trainer = Trainer(configure(pairs, other), task=other)
    with pytest.raises(ConfigurationError, match=r"another task by the name 'sums'"):
        trainer.step()
    assert not (tmp_path / "run").exists()


def test_every_sampler_has_servers_of_its_own() -> None:
    settings = EngineSettings(kind="vllm-server", url="http://a/v1, http://b/v1,http://c/v1")
    assert [engine_of(settings, member, 2).url for member in range(2)] == ["http://a/v1,http://c/v1", "http://b/v1"]
    assert engine_of(EngineSettings(kind="vllm"), 1, 2) == EngineSettings(kind="vllm")


REFUSED = {
    "no cluster": (["--samplers", "2"], "--cluster local"),
    "fewer than none": (["--samplers", "-1", "--cluster", "local"], "samplers must be at least 0"),
    "a lag without samplers": (["--lag", "2"], "overlap = 2: beyond 1 it takes --cluster local --samplers 1"),
    "fewer than no updates": (["--lag", "-1"], "overlap must be at least 0"),
    "verifying nobody": (["--verify", "0.5"], "verify = 0.5: samplers are verified; add --cluster local"),
    "more than all": ([*AWAY, "2", "--verify", "1.5"], "verify must be a share from 0 to 1"),
    "too few servers": (
        [*AWAY, "2", "--engine", "vllm-server", "--engine.url", "http://127.0.0.1:9/v1"],
        "samplers = 2 need a server each.* engine.url names 1",
    ),
    "verifying another engine": ([*AWAY, "2", "--engine", "vllm", "--verify", "0.5"], "drop it, or use --engine local"),
    "one server for two": (
        ["--lag", "1", "--engine", "vllm-server", "--engine.url", "http://127.0.0.1:9/v1"],
        "weights of two versions; add --cluster local --samplers 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str, tmp_path: Path) -> None:
    more, words = REFUSED[case]
    said = call("train", *TINY, *more, "--runs", tmp_path, "--run", "run", "--quiet")
    assert said.code == 2
    assert re.search(words, " ".join(said.err.split())), said.err
    assert not (tmp_path / "run").exists()


def processes_of(run: Path) -> list[int]:
    file = run / "cluster.json"
    found = json.loads(file.read_text())["samplers"] if file.is_file() else []
    return [int(one["where"].split()[1]) for one in found if one["where"]]


def runs_still(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return status.is_file() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_no_sampler_outlives_a_run_that_was_killed(undisturbed: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(REWARDS)
    flags = [*TINY, "--recipe", "grpo-kl", "--update.lr", "1e-3", "--reward", f"{tmp_path}/mine.py:spread", *AWAY, "2"]
    common = ["--runs", str(tmp_path), "--run", "run", "--quiet", "--steps", "3", "--checkpoint.steps", "1"]
    file = tmp_path / "run" / "cluster.json"
    in_child(lambda: call("train", *flags, *common).code, until=lambda: file.is_file() and bool(file.read_text()))
    processes = processes_of(tmp_path / "run")
    assert processes
    deadline = time.monotonic() + 30
    while any(map(runs_still, processes)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(runs_still, processes))
    resume(tmp_path, "run")
    assert weights(tmp_path / "run") == weights(undisturbed)


# ---------------------------------------------------------------- ahead of the learner

LATE = ["--recipe", "grpo-tis", "--update.lr", "1e-3", "--checkpoint.steps", "1", "--evaluation.every", "2"]


def late(folder: Path, *more: str) -> list[str]:
    (folder / "mine.py").write_text(REWARDS)
    return [*LATE, "--reward", f"{folder}/mine.py:spread", *more]


@pytest.mark.slow
def test_a_lag_of_one_is_overlap(tmp_path: Path) -> None:
    train(tmp_path, "one", *late(tmp_path, "--overlap", "1"), steps=4)
    train(tmp_path, "two", *late(tmp_path, *AWAY, "2", "--lag", "1"), steps=4)
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    assert rows(tmp_path / "one") == rows(tmp_path / "two")


@pytest.mark.slow
@pytest.mark.parametrize("samplers", ["1", "3"])
def test_a_run_that_is_two_updates_late_is_the_same_resumed(samplers: str, tmp_path: Path) -> None:
    """Interrupted with two batches on their way, in a phase of its own, and redone by another number of samplers."""
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan: [{recipe: grpo-tis, steps: 4}, {recipe: grpo, steps: 3}]")
    more = [str(plan), *late(tmp_path)[2:], *AWAY]
    train(tmp_path, "one", *more, "2", "--lag", "2", steps=7)
    ages = [row["agreement/stale"] for row in rows(tmp_path / "one")[1:]]
    assert ages[0] == 0.0  # The first step of a phase learns from its own weights.
    assert ages[4] == 0.0
    assert all(age == 1.0 for place, age in enumerate(ages) if place not in (0, 4))

    def stopped() -> int:
        return call("train", *TINY, *more, "2", "--lag", "2", "--runs", tmp_path, "--run", "two", "--quiet").code

    for after in (2, 5):
        folder = tmp_path / f"two/checkpoints/step-{after:06d}"
        if after == 2:
            in_child(stopped, until=folder.is_dir)
            file = tmp_path / "two" / "config.yaml"
            file.write_text(file.read_text().replace("samplers: 2", f"samplers: {samplers}"))
        else:
            in_child(lambda: call("train", "--resume", "two", "--runs", tmp_path).code, until=folder.is_dir)
    resume(tmp_path, "two")
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    assert rows(tmp_path / "one") == rows(tmp_path / "two")


# ---------------------------------------------------------------- what is dealt and what is told


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 5))
def test_every_assignment_is_dealt_once_and_neighbours_stay_together(samples: list[int], count: int) -> None:
    shares = dealt([Assignment(Scenario(str(n)), samples=one) for n, one in enumerate(samples)], count)
    assert len(shares) == count
    assert [number for share in shares for number in share] == list(range(len(samples)))
    if samples:
        loads = [sum(samples[number] for number in share) for share in shares]
        assert max(loads) <= sum(samples) / count + max(samples)


def conversation(length: int) -> list[Turn]:
    turns: list[Turn] = []
    for number in range(length):
        ids = np.array([number])
        turns.append(Turn(agent="a", policy="p", observation=ids, action=ids, parent=turns[-1] if turns else None))
    return turns


def test_turns_and_scenarios_that_both_sides_know_stay_one_object() -> None:
    scenario, turns = Scenario("one"), conversation(2000)
    assignment = Assignment(scenario, replay=Replay(tuple(turns[:-1])))
    data, _, kept = pack_question(Play([assignment], {}, Key.of(1)), [assignment])
    there, known = unpack_question(data)
    [said] = there.assignments
    assert [int(turn.action[0]) for turn in said.replay.turns] == list(range(1999))
    new = [replace(turns[-1], parent=said.replay.turns[-1]) for _ in range(2)]
    trajectories = [Trajectory(said.scenario, [*said.replay.turns, turn]) for turn in new]
    trajectories.append(Trajectory(said.scenario, [*said.replay.turns, new[0]]))
    here = unpack_answer(pack_answer(PlayResult(trajectories, {}, 0.0, "here"), trajectories, known), kept)
    first, second, third = here.trajectories
    assert first.scenario is scenario
    assert all(mine is turn for mine, turn in zip(first.turns, turns[:-1], strict=False))
    assert first.turns[-1].parent is turns[-2]
    assert first.turns[-1] is third.turns[-1]
    assert first.turns[-1] is not second.turns[-1]


# ---------------------------------------------------------------- what is drawn again elsewhere


def tampered(kind: str, played: PlayResult) -> PlayResult:
    """A sampler's answer with one of its samples wrong."""
    first, rest = played.trajectories[0], played.trajectories[1:]
    turn = first.turns[0]
    assert turn.logp is not None
    if kind == "other tokens":
        turn = replace(turn, action=np.concatenate([turn.action[:-1], turn.action[-1:] + 1]))
    elif kind == "other log-probs":
        turn = replace(turn, logp=np.nextafter(turn.logp, np.float32(-9)))
    else:
        turn = replace(turn, logp=np.full_like(turn.logp, np.nan))
    return replace(played, trajectories=[replace(first, turns=[turn]), *rest])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["other tokens", "other log-probs", "no numbers", "old weights"])
def test_what_a_sampler_draws_wrong_is_found_and_drawn_again(
    kind: str, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = made(tmp_path, "run", *AWAY, "2", "--verify", "1")
    ask, held = Sampler.ask, list[str]()

    def wrong(sampler: Sampler, message: Any) -> Any:
        suspect = sampler.account.name == "sampler 1" and sampler.account.lost == 0
        if suspect and kind == "old weights" and isinstance(message, Load):
            held.append(digest(message.weights))
            return ask(sampler, message) if len(held) == 1 else held[-1]  # It says that it has what it was given.
        found = ask(sampler, message)
        return tampered(kind, found) if suspect and kind != "old weights" and isinstance(message, Plays) else found

    monkeypatch.setattr(Sampler, "ask", wrong)
    trainer.run()
    assert weights(tmp_path / "run") == weights(undisturbed)
    said = (tmp_path / "run" / "messages.txt").read_text()
    assert re.search(r"sampler 1 drew other .* than its keys and weights give; it was drawn again", said), said
    assert re.search(r"sampler 1 drew .* for the second time; .* a new one is started", said), said
    assert "sampler 2 drew" not in said


@pytest.mark.slow
def test_verified_samples_change_nothing(undisturbed: Path, tmp_path: Path) -> None:
    trainer = made(tmp_path, "run", *AWAY, "1", "--verify", "0.5")
    trainer.run()
    assert weights(tmp_path / "run") == weights(undisturbed)
    assert rows(tmp_path / "run") == rows(undisturbed)
    assert trainer.samplers is not None
    assert 0 < trainer.samplers.verified < sum(account["episodes"] for account in trainer.samplers.status()["samplers"])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=9), st.floats(0, 1))
def test_a_share_of_the_assignments_is_drawn_again_with_all_their_samples(samples: list[int], share: float) -> None:
    assignments = [Assignment(Scenario(str(n)), samples=one) for n, one in enumerate(samples)]
    half = len(assignments) // 2
    plays = Plays([Play(assignments[:half], {}, Key.of(1)), Play(assignments[half:], {}, Key.of(2))])
    some, mine = picked(plays, share)
    numbers = [n for n, one in enumerate(samples) for _ in range(one)]
    assert [int(one.scenario.id) for one in some.assignments for _ in range(one.samples)] == [numbers[n] for n in mine]
    assert picked(plays, 1.0)[1] == list(range(sum(samples)))
    assert picked(plays, 0.0)[1] == []


def test_what_differs_is_named() -> None:
    ids = np.array([1, 2])
    turn = Turn(agent="a", policy="p", observation=ids, action=ids, logp=np.array([-1.0, -2.0], np.float32))
    one = Trajectory(Scenario("s"), [turn], sample=3)
    assert unlike([one], [one]) is None
    other = replace(one, turns=[replace(turn, action=np.array([1, 3]))])
    assert unlike([other], [one]) == "other actions in turn 1 of sample 3 of s"
    other = replace(one, turns=[replace(turn, logp=None)])
    assert unlike([other], [one]) == "other log-probs in turn 1 of sample 3 of s"
    assert unlike([replace(one, sample=4)], [one]) == "another episode for sample 3 of s"
    assert unlike([], [one]) == "0 samples for 1"
