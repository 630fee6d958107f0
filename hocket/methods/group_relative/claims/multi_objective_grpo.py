"""Multi-objective GRPO's claims."""

from __future__ import annotations

import itertools
import math
from functools import partial
from statistics import fmean

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import SEEDS
from hocket.lab.microscope import inspect, relation
from hocket.lab.toys.many_objectives import scored_document, span, trained
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.multi_objective_grpo import MULTI_OBJECTIVE_GRPO, MULTI_OBJECTIVE_GRPO_NORMALISED
from hocket.rewards.judge import NgramModel, fit_scores, heads

claim = Claims("multi-objective-grpo", "derived")
HEADS = ("safe", "helpful")


@claim("with all weight on one head it is GRPO on that head")
def _() -> Finding:
    alone, kinds = MULTI_OBJECTIVE_GRPO.but({"combine.weights": {"safe": 1.0, "helpful": 0.0}}), set()
    for seed in range(10):
        both, one = scored_document(seed, HEADS), scored_document(seed, HEADS)
        for row in one["trajectories"]:
            del row["scores"]["helpful"]
        kinds.add(relation(inspect(alone, both), inspect(GRPO, one)))
    return Finding(kinds == {"equal"}, f"10 batches: {', '.join(kinds)}")


@claim("the row sums, then normalises: a head in another unit changes it, but not the one that normalises first")
def _() -> Finding:
    """Both orders on heads of equal and of unequal scale, and when one head's unit changes."""
    first = MULTI_OBJECTIVE_GRPO.but({"credit.epsilon": 0.0})
    other = MULTI_OBJECTIVE_GRPO_NORMALISED.but({"combine.epsilon": 0.0})
    kinds = []
    for seed in range(6):
        plain, louder = scored_document(seed, HEADS), scored_document(seed, HEADS, (1.0, 100.0))
        pairs = ((first, plain, first), (other, plain, other), (first, louder, other))
        kinds.append([relation(inspect(left, one), inspect(right, louder)) for left, one, right in pairs])
    names = ("sum first", "normalise first", "between them")
    columns = {name: set(column) for name, column in zip(names, zip(*kinds, strict=True), strict=True)}
    saw = "; ".join(f"{name}: {', '.join(sorted(some))}" for name, some in columns.items())
    holds = list(columns.values()) == [{"different"}, {"equal"}, {"different"}]
    return Finding(holds, f"a head's unit times 100, 6 batches: {saw}")


def first(question: int, answer: Answer) -> float:
    """With `second` on a quarter circle: the more of one, the less of the other."""
    return math.cos(math.pi / 2 * answer[0] / 6)


def second(question: int, answer: Answer) -> float:
    return math.sin(math.pi / 2 * answer[0] / 6)


@claim("as the weight of an objective rises its mean never falls: a monotone front", "arXiv:2503.21819", slow=True)
def _() -> Finding:
    """The mean of each objective after training, as the weight of the second rises."""
    world, front, noise = World(1, 7, 1, lambda q, a: 0.0, parts={"first": first, "second": second}), [], 0.02
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        recipe = MULTI_OBJECTIVE_GRPO.but({"combine.weights": {"first": 1 - share, "second": share}})
        benches = [trained(world, recipe, seed, 60) for seed in SEEDS]
        front.append([fmean(bench.expected(measure) for bench in benches) for measure in (first, second)])
    monotone = all(b[1] > a[1] - noise and b[0] < a[0] + noise for a, b in itertools.pairwise(front))
    listed = ", ".join(f"({a:.3f}, {b:.3f})" for a, b in front)
    wide = front[-1][1] - front[0][1] > 0.5
    return Finding(monotone and wide, f"w = 0 to 1 in quarters, means of 5 seeds: {listed}")


ASPECTS = {"polite": ("please", "thanks"), "safe": ("careful", "warning"), "useful": ("step", "because")}
LEXICON = (*itertools.chain(*ASPECTS.values()), "the", "rude", "hack", "blah")


def worded(question: int, answer: Answer) -> str:
    """An answer of the lexicon's words."""
    return " ".join(LEXICON[token] for token in answer)


def aspect(name: str, question: int, answer: Answer) -> float:
    """The share of an answer's words that serve an aspect."""
    return sum(LEXICON[token] in ASPECTS[name] for token in answer) / len(answer)


def scored(name: str, count: int) -> tuple[list[str], Tensor]:
    """Random texts of the lexicon and their aspects, `[count, aspects]`."""
    rng = Key.of(0).derive(name).numpy()
    answers = [tuple(rng.integers(0, len(LEXICON), 3).tolist()) for _ in range(count)]
    scores = [[aspect(name, 0, answer) for name in ASPECTS] for answer in answers]
    return [worded(0, answer) for answer in answers], torch.tensor(scores, dtype=torch.float64)


def fitted_heads(noise: float = 0.05) -> tuple[NgramModel, list[float]]:
    """A reward model with a head per aspect, fitted to 300 noisily scored texts, and each head's R2 on 200 others."""
    (train, wanted), (test, truth) = scored("train", 300), scored("test", 200)
    model = fit_scores(train, wanted + noise * torch.randn(wanted.shape, generator=Key.of(0).torch()), buckets=256)
    left = (model(test) - truth).square().sum(0) / (truth - truth.mean(0)).square().sum(0)
    return model, (1 - left).tolist()


@claim(
    "a reward model with a head per aspect, fitted to scored texts, raises every true aspect",
    "arXiv:2503.21819",
    slow=True,
)
def _() -> Finding:
    """GRPO on the summed heads of the fitted model."""
    (model, quality), rises = fitted_heads(), []
    world = World(questions=2, tokens=len(LEXICON), horizon=2, reward=lambda q, a: 0.0, text=worded)
    recipe = MULTI_OBJECTIVE_GRPO.but(rewards=heads(model, dict.fromkeys(ASPECTS, 1.0)))
    for seed in SEEDS:
        bench = Bench(world, recipe, seed)
        before = [bench.expected(partial(aspect, name)) for name in ASPECTS]
        bench.run(40, every=40)
        rises.append([bench.expected(partial(aspect, name)) - was for name, was in zip(ASPECTS, before, strict=True)])
    total, means = [sum(rise) for rise in rises], [fmean(column) for column in zip(*rises, strict=True)]
    saw = f"R2 of the heads on new texts {span(quality)}; summed true aspects rise by {span(total)}"
    saw += f", each by {', '.join(f'{value:.3f}' for value in means)} (5 seeds)"
    return Finding(min(quality) > 0.8 and min(total) > 0.2 and min(means) > 0, saw)
