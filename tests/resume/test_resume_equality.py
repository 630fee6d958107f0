"""A run that was stopped at any moment and resumed equals one that was not, bit for bit."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tiny_runs import REWARDS, TINY, assert_same, call, in_child, last_checkpoint, resume, rows, train, weights

from hocket import tasks
from hocket.apps.cli.parser import main, split_settings
from hocket.core.errors import ConfigurationError, HocketError
from hocket.rewards.functions import FunctionReward
from hocket.train.config import configure, read_pairs
from hocket.train.disk import Chunk, DiskWriter
from hocket.train.tracking import read_metrics
from hocket.train.trainer import Trainer, resumed

OFTEN = ["--checkpoint.steps", "2"]
CONTROL = ["--task", "gym:CartPole-v1?max_episode_steps=20", "--curriculum.prompts", "2", "--threads", "1"]
CONTROL += ["--evaluation.n", "4", "--evaluation.between", "2"]
TEAM = ["--task", "mpe:spread?agents=2&length=5", *CONTROL[2:]]

PLAN = """
plan:
  - {recipe: sft, steps: 2}
  - {recipe: grpo-kl, steps: 3}
"""
TO_CRITIC = """
plan:
  - {recipe: grpo, steps: 2}
  - {recipe: ppo, steps: 3}
"""


@pytest.fixture(scope="module")
def reward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rewards") / "mine.py"
    file.write_text(REWARDS)
    return file


def stepped(runs: Path, name: str, *more: str, stop: int, steps: int, tiny: list[str] = TINY) -> Trainer:
    """A run that stops without a word after step `stop`, as if its process were gone."""
    files = [Path(word) for word in more if word.endswith(".yaml")]
    words = [word for word in (*tiny, *more, *OFTEN) if not word.endswith(".yaml")]
    pairs = [pair for file in files for pair in read_pairs(file)]
    pairs += split_settings([*words, "--steps", str(steps), "--runs", str(runs), "--run", name], set())[1]
    rewards = tuple(value for key, value in pairs if key == "reward")
    pairs = [pair for pair in pairs if pair[0] != "reward"] + ([("reward", rewards)] if rewards else [])
    task = tasks.find(str(dict(pairs).get("task", "sums")))
    trainer = Trainer(configure(pairs, task), task=task)
    while trainer.progress.step < stop or not trainer.progress.before:
        trainer.step()
    trainer.folder.release()
    return trainer


CASES: dict[str, tuple[list[str], list[str]]] = {
    "grpo": (TINY, []),
    "grpo-kl": (TINY, ["--recipe", "grpo-kl", "--update.lr", "1e-3"]),
    "grpo-kl-epochs": (TINY, ["--recipe", "grpo-kl", "--update.epochs", "2", "--update.minibatches", "2"]),
    "ppo": (TINY, ["--recipe", "ppo", "--rollout.samples", "2", "--update.epochs", "2", "--update.minibatches", "2"]),
    "ppo-rlhf": (TINY, ["--recipe", "ppo-rlhf", "--update.epochs", "1", "--update.minibatches", "2"]),
    "running-mean": (TINY, ["--recipe", "reinforce-baseline"]),
    "dapo": (TINY, ["--recipe", "dapo"]),
    "cures": (TINY, ["--recipe", "cures", "--curriculum.pool", "3"]),
    "lora": (TINY, ["--recipe", "grpo-kl", "--lora.rank", "2", "--update.lr", "1e-3"]),
    "replays": (TINY, ["--recipe", "repo-replay", "--curriculum.pool", "2", "--rollout.samples", "3"]),
    "partial": (TINY, ["--recipe", "kimi-k1-5-long", "--task", "worked-sums?size=6", "--rollout.pieces", "2"]),
    "remembering": (
        TINY,
        [
            *("--recipe", "repo-replay", "--task", "worked-sums", "--reward", "hocket.rewards.Novelty"),
            *("--curriculum", "{type: hocket.curriculum.LevelBandit, level: key_steps, prompts: 2}"),
        ],
    ),
    "warmup": (TINY, ["--update.warmup", "3", "--update.schedule", "cosine"]),
    "cartpole": (CONTROL, ["--rollout.samples", "4", "--update.epochs", "2"]),
    "cartpole-ppo": (CONTROL, ["--recipe", "ppo", "--update.epochs", "2"]),
    "cartpole-normalised": (CONTROL, ["--recipe", "ppo", "--update.epochs", "2", "--network.normalise", "true"]),
    "cartpole-recurrent": (
        CONTROL,
        ["--recipe", "ppo", "--update.minibatches", "2", "--network.body", "recurrent", "--network.normalise", "true"],
    ),
    "cartpole-store": (
        CONTROL,
        [
            *("--recipe", "dqn-duelling", "--store.begin", "0", "--store.rows", "8", "--store.take", "prioritised"),
            *("--store.draws", "3", "--store.steps", "3", "--store.ratio", "0.3", "--network.normalise", "true"),
        ],
    ),
    "pendulum-store": (
        ["--task", "gym:Pendulum-v1?max_episode_steps=20", *CONTROL[2:]],
        ["--recipe", "td3", "--store.begin", "0", "--store.rows", "8", "--store.ratio", "0.3"],
    ),
    "team-mappo": (TEAM, ["--recipe", "mappo", "--update.epochs", "2"]),
    "team-happo": (TEAM, ["--recipe", "happo", "--update.paces", "{critic: {every: 3, lr: 1e-4}}"]),
    "team-penalties": (TEAM, ["--recipe", "decentralized-policy-optimization"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_stopped_between_checkpoints_ends_equal(name: str, tmp_path: Path, reward: Path) -> None:
    tiny, more = CASES[name]
    more = more if tiny is not TINY else [*more, "--reward", f"{reward}:spread"]
    train(tmp_path, "whole", *more, *OFTEN, steps=4, tiny=tiny)
    stepped(tmp_path, "parts", *more, stop=3, steps=4, tiny=tiny)
    resume(tmp_path, "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")
    learnt = [row.get("agent_0/loss", row["loss"]) for row in rows(tmp_path / "whole")[1:]]
    begun = 1 if name == "partial" else 0  # Its answers take two steps.
    assert all(loss is not None for loss in learnt[begun:]), "a run without gradients would prove nothing"


@pytest.mark.parametrize(
    ("plan", "stop"),
    [
        pytest.param(PLAN, 1, id="first phase", marks=pytest.mark.slow),
        pytest.param(PLAN, 4, id="second phase"),
        pytest.param(TO_CRITIC, 2, id="at the boundary"),
        pytest.param(TO_CRITIC, 4, id="after a critic was added", marks=pytest.mark.slow),
    ],
)
def test_a_plan_resumes_on_both_sides_of_its_boundary(plan: str, stop: int, tmp_path: Path, reward: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(plan)
    more = [str(file), "--reward", f"{reward}:spread", "--update.lr", "1e-3", "--update.minibatches", "2"]
    train(tmp_path, "whole", *more, *OFTEN, steps=5)
    stepped(tmp_path, "parts", *more, stop=stop, steps=5)
    resume(tmp_path, "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert len(rows(tmp_path / "whole")) == 6


def test_a_run_stopped_before_its_first_checkpoint_starts_again(tmp_path: Path, reward: Path) -> None:
    more = ["--reward", f"{reward}:spread"]
    train(tmp_path, "whole", *more, *OFTEN)
    stepped(tmp_path, "parts", *more, stop=1, steps=4)
    assert not list((tmp_path / "parts" / "checkpoints").glob("step-*"))
    resume(tmp_path, "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_the_journal_replays_a_reward_that_never_says_the_same_twice(tmp_path: Path, reward: Path) -> None:
    more = ["--reward", f"{reward}:moody"]
    stepped(tmp_path, "parts", *more, stop=3, steps=3)
    before = rows(tmp_path / "parts")
    resume(tmp_path, "parts")
    assert rows(tmp_path / "parts") == before, "step 3 lies after the checkpoint and was done twice"


def test_a_longer_run_goes_on_from_a_finished_one(tmp_path: Path, reward: Path) -> None:
    more = ["--reward", f"{reward}:spread"]
    train(tmp_path, "whole", *more, *OFTEN, steps=4)
    train(tmp_path, "parts", *more, *OFTEN, steps=2)
    resume(tmp_path, "parts", "--steps", "4")
    left, right = rows(tmp_path / "whole"), rows(tmp_path / "parts")
    ended = {name for name in right[2] if name.startswith("eval/")}  # step 2 was an end, so it was measured there
    assert [{k: v for k, v in row.items() if k not in ended} for row in left] == [
        {k: v for k, v in row.items() if k not in ended} for row in right
    ]
    assert left[4] == right[4]
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")


def test_a_finished_run_resumed_without_more_steps_stays_as_it_is(tmp_path: Path) -> None:
    train(tmp_path, "done", steps=2)
    before = rows(tmp_path / "done")
    resume(tmp_path, "done")
    assert rows(tmp_path / "done") == before


def test_a_plan_goes_on_in_its_last_phase(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("plan:\n  - {recipe: sft, steps: 1}\n  - {recipe: grpo, steps: 1}\n")
    train(tmp_path, "plan", str(file))
    resume(tmp_path, "plan", "--steps", "3")
    assert [row["step"] for row in rows(tmp_path / "plan")] == [0, 1, 2, 3]
    assert rows(tmp_path / "plan")[3]["tokens/generated"] > 0


def test_fewer_steps_than_were_done_are_refused(tmp_path: Path) -> None:
    train(tmp_path, "done", steps=2)
    before = (tmp_path / "done" / "config.yaml").read_bytes()
    said = call("train", "--resume", "done", "--runs", tmp_path, "--steps", "1")
    assert said.code == 2
    assert "has done 2;" in said.err
    assert (tmp_path / "done" / "config.yaml").read_bytes() == before


@pytest.mark.parametrize(
    "flags", [["--seed", "1"], ["--update.lr", "1"], ["--recipe", "dapo"], ["--task", "sums"], ["--run", "other"]]
)
def test_a_resumed_run_keeps_its_settings(flags: list[str], tmp_path: Path) -> None:
    said = call("train", "--resume", "any", "--runs", tmp_path, *flags)
    assert said.code == 2
    assert flags[0].removeprefix("--") in said.err
    assert "only" in said.err


def test_another_random_seed_gives_another_run(tmp_path: Path, reward: Path) -> None:
    train(tmp_path, "one", "--reward", f"{reward}:spread", steps=2)
    train(tmp_path, "two", "--reward", f"{reward}:spread", "--seed", "1", steps=2)
    assert weights(tmp_path / "one") != weights(tmp_path / "two")


# ---------------------------------------------------------------- processes that die


def child(runs: Path, reward: Path) -> Callable[[], int]:
    words = [*TINY, "--steps", "6", "--checkpoint.steps", "2", "--reward", f"{reward}:spread", "--quiet"]
    return lambda: main(["train", *words, "--runs", str(runs), "--run", "parts"])


def lines(run: Path) -> int:
    file = run / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.is_file() else 0


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "while step 2 is under way": lambda run: lines(run) >= 2,
    "while a checkpoint is written": lambda run: any((run / "checkpoints").glob(".step-*")),
    "after the second checkpoint": lambda run: lines(run) >= 6,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, reward: Path) -> Path:
    runs = tmp_path_factory.mktemp("whole")
    train(runs, "whole", "--reward", f"{reward}:spread", *OFTEN, steps=6)
    return runs / "whole"


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_process_loses_nothing(moment: str, tmp_path: Path, reward: Path, whole: Path) -> None:
    run = tmp_path / "parts"
    code = in_child(child(tmp_path, reward), until=lambda: MOMENTS[moment](run))
    assert code == -signal.SIGKILL
    resume(tmp_path, "parts")
    assert_same(whole, run)


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_step_and_has_a_checkpoint_written(
    asked: signal.Signals, tmp_path: Path, reward: Path, whole: Path
) -> None:
    run = tmp_path / "parts"
    code = in_child(child(tmp_path, reward), until=lambda: lines(run) >= 4, send=asked)
    assert code == 130
    done = lines(run) - 1
    assert done < 6
    assert last_checkpoint(run).name == f"step-{done:06d}"
    assert "interrupted" in (run / "summary.json").read_text()
    resume(tmp_path, "parts")
    assert_same(whole, run)


def test_a_hang_up_that_is_ignored_stays_ignored(tmp_path: Path, reward: Path, whole: Path) -> None:
    def under_nohup() -> int:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return child(tmp_path, reward)()

    assert in_child(under_nohup, until=lambda: lines(tmp_path / "parts") >= 4, send=signal.SIGHUP) == 0
    assert_same(whole, tmp_path / "parts")


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    file = tmp_path / "slow.py"
    file.write_text(
        "import time\n\ndef slow(completions, **columns):\n    open('MARK', 'w')\n    time.sleep(60)\n".replace(
            "MARK", str(tmp_path / "asked")
        )
    )
    words = ["train", *TINY, "--steps", "2", "--reward", f"{file}:slow", "--quiet", "--runs", str(tmp_path)]
    presses: list[float] = []

    def pressed_once() -> bool:
        if not (tmp_path / "asked").exists():
            return False
        presses.append(time.monotonic())
        if len(presses) == 1:
            os.kill(children()[-1], signal.SIGINT)
        return presses[-1] - presses[0] > 0.3

    code = in_child(lambda: main(words), until=pressed_once, send=signal.SIGINT)
    assert code == 130
    assert time.monotonic() - presses[0] < 10


def children() -> list[int]:
    """Processes that this one forked and that still run."""
    text = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
    return [int(word) for word in text.split()]


# ---------------------------------------------------------------- a disk that fails


def flipped(file: Path) -> None:
    """Changes one bit in the middle of a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.chmod(0o644)
    file.write_bytes(data)


def test_a_damaged_newest_checkpoint_is_passed_over_with_a_message(tmp_path: Path, reward: Path, whole: Path) -> None:
    trainer = stepped(tmp_path, "parts", "--reward", f"{reward}:spread", stop=2, steps=6)
    trainer.save(best=True)  # the best one is kept beside the last
    for _ in range(3):
        trainer.step()
    trainer.folder.release()
    newest = last_checkpoint(tmp_path / "parts")
    assert newest.name == "step-000004"
    flipped(newest / "policy" / "model.safetensors")
    said = resume(tmp_path, "parts")
    for told in (said.err, (tmp_path / "parts" / "messages.txt").read_text()):
        assert "step-000004 is damaged (policy/model.safetensors has changed)" in told
        assert "step-000002 is used instead" in told
    assert (newest.parent / "aside-step-000004").is_dir()
    assert_same(whole, tmp_path / "parts")


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_with_every_checkpoint_damaged_a_resume_changes_nothing_until_it_is_to_start_over(
    tmp_path: Path, reward: Path, whole: Path
) -> None:
    stepped(tmp_path, "parts", "--reward", f"{reward}:spread", stop=3, steps=6)
    run = tmp_path / "parts"
    damaged = last_checkpoint(run)
    flipped(damaged / "state.json")
    before = {name: data for name, data in files_of(run).items() if name not in (".lock", "messages.txt")}
    with pytest.raises(HocketError, match=rf"{damaged.name} is damaged .*--start-over"):
        resumed(run)
    assert {name: data for name, data in files_of(run).items() if name not in (".lock", "messages.txt")} == before
    said = resume(tmp_path, "parts", "--start-over")
    assert f"aside-{damaged.name}" in said.err
    assert "begins again at step 0" in said.err
    assert files_of(damaged.parent / f"aside-{damaged.name}") == {
        name.removeprefix(f"checkpoints/{damaged.name}/"): data
        for name, data in before.items()
        if name.startswith(f"checkpoints/{damaged.name}/")
    }
    assert_same(whole, run)


def test_a_run_that_ended_and_has_lost_its_checkpoints_is_not_begun_again_unasked(
    tmp_path: Path, reward: Path, whole: Path
) -> None:
    shutil.copytree(whole, tmp_path / "parts")
    shutil.rmtree(tmp_path / "parts" / "checkpoints")
    with pytest.raises(HocketError, match="has no checkpoint, though the run has made"):
        resumed(tmp_path / "parts")
    assert (tmp_path / "parts" / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_nor_is_one_that_was_killed_after_a_checkpoint_was_due(tmp_path: Path, whole: Path) -> None:
    run = shutil.copytree(whole, tmp_path / "parts")
    shutil.rmtree(run / "checkpoints")
    (run / "summary.json").unlink()
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(re.sub(r"(Settings\n  seconds: .*\n  steps: )\d+", r"\g<1>5", text))  # Of six.
    with pytest.raises(HocketError, match="has no checkpoint, though the run has made 6 steps"):
        resumed(run, trust=True)


def test_damaged_lines_of_metrics_are_counted(tmp_path: Path, reward: Path) -> None:
    trainer = stepped(tmp_path, "parts", "--reward", f"{reward}:spread", stop=3, steps=4)
    metrics = trainer.folder.metrics
    rows = metrics.read_text().splitlines(keepends=True)
    rows[1] = rows[1][:40] + "\n"
    metrics.write_text("".join(rows))
    said = resume(tmp_path, "parts")
    assert "metrics.jsonl: line 2 cannot be read and is left out" in said.err
    assert [row["step"] for row in read_metrics(metrics)] == [0, 2, 3, 4]


@pytest.mark.parametrize("refusals", [1, 99])
def test_a_last_checkpoint_that_the_disk_refuses_is_tried_again_and_else_a_failure(
    refusals: int, tmp_path: Path, reward: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, left = DiskWriter.write, [refusals]

    def refusing(self: DiskWriter, path: Path, chunks: Iterable[Chunk]) -> None:
        if ".step-000006.tmp" in str(path) and left[0] > 0:
            left[0] -= 1
            raise OSError(28, "No space left on device")
        write(self, path, chunks)

    monkeypatch.setattr(DiskWriter, "write", refusing)
    tiny = [*TINY, *OFTEN, "--steps", "6", "--reward", f"{reward}:spread"]
    said = call("train", *tiny, "--runs", tmp_path, "--run", "parts")
    run = tmp_path / "parts"
    if refusals == 1:
        assert (said.code, last_checkpoint(run).name) == (0, "step-000006")
    else:
        assert (said.code, last_checkpoint(run).name) == (1, "step-000004")
        assert '"reason": "unsaved"' in (run / "summary.json").read_text()
        assert said.err.count("No space left on device") == 2
        assert said.err.rstrip().endswith("and resume the run")
        monkeypatch.undo()
        resume(tmp_path, "parts")
    assert_same(whole, run)


def test_samples_that_the_disk_refuses_cost_no_step(
    tmp_path: Path, reward: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = DiskWriter.write

    def refusing(self: DiskWriter, path: Path, chunks: Iterable[Chunk]) -> None:
        if path.parent.name == "rollouts":
            raise OSError(28, "No space left on device")
        write(self, path, chunks)

    monkeypatch.setattr(DiskWriter, "write", refusing)
    said = train(tmp_path, "parts", *OFTEN, "--reward", f"{reward}:spread", steps=6)
    assert said.code == 0
    assert "the samples of step 6 are not kept" in (tmp_path / "parts" / "messages.txt").read_text()
    assert rows(tmp_path / "parts") == rows(whole)
    assert weights(tmp_path / "parts") == weights(whole)


@pytest.mark.parametrize("place", ["/proc/runs", "/dev/null"])
def test_a_place_that_takes_no_run_is_named(place: str) -> None:
    said = call("train", *TINY, "--steps", "1", "--runs", place, "--run", "x")
    assert said.code == 2
    assert said.err.startswith(f"hocket: runs = '{place}': {place}: ")
    assert "--runs DIR" in said.err


def test_a_full_disk_costs_a_checkpoint_and_not_the_run(tmp_path: Path, reward: Path, whole: Path) -> None:
    class Full(DiskWriter):
        def write(self, path: Path, chunks: Iterable[Chunk]) -> None:
            if ".step-000004" in str(path):
                path.write_bytes(b"half")
                raise OSError(28, "No space left on device")
            super().write(path, chunks)

    stepped(tmp_path, "parts", "--reward", f"{reward}:spread", stop=2, steps=6)
    trainer = resumed(tmp_path / "parts")
    trainer.recorder.checkpoints = dataclasses.replace(trainer.recorder.checkpoints, writer=Full())
    while trainer.progress.step < 5:
        trainer.step()
    trainer.folder.release()
    assert last_checkpoint(tmp_path / "parts").name == "step-000002"
    assert "No space left" in (tmp_path / "parts" / "messages.txt").read_text()
    resume(tmp_path, "parts")
    assert_same(whole, tmp_path / "parts")


def test_a_run_with_objects_goes_on_with_them_or_not_at_all(tmp_path: Path) -> None:
    """Its configuration cannot name them; without them it would learn from other rewards."""

    def ones(completions: list[str], **columns: object) -> list[float]:
        return [1.0 for _ in completions]

    own = FunctionReward(ones, name="ones")
    pairs = split_settings([*TINY, "--steps", "1", "--runs", str(tmp_path), "--run", "own"], set())[1]
    Trainer(configure(pairs, tasks.find("sums")), rewards=[own]).run()
    with pytest.raises(ConfigurationError, match=r"objects that its configuration cannot hold \(reward ones\)"):
        resumed(tmp_path / "own", steps=2)
    resumed(tmp_path / "own", steps=2, rewards=[own]).run()
    assert rows(tmp_path / "own")[-1]["step"] == 2
