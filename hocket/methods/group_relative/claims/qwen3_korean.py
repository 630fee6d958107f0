"""What qwen3-korean claims."""

from __future__ import annotations

import itertools
from typing import Any

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look, relation
from hocket.lab.policy import Tabular
from hocket.lab.toys.judged_answers import SEEDS, span, trained
from hocket.lab.world import Answer, Graded, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.qwen3_korean import QWEN3_KOREAN, LanguageShare
from hocket.rewards.combine import WeightedSum
from hocket.rewards.judge import NoisyJudge

claim = Claims("qwen3-korean", "the gate is ours")


TARGET, FOREIGN = ("hana", "dul", "set", "net"), ("one", "two", "three", "four")
DUMP = 8
"""The token that writes all candidates."""


def wanted(question: int) -> int:
    """The right answer. Of three problems that look alike two have one answer, the third another: 2/3 is the best."""
    return (question + (question // 4 == 2)) % 4


def korean(question: int, answer: Answer) -> str:
    """Two words of thought in either vocabulary, then a number."""
    every = " ".join(map(str, range(4)))
    thought = " ".join(every if token == DUMP else (TARGET + FOREIGN)[token] for token in answer[:2])
    return f"<think>{thought}</think><answer>{every if answer[2] == DUMP else answer[2] % 4}</answer>"


def truly(question: int, answer: Answer) -> float:
    """Whether the answer is the right number and nothing else."""
    return float(answer[2] != DUMP and answer[2] % 4 == wanted(question))


def leaky(question: int, answer: Answer) -> float:
    """Whether the right number stands anywhere."""
    return float(str(wanted(question)) in korean(question, answer))


def tuned(policy: Tabular) -> None:
    """As after the first stage: the commoner answer, and the target's words, are likelier."""
    for kind in range(4):
        policy.logits[policy.row(kind, (0, 0)), [kind, kind + 4]] += 1.5
        for prefix in ((), (0,)):
            policy.logits[policy.row(kind, prefix), :4] += 1.0


@claim(
    "with a leaky verifier plain GRPO learns the leak and true accuracy falls; with the judge it rises and "
    "more than 95% of the thoughts are in the target vocabulary",
    "arXiv:2508.10355",
    slow=True,
)
def judge_stops_the_leak() -> Finding:
    """A verifier that accepts an answer anywhere, with and without a judge that errs in 2 of 100 cases."""
    world = World(
        questions=12,
        tokens=9,
        horizon=3,
        reward=truly,
        text=korean,
        context=lambda question, prefix: (question % 4, len(prefix)),
    )
    rule, language = Graded("correct", leaky), LanguageShare(words=TARGET, weight=0.5)
    judge = NoisyJudge(Graded("truth", truly), 0.02, 0.02, name="judge")
    plain = QWEN3_KOREAN.but(rewards=(rule, language), combine=WeightedSum())
    gated = QWEN3_KOREAN.but(rewards=(rule, judge, language))
    start = Bench(world, GRPO, start=tuned).success()
    right: dict[str, list[float]] = {}
    share: dict[str, list[float]] = {}
    halfway = []
    for name, recipe in (("plain", plain), ("gated", gated)):
        benches = [trained(world, recipe, seed, 50, start=tuned) for seed in SEEDS]
        if name == "gated":
            halfway = [bench.success() for bench in benches]
        benches = [bench.run(50, every=50) for bench in benches]
        right[name] = [bench.success() for bench in benches]
        share[name] = [bench.expected(lambda q, a: sum(token < 4 for token in a[:2]) / 2) for bench in benches]
    saw = (
        f"true accuracy from {start:.2f}: without judge {span(right['plain'])}, with judge {span(halfway)} at half and "
    )
    saw += f"{span(right['gated'])} (0.67 is the most); target's words {span(share['gated'])}"
    rises = min(halfway) > start and min(b - a for a, b in zip(halfway, right["gated"], strict=True)) > -0.02
    fell = max(right["plain"]) < start / 2
    return Finding(fell and rises and min(right["gated"]) > 0.6 and min(share["gated"]) > 0.95, saw)


@claim("nothing is paid unless rule and judge agree")
def gate_bars_everything() -> Finding:
    """Rewards of the eight combinations of rule, judge and language, by hand."""
    rows: list[dict[str, Any]] = []
    known: list[dict[str, Any]] = []
    for number, (rule, judge, words) in enumerate(itertools.product((0.0, 1.0), (0.0, 1.0), (0.25, 0.75))):
        row = {"id": str(number), "group": "g", "logp": [-1.0, -2.0]}
        rows.append({**row, "scores": {"correct": rule, "judge": judge, "language": words}})
        known.append({**row, "scores": {"reward": 1.0 + words if rule == judge == 1.0 else 0.0}})
    gated, plain = ({"version": 1, "trajectories": given} for given in (rows, known))
    found = relation(look(QWEN3_KOREAN, gated), look(GRPO, plain))
    return Finding(found == "equal", f"8 combinations: {found}")
