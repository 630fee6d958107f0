"""Shares of polls."""

from __future__ import annotations

import pytest
import torch

from hocket.core.errors import ConfigurationError
from hocket.methods.preference.claims.plural_llm import loss_of, polls


def test_a_negative_share_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must not be negative"):
        loss_of(polls([[0.5, -0.1]]), torch.zeros(4, dtype=torch.float64))
