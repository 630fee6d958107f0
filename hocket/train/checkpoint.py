"""Checkpoints: folders that are either complete and verified, or absent."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.inside import leads_out
from hocket.stages import State
from hocket.train.disk import Chunk, DiskWriter, Writer, log_problem
from hocket.train.segments import FOLDER, defect, remove_unnamed, segment_file
from hocket.train.segments import written as written_store
from hocket.train.tree import TreeEncoder, load_tree, safetensors_chunks, structure_bytes

STRUCTURE, TENSORS, COMPLETE = "state.json", "state.safetensors", "COMPLETE"

REFERENCE = "-reference"
"""The suffix of the name of a reference in a checkpoint, if it is not the configured model."""

SavePolicy = Callable[[Path], None]
"""Writes a policy's weights into an existing empty folder: `Policy.save`."""

_STEP = re.compile(r"step-(\d{6,})")


class CheckpointError(HocketError):
    """A checkpoint could not be written. Earlier ones are intact, so a run may continue and try again later."""


class SaveError(CheckpointError):
    """A policy's own `save` failed, which no room on the disk changes."""


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run: `folder/step-000123/`.

    A checkpoint holds the state tree (`state.json`, `state.safetensors`), one folder per policy (`policy/` for the
    only one, else `policy-NAME/`), and `COMPLETE`, written last, with the SHA-256 and size of every other file and
    whether it is the best so far. It is written under a hidden name, read back, and renamed, so it appears complete and
    at once. The last `keep` checkpoints and the best one stay.

    Attributes:
        folder: their folder, made when first needed.
        writer: writes the files; tests inject faults here.
        keep: the number of latest checkpoints to keep, at least 1.
        on_problem: called with a sentence about damaged checkpoints that are skipped.
    """

    folder: Path
    writer: Writer = DiskWriter()
    keep: int = 1
    on_problem: Callable[[str], None] = log_problem

    # ------------------------------------------------------------ writing

    def save(
        self,
        step: int,
        tree: State,
        policies: Mapping[str, SavePolicy],
        *,
        best: bool = False,
        store: State | None = None,
    ) -> Path:
        """Writes the checkpoint of `step`, replaces one of the same step, and removes superfluous ones.

        `best` marks it as the best so far; the mark of a replaced checkpoint stays. Checkpoints of later steps, from a
        run that was resumed at an earlier one, are removed too, unless they are marked best and this one is not.
        Rows of a `store` go to segments beside the checkpoints, see `hocket.train.segments`; those that no checkpoint
        names are removed.

        Raises:
            CheckpointError: when the disk refuses; earlier checkpoints are intact and no partial files are left.
            SaveError: when a policy's `save` fails for another reason; the same holds.
            ConfigurationError: when the tree holds something that cannot be stored, or a policy's name is no file name.
        """
        target = self.folder / f"step-{step:06d}"
        temporary = self.folder / f".{target.name}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Partial files of a killed process.
            self._remove(self.folder.glob(".step-*.tmp"))
            temporary.mkdir()
            segments: dict[str, dict[str, Any]] = {}
            if store is not None:
                rows, segments = written_store(store, self.folder, self.writer)
                tree = {**tree, "store": rows}
            marked = best or step == self._best_step(dict(self._candidates()))
            self._fill(temporary, step, tree, policies, best=marked, segments=segments)
            self._place(temporary, target)
        except OSError as error:
            raise CheckpointError(
                f"{target}: the checkpoint could not be written ({_reason(error)}); make room or check the disk, "
                "earlier checkpoints are intact."
            ) from error
        finally:
            with contextlib.suppress(OSError):
                self._remove([temporary])
        self._prune(step, best=best)
        return target

    def _fill(
        self,
        folder: Path,
        step: int,
        tree: State,
        policies: Mapping[str, SavePolicy],
        *,
        best: bool,
        segments: Mapping[str, Any],
    ) -> None:
        encoder = TreeEncoder()
        structure = structure_bytes(encoder.encode(tree))
        written = {
            STRUCTURE: self._write(folder / STRUCTURE, [structure]),
            TENSORS: self._write(folder / TENSORS, safetensors_chunks(encoder.tensors)),
        }
        folders = policy_folders(list(policies))
        for name, place in folders.items():
            (folder / place).mkdir()
            _save_policy(name, policies[name], folder / place)
        for file in _files(folder):
            self.writer.sync(file)
        # Read back from disk, so that no checkpoint is trusted, and none removed for it, without verification.
        digests = {file.relative_to(folder).as_posix(): _digest(file) for file in _files(folder)}
        for name, digest in written.items():
            if digests.get(name) != digest:
                raise OSError(f"{name} did not reach the disk whole")
        complete = {"version": 1, "step": step, "best": best, "policies": folders, "files": digests}
        complete |= {"segments": dict(segments)} if segments else {}
        self._write(folder / COMPLETE, [json.dumps(complete, indent=1).encode()])
        reason = problem(folder, whole=False)
        if reason is not None:
            raise OSError(reason)
        for inner in (*(folder / place for place in folders.values()), folder):
            self.writer.sync(inner)

    def _write(self, path: Path, chunks: Iterable[Chunk]) -> dict[str, Any]:
        """Writes a file and returns the digest of the content before writing."""
        sha, size = hashlib.sha256(), 0

        def passing() -> Iterator[Chunk]:
            nonlocal size
            for chunk in chunks:
                sha.update(chunk)
                size += len(chunk)
                yield chunk

        self.writer.write(path, passing())
        return {"sha256": sha.hexdigest(), "bytes": size}

    def _place(self, temporary: Path, target: Path) -> None:
        """Renames a finished checkpoint into its place."""
        if target.exists():
            # A folder cannot be replaced atomically, so `latest` also examines the old one under its other name.
            aside = self.folder / f".{target.name}.old"
            self._remove([aside])
            self.writer.rename(target, aside)
        self.writer.rename(temporary, target)
        self.writer.sync(self.folder)

    def _prune(self, step: int, *, best: bool) -> None:
        numbers = self._steps()
        newest = set(sorted(number for number in numbers if number <= step)[-max(self.keep, 1) :])
        marked = step if best else self._best_step(numbers)
        try:
            for number, path in numbers.items():
                if number not in newest and number != marked:
                    # Hidden first, so that a crash leaves no visible damaged checkpoint.
                    aside = self.folder / f".{path.name}.old"
                    self._remove([aside])
                    self.writer.rename(path, aside)
            self._remove(self.folder.glob(".step-*.old"))
            if (self.folder / FOLDER).is_dir():
                remove_unnamed(self.folder, [_complete(path) for path in self.folder.glob("*step-*")])
        except OSError as error:
            self.on_problem(f"{self.folder}: old checkpoints could not be removed ({_reason(error)}).")

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in list(paths):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    # ------------------------------------------------------------ reading

    def latest(self) -> Path | None:
        """The newest checkpoint that verifies; None if none was written. Damaged ones are reported and skipped.

        Raises:
            HocketError: when there are checkpoints and none of them verifies.
        """
        damaged: list[str] = []
        for _, path in self._candidates():
            reason = problem(path)
            if reason is None:
                for message in damaged:
                    self.on_problem(f"{message}; {path} is used instead.")
                return path
            damaged.append(f"{path} is damaged ({reason})")
        if damaged:
            raise HocketError(
                f"{', and '.join(damaged)}, and no earlier checkpoint can be used instead; put back a copy, or "
                f"begin the run again: hocket train --resume {self.folder.parent} --start-over"
            )
        return None

    def set_aside(self, after: Path | None) -> list[Path]:
        """Renames the checkpoints of steps after that of `after` (all if it is None), so that they are not used.

        Returns their new places, `aside-step-000123/` beside the others.

        Raises:
            HocketError: when the disk refuses.
        """
        begun = -1 if after is None else self.step(after)
        moved = []
        for step, path in self._candidates():
            if step > begun:
                moved.append(_unused(self.folder / f"aside-step-{step:06d}"))
                try:
                    self.writer.rename(path, moved[-1])
                except OSError as error:
                    raise HocketError(f"{path} cannot be renamed: {_reason(error)}; check the folder.") from error
        return moved

    def best(self) -> Path | None:
        """The checkpoint marked best, if it exists and verifies; a damaged one is reported."""
        candidates = dict(self._candidates())
        step = self._best_step(candidates)
        if step is None:
            return None
        path = candidates[step]
        reason = problem(path)
        if reason is not None:
            self.on_problem(f"{path}, marked best, is damaged ({reason}); use the latest checkpoint instead.")
            return None
        return path

    def load(self, path: Path) -> State:
        """The state tree of a checkpoint, tensors on the CPU.

        Raises:
            HocketError: when the checkpoint does not verify.
        """
        reason = problem(path)
        if reason is not None:
            raise HocketError(f"{path} is damaged ({reason}); resume from another checkpoint.")
        return load_tree(path / STRUCTURE, path / TENSORS)

    @staticmethod
    def policies(path: Path) -> dict[str, Path]:
        """The folder of each policy in a verified checkpoint, by name."""
        complete = json.loads((path / COMPLETE).read_bytes())
        return {name: path / place for name, place in complete["policies"].items()}

    @staticmethod
    def step(path: Path) -> int:
        """The step of a checkpoint folder."""
        return _step_of(path.name)

    def _steps(self) -> dict[int, Path]:
        if not self.folder.is_dir():
            return {}
        matches = ((path, _STEP.fullmatch(path.name)) for path in self.folder.iterdir())
        return {int(match[1]): path for path, match in matches if match and path.is_dir()}

    def _candidates(self) -> list[tuple[int, Path]]:
        """Checkpoints by descending step, including a renamed one whose replacement is missing."""
        numbers = self._steps()
        if self.folder.is_dir():
            for aside in self.folder.glob(".step-*.old"):
                with contextlib.suppress(ValueError):
                    if problem(aside) is None:
                        numbers.setdefault(_step_of(aside.name), aside)
        return sorted(numbers.items(), reverse=True)

    @staticmethod
    def _best_step(candidates: Mapping[int, Path]) -> int | None:
        """The last step marked best, which was better than all earlier ones."""
        return max((step for step, path in candidates.items() if _marked_best(path)), default=None)


# ---------------------------------------------------------------- what a checkpoint is made of


def policy_folders(names: list[str]) -> dict[str, str]:
    """The folder name of each policy: `policy` for a single one or one of that name, else `policy-NAME`."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
            raise ConfigurationError(f"policy {name!r}: use letters, digits, '.', '_' and '-' in a policy's name")
    return {name: "policy" if len(names) == 1 or name == "policy" else f"policy-{name}" for name in names}


def _save_policy(name: str, save: SavePolicy, folder: Path) -> None:
    """Calls a policy's `save`.

    Raises:
        OSError: when the disk refuses. SaveError: for any other error, with its cause.
    """
    try:
        save(folder)
    except OSError:
        raise
    except Exception as error:
        # Torch and safetensors report what the disk refuses in errors of their own.
        if any(sign in str(error).lower() for sign in _DISK):
            raise OSError(_reason(error)) from error
        raise SaveError(
            f"{folder.parent.parent}: policy {name!r} could not be saved ({type(error).__name__}: {_reason(error)}); "
            "correct its save, earlier checkpoints are intact."
        ) from error


_DISK = ("write failed", "failed writing", "no space", "os error", "ioerror", "i/o error")


def _marked_best(path: Path) -> bool:
    """Whether a checkpoint is marked as the best at its time; False if it is unreadable."""
    try:
        return json.loads((path / COMPLETE).read_bytes()).get("best") is True
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _complete(path: Path) -> Mapping[str, Any]:
    """The content of `COMPLETE`; nothing if it is unreadable."""
    try:
        content = json.loads((path / COMPLETE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def problem(path: Path, *, whole: bool = True) -> str | None:
    """The defect of a checkpoint folder in a few words; None if every file agrees with `COMPLETE`.

    Segments beside it are read if `whole`, else only their sizes are compared.
    """
    try:
        complete = json.loads((path / COMPLETE).read_bytes())
        files = dict(complete["files"])
        named = _STEP.search(path.name)
        if named and complete["step"] != int(named[1]):
            return f"{COMPLETE} is of step {complete['step']}"
        for name in sorted({STRUCTURE, TENSORS, *files, *dict(complete["policies"]).values()}):
            if leads_out(path, name):
                return f"{name} lies elsewhere"
        for name in sorted({STRUCTURE, TENSORS, *files}):
            if name not in files:
                return f"{COMPLETE} does not list {name}"
            file = path / name
            if not file.is_file():
                return f"{name} is missing"
            if file.stat().st_size != files[name]["bytes"]:
                return f"{name} has {file.stat().st_size} bytes instead of {files[name]['bytes']}"
            if _digest(file) != files[name]:
                return f"{name} has changed"
        for name, written_as in dict(complete.get("segments", {})).items():
            if (reason := defect(path.parent, name, None if whole else written_as["bytes"])) is not None:
                return f"{segment_file(path.parent, name)} {reason}"
    except FileNotFoundError:
        return f"{COMPLETE} is missing"
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"{COMPLETE} is unreadable"
    except OSError as error:
        return f"it cannot be read: {_reason(error)}"
    return None


def _unused(path: Path) -> Path:
    """`path`, or `path` with the first number as a suffix that is free."""
    names = itertools.chain([path], (path.with_name(f"{path.name}-{number}") for number in itertools.count(2)))
    return next(name for name in names if not name.exists())


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _digest(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "bytes": path.stat().st_size}


def _step_of(name: str) -> int:
    match = _STEP.search(name)
    if match is None:
        raise ValueError(f"{name} is not a checkpoint folder")
    return int(match[1])


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def weights_in(checkpoint: Path | None) -> dict[str, Path]:
    """The policy folders of a checkpoint by policy name, without references."""
    if checkpoint is None:
        return {}
    folders = Checkpoints.policies(checkpoint)
    return {name: folder for name, folder in folders.items() if not name.endswith(REFERENCE)}


def objects_in(checkpoint: Path) -> list[str]:
    """Kind and name of the Python objects that made the run of a verified checkpoint, see `Trainer.state`."""
    return list(json.loads((checkpoint / STRUCTURE).read_bytes())["dict"].get("objects", ()))


def checkpoint_of(run: Path, which: str | Path) -> Path:
    """The `last` checkpoint of a run, the `best`, or the one in a folder.

    Raises:
        ConfigurationError: when there is none yet.
        HocketError: when all are damaged.
    """
    if isinstance(which, Path):
        if (reason := problem(which)) is not None:
            raise HocketError(f"{which} is damaged ({reason}); use another checkpoint")
        return which
    checkpoints = Checkpoints(run / "checkpoints")
    checkpoint = checkpoints.latest() if which == "last" else checkpoints.best()
    if checkpoint is None:
        raise ConfigurationError(f"run {run} has no {which} checkpoint yet; train it for some steps first")
    return checkpoint
