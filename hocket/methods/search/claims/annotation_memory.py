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


@claim("A sequence's labels are one bit of its items, perhaps turned round, each rule as likely.", "derived")
def _() -> Finding:
    some, rules = drawn(Key.of(5), 4000), list(itertools.product(range(BITS), (0, 1)))
    fits = torch.stack([(some.items[..., bit] ^ turned == some.labels).all(1) for bit, turned in rules], 1)
    alone = fits[fits.sum(1) == 1].double().mean(0)
    shape = tuple(some.items.shape) == (4000, 12, 4) and set(some.items.flatten().tolist()) == {0, 1}
    even = float((some.items.double().mean((0, 1)) - 0.5).abs().max())
    holds = shape and bool(fits.any(1).all()) and float((alone - 1 / 8).abs().max()) < 0.03 and even < 0.02
    return Finding(holds, say(each_rule=alone.tolist(), share_of_ones_off_one_half=even))


@claim(
    "Of an item it is shown nothing, its own label, that and the verdict, or the true label as if it had been right."
)
def _() -> Finding:
    own, true, verdict = (torch.tensor(one) for one in zip(*itertools.product((0, 1), repeat=3), strict=True))
    wanted = {
        "none": [0] * 8,
        "own": [1 + int(one) for one in own],
        "feedback": [
            {(0, 0): 3, (0, 1): 4, (1, 0): 5, (1, 1): 6}[int(o), int(v)] for o, v in zip(own, verdict, strict=True)
        ],
        "labels": [4 if one == 0 else 6 for one in true],
    }
    right = [shown(memory, 3, own, true, verdict).tolist() == wanted[memory] for memory in wanted]  # type: ignore[arg-type]
    few = [shown("few-shot", place, own, true, verdict).tolist() for place in (0, 1, 2, 3)]
    shots = few == [wanted["labels"]] * 2 + [wanted["none"]] * 2
    return Finding(all(right) and shots and SHOTS == 2, say(memories=len(right)))


@claim(
    "Weights begin with mean 0 and the deviation of one over the root of their inputs, norms with 1, the rest with 0."
)
def _() -> Finding:
    off, still = [], []
    for name, one in Annotator(Key.of(2)).named_parameters():
        if one.dim() > 1:
            off.append(abs(float(one.detach().std(unbiased=False)) * one.shape[1] ** 0.5 - 1) * one.numel() ** 0.5)
        else:
            still.append(float((one.detach() - (1.0 if "norm" in name and "weight" in name else 0.0)).abs().max()))
    return Finding(max(off) < 4 and max(still) == 0, say(deviations_off_in_standard_errors=off, others_off=max(still)))


@claim(
    "It answers at an item's question, from it and from pairs of question and record before it, one by one.", "derived"
)
def _() -> Finding:
    net, gaps = Annotator(Key.of(1)), []
    some = drawn(Key.of(6), 4)
    records = torch.randint(0, 7, (4, 5), generator=torch.Generator().manual_seed(1))
    found = net(some.items[:, :5], records)
    for row, place in itertools.product(range(4), range(5)):
        told = [net.bits(torch.tensor([1.0 if bit else -1.0 for bit in item])) for item in some.items[row, : place + 1]]
        seen = []
        for number in range(place):
            seen += [told[number] + net.record.weight[7], told[number] + net.record.weight[records[row, number]]]
        both = torch.stack([*seen, told[place] + net.record.weight[7]])[None]
        mask = torch.full((len(both[0]),) * 2, -torch.inf).triu(1)
        for layer in net.layers:
            both = layer(both, src_mask=mask)
        gaps.append(abs(float((net.out(net.norm(both[0, -1])) - found[row, place]).detach())))
    return Finding(max(gaps) < 1e-5, say(largest_difference=max(gaps)))


@claim(
    "It labels in turn and remembers what it is shown, with verdicts true or tossed, sequence by sequence.", "derived"
)
def _() -> Finding:
    net, some, gaps = Annotator(Key.of(4)).eval().requires_grad_(False), drawn(Key.of(8), 4), 0
    for memory, coin in itertools.product(get_args(Memory), (None, Key.of(3))):
        found = annotated(net, some, memory, coin)
        for row in range(4):
            records: list[int] = []
            for place in range(len(some.labels[row])):
                seen = torch.tensor([[*records, 0]])
                own = int(float(net(some.items[row : row + 1, : place + 1], seen)[0, -1]) > 0)
                true = int(some.labels[row, place])
                verdict = int(own == true)
                gaps += int(found[row, place]) != verdict
                if coin is not None:
                    verdict = int(coin.derive(place).numpy().integers(0, 2, 4)[row])
                three = (torch.tensor([one]) for one in (own, true, verdict))
                records.append(int(shown(memory, place, *three)[0]))
    return Finding(gaps == 0, say(labels_that_differ=gaps))


@claim(
    "It is trained by Adam at 2e-3 on logits of true labels, each sequence with a memory of even labels drawn for it."
)
def _() -> Finding:
    key = Key.of(11)
    found, net = pretrained(key, 2, 6), Annotator(key.derive("weights"))
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(2):
        at = key.derive("step", step)
        data, rng = drawn(at.derive("data"), 6), at.derive("memory").numpy()
        own, kinds = rng.integers(0, 2, (6, 12)), rng.integers(0, 5, 6)
        records = torch.zeros(6, 12, dtype=torch.long)
        for row, place in itertools.product(range(6), range(12)):
            mine, true = int(own[row, place]), int(data.labels[row, place])
            three = (torch.tensor(one) for one in (mine, true, int(mine == true)))
            records[row, place] = shown(get_args(Memory)[kinds[row]], place, *three)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(data.items, records), data.labels.float())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    pairs = zip(found.parameters(), net.parameters(), strict=True)
    off = max(float((one - other.detach()).abs().max()) for one, other in pairs)
    fixed = not any(one.requires_grad for one in found.parameters()) and not found.training
    return Finding(off < 1e-6 and fixed, say(largest_difference=off))


@claim("Between its layers it is twice as wide as within them, four heads look back, and nothing is dropped.")
def _() -> Finding:
    first = Annotator(Key.of(0)).layers[0]
    found = (first.linear1.out_features, first.linear1.in_features, first.self_attn.num_heads, first.dropout.p)  # type: ignore[union-attr]
    return Finding(found == (128, 64, 4, 0.0), say(found=str(found)))
