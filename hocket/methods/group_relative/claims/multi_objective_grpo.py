"""What multi-objective-grpo claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look, relation
from hocket.lab.toys.many_objectives import SEEDS, scored_document, span, trained
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.multi_objective_grpo import MULTI_OBJECTIVE_GRPO, MULTI_OBJECTIVE_GRPO_NORMALISED
from hocket.rewards.judge import NgramModel, fit_scores, heads

claim = Claims("multi-objective-grpo", "derived")


@claim("with all weight on one head it is GRPO on that head")
def one_head_is_grpo() -> Finding:
    """Weight on one head alone, against GRPO on that head."""
    kinds = set()
    for seed in range(10):
        both = scored_document(seed, ("safe", "helpful"))
        one = scored_document(seed, ("safe", "helpful"))
        for row in one["trajectories"]:
            del row["scores"]["helpful"]
        alone = MULTI_OBJECTIVE_GRPO.but({"combine.weights": {"safe": 1.0, "helpful": 0.0}})
        kinds.add(relation(look(alone, both), look(GRPO, one)))
    return Finding(kinds == {"equal"}, f"10 batches: {', '.join(kinds)}")


@claim("the row sums, then normalises: a head in another unit changes it, but not the one that normalises first")
def orders_differ() -> Finding:
    """Both orders on heads of equal and of unequal scale, and when one head's unit changes."""
    changed: dict[str, set[str]] = {"sum first": set(), "normalise first": set(), "between them": set()}
    exact: dict[str, Any] = {"credit.epsilon": 0.0}
    first = MULTI_OBJECTIVE_GRPO.but(exact)
    other = MULTI_OBJECTIVE_GRPO_NORMALISED.but({"combine.epsilon": 0.0})
    for seed in range(6):
        plain = scored_document(seed, ("safe", "helpful"))
        louder = scored_document(seed, ("safe", "helpful"), (1.0, 100.0))
        changed["sum first"].add(relation(look(first, plain), look(first, louder)))
        changed["normalise first"].add(relation(look(other, plain), look(other, louder)))
        changed["between them"].add(relation(look(first, louder), look(other, louder)))
    saw = "; ".join(f"{name}: {', '.join(sorted(kinds))}" for name, kinds in changed.items())
    wanted = {"sum first": {"different"}, "normalise first": {"equal"}, "between them": {"different"}}
    return Finding(changed == wanted, f"a head's unit times 100, 6 batches: {saw}")


def curve(token: int, tokens: int = 7) -> tuple[float, float]:
    """Two objectives on a quarter circle: the more of one, the less of the other."""
    angle = math.pi / 2 * token / (tokens - 1)
    return math.cos(angle), math.sin(angle)


@claim("as the weight of an objective rises its mean never falls: a monotone front", "arXiv:2503.21819", slow=True)
def front_is_monotone() -> Finding:
    """The mean of each objective after training, as the weight of the second rises."""
    world = World(
        questions=1,
        tokens=7,
        horizon=1,
        reward=lambda q, a: 0.0,
        parts={"first": lambda q, a: curve(a[0])[0], "second": lambda q, a: curve(a[0])[1]},
    )
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    firsts, seconds = [], []
    for share in shares:
        recipe = MULTI_OBJECTIVE_GRPO.but({"combine.weights": {"first": 1 - share, "second": share}})
        runs = [trained(world, recipe, seed, 60) for seed in SEEDS]
        firsts.append(fmean([run.expected(lambda q, a: curve(a[0])[0]) for run in runs]))
        seconds.append(fmean([run.expected(lambda q, a: curve(a[0])[1]) for run in runs]))
    noise = 0.02
    rising = all(b > a - noise for a, b in itertools.pairwise(seconds))
    falling = all(b < a + noise for a, b in itertools.pairwise(firsts))
    listed = ", ".join(f"({a:.2f}, {b:.2f})" for a, b in zip(firsts, seconds, strict=True))
    wide = seconds[-1] - seconds[0] > 0.5
    return Finding(rising and falling and wide, f"w = 0 to 1 in quarters, means of 5 seeds: {listed}")


ASPECTS = {"polite": ("please", "thanks"), "safe": ("careful", "warning"), "useful": ("step", "because")}
FILLERS = ("the", "rude", "hack", "blah")
LEXICON = tuple(word for words in ASPECTS.values() for word in words) + FILLERS


def worded(question: int, answer: Answer) -> str:
    """An answer of the lexicon's words."""
    return " ".join(LEXICON[token] for token in answer)


def aspect(name: str, text: str) -> float:
    """The share of a text's words that serve an aspect."""
    words = text.split()
    return sum(word in ASPECTS[name] for word in words) / len(words)


def _aspect(name: str) -> Callable[[int, Answer], float]:
    return lambda q, a: aspect(name, worded(q, a))


def drawn_texts(key: Key, count: int, length: int = 3) -> list[str]:
    """Random texts of the lexicon."""
    rng = key.numpy()
    return [" ".join(LEXICON[int(n)] for n in rng.integers(0, len(LEXICON), length)) for _ in range(count)]


def fitted_heads(noise: float = 0.05) -> tuple[NgramModel, list[float]]:
    """A reward model with a head per aspect, fitted to 300 noisily scored texts, and each head's R2 on 200 others."""
    train, test = drawn_texts(Key.of(0).derive("train"), 300), drawn_texts(Key.of(0).derive("test"), 200)
    wanted = torch.tensor([[aspect(name, text) for name in ASPECTS] for text in train], dtype=torch.float64)
    model = fit_scores(train, wanted + noise * torch.randn(wanted.shape, generator=Key.of(0).torch()), buckets=256)
    truth = torch.tensor([[aspect(name, text) for name in ASPECTS] for text in test], dtype=torch.float64)
    left = (model(test) - truth).square().sum(0) / (truth - truth.mean(0)).square().sum(0)
    return model, (1 - left).tolist()


@claim(
    "a reward model with a head per aspect, fitted to scored texts, raises every true aspect",
    "arXiv:2503.21819",
    slow=True,
)
def learned_heads_raise_every_aspect() -> Finding:
    """GRPO on the summed heads of the fitted model."""
    model, quality = fitted_heads()
    world = World(questions=2, tokens=len(LEXICON), horizon=2, reward=lambda q, a: 0.0, text=worded)
    recipe = MULTI_OBJECTIVE_GRPO.but(rewards=heads(model, dict.fromkeys(ASPECTS, 1.0)))
    rises = []
    for seed in SEEDS:
        bench = Bench(world, recipe, seed)
        before = [bench.expected(_aspect(name)) for name in ASPECTS]
        bench.run(40, every=40)
        after = [bench.expected(_aspect(name)) for name in ASPECTS]
        rises.append([b - a for a, b in zip(before, after, strict=True)])
    total = [sum(rise) for rise in rises]
    saw = f"R2 of the heads on new texts {span(quality)}; summed true aspects rise by {span(total)}"
    means = [fmean([rise[k] for rise in rises]) for k in range(len(ASPECTS))]
    saw += ", each by " + ", ".join(f"{value:.2f}" for value in means) + " (5 seeds)"
    return Finding(min(quality) > 0.8 and min(total) > 0.2 and min(means) > 0, saw)
