"""What vital-dgrpo claims."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch

from hocket import recipes
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.dialogue import Dialogue, DialogueBench
from hocket.lab.groups import first_advantages, recorded
from hocket.lab.policy import Tabular
from hocket.lab.toys.group_statistics import EXACT, finding, gradients
from hocket.lab.toys.group_statistics_training import SEEDS, choosing, recipe_of, spread, trained
from hocket.lab.world import Answer

claim = Claims("vital-dgrpo", "arXiv:2508.04416, abstract; form chosen here")


@claim("Weights fall with the group's mean, have mean 1, and are 1 when difficulties are equal")
def _difficulty_weights() -> Finding:
    groups = [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]]
    weighed = first_advantages(recipes.find("vital-dgrpo"), recorded(groups))
    plain = first_advantages(recipes.find("grpo"), recorded(groups))
    factors = [a / b for a, b in zip(weighed, plain, strict=True)]
    by_group = factors[::4]
    equal = [groups[1], groups[1][::-1], groups[1]]
    same = torch.equal(
        gradients(recipes.find("vital-dgrpo"), recorded(equal)), gradients(recipes.find("grpo"), recorded(equal))
    )
    return finding(
        f"weights {[round(one, 4) for one in by_group]} at means 1/4, 1/2, 3/4, mean {statistics.fmean(factors):.12f}; "
        f"equal difficulties give GRPO bit for bit: {same}",
        by_group == sorted(by_group, reverse=True),
        abs(statistics.fmean(factors) - 1) < EXACT,
        same,
    )


def _both(bench: Bench) -> tuple[float, float]:
    world = bench.world
    easy, hard = (
        float(bench.policy.expectation(q, [world.reward(q, answer) for answer in world.answers()]).detach())
        for q in (0, 1)
    )
    return easy, hard


@claim(
    "On two tasks that share parameters the hard one grows faster and the easy one loses little",
    "arXiv:2508.04416",
    slow=True,
)
def _difficulty_moves_the_hard_task() -> Finding:
    """One table for two tasks: three of eight answers are right for the easy one, one of them for the hard one."""
    world = choosing(2, 8, lambda q, token: float(token == 5 or (q == 0 and token in (0, 1))), context="shared")

    def start(policy: Tabular) -> None:
        policy.logits[:, 0] += 2.0

    found: dict[str, list[tuple[float, float]]] = {}
    for label, name, changes in (
        ("GRPO", "grpo", None),
        ("DGRPO", "vital-dgrpo", None),
        ("strength 3", "vital-dgrpo", {"credit.weigh.0.strength": 3.0}),
    ):
        found[label] = [_both(trained(name, world, 60, seed, changes, lr=0.03, start=start)) for seed in SEEDS]
    easy = {label: [one[0] for one in rows] for label, rows in found.items()}
    hard = {label: [one[1] for one in rows] for label, rows in found.items()}
    return Finding(
        min(hard["DGRPO"]) > 0
        and statistics.fmean(hard["DGRPO"]) > 1.3 * statistics.fmean(hard["GRPO"])
        and statistics.fmean(easy["DGRPO"]) > statistics.fmean(easy["GRPO"]) - 0.1,
        "; ".join(f"{label}: hard {spread(hard[label], 2)}, easy {spread(easy[label], 2)}" for label in found),
    )


def _frames(frames: int = 2, values: int = 3) -> Dialogue:
    """Videos are lists of integers; a call of frame k shows its number, and the question names the frame."""

    def verdict(question: int, answer: Answer, hidden: Sequence[int]) -> float:
        return float(answer[-1] == frames + hidden[question])

    def reply(question: int, tokens: Answer, hidden: Sequence[int]) -> int | None:
        return frames + hidden[tokens[0]] if len(tokens) == 1 and tokens[0] < frames else None

    return Dialogue(
        *(frames, frames + values, 3, lambda question, answer: 0.0),
        reply=reply,
        hide=lambda question, key: [key.derive(k).word % values for k in range(frames)],
        verdict=verdict,
        over=lambda question, tokens: len(tokens) == 1 and tokens[0] >= frames,
    )


@claim("It learns to look up the frame a question is about, on videos of integers", "derived here", slow=True)
def _frame_tool() -> Finding:
    benches = [DialogueBench(_frames(), recipe_of("vital-dgrpo"), seed=seed, lr=0.1) for seed in SEEDS]
    for bench in benches:
        bench.run(140, every=140)
    first = [bench.history[0]["reward/mean"] for bench in benches]
    last = [bench.earned(10) for bench in benches]
    return Finding(
        min(last) > 0.6 and statistics.fmean(last) > 0.8,
        f"right answers about a frame: first step {spread(first, 2)}, last ten {spread(last, 2)}",
    )
