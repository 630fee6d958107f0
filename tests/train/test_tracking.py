"""Metrics, run folders and episodes."""

import json
import math
import multiprocessing
import os
import signal
import sys
import types

import numpy as np
import pytest
import torch

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.outcomes import StepResult
from hocket.core.packing import pack
from hocket.train.answers import ROWS, sampled_answers, table_of
from hocket.train.episodes import episodes, read_episodes, write_episodes
from hocket.train.recorder import Recorder
from hocket.train.runfolder import RunFolder, read_json
from hocket.train.tracking import KEYS, MetricsLog, TensorBoardTracker, open_trackers, read_metrics
from hocket.types import Scenario, Score, Trajectory, Turn

# ---------------------------------------------------------------- metrics


def strict(text):
    """JSON as other programs read it: NaN is no number there."""

    def refuse(name):
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def test_rows_are_strict_json_with_every_key(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append({"step": 0, "loss": math.nan, "entropy": math.inf, "reward/mean": torch.tensor(0.5), "n": np.int64(3)})
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    row = strict(line)
    assert set(KEYS) <= row.keys()
    assert (row["loss"], row["entropy"], row["kl/reference"]) == (None, None, None)
    assert (row["step"], row["reward/mean"], row["n"]) == (0, 0.5, 3)
    with pytest.raises(ValueError, match="step"):
        log.append({"loss": 1.0})


def test_a_row_whose_step_is_no_number_is_damaged(tmp_path):
    (tmp_path / "m").write_text('{"step": "1"}\n{"step": 1}\n{"step": null}\n{"step": 2}\n')
    said = []
    MetricsLog(tmp_path / "m").truncate(1, said.append)
    assert [row["step"] for row in read_metrics(tmp_path / "m")] == [1]
    assert said == [f"{tmp_path / 'm'}: lines 1, 3 cannot be read and are left out"]


def test_numbers_are_exact(tmp_path):
    log = MetricsLog(tmp_path / "m")
    log.append({"step": 1, "loss": 0.1 + 0.2})
    assert read_metrics(tmp_path / "m")[0]["loss"] == 0.1 + 0.2


def test_a_resumed_run_writes_the_later_rows_again(tmp_path):
    path = tmp_path / "m"
    log = MetricsLog(path)
    for step in range(6):
        log.append({"step": step, "loss": 1.0 / (step + 1)})
    before = path.read_bytes()
    path.write_bytes(before + b'{"step": 6, "lo')
    log = MetricsLog(path)
    log.truncate(3)
    assert [row["step"] for row in read_metrics(path)] == [0, 1, 2, 3]
    for step in (4, 5):
        log.append({"step": step, "loss": 1.0 / (step + 1)})
    assert path.read_bytes() == before
    log.truncate(-1)
    assert path.read_bytes() == b""
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_missing_metrics_are_no_rows(tmp_path):
    assert read_metrics(tmp_path / "none") == []


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (tracker,) = open_trackers(["tensorboard"], tmp_path)
    tracker.log({"step": 3, "loss": 0.5, "entropy": None, "kl/reference": math.nan, "flag": True})
    tracker.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["loss"]
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(3, 0.5)]


def test_a_resumed_run_takes_back_the_later_steps_of_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    def log(steps, value, after=None):
        (tracker,) = open_trackers(["tensorboard"], tmp_path, after=after)
        for step in steps:
            tracker.log({"step": step, "loss": value})
        tracker.close()

    def stands():
        files = sorted((tmp_path / "tensorboard").iterdir())
        events = [event for file in files for event in EventFileLoader(str(file)).Load() if event.summary.value]
        return [(event.step, event.summary.value[0].tensor.float_val[0]) for event in events], files

    log(range(5), 1.0)
    log((3, 4, 5), 2.0, after=2)
    assert stands()[0] == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 2.0)]
    with stands()[1][-1].open("ab") as torn:  # As a kill in the middle of a write leaves it.
        torn.write(b"half a rec")
    log((4,), 3.0, after=3)
    assert stands()[0] == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 2.0), (4, 3.0)]
    log((0,), 4.0, after=-1)  # No checkpoint was kept: all begins anew.
    assert stands()[0] == [(0, 4.0)]


def test_trackers_that_are_missing_or_unknown(tmp_path, monkeypatch):
    with pytest.raises(ConfigurationError, match="'tensorbord' is not a tracker; did you mean 'tensorboard'"):
        open_trackers(["tensorbord"], tmp_path)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigurationError, match=r"hocket\[tracking\]"):
        TensorBoardTracker(tmp_path)


def outside(monkeypatch, name, **members):
    """A package that is not installed here, with these members; what it was told is kept in `said`."""
    module = types.ModuleType(name)
    for member, value in members.items():
        setattr(module, member, value)
    monkeypatch.setitem(sys.modules, name, module)


def table_of_two(step):
    """Two recorded answers, and the columns and rows that trackers get of them."""
    turn = {"agent": "a", "text": "<answer>5</answer>", "length": 4, "advantage": [0.5, None, 1.5], "observation": [1]}
    first = {"group": 0, "sample": 1, "scenario": {"prompt": "2 + 3?", "answer": 5}, "turns": [turn], "reward": 1.0}
    second = {"group": 2, "sample": 0, "scenario": {"prompt": [{"role": "user", "content": "x"}]}, "turns": []}
    second |= {"reward": None, "failure": "the tool broke", "scores": {"correct": None}}
    rows = [first | {"scores": {"correct": 1.0, "steps": [0.25, 0.5]}}, second]
    columns = ["step", "group", "sample", "prompt", "answer", "expected", "reward", "score/correct", "score/steps"]
    told = [[step, 0, 1, "2 + 3?", "<answer>5</answer>", "5", 1.0, 1.0, 0.75, 1.0, None]]
    told += [[step, 2, 0, "x", "", None, None, None, None, None, "the tool broke"]]
    return sampled_answers(rows), [*columns, "advantage", "failure"], told


ROW = {"step": 3, "loss": 0.5, "entropy": None, "kl/reference": math.nan, "flag": True, "n": 2}


def test_wandb(tmp_path, monkeypatch):
    said = []

    class Run:
        id = "abc"

        def log(self, numbers, step):
            said.append((step, numbers))

        def finish(self):
            said.append("finished")

    outside(
        monkeypatch,
        "wandb",
        init=lambda **settings: said.append(settings) or Run(),
        Table=lambda columns, data: (columns, data),
    )
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    (tmp_path / "config.yaml").write_text("steps: 3\n")
    (tracker,) = open_trackers(["wandb"], tmp_path)
    tracker.log(ROW)
    answers, columns, rows = table_of_two(3)
    tracker.answers(3, answers)
    tracker.close()
    begun = {"name": tmp_path.name, "dir": str(tmp_path), "config": {"steps": 3}, "project": "hocket"}
    assert said == [begun, (3, {"loss": 0.5, "n": 2}), (3, {"answers": (columns, rows)}), "finished"]
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    open_trackers(["wandb"], tmp_path, after=3)
    assert said[-1] == {**{k: begun[k] for k in ("name", "dir", "config")}, "id": "abc", "resume": "allow"}

    def refuse(**settings):
        raise RuntimeError("no key\nat all")

    outside(monkeypatch, "wandb", init=refuse)
    with pytest.raises(ConfigurationError, match="track = 'wandb': no key at all; run `wandb login`"):
        open_trackers(["wandb"], tmp_path)


def test_mlflow(tmp_path, monkeypatch):
    said, tables = [], []
    outside(
        monkeypatch,
        "mlflow",
        set_experiment=lambda name: said.append(name),
        start_run=lambda **which: said.append(which) or types.SimpleNamespace(info=types.SimpleNamespace(run_id="r1")),
        log_artifact=lambda path: said.append(path),
        log_metrics=lambda numbers, step: said.append((step, numbers)),
        log_table=lambda data, artifact_file: tables.append((artifact_file, data)),
        end_run=lambda: said.append("ended"),
        MlflowClient=lambda: types.SimpleNamespace(
            get_metric_history=lambda run, name: [
                types.SimpleNamespace(step=step) for step in (2, 3) if (run, name) == ("r1", "time/total")
            ]
        ),
    )
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    (tmp_path / "config.yaml").write_text("steps: 3\n")
    (tracker,) = open_trackers(["mlflow"], tmp_path)
    tracker.log(ROW)
    answers, columns, rows = table_of_two(3)
    tracker.answers(3, answers)
    assert tables == [("answers/step-000003.json", dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))]
    tracker.close()
    artifact = str(tmp_path / "config.yaml")
    assert said == ["hocket", {"run_name": tmp_path.name}, artifact, (3, {"loss": 0.5, "n": 2}), "ended"]
    (again,) = open_trackers(["mlflow"], tmp_path, after=2)
    assert said[-2] == {"run_id": "r1"}
    for step in (3, 4):  # Step 3 was heard before, and would stand there twice.
        again.log({"step": step, "loss": 0.25})
        again.answers(step, answers)
    assert [file for file, _ in tables] == ["answers/step-000003.json", "answers/step-000004.json"]
    assert [one for one in said if isinstance(one, tuple)] == [(3, {"loss": 0.5, "n": 2}), (4, {"loss": 0.25})]


def test_trackio(tmp_path, monkeypatch, capsys):
    said = []

    class Run:
        name, _next_step = "mine", 4

        def log(self, what, step):
            print("a remark of the library")
            said.append((step, what))

        def finish(self):
            said.append("finished")

    outside(
        monkeypatch,
        "trackio",
        init=lambda **settings: said.append(settings) or Run(),
        Table=lambda columns, data: (columns, data),
    )
    monkeypatch.delenv("TRACKIO_PROJECT", raising=False)
    (tmp_path / "config.yaml").write_text("steps: 3\n")
    (tracker,) = open_trackers(["trackio"], tmp_path)
    answers, columns, rows = table_of_two(3)
    tracker.log(ROW)
    tracker.answers(3, answers)
    tracker.close()
    begun = {"project": "hocket", "name": tmp_path.name, "config": {"steps": 3}, "resume": "never", "embed": False}
    assert said == [begun, (3, {"loss": 0.5, "n": 2}), (3, {"answers": (columns, rows)}), "finished"]
    assert capsys.readouterr().out == ""  # Stdout is for results alone.
    monkeypatch.setenv("TRACKIO_PROJECT", "other")
    (again,) = open_trackers(["trackio"], tmp_path, after=2)
    assert said[-1] == begun | {"project": "other", "name": "mine", "resume": "allow"}
    for step in (3, 4):  # Step 3 was heard before, and would stand there twice.
        again.log({"step": step, "loss": 0.25})
        again.answers(step, answers)
    assert [what[0] for what in said[5:]] == [4, 4]


def test_long_tables_end_with_some_row_and_controllers_have_no_text():
    turn = {"agent": "a", "text": "", "length": 7, "observation": {"shape": [7, 2]}}
    answers = sampled_answers([{"group": n, "turns": [turn, turn]} for n in range(ROWS + 5)])
    _, rows = table_of(2, answers)
    assert len(rows) == ROWS
    assert rows[3] == [2, 3, 0, "", "(14 steps)", None, None, None, None]
    talk = [{"agent": "plan", "text": "think"}, {"agent": "work", "text": "5"}]
    assert sampled_answers([{"turns": talk}])[0].answer == "plan: think\nwork: 5"


def test_a_table_that_is_refused_is_reported_and_the_run_goes_on(tmp_path):
    class Refusing:
        def answers(self, step, answers):
            raise RuntimeError("no\nroom")

    said = []
    recorder = Recorder(RunFolder.create(tmp_path, "r"), said.append)
    recorder._trackers = [Refusing()]
    played = trajectories()
    recorder.episodes(3, StepResult({}, played, pack(played)), types.SimpleNamespace(player=None, weights={}))
    assert said == ["refusing has no table of the answers of step 3: no room"]
    assert len(read_episodes(tmp_path / "r" / "rollouts" / "step-000003.jsonl")) == 3


@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio"])
def test_trackers_whose_package_is_missing(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=rf"needs the {name} package; run: pip install 'hocket\[{name}\]'"):
        open_trackers([name], tmp_path)


# ---------------------------------------------------------------- run folders


def test_runs_are_numbered(tmp_path):
    names = [RunFolder.create(tmp_path / "runs", stem="sums-grpo").name for _ in range(2)]
    (tmp_path / "runs" / "sums-grpo-041").mkdir()
    names.append(RunFolder.create(tmp_path / "runs", stem="sums-grpo").name)
    names.append(RunFolder.create(tmp_path / "runs", stem="my/odd task:x").name)
    assert names == ["sums-grpo-001", "sums-grpo-002", "sums-grpo-042", "my-odd-task-x-001"]


def test_an_existing_run_is_refused_unless_resumed(tmp_path):
    folder = RunFolder.open(tmp_path, "mine")
    folder.write_text(folder.config, "steps: 3\n")
    folder.release()
    with pytest.raises(
        ConfigurationError, match=r"exists already; continue it with --resume mine, or choose another name"
    ):
        RunFolder.open(tmp_path, "mine")
    again = RunFolder.open(tmp_path, "mine", resume=True)
    assert again.path == folder.path
    again.release()
    for name in ("", "a/b", "..", ".hidden", "a b"):
        with pytest.raises(ConfigurationError, match="run = "):
            RunFolder.create(tmp_path, name)


def test_a_run_is_found_by_name_or_path(tmp_path):
    folder = RunFolder.create(tmp_path, "sums-grpo-001")
    with pytest.raises(ConfigurationError, match=r"no config\.yaml"):
        RunFolder.find("sums-grpo-001", tmp_path)
    folder.write_text(folder.config, "")
    assert RunFolder.find("sums-grpo-001", tmp_path).path == folder.path
    assert RunFolder.find(folder.path, tmp_path / "elsewhere").path == folder.path
    with pytest.raises(ConfigurationError, match="did you mean 'sums-grpo-001'"):
        RunFolder.find("sums-grpo-01", tmp_path)


def test_files_are_whole(tmp_path):
    folder = RunFolder.create(tmp_path, "r")
    folder.write_json(folder.summary, {"gain": math.nan, "text": "é"})
    assert strict(folder.summary.read_text()) == {"gain": None, "text": "é"}
    assert read_json(folder.summary)["text"] == "é"
    folder.append_message("two\nlines")
    folder.append_message("more")
    assert folder.messages.read_text() == "two lines\nmore\n"
    assert folder.episodes(12).name == "step-000012.jsonl"
    with pytest.raises(HocketError, match=r"machine\.json is missing"):
        read_json(folder.machine)
    folder.machine.write_text("{")
    with pytest.raises(HocketError, match=r"machine\.json cannot be read"):
        read_json(folder.machine)
    folder.machine.unlink()
    folder.machine.mkdir()
    with pytest.raises(HocketError, match=r"machine\.json cannot be written"):
        folder.write_text(folder.machine, "x")
    assert not [p for p in folder.path.iterdir() if p.name.endswith(".tmp")]


def _hold(path, ready, done):
    folder = RunFolder(path)
    folder.lock()
    ready.set()
    done.wait()
    folder.release()


def test_two_processes_cannot_train_in_one_folder(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()
    child = context.Process(target=_hold, args=(tmp_path, ready, done))
    child.start()
    assert ready.wait(10)
    with pytest.raises(ConfigurationError, match=f"in use by process {child.pid}"):
        RunFolder(tmp_path).lock()
    os.kill(child.pid, signal.SIGKILL)
    # Dead but perhaps not reaped: the lock is taken over either way.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    folder = RunFolder(tmp_path)
    folder.lock()
    child.join()
    with pytest.raises(ConfigurationError, match="another trainer of this process"):
        RunFolder(tmp_path).lock()
    folder.release()
    folder.release()
    RunFolder(tmp_path).lock()  # forgotten at once
    RunFolder(tmp_path).lock()


@pytest.mark.parametrize(
    ("holder", "free"),
    [
        ("", True),
        ('{"host": "h', True),
        ('{"host": "elsewhere", "pid": 1}', False),
        ('{"host": "HERE", "pid": 1, "started": "0"}', True),  # the number is used by another process now
        ('{"host": "HERE", "pid": 1}', False),
    ],
)
def test_whose_lock_it_is(tmp_path, holder, free):
    import socket

    (tmp_path / ".lock").write_text(holder.replace("HERE", socket.gethostname()))
    folder = RunFolder(tmp_path)
    if free:
        folder.lock()
        folder.release()
        assert (tmp_path / ".lock").read_text() == ""
    else:
        with pytest.raises(ConfigurationError, match="in use by process 1"):
            folder.lock()


def test_many_claim_a_dead_lock_and_one_gets_it(tmp_path):
    (tmp_path / ".lock").write_text(json.dumps({"host": os.uname().nodename, "pid": 2**22 - 1, "started": "1"}))
    context = multiprocessing.get_context("fork")
    results, start, done = context.Queue(), context.Event(), context.Event()

    def claim():
        folder = RunFolder(tmp_path)
        start.wait()
        try:
            folder.lock()
        except ConfigurationError:
            results.put(False)
        else:
            results.put(True)
        done.wait()

    children = [context.Process(target=claim) for _ in range(6)]
    [child.start() for child in children]
    start.set()
    got = [results.get(timeout=20) for _ in children]
    done.set()
    [child.join() for child in children]
    assert sum(got) == 1


# ---------------------------------------------------------------- episodes


def turn(tokens, logp=None, parent=None, **more):
    return Turn(
        agent=more.pop("agent", "solver"),
        policy="policy",
        observation=np.array([9, 8]),
        action=np.array(tokens),
        logp=None if logp is None else np.array(logp, np.float32),
        parent=parent,
        **more,
    )


def trajectories():
    scenario = Scenario("s1", "1 + 1 = ?", answer=2)
    shared = turn([1, 2, 3], [-0.1, -0.2, -0.30000001], prompt=({"role": "user", "content": "1 + 1 = ?"},), text="abc")
    first = turn([4], [-0.5], parent=shared, text="d", finish="length")
    second = turn([5, 6], [-0.6, float("nan")], parent=shared, forced=np.array([True, False]))
    third = turn([7], [-0.1])
    score = {"reward": Score(1.0), "format": Score(None, feedback="no tag")}
    return [
        Trajectory(scenario, [shared, first], 0, score),
        Trajectory(scenario, [shared, second], 1, {"reward": Score(0.0)}, truncated=True, terminated=False),
        Trajectory(Scenario("s2", "x"), [third], 0, {"reward": Score(0.5)}, source="baseline"),
    ]


def test_episodes_read_their_advantages_off_the_occurrences():
    played = trajectories()
    batch = pack(played)
    batch = batch.credited(advantage=torch.arange(1.0, len(batch.occurrences) + 1))
    rows = episodes(played, batch, lambda ids: "".join(chr(96 + token) for token in ids), step=3)
    # A shared turn is credited once per trajectory.
    assert [[t["advantage"] for t in row["turns"]] for row in rows] == [[[1, 2, 3], [4]], [[5, 6, 7], [8, 9]], [[10]]]
    assert rows[0]["turns"][0]["token_texts"] == ["a", "b", "c"]
    assert rows[0]["turns"][0]["logp"] == [-0.1, -0.2, -0.3]
    assert np.float32(rows[0]["turns"][0]["logp"][2]) == np.float32(-0.30000001)
    assert rows[1]["turns"][1]["logp"] == [-0.6, None]
    assert rows[1]["turns"][1]["weight"] == [0, 1]
    assert rows[1]["turns"][1]["forced"] == [True, False]
    assert "weight" not in rows[0]["turns"][0]
    assert [row["group"] for row in rows] == [0, 0, 1]
    assert [row["kept"] for row in rows] == [True, True, False]
    assert [row["reward"] for row in rows] == [1.0, 0.0, 0.5]
    assert rows[0]["scores"] == {"reward": 1.0, "format": None}
    assert rows[0]["feedback"] == {"format": "no tag"}
    assert rows[0]["scenario"] == {"id": "s1", "prompt": "1 + 1 = ?", "answer": 2}
    assert (rows[1]["truncated"], rows[1]["terminated"], rows[0]["turns"][1]["finish"]) == (True, False, "length")
    assert {"step", "group", "scenario", "turns", "scores", "reward", "source", "kept", "failure"} <= rows[0].keys()


def test_filtered_occurrences_have_no_advantage():
    played = trajectories()
    batch = pack(played)
    batch = batch.credited(advantage=torch.arange(1.0, len(batch.occurrences) + 1))
    rows = episodes(played, batch.restricted(batch.occurrences.advantage > 4))
    assert [t["advantage"] for t in rows[0]["turns"]] == [[None] * 3, [None]]
    assert not rows[0]["kept"]
    assert [t["advantage"] for t in rows[1]["turns"]] == [[5, 6, 7], [8, 9]]


def test_files_of_episodes_are_strict_json(tmp_path):
    played = trajectories()
    failed = Trajectory(Scenario("s3", "y"), [], failure="the tool broke")
    path = tmp_path / "rollouts" / "step-000003.jsonl"
    write_episodes(path, 3, played, pack(played), rewards=[1.0, math.nan, None], discarded=[failed])
    rows = [strict(line) for line in path.read_text().splitlines()]
    assert rows == read_episodes(path)
    assert [row["reward"] for row in rows] == [1.0, None, None, None]
    assert rows[3]["failure"] == "the tool broke"
    assert [row.get("discarded", False) for row in rows] == [False, False, False, True]
    assert {row["step"] for row in rows} == {3}
    write_episodes(path, 4, [], None)
    assert read_episodes(path) == []


def test_another_batch_is_refused():
    played = trajectories()
    with pytest.raises(ValueError, match="3 trajectories, but a batch of 2"):
        episodes(played, pack(played[:2]))


def test_control_episodes_stay_small():
    observations = np.arange(30, dtype=np.float32).reshape(10, 3)
    moves = Turn("pilot", "policy", observations, np.arange(20, dtype=np.float32).reshape(10, 2))
    discrete = Turn("pilot", "policy", observations, np.arange(10))
    for acted, key in ((moves, "actions"), (discrete, "tokens")):
        played = [Trajectory(Scenario("c"), [acted], scores={"return": Score([1.0] * 10, Level.DECISION)})]
        (row,) = episodes(played, pack(played), lambda ids: "?")
        found = row["turns"][0]
        assert found["observation"] == {"shape": [10, 3], "first": [0, 1, 2], "last": [27, 28, 29]}
        assert found["length"] == 10
        assert found[key] == acted.action.tolist()
        assert found["token_texts"] is None
        strict(json.dumps(row))
