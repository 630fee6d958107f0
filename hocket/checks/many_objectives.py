"""Several objectives in one reward: sums, scales, tasks, and a rule beside a model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor

from hocket.checks.check import Check, Finding
from hocket.keys import Key
from hocket.lab import Bench, World
from hocket.lab.documents import random_document
from hocket.lab.policy import Tabular
from hocket.lab.world import Answer, Graded, answer_of, question_of
from hocket.microscope import Reading, look, relation
from hocket.recipe import Recipe
from hocket.recipes.group_relative import GRPO
from hocket.recipes.many_objectives import (
    DR_GENRE,
    HYBRID_REWARD,
    MULTI_OBJECTIVE_GRPO,
    MULTI_OBJECTIVE_GRPO_NORMALISED,
    QUARK,
)
from hocket.rewards import TextJudge
from hocket.rewards.judge import NgramModel, fit_preferences, fit_scores, heads, pair_accuracy
from hocket.stages import Reward
from hocket.types import Level, LevelScores, Trajectory

SEEDS = range(5)


def scored_document(seed: int, names: Sequence[str], scales: Sequence[float] = ()) -> dict[str, Any]:
    """A random batch with uniform scores of these names, times their scales."""
    document = random_document(Key.of(seed).derive("objectives"))
    rng = Key.of(seed).derive("scores").numpy()
    for row in document["trajectories"]:
        drawn = rng.random(len(names))
        row["scores"] = {n: float(x) * s for n, x, s in zip(names, drawn, scales or [1.0] * len(names), strict=True)}
    return document


def trained(world: World, recipe: Recipe, seed: int, steps: int, **settings: Any) -> Bench:
    """A bench after `steps`."""
    return Bench(world, recipe, seed, **settings).run(steps, every=steps)


def span(values: Sequence[float]) -> str:
    """The least and the largest."""
    return f"{min(values):.2f} to {max(values):.2f}"


# ---------------------------------------------------------------- multi-objective-grpo


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


# ---------------------------------------------------------------- quark-medical-alignment


def frozen_scale_is_free_of_units() -> Finding:
    """Three batches in a row, with one source in another unit; then with a source given twice."""
    worst = 0.0
    ratios = []
    for seed in range(6):
        seen = {}
        for unit in (1.0, 1000.0):
            state, rewards = QUARK.init(), []
            for step in range(3):
                batch = Reading(scored_document(seed * 3 + step, ("a", "b", "c"), (1.0, unit, 1.0))).batch
                batch, state = QUARK.assess(batch, state, {"a": 1.0, "b": 1.0, "c": 1.0})
                rewards.append(batch.scores["reward"].values)
            seen[unit] = torch.cat(rewards)
        worst = max(worst, float((seen[1.0] - seen[1000.0]).abs().max()))
        ratios.append(_doubled(seed))
    saw = f"largest change of a reward {worst:.1e}; a source given twice has {span(ratios)} times its weight"
    return Finding(worst < 1e-9 and max(ratios) < 1.5, saw)


def _doubled(seed: int) -> float:
    """How much the total weight of source `a` grows when it is given twice."""
    document = scored_document(seed, ("a", "b", "c"))
    once = _share(document, ("a",))
    for row in document["trajectories"]:
        row["scores"]["again"] = row["scores"]["a"]
    return _share(document, ("a", "again")) / once


def _share(document: Mapping[str, Any], names: Sequence[str]) -> float:
    """The part of the reward that sources `names` have, by how it changes when they are moved by one deviation."""
    batch = Reading(document).batch
    weights = dict.fromkeys(batch.scores, 1.0)
    combine: Any = QUARK.combine
    _, state = combine(batch, weights, combine.init())
    base, _ = combine(batch, weights, state)
    moved = dict(batch.scores)
    for name in names:
        values = batch.scores[name].values + state["deviation"][name]
        moved[name] = LevelScores(Level.TRAJECTORY, values)
    # The move is the same for every trajectory, so correlations stay; only the level changes, which is held.
    held = {**state, "level": {n: v - (0.25 if n in names else 0.0) for n, v in state["level"].items()}}
    shifted, _ = combine(batch.but(scores=moved), weights, held)
    return float((shifted.scores["reward"].values - base.scores["reward"].values).mean())


def tradeoff(token: int) -> tuple[float, float]:
    """A loud objective, 100 times the quiet one: one extreme answer, a compromise, the other extreme, and nothing."""
    return ((100.0, 0.0), (98.0, 0.9), (0.0, 1.0), (20.0, 0.1), (0.0, 0.0))[token]


def worst_objective_is_lifted() -> Finding:
    """Raw sum against frozen scale on a loud and a quiet objective."""
    world = World(
        questions=2,
        tokens=5,
        horizon=1,
        reward=lambda q, a: 0.0,
        parts={"loud": lambda q, a: tradeoff(a[0])[0], "quiet": lambda q, a: tradeoff(a[0])[1]},
    )
    raw = [trained(world, GRPO, seed, 120) for seed in SEEDS]
    # The world's own empty reward is constant, so that it never gets a scale.
    scaled = [trained(world, QUARK, seed, 120) for seed in SEEDS]
    loud = [[run.expected(lambda q, a: tradeoff(a[0])[0] / 100) for run in runs] for runs in (raw, scaled)]
    quiet = [[run.expected(lambda q, a: tradeoff(a[0])[1]) for run in runs] for runs in (raw, scaled)]
    saw = f"quiet objective: raw {span(quiet[0])}, scaled {span(quiet[1])}; loud one: {span(loud[0])}, {span(loud[1])}"
    lifted = min(quiet[1]) > max(quiet[0]) + 0.3
    kept = all(b >= 0.95 * a for a, b in zip(loud[0], loud[1], strict=True))
    return Finding(lifted and kept, saw)


# ---------------------------------------------------------------- dr-genre

OBJECTIVES = ("agree", "coherent", "concise")


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


# ---------------------------------------------------------------- hybrid-multi-aspect-reward

END = 4
"""The token that ends an answer; its first token is what it claims."""


def claimed(question: int, answer: Answer) -> float:
    """Whether the first token is the question's number."""
    return float(answer[0] == question)


def fond_of_length(question: int, answer: Answer) -> float:
    """A reward model that likes long answers, and on question 1 a wrong one besides."""
    fooled = question == 1 and answer[0] == 2
    return 0.3 * len(answer) + (0.8 if fooled else 0.6 * claimed(question, answer))


@dataclass(frozen=True)
class HalfChecked(Reward):
    """A rule that knows the answers to questions 0 and 1 alone."""

    name: str = "correct"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        asked = [(question_of(one), answer_of(one)) for one in trajectories]
        return [claimed(question, answer) if question < 2 else None for question, answer in asked]


def ending(policy: Tabular) -> None:
    """Ends an answer more often than a uniform policy would."""
    policy.logits[:, END] += 1.0


def hybrid_keeps_length() -> Finding:
    """The reward model alone against rule, adherence (the answer is ended) and length band besides."""
    world = World(questions=4, tokens=5, horizon=5, end=END, reward=claimed, context="position")
    model = Graded("model", fond_of_length)
    rewards = (HalfChecked(), model, Graded("adherence", lambda q, a: float(a[-1] == END), 0.2))
    hybrid = HYBRID_REWARD.but({"shaping.0.longest": 3.0, "shaping.0.penalty": 1.0}, rewards=rewards)
    figures: dict[str, list[tuple[float, float, float]]] = {"model": [], "hybrid": []}
    start = Bench(world, GRPO, start=ending).reading().length
    for name, recipe in (("model", GRPO.but(rewards=(model,))), ("hybrid", hybrid)):
        for seed in SEEDS:
            bench = trained(world, recipe, seed, 80, start=ending)
            checked = 2 * bench.expected(lambda q, a: claimed(q, a) * float(q < 2))
            elsewhere = 2 * bench.expected(lambda q, a: claimed(q, a) * float(q >= 2))
            figures[name].append((bench.reading().length, checked, elsewhere))
    alone, both = (list(zip(*figures[name], strict=True)) for name in ("model", "hybrid"))
    saw = f"length from {start:.1f}: model alone {span(alone[0])}, hybrid {span(both[0])}; "
    saw += (
        f"accuracy where checked {span(alone[1])} and {span(both[1])}, elsewhere {span(alone[2])} and {span(both[2])}"
    )
    longer = min(alone[0]) > start + 1 and max(abs(length - start) for length in both[0]) < 1
    better = min(both[1]) > max(alone[1]) + 0.1 and fmean(both[2]) > fmean(alone[2]) - 0.05
    return Finding(longer and better, saw)


# ---------------------------------------------------------------- the checks

CHECKS = (
    Check("multi-objective-grpo", "with all weight on one head it is GRPO on that head", one_head_is_grpo, "derived"),
    Check(
        "multi-objective-grpo",
        "the row sums, then normalises: a head in another unit changes it, but not the one that normalises first",
        orders_differ,
        "derived",
    ),
    Check(
        "multi-objective-grpo",
        "as the weight of an objective rises its mean never falls: a monotone front",
        front_is_monotone,
        "arXiv:2503.21819",
        slow=True,
    ),
    Check(
        "multi-objective-grpo",
        "a reward model with a head per aspect, fitted to scored texts, raises every true aspect",
        learned_heads_raise_every_aspect,
        "arXiv:2503.21819",
        slow=True,
    ),
    Check(
        "quark-medical-alignment",
        "a source in another unit leaves the reward unchanged; a source given twice does not double its weight",
        frozen_scale_is_free_of_units,
        "arXiv:2602.11661; factors as chosen here",
    ),
    Check(
        "quark-medical-alignment",
        "with scales 100:1 a raw sum ignores the quiet objective; the frozen scale lifts it and costs the other < 5%",
        worst_objective_is_lifted,
        "arXiv:2602.11661",
        slow=True,
    ),
    Check("dr-genre", "with one-hot weights it is training on that objective", one_hot_is_one_objective, "derived"),
    Check(
        "dr-genre",
        "pi_ref exp(r/beta)/Z is a fixed point, and there dE[r_k]/dw_k = Var(r_k)/beta, never negative",
        tilted_policy_is_the_optimum,
        "derived",
    ),
    Check(
        "dr-genre",
        "a sweep of the weights follows the exact trade-off curve in order",
        sweep_follows_the_curve,
        "derived",
        slow=True,
    ),
    Check(
        "dr-genre",
        "weights per task beat one preference model of pooled comparisons on each task's own target",
        decoupled_beats_pooled,
        "arXiv:2503.06781",
        slow=True,
    ),
    Check(
        "hybrid-multi-aspect-reward",
        "a reward model that likes long answers inflates length; with the rule, adherence and the length band length "
        "stays, and accuracy is higher where a rule exists and no lower elsewhere",
        hybrid_keeps_length,
        "arXiv:2510.05283",
        slow=True,
    ),
)
