"""The hybrid multi-aspect reward's claims."""

from __future__ import annotations

from statistics import fmean

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import SEEDS, say
from hocket.lab.policy import Tabular
from hocket.lab.toys.many_objectives import span, trained
from hocket.lab.toys.toys import Judged
from hocket.lab.world import Answer, Graded, World, answer_of, question_of
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.hybrid_multi_aspect_reward import HYBRID_REWARD
from hocket.recipe import Recipe

claim = Claims("hybrid-multi-aspect-reward", "arXiv:2510.05283")
END = 4
"""The token that ends an answer; its first token is what it claims."""


def claimed(question: int, answer: Answer) -> float:
    """Whether the first token is the question's number."""
    return float(answer[0] == question)


def fond_of_length(question: int, answer: Answer) -> float:
    """A reward model that likes long answers, and on question 1 a wrong one besides."""
    return 0.3 * len(answer) + (0.8 if question == 1 and answer[0] == 2 else 0.6 * claimed(question, answer))


def ending(policy: Tabular) -> None:
    """Ends an answer more often than a uniform policy would."""
    policy.logits[:, END] += 1.0


WORLD = World(questions=4, tokens=5, horizon=5, end=END, reward=claimed, context="position")
MODEL = Graded("model", fond_of_length)
RULE = Judged(lambda one: claimed(question_of(one), answer_of(one)) if question_of(one) < 2 else None)
"""A rule that knows the answers to questions 0 and 1 alone."""


def after(recipe: Recipe) -> list[tuple[float, ...]]:
    """Length, accuracy where checked, and elsewhere, each by seed."""
    benches = [trained(WORLD, recipe, seed, 80, start=ending) for seed in SEEDS]
    lengths = tuple(bench.reading().length for bench in benches)
    checked = tuple(2 * bench.expected(lambda q, a: claimed(q, a) * (q < 2)) for bench in benches)
    return [lengths, checked, tuple(2 * bench.expected(lambda q, a: claimed(q, a) * (q >= 2)) for bench in benches)]


@claim(
    "a reward model that likes long answers inflates length; with the rule, adherence and the length band "
    "length stays, and accuracy is higher where a rule exists and no lower elsewhere",
    slow=True,
)
def _() -> Finding:
    """The reward model alone against rule, adherence (the answer is ended) and length band besides."""
    rewards = (RULE, MODEL, Graded("adherence", lambda q, a: float(a[-1] == END), 0.2))
    hybrid = HYBRID_REWARD.but({"shaping.0.longest": 3.0, "shaping.0.penalty": 1.0}, rewards=rewards)
    start, alone, both = (
        Bench(WORLD, GRPO, start=ending).reading().length,
        after(GRPO.but(rewards=(MODEL,))),
        after(hybrid),
    )
    longer = min(alone[0]) > start + 1 and max(abs(length - start) for length in both[0]) < 1
    better = min(both[1]) > max(alone[1]) + 0.1 and fmean(both[2]) > fmean(alone[2]) - 0.05
    columns = zip(("length", "accuracy where checked", "elsewhere"), alone, both, strict=True)
    saw = "; ".join(f"{name}: {say(model_alone=span(one), hybrid=span(other))}" for name, one, other in columns)
    return Finding(longer and better, f"{say(length_at_first=start)}; {saw}")
