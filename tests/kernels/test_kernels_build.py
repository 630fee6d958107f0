"""How kernels are compiled, kept and done without."""

import ctypes
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hocket.policies import kernels
from hocket.policies.kernels import build

torch.set_num_threads(1)
HERE = Path(__file__).parent
ROOT = HERE.parent.parent
needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="no compiler here")

TINY = """
#ifndef HEAD_SIZE
#define HEAD_SIZE 0
#endif
extern "C" int answer() { return 7 * HEAD_SIZE; }
"""
"""A source that compiles at once, where it does not matter what is in it."""


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """The module anew, with empty caches, an empty folder and the tiny source."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(build.OFF, raising=False)
    spec = importlib.util.spec_from_file_location("hocket_build_anew", build.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    source = tmp_path / "tiny.cpp"
    source.write_text(TINY)
    module.SOURCE = source
    return module


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def logged(tmp_path, pause=0.0):
    """A compiler that notes what it is asked to compile (not to link or to say its version), then does it."""
    log = tmp_path / "log"
    log.touch()
    note = f'case "$*" in *" -c "*) echo x >> {log}; sleep {pause};; esac\n'
    return script(tmp_path / "noting-compiler", note + f'exec {build.compiler()} "$@"\n'), log


def compiled(folder):
    return sorted(folder.rglob("*.so"))


def one_sentence(text):
    return bool(text) and "\n" not in text and len(text) < 400 and ". " not in text


# ---------------------------------------------------------------- what is compiled, and when


@needs_compiler
def test_kernels_are_here():
    """Where there is a compiler, the real source compiles and everything below has something to test."""
    assert kernels.available(16)
    assert kernels.available(32)
    assert kernels.reason(16) is None


@needs_compiler
def test_the_compiled_file_is_used_again(fresh, tmp_path, monkeypatch):
    tool, log = logged(tmp_path)
    monkeypatch.setenv("CXX", str(tool))
    assert fresh.library(16).answer() == 7 * 16
    assert fresh.reason(16) is None
    kept = compiled(fresh.cache_folder())
    assert len(kept) == 1
    fresh.library.cache_clear()
    fresh._attempt.cache_clear()
    assert fresh.library(16).answer() == 7 * 16
    assert log.read_text() == "x\n"
    assert compiled(fresh.cache_folder()) == kept


@needs_compiler
def test_another_size_source_or_compiler_is_another_file(fresh, tmp_path, monkeypatch):
    assert fresh.library(16).answer() == 112
    assert fresh.library(32).answer() == 224
    fresh.SOURCE.write_text(TINY.replace("7", "9"))
    fresh._attempt.cache_clear()
    fresh.library.cache_clear()
    assert fresh.library(16).answer() == 144
    assert len(compiled(fresh.cache_folder())) == 3
    version = script(
        tmp_path / "newer",
        f'if [ "$1" = --version ]; then echo newer; exit; fi\nexec {build.compiler()} "$@"\n',
    )
    monkeypatch.setenv("CXX", str(version))
    fresh._attempt.cache_clear()
    fresh.library.cache_clear()
    assert fresh.library(16).answer() == 144
    assert len(compiled(fresh.cache_folder())) == 4


@needs_compiler
def test_nothing_but_the_library_is_left(fresh):
    assert fresh.library(16) is not None
    assert [file.name for file in fresh.cache_folder().iterdir()] == [
        file.name for file in compiled(fresh.cache_folder())
    ]


@needs_compiler
def test_two_processes_at_once(tmp_path):
    """Both compile (the pause makes sure of it), both have the library, one file is left."""
    tool, log = logged(tmp_path, pause=0.7)
    source = tmp_path / "tiny.cpp"
    source.write_text(TINY)
    child = f"""
import importlib.util, pathlib
spec = importlib.util.spec_from_file_location("build", {build.__file__!r})
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)
build.SOURCE = pathlib.Path({str(source)!r})
build._openmp = lambda: None  # Not to wait for torch.
print(build.library(16).answer(), build.reason(16))
"""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "CXX": str(tool)}
    environment.pop(build.OFF, None)
    started = [
        subprocess.Popen([sys.executable, "-c", child], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate(timeout=60)[0] for process in started] == ["112 None\n"] * 3
    assert len(log.read_text().split()) >= 2, "the processes did not meet; the pause is too short"
    left = list((tmp_path / "cache" / "hocket" / "kernels").iterdir())
    assert len(left) == 1
    assert ctypes.CDLL(str(left[0])).answer() == 112


# ---------------------------------------------------------------- doing without


@pytest.mark.parametrize("word", ["off", "OFF", "0", "no"])
def test_switched_off(fresh, monkeypatch, word):
    monkeypatch.setenv(build.OFF, word)
    assert fresh.library(16) is None
    assert build.OFF in fresh.reason(16)
    assert one_sentence(fresh.reason(16))
    assert not compiled(fresh.cache_folder())


def test_no_compiler(fresh, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", str(tmp_path / "missing"))
    assert fresh.library(16) is None
    assert "compiler" in fresh.reason(16)
    assert one_sentence(fresh.reason(16))


FAILURES = {
    "says why": "echo 'kernels.cpp:1: cannot do this' >&2; echo more >&2; exit 1\n",
    "says nothing": "exit 1\n",
    "says an empty line": "echo >&2; exit 1\n",
    "is killed": "kill -9 $$\n",
    "says no text": "printf '\\377\\376' >&2; exit 1\n",
    "makes no library": 'for last; do :; done; echo nonsense > "$last"\n',
    "makes nothing": "exit 0\n",
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_compiler_that_fails(fresh, tmp_path, monkeypatch, name):
    version = 'if [ "$1" = --version ]; then echo 1.0; exit; fi\n'
    monkeypatch.setenv("CXX", str(script(tmp_path / "broken-compiler", version + FAILURES[name])))
    assert fresh.library(16) is None
    reason = fresh.reason(16)
    assert one_sentence(reason)
    assert "broken-compiler" in reason
    if name == "says why":
        assert "cannot do this" in reason


@needs_compiler
def test_a_compiler_is_given_up(fresh, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(script(tmp_path / "slow-compiler", "sleep 20\n")))
    fresh._PATIENCE = 0.2
    assert fresh.library(16) is None
    assert one_sentence(fresh.reason(16))
    assert "slow-compiler" in fresh.reason(16)


@needs_compiler
def test_a_folder_that_cannot_be_written(fresh, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    # Either it does without kernels and names the folder, or it keeps them elsewhere.
    found = fresh.library(16)
    if found is None:
        assert str(tmp_path / "file") in fresh.reason(16)
        assert one_sentence(fresh.reason(16))
    else:
        assert found.answer() == 112


@needs_compiler
def test_a_damaged_file_does_no_harm(fresh):
    assert fresh.library(16) is not None
    (kept,) = compiled(fresh.cache_folder())
    # Another file in its place: the old one is in use.
    kept.rename(kept.with_suffix(".old"))
    kept.write_bytes(b"")
    fresh.library.cache_clear()
    fresh._attempt.cache_clear()
    found = fresh.library(16)
    assert found is not None or one_sentence(fresh.reason(16))


@pytest.mark.parametrize("size", [0, -16, 8, 17, 24, 528])
def test_sizes_there_are_no_kernels_for(fresh, size):
    assert fresh.library(size) is None
    assert one_sentence(fresh.reason(size))
    assert not kernels.available(size)


# ---------------------------------------------------------------- the library without kernels

WITHOUT = {
    "off": {build.OFF: "off"},
    "no compiler": {"PATH": "/nonexistent", "CXX": ""},
    "a compiler that fails": {"CXX": "/bin/false"},
    "no folder": {"XDG_CACHE_HOME": "/dev/null"},
}


def found_without(name, folder):
    """What `kernels_fallback_run.py` prints where there are no kernels."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder), **WITHOUT[name]}
    command = [sys.executable, str(HERE / "kernels_fallback_run.py")]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, check=True, cwd=ROOT).stdout)


@pytest.fixture(scope="module")
def found_with():
    import kernels_fallback_run

    return kernels_fallback_run.facts()


@needs_compiler
@pytest.mark.parametrize(
    "name", ["off", *(pytest.param(name, marks=pytest.mark.slow) for name in WITHOUT if name != "off")]
)
def test_torch_does_the_same(found_with, tmp_path, name):
    assert found_with["available"]
    found = found_without(name, tmp_path)
    if name != "no folder":
        assert not found["available"]
    if not found["available"]:
        assert one_sentence(found["reason"])
    for column in ("logp", "entropy"):
        assert (torch.tensor(found[column]) - torch.tensor(found_with[column])).abs().max() < 1e-5, column
    # Where fp32 differs in its last bits bf16 rounds otherwise now and then, by 2^-8, and logits are of several nats.
    gap = (torch.tensor(found["bf16"]) - torch.tensor(found_with["bf16"])).abs()
    assert gap.max() < 0.15
    assert gap.mean() < 0.03
    assert found["gradient"].keys() == found_with["gradient"].keys()
    for weight, norm in found_with["gradient"].items():
        assert abs(found["gradient"][weight] - norm) < 1e-4 * max(norm, 1.0), weight
    assert found["greedy"] == found_with["greedy"]
    gap = torch.tensor(found["sampled"]) - torch.tensor(found["learned"])
    assert gap.abs().max() < 1e-5
