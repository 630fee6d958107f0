"""What gtpo-trajectory claims."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from statistics import fmean

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.token_weights import GRPO, SEEDS, chances, document, logits, same, sample, shown, spread
from hocket.lab.world import Answer, World
from hocket.recipes import find

claim = Claims("gtpo-trajectory", "arXiv 2508.03772 and its code")


GTPO = find("gtpo-trajectory")


@claim("Shared openings and closings get gradient 0 in wrong and double in right completions, undecided ones none.")
def conflict_by_hand() -> Finding:
    """A group whose contested tokens are known."""
    free = GTPO.but({"credit.cost": 0.0})
    rows = document(
        sample("a", 1.0, [-1.0] * 4, tokens=[7, 8, 1, 9], entropy=[0.1] * 4),
        sample("a", 0.0, [-1.0] * 4, tokens=[7, 8, 2, 9], entropy=[0.1] * 4),
        sample("a", 0.0, [-1.0] * 3, tokens=[7, 3, 3], entropy=[0.1] * 3),
        sample("a", 1.0, [-1.0] * 2, tokens=[5, 6], entropy=[0.9] * 2),
    )
    seen, plain = look(free, rows), spread(look(GRPO, rows)["advantages"])
    high, low = plain[0], plain[1]
    # Right: 7 8 shared from the start, 9 from the end, n = 3; wrong: likewise, and 7 alone. The fourth is undecided.
    right = [2 * high / 3, 2 * high / 3, high / 3, 2 * high / 3]
    expected: list[list[float]] = [right, [0, 0, low / 3, 0], [0, low, low], [0, 0]]
    length = [4, 4, 3, 2]
    slopes = [[-a / n / 4 for a in row] for row, n in zip(expected, length, strict=True)]
    holds = same(seen["advantages"], expected) and same(seen["gradient"], slopes)
    paid = look(GTPO, rows)["advantages"]
    holds &= same(paid[0][2], (high - 0.1 * 0.1) / 3) and paid[3] == [0, 0]
    return Finding(holds, f"advantages {[[round(x, 3) for x in row] for row in seen['advantages']]}, as by hand")


TAG, THINK, GOOD, BAD, RAMBLE, STOP = range(6)
LONGEST = 12


class Scaffold(World):
    """Right and wrong answers open with the same tag; wrong ones are short, and untagged ones ramble."""

    def answers(self) -> Iterator[Answer]:
        yield (TAG, BAD, STOP)
        yield (TAG, THINK, THINK, GOOD, STOP)
        yield (TAG, THINK, THINK, BAD, STOP)
        yield from ((RAMBLE,) * length + (STOP,) for length in range(1, LONGEST))
        yield (RAMBLE,) * LONGEST


def scaffold(question: int, prefix: Answer) -> Hashable:
    """What the next token may depend on."""
    if not prefix or prefix[0] != TAG:
        return "ramble" if prefix else "first"
    return ("thought", len(prefix)) if len(prefix) > 1 and prefix[1] == THINK else ("tagged", len(prefix) > 1)


def scaffolded(policy: Tabular) -> None:
    """Mostly tagged, mostly wrong."""
    logits(policy, 0, (), {TAG: 0.8, RAMBLE: 0.2}, 1e-7)
    logits(policy, 0, (RAMBLE,), {RAMBLE: 0.97, STOP: 0.03}, 1e-7)
    logits(policy, 0, (TAG,), {THINK: 0.1, BAD: 0.9}, 1e-7)
    logits(policy, 0, (TAG, BAD), {STOP: 1.0}, 1e-7)
    logits(policy, 0, (TAG, THINK), {THINK: 1.0}, 1e-7)
    logits(policy, 0, (TAG, THINK, THINK), {GOOD: 0.9, BAD: 0.1}, 1e-7)
    logits(policy, 0, (TAG, THINK, THINK, GOOD), {STOP: 1.0}, 1e-7)


@claim(
    "Tags shared by right and wrong answers do not dip by the conflict mask, but do under GRPO; entropy is held.",
    "arXiv 2508.03772",
    slow=True,
)
def tags_do_not_dip() -> Finding:
    """The tag's probability during training."""

    def reward(question: int, answer: Answer) -> float:
        return float(answer == (TAG, THINK, THINK, GOOD, STOP))

    world = Scaffold(questions=1, tokens=6, horizon=LONGEST, reward=reward, end=STOP, context=scaffold)
    runs = {"grpo": GRPO, "gtpo": GTPO, "gtpo without entropy cost": GTPO.but({"credit.cost": 0.0})}
    lowest: dict[str, list[float]] = {}
    most: dict[str, list[float]] = {}
    for (name, recipe), seed in itertools.product(runs.items(), SEEDS):
        bench = Bench(world, recipe.but({"rollout.samples": 16}), seed=seed, lr=0.05, start=scaffolded)
        before, tags, entropies = bench.entropy(), [], []
        opening = float(chances(bench)[TAG])
        for step in range(60):
            bench.step()
            tags.append(float(chances(bench)[TAG]))
            entropies += [bench.entropy()] if step % 10 == 9 else []
        lowest.setdefault(name, []).append(min(tags) - opening)
        most.setdefault(name, []).append(max(entropies) - before)
    holds = fmean(lowest["grpo"]) < -0.01 and min(lowest["gtpo without entropy cost"]) >= 0
    holds &= fmean(lowest["gtpo"]) > fmean(lowest["grpo"]) and max(most["gtpo"]) < 0.1
    return Finding(
        holds,
        f"lowest probability of the tag, minus the start's 0.8: GRPO {shown(lowest['grpo'])}, conflict mask alone "
        f"{shown(lowest['gtpo without entropy cost'])}, whole method {shown(lowest['gtpo'])} (its cost 0.1 H_i pushes "
        f"down groups without a right answer); highest entropy minus the start's {shown(most['gtpo'])}",
    )
