"""What edge-grpo claims."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.token_weights import GRPO, SEEDS, document, drawn, logits, same, sample, shown, spread
from hocket.lab.world import Answer, World
from hocket.recipes import find

claim = Claims("edge-grpo", "derived")


EDGE = find("edge-grpo")


@claim("With equal entropies nothing changes.")
def equal_entropies_change_nothing() -> Finding:
    """Advantages where all entropies are equal."""
    flat = drawn(1)
    for row in flat["trajectories"]:
        row["entropy"] = [0.7] * len(row["logp"])
    equal = same(look(EDGE, flat)["advantages"], look(GRPO, flat)["advantages"])
    return Finding(equal, "A' = A where every H_i is 0.7")


@claim(
    "A' = A fmean(H)/H_i never changes a sign, and entropies are constants.",
    "arXiv 2507.21848, entropy-driven advantage",
)
def entropy_scales_without_turning() -> Finding:
    """Advantages against GRPO's times fmean(H)/H_i."""
    held = []
    for seed in range(30):
        batch = drawn(seed)
        ours, plain = look(EDGE, batch), look(GRPO, batch)
        signs = [[math.copysign(1, x) if x else 0 for x in row] for row in ours["advantages"]]
        before = [[math.copysign(1, x) if x else 0 for x in row] for row in plain["advantages"]]
        entropies = [fmean(row["entropy"]) for row in batch["trajectories"]]
        factor = [min(10.0, max(0.1, fmean(entropies) / one)) for one in entropies]
        expected = [[a * f for a in row] for row, f in zip(plain["advantages"], factor, strict=True)]
        held.append(signs == before and same(ours["advantages"], expected) and "gradient_entropy" not in ours)
    return Finding(
        all(held), f"signs kept, A fmean(H)/H_i by hand, no gradient in the entropies on {sum(held)} of 30 batches"
    )


@claim("Entropy alone cannot revive a group of equal rewards, a corrected sample can.", "arXiv 2507.21848")
def entropy_alone_revives_nothing() -> Finding:
    """An all-wrong group, and the same with one corrected sample."""
    rows = [sample("a", 0.0, [-1.0] * n, entropy=[0.3 * n] * n) for n in (1, 2, 3)]
    dead = look(EDGE, document(*rows))["advantages"]
    alive = look(EDGE, document(*rows, sample("a", 1.0, [-1.0, -2.0], trained=[False, True])))["advantages"]
    holds = not any(x for row in dead for x in row) and all(row[0] < 0 for row in alive[:3]) and alive[3][1] > 0
    return Finding(holds, f"all wrong: {shown(spread(dead))}; with a corrected sample: {shown([r[-1] for r in alive])}")


WAIT, FULL_STOP = 4, 5


def second_thoughts() -> tuple[World, Callable[[Tabular], None]]:
    """Answers that may be taken back once: hard at the first attempt, easier at the second, which is rarely made."""

    def right(question: int, answer: Answer) -> float:
        if answer[-1] != FULL_STOP or len(answer) not in (2, 4) or (len(answer) == 4 and answer[1] != WAIT):
            return 0.0
        return float(answer[-2] == question)

    def start(policy: Tabular) -> None:
        for question in range(4):
            first = dict.fromkeys(range(4), 1 / 3) | {question: 1e-5}
            logits(policy, question, (), first, 1e-4)
            again = dict.fromkeys(range(4), 0.28) | {question: 0.16}
            logits(policy, question, (0, WAIT), again, 1e-4)
            for token in range(4):
                logits(policy, question, (token,), {FULL_STOP: 0.99, WAIT: 0.01}, 1e-4)
                logits(policy, question, (0, WAIT, token), {FULL_STOP: 1.0}, 1e-4)

    words = ("0", "1", "2", "3", "w", ".")
    return World(questions=4, tokens=6, horizon=4, reward=right, end=FULL_STOP, words=words, context="last"), start


@claim(
    "Variance of advantages and accuracy on hard questions are above GRPO's at equal rollouts.",
    "arXiv 2507.21848, results",
    slow=True,
)
def correction_finds_what_sampling_misses() -> Finding:
    """Training where a first attempt is hopeless and a second one rare."""
    world, start = second_thoughts()
    edge = EDGE.but({"rollout.cues": ("w",)})
    rollouts = GRPO.but({"rollout.samples": 12})  # As many as 8 and the 4 continuations of half of 8 wrong ones.
    success: dict[str, list[float]] = {}
    variance: dict[str, list[float]] = {}
    for name, recipe in (("edge", edge), ("grpo", rollouts)):
        for seed in SEEDS:
            bench = Bench(world, recipe, seed=seed, lr=0.1, start=start)
            seen = []
            for _ in range(80):
                batch = bench.step().batch
                assert batch is not None
                seen.append(float(batch.occurrences.advantage[batch.last()].var()))
            success.setdefault(name, []).append(bench.success())
            variance.setdefault(name, []).append(fmean(seen[:40]))
    holds = min(success["edge"]) > fmean(success["grpo"]) and min(variance["edge"]) > max(variance["grpo"])
    return Finding(
        holds,
        f"hard questions, 80 steps of 12 rollouts: accuracy {shown(success['edge'])} against GRPO's "
        f"{shown(success['grpo'])}; variance of advantages {shown(variance['edge'])} against {shown(variance['grpo'])}",
    )
