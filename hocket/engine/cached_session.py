"""Decoding with any causal model's own forward pass and cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.engine.context_store import ContextStore, StoredRow, aligned, merged, stored_row
from hocket.engine.decoder import PREFILL_TOKENS
from hocket.engine.session import distinct
from hocket.policies.native_pass import cache_traits, padding_inputs
from hocket.policies.vision import embedding_inputs

_ALIKE = 32
"""Tokens by which contexts that are read together may differ, however short they are."""


class CachedSession:
    """Rows that stand right-aligned in the columns of a model's own cache, padded on the left where they are shorter.

    Each distinct context is read once. Where the cache is plain keys and values, contexts go on from those of a store,
    similarly long ones are read together, and columns that no row needs any more are dropped. Implements
    `hocket.engine.session.Session`.

    Args:
        contexts: of unequal lengths only where the model pads, see `hocket.policies.native_pass.cache_traits`.
        store: contexts read before with the same weights; gets those of the rows that leave.
    """

    def __init__(self, model: Any, contexts: Sequence[tuple[int, ...]], store: ContextStore | None = None) -> None:
        self._model, self._store = model, store
        traits = cache_traits(model)
        if not traits.pads and len({len(context) for context in contexts}) != 1:
            raise ValueError("contexts of a model that does not pad must be equally long")
        self._name, self._plain = traits.name, traits.plain and traits.pads
        self.rows = torch.arange(len(contexts), device=model.device)
        self._contexts = [list(context) for context in contexts]
        self._begun = [len(context) for context in contexts]
        self._left: dict[int, StoredRow] = {}
        unique, index = distinct(contexts)
        self._lengths = self._tensor([len(context) for context in contexts])
        self._width = int(self._lengths.max())
        self.logits: Tensor = self._read(unique, self._tensor(index))

    def step(self, tokens: Tensor) -> None:
        self._lengths, self._width = self._lengths + 1, self._width + 1
        if self._store is not None:
            for context, token in zip(self._contexts, tokens.tolist(), strict=True):
                context.append(token)
        inputs = padding_inputs(self._model, self._lengths, self._width, 1)
        inputs[self._name] = self._cache
        self.logits = self._model(input_ids=tokens[:, None], use_cache=True, **inputs).logits[:, -1]

    def keep(self, alive: Tensor) -> None:
        self._remember(torch.nonzero(~alive).flatten().tolist())
        chosen = torch.nonzero(alive).flatten()
        self.rows, self._lengths = self.rows[chosen], self._lengths[chosen]
        self._contexts = [self._contexts[place] for place in chosen.tolist()]
        if not self._plain:
            self._cache.reorder_cache(chosen)
            return
        beyond = self._width - int(self._lengths.max())
        for layer in self._cache.layers:
            layer.select(chosen, beyond)
        self._width -= beyond

    def end(self, written: Sequence[int]) -> None:
        """Stores what was read of every continuation, of which so many tokens belong to its response."""
        self._remember(range(len(self._contexts)))
        for number, row in self._left.items():
            assert self._store is not None
            # The last token was never read, and a row that waited to leave has read more than its response.
            self._store.add(row.first(self._begun[number] + written[number] - 1))

    def _remember(self, places: Sequence[int]) -> None:
        if self._store is not None and self._plain:
            for place in places:
                row = stored_row(tuple(self._contexts[place]), self._cache, place)
                self._left[int(self.rows[place])] = row

    # ------------------------------------------------------------ contexts

    def _read(self, contexts: list[tuple[int, ...]], index: Tensor) -> Tensor:
        """Reads distinct contexts, of which row i has number `index[i]`; the logits after each row, `[R, V]`."""
        if not self._plain:
            logits, self._cache = self._pass(contexts, self._width, None)
            self._cache.reorder_cache(index)
            return logits[index]
        past = [None if self._store is None else self._store.find(context) for context in contexts]
        new = [len(text) - (0 if row is None else len(row.tokens)) for text, row in zip(contexts, past, strict=True)]
        caches, numbers, read = [], [], []
        for part in _parts(new):
            last = new[part[0]]
            begun = [(past[number], max(0, len(contexts[number]) - last)) for number in part]
            logits, cache = self._pass([contexts[number] for number in part], last, aligned(begun, last))
            caches.append(cache)
            numbers.append(self._tensor(part))
            read.append(logits)
        rows = [[(index == number).nonzero().flatten() for number in part] for part in numbers]
        origins = [
            torch.arange(len(part), device=index.device).repeat_interleave(self._tensor([len(row) for row in part]))
            for part in rows
        ]
        places = [torch.cat(part) for part in rows]
        self._cache = merged(list(zip(caches, origins, places, strict=True)), len(index), self._width)
        return torch.cat(read)[torch.argsort(torch.cat(numbers))][index]

    def _pass(self, contexts: list[tuple[int, ...]], last: int, past: Any) -> tuple[Tensor, Any]:
        """Reads the `last` tokens of contexts of which `past` holds the others; logits after them, and the cache."""
        ids = torch.zeros(len(contexts), last, dtype=torch.long)
        for row, context in enumerate(contexts):
            ids[row, max(0, last - len(context)) :] = torch.tensor(context[-last:])
        width = last + (0 if past is None else past.get_seq_length())
        inputs = padding_inputs(self._model, self._tensor([len(context) for context in contexts]), width, last)
        inputs |= {} if past is None else {self._name: past}
        inputs |= embedding_inputs(self._model, ids.to(self._model.device))
        out = self._model(use_cache=True, logits_to_keep=1, **inputs)
        cache = getattr(out, self._name, None)
        if not hasattr(cache, "reorder_cache"):
            raise ConfigurationError(
                f"architecture {self._model.config.model_type!r} has no key-value cache that rows can leave, so it "
                "cannot be sampled from here; choose a decoder with a standard cache"
            )
        return out.logits[:, -1], cache

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self._model.device)


def _parts(new: Sequence[int]) -> list[list[int]]:
    """Contexts that are read together, by the numbers of their `new` tokens: the longest first, few passes and little
    padding."""
    parts: list[list[int]] = []
    for number in sorted(range(len(new)), key=lambda number: -new[number]):
        longest = new[parts[-1][0]] if parts else 0
        close = longest - new[number] <= max(_ALIKE, longest // 4)
        if parts and close and (len(parts[-1]) + 1) * longest <= PREFILL_TOKENS:
            parts[-1].append(number)
        else:
            parts.append([number])
    return parts
