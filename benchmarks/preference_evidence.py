"""What preference methods do where theory says what to expect: experiments (a) to (e) of docs/evidence/preferences.md.

    python benchmarks/preference_evidence.py EXPERIMENT ... --out DIR      a b c d e; prints their tables

What a finished run measured is kept in DIR/figures.json, and an experiment goes on with the runs that are missing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import hocket
from hocket.core.intervals import mean_interval
from hocket.lab.bandit import minimised
from hocket.lab.toys.answers import AnswerPolicy, Updating
from hocket.lab.toys.games import UNEVEN, GameBandit, exploitability, rule_of
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.stages import Reward, Split
from hocket.tasks.arithmetic import has_working
from hocket.tasks.graded_sums import GradedSums
from hocket.types import Scenario

SEEDS = (0, 1, 2)
Figures = Mapping[str, float]


@dataclass
class Kept:
    """Figures of finished runs by name, in a file; folders of runs are beside it."""

    folder: Path
    figures: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.file.is_file():
            self.figures = json.loads(self.file.read_text())

    @property
    def file(self) -> Path:
        return self.folder / "figures.json"

    def once(self, name: str, make: Callable[[], Figures]) -> Figures:
        """What is kept under `name`; made now where nothing is."""
        if name not in self.figures:
            self.figures[name] = {key: round(float(value), 5) for key, value in make().items()}
            part = self.file.with_suffix(".part")
            part.write_text(json.dumps(self.figures, indent=1))
            os.replace(part, self.file)
            print(name, self.figures[name], flush=True)
        return self.figures[name]


def table(title: str, rows: Mapping[str, Sequence[Figures]]) -> None:
    """Prints the mean over seeds of each figure with Student's 95 % interval, a row per condition."""
    names = list(dict.fromkeys(name for found in rows.values() for one in found for name in one))
    print(f"\n| {title} | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for row, found in rows.items():
        print(f"| {row} | " + " | ".join(told([one.get(name, math.nan) for one in found]) for name in names) + " |")


def told(values: Sequence[float]) -> str:
    low, high = mean_interval(values)
    mean = math.fsum(values) / len(values)
    return f"{mean:.3f}" if not math.isfinite(low) else f"{mean:.3f} ({low:.3f} to {high:.3f})"


def less(title: str, pairs: Mapping[str, tuple[Sequence[Figures], Sequence[Figures]]], name: str) -> None:
    """Prints differences of one figure, paired by seed."""
    print(f"\n{title}")
    for words, (one, other) in pairs.items():
        print(f"- {words}: {told([a[name] - b[name] for a, b in zip(one, other, strict=True)])}")


def settings(kept: Kept, seed: int, **more: Any) -> dict[str, Any]:
    """What all runs of models have in common: one thread, no checkpoints or evaluations on the way."""
    return {
        "seed": seed,
        "threads": 1,
        "runs": str(kept.folder),
        "evaluation.n": 400,
        "evaluation.every": 0,
        "checkpoint.seconds": 1e9,
        "checkpoint.steps": 10**6,
        **more,
    }


class Pairs(GradedSums):
    """The pairs of `graded_sums` without their right answers, so that no run has to write any.

    With `flawed`, graders prefer a wrong answer without working to a right one with it, always, in training.
    """

    flawed = False

    @property
    def rewards(self) -> Sequence[Reward]:
        return ()

    def scenario(self, split: Split, number: int) -> Scenario:
        found = super().scenario(split, number)
        told = found.metadata
        if self.flawed and split == "train" and not has_working(told["rejected"]):
            told = {**told, "chosen": told["rejected"], "rejected": told["chosen"]}
        return replace(found, answer=None, metadata=told)

    def verify(self, text: str, scenario: Scenario) -> float:
        return 0.0


# ---------------------------------------------------------------- (e) a cycle of preferences

ROUNDS = {"cycle": 150, "transitive": 60}
DRAWN = 32
TRANSITIVE = torch.sigmoid(torch.tensor([1.5, 0.0, -1.5], dtype=torch.float64)[:, None] - torch.tensor([1.5, 0, -1.5]))
FLAT = torch.full((3,), 1 / 3, dtype=torch.float64).log()


def bradley_terry(matrix: Tensor) -> list[float]:
    """The rewards that are likeliest where all pairs are compared equally often."""

    def likelihood(reward: Tensor) -> Tensor:
        return -(matrix * torch.nn.functional.logsigmoid(reward[:, None] - reward)).sum()

    rewards: list[float] = minimised(likelihood, torch.zeros(3, dtype=torch.float64)).log().tolist()
    return rewards


def players(matrix: Tensor) -> dict[str, tuple[Recipe, float]]:
    """Recipes and learning rates. Nash methods are told the win rates, Bradley-Terry's learner its rewards."""
    ppo = find("ppo").but(credit=find("rloo").credit, regularisers=(), **{"update.epochs": 4, "update.minibatches": 1})
    rule = {"shaping.0.wins.rule": rule_of(matrix)}
    rounds = {"objective.beta": 0.5, "objective.measure.old": 0.8, "update.epochs": 4}
    return {
        "Bradley-Terry, then PPO": (ppo, 1.0),
        "spo-minimax": (find("spo-minimax").but(rule), 1.0),
        "nash-md": (find("nash-md").but(rule | {"shaping.0.mixture": 0.1, "shaping.1.coefficient": 0.1}), 2.0),
        "inpo": (find("inpo").but(rule | rounds), 0.5),
        "mnpo": (find("mnpo").but(rule | rounds), 0.5),
        "egpo": (find("egpo").but(rule | {"objective.temperature": 0.1}), 3.0),
    }


def played(matrix: Tensor, name: str, rounds: int, seed: int) -> Figures:
    """Rounds of samples and updates from an uneven policy: exploitability of the policies of all rounds averaged, and
    of the policies of the last third, on average; the last third's shares of the answers."""
    recipe, rate = players(matrix)[name]
    rewards = tuple(bradley_terry(matrix)) if name.startswith("Bradley") else (0.0, 0.0, 0.0)
    generator, updating = torch.Generator().manual_seed(seed), Updating(recipe, lr=rate)
    logits, path = torch.tensor([0.5, 0.0, -0.5], dtype=torch.float64), list[Tensor]()
    for _ in range(rounds):
        drawn = torch.multinomial(torch.softmax(logits, 0), DRAWN, replacement=True, generator=generator)
        old = torch.log_softmax(logits, 0)
        bandit = GameBandit(rewards, old, FLAT, torch.bincount(drawn, minlength=3).tolist())
        policy = AnswerPolicy(bandit, old)
        updating.step(bandit, policy)
        logits = policy.logits.detach()
        path.append(policy.probs)
    late = path[-(rounds // 3) :]
    each = [exploitability(matrix, one) for one in late]
    shares = {f"answer {n + 1}": float(share) for n, share in enumerate(torch.stack(late).mean(0))}
    average = exploitability(matrix, torch.stack(path).mean(0))
    return {"average policy": average, "late policies": math.fsum(each) / len(each), **shares}


def experiment_e(kept: Kept) -> None:
    """Every method on both games."""
    for game, matrix in (("cycle", UNEVEN), ("transitive", TRANSITIVE)):
        rows: dict[str, list[Figures]] = {name: [] for name in players(matrix)}
        for name, found in rows.items():
            for seed in SEEDS:
                make = partial(played, matrix, name, ROUNDS[game], seed)
                found.append(kept.once(f"e/{game}/{name}/{seed}", make))
        table(f"{game}: exploitability", rows)


# ---------------------------------------------------------------- (d) flipped labels

FLIPS, PAIRS, DPO_STEPS = 0.3, 200, 40
LABELS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "clean labels, DPO": ("dpo", 0.0, {}),
    "flipped, DPO": ("dpo", FLIPS, {}),
    "flipped, smoothed": ("dpo", FLIPS, {"objective.label_smoothing": FLIPS}),
    "flipped, flip-aware": ("robust-dpo", FLIPS, {"objective.link.flip": FLIPS}),
}


def labelled(kept: Kept, name: str, seed: int) -> Figures:
    recipe, noise, own = LABELS[name]
    run = f"d-{list(LABELS).index(name)}-{seed}"
    task = Pairs(noise=noise, size=PAIRS)
    found = hocket.train(task, recipe=recipe, steps=DPO_STEPS, run=run, **settings(kept, seed, **own)).metrics
    last = found[-1]
    seen = [row["pairs/accuracy"] for row in found[-10:]]
    return {
        "held-out accuracy": last["eval/pairs/accuracy"],
        "held-out margin": last["eval/pairs/margin"],
        "accuracy on its labels, last 10 steps": math.fsum(seen) / len(seen),
    }


def experiment_d(kept: Kept) -> None:
    rows: dict[str, list[Figures]] = {name: [] for name in LABELS}
    for seed in SEEDS:
        for name, found in rows.items():
            found.append(kept.once(f"d/{name}/{seed}", partial(labelled, kept, name, seed)))
    table("3 seeds", rows)
    clean, plain, smooth, aware = rows.values()
    gaps = {"smoothed less plain": (smooth, plain), "flip-aware less smoothed": (aware, smooth)}
    for figure in ("held-out accuracy", "held-out margin"):
        less(figure, gaps | {"clean less flip-aware": (clean, aware)}, figure)


EXPERIMENTS = {"e": experiment_e, "d": experiment_d}


def main() -> None:
    """The command line."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("experiment", nargs="+", choices=sorted(EXPERIMENTS))
    asked.add_argument("--out", type=Path, default=Path("runs/preferences"))
    options = asked.parse_args()
    torch.set_num_threads(1)
    for name in options.experiment:
        EXPERIMENTS[name](Kept(options.out))


if __name__ == "__main__":
    main()
