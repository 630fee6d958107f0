"""Checkpoints: exact round trips, and nothing lost by crashes, full disks or damage."""

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.train.checkpoint import CheckpointError, Checkpoints, SaveError, problem
from hocket.train.disk import DiskWriter
from hocket.train.tree import TreeEncoder, load_tree, safetensors_chunks, structure_bytes

TREE = {
    "step": 7,
    "learners": {"policy": {"optimiser": {"state": {0: {"exp_avg": torch.arange(6.0).reshape(2, 3)}, 1: {}}}}},
    "elapsed": 1.5,
}


def put(text):
    return lambda folder: (folder / "weights").write_text(text) and None


def save(checkpoints, step, **kwargs):
    return checkpoints.save(step, {**TREE, "step": step}, {"policy": put(f"weights {step}")}, **kwargs)


def same(left, right):
    """Equal in type, structure and every bit."""
    if isinstance(left, torch.Tensor):
        assert isinstance(right, torch.Tensor)
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        view = [t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (left, right)]
        assert torch.equal(*view)
        return
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert list(left) == list(right)
        assert [type(key) for key in left] == [type(key) for key in right]
        for key in left:
            same(left[key], right[key])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same(one, other)
    elif isinstance(left, (np.ndarray, np.generic)):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes()
    elif isinstance(left, float):
        assert np.float64(left).tobytes() == np.float64(right).tobytes()
    else:
        assert left == right


def through_disk(tree, folder):
    encoder = TreeEncoder()
    structure = structure_bytes(encoder.encode(tree))
    (folder / "s.json").write_bytes(structure)
    DiskWriter().write(folder / "s.safetensors", safetensors_chunks(encoder.tensors))
    return load_tree(folder / "s.json", folder / "s.safetensors")


# ---------------------------------------------------------------- round trips

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.uint16,
]  # fmt: skip


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = int(np.prod(shape)) * torch.empty((), dtype=dtype).element_size()
    raw = draw(st.binary(min_size=size, max_size=size))
    if dtype is torch.bool:
        raw = bytes(byte & 1 for byte in raw)
    if not size:
        return torch.zeros(shape, dtype=dtype)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(dtype).reshape(shape)


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(["<f8", "<f4", "<f2", "<i8", "<i4", "|u1", "|b1", "<c16", "<U3", "|S4"])))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    if dtype.kind == "U":
        return np.full(shape, draw(st.text("aé∞", max_size=3)), dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    if dtype.kind == "b":
        raw = bytes(byte & 1 for byte in raw)
    array = np.frombuffer(raw, dtype).reshape(shape)
    return array[()] if draw(st.booleans()) and array.shape == () else array.copy()


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**400), max_value=10**400)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text()
    | st.binary(max_size=5)
    | tensors()
    | arrays()
)
KEYS = st.text(max_size=4) | st.integers() | st.booleans() | st.none() | st.tuples(st.integers(), st.text(max_size=2))
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=6), inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(max_size=5), TREES, max_size=4))
def test_any_tree_comes_back_bit_for_bit(tmp_path, tree):
    same(tree, through_disk(tree, tmp_path))


def test_awkward_values(tmp_path):
    nan = np.array([0x7FF8_0000_0000_1234], np.uint64).view(np.float64)
    tree = {
        "nan with payload": float(nan[0]),
        "array": nan,
        "minus zero": -0.0,
        "huge": 1 << 40_000,
        "a.b": torch.zeros(1),
        "a": {"b": torch.ones(1)},
        "__metadata__": torch.ones(2),
        "view": torch.arange(12).reshape(3, 4).T[1:],
        "dict": {"tuple": [1], "tensor": "x"},
        "parameter": torch.nn.Parameter(torch.ones(2)).detach(),
        "shared": [TREE["elapsed"]] * 2,
        "\ud800": "lone surrogate \udfff",
    }
    same(tree, through_disk(tree, tmp_path))


def test_same_memory_twice_is_stored_twice(tmp_path):
    base = torch.arange(8.0)
    back = through_disk({"all": base, "part": base[2:4]}, tmp_path)
    same(back, {"all": base, "part": base[2:4]})


def test_an_optimiser_goes_on_exactly(tmp_path):
    def made():
        weight = torch.nn.Parameter(torch.linspace(-1, 1, 6).reshape(2, 3))
        return weight, torch.optim.AdamW([weight], lr=1e-2)

    def descend(weight, optimiser):
        optimiser.zero_grad()
        (weight.square().sum() + weight.sum().exp()).backward()
        optimiser.step()

    weight, optimiser = made()
    for _ in range(3):
        descend(weight, optimiser)
    checkpoints = Checkpoints(tmp_path)
    path = checkpoints.save(3, {"optimiser": optimiser.state_dict(), "weight": weight}, {"policy": put("x")})
    other, fresh = made()
    state = checkpoints.load(path)
    fresh.load_state_dict(state["optimiser"])
    with torch.no_grad():
        other.copy_(state["weight"])
    for _ in range(3):
        descend(weight, optimiser)
        descend(other, fresh)
    assert torch.equal(weight, other)


@pytest.mark.parametrize("value", [{1, 2}, object(), np.array([object()]), torch.zeros(2).to_sparse(), 1j])
def test_what_cannot_be_stored_is_refused_by_place(tmp_path, value):
    with pytest.raises(ConfigurationError, match=r"'stage\.memory\.1' holds"):
        Checkpoints(tmp_path).save(1, {"stage": {"memory": [0, value]}}, {"policy": put("x")})
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- folders


def test_layout_and_hashes(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    path = checkpoints.save(12, TREE, {"planner": put("p"), "worker": put("w")})
    assert path == tmp_path / "checkpoints" / "step-000012"
    complete = json.loads((path / "COMPLETE").read_text())
    assert set(complete["files"]) == {
        "state.json",
        "state.safetensors",
        "policy-planner/weights",
        "policy-worker/weights",
    }
    for name, entry in complete["files"].items():
        shown = subprocess.run(["sha256sum", path / name], capture_output=True, text=True, check=True).stdout
        assert shown.split()[0] == entry["sha256"]
        assert (path / name).stat().st_size == entry["bytes"]
    assert Checkpoints.policies(path) == {"planner": path / "policy-planner", "worker": path / "policy-worker"}
    assert Checkpoints.step(path) == 12
    alone = checkpoints.save(13, TREE, {"main": put("m")})
    assert (alone / "policy" / "weights").read_text() == "m"
    assert Checkpoints.policies(alone) == {"main": alone / "policy"}


def test_policy_names_must_be_file_names(tmp_path):
    with pytest.raises(ConfigurationError, match=r"'\.\./x'"):
        Checkpoints(tmp_path).save(1, TREE, {"../x": put("x")})


def test_last_and_best_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.latest() is None
    assert checkpoints.best() is None
    save(checkpoints, 1)
    best = save(checkpoints, 2, best=True)
    save(checkpoints, 3)
    last = save(checkpoints, 4)
    assert sorted(p.name for p in tmp_path.glob("step-*")) == ["step-000002", "step-000004"]
    assert (checkpoints.latest(), checkpoints.best()) == (last, best)
    better = save(checkpoints, 5, best=True)
    assert [p.name for p in tmp_path.glob("step-*")] == ["step-000005"]
    assert checkpoints.best() == better
    save(three := Checkpoints(tmp_path, keep=3), 6)
    save(three, 7)
    save(three, 8)
    assert sorted(p.name[-1] for p in tmp_path.glob("step-*")) == ["5", "6", "7", "8"]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_the_mark_of_the_best_through_repeats_and_steps_back(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    best = save(checkpoints, 5, best=True)
    assert save(checkpoints, 5) == best == checkpoints.best()  # written again, it is as good as it was
    save(checkpoints, 3)  # a run that went on from an earlier step
    assert sorted(p.name[-1] for p in tmp_path.iterdir()) == ["3", "5"]
    assert checkpoints.best() == best
    better = save(checkpoints, 4, best=True)
    assert [p.name[-1] for p in tmp_path.iterdir()] == ["4"]
    assert checkpoints.best() == checkpoints.latest() == better


def test_a_step_saved_again_is_replaced(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 3)
    path = checkpoints.save(3, {"new": 1}, {"policy": put("new")})
    assert checkpoints.load(path) == {"new": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["step-000003"]


def test_going_on_from_an_earlier_step_drops_the_abandoned_later_ones(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2, on_problem=lambda message: None)
    save(checkpoints, 5)
    (save(checkpoints, 9) / "state.json").write_text("{}")
    assert Checkpoints.step(checkpoints.latest()) == 5
    path = save(Checkpoints(tmp_path), 6)
    assert [p.name for p in tmp_path.iterdir()] == ["step-000006"]
    assert checkpoints.latest() == path


# ---------------------------------------------------------------- damage


def _flip(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


DAMAGE = {
    "no COMPLETE": lambda folder: (folder / "COMPLETE").unlink(),
    "empty COMPLETE": lambda folder: (folder / "COMPLETE").write_text(""),
    "list COMPLETE": lambda folder: (folder / "COMPLETE").write_text("[]"),
    "binary COMPLETE": lambda folder: (folder / "COMPLETE").write_bytes(b"\xff\xfe\x00"),
    "short COMPLETE": lambda folder: (folder / "COMPLETE").write_text((folder / "COMPLETE").read_text()[:-9]),
    "other step": lambda folder: (folder / "COMPLETE").write_text(
        (folder / "COMPLETE").read_text().replace('"step": 2', '"step": 3')
    ),
    "no files": lambda folder: (folder / "COMPLETE").write_text('{"step": 2, "files": {}}'),
    "flipped tensor": lambda folder: _flip(folder / "state.safetensors"),
    "flipped weights": lambda folder: _flip(folder / "policy" / "weights"),
    "cut tensor": lambda folder: os.truncate(folder / "state.safetensors", 20),
    "no weights": lambda folder: (folder / "policy" / "weights").unlink(),
    "endless COMPLETE": lambda folder: (folder / "COMPLETE").write_text("[" * 100_000),
    "folder for file": lambda folder: ((folder / "state.json").unlink(), (folder / "state.json").mkdir()),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path, kind):
    told = []
    checkpoints = Checkpoints(tmp_path, keep=2, on_problem=told.append)
    good, bad = save(checkpoints, 1), save(checkpoints, 2)
    DAMAGE[kind](bad)
    assert checkpoints.latest() == good
    assert len(told) == 1
    assert str(bad) in told[0]
    assert f"{good} is used instead" in told[0]
    with pytest.raises(HocketError, match="damaged"):
        checkpoints.load(bad)
    assert checkpoints.load(good)["step"] == 1


def test_when_all_are_damaged_nothing_is_used_and_nothing_is_lost(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    first, second = save(checkpoints, 1), save(checkpoints, 2, best=True)
    for bad in (first, second):
        _flip(bad / "state.json")
    with pytest.raises(HocketError, match=r"step-000002 is damaged .*step-000001 is damaged .*--start-over"):
        checkpoints.latest()
    assert checkpoints.best() is None
    before = {file.name: file.read_bytes() for file in second.iterdir() if file.is_file()}
    assert [path.name for path in checkpoints.set_aside(None)] == ["aside-step-000002", "aside-step-000001"]
    assert checkpoints.latest() is None
    for step in (1, 2, 3):  # Steps that are done again drop nothing that stands aside.
        save(checkpoints, step)
    aside = tmp_path / "aside-step-000002"
    assert {file.name: file.read_bytes() for file in aside.iterdir() if file.is_file()} == before
    assert [path.name for path in checkpoints.set_aside(None)] == ["aside-step-000003", "aside-step-000002-2"]


def test_those_of_later_steps_are_set_aside(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    paths = [save(checkpoints, step) for step in (1, 2, 3)]
    assert [path.name for path in checkpoints.set_aside(paths[1])] == ["aside-step-000003"]
    assert checkpoints.latest() == paths[1]
    assert checkpoints.set_aside(paths[1]) == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_single_changed_byte_is_noticed(tmp_path, data):
    path = save(Checkpoints(tmp_path), 2)
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.name != "COMPLETE")
    file = data.draw(st.sampled_from(files))
    raw = bytearray(file.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    file.write_bytes(raw)
    assert problem(path) is not None


# ---------------------------------------------------------------- faults while writing


class Faulty(DiskWriter):
    """Counts everything it is asked to do; at number `at` it does `fault` instead."""

    def __init__(self, at, fault):
        object.__setattr__(self, "left", [at])
        object.__setattr__(self, "fault", fault)

    def _due(self):
        self.left[0] -= 1
        return self.left[0] == -1

    def write(self, path, chunks):
        with path.open("wb") as file:
            for chunk in chunks:
                file.write(self.fault(chunk) if self._due() else chunk)

    def sync(self, path):
        if self._due():
            self.fault(b"")

    def rename(self, source, target):
        if self._due():
            self.fault(b"")
        super().rename(source, target)


def _raises(number):
    def fault(chunk):
        raise OSError(number, os.strerror(number))

    return fault


def _kill(chunk):
    os.kill(os.getpid(), signal.SIGKILL)


FAULTS = {
    "full": _raises(errno.ENOSPC),
    "io": _raises(errno.EIO),
    "short": lambda chunk: chunk[: len(chunk) // 2],
    "garbled": lambda chunk: bytes(byte ^ 0x55 for byte in bytes(chunk)),
}


def attempt(checkpoints, step):
    """What `save` returned, or the error's text."""
    try:
        return save(checkpoints, step, best=True), None
    except CheckpointError as error:
        return None, str(error)


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("again", [False, True], ids=["new step", "same step"])
def test_a_fault_at_any_moment_leaves_the_earlier_checkpoint(tmp_path, kind, again):
    checkpoints = Checkpoints(tmp_path, on_problem=lambda message: pytest.fail(message))
    failures = 0
    for at in range(60):
        earlier = save(checkpoints, 4, best=True)
        assert [p.name for p in sorted(tmp_path.iterdir())] == ["step-000004"]
        writer = Faulty(at, FAULTS[kind])
        step = 4 if again else 5
        told = []
        path, error = attempt(Checkpoints(tmp_path, writer, on_problem=told.append), step)
        if error is not None:
            failures += 1
            assert f"step-00000{step}" in error
            assert "earlier checkpoints are intact" in error
            assert kind != "full" or "No space left on device" in error
            assert not list(tmp_path.glob(".*tmp"))
            found = Checkpoints(tmp_path, on_problem=told.append).latest()
            assert checkpoints.load(found)["step"] in (4, step)
            assert Checkpoints.step(checkpoints.best()) in (4, step)
            assert again or earlier.is_dir()
        else:
            assert problem(path) is None
            assert checkpoints.latest() == path
            if writer.left[0] >= 0:  # the fault was never reached
                break
            # Reached, and harmless: an old folder stayed, or a call that moves no bytes "wrote short".
            assert kind in ("short", "garbled") or told
    else:
        pytest.fail("the fault was reached every time")
    assert failures >= 4
    assert save(checkpoints, 6).is_dir()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("write failed")])
def test_a_policy_that_cannot_be_written(tmp_path, error):
    def fails(folder):
        (folder / "half").write_text("half")
        raise error

    checkpoints = Checkpoints(tmp_path)
    earlier = save(checkpoints, 1)
    with pytest.raises(CheckpointError, match="step-000002"):
        checkpoints.save(2, TREE, {"policy": fails})
    assert [p.name for p in tmp_path.iterdir()] == [earlier.name]


def test_a_policy_whose_save_is_wrong_is_named_with_its_reason(tmp_path):
    def fails(folder):
        raise ValueError("\n\n  two weights share their memory\nmore")

    reason = r"policy 'policy' could not be saved \(ValueError: two weights share their memory\); correct its save"
    with pytest.raises(SaveError, match=reason):
        Checkpoints(tmp_path).save(1, TREE, {"policy": fails})
    assert list(tmp_path.iterdir()) == []


def _killed_while(target, *args):
    child = multiprocessing.get_context("fork").Process(target=target, args=args)
    child.start()
    return child


def test_a_kill_at_any_write_leaves_a_valid_checkpoint(tmp_path):
    for again in (False, True):
        folder = tmp_path / str(again)
        checkpoints = Checkpoints(folder, on_problem=lambda message: pytest.fail(message))
        save(checkpoints, 4, best=True)
        killed = 0
        for at in range(60):
            step = 4 if again else 5 + at
            child = _killed_while(save, Checkpoints(folder, Faulty(at, _kill)), step)
            child.join()
            found = checkpoints.latest()
            assert found is not None
            assert checkpoints.load(found)["learners"].keys() == {"policy"}
            assert checkpoints.best() is not None
            if child.exitcode == 0:
                break
            assert child.exitcode == -signal.SIGKILL
            killed += 1
        assert killed >= 10
        save(checkpoints, 90)
        assert not list(folder.glob(".*"))


BIG = torch.arange(200_000.0)
"""Made before any fork: a forked child must not need threads that its parent had."""


def _save_for_ever(folder, ready):
    checkpoints = Checkpoints(folder)
    tree = {**TREE, "big": BIG}
    for step in range(1, 10_000):
        checkpoints.save(step, {**tree, "step": step}, {"policy": put("x" * 50_000)}, best=step % 3 == 0)
        ready.set()


def test_what_a_killed_process_left_is_removed(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    (tmp_path / ".step-000007.tmp").mkdir()
    save(checkpoints, 1, best=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000001"]


def test_kills_at_random_moments_leave_a_valid_checkpoint(tmp_path):
    draw = Key.of(0).numpy()
    for number in range(12):
        folder = tmp_path / str(number)
        ready = multiprocessing.get_context("fork").Event()
        child = _killed_while(_save_for_ever, folder, ready)
        assert ready.wait(20)
        time.sleep(float(draw.uniform(0, 0.12)))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        checkpoints = Checkpoints(folder, on_problem=lambda message: pytest.fail(message))
        path = checkpoints.latest()
        state = checkpoints.load(path)
        assert state["step"] == Checkpoints.step(path)
        assert torch.equal(state["big"], BIG)
        assert checkpoints.best() is not None or state["step"] < 3, state["step"]
        save(checkpoints, state["step"] + 1)
        assert not list(folder.glob(".*"))


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", place], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_really_full_disk(small_disk):
    checkpoints = Checkpoints(small_disk / "checkpoints")
    tree = {"weights": torch.arange(40_000.0)}
    path = checkpoints.save(1, tree, {"policy": put("x")})
    for policy in (put("x"), put("x" * 400_000)):
        big = {"weights": torch.arange(40_000.0 if policy is not put else 1), "more": torch.zeros(60_000)}
        with pytest.raises(CheckpointError, match="No space left on device"):
            checkpoints.save(2, big, {"policy": policy})
    assert checkpoints.latest() == path
    assert torch.equal(checkpoints.load(path)["weights"], tree["weights"])
    assert Path(checkpoints.save(2, tree, {"policy": put("x")})).name == "step-000002"
