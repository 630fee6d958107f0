"""Shares of polls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import pytest
import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.lab.claims.harness import EXACT, gap
from hocket.methods.preference.claims.plural_llm import loss_of, polls
from hocket.methods.preference.plural_llm.method import PredictedShares, fairness
from hocket.types import Evaluation


def test_a_negative_share_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must not be negative"):
        loss_of(polls([[0.5, -0.1]]), torch.zeros(4, dtype=torch.float64))


def test_metrics_of_polls() -> None:
    shares = [[3.0, 1.5, 0.5], [0.5, 0.5], [1.0], [0.0, 0.0], [0.4, 1.6]]
    score = torch.tensor([2.0, -1.0, 0.5, 1.0, -1.0, 0.3, 0.7, 0.1, 0.4, 3.0], dtype=torch.float64)

    def told(some: Sequence[Sequence[float]], own: Tensor) -> dict[str, float]:
        now = Evaluation(torch.zeros(len(own), dtype=own.dtype), score=own[:, None])
        return {name: float(value) for name, value in PredictedShares()(now, polls(some, length=1)).metrics.items()}

    fits = []
    for share, own in ((shares[0], score[:3]), (shares[1], score[3:5]), (shares[4], score[8:])):
        guess, liked = np.exp(own.numpy()) / np.exp(own.numpy()).sum(), np.array(share) / sum(share)
        middle = (liked + guess) / 2
        fits.append(1 - sum(float((one * np.log2(one / middle)).sum()) for one in (liked, guess)) / 2)
    found, none = told(shares, score), told(shares[2:4], score[5:8])
    # Two of three pairs of the first are right, and the one of the last; there is none in the second.
    wanted = {"lists/total": 3, "lists/alignment": fmean(fits), "lists/accuracy": (2 / 3 + 1) / 2}
    off = gap([found[name] for name in wanted], list(wanted.values()))
    empty = none["lists/total"] == 0 and math.isnan(none["lists/alignment"]) and math.isnan(none["lists/accuracy"])
    ends = math.isnan(fairness([])) and fairness([0.0, 0.0]) == 1
    assert off < EXACT
    assert empty
    assert ends
