"""Memory in annotation: what earlier labels in the context are worth to a frozen model.

Items are labelled one after the other, by a hidden rule. The model's weights never change; what differs is what it is
shown of the items before: nothing, a few true labels, its own labels, its own labels and whether each was right (the
paper's memory reinforcement, with a verbal reward), or the true labels. An analysis, so no recipe: its findings are
the claims beside this file, and docs/annotation-memory.md shows them.

The paper asks large models about political texts. Here the frozen model is `Annotator`, a transformer of two layers,
trained beforehand on many random rules, so that the rule of a new sequence can only come from its context.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.analyses import Analysis
from hocket.core.keys import Key

Memory = Literal["none", "few-shot", "own", "feedback", "labels"]
"""What is shown of an item that was labelled. `few-shot`: the true labels of the first `SHOTS` items, then nothing."""

BITS, ITEMS, SHOTS = 4, 12, 2

_SHOWN = 7
"""Nothing; own label 0 or 1; own label and the verdict on it; true label 0 or 1 is own label, right."""


@dataclass(frozen=True)
class Batch:
    """Sequences of items `[N, ITEMS, BITS]` of 0 and 1, and their labels `[N, ITEMS]` by the sequence's rule."""

    items: Tensor
    labels: Tensor


def drawn(key: Key, count: int) -> Batch:
    """Sequences, each of a rule of its own: one bit decides, perhaps turned round; 2 BITS rules."""
    rng = key.numpy()
    items: NDArray[np.int64] = rng.integers(0, 2, (count, ITEMS, BITS))
    bit, turned = rng.integers(0, BITS, count), rng.integers(0, 2, (count, 1))
    labels = np.take_along_axis(items, bit[:, None, None], 2)[:, :, 0] ^ turned
    return Batch(torch.from_numpy(items), torch.from_numpy(labels))


def shown(memory: Memory, place: int, own: Tensor, true: Tensor, verdict: Tensor) -> Tensor:
    """What is shown of item `place`, `[N]` numbers below 7, from labels 0 and 1 and whether it is said to be right."""
    if memory == "none" or (memory == "few-shot" and place >= SHOTS):
        return torch.zeros_like(own)
    if memory == "own":
        return 1 + own
    if memory == "feedback":
        return 3 + 2 * own + verdict
    return 3 + 2 * true + 1


class Annotator(nn.Module):
    """Two layers of causal attention over a question and a record per item; the logit of label 1 at each question."""

    def __init__(self, key: Key, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=()):  # What torch draws for new layers is written over by the key's.
            self.bits, self.record = nn.Linear(BITS, width), nn.Embedding(_SHOWN + 1, width)
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
                for _ in range(2)
            )
            self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 1)
        for name, one in self.named_parameters():
            if one.dim() > 1:
                values = key.derive(name).numpy().normal(0, 1 / math.sqrt(one.shape[1]), one.shape)
                one.data.copy_(torch.from_numpy(values))
            else:
                one.data.fill_(float("norm" in name and name.endswith("weight")))

    def forward(self, items: Tensor, records: Tensor) -> Tensor:
        """Logits `[N, L]` from items `[N, L, BITS]` and what is shown of each, `[N, L]`."""
        told = self.bits(items * 2.0 - 1.0)
        asking = told + self.record.weight[_SHOWN]
        both = torch.stack([asking, told + self.record(records)], 2).flatten(1, 2)
        mask = nn.Transformer.generate_square_subsequent_mask(both.shape[1])
        for layer in self.layers:
            both = layer(both, src_mask=mask, is_causal=True)
        logits: Tensor = self.out(self.norm(both[:, ::2])).squeeze(-1)
        return logits


def pretrained(key: Key, steps: int = 800, batch: int = 128, lr: float = 2e-3) -> Annotator:
    """An annotator trained on random rules, each sequence with a memory drawn for it; own labels are drawn evenly."""
    model = Annotator(key.derive("weights"))
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    for step in range(steps):
        at = key.derive("step", step)
        data, rng = drawn(at.derive("data"), batch), at.derive("memory").numpy()
        own = torch.from_numpy(rng.integers(0, 2, (batch, ITEMS)))
        kinds = rng.integers(0, len(get_args(Memory)), batch)
        records = torch.zeros(batch, ITEMS, dtype=torch.long)
        for number, memory in enumerate(get_args(Memory)):
            rows = torch.from_numpy(np.flatnonzero(kinds == number))
            for place in range(ITEMS):
                mine, true = own[rows, place], data.labels[rows, place]
                records[rows, place] = shown(memory, place, mine, true, (mine == true).long())
        loss = functional.binary_cross_entropy_with_logits(model(data.items, records), data.labels.float())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return model.eval().requires_grad_(False)


@torch.no_grad()
def annotated(model: Annotator, data: Batch, memory: Memory, verdicts: Key | None = None) -> Tensor:
    """Whether each label was right, `[N, ITEMS]`; items are labelled in turn, and remembered as `memory` says.

    With `verdicts` it is told right or wrong by the toss of a coin instead.
    """
    count = len(data.items)
    records, right = torch.zeros(count, ITEMS, dtype=torch.long), torch.zeros(count, ITEMS)
    for place in range(ITEMS):
        own = (model(data.items[:, : place + 1], records[:, : place + 1])[:, -1] > 0).long()
        true = data.labels[:, place]
        right[:, place] = (own == true).float()
        verdict = (own == true).long()
        if verdicts is not None:
            verdict = torch.from_numpy(verdicts.derive(place).numpy().integers(0, 2, count))
        records[:, place] = shown(memory, place, own, true, verdict)
    return right


def best_possible(data: Batch) -> Tensor:
    """How often an annotator who knows the rules there are and all labels before is right, `[N, ITEMS]`: Bayes."""
    rules = torch.cat([data.items, 1 - data.items], 2)  # [N, ITEMS, 2 BITS]: what each rule says.
    fits = (rules == data.labels.unsqueeze(2)).long()
    left = torch.cat([torch.ones_like(fits[:, :1]), fits.cumprod(1)[:, :-1]], 1)
    votes = (left * rules).sum(2).double() / left.sum(2)
    said = torch.where(votes == 0.5, 0.5, (votes > 0.5).double())
    return torch.where(data.labels == 1, said, 1 - said)


ANNOTATION_MEMORY = Analysis(
    name="annotation-memory",
    title="What earlier labels in the context are worth to a frozen annotator",
    where="docs/annotation-memory.md",
)
