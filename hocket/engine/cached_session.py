"""Decoding with any causal model's own forward pass and cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.engine.session import distinct


class CachedSession:
    """Rows of equal context length, so that no architecture needs padding, a mask or position numbers.

    Each distinct context is read once. Implements `hocket.engine.session.Session`.
    """

    def __init__(self, model: Any, contexts: Sequence[tuple[int, ...]]) -> None:
        if len({len(context) for context in contexts}) != 1:
            raise ValueError("the contexts of a cached session must be equally long")
        self._model = model
        unique, index = distinct(contexts)
        out = model(input_ids=torch.tensor(unique, device=model.device), use_cache=True, logits_to_keep=1)
        cache = getattr(out, "past_key_values", None)
        if cache is None or not hasattr(cache, "batch_select_indices"):
            raise ConfigurationError(
                f"architecture {model.config.model_type!r} has no key-value cache that rows can leave, so it cannot be "
                "sampled from here; choose a decoder with a standard cache"
            )
        chosen = torch.tensor(index, device=model.device)
        _select(cache, chosen)
        self._cache = cache
        self.rows = torch.arange(len(contexts), device=model.device)
        self.logits: Tensor = out.logits[chosen, -1]

    def step(self, tokens: Tensor) -> None:
        out = self._model(input_ids=tokens[:, None], past_key_values=self._cache, use_cache=True)
        self._cache = out.past_key_values
        self.logits = out.logits[:, -1]

    def keep(self, alive: Tensor) -> None:
        chosen = torch.nonzero(alive).flatten()
        _select(self._cache, chosen)
        self.rows = self.rows[chosen]


def _select(cache: Any, chosen: Tensor) -> None:
    """Leaves these rows of a cache, in this order. States that do not grow follow only where it is reordered."""
    if any(hasattr(layer, "conv_states") for layer in getattr(cache, "layers", ())):
        cache.reorder_cache(chosen)
    else:
        cache.batch_select_indices(chosen)
