"""Keys and values of contexts that a model's own cache holds: in batches that grow, and of single rows for later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

Tokens = tuple[int, ...]
KeysValues = tuple[Tensor, Tensor]

_LEAST_ROOM = 16


class RoomyLayer(DynamicLayer):  # type: ignore[misc]  # Untyped in transformers.
    """A layer's keys and values `[R, heads, columns, D]` in storage with room, so that a token is written in place.

    Args:
        storage: `[R, heads, room, D]`, of which the first `used` columns are written.
    """

    def __init__(self, storage: KeysValues, used: int) -> None:
        super().__init__()
        self.dtype, self.device = storage[0].dtype, storage[0].device
        self.is_initialized = True
        self._storage = storage
        self._show(used)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> KeysValues:
        used, more = self.keys.shape[-2], key_states.shape[-2]
        if used + more > self._storage[0].shape[-2]:
            room = used + more + max(_LEAST_ROOM, used // 2)
            self._storage = _roomy(self.keys, room), _roomy(self.values, room)
        for part, new in zip(self._storage, (key_states, value_states), strict=True):
            part[:, :, used : used + more] = new
        return self._show(used + more)

    def select(self, rows: Tensor, beyond: int) -> None:
        """Only these rows, without their first `beyond` columns."""
        used = self.keys.shape[-2] - beyond
        self._storage = self.keys[rows, :, beyond:], self.values[rows, :, beyond:]
        self._show(used)

    def _show(self, used: int) -> KeysValues:
        self.keys, self.values = (part[:, :, :used] for part in self._storage)
        return self.keys, self.values


def _roomy(part: Tensor, room: int) -> Tensor:
    storage = part.new_empty(*part.shape[:2], room, part.shape[3])
    storage[:, :, : part.shape[2]] = part
    return storage


@dataclass(frozen=True, eq=False)
class StoredRow:
    """One context with its keys and values `[heads, n, D]` by layer."""

    tokens: Tokens
    layers: list[KeysValues]

    @property
    def bytes(self) -> int:
        return sum(part.nbytes for layer in self.layers for part in layer)

    def first(self, count: int) -> StoredRow:
        """Its first `count` tokens."""
        return StoredRow(self.tokens[:count], [(keys[:, :count], values[:, :count]) for keys, values in self.layers])


def aligned(past: Sequence[tuple[StoredRow | None, int]], more: int) -> Any:
    """A cache whose rows begin with so many tokens of stored rows each, right-aligned, with room for `more` columns.

    None where no row begins with any.
    """
    width = max(length for _, length in past)
    example = next((row for row, length in past if row is not None and length), None)
    if example is None:
        return None
    layers = []
    for number, like in enumerate(example.layers):
        storage = tuple(part.new_zeros(len(past), part.shape[0], width + more, part.shape[2]) for part in like)
        for place, (row, length) in enumerate(past):
            if row is not None and length:
                for target, part in zip(storage, row.layers[number], strict=True):
                    target[place, :, width - length : width] = part[:, :length]
        layers.append(RoomyLayer((storage[0], storage[1]), width))
    return cache_of(layers)


def cache_of(layers: list[RoomyLayer]) -> Any:
    """The cache that a model is called with."""
    cache = DynamicCache()
    cache.layers = layers
    return cache


class ContextStore:
    """Contexts read under the present weights, so that a longer context that begins with one goes on from there.

    Args:
        max_bytes: when it is full, the oldest rows are dropped.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rows: dict[Tokens, StoredRow] = {}
        self._lengths: dict[int, int] = {}
        self._bytes = 0

    def find(self, context: Tokens) -> StoredRow | None:
        """The longest stored row that `context` goes on from by at least one token."""
        for length in sorted(self._lengths, reverse=True):
            if length < len(context) and (row := self._rows.get(context[:length])) is not None:
                return row
        return None

    def add(self, row: StoredRow) -> None:
        """Stores a row, unless it alone is too large."""
        size = row.bytes
        if row.tokens in self._rows or size > self._max_bytes:
            return
        while self._bytes + size > self._max_bytes:
            self._drop(next(iter(self._rows)))
        self._rows[row.tokens] = row
        self._lengths[len(row.tokens)] = self._lengths.get(len(row.tokens), 0) + 1
        self._bytes += size

    def _drop(self, tokens: Tokens) -> None:
        self._bytes -= self._rows.pop(tokens).bytes
        self._lengths[len(tokens)] -= 1
        if not self._lengths[len(tokens)]:
            del self._lengths[len(tokens)]


def merged(caches: Sequence[tuple[Any, Tensor, Tensor]], rows: int, width: int) -> Any:
    """One cache of `rows` rows, right-aligned in `width` columns, of caches with the rows that theirs become.

    Args:
        caches: each with the numbers of its rows to be copied and the numbers they become.
    """
    layers = []
    for number, like in enumerate(caches[0][0].layers):
        room = width + max(_LEAST_ROOM, width // 4)
        shape = (rows, like.keys.shape[1], room)
        storage = like.keys.new_zeros(*shape, like.keys.shape[3]), like.values.new_zeros(*shape, like.values.shape[3])
        for cache, origin, place in caches:
            layer = cache.layers[number]
            first = width - layer.keys.shape[2]
            storage[0][place, :, first:width] = layer.keys[origin]
            storage[1][place, :, first:width] = layer.values[origin]
        layers.append(RoomyLayer(storage, width))
    return cache_of(layers)


def stored_row(tokens: Tokens, cache: Any, row: int) -> StoredRow:
    """The tokens of a row of a right-aligned cache with a copy of their keys and values."""
    length = len(tokens)
    return StoredRow(
        tokens,
        [(layer.keys[row, :, -length:].clone(), layer.values[row, :, -length:].clone()) for layer in cache.layers],
    )
