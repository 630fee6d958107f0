"""What processes of a run tell each other, as bytes: a turn or a scenario that two sides know stays one object.

Weights go beside the bytes, by whatever way a line has for what many are sent.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

from hocket.core.errors import HocketError
from hocket.core.packing import unique_turns
from hocket.distributed.cluster.weights import PackedWeights
from hocket.types import Assignment, Scenario, Trajectory, Turn


class _NotingPickler(pickle.Pickler):
    """Notes the scenarios and turns that it writes, and writes the number of weights in their place."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.noted: dict[int, Scenario | Turn] = {}
        self.beside: list[PackedWeights] = []

    def persistent_id(self, value: object) -> int | None:
        if isinstance(value, (Scenario, Turn)):
            self.noted.setdefault(id(value), value)
        elif isinstance(value, PackedWeights):
            self.beside.append(value)
            return len(self.beside) - 1
        return None


class _ReferencePickler(pickle.Pickler):
    """Writes the number of what the other side has in place of the thing."""

    def __init__(self, file: io.BytesIO, roots: Sequence[object]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._place = {id(root): place for place, root in enumerate(roots)}

    def persistent_id(self, value: object) -> int | None:
        return self._place.get(id(value))


class _ReferenceUnpickler(pickle.Unpickler):
    """Reads numbers as what this side has."""

    def __init__(self, file: io.BytesIO, roots: Sequence[object]) -> None:
        super().__init__(file)
        self._kept = roots

    def persistent_load(self, place: int) -> object:
        return self._kept[place]


Roots = Sequence[Scenario | Turn]
"""What a question holds, in one order on both sides."""


def pack_question(message: Any, assignments: Sequence[Assignment]) -> tuple[bytes, Sequence[PackedWeights], Roots]:
    """A question about assignments, the weights that go beside it, and what its answer may point to.

    Raises:
        HocketError: when something in it cannot be sent.
    """
    file = io.BytesIO()
    pickler = _NotingPickler(file)
    try:
        # Contexts first: a conversation written from its end would be as deep as it is long.
        pickler.dump([_rooted(assignment.replay.turns) for assignment in assignments if assignment.replay is not None])
        pickler.dump(message)
        roots = list(pickler.noted.values())
        pickler.dump(roots)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise HocketError(f"what a sampler is asked cannot be sent to it: {error}") from error
    return file.getvalue(), pickler.beside, roots


def unpack_question(data: bytes, beside: Sequence[PackedWeights] = ()) -> tuple[Any, Roots]:
    """The message in the bytes of `pack_question`, and its roots."""
    reader = _ReferenceUnpickler(io.BytesIO(data), beside)
    _, message, roots = reader.load(), reader.load(), reader.load()
    return message, roots


def pack_answer(message: Any, trajectories: Sequence[Trajectory], roots: Roots) -> bytes:
    """An answer with trajectories that points to what the question held."""
    file = io.BytesIO()
    pickler = _ReferencePickler(file, roots)
    pickler.dump(unique_turns(trajectories))
    pickler.dump(message)
    return file.getvalue()


def unpack_answer(data: bytes, roots: Roots) -> Any:
    """The message in the bytes of `pack_answer`."""
    reader = _ReferenceUnpickler(io.BytesIO(data), roots)
    reader.load()
    return reader.load()


def _rooted(turns: Sequence[Turn]) -> list[Turn]:
    """Every turn after its context."""
    links: dict[int, Turn] = {}
    for turn in turns:
        for link in turn.context():
            links.setdefault(id(link), link)
    return list(links.values())
