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
    ITEMS,
    SHOTS,
    Annotator,
    Memory,
    annotated,
    best_possible,
    drawn,
    pretrained,
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
def with_true_labels_or_right_and_wrong_on_its_own_accuracy_rises() -> Finding:
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
def with_its_own_labels_alone_it_rises_less_and_without_memory_not() -> Finding:
    rise = {
        memory: [float(accuracy(seed, memory)[-1] - accuracy(seed, memory)[0]) for seed in SEEDS]
        for memory in get_args(Memory)
    }
    flat = max(abs(float(one)) for seed in SEEDS for one in accuracy(seed, "none") - 0.5)
    less = max(rise["own"]) < min(rise["feedback"]) - 0.3
    return Finding(less and flat < NOISE, say(rise=rise, without_memory_off_one_half_by=flat))


@claim("Told right or wrong by the toss of a coin it gains nothing.", slow=True)
def told_right_or_wrong_by_the_toss_of_a_coin_it_gains_nothing() -> Finding:
    off = [float((accuracy(seed, "feedback", True) - 0.5).abs().max()) for seed in SEEDS]
    return Finding(max(off) < NOISE, say(off_one_half_by=off))


@claim("A few examples help, and memory that goes on helps more.", slow=True)
def a_few_examples_help_and_memory_that_goes_on_helps_more() -> Finding:
    few = [float(accuracy(seed, "few-shot")[SHOTS:].mean()) for seed in SEEDS]
    more = [float(accuracy(seed, "feedback")[SHOTS:].mean()) for seed in SEEDS]
    holds = min(few) > 0.5 + NOISE and min(more) > max(few) + NOISE
    return Finding(holds, say(few_shot=few, memory_reinforcement=more))


@claim("The best possible is Bayes' rule over all rules, counted one by one.", "derived")
def the_best_possible_is_bayes_rule_over_all_rules_counted_one_by() -> Finding:
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


@claim(
    "The annotator is two layers of causal attention by hand in float64, of weights of variance 1 / inputs.", "derived"
)
def the_annotator_is_two_layers_of_causal_attention_by_hand_in() -> Finding:
    def by_hand(net: Annotator, items: Tensor, records: Tensor) -> Tensor:
        """The logits in float64, head by head."""
        held = {name: one.detach().double() for name, one in net.named_parameters()}

        def linear(name: str, x: Tensor) -> Tensor:
            return x @ held[f"{name}.weight"].T + held[f"{name}.bias"]

        def normed(name: str, x: Tensor) -> Tensor:
            middle = x - x.mean(-1, keepdim=True)
            scaled = middle / (middle.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            return scaled * held[f"{name}.weight"] + held[f"{name}.bias"]

        told, table = linear("bits", 2 * items.double() - 1), held["record.weight"]
        x = torch.stack([told + table[7], told + table[records]], 2).flatten(1, 2)
        later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        for layer in ("layers.0", "layers.1"):
            seen, mixed = normed(f"{layer}.norm1", x), list[Tensor]()
            weight, bias = held[f"{layer}.self_attn.in_proj_weight"], held[f"{layer}.self_attn.in_proj_bias"]
            query, key, value = (seen @ weight.T + bias).chunk(3, -1)
            for head in range(4):
                part = slice(16 * head, 16 * head + 16)
                score = query[..., part] @ key[..., part].transpose(1, 2) / 4
                mixed.append(torch.softmax(score.masked_fill(later, -torch.inf), -1) @ value[..., part])
            x = x + linear(f"{layer}.self_attn.out_proj", torch.cat(mixed, -1))
            x = x + linear(f"{layer}.linear2", linear(f"{layer}.linear1", normed(f"{layer}.norm2", x)).clamp(min=0))
        return linear("out", normed("norm", x[:, ::2])).squeeze(-1)

    net, some = Annotator(Key.of(1)), drawn(Key.of(4), 16)
    records = torch.from_numpy(Key.of(5).numpy().integers(0, 7, some.labels.shape))
    with torch.no_grad():
        off = float((net(some.items, records).double() - by_hand(net, some.items, records)).abs().max())
    sizes, wrong = list[float](), 0
    for name, one in net.named_parameters():
        if one.dim() > 1:
            sizes.append(float(one.detach().std()) * one.shape[1] ** 0.5)
        else:
            wrong += not bool((one == float("norm" in name and "weight" in name)).all())
    return Finding(off < 1e-4 and wrong == 0 and min(sizes) > 0.8 and max(sizes) < 1.2, say(off=off, sizes=sizes))


@claim(
    "A step of training goes by the sign of the slope of the cross-entropy, every sequence with its own memory.",
    "derived",
)
def a_step_of_training_goes_by_the_sign_of_the_slope_of_the_cross() -> Finding:
    """Adam's first step moves whatever has a slope by the rate."""
    key, count = Key.of(6), 64
    trained, begun, at = pretrained(key, steps=1, batch=count), Annotator(key.derive("weights")), key.derive("step", 0)
    data, rng = drawn(at.derive("data"), count), at.derive("memory").numpy()
    own, kinds = rng.integers(0, 2, (count, ITEMS)), rng.integers(0, 5, count)
    records = torch.zeros(count, ITEMS, dtype=torch.long)
    for row, kind in enumerate(kinds.tolist()):
        for place in range(ITEMS):
            mine, true = int(own[row, place]), int(data.labels[row, place])
            few = 4 + 2 * true if place < SHOTS else 0
            records[row, place] = (0, few, 1 + mine, 3 + 2 * mine + (mine == true), 4 + 2 * true)[kind]
    logits = begun(data.items, records)
    chances = torch.where(data.labels == 1, logits.sigmoid(), 1 - logits.sigmoid())
    slopes = torch.autograd.grad(-chances.log().mean(), list(begun.parameters()))
    wrong, moves = 0.0, 0
    for slope, one, other in zip(slopes, begun.parameters(), trained.parameters(), strict=True):
        clear = slope.abs() > 1e-5
        gone = (other - one.detach())[clear] + 2e-3 * slope[clear].sign()
        wrong, moves = max(wrong, float(gone.abs().max())), moves + int(clear.sum())
    still = not any(one.requires_grad for one in trained.parameters()) and not trained.training
    return Finding(wrong < 2e-5 and moves > 10_000 and still, say(off=wrong, moves=moves))


@claim(
    "Items are labelled in turn by the sign of the logit, and each is remembered as the memory says, or by a coin.",
    "derived",
)
def items_are_labelled_in_turn_by_the_sign_of_the_logit_and_each_is() -> Finding:
    some, seen = drawn(Key.of(8), 50), list[Tensor]()

    class First(torch.nn.Module):
        """Says the first bit, and keeps what it was shown."""

        def forward(self, items: Tensor, records: Tensor) -> Tensor:
            seen.append(records.clone())
            return items[..., 0] - 0.4

    says, wrong = some.items[..., 0], 0
    for memory in get_args(Memory):
        for coin in (None, Key.of(9)):
            seen.clear()
            right = annotated(First(), some, memory, coin)  # type: ignore[arg-type]
            true = (says == some.labels).long()
            wrong += not torch.equal(right, true.float()) or len(seen) != ITEMS
            for place in range(1, ITEMS):
                last = seen[place][:, place - 1]
                said = true[:, place - 1]
                if coin is not None:
                    said = torch.from_numpy(coin.derive(place - 1).numpy().integers(0, 2, 50))
                labels = some.labels[:, place - 1]
                due = {"none": 0 * said, "own": 1 + says[:, place - 1], "labels": 4 + 2 * labels}
                due |= {"feedback": 3 + 2 * says[:, place - 1] + said}
                due |= {"few-shot": due["labels"] if place - 1 < SHOTS else due["none"]}
                wrong += not torch.equal(last, due[memory]) or bool(seen[place][:, place].any())
    return Finding(wrong == 0, say(wrong=wrong))


@claim("Within a layer is twice the width, 64.", "chosen here")
def within_a_layer_is_twice_the_width_64() -> Finding:
    shapes = {name: tuple(one.shape) for name, one in Annotator(Key.of(0)).named_parameters()}
    inner = [shapes[f"layers.{layer}.linear1.weight"] for layer in (0, 1)]
    return Finding(inner == [(128, 64)] * 2 and shapes["bits.weight"] == (64, BITS), say(inner=str(inner)))
