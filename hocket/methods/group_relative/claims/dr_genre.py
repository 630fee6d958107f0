"""Dr. Genré's claims."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, gap, inspect_rows, runs, say
from hocket.lab.hand_formulas import CountedAnswer, centred, off, stale_rows
from hocket.lab.microscope import inspect, relation
from hocket.lab.theory import tilted
from hocket.lab.toys.enumerable_groups import scored_document
from hocket.lab.toys.recorded_answers import lines
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.dr_genre import DR_GENRE
from hocket.rewards.judge import TextJudge, fit_preferences, fit_scores, heads, pair_accuracy

claim = Claims("dr-genre", "derived")

OBJECTIVES = ("agree", "coherent", "concise")


@claim("with one-hot weights it is training on that objective")
def with_one_hot_weights_it_is_training_on_that_objective() -> Finding:
    kinds, picks = set(), {"fix": "agree", "shorten": "concise"}
    hot = {task: {name: float(name == chosen) for name in OBJECTIVES} for task, chosen in picks.items()}
    for seed in range(10):
        several, single = scored_document(seed, OBJECTIVES), scored_document(seed, OBJECTIVES)
        for one, other in zip(several["trajectories"], single["trajectories"], strict=True):
            task = "fix" if one["group"].endswith("0") else "shorten"
            one["info"] = {"metadata": {"task": task}}
            other["scores"] = {"reward": other["scores"][picks[task]]}
        kinds.add(relation(inspect(DR_GENRE.but({"combine.weights": hot}), several), inspect(DR_GENRE, single)))
    return Finding(kinds == {"equal"}, f"10 batches of two tasks: {', '.join(kinds)}")


@claim("advantages, loss and gradient are those counted by hand, of weights per task less 0.05 of the log-ratio")
def advantages_loss_and_gradient_are_those_counted_by_hand_of() -> Finding:
    def credit(members: Sequence[CountedAnswer]) -> list[float]:
        earned = []
        for one in members:
            task = one.row["info"].get("task")
            agree = {"fix": 0.3}.get(task, 1.0) * one.row["scores"]["agree"]
            earned.append(agree + one.row["scores"]["concise"] - 0.05 * float((one.old - one.ref).sum()))
        return centred([replace(one, reward=value) for one, value in zip(members, earned, strict=True)])

    gaps, recipe = [], DR_GENRE.but({"combine.weights": {"fix": {"agree": 0.3}, "shorten": {}}})
    for rows in stale_rows("genres"):
        for number, row in enumerate(rows):
            row["scores"] = {"agree": row["scores"]["reward"], "concise": row["value"][0]}
            row["info"] = {"task": ("fix", "shorten", "other")[number % 3]}
        gaps.append(off(recipe, rows, credit=credit))
    return below(1e-12, off_by_hand=max(gaps))


@claim("pi_ref exp(r/beta)/Z is a fixed point, and there dE[r_k]/dw_k = Var(r_k)/beta, never negative")
def pi_ref_exp_z_is_a_fixed_point_and_there_de_r_k_dw_k_var_beta() -> Finding:
    rng, beta, credit, slope = Key.of(0).derive("tilted").torch(), 0.05, 0.0, 0.0

    def stepwise(chances: Tensor, number: int) -> list[float]:
        """The log-probs of both tokens of an answer."""
        row = chances.reshape(3, 3)[number // 3]
        return [float(row.sum().log()), float((row[number % 3] / row.sum()).log())]

    for _ in range(5):
        logits, scores = torch.randn(9, generator=rng).double(), torch.rand(3, 9, generator=rng).double() * beta * 4
        share = torch.rand(3, generator=rng).double().requires_grad_()
        reference = torch.softmax(logits, 0)
        best = tilted(reference, (share[:, None] * scores).sum(0), beta)
        rows: list[dict[str, Any]] = [{"group": "all", "info": {"task": "x"}} for _ in range(9)]
        for n, row in enumerate(rows):
            row |= {"logp": stepwise(best.detach(), n), "logp_ref": stepwise(reference, n)}
            row["scores"] = dict(zip(OBJECTIVES, scores[:, n].tolist(), strict=True))
        weights = {"x": dict(zip(OBJECTIVES, share.tolist(), strict=True))}
        recipe = DR_GENRE.but({"shaping.0.coefficient": beta, "combine.weights": weights})
        credit = max(credit, *(abs(value) for row in inspect_rows(recipe, rows)["advantages"] for value in row))
        for k, score in enumerate(scores):
            middle = (best * score).sum()
            (slopes,) = torch.autograd.grad(middle, share, retain_graph=True)
            slope = max(slope, gap(slopes[k], (best * (score - middle).square()).sum() / beta))
    return below(1e-10, largest_advantage_there=credit, slopes_off=slope)


SWEEP = torch.tensor([[0.0, 0.9, 0.5, 0.2, 0.7], [1.0, 0.1, 0.6, 0.4, 0.8]], dtype=torch.float64)
PARTS = {"first": lambda q, a: float(SWEEP[0, a[0]]), "second": lambda q, a: float(SWEEP[1, a[0]])}


@claim("a sweep of the weights follows the exact trade-off curve in order", slow=True)
def a_sweep_of_the_weights_follows_the_exact_trade_off_curve_in() -> Finding:
    world = World(1, 5, 1, lambda q, a: 0.0, parts=PARTS, metadata=lambda q: {"task": "x"})
    beta, measured, exact = 0.25, [], []
    for share in (0.0, 0.33, 0.67, 1.0):
        weights = {"x": {"first": share, "second": 1 - share}}
        recipe = DR_GENRE.but({"combine.weights": weights, "shaping.0.coefficient": beta})
        best = tilted(torch.full((5,), 0.2).double(), share * SWEEP[0] + (1 - share) * SWEEP[1], beta)
        exact.append([float((best * row).sum()) for row in SWEEP])
        (benches,) = runs(world, recipe, steps=60, every=60).values()
        measured.append([fmean(bench.expected(part) for bench in benches) for part in PARTS.values()])
    order = all(b[0] > a[0] and b[1] < a[1] for a, b in itertools.pairwise(measured))
    (a, b), (c, d) = zip(*measured, strict=True), zip(*exact, strict=True)
    figures = lines(trained_first=a, second=b, exact_first=c, exact_second=d)
    return Finding(order and gap(measured, exact) < 0.05, figures)


TASKS = {"facts": (1.0, 0.5, 0.0), "style": (0.2, 1.0, 0.0), "summary": (0.3, 0.0, 1.0)}
"""Tasks of rewriting and what each wants of agreement, coherence and conciseness."""
WORDS = (("teh", "the", ""), ("cat", "dog", ""), ("sat", "ran", ""))
"""Three words to keep, change or drop; the first is wrong."""


def rewritten(question: int, answer: Answer) -> str:
    """The text after keeping (0), changing (1) or dropping (2) each word."""
    return " ".join(words[choice] for words, choice in zip(WORDS, answer, strict=True) if words[choice])


def traits(text: str) -> tuple[float, float, float]:
    """The error is fixed; the other words are kept; words were saved."""
    words = text.split()
    return float("the" in words), (("cat" in words) + ("sat" in words)) / 2, 1 - len(words) / 3


def target(task: str, text: str) -> float:
    """What a task's own readers want."""
    return sum(weight * trait for weight, trait in zip(TASKS[task], traits(text), strict=True))


@claim(
    "weights per task beat one preference model of pooled comparisons on each task's own target",
    "arXiv:2503.06781",
    slow=True,
)
def weights_per_task_beat_one_preference_model_of_pooled() -> Finding:
    names, texts = list(TASKS), [rewritten(0, answer) for answer in itertools.product(range(3), repeat=3)]
    rng, pairs = Key.of(0).derive("pairs").numpy(), []
    for _ in range(400):
        left, right = (texts[int(n)] for n in rng.integers(0, len(texts), 2))
        task = names[int(rng.integers(len(names)))]
        ahead = target(task, left) - target(task, right)
        pairs += [(left, right)] if ahead > 0 else [(right, left)] if ahead < 0 else []
    pooled = fit_preferences(pairs, buckets=256)
    separate = fit_scores(texts, torch.tensor([traits(text) for text in texts], dtype=torch.float64), ridge=0.1)
    tasks: Any = {"metadata": lambda q: {"task": names[q]}, "context": "position"}
    world = World(3, 3, 3, lambda q, a: 0.0, text=rewritten, **tasks)
    weights = {task: dict(zip(OBJECTIVES, values, strict=True)) for task, values in TASKS.items()}
    decoupled = DR_GENRE.but({"combine.weights": weights}, rewards=heads(separate, dict.fromkeys(OBJECTIVES, 1.0)))
    scalar = DR_GENRE.but(name="pooled", rewards=(TextJudge(pooled, name="preference"),))

    def own(task: str) -> Callable[[int, Answer], float]:
        """A task's target on its own question, 0 on the others."""
        return lambda q, a: target(task, rewritten(q, a)) if names[q] == task else 0.0

    made = runs(world, decoupled, scalar, steps=60, every=60).values()
    ours, pool = ({t: fmean(3 * bench.expected(own(t)) for bench in side) for t in names} for side in made)
    leads = [ours[task] - pool[task] for task in names]
    met = pair_accuracy(pooled, pairs)
    figures = say(comparisons_that_the_pooled_model_meets=met, decoupled=ours, pooled=pool)
    return Finding(min(leads) > 0.0 and fmean(leads) > 0.1, figures)


claim.shipped(DR_GENRE, "credit")
claim.shipped(
    DR_GENRE,
    "shaping",
    steps=2,
    small="a KL to the policy before training is 0 in the first step, and small in the second",
)
claim.shipped(DR_GENRE, "combine", settings={"combine.weights": {"exercise": {"form": 0.0}}})
