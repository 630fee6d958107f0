"""TW-GRPO's claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, gap
from hocket.lab.microscope import RecordedBatch
from hocket.lab.policy import Tabular
from hocket.lab.toys.recorded_answers import document, group_relative, lines, sample, shown
from hocket.lab.toys.training import chances, logits
from hocket.lab.world import Answer, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.tw_grpo import DIVERGENCE, TW_GRPO, divergence_by_place, spread_to
from hocket.rewards.choices import inverted, subset_score
from hocket.types import Evaluation, Scenario

claim = Claims("tw-grpo", "arXiv 2505.24718")


@claim("Weights lie in [1, w_max] as the formula has it, and multiply GRPO's terms; identical completions weigh 1.")
def weights_lie_in_1_w_max_as_the_formula_has_it_and_multiply_grpos() -> Finding:
    """Groups of unequal lengths; in the second the first tokens are imposed, so that no place is shared."""
    policy = Tabular(World(questions=1, tokens=3, horizon=3, reward=lambda q, a: float(a[2] == 0)))
    with torch.no_grad():
        policy.logits[:] = torch.from_numpy(20 * Key.of(5).numpy().normal(size=tuple(policy.logits.shape)))
        table = torch.log_softmax(policy.logits, -1)

    def made(*groups: tuple[int, Sequence[Answer]]) -> tuple[Any, ...]:
        """Weights, advantages and gradient; of each group's answers so many first tokens are imposed."""
        rows, paths = [], []
        for name, (imposed, answers) in enumerate(groups):
            for n, answer in enumerate(answers):
                paths.append(np.array(policy.path(0, answer), np.int64))
                more = {"tokens": list(answer), "trained": [place >= imposed for place in range(len(answer))]}
                rows.append(sample(f"{name}", float(n % 2), table[paths[-1], answer].tolist(), **more))
        read = RecordedBatch(document(rows))
        batch, own = read.batch.but(observation=paths), torch.nonzero(~read.batch.forced).flatten()
        divergence = divergence_by_place(batch, policy, own, budget=8)
        batch, _ = TW_GRPO.compute_credit(batch.but(annotations={DIVERGENCE.name: divergence}), TW_GRPO.init(), {})
        leaf, seen = read.logp.clone().requires_grad_(), batch.occurrences
        loss = torch.stack([term.total() for term in TW_GRPO.loss(Evaluation(logp=leaf), batch)]).sum()
        return *map(read.by_trajectory, (seen.weight, seen.advantage, *torch.autograd.grad(loss, leaf))), batch

    def by_hand(imposed: int, answers: Sequence[Answer]) -> list[list[float]]:
        divergences = []
        for place in range(imposed, max(map(len, answers))):
            rows = [table[policy.row(0, a[:place])].tolist() if place < len(a) else [-math.log(3)] * 3 for a in answers]
            centre = [fmean(column) for column in zip(*rows, strict=True)]
            gaps = [[min(max(m - x, -11), 11) for m, x in zip(centre, row, strict=True)] for row in rows]
            divergences.append(fmean(sum(math.exp(one) - one - 1 for one in row) for row in gaps))
        low, high = min(divergences), max(divergences)
        weights = [0.0] * imposed + [1 + 0.4 * (x - low) / (high - low + 1e-8) for x in divergences]
        return [weights[: len(answer)] for answer in answers]

    groups: list[tuple[int, Sequence[Answer]]] = [
        (0, [(0, 1, 2), (1, 2), (2, 0, 0)]),
        (1, [(1, 2), (0, 2, 1), (2, 1, 1)]),
    ]
    weights, advantages, gradient, batch = made(*groups)
    wanted = [row for group in groups for row in by_hand(*group)]
    off = [gap(weights, wanted), gap([row[0] for row in advantages], group_relative([0.0, 1.0, 0.0]) * 2)]
    count = sum(weight > 0 for row in wanted for weight in row)
    parts = zip(wanted, advantages, strict=True)
    off.append(gap(gradient, [[-w * a / count for w, a in zip(*pair, strict=True)] for pair in parts]))
    alike = made((0, [(0, 1, 2)] * 3))[0] == [[1.0] * 3] * 3
    blind = divergence_by_place(batch, GRPO, torch.arange(batch.decisions))  # type: ignore[arg-type]
    holds = max(off) < EXACT and alike and weights[0][0] == 1 and not blind.any()
    return Finding(holds, f"off by {max(off):.2g}: {lines(weights_of_a_group=weights[0], of_another=weights[4])}")


claim.spares("2 ** 23 -> 2", "how much is held at once changes no number")
claim.spares("size * width -> size", "how much is held at once changes no number")
claim.spares("min(places, start + step) -> max(places, start + step)", "counted again, and left out")
claim.spares("-1 -> 1", "the last of two dimensions")


@claim("A group alone is compared as well; the spread of weights is over epsilon more than the range, by hand.")
def a_group_alone_is_compared_as_well_the_spread_of_weights_is_over() -> Finding:
    policy = Tabular(World(questions=1, tokens=3, horizon=2, reward=lambda q, a: float(a[1] == 0)))
    with torch.no_grad():
        policy.logits[:] = torch.from_numpy(Key.of(6).numpy().normal(size=tuple(policy.logits.shape)))
        table = torch.log_softmax(policy.logits, -1)
    answers = [(0, 1), (1, 2), (0, 2)]
    paths = [np.array(policy.path(0, one), np.int64) for one in answers]
    rows = [
        sample("g", 0.0, table[path, one].tolist(), tokens=list(one)) for path, one in zip(paths, answers, strict=True)
    ]
    batch = RecordedBatch(document(rows)).batch.but(observation=paths)
    found = divergence_by_place(batch, policy, torch.arange(6)).tolist()
    second = [table[policy.row(0, one[:1])].tolist() for one in answers]
    centre = [fmean(column) for column in zip(*second, strict=True)]
    apart = fmean(sum(math.exp(m - x) - (m - x) - 1 for m, x in zip(centre, row, strict=True)) for row in second)
    spread = spread_to(torch.tensor([2.0, 3.0, 5.0]), torch.tensor([0, 0, 1]), 2, 1.4, 0.5).tolist()
    off = [gap(found, [0.0, apart] * 3), gap(spread, [1.0, 1 + 0.4 / 1.5, 1.0])]
    return Finding(max(off) < 1e-6 and apart > 0.01, lines(off=off, apart=apart))


@claim("Part of the right options earns part of the reward.")
def part_of_the_right_options_earns_part_of_the_reward() -> Finding:
    values = {given: subset_score(set(given), set("ACD")) for given in ("A", "AC", "ACD", "AB", "")}
    turned = inverted(Scenario("q", "Which one?", "B", {"options": ["A", "B", "C"]}))
    holds = list(values.values()) == [1 / 3, 2 / 3, 1.0, 0.0, 0.0]
    holds &= turned.answer == ["A", "C"] and turned.origin == "q"
    return Finding(holds, f"scores {values}; inverted answer {turned.answer}")


# Three certain tokens, one that is free, and one that must fit it: the only place where samples differ.
WORLD = World(2, 4, 5, lambda question, answer: float(answer[4] == (answer[3] + question) % 4), context="last")
NOISE = torch.from_numpy(Key.of(11).numpy().normal(size=(2, 4, 4)))


def start(policy: Tabular) -> None:
    for question, last in itertools.product(range(2), range(4)):
        for place in range(3):
            logits(policy, question, (*(0,) * (place - 1), last) if place else (), {0: 0.97}, 0.01)
        policy.logits[policy.row(question, (0, 0, 0, last))] = NOISE[question, last]


def learnt(largest: float, *, plain: bool) -> list[float]:
    """Accuracy by seed after 30 steps, of plain gradients or of Adam."""
    recipe, rates = TW_GRPO.but({"credit.largest": largest, "update.clip_norm": None}), []
    for seed in SEEDS:
        bench = Bench(WORLD, recipe, seed=seed, lr=0.05, start=start)
        if plain:
            bench.learner.optimiser = torch.optim.SGD(bench.policy.module.parameters(), lr=5.0)
        bench.run(30)
        pairs = itertools.product(range(2), range(4))
        parts = (chances(bench, q, (0,) * 3)[n] * chances(bench, q, (0, 0, 0, n))[(n + q) % 4] for q, n in pairs)
        rates.append(4 * fmean(map(float, parts)))
    return rates


@claim("After a certain opening, weighed places learn faster per plain gradient step than uniform ones.", slow=True)
def after_a_certain_opening_weighed_places_learn_faster_per_plain() -> Finding:
    """Adam hardly sees a constant scale."""
    (weighed, uniform), adam = ([learnt(top, plain=plain) for top in (1.4, 1.0)] for plain in (True, False))
    gains = [a - b for a, b in zip(weighed, uniform, strict=True)]
    saw = f"accuracy after 30 plain gradient steps {shown(weighed)} against {shown(uniform)} with uniform weights"
    differences = [a - b for a, b in zip(*adam, strict=True)]
    return Finding(min(gains) > 0, f"{saw}; with Adam the differences are {shown(differences)}")


claim.shipped(TW_GRPO, "credit")
