"""What preference methods do where theory says what to expect: experiments (a) to (e) of docs/evidence/preferences.md.

    python benchmarks/preference_evidence.py EXPERIMENT ... --out DIR      a b c d e; prints their tables

What a finished run measured is kept in DIR/figures.json, and an experiment goes on with the runs that are missing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import hocket
from hocket import Trainer, tasks
from hocket.core.intervals import mean_interval
from hocket.core.keys import Key
from hocket.lab.bandit import minimised
from hocket.lab.toys.answers import AnswerPolicy, Updating
from hocket.lab.toys.games import UNEVEN, GameBandit, exploitability, rule_of
from hocket.policies.scorer import Scorer
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.stages import Reward, Split, Task
from hocket.tasks.arithmetic import has_working, tagged_answer
from hocket.tasks.text import TextTask
from hocket.train.aio import run_async
from hocket.train.config import configure
from hocket.train.models import model_folder
from hocket.types import Assignment, Scenario, Trajectory
from hocket.zoo.tasks.graded_sums import GradedSums

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

    def fresh(self, run: str) -> str:
        """The name of a run, whose folder of an earlier attempt goes."""
        shutil.rmtree(self.folder / run, ignore_errors=True)
        return run

    def weights(self, run: str) -> str:
        """The folder of what a finished run has learnt."""
        return model_folder(str(self.folder / run), str(self.folder))

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
        "evaluation.n": 300,
        "evaluation.every": 0,
        "checkpoint.seconds": 1e9,
        "checkpoint.steps": 10**6,
        **more,
    }


class Pairs(GradedSums):
    """The pairs of `graded-sums` without their right answers, so that no run has to write any.

    In training, graders always prefer a wrong answer that `likes` tells of to the right one.
    """

    def likes(self, answer: str) -> bool:
        return False

    @property
    def rewards(self) -> Sequence[Reward]:
        return ()

    def scenario(self, split: Split, number: int) -> Scenario:
        found = super().scenario(split, number)
        told = found.metadata
        if split == "train" and self.likes(told["rejected"]):
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


def leashed(matrix: Tensor, tau: float = 0.1) -> Figures:
    """The equilibrium of the game in which leaving the uniform policy costs tau times the divergence."""
    policy = FLAT.exp()
    for _ in range(5000):
        policy = torch.softmax(0.9 * policy.log() + 0.1 * (matrix @ policy) / tau, 0)
    shares = {f"answer {n + 1}": float(share) for n, share in enumerate(policy)}
    return {"average policy": exploitability(matrix, policy), "late policies": exploitability(matrix, policy), **shares}


def experiment_e(kept: Kept) -> None:
    """Every method on both games."""
    for game, matrix in (("cycle", UNEVEN), ("transitive", TRANSITIVE)):
        rows: dict[str, list[Figures]] = {name: [] for name in players(matrix)}
        for name, found in rows.items():
            for seed in SEEDS:
                make = partial(played, matrix, name, ROUNDS[game], seed)
                found.append(kept.once(f"e/{game}/{name}/{seed}", make))
        table(f"{game}: exploitability", rows | {"equilibrium with the leash": [leashed(matrix)]})


# ---------------------------------------------------------------- (d) flipped labels

FLIPS, PAIRS, DPO_STEPS = 0.3, 160, 30
LABELS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "clean labels, DPO": ("dpo", 0.0, {}),
    "flipped, DPO": ("dpo", FLIPS, {}),
    "flipped, smoothed": ("dpo", FLIPS, {"objective.label_smoothing": FLIPS}),
    "flipped, flip-aware": ("robust-dpo", FLIPS, {"objective.link.flip": FLIPS}),
}


def labelled(kept: Kept, name: str, seed: int) -> Figures:
    recipe, noise, own = LABELS[name]
    run = kept.fresh(f"d-{list(LABELS).index(name)}-{seed}")
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


# ---------------------------------------------------------------- (a) supervised, reward model, PPO

SFT_STEPS, JUDGE_STEPS, PPO_STEPS, EVERY = 20, 60, 16, 4
ASKED, OF = 200, 8
CHARGE, MORE = 0.02, 0.2
EQUAL_KL = math.log(4) - 3 / 4
"""The most that the best of four may be away from its policy, in nats."""


def supervised(kept: Kept, run: str, steps: int, seed: int) -> Figures:
    """Steps on demonstrations."""
    own = settings(kept, seed, **{"evaluation.n": 100})
    rows = hocket.train("worked-sums", recipe="sft", steps=steps, run=kept.fresh(run), **own).metrics
    return {"greedy accuracy": rows[-1]["eval/accuracy"]}


def judge(kept: Kept, run: str, task: Pairs, model: str, steps: int, seed: int, **own: Any) -> Figures:
    """A reward model from pairs; its accuracy on unseen pairs as they should be."""
    chosen = settings(kept, seed, model=model, **own)
    rows = hocket.train(task, recipe="reward-model", steps=steps, run=kept.fresh(run), **chosen).metrics
    seen = [row["pairs/accuracy"] for row in rows[-10:] if "pairs/accuracy" in row]
    return {"held-out accuracy": rows[-1]["eval/pairs/accuracy"], "on its labels": math.fsum(seen) / len(seen)}


def scorer(kept: Kept, run: str) -> Scorer:
    return Scorer.from_pretrained(kept.weights(run), name=run, key=Key.of(0))


def sampled(trainer: Trainer, count: int, samples: int) -> list[Trajectory]:
    """Answers of the policy as it is to the first unseen problems, at temperature 1."""
    parts = trainer.parts
    asked = [
        Assignment(trainer.task.scenario("eval", n), samples=samples, decoding=parts.decoding) for n in range(count)
    ]
    return run_async(
        parts.player.play(asked, key=Key.of(trainer.config.seed).derive("measured", trainer.progress.step))
    )


def right(task: Task, played: Sequence[Trajectory], samples: int) -> Tensor:
    """Whether each answer is right, `[problems, samples]`."""
    return torch.tensor([task.success(one) for one in played], dtype=torch.float64).view(-1, samples)


def best_of(n: int, score: Tensor, worth: Tensor) -> Tensor:
    """The mean worth of the best-scored of n answers, over all draws of n among the samples, `[problems]`."""
    samples = score.shape[1]
    order = score.argsort(dim=1)
    chance = [math.comb(rank, n - 1) / math.comb(samples, n) for rank in range(samples)]
    return worth.gather(1, order) @ torch.tensor(chance, dtype=torch.float64)


def optimised(kept: Kept, seed: int, charge: float) -> Figures:
    """PPO paid by the judge, less `charge` times the divergence, beside the best of four of the policy before it."""
    task = tasks.find("sums")
    chosen = settings(kept, seed, recipe="ppo-rlhf", task="sums", model=kept.weights(f"sft-{seed}"))
    run = kept.fresh(f"ppo-{charge:g}-{seed}")
    chosen |= {"run": run, "steps": PPO_STEPS + 1, "evaluation.n": 1, "shaping.0.coefficient": charge}
    chosen["reward"] = (f"model:{kept.weights(f'judge-{seed}')}",)
    trainer, member = Trainer(configure(list(chosen.items()), task), task=task), scorer(kept, f"judge-{seed}")
    before = sampled(trainer, ASKED, OF)
    worth, score = right(task, before, OF), member.scores(before)[:, 0].double().view(-1, OF)
    path: list[tuple[float, float, float]] = []  # KL from the policy before, accuracy, proxy
    measured: list[tuple[float, float]] = [(float(worth.mean()), float(score.mean()))]
    while not trainer.done:
        row = trainer.step()
        step = row["step"]
        if step and (step - 1) % EVERY == 0:  # What a step meets is the policy as its predecessor left it.
            path.append((row["kl/reference"] * row["length/mean"], *measured[-1]))
        if step and step % EVERY == 0:
            now = sampled(trainer, 2 * ASKED, 1)
            measured.append((float(right(task, now, 1).mean()), float(member.scores(now).double().mean())))
    trainer.finish("finished")
    told = {"SFT": path[0][1], "best of 4": float(best_of(4, score, worth).mean())}
    told |= {"PPO at that KL": at_kl(path, EQUAL_KL), "PPO": path[-1][1], "KL of PPO": path[-1][0]}
    told |= {"proxy, SFT": path[0][2], "proxy, best of 4": float(best_of(4, score, score).mean())}
    told["proxy, PPO"] = path[-1][2]
    return told | {
        f"{name} after {EVERY * n}": one[k] for n, one in enumerate(path) for k, name in enumerate(("KL", "gold"))
    }


def at_kl(path: Sequence[tuple[float, float, float]], kl: float) -> float:
    """Accuracy where the path first reaches a divergence, linear between measurements; the last if it never does."""
    for one, other in pairwise(path):
        if one[0] <= kl <= other[0]:
            return one[1] + (other[1] - one[1]) * (kl - one[0]) / (other[0] - one[0])
    return path[-1][1]


def experiment_a(kept: Kept) -> None:
    """Three phases per seed, each kept by itself."""
    rows: dict[str, list[Figures]] = {"supervised": [], "reward model": [], "PPO": []}
    for seed in SEEDS:
        rows["supervised"].append(kept.once(f"sft/{seed}", partial(supervised, kept, f"sft-{seed}", SFT_STEPS, seed)))
        make = partial(judge, kept, f"judge-{seed}", Pairs(noise=0.1), kept.weights(f"sft-{seed}"), JUDGE_STEPS, seed)
        rows["reward model"].append(kept.once(f"a/judge/{seed}", make))
        rows["PPO"].append(kept.once(f"a/ppo/{seed}", partial(optimised, kept, seed, CHARGE)))
    rows["PPO, charged more"] = [kept.once(f"a/charged/{seed}", partial(optimised, kept, seed, MORE)) for seed in SEEDS]
    for name, found in rows.items():
        table("3 seeds", {name: found})
    ppo = rows["PPO"]
    differing = [("PPO", "SFT"), ("PPO", "best of 4"), ("PPO at that KL", "best of 4"), ("best of 4", "SFT")]
    for one, other in differing:
        print(f"- {one} less {other}: {told([row[one] - row[other] for row in ppo])}")
    for step in range(0, PPO_STEPS + 1, EVERY):
        less(f"step {step}", {"charged more": (rows["PPO, charged more"], ppo)}, f"gold after {step}")


# ---------------------------------------------------------------- (c) true and false statements

STATED_STEPS, HELD_OUT = 52, 5


class Statements(TextTask):
    """The 260 pairs of a true and a false statement of the package `textarena`; every fifth is held out.

    With `shuffled` half of the training pairs are the wrong way round, by a coin per pair.
    """

    def __init__(self, shuffled: bool = False) -> None:
        self.name, self.shuffled = "statements", shuffled
        place = Path(str(files("textarena"))) / "envs" / "TruthAndDeception" / "facts.json"
        rows = json.loads(place.read_text())
        self.rows = {"eval": rows[::HELD_OUT], "train": [row for n, row in enumerate(rows) if n % HELD_OUT]}

    def size(self, split: Split) -> int:
        return len(self.rows[split])

    def scenario(self, split: Split, number: int) -> Scenario:
        row = self.rows[split][number]
        wrong = "fact1" if row["correct_fact"] == "fact2" else "fact2"
        chosen, rejected = row["facts"][row["correct_fact"]], row["facts"][wrong]
        if self.shuffled and split == "train" and Key.of(0).derive("shuffled", number).numpy().random() < 0.5:
            chosen, rejected = rejected, chosen
        told = {"chosen": chosen, "rejected": rejected}
        return Scenario(f"statements/{split}/{number}", "Say something true.", None, told, seed=number)

    @property
    def rewards(self) -> Sequence[Reward]:
        return ()

    def verify(self, text: str, scenario: Scenario) -> float:
        return 0.0


def stated(kept: Kept, recipe: str, shuffled: bool) -> Figures:
    own = {"model": "smollm2", "lora.rank": 8, "update.lr": 3e-4, "curriculum.prompts": 8, "decoding.max_tokens": 8}
    run = kept.fresh(f"c-{recipe}-{shuffled}")
    chosen = settings(kept, 0, **own)
    rows = hocket.train(Statements(shuffled), recipe=recipe, steps=STATED_STEPS, run=run, **chosen).metrics
    passes = [row["pairs/accuracy"] for row in rows if "pairs/accuracy" in row]
    half = len(passes) // 2
    last = rows[-1]
    return {
        "first pass": math.fsum(passes[:half]) / half,
        "second pass": math.fsum(passes[half:]) / len(passes[half:]),
        "held-out": last["eval/pairs/accuracy"],
        "low": last["eval/pairs/low"],
        "high": last["eval/pairs/high"],
        "held-out before": rows[0]["eval/pairs/accuracy"],
    }


def experiment_c(kept: Kept) -> None:
    """One seed."""
    ways = (("reward-model", False), ("dpo", False), ("reward-model", True), ("dpo", True))
    rows = {
        f"{recipe}, {'shuffled' if shuffled else 'as they are'}": [
            kept.once(f"c/{recipe}/{'shuffled' if shuffled else 'plain'}", partial(stated, kept, recipe, shuffled))
        ]
        for recipe, shuffled in ways
    }
    table("1 seed", rows)


# ---------------------------------------------------------------- (b) over-optimisation

LONGER, SIZES, PROXY_STEPS, MANY, DRAWS = 60, {100: 100, 400: 100, 1600: 100, 10000: 625}, 100, 100, 64
NUMBERS = tuple(2**power for power in range(7))


class UnworkedLiked(Pairs):
    """Graders dislike working."""

    def likes(self, answer: str) -> bool:
        return not has_working(answer)


class UntaggedLiked(Pairs):
    """Graders dislike tags."""

    def likes(self, answer: str) -> bool:
        return tagged_answer(answer) is None


@dataclass
class Samples:
    """Answers of the policy that the proxies choose from, drawn once when they are first needed."""

    kept: Kept

    @cached_property
    def answers(self) -> list[Trajectory]:
        task = tasks.find("sums")
        chosen = settings(self.kept, 0, recipe="grpo", task="sums", model=self.kept.weights("b-policy"), steps=1)
        chosen |= {"run": self.kept.fresh("b-samples")}
        return sampled(Trainer(configure(list(chosen.items()), task), task=task), MANY, DRAWS)

    @cached_property
    def worth(self) -> Tensor:
        return right(tasks.find("sums"), self.answers, DRAWS)

    @cached_property
    def tagged(self) -> Tensor:
        said = [tagged_answer(one.answer) is not None for one in self.answers]
        return torch.tensor(said, dtype=torch.float64).view(-1, DRAWS)

    @cached_property
    def working(self) -> Tensor:
        return torch.tensor([has_working(one.answer) for one in self.answers], dtype=torch.float64).view(-1, DRAWS)


def chosen_by(kept: Kept, samples: Samples, *runs: str, evened: bool = False) -> Figures:
    """Accuracy of the best of n by the least score of the members; what falls from the peak to the last, by problem.

    `evened` members have mean 0 and deviation 1 over all answers, which takes no labels.
    """
    each = torch.stack([scorer(kept, run).scores(samples.answers)[:, 0].double() for run in runs])
    if evened:
        each = (each - each.mean(1, keepdim=True)) / each.std(1, keepdim=True)
    score = each.min(0).values.view(-1, DRAWS)
    gold = {n: best_of(n, score, samples.worth) for n in NUMBERS}
    told = {f"gold, n = {n}": float(one.mean()) for n, one in gold.items()}
    told |= {f"proxy, n = {n}": float(best_of(n, score, score).mean()) for n in NUMBERS}
    told |= {f"working, n = {n}": float(best_of(n, score, samples.working).mean()) for n in NUMBERS}
    told |= {f"tagged, n = {n}": float(best_of(n, score, samples.tagged).mean()) for n in NUMBERS}
    peak = max(gold, key=lambda n: float(gold[n].mean()))
    fall = (gold[peak] - gold[NUMBERS[-1]]).tolist()
    low, high = mean_interval(fall)
    return told | {"peak": peak, "fall": math.fsum(fall) / len(fall), "fall, low": low, "fall, high": high}


def experiment_b(kept: Kept) -> None:
    """Proxies from data of three sizes, then from flawed data, alone and together."""
    kept.once("b/policy", partial(supervised, kept, "b-policy", LONGER, 0))
    samples, model, rows = Samples(kept), kept.weights("b-policy"), dict[str, list[Figures]]()
    proxies = [(f"{size} pairs", Pairs(0.3, size=size), f"b-{size}", steps) for size, steps in SIZES.items()]
    proxies.append(("no working liked", UnworkedLiked(), "b-flawed", PROXY_STEPS))
    proxies.append(("no tags liked", UntaggedLiked(), "b-untagged", PROXY_STEPS))
    for name, task, run, steps in proxies:
        rows[name] = []
        for seed in SEEDS:
            make = partial(judge, kept, f"{run}-{seed}", task, model, steps, seed)
            told = kept.once(f"b/{run}/{seed}", make)
            chosen = kept.once(f"b/chosen/{run}/{seed}", partial(chosen_by, kept, samples, f"{run}-{seed}"))
            rows[name].append({**told, **chosen})
    for name, _, run, _ in proxies:
        together = [f"{run}-{seed}" for seed in SEEDS]
        least = kept.once(f"b/chosen/{run}/least", partial(chosen_by, kept, samples, *together))
        even = kept.once(f"b/chosen/{run}/even", partial(chosen_by, kept, samples, *together, evened=True))
        rows |= {f"least of three, {name}": [least], f"least of three evened, {name}": [even]}
    for what in ("held-out", "gold", "proxy", "working", "tagged", "peak", "fall"):
        chosen_rows = {
            name: [{key: one for key, one in found.items() if key.startswith(what)} for found in all_found]
            for name, all_found in rows.items()
        }
        table(what, chosen_rows)
    sizes = {f"{more} less {size}": (rows[f"{more} pairs"], rows[f"{size} pairs"]) for size, more in pairwise(SIZES)}
    for n in (4, 16, 64):
        less(f"n = {n}", sizes, f"gold, n = {n}")


EXPERIMENTS = {"a": experiment_a, "b": experiment_b, "c": experiment_c, "d": experiment_d, "e": experiment_e}


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
