"""The rows of a run's store in its checkpoints: full segments are files that are written once, the rest is in the tree.

A segment is `SEGMENT` consecutive rows of a ring. Its file `checkpoints/segments/DIGEST.safetensors` is named by its
content, so checkpoints share it. The tree lists the segments, and holds the rows after the last full one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file

from hocket.core.errors import HocketError
from hocket.rollout.store import Columns, blank, cut, length
from hocket.rollout.sum_tree import SumTree
from hocket.stages import State
from hocket.train.disk import Writer
from hocket.train.tree import safetensors_chunks

SEGMENT = 2**16
"""Rows of a segment."""

FOLDER = "segments"
"""The folder of segments, beside the checkpoints."""


def segment_file(checkpoints: Path, name: str) -> Path:
    """The file of a segment."""
    return checkpoints / FOLDER / f"{name}.safetensors"


def written(store: State, checkpoints: Path, writer: Writer) -> tuple[State, dict[str, dict[str, Any]]]:
    """Writes the full segments that have no file yet; returns the tree, and digest and size of all files by name.

    Raises:
        OSError: when the disk refuses.
    """
    tree, files = {**store, "rings": {}}, dict[str, dict[str, Any]]()
    for policy, ring in store["rings"].items():
        tree["rings"][policy] = _written_ring(ring, checkpoints, writer)
        files |= {name: {"sha256": name, "bytes": size} for _, _, name, size in ring["segments"]}
    return tree, files


def _written_ring(ring: State, checkpoints: Path, writer: Writer) -> State:
    added, size = int(ring["added"]), length(ring["columns"])
    first, full = max(0, added - size), added - added % SEGMENT
    listed = [entry for entry in ring.get("segments", ()) if entry[0] + entry[1] > first]
    start = max(first, listed[-1][0] + listed[-1][1] if listed else 0)
    while start < full:
        end = start - start % SEGMENT + SEGMENT
        name, count = _write(cut(ring["columns"], np.arange(start, end) % size), checkpoints, writer)
        listed.append((start, end - start, name, count))
        start = end
    ring["segments"] = listed
    tail = cut(ring["columns"], np.arange(max(first, full), added) % size)
    more = {"largest": ring["largest"], "priorities": ring["tree"].priorities.copy()} if "tree" in ring else {}
    return {"added": added, "size": size, "segments": [list(entry) for entry in listed], "tail": tail, **more}


def _write(columns: Columns, checkpoints: Path, writer: Writer) -> tuple[str, int]:
    """Writes a segment unless its file is there; returns its name and size."""
    chunks = list(safetensors_chunks({name: torch.from_numpy(column) for name, column in columns.items()}))
    sha = hashlib.sha256()
    for chunk in chunks:
        sha.update(chunk)
    file = segment_file(checkpoints, sha.hexdigest())
    size = sum(memoryview(chunk).nbytes for chunk in chunks)
    if not file.is_file() or file.stat().st_size != size:
        file.parent.mkdir(exist_ok=True)
        partial = file.with_name(f".{file.name}.tmp")
        writer.write(partial, chunks)
        writer.sync(partial)
        writer.rename(partial, file)
        writer.sync(file.parent)
    return sha.hexdigest(), size


def restored(tree: State, checkpoints: Path) -> State:
    """The inverse of `written`.

    Raises:
        HocketError: for a segment that is missing or damaged.
    """
    store = {**tree, "rings": {}}
    for policy, ring in tree["rings"].items():
        added, size, tail = int(ring["added"]), int(ring["size"]), dict(ring["tail"])
        columns, first = blank(tail, size), max(0, added - int(ring["size"]))
        _place(columns, tail, added - length(tail), first)
        for start, _, name, _ in ring["segments"]:
            _place(columns, read(checkpoints, name), int(start), first)
        entries = [tuple(entry) for entry in ring["segments"]]
        held: State = {"added": added, "columns": columns, "segments": entries}
        if "priorities" in ring:
            held |= {"largest": ring["largest"], "tree": SumTree(size)}
            held["tree"].put(np.arange(size), ring["priorities"])
        store["rings"][policy] = held
    return store


def _place(columns: Columns, rows: Columns, start: int, first: int) -> None:
    """Puts consecutive rows, the first of which is number `start`, where they belong; those before `first` are gone."""
    numbers = np.arange(start, start + length(rows))
    valid = numbers >= first
    places = numbers[valid] % length(columns)
    for name, column in rows.items():
        columns[name][places] = column[valid]


def read(checkpoints: Path, name: str) -> Columns:
    """The rows of a segment.

    Raises:
        HocketError: when its file is missing or damaged.
    """
    if (reason := defect(checkpoints, name, None)) is not None:
        raise HocketError(f"{segment_file(checkpoints, name)} {reason}; put back a copy, or resume another checkpoint")
    return dict(load_file(segment_file(checkpoints, name)))


def defect(checkpoints: Path, name: str, size: int | None) -> str | None:
    """What is wrong with a segment's file, in words; None if nothing is. With `size` only that is compared."""
    file = segment_file(checkpoints, name)
    if not file.is_file():
        return "is missing"
    if size is not None:
        return None if file.stat().st_size == size else f"has {file.stat().st_size} bytes instead of {size}"
    with file.open("rb") as content:
        return None if hashlib.file_digest(content, "sha256").hexdigest() == name else "has changed"


def remove_unnamed(checkpoints: Path, completes: Iterable[Mapping[str, Any]]) -> None:
    """Removes the segments that no checkpoint names.

    Raises:
        OSError: when the disk refuses.
    """
    named = {name for complete in completes for name in complete.get("segments", {})}
    for file in (checkpoints / FOLDER).glob("*"):
        if file.suffix != ".safetensors" or file.stem not in named:
            file.unlink(missing_ok=True)
