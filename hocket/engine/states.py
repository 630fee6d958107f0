"""States of sequences in layers that keep one in place of keys and values, and the cache that finds them by tokens.

Pages hold every position, so that a context can continue from any of them. A state is that of one position. Each row
has a slot of its own; where a row ends its slot becomes an entry of the cache, and a context that begins with the same
tokens continues from a copy.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from hocket.engine.pages import Tokens
from hocket.policies.forms import RecurrentForm
from hocket.policies.kernels import StateRuns

if TYPE_CHECKING:
    from hocket.policies.recurrence import TreeLevel

SHARE = 2
"""States may take 1 / SHARE of the memory that the engine may keep."""
MOST_CACHED = 256
"""So many states of ended rows are kept, the latest used."""
EVICTS_FROM = 4
"""Once the slots take 1 / EVICTS_FROM of their memory, states are evicted before there are more slots."""

Ints = NDArray[np.int32]


class StatePool:
    """Slots for the states of sequences, in all recurrent layers, fp32.

    Args:
        forms: of the recurrent layers, by number. most: bytes.

    Attributes:
        windows: the last inputs of each layer's convolution, `[slots, taps - 1, C]`.
        memory: each layer's state `[slots, H, D, V]`, if it has one besides.
    """

    def __init__(self, forms: Mapping[int, RecurrentForm], most: int) -> None:
        self._forms = forms
        self._most = max(2, most // self.bytes_per_slot(forms))
        self.windows = {number: torch.zeros(0, *form.window) for number, form in forms.items()}
        self.memory = {
            number: torch.zeros(0, *form.memory) for number, form in forms.items() if form.memory is not None
        }
        self._free: list[int] = []
        self._cached: dict[tuple[int, Tokens], int] = {}
        self._lengths: dict[int, list[int]] = {}
        self._counts: Counter[tuple[int, int]] = Counter()

    @staticmethod
    def bytes_per_slot(forms: Mapping[int, RecurrentForm]) -> int:
        """The memory of one sequence."""
        sizes = (np.prod(form.window) + np.prod(form.memory or (0,)) for form in forms.values())
        return 4 * int(sum(sizes))

    @property
    def size(self) -> int:
        """The current number of slots."""
        return len(next(iter(self.windows.values())))

    # ------------------------------------------------------------ slots

    def take(self) -> int | None:
        """A free slot, if need be that of the cached state used longest ago; None if rows have them all."""
        if not self._free:
            grows = self.size < self._most
            if self._cached and (not grows or self.size >= self._most // EVICTS_FROM):
                self._evict()
            elif grows:
                self._grow()
        return self._free.pop() if self._free else None

    def release(self, slots: Sequence[int]) -> None:
        """Frees slots."""
        self._free.extend(slots)

    def copy(self, source: int, target: int) -> None:
        """Copies a state in all layers."""
        for part in (*self.windows.values(), *self.memory.values()):
            part[target] = part[source]

    def reclaim(self) -> None:
        """Frees every slot that is not in the cache, because the rows that had them are gone."""
        cached = set(self._cached.values())
        self._free = [slot for slot in reversed(range(self.size)) if slot not in cached]

    def _grow(self) -> None:
        before = self.size
        size = min(self._most, max(8, 2 * before))
        for parts in (self.windows, self.memory):
            for number, old in parts.items():
                parts[number] = F.pad(old, (*(0, 0) * (old.ndim - 1), 0, size - before))
        self._free.extend(range(size - 1, before - 1, -1))

    # ------------------------------------------------------------ the cache

    def keep(self, owner: int, tokens: Tokens, slot: int) -> None:
        """Hands a slot over to the cache, with the state after `tokens`."""
        replaced = self._cached.pop((owner, tokens), None)
        self._cached[owner, tokens] = slot
        if replaced is not None:
            self.release([replaced])
            return
        place = owner, len(tokens)
        if not self._counts[place]:
            insort(self._lengths.setdefault(owner, []), len(tokens))
        self._counts[place] += 1
        while len(self._cached) > MOST_CACHED:
            self._evict()

    def find(self, owner: int, tokens: Tokens) -> Iterator[tuple[int, int]]:
        """Cached states of beginnings of `tokens`: their lengths and slots, the longest first."""
        lengths = self._lengths.get(owner, [])
        for length in reversed(lengths[: bisect_right(lengths, len(tokens))]):
            slot = self._cached.get((owner, tokens[:length]))
            if slot is not None:
                yield length, slot

    def use(self, owner: int, tokens: Tokens) -> None:
        """Marks a cached state as the latest used."""
        self._cached[owner, tokens] = self._cached.pop((owner, tokens))

    def forget(self, owner: int) -> None:
        """Drops the cached states of an owner."""
        for key in [key for key in self._cached if key[0] == owner]:
            self._drop(key)

    def clear(self) -> None:
        """Frees every slot."""
        self._cached, self._lengths = {}, {}
        self._counts.clear()
        self.reclaim()

    def _evict(self) -> None:
        self._drop(next(iter(self._cached)))

    def _drop(self, key: tuple[int, Tokens]) -> None:
        self.release([self._cached.pop(key)])
        owner, length = key[0], len(key[1])
        self._counts[owner, length] -= 1
        if not self._counts[owner, length]:
            self._lengths[owner].remove(length)


class PassHistories:
    """What stands before the tokens of one pass; implements `hocket.policies.recurrence.Histories`.

    Args:
        start: of the runs, and the end of the last. position: of the tokens. slots: of the runs.
        places: number of tokens, those that fill the pass up included.
    """

    def __init__(self, pool: StatePool, start: Ints, position: Ints, slots: Ints, places: int) -> None:
        self._pool, self._total = pool, places
        self._start, self._count = start[:-1].astype(np.int64), np.diff(start).astype(np.int64)
        self._slots = torch.from_numpy(slots.astype(np.int64))
        self._fresh = position[self._start] == 0
        columns = start[:-1], np.diff(start), np.where(self._fresh, -1, slots), slots
        self.runs = StateRuns(*(torch.from_numpy(column.astype(np.int32)) for column in columns))
        self._places: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def levels(self) -> Sequence[TreeLevel]:
        raise NotImplementedError("sampling over pages is by the kernels")

    def memory(self, number: int, shape: tuple[int, int, int]) -> Tensor:
        return self._pool.memory[number]

    def inputs(self, number: int, x: Tensor, taps: int) -> tuple[Tensor, Tensor]:
        if taps not in self._places:
            self._places[taps] = self._locate(taps)
        place, last = self._places[taps]
        windows = self._pool.windows[number]
        rows = torch.cat((x, windows.index_select(0, self._slots).flatten(0, 1), x.new_zeros(1, x.shape[1])))
        windows[self._slots] = rows[last]
        return rows, place

    def _locate(self, taps: int) -> tuple[Tensor, Tensor]:
        """Rows that each token's convolution reads `[M, taps]`, and those that the next token's will, by run."""
        total, size = self._total, taps - 1
        nothing = total + len(self._start) * size
        place = np.repeat(np.arange(total)[:, None], taps, 1)
        run = np.repeat(np.arange(len(self._start)), self._count)
        token = np.arange(len(run))
        back = token[:, None] - np.arange(size, -1, -1)
        before = back - self._start[run][:, None]
        window = total + run[:, None] * size + size + before
        outside = np.where(self._fresh[run][:, None], nothing, window)
        place[: len(run)] = np.where(before >= 0, back, outside)
        last = place[self._start + self._count - 1, 1:]
        return torch.from_numpy(place), torch.from_numpy(last)
