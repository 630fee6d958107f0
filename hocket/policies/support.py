"""Which models are computed by their form (see `hocket.policies.forms`), and on sequences of what length."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from hocket.policies.family import head_of, logit_states
from hocket.policies.form_reading import form_of
from hocket.policies.forms import KNOWN
from hocket.policies.prefix_tree import tree_of
from hocket.policies.sequences import Row
from hocket.policies.tree_forward import tree_states

_PROBE = 12
"""Tokens that a model of no known architecture is tried on."""
_EXACT = 1e-3
"""How far its form may be from its own forward pass there, relative to the spread of the numbers."""

_checked: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def supports(model: Any, longest: int) -> bool:
    """Whether the arithmetic of its form is exactly what `model` computes on sequences of up to `longest` tokens."""
    form = form_of(model)
    return form is not None and longest <= form.longest and trusted(model)


def trusted(model: Any) -> bool:
    """Whether a model has a form that is tested; where it is not, the model itself says once whether it is right."""
    if getattr(model, "padded_because", None) or form_of(model) is None:  # An adapter may be no low-rank product.
        return False
    if model.config.model_type in KNOWN:
        return True
    if model not in _checked:
        try:
            with torch.no_grad():
                _checked[model] = _agrees(model)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            # Its modules are for something else than they are called.
            _checked[model] = False
    return _checked[model]


def trunk_of(model: Any) -> Any:
    """What gives a model's last hidden states."""
    return model.model if model.base_model is model else model.base_model


def _agrees(model: Any) -> bool:
    count = min(_PROBE, int(form.longest)) if (form := form_of(model)) is not None else 0
    token = (np.arange(count) * 7 + 3) % int(model.config.vocab_size)
    tree = tree_of([Row(np.asarray(token, np.int64), np.arange(count), np.arange(count))])
    ids = torch.from_numpy(token)[None].to(model.device)
    states = tree_states(model, tree, "fp32")
    due = trunk_of(model)(input_ids=ids, use_cache=False).last_hidden_state[0]
    if not _close(states, due):
        return False
    if not hasattr(model, "lm_head"):
        return True
    return _close(head_of(model)(logit_states(model, states)), model(input_ids=ids, use_cache=False).logits[0])


def _close(states: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool((states - expected).abs().max() <= _EXACT * expected.std())
