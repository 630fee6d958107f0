"""Several policies on one frozen base: its weights are in memory once, whatever adapters stand around them.

Each policy has a module tree of its own, with its own adapter in it, on the same weight tensors. So it is saved,
loaded, trained and switched off as if it were alone, and no policy sees the others' adapters.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from hocket.policies.loading import read_model, read_tokenizer
from hocket.policies.lora import is_adapters
from hocket.policies.stored_weights import Storage, freeze_in
from hocket.policies.templates import TemplateSettings


def read_frozen(where: str, dtype: torch.dtype, weights: Storage) -> Any:
    """A model whose weights are not trained, stored in `weights`, in fp32 those of `dtype`; errors as `read_model`."""
    if weights == "fp32":
        return read_model(where, dtype)
    model = read_model(where, torch.bfloat16)
    freeze_in(model, weights)
    return model


class SharedBaseCache:
    """Models and tokenizers, each read once. The models' weights must stand still: adapters are trained, not they."""

    def __init__(self) -> None:
        self._models: dict[tuple[str, torch.dtype, Storage], Any] = {}
        self._tokenizers: dict[tuple[str, str | TemplateSettings | None], Any] = {}

    def model(self, where: str, dtype: torch.dtype, weights: Storage) -> Any:
        """A model of its own on the weights of all others of this place and type; errors as `read_model`."""
        if (where, dtype, weights) not in self._models:
            self._models[where, dtype, weights] = read_frozen(where, dtype, weights)
        return shared_clone(self._models[where, dtype, weights])

    def tokenizer(self, where: str, chat_template: str | TemplateSettings | None) -> Any:
        """The tokenizer of a place with this template; errors as `read_tokenizer`."""
        if (where, chat_template) not in self._tokenizers:
            self._tokenizers[where, chat_template] = read_tokenizer(where, chat_template)
        return self._tokenizers[where, chat_template]


def shared_clone(model: nn.Module, *, adapters: bool = True) -> Any:
    """A copy of a model's modules on the same parameters and buffers, those of `adapters` among them or not."""
    tensors = (*model.named_parameters(), *model.named_buffers())
    shared = {id(tensor): tensor for name, tensor in tensors if adapters or not is_adapters(name)}
    return copy.deepcopy(model, shared)
