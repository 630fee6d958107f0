"""What the annotator sees."""

from __future__ import annotations

import torch

from hocket.core.keys import Key
from hocket.methods.search.annotation_memory import Annotator, shown
from hocket.methods.search.claims.annotation_memory import SEQUENCES


def test_no_label_of_a_later_item_is_seen() -> None:
    one, other = torch.tensor([0, 1]), torch.tensor([1, 0])
    hidden = all(
        bool((shown(memory, 5, one, true, one) == shown(memory, 5, one, 1 - true, one)).all())
        for memory in ("none", "few-shot", "own", "feedback")
        for true in (one, other)
    )
    net = Annotator(Key.of(0))
    items = SEQUENCES.items[:8]
    records = torch.randint(0, 7, items.shape[:2], generator=torch.Generator().manual_seed(0))
    changed = records.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % 7
    same = torch.equal(net(items, records)[:, :7], net(items, changed)[:, :7])
    apart = not torch.equal(net(items, records)[:, 7:], net(items, changed)[:, 7:])
    assert hidden
    assert same
    assert apart
