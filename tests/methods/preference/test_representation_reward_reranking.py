"""Pairs turned round by a probe of earlier ones."""

from __future__ import annotations

import pytest
import torch

from hocket.lab.microscope import RecordedBatch
from hocket.methods.preference.representation_reward_reranking import STATES, Reordered


def test_a_pair_against_what_earlier_ones_say_is_turned_round() -> None:
    rows = [
        {"id": f"{group}{sample}", "group": group, "scores": {"reward": 1.0 - sample}, "logp": [-1.0]}
        for group in "ab"
        for sample in range(2)
    ]
    batch = RecordedBatch({"version": 1, "trajectories": rows}).batch
    # What earlier pairs preferred points along the first axis; the second pair's label is against it.
    states = torch.tensor([[1.0, 0.0], [0.0, 0.3], [0.0, 0.1], [1.0, 0.2]], dtype=torch.float64)
    batch = batch.but(annotations={STATES.name: states[batch.occurrences.trajectory]})
    noise = torch.Generator().manual_seed(0)
    earlier = [torch.tensor([1.0, 0.0], dtype=torch.float64) + 0.1 * torch.randn(2, generator=noise) for _ in range(8)]
    credit = Reordered(least=8, window=9)
    seen, state = credit(batch, {"differences": [one.double() for one in earlier]})
    assert seen.pairs is not None
    assert seen.pairs.tolist() == [[0, 1], [3, 2]]
    assert len(state["differences"]) == 9
    untouched, _ = Reordered(least=9, window=9)(batch, {"differences": [one.double() for one in earlier]})
    assert untouched.pairs is not None
    assert untouched.pairs.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("settings", [{"form": "sort"}, {"ridge": 0.0}, {"least": 9, "window": 8}])
def test_settings_are_checked(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="form is reorder or weigh"):
        Reordered(**settings)  # type: ignore[arg-type]
