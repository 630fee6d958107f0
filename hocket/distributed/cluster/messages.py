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


class _Noting(pickle.Pickler):
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


class _Pointing(pickle.Pickler):
    """Writes the number of what the other side has in place of the thing."""

    def __init__(self, file: io.BytesIO, kept: Sequence[object]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._place = {id(one): place for place, one in enumerate(kept)}

    def persistent_id(self, value: object) -> int | None:
        return self._place.get(id(value))


class _Following(pickle.Unpickler):
    """Reads numbers as what this side has."""

    def __init__(self, file: io.BytesIO, kept: Sequence[object]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, place: int) -> object:
        return self._kept[place]


Kept = Sequence[Scenario | Turn]
"""What a question holds, in one order on both sides."""


def asked(message: Any, assignments: Sequence[Assignment]) -> tuple[bytes, Sequence[PackedWeights], Kept]:
    """A question about assignments, the weights that go beside it, and what its answer may point to.

    Raises:
        HocketError: when something in it cannot be sent.
    """
    file = io.BytesIO()
    pickler = _Noting(file)
    try:
        # Contexts first: a conversation written from its end would be as deep as it is long.
        pickler.dump([_rooted(one.replay.turns) for one in assignments if one.replay is not None])
        pickler.dump(message)
        kept = list(pickler.noted.values())
        pickler.dump(kept)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise HocketError(f"what a sampler is asked cannot be sent to it: {error}") from error
    return file.getvalue(), pickler.beside, kept


def heard(data: bytes, beside: Sequence[PackedWeights] = ()) -> tuple[Any, Kept]:
    """What `asked` made bytes of."""
    reader = _Following(io.BytesIO(data), beside)
    _, message, kept = reader.load(), reader.load(), reader.load()
    return message, kept


def answered(message: Any, trajectories: Sequence[Trajectory], kept: Kept) -> bytes:
    """An answer with trajectories that points to what the question held."""
    file = io.BytesIO()
    pickler = _Pointing(file, kept)
    pickler.dump(unique_turns(trajectories))
    pickler.dump(message)
    return file.getvalue()


def told(data: bytes, kept: Kept) -> Any:
    """What `answered` made bytes of."""
    reader = _Following(io.BytesIO(data), kept)
    reader.load()
    return reader.load()


def _rooted(turns: Sequence[Turn]) -> list[Turn]:
    """Every turn after its context."""
    found: dict[int, Turn] = {}
    for turn in turns:
        for link in turn.context():
            found.setdefault(id(link), link)
    return list(found.values())
