"""What d3s claims."""

from __future__ import annotations

import itertools
import math
from statistics import fmean

import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.token_weights import GRPO, SEEDS, chances, drawn, logits, shown
from hocket.lab.world import World
from hocket.methods.group_relative.d3s import largest_variance
from hocket.recipes import find

claim = Claims("d3s", "arXiv 2509.22115")


D3S = find("d3s")


@claim("The scan of the split point finds the subset of largest variance.", "brute force; the proof is by convexity")
def scan_finds_the_best_subset() -> Finding:
    """The scan against all subsets."""
    noise, worst, tried = Key.of(3).numpy(), 0.0, 0
    for size in range(2, 15):
        values = torch.from_numpy(
            noise.choice([-1.0, -0.5, 0.0, 0.3, 2.0], size) if size % 2 else noise.normal(size=size)
        )
        for number in {1, 2, size // 2, size - 1, size}:
            got = values[largest_variance(values, number)].var(correction=0)
            subsets = torch.tensor(list(itertools.combinations(range(size), number)))
            best = values[subsets].var(dim=1, correction=0).max()
            worst, tried = max(worst, float((best - got).abs())), tried + 1
    return Finding(worst < 1e-12, f"{tried} pairs of n up to 14 and k: largest gap to brute force {worst:.1e}")


@claim("With everything kept it is GRPO to the bit.", "derived")
def everything_kept_is_grpo() -> Finding:
    """Gradients with both shares at 1."""
    full = D3S.but({"credit.samples": 1.0, "credit.decisions": 1.0})
    equal = [look(full, drawn(s))["gradient"] == look(GRPO, drawn(s))["gradient"] for s in range(20)]
    late = look(D3S, {**drawn(0), "state": {"progress": 1.0}})["gradient"] == look(GRPO, drawn(0))["gradient"]
    return Finding(
        all(equal) and late, f"gradients equal to the bit on {sum(equal)} of 20 batches, and at the schedule's end"
    )


@claim("The tokens kept are those of largest |A| H.")
def kept_tokens_are_the_largest() -> Finding:
    """The kept tokens against a sort."""
    held = []
    for seed in range(20):
        batch = drawn(seed)
        seen, plain = look(D3S.but({"credit.samples": 1.0, "credit.decisions": 0.3}), batch), look(GRPO, batch)
        rows = batch["trajectories"]
        product = [
            abs(a) * h
            for row, one in zip(plain["advantages"], rows, strict=True)
            for a, h in zip(row, one["entropy"], strict=True)
        ]
        kept = [weight != 0 for row in seen["weight"] for weight in row]
        number = math.ceil(0.3 * len(product))
        threshold = sorted(product, reverse=True)[number - 1]
        held.append(sum(kept) == number and all(p >= threshold for p, k in zip(product, kept, strict=True) if k))
    return Finding(all(held), f"the top 30 % by |A| H in {sum(held)} of 20 batches")


@claim("Accuracy per token back-propagated is above GRPO's, the final one within a point.", slow=True)
def fewer_tokens_to_the_same() -> Finding:
    """Decisions back-propagated to a success rate."""
    world = World(
        questions=4,
        tokens=4,
        horizon=6,
        reward=lambda question, answer: float(answer[2] == question and answer[4] == (question + 1) % 4),
        context="position",
    )

    def start(policy: Tabular) -> None:
        for question, place in itertools.product(range(4), (0, 1, 3, 5)):
            logits(policy, question, (0,) * place, {0: 0.97}, 0.01)

    def right(bench: Bench) -> float:
        each = [float(chances(bench, q, (0, 0))[q] * chances(bench, q, (0,) * 4)[(q + 1) % 4]) for q in range(4)]
        return fmean(each)

    found: dict[str, list[tuple[float, float]]] = {}
    for name, recipe in (("grpo", GRPO), ("d3s", D3S)):
        for seed in SEEDS:
            bench, used, needed = Bench(world, recipe, seed=seed, lr=0.1, steps=160, start=start), 0, math.inf
            for _ in range(160):
                batch = bench.step().batch
                assert batch is not None
                seen = batch.occurrences
                used += int(((seen.weight != 0) & (seen.advantage != 0)).sum())
                needed = min(needed, used) if right(bench) >= 0.8 else needed
            found.setdefault(name, []).append((needed, right(bench)))
    cost = {name: [a for a, _ in runs] for name, runs in found.items()}
    final = {name: [b for _, b in runs] for name, runs in found.items()}
    holds = max(cost["d3s"]) < min(cost["grpo"]) and min(final["d3s"]) >= min(final["grpo"]) - 0.01
    return Finding(
        holds,
        f"decisions learnt to 80 %: {shown(cost['d3s'], 4)} against GRPO's {shown(cost['grpo'], 4)}; after 160 "
        f"steps {shown(final['d3s'])} against {shown(final['grpo'])}",
    )
