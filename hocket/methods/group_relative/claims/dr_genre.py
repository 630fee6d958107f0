"""What dr-genre claims."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from statistics import fmean

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look, relation
from hocket.lab.toys.many_objectives import SEEDS, scored_document, trained
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.dr_genre import DR_GENRE
from hocket.rewards.judge import TextJudge, fit_preferences, fit_scores, heads, pair_accuracy

claim = Claims("dr-genre", "derived")


OBJECTIVES = ("agree", "coherent", "concise")


@claim("with one-hot weights it is training on that objective")
def one_hot_is_one_objective() -> Finding:
    """Weight 1 on one objective per task, against the recipe given that objective's score alone."""
    kinds = set()
    picks = {"fix": "agree", "shorten": "concise"}
    hot = {task: {name: float(name == chosen) for name in OBJECTIVES} for task, chosen in picks.items()}
    for seed in range(10):
        several, single = scored_document(seed, OBJECTIVES), scored_document(seed, OBJECTIVES)
        for one, other in zip(several["trajectories"], single["trajectories"], strict=True):
            task = "fix" if one["group"].endswith("0") else "shorten"
            one["info"] = {"metadata": {"task": task}}
            other["scores"] = {"reward": other["scores"][picks[task]]}
        kinds.add(relation(look(DR_GENRE.but({"combine.weights": hot}), several), look(DR_GENRE, single)))
    return Finding(kinds == {"equal"}, f"10 batches of two tasks: {', '.join(kinds)}")


def tilted(logits: Tensor, reward: Tensor, beta: float) -> Tensor:
    """`pi_ref exp(r / beta) / Z`, `[M]`."""
    return torch.softmax(torch.log_softmax(logits, 0) + reward / beta, 0)


@claim("pi_ref exp(r/beta)/Z is a fixed point, and there dE[r_k]/dw_k = Var(r_k)/beta, never negative")
def tilted_policy_is_the_optimum() -> Finding:
    """The policy pi_ref exp(r/beta)/Z over nine answers of two tokens, and how E[r_k] moves with w_k there."""
    rng = Key.of(0).derive("tilted").torch()
    beta, credit, slope = 0.05, 0.0, 0.0
    recipe = DR_GENRE.but({"shaping.0.coefficient": beta})
    for _ in range(5):
        logits, scores = torch.randn(9, generator=rng).double(), torch.rand(3, 9, generator=rng).double() * beta * 4
        share = torch.rand(3, generator=rng).double().requires_grad_()
        best = tilted(logits, (share[:, None] * scores).sum(0), beta)
        rows = [
            {
                "group": "all",
                "scores": {name: float(scores[k, n]) for k, name in enumerate(OBJECTIVES)},
                "logp": _stepwise(best.detach(), n),
                "logp_ref": _stepwise(torch.softmax(logits, 0), n),
                "info": {"task": "x"},
            }
            for n in range(9)
        ]
        weights = {"x": dict(zip(OBJECTIVES, share.tolist(), strict=True))}
        seen = look(recipe.but({"combine.weights": weights}), {"version": 1, "trajectories": rows})
        credit = max(credit, *(abs(value) for row in seen["advantages"] for value in row))
        for k in range(3):
            middle = (best * scores[k]).sum()
            (slopes,) = torch.autograd.grad(middle, share, retain_graph=True)
            spread = (best * (scores[k] - middle).square()).sum()
            slope = max(slope, abs(float(slopes[k]) - float(spread.detach()) / beta))
    return Finding(max(credit, slope) < 1e-10, f"largest advantage there {credit:.1e}; dE[r_k]/dw_k off by {slope:.1e}")


def _stepwise(chances: Tensor, number: int) -> list[float]:
    """The log-probs of both tokens of answer `number` of nine."""
    table = chances.reshape(3, 3)
    first = table[number // 3].sum()
    return [float(first.log()), float((table[number // 3, number % 3] / first).log())]


SWEEP = torch.tensor([[0.0, 0.9, 0.5, 0.2, 0.7], [1.0, 0.1, 0.6, 0.4, 0.8]], dtype=torch.float64)


def _swept(objective: int) -> Callable[[int, Answer], float]:
    return lambda q, a: float(SWEEP[objective, a[0]])


@claim("a sweep of the weights follows the exact trade-off curve in order", slow=True)
def sweep_follows_the_curve() -> Finding:
    """E[r_1], E[r_2] of trained policies against the exact optimum, as w_1 rises from 0 to 1 and w_2 falls."""
    beta, measured, exact = 0.25, [], []
    for share in (0.0, 0.33, 0.67, 1.0):
        weights = {"x": {"first": share, "second": 1 - share}}
        world = World(
            questions=1,
            tokens=5,
            horizon=1,
            reward=lambda q, a: 0.0,
            parts={"first": _swept(0), "second": _swept(1)},
            metadata=lambda q: {"task": "x"},
        )
        recipe = DR_GENRE.but({"combine.weights": weights, "shaping.0.coefficient": beta})
        best = tilted(torch.zeros(5).double(), share * SWEEP[0] + (1 - share) * SWEEP[1], beta)
        exact.append([float((best * SWEEP[k]).sum()) for k in range(2)])
        runs = [trained(world, recipe, seed, 60) for seed in SEEDS]
        measured.append([fmean([run.expected(_swept(k)) for run in runs]) for k in range(2)])
    gap = max(abs(a - b) for one, other in zip(measured, exact, strict=True) for a, b in zip(one, other, strict=True))
    order = all(b[0] > a[0] and b[1] < a[1] for a, b in itertools.pairwise(measured))
    listed = ", ".join(
        f"({a:.2f}, {b:.2f}) of ({c:.2f}, {d:.2f})" for (a, b), (c, d) in zip(measured, exact, strict=True)
    )
    return Finding(order and gap < 0.05, f"trained and exact, means of 5 seeds: {listed}")


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
def decoupled_beats_pooled() -> Finding:
    """Per-task weights of three fitted reward models against one preference model of pooled comparisons."""
    names, texts = list(TASKS), [rewritten(0, (a, b, c)) for a in range(3) for b in range(3) for c in range(3)]
    rng = Key.of(0).derive("pairs").numpy()
    pairs = []
    for _ in range(400):
        left, right = (texts[int(n)] for n in rng.integers(0, len(texts), 2))
        task = names[int(rng.integers(len(names)))]
        gap = target(task, left) - target(task, right)
        if gap != 0:
            pairs.append((left, right) if gap > 0 else (right, left))
    pooled = fit_preferences(pairs, buckets=256)
    separate = fit_scores(texts, torch.tensor([traits(text) for text in texts], dtype=torch.float64), ridge=0.1)
    world = World(
        questions=3,
        tokens=3,
        horizon=3,
        reward=lambda q, a: 0.0,
        text=rewritten,
        context="position",
        metadata=lambda q: {"task": names[q]},
    )
    weights = {task: dict(zip(OBJECTIVES, values, strict=True)) for task, values in TASKS.items()}
    decoupled = DR_GENRE.but({"combine.weights": weights}, rewards=heads(separate, dict.fromkeys(OBJECTIVES, 1.0)))
    scalar = DR_GENRE.but(rewards=(TextJudge(pooled, name="preference"),))
    found: dict[str, list[list[float]]] = {"decoupled": [], "pooled": []}
    for name, recipe in (("decoupled", decoupled), ("pooled", scalar)):
        for seed in SEEDS:
            bench = trained(world, recipe, seed, 60)
            found[name].append([3 * bench.expected(_own(task, number)) for number, task in enumerate(names)])
    means = {name: [fmean([run[k] for run in runs]) for k in range(3)] for name, runs in found.items()}
    saw = (
        f"the pooled model meets {pair_accuracy(pooled, pairs):.0%} of its comparisons; targets, decoupled and pooled: "
    )
    saw += ", ".join(
        f"{task} {a:.2f} and {b:.2f}" for task, a, b in zip(names, means["decoupled"], means["pooled"], strict=True)
    )
    ahead = [a - b for a, b in zip(means["decoupled"], means["pooled"], strict=True)]
    return Finding(min(ahead) > 0.0 and fmean(ahead) > 0.1, saw + " (means of 5 seeds)")


def _own(task: str, question: int) -> Callable[[int, Answer], float]:
    """A task's target on its own question, 0 on the others."""
    return lambda q, a: target(task, rewritten(q, a)) if q == question else 0.0
