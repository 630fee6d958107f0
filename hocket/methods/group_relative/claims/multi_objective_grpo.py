"""Multi-objective GRPO's claims."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, below, runs, say
from hocket.lab.hand_formulas import CountedAnswer, centred, off, stale_rows, standardised
from hocket.lab.microscope import inspect, relation
from hocket.lab.toys.enumerable_groups import scored_document
from hocket.lab.toys.recorded_answers import line
from hocket.lab.world import Answer, World
from hocket.recipes import GRPO, MULTI_OBJECTIVE_GRPO, MULTI_OBJECTIVE_GRPO_NORMALISED
from hocket.rewards.judge import fit_scores, heads

claim = Claims("multi-objective-grpo", "derived")
HEADS = ("safe", "helpful")


@claim("with all weight on one head it is GRPO on that head")
def with_all_weight_on_one_head_it_is_grpo_on_that_head() -> Finding:
    alone, kinds = MULTI_OBJECTIVE_GRPO.but({"combine.weights": {"safe": 1.0, "helpful": 0.0}}), set()
    for seed in range(10):
        both, one = scored_document(seed, HEADS), scored_document(seed, HEADS)
        for row in one["trajectories"]:
            del row["scores"]["helpful"]
        kinds.add(relation(inspect(alone, both), inspect(GRPO, one)))
    return Finding(kinds == {"equal"}, f"10 batches: {', '.join(kinds)}")


@claim("the row sums, then normalises: a head in another unit changes it, but not the one that normalises first")
def the_row_sums_then_normalises_a_head_in_another_unit_changes_it() -> Finding:
    first = MULTI_OBJECTIVE_GRPO.but({"credit.epsilon": 0.0})
    other = MULTI_OBJECTIVE_GRPO_NORMALISED.but({"combine.epsilon": 0.0})
    kinds: dict[str, set[str]] = {name: set() for name in ("sum first", "normalise first", "between them")}
    for seed in range(6):
        plain, louder = scored_document(seed, HEADS), scored_document(seed, HEADS, (1.0, 100.0))
        sides = ((first, plain, first), (other, plain, other), (first, louder, other))
        for some, (left, one, right) in zip(kinds.values(), sides, strict=True):
            some.add(relation(inspect(left, one), inspect(right, louder)))
    saw = "; ".join(f"{name}: {', '.join(sorted(some))}" for name, some in kinds.items())
    holds = list(kinds.values()) == [{"different"}, {"equal"}, {"different"}]
    return Finding(holds, f"a head's unit times 100, 6 batches: {saw}")


@claim("advantages, losses and gradients of both orders are those counted by hand, also where an opinion is missing")
def advantages_losses_and_gradients_of_both_orders_are_those() -> Finding:
    def normal(members: Sequence[CountedAnswer]) -> list[float]:
        total = [0.0] * len(members)
        for name in HEADS:
            known = [n for n, one in enumerate(members) if one.row["scores"].get(name) is not None]
            scores = [replace(members[n], reward=one) for n in known for one in [members[n].row["scores"][name]]]
            for n, value in zip(known, standardised(scores) if scores else [], strict=True):
                total[n] += value
        return centred([replace(one, reward=value) for one, value in zip(members, total, strict=True)])

    gaps = []
    for rows in stale_rows("heads"):
        for number, row in enumerate(rows):
            row["scores"] = {"safe": row["scores"]["reward"] / 3, "helpful": row["value"][0]}
            if number % 4 == 3:
                del row["scores"]["helpful"]
        gaps += [off(MULTI_OBJECTIVE_GRPO, rows), off(MULTI_OBJECTIVE_GRPO_NORMALISED, rows, credit=normal)]
    return below(1e-12, off_by_hand=max(gaps))


PARTS = {
    "first": lambda q, a: math.cos(math.pi / 2 * a[0] / 6),
    "second": lambda q, a: math.sin(math.pi / 2 * a[0] / 6),
}
"""On a quarter circle: the more of one, the less of the other."""


@claim("as the weight of an objective rises its mean never falls: a monotone front", "arXiv:2503.21819", slow=True)
def as_the_weight_of_an_objective_rises_its_mean_never_falls_a() -> Finding:
    world, front, noise = World(1, 7, 1, lambda q, a: 0.0, parts=PARTS), [], 0.02
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        recipe = MULTI_OBJECTIVE_GRPO.but({"combine.weights": {"first": 1 - share, "second": share}})
        (benches,) = runs(world, recipe, steps=60, every=60).values()
        front.append([fmean(bench.expected(measure) for bench in benches) for measure in PARTS.values()])
    monotone = all(b[1] > a[1] - noise and b[0] < a[0] + noise for a, b in itertools.pairwise(front))
    listed = ", ".join(f"({a:.3f}, {b:.3f})" for a, b in front)
    holds = monotone and front[-1][1] - front[0][1] > 0.5
    return Finding(holds, f"w = 0 to 1 in quarters, means of 5 seeds: {listed}")


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


@claim(
    "a reward model with a head per aspect, fitted to scored texts, raises every true aspect",
    "arXiv:2503.21819",
    slow=True,
)
def a_reward_model_with_a_head_per_aspect_fitted_to_scored_texts() -> Finding:
    (train, wanted), (test, truth) = scored("train", 300), scored("test", 200)
    noise = 0.05 * torch.randn(wanted.shape, generator=Key.of(0).torch())
    model = fit_scores(train, wanted + noise, buckets=256)
    quality = (1 - (model(test) - truth).square().sum(0) / (truth - truth.mean(0)).square().sum(0)).tolist()
    world = World(questions=2, tokens=len(LEXICON), horizon=2, reward=lambda q, a: 0.0, text=worded)
    recipe = MULTI_OBJECTIVE_GRPO.but(rewards=heads(model, dict.fromkeys(ASPECTS, 1.0)))
    measures = [partial(aspect, name) for name in ASPECTS]
    before = [Bench(world, recipe).expected(one) for one in measures]
    (benches,) = runs(world, recipe, steps=40, every=40).values()
    rises = [[bench.expected(one) - was for one, was in zip(measures, before, strict=True)] for bench in benches]
    total, means = [sum(rise) for rise in rises], [fmean(column) for column in zip(*rises, strict=True)]
    saw = say(R2_of_the_heads_on_new_texts=quality, summed_true_aspects_rise_by=total, each_on_average_by=line(means))
    return Finding(min(quality) > 0.8 and min(total) > 0.2 and min(means) > 0, saw)


claim.shipped(MULTI_OBJECTIVE_GRPO, without={"combine.weights": {"form": 0.0, "model": 0.0}})
claim.shipped(MULTI_OBJECTIVE_GRPO_NORMALISED, "combine")
