"""The claims of the judge-gated reward of Qwen3-Korean."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, below, gap, say
from hocket.lab.microscope import RecordedBatch, inspect, relation
from hocket.lab.policy import Tabular
from hocket.lab.toys.recorded_answers import document
from hocket.lab.toys.training import trained
from hocket.lab.world import Answer, GradedReward, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.qwen3_korean import QWEN3_KOREAN, LanguageShare
from hocket.recipe import Recipe
from hocket.rewards.combine import WeightedSum
from hocket.rewards.judge import NoisyJudge
from hocket.rewards.judging import Answer as Said
from hocket.rewards.judging import Judge, Question
from hocket.train.aio import run_async
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("qwen3-korean", "the gate is ours")
TARGET, FOREIGN = ("hana", "dul", "set", "net"), ("one", "two", "three", "four")
DUMP, EVERY = 8, "0 1 2 3"
"""The token that writes all candidates, and what it writes."""


def wanted(question: int) -> int:
    """The right answer. Of three problems that look alike two have one answer, the third another: 2/3 is the best."""
    return (question + (question // 4 == 2)) % 4


def korean(question: int, answer: Answer) -> str:
    """Two words of thought in either vocabulary, then a number."""
    thought = " ".join(EVERY if token == DUMP else (TARGET + FOREIGN)[token] for token in answer[:2])
    return f"<think>{thought}</think><answer>{EVERY if answer[2] == DUMP else answer[2] % 4}</answer>"


def truly(question: int, answer: Answer) -> float:
    """Whether the answer is the right number and nothing else."""
    return float(answer[2] != DUMP and answer[2] % 4 == wanted(question))


def leaky(question: int, answer: Answer) -> float:
    return float(str(wanted(question)) in korean(question, answer))


def tuned(policy: Tabular) -> None:
    """As after the first stage: the commoner answer, and the target's words, are likelier."""
    for kind in range(4):
        policy.logits[policy.row(kind, (0, 0)), [kind, kind + 4]] += 1.5
        for prefix in ((), (0,)):
            policy.logits[policy.row(kind, prefix), :4] += 1.0


WORLD = World(12, 9, 3, truly, text=korean, context=lambda question, prefix: (question % 4, len(prefix)))


def after(recipe: Recipe) -> tuple[list[float], list[float], list[float]]:
    """Of every seed: true accuracy after 50 and 100 steps, and the share of the target's words at the end."""
    benches = trained(WORLD, recipe, 50, start=tuned)
    halfway, end = ([one.run(more).success() for one in benches] for more in (0, 50))
    return halfway, end, [one.expected(lambda q, a: sum(token < 4 for token in a[:2]) / 2) for one in benches]


@claim(
    "with a leaky verifier plain GRPO learns the leak and true accuracy falls; with the judge it rises and "
    "more than 95% of the thoughts are in the target vocabulary",
    "arXiv:2508.10355",
    slow=True,
)
def with_a_leaky_verifier_plain_grpo_learns_the_leak_and_true() -> Finding:
    rule, language = GradedReward("correct", leaky), LanguageShare(words=TARGET, weight=0.5)
    judge = NoisyJudge(GradedReward("truth", truly), 0.02, 0.02, name="judge")
    start = Bench(WORLD, GRPO, start=tuned).success()
    _, plain, _ = after(QWEN3_KOREAN.but(rewards=(rule, language), combine=WeightedSum()))
    halfway, right, shares = after(QWEN3_KOREAN.but(rewards=(rule, judge, language)))
    rises = min(halfway) > start and min(b - a for a, b in zip(halfway, right, strict=True)) > -0.02
    saw = say(true_accuracy_from=start, without_judge=plain, with_judge_at_half=halfway, at_the_end=right)
    holds = rises and max(plain) < start / 2 and min(right) > 0.6 and min(shares) > 0.95
    return Finding(holds, f"{saw} (0.67 is the most), {say(words_of_the_target=shares)}")


@claim("nothing is paid unless rule and judge agree")
def nothing_is_paid_unless_rule_and_judge_agree() -> Finding:
    given, known = list[dict[str, Any]](), list[dict[str, Any]]()
    for number, (rule, judge, words) in enumerate(itertools.product((0.0, 1.0), (0.0, 1.0), (0.25, 0.75))):
        row = {"id": str(number), "group": "g", "logp": [-1.0, -2.0]}
        given.append({**row, "scores": {"correct": rule, "judge": judge, "language": words}})
        known.append({**row, "scores": {"reward": 1.0 + words if rule == judge == 1.0 else 0.0}})
    kind = relation(inspect(QWEN3_KOREAN, document(given)), inspect(GRPO, document(known)))
    return Finding(kind == "equal", f"8 combinations: {kind}")


@claim(
    "shares of letters and words are counted by hand; thoughts are read alone, an open one too, and nothing has none"
)
def shares_of_letters_and_words_are_counted_by_hand_thoughts_are() -> Finding:
    hangul, words = LanguageShare(), LanguageShare(words=("hana", "dul"))
    whole = LanguageShare(part="all")
    due = [
        (hangul.share("<think>\ud558\ub098 a1</think><answer>abc</answer>"), 2 / 3),
        (whole.share("<think>\ud558\ub098 a1</think>\ub458!"), 3 / 14),
        (hangul.share("\ud558 b<answer>c</answer>"), 1 / 2),
        (hangul.share("<think>12 + 5</think>"), None),
        (words.share("<think>Hana, zwei DUL! one"), 1 / 2),
        (words.share("<think> </think>hana"), None),
    ]
    return Finding(all(found == value for found, value in due), say(shares=str([found for found, _ in due])))


@claim("a response is paid 1 and half the share of the target language where rule and judge agree, by hand, else 0")
def a_response_is_paid_1_and_half_the_share_of_the_target_language() -> Finding:
    class Yes(Judge):
        def ask(self, questions: Sequence[Question]) -> list[Said]:
            return [Said("no" if "Response:\nW" in one.prompt else "yes") for one in questions]

    scenario, nothing = Scenario("g", "3 + 4?", "7"), np.zeros(1)
    texts = [
        "<think>\ud558\ub098 ab</think><answer>7</answer>",
        "<think>\ud558\ub098 ab</think><answer>8</answer>",
        "<think>\ud558\ub098</think><answer>7</answer> of 9",
        "W<think>\ud558\ub098</think><answer>7</answer>",
    ]
    turns = [Turn("policy", "policy", observation=nothing, action=nothing, text=text) for text in texts]
    tried, found = [Trajectory(scenario, [turn]) for turn in turns], list[list[float]]()
    for judge in (None, Yes("yes")):
        recipe = QWEN3_KOREAN.but({"rewards.1.judge": judge})
        scores = {one.name: run_async(one(tried, key=Key.of(0))) for one in recipe.rewards}.items()
        rows = [
            {"group": "g", "logp": [-1.0], "scores": {name: float(given[n] or 0.0) for name, given in scores}}
            for n in range(len(texts))
        ]
        weights = {one.name: one.weight for one in recipe.rewards}
        batch, _ = recipe.compute_credit(RecordedBatch(document(rows)).batch, recipe.init(), weights)
        found.append(returns(batch).tolist())
    return below(1e-6, by_rule=gap(found[0], [1.25, 0.0, 0.0, 1.5]), by_judge=gap(found[1], [1.25, 0.0, 1.5, 0.0]))


claim.spares("qwen3-korean: rewards.1.weight = 40.0", "passing the gates is paid once, by the first one's weight")
claim.spares("qwen3-korean: rewards.1.weight = 0.0", "passing the gates is paid once, by the first one's weight")
claim.spares("qwen3-korean: rewards.1.rule.weight = 40.0", "passing the gates is paid once, by the first one's weight")
claim.spares("qwen3-korean: rewards.1.rule.weight = 0.0", "passing the gates is paid once, by the first one's weight")
claim.shipped(QWEN3_KOREAN, "rewards", settings={"judge": "nano"})
