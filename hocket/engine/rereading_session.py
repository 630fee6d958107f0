"""Decoding by a causal model that keeps nothing: every token is drawn after a pass over the whole sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hocket.policies.vision import embedding_inputs

REREAD = frozenset(
    {
        "bamba",
        "data2vec-text",
        "deepseek_v4",
        "minimax",
        "openai-gpt",
        "recurrent_gemma",
        "rwkv",
        "xlstm",
        "xmod",
        "zamba",
    }
)
"""Architectures whose cache cannot be taken apart by rows, or does not give the numbers of a whole pass."""


class RereadingSession:
    """Rows of equal context length. Implements `hocket.engine.session.Session`.

    A response of N tokens costs N passes, so this is for architectures with nothing better.
    """

    def __init__(self, model: Any, contexts: Sequence[tuple[int, ...]]) -> None:
        if len({len(context) for context in contexts}) != 1:
            raise ValueError("the contexts of a rereading session must be equally long")
        self._model = model
        self._tokens = torch.tensor(contexts, device=model.device)
        self.rows = torch.arange(len(contexts), device=model.device)
        self.logits: Tensor = self._read()

    def step(self, tokens: Tensor) -> None:
        self._tokens = torch.cat((self._tokens, tokens[:, None]), 1)
        self.logits = self._read()

    def keep(self, alive: Tensor) -> None:
        self._tokens, self.rows = self._tokens[alive], self.rows[alive]

    def _read(self) -> Tensor:
        logits: Tensor = self._model(use_cache=False, **embedding_inputs(self._model, self._tokens)).logits[:, -1]
        return logits
