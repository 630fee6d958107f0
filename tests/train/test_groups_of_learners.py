"""A group of learners for each policy: the bits of one process, and what is said of what cannot be."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_learner_group import TOGETHER, made
from tiny_runs import REWARDS, TEAM, TINY, TWICE, call, resume, rows, train, weights

from hocket.core.errors import HocketError
from hocket.distributed.cluster.connection import ChildProcess
from hocket.methods.teams.cpmobius.method import LearningProgress
from hocket.nano import BASE
from hocket.train.trainer import Trainer


def groups(planner: int | None, worker: int | None) -> list[str]:
    numbers = {"planner": planner, "worker": worker}
    given = [(f"--roles.{role}.learners", str(number)) for role, number in numbers.items() if number is not None]
    return [*TOGETHER, *(word for pair in given for word in pair)]


def paid(tmp_path: Path) -> list[str]:
    file = tmp_path / "mine.py"
    file.write_text(REWARDS)
    return ["--reward", f"{file}:spread"]


def equal(left: Path, right: Path) -> None:
    assert weights(left) == weights(right)
    assert weights(left)
    assert rows(left) == rows(right)
    learnt = [value for row in rows(left) for key, value in row.items() if key.endswith("gradient/norm")]
    assert any(learnt), "a run without gradients would prove nothing"


AGENTS = ["--task", "mpe:spread?agents=2", "--cast", "separate", "--curriculum.prompts", "4", "--threads", "1"]
AGENTS += ["--evaluation.n", "4", "--evaluation.between", "2"]

CASES: dict[str, tuple[list[str], list[str], list[str]]] = {
    "one and two": (TINY, [*TEAM, "--recipe", "ppo", *TWICE], groups(1, 2)),
    "one and one": (TINY, [*TEAM, "--recipe", "grpo-kl"], groups(1, 1)),
    "two and one": (TINY, [*TEAM, "--recipe", "dapo"], groups(2, 1)),
    "one is the first process's": (TINY, [*TEAM, "--precision", "bf16"], groups(None, 2)),
    "one is frozen": (TINY, [*TEAM, "--roles.planner.frozen", "true"], groups(None, 2)),
    "in turn": (TINY, [*TEAM, "--cast", "alternating", "--cast.every", "1"], groups(1, 1)),
    "small parts": (TINY, [*TEAM, "--recipe", "gvpo", "--memory.token_budget", "64"], groups(1, 1)),
    "agents": (AGENTS, ["--recipe", "ppo", *TWICE], [*TOGETHER, "--roles.agent_0.learners", "1"]),
}
QUICK = ("one and one",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in CASES])
def test_groups_learn_what_one_process_learns(name: str, tmp_path: Path) -> None:
    tiny, more, apart = CASES[name]
    more = more if name == "agents" else [*more, *paid(tmp_path)]
    train(tmp_path, "one", *more, "--leaves", "4", steps=3, tiny=tiny)
    train(tmp_path, "groups", *more, *apart, steps=3, tiny=tiny)
    equal(tmp_path / "one", tmp_path / "groups")
    assert json.loads((tmp_path / "groups" / "cluster.json").read_text())["learners"]


@pytest.mark.slow
def test_adapters_on_one_base_share_a_group(tmp_path: Path) -> None:
    more = [*TEAM, *paid(tmp_path), "--lora.rank", "2", "--update.lr", "1e-3"]
    train(tmp_path, "one", *more, "--leaves", "4", steps=3)
    train(tmp_path, "groups", *more, *groups(None, 2), steps=3)
    equal(tmp_path / "one", tmp_path / "groups")
    told = json.loads((tmp_path / "groups" / "cluster.json").read_text())["learners"]
    assert [one["learns"] for one in told] == [["planner", "worker"]] * 2
    assert "planner and worker are adapters on one base" in (tmp_path / "groups" / "messages.txt").read_text()
    assert "planner, worker" in " ".join(call("status", tmp_path / "groups").out.split())


@pytest.mark.slow
def test_adapters_learn_in_their_group_while_another_base_does_in_its_own(tmp_path: Path) -> None:
    shutil.copytree(BASE, tmp_path / "base")
    more = ["--workflow", "debate?debaters=3", "--cast", "separate", *paid(tmp_path), "--lora.rank", "2"]
    more += ["--update.lr", "1e-3", "--roles.debater_1.model", str(tmp_path / "base"), "--recipe", "grpo-kl"]
    train(tmp_path, "one", *more, "--leaves", "4", steps=3)
    train(tmp_path, "groups", *more, *TOGETHER, "--roles.debater_3.learners", "2", steps=3)
    equal(tmp_path / "one", tmp_path / "groups")
    told = json.loads((tmp_path / "groups" / "cluster.json").read_text())["learners"]
    assert [one["learns"] for one in told] == [["debater_1"], *[["debater_2", "debater_3"]] * 2]


@pytest.mark.slow
def test_what_is_sampled_beside_is_learnt_from_by_groups(tmp_path: Path) -> None:
    more = [*TEAM, *paid(tmp_path), "--recipe", "grpo-tis", "--overlap", "1"]
    train(tmp_path, "one", *more, "--leaves", "4")
    train(tmp_path, "groups", *more, *groups(1, 1))
    equal(tmp_path / "one", tmp_path / "groups")


@pytest.mark.slow
def test_what_samplers_draw_ahead_is_learnt_from_by_groups(tmp_path: Path) -> None:
    more = [*TEAM, *paid(tmp_path), "--recipe", "grpo-tis", "--overlap", "1"]
    train(tmp_path, "one", *more, "--leaves", "4")
    train(tmp_path, "groups", *more, *groups(1, 1), "--samplers", "1")
    equal(tmp_path / "one", tmp_path / "groups")
    said = call("replay", tmp_path / "groups")
    assert said.code == 0, said.out


@pytest.mark.slow
def test_a_policy_that_is_paid_later_learns_in_its_own_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LearningProgress, "settled", lambda self, before, after, state: (0.5 + after, state))
    more = ["--recipe", "cpmobius", "--rewards.0.problems", "2"]
    train(tmp_path, "one", *more, "--leaves", "4", steps=3)
    train(tmp_path, "groups", *more, *TOGETHER, "--roles.coach.learners", "1", steps=3)
    equal(tmp_path / "one", tmp_path / "groups")
    assert any("coach/loss" in row for row in rows(tmp_path / "groups"))


@pytest.mark.slow
def test_a_run_goes_on_with_other_groups_in_the_second_phase(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan: [{recipe: grpo, steps: 2}, {recipe: ppo, steps: 3}]")
    more = [*TEAM, *paid(tmp_path), *TWICE, "--checkpoint.steps", "1"]
    train(tmp_path, "one", plan, *more, "--leaves", "4", steps=5)
    trainer = made(tmp_path, "groups", *more, *groups(1, 1), plan=plan)
    while trainer.progress.step < 3:
        trainer.step()
    trainer.finish("interrupted")
    file = tmp_path / "groups" / "config.yaml"
    file.write_text(re.sub(r"\n    learners: 1\b", "\n    learners: 2", file.read_text(), count=1))
    resume(tmp_path, "groups")
    equal(tmp_path / "one", tmp_path / "groups")


def nudged(trainer: Trainer) -> None:
    """Something changes weights between two steps, as a hook may."""
    trainer.step()
    trainer.step()
    with torch.no_grad():
        for learner in trainer.parts.learners.values():
            next(iter(learner.policy.module.parameters())).mul_(1.01)
    trainer.run()


@pytest.mark.slow
def test_weights_that_something_else_changes_are_told_to_their_group(tmp_path: Path) -> None:
    more = [*TEAM, *paid(tmp_path)]
    nudged(made(tmp_path, "one", *more, "--leaves", "4"))
    nudged(made(tmp_path, "groups", *more, *groups(1, 2)))
    equal(tmp_path / "one", tmp_path / "groups")


# ---------------------------------------------------------------- faults


@pytest.mark.slow
def test_memory_that_ran_out_in_another_process_is_recorded(tmp_path: Path) -> None:
    trainer = made(tmp_path, "groups", *TEAM, *paid(tmp_path), *groups(1, 1))
    trainer.step()
    group = trainer.groups.apart[0]
    result = group.result
    group.result = lambda learner: result(learner)._replace(shrunk=(256, False))  # type: ignore[method-assign]
    trainer.step()
    assert (
        "memory ran out; from step 1 on with parts of 256 tokens" in (tmp_path / "groups" / "messages.txt").read_text()
    )
    assert (tmp_path / "groups" / "checkpoints" / "step-000001").is_dir()
    trainer.finish("interrupted")


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_run_goes_on_without_a_learner_that_was_killed(rank: int, tmp_path: Path) -> None:
    """From its checkpoint, with another process in the place of the lost one, to the same end."""
    more = [*TEAM, *paid(tmp_path), "--checkpoint.steps", "1"]
    trainer = made(tmp_path, "groups", *more, *groups(1, 2))
    trainer.step()
    trainer.step()
    line = trainer.groups.apart[0].lines[rank]
    assert isinstance(line, ChildProcess)
    line.process.kill()
    line.process.wait()
    trainer.run()
    said = (tmp_path / "groups" / "messages.txt").read_text()
    words = rf"learner {rank + 1} \(worker\) ended by SIGKILL.*; the run continues from step 1 with new processes"
    assert re.search(words, said), said
    assert re.search(words, " ".join(call("status", tmp_path / "groups").out.split()))
    train(tmp_path, "one", *more, "--leaves", "4", steps=3)
    equal(tmp_path / "one", tmp_path / "groups")


@pytest.mark.slow
def test_a_learner_that_fails_is_named_with_its_reason_and_all_groups_end(tmp_path: Path) -> None:
    trainer = made(tmp_path, "groups", *TEAM, *paid(tmp_path), *groups(1, 2))
    trainer.step()
    group = trainer.groups.apart[0]
    send = group.lines[1].send
    without = lambda message: pickle.dumps(replace(pickle.loads(message), batch=None))  # noqa: E731
    group.lines[1].send = lambda message: send(without(message))  # type: ignore[method-assign]
    with pytest.raises(HocketError, match=r"learner 2 \(worker\) failed: AttributeError"):
        trainer.step()
    assert not group.lines


REFUSED = {
    "no cluster": (["--roles.worker.learners", "2", "--leaves", "4"], r"roles.worker.learners = 2.*--cluster local"),
    "too few leaves": (["--roles.worker.learners", "2", "--cluster", "local"], "roles.worker.learners = 2.*--leaves 4"),
    "no learners": (["--roles.worker.learners", "0"], "roles.worker.*learners must be at least 1"),
    "one base": ([*groups(1, 2), "--lora.rank", "2"], "1 for planner and 2 for worker.*adapters stand on one base"),
    "shares": ([*groups(1, 2), "--shard", "true"], "shard = true.*drop it, or roles.planner.learners"),
    "frozen": ([*groups(1, 1), "--roles.worker.frozen", "true"], "policy 'worker' is frozen.*drop it"),
    "one policy": ([*groups(1, 2), "--roles.worker.policy", "planner"], "another role of policy 'planner'"),
    "a number for nobody": ([*groups(1, 1), "--learners", "2"], "learners = 2 are for policies without.*drop it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str, tmp_path: Path) -> None:
    more, words = REFUSED[case]
    refused([*TINY, *TEAM, *more], words, tmp_path)


def test_policies_that_learn_one_after_the_other_are_refused(tmp_path: Path) -> None:
    more = [*AGENTS, "--recipe", "happo", *TOGETHER, "--roles.agent_0.learners", "1"]
    refused(more, "roles.agent_0.learners: recipe happo has one policy learn after the other", tmp_path)


def refused(arguments: list[str], words: str, tmp_path: Path) -> None:
    said = call("train", *arguments, "--runs", tmp_path, "--run", "run", "--quiet")
    assert said.code == 2
    assert re.search(words, " ".join(said.err.split())), said.err
    assert not (tmp_path / "run").exists()
