"""What is claimed of memory in annotation."""

from __future__ import annotations

import itertools
from functools import cache
from typing import get_args

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.methods.search.annotation_memory import (
    BITS,
    SHOTS,
    Annotator,
    Memory,
    annotated,
    best_possible,
    drawn,
    pretrained,
    shown,
)

claim = Claims("annotation-memory", "the paper's comparison, with the catalogue's small annotator")
SEEDS = (0, 1)
SEQUENCES = drawn(Key.of(100).derive("sequences"), 1000)
NOISE = 0.06
"""Four standard errors of a share of 1000 near one half."""


@cache
def model(seed: int) -> Annotator:
    return pretrained(Key.of(seed).derive("annotator"))


@cache
def accuracy(seed: int, memory: Memory, coin: bool = False) -> Tensor:
    """By item."""
    return annotated(model(seed), SEQUENCES, memory, Key.of(7) if coin else None).mean(0)


@claim(
    "With true labels, or right and wrong on its own, accuracy rises item by item, to what is best possible.", slow=True
)
def _() -> Finding:
    best = best_possible(SEQUENCES).mean(0)
    rises, behind, last = [], [], []
    for seed, memory in itertools.product(SEEDS, ("labels", "feedback")):
        found = accuracy(seed, memory)
        behind.append(float((best - found).max()))
        rises.append(float(found[-1] - found[0]))
        last.append(float(found[-1]))
    holds = min(rises) > 0.4 and max(behind) < NOISE and min(last) > 0.95
    return Finding(holds, say(rise=rises, at_the_last_item=last, behind_the_best_by_at_most=behind))


@claim("With its own labels alone it rises less, and without memory not at all.", slow=True)
def _() -> Finding:
    rise = {
        memory: [float(accuracy(seed, memory)[-1] - accuracy(seed, memory)[0]) for seed in SEEDS]
        for memory in get_args(Memory)
    }
    flat = max(abs(float(one)) for seed in SEEDS for one in accuracy(seed, "none") - 0.5)
    less = max(rise["own"]) < min(rise["feedback"]) - 0.3
    return Finding(less and flat < NOISE, say(rise=rise, without_memory_off_one_half_by=flat))


@claim("Told right or wrong by the toss of a coin it gains nothing.", slow=True)
def _() -> Finding:
    off = [float((accuracy(seed, "feedback", True) - 0.5).abs().max()) for seed in SEEDS]
    return Finding(max(off) < NOISE, say(off_one_half_by=off))


@claim("A few examples help, and memory that goes on helps more.", slow=True)
def _() -> Finding:
    few = [float(accuracy(seed, "few-shot")[SHOTS:].mean()) for seed in SEEDS]
    more = [float(accuracy(seed, "feedback")[SHOTS:].mean()) for seed in SEEDS]
    holds = min(few) > 0.5 + NOISE and min(more) > max(few) + NOISE
    return Finding(holds, say(few_shot=few, memory_reinforcement=more))


@claim("The best possible is Bayes' rule over all rules, counted one by one.", "derived")
def _() -> Finding:
    some, gaps = drawn(Key.of(3), 20), []
    found = best_possible(some)
    for row, (items, labels) in enumerate(zip(some.items.tolist(), some.labels.tolist(), strict=True)):
        rules = list(itertools.product(range(BITS), (0, 1)))
        for place, item in enumerate(items):
            says = [item[bit] ^ turned for bit, turned in rules]
            ones = sum(says) / len(says)
            right = 0.5 if ones == 0.5 else float((ones > 0.5) == bool(labels[place]))
            gaps.append(abs(float(found[row, place]) - right))
            rules = [one for one in rules if item[one[0]] ^ one[1] == labels[place]]
    return Finding(max(gaps) == 0, say(off_the_count=gaps))


@claim("What it is shown of an item never holds the label of a later one, nor more than the memory says.", "derived")
def _() -> Finding:
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
    return Finding(hidden and same and apart, say(hidden=hidden, causal=same, read_later=apart))
