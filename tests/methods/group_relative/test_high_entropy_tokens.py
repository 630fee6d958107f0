"""`HighEntropyTokens` ranks the decisions that count, and asks for their entropy."""

from __future__ import annotations

import pytest
import torch
from credit_cases import batch_of, make

from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.credit.reinforce import Uniform
from hocket.methods.group_relative.high_entropy_tokens import HighEntropyTokens


@pytest.mark.parametrize(("share", "kept"), [(0.2, [4]), (0.25, [4]), (0.5, [2, 4]), (1.0, [1, 2, 3, 4])])
def test_the_share_is_of_what_counts(share, kept):
    batch = batch_of([make("s", 1.0, length=5)])
    weight = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    batch = batch.but(entropy=torch.tensor([9.0, 0.1, 0.4, 0.2, 0.8])).credited(weight=weight)
    seen = HighEntropyTokens(of=Uniform(), share=share)(batch)
    assert torch.nonzero(seen.advantage * weight).flatten().tolist() == kept
    assert seen.weight.tolist() == weight.tolist()


def test_what_is_read_and_refused():
    assert Column.ENTROPY in HighEntropyTokens().reads
    with pytest.raises(ConfigurationError, match="entropy"):
        HighEntropyTokens()(batch_of([make("s", 1.0), make("s", 0.0)]))
    with pytest.raises(ValueError, match="share"):
        HighEntropyTokens(share=0.0)
