"""What the mathematics of each recipe costs beside the model: credit and loss on 400,000 decisions.

    python benchmarks/algebra.py              every recipe, about 5 minutes on one core
    python benchmarks/algebra.py grpo bapo    chosen ones
    python benchmarks/algebra.py --json

A batch of 1,024 answers (128 groups of 8) with 400,000 decisions is shaped and credited, and its loss and the gradient
with respect to log-probs computed, as in training. Beside it stands the nano model's forward and backward pass over as
many tokens, measured on a thirtieth of them. One thread, processor seconds, the median of three. Rewards that parse
text are not in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from bench import machine

from hocket.core.batch import Batch, RecordedNumbers
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.recipe import Recipe
from hocket.recipes import all_recipes, find
from hocket.types import Evaluation, Quantity, Scenario, Score, Trajectory, Turn

GROUPS, SAMPLES, DECISIONS = 128, 8, 400_000
PART = 30
"""The model sees one in this many answers."""
BOUND = 0.05


@dataclass(frozen=True)
class Cost:
    """Processor seconds of one recipe, and their share of the model's pass."""

    recipe: str
    credit: float
    loss: float
    share: float


def answers(count: int, tokens: int, key: Key) -> list[Trajectory]:
    """`count` answers of `tokens` decisions in all, in groups, some of them right."""
    rng = key.numpy()
    lengths = rng.multinomial(tokens, np.full(count, 1 / count))
    return [_answer(rng, number, int(length)) for number, length in enumerate(lengths)]


def _answer(rng: np.random.Generator, number: int, length: int) -> Trajectory:
    right = bool(rng.random() < 0.5)
    turn = Turn(
        agent="policy",
        policy="policy",
        observation=rng.integers(0, 90, 16),
        action=rng.integers(0, 90, length),
        logp=-rng.exponential(1.0, length).astype(np.float32),
        segment=np.sort(rng.integers(0, 8, length)),
        text="<think>1 + 2 = 3</think><answer>3</answer>",
    )
    scenario = Scenario(f"s{number // SAMPLES}", "What is 1 + 2?", "3")
    info = {
        "text": turn.text,
        "label": "3" if right else str(int(rng.integers(4, 9))),
        "embedding": rng.random(16).tolist(),
        "history": {"rewards": [0.5]},
        "metadata": {"budget": 400},
        "pieces": ["two "] * length,
    }
    source = "baseline" if number % SAMPLES == 0 else "own"
    return Trajectory(scenario, [turn], sample=number, scores={"reward": Score(float(right))}, source=source, info=info)


def columns(batch: Batch, key: Key) -> Batch:
    """The batch with every column that recipes read."""
    rng, size = key.numpy(), batch.decisions
    known = torch.ones(size, dtype=torch.bool)
    behaviour = batch.logp["behaviour"].values

    def near(scale: float) -> RecordedNumbers:
        return RecordedNumbers(behaviour + scale * torch.from_numpy(rng.normal(size=size)).float(), known)

    return batch.but(
        logp={"behaviour": batch.logp["behaviour"], "proximal": near(0.02), "reference": near(0.1)},
        value=torch.from_numpy(rng.normal(size=size)).float(),
        final_value=torch.zeros(batch.trajectories),
        entropy=torch.from_numpy(rng.exponential(0.5, size)).float(),
        step=1,
    )


def cost(recipe: Recipe, batch: Batch, model: float) -> Cost:
    """What its credit and its loss with gradient take."""
    credited, _ = recipe.compute_credit(batch, recipe.init(), {})

    def loss() -> None:
        leaves = {Quantity.LOGP: batch.logp["behaviour"].values.clone()}
        leaves |= {q: torch.rand(batch.decisions) for q in recipe.needs if q is not Quantity.LOGP}
        parts = {quantity.value: leaf.requires_grad_() for quantity, leaf in leaves.items()}
        total = torch.stack([term.total() for term in recipe.loss(Evaluation(**parts), credited)]).sum()
        torch.autograd.grad(total, list(leaves.values()), allow_unused=True)

    credit, lost = seconds(lambda: recipe.compute_credit(batch, recipe.init(), {})), seconds(loss)
    return Cost(recipe.name, credit, lost, (credit + lost) / model)


def seconds(work: Callable[[], Any], rounds: int = 3) -> float:
    """Median processor seconds."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def model_seconds(tokens: int) -> float:
    """The nano model's forward and backward pass over `tokens` response tokens, from a part of them."""
    policy = CausalLM.from_pretrained(BASE, key=Key.of(0))
    batch = pack(answers(GROUPS * SAMPLES // PART, tokens // PART, Key.of(1)))

    def both() -> None:
        for chunk in policy.chunks(batch, torch.arange(batch.decisions)):
            policy.evaluate(batch, {Quantity.LOGP}, chunk).logp.sum().backward()

    both()
    return PART * seconds(both)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = model_seconds(DECISIONS)
    batch = columns(pack(answers(GROUPS * SAMPLES, DECISIONS, Key.of(0))), Key.of(2))
    found, refused = [], {}
    for name in options.recipes or sorted(all_recipes()):
        try:
            found.append(cost(find(name), batch, model))
        except (HocketError, ValueError) as error:
            refused[name] = str(error)
        print(f"\r{name:40s}", end="", file=sys.stderr, flush=True)
    found.sort(key=lambda one: -one.share)
    if options.json:
        print(
            json.dumps(
                {"machine": machine(), "model": model, "costs": [vars(one) for one in found], "refused": refused}
            )
        )
        return 0
    print(f"\rthe nano model's forward and backward pass over {DECISIONS:,} decisions: {model:.1f} s\n")
    print(f"{'recipe':32s} {'credit, s':>10s} {'loss, s':>10s} {'share':>8s}")
    for one in found:
        mark = "  above the bound" if one.share > BOUND else ""
        print(f"{one.recipe:32s} {one.credit:10.3f} {one.loss:10.3f} {one.share:8.2%}{mark}")
    for name, reason in refused.items():
        print(f"{name:32s} {reason}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
