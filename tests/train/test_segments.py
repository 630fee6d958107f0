"""The rows of a store in checkpoints: segments that are written once, and a tail."""

import numpy as np
import pytest
from tiny_runs import resume, train, weights

from hocket.apps.cli.parser import main
from hocket.core.errors import HocketError
from hocket.rollout.sum_tree import SumTree
from hocket.train import segments
from hocket.train.checkpoint import Checkpoints, problem
from hocket.train.disk import DiskWriter

SIZE = 40


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT", 16)


def ring(added, size=SIZE):
    """A ring of so many rows, each of which holds its number."""
    columns = {"paid": np.zeros(size, np.float32), "observed": np.zeros((size, 2), np.float32)}
    numbers = np.arange(max(0, added - size), added)
    columns["paid"][numbers % size] = numbers
    columns["observed"][numbers % size] = numbers[:, None]
    return {"added": added, "columns": columns}


def grow(one, count):
    for name, column in ring(one["added"] + count)["columns"].items():
        one["columns"][name][:] = column
    one["added"] += count


def files(folder):
    return {file.name for file in (folder / "segments").glob("*")}


class Counting(DiskWriter):
    written = 0

    def write(self, path, chunks):
        Counting.written += path.name.endswith(".safetensors.tmp")
        super().write(path, chunks)


def saved(folder, step, store):
    checkpoints = Checkpoints(folder, writer=Counting())
    return checkpoints, checkpoints.save(step, {"a": 1}, {}, store=store)


def test_segments_are_written_once_and_go_when_nothing_names_them(tmp_path):
    one, Counting.written = ring(10), 0
    store = {"rings": {"policy": one}}
    counts, names = [], []
    for step in range(1, 11):
        checkpoints, path = saved(tmp_path, step, store)
        counts.append(Counting.written)
        names.append(files(tmp_path))
        back = segments.restored(checkpoints.load(path)["store"], tmp_path)["rings"]["policy"]
        assert back["added"] == one["added"]
        for name, column in one["columns"].items():
            assert np.array_equal(back["columns"][name], column)
        grow(one, 8)
    # Rows 0-15, 16-31, .. are full after 18, 34, .. rows; of 40 rows that are kept at most 4 segments hold some.
    assert counts == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert max(map(len, names)) <= 4
    assert len(names[-1]) < 5


def test_rows_that_came_and_went_between_checkpoints_are_in_none(tmp_path):
    store = {"rings": {"policy": ring(10)}}
    saved(tmp_path, 1, store)
    grow(store["rings"]["policy"], 200)
    checkpoints, path = saved(tmp_path, 2, store)
    back = segments.restored(checkpoints.load(path)["store"], tmp_path)["rings"]["policy"]
    assert np.array_equal(back["columns"]["paid"], store["rings"]["policy"]["columns"]["paid"])
    assert not [file for file in files(tmp_path) if file.endswith(".tmp")]


def test_priorities_come_back(tmp_path):
    one = {**ring(30), "tree": SumTree(SIZE), "largest": 3.0}
    one["tree"].put(np.arange(30), np.random.default_rng(0).random(30))
    checkpoints, path = saved(tmp_path, 1, {"rings": {"policy": one}})
    back = segments.restored(checkpoints.load(path)["store"], tmp_path)["rings"]["policy"]
    assert np.array_equal(back["tree"].nodes, one["tree"].nodes)
    assert back["largest"] == 3.0


@pytest.mark.parametrize("harm", ["changed", "missing"])
def test_a_damaged_segment_is_named(tmp_path, harm):
    checkpoints, path = saved(tmp_path, 1, {"rings": {"policy": ring(34)}})
    file = sorted((tmp_path / "segments").glob("*"))[0]
    if harm == "missing":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
    assert f"{file} {'is missing' if harm == 'missing' else 'has changed'}" in str(problem(path))
    with pytest.raises(HocketError, match=file.name):
        checkpoints.latest()


DQN = ["--task", "gym:CartPole-v1?max_episode_steps=20", "--recipe", "dqn", "--threads", "1", "--evaluation.n", "2"]
DQN += ["--store.begin", "0", "--store.rows", "8", "--store.size", "60", "--checkpoint.steps", "2"]
DQN += ["--network.hidden", "[8]"]


@pytest.mark.slow
def test_a_run_resumes_from_its_segments_bit_for_bit(tmp_path, capsys):
    train(tmp_path, "whole", steps=8, tiny=DQN)
    train(tmp_path, "parts", steps=5, tiny=DQN)
    assert files(tmp_path / "parts" / "checkpoints")
    resume(tmp_path, "parts", "--steps", "8")
    (left, right) = (Checkpoints(tmp_path / name / "checkpoints") for name in ("whole", "parts"))
    stores = [
        segments.restored(one.load(one.latest())["store"], one.folder)["rings"]["policy"] for one in (left, right)
    ]
    for name, column in stores[0]["columns"].items():
        assert np.array_equal(column, stores[1]["columns"][name])
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    file = sorted((right.folder / "segments").glob("*"))[0]
    file.write_bytes(b"")
    capsys.readouterr()
    assert main(["train", "--resume", str(tmp_path / "parts"), "--steps", "9"]) != 0
    assert str(file) in capsys.readouterr().err
