"""CUDA-L1: contrastive reinforcement learning for faster code (Li et al., arXiv:2507.14111).

Three stages: imitation of variants that run and are right (`sft`), rounds that keep what runs and is right whatever its
speed (`cuda-l1-self`), and the contrastive one. There the prompt shows earlier variants of the same program with what
they scored, drawn from different buckets of a library that grows with every success (`Contrastive`), so that a reward
enters the context as well as the gradient. The score is the speed-up over the reference, 0 for a program that is not
right, and 0 is also what cheating earns (`Speedup`); its spikes are cut (`SmoothedReward`), and the rest is GRPO's.

Buckets by a softmax over their mean scores less that of all, two exemplars, medians of averages of buckets, rounding
towards 1, a second measurement that must agree within a tenth, and the form of the smoothing are the paper's, as
summaries of it tell; the width of a bucket, its temperature, what mu and sigma are of, and the size of the library are
chosen here. Programs are small functions with loops in the place of CUDA kernels
(`hocket.methods.agents.cuda_l1.loops`). They are measured in operations, which are the same on every machine, or in
seconds in the sandbox.

    plan:
      - {recipe: sft, steps: 80, task: "faster-loops?shown=0.5"}
      - {recipe: cuda-l1-self, steps: 20, task: faster-loops}
      - {recipe: cuda-l1, steps: 40, task: faster-loops}
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, Literal

import numpy as np
import torch

from hocket.agents.tools.sandbox import Sandbox
from hocket.core import sums
from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.occurrences import unmarked
from hocket.core.options import checked
from hocket.core.signals import REWARD, counted_trajectories
from hocket.curriculum.scenario_worth import Weighted
from hocket.methods.agents.cuda_l1.loops import Function, Stopped, read, run, seconds
from hocket.methods.base.grpo import GRPO_KL
from hocket.methods.base.reinforce import REINFORCE
from hocket.rewards.code_tests import code_of
from hocket.rewards.opinions import Opinions
from hocket.rollout.groups import groups
from hocket.rollout.remembering import RememberingRollout
from hocket.stages import Grade, LedgerView, More, Play, Reward, Shaping, Split, State
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Assignment, Experience, Scenario, Trajectory

Meter = Literal["operations", "seconds"]

SLOWEST = 1000
"""A program that takes so many times what the reference takes does not run."""

ROUNDS, PER_BUCKET = 12, 3
"""Timings of one measurement, in buckets of so many."""

SIZES = (8, 16, 32)
"""The inputs that are measured."""

INPUTS = 6
"""How many further inputs a program must be right for."""


# ---------------------------------------------------------------- how fast


def cautious(speedup: float) -> float:
    """To two decimals towards 1: 1.118 is 1.11, and 0.992 is 1."""
    hundredths = speedup * 100
    return (math.floor(hundredths + 1e-9) if speedup > 1 else math.ceil(hundredths - 1e-9)) / 100


def robust(ratios: Sequence[float], per_bucket: int = PER_BUCKET) -> float:
    """The median of the averages of buckets, in the order measured."""
    return median(fmean(ratios[place : place + per_bucket]) for place in range(0, len(ratios), per_bucket))


def agreed(first: Sequence[float], second: Sequence[float], tolerance: float) -> float | None:
    """The speed-up that two measurements tell, the lower of both; None where they differ by more than `tolerance`.

    The tolerance is a share of the larger one.
    """
    one, other = robust(first), robust(second)
    return min(one, other) if abs(one - other) <= tolerance * max(one, other) else None


@dataclass(frozen=True)
class Speedup(Reward):
    """Reference time over the program's, rounded towards 1; 0 for what does not run or is not right.

    A program is right if it returns what the reference does for inputs drawn anew at every measurement. It may be
    written in the language of `hocket.methods.agents.cuda_l1.loops` alone, in which nothing lasts from one call to the
    next and no clock can be seen: so what would keep results, put work off or reach for the timer is no program. Where
    two measurements disagree there is no opinion, and the sample counts for nothing.

    Attributes:
        meter: `operations`, counted, or `seconds`, timed in the `sandbox` in turn with the reference.
        tolerance: how far two measurements may differ.
    """

    meter: Meter = "operations"
    tolerance: float = 0.1
    sandbox: Sandbox = Sandbox()
    name: str = "speedup"
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.meter not in ("operations", "seconds"):
            raise ConfigurationError(f"meter must be operations or seconds, not {self.meter!r}")
        if not 0 <= self.tolerance < 1:
            raise ConfigurationError(f"tolerance must lie in [0, 1), not {self.tolerance:g}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        asked = (
            self.sandbox.apart(self.verify, one.answer, one.scenario, key.derive("inputs", number))
            for number, one in enumerate(trajectories)
        )
        return Opinions(await asyncio.gather(*asked))

    def verify(self, text: str, scenario: Scenario, key: Key | None = None) -> float | None:
        """What one answer is worth; waits for the timer. None where there is no reference, or timings disagree."""
        source = scenario.metadata.get("reference")
        if not source:
            return None
        reference, program = read(str(source)), read(program_in(text))
        if reference is None:
            raise ConfigurationError(
                f"the reference of scenario {scenario.id} cannot be read; see hocket.methods.agents.cuda_l1.loops"
            )
        if program is None:
            return 0.0
        drawn = (key or Key.of(scenario.seed)).derive("measured")
        if not right(reference, program, (*SIZES, *unseen(drawn))):
            return 0.0
        series = [self._ratios(reference, program, drawn.derive(number)) for number in range(2)]
        if series[0] is None or series[1] is None:
            return 0.0
        found = agreed(series[0], series[1], self.tolerance)
        return None if found is None else cautious(found)

    def _ratios(self, reference: Function, program: Function, key: Key) -> list[float] | None:
        """Reference time over the program's, measured again and again; None for a program that does not come to end."""
        if self.meter == "operations":
            spent = [sum(run(one, size)[1] for size in SIZES) for one in (reference, program)]
            return [spent[0] / spent[1]] * ROUNDS
        return seconds(reference, program, SIZES, (key.numpy().random(ROUNDS) < 0.5).tolist(), self.sandbox)


def right(reference: Function, program: Function, given: Sequence[int]) -> bool:
    """Whether a program returns what the reference does, in at most `SLOWEST` times its operations."""
    for one in given:
        wanted, cost = run(reference, one)
        try:
            found, _ = run(program, one, most=SLOWEST * cost)
        except Stopped:
            return False
        if found != wanted:
            return False
    return True


def unseen(key: Key) -> list[int]:
    """Different inputs that nobody saw before."""
    return [int(one) for one in key.numpy().choice(np.arange(60), size=INPUTS, replace=False)]


def program_in(text: str) -> str:
    """What of an answer is the program: as in `hocket.rewards.code_tests`, else the whole answer."""
    found = code_of(text)
    return (text if found is None else found).strip()


@dataclass(frozen=True)
class Runs(Reward):
    """1 for a program that runs and is right, else 0: what the self-supervised stage keeps."""

    speed: Speedup = Speedup()
    name: str = "runs"
    weight: float = 1.0

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        found = await self.speed(trajectories, key=key)
        return [None if one is None else float(one > 0) for one in found]


@dataclass(frozen=True)
class SmoothedReward(Shaping):
    """`clip((r - mu) / sigma, -most, most)`, mu and sigma over the trajectories of the step that count.

    0 throughout where all earned the same. The deviation has n in its denominator.
    """

    most: float = 1.5

    def __post_init__(self) -> None:
        if not self.most > 0:
            raise ConfigurationError(f"most must be above 0, not {self.most:g}")

    def __call__(self, batch: Batch) -> Batch:
        name = REWARD[Level.TRAJECTORY]
        if name not in batch.scores:
            return batch
        values, used = batch.scores[name].values.double(), counted_trajectories(batch)
        seen = values[used]
        spread = float(seen.std(correction=0)) if len(seen) else 0.0
        smooth = (values - seen.mean()) / spread if spread > 0 else torch.zeros_like(values)
        scores = {**batch.scores, name: LevelScores(Level.TRAJECTORY, smooth.clamp(-self.most, self.most))}
        return batch.but(scores=scores)


# ---------------------------------------------------------------- what is shown


def buckets(library: Mapping[str, float], width: float) -> list[list[str]]:
    """Programs by score, in steps of `width`, the lowest first, each bucket's in a fixed order."""
    found: dict[int, list[str]] = {}
    for program, score in sorted(library.items()):
        found.setdefault(math.floor(score / width + 1e-9), []).append(program)
    return [found[step] for step in sorted(found)]


def bucket_chances(means: Sequence[float], centre: float, temperature: float) -> list[float]:
    """`P(B_i) = exp((s_i - mu)/tau) / sum_j exp((s_j - mu)/tau)`, s_i a bucket's mean score and mu that of all."""
    weights = [math.exp((mean - centre) / temperature) for mean in means]
    return [weight / math.fsum(weights) for weight in weights]


@dataclass(frozen=True)
class Contrastive(RememberingRollout):
    """`samples` per scenario, whose prompt shows `exemplars` earlier programs with their scores.

    Each is from another bucket of the scenario's library: buckets are drawn one after the other without replacement by
    `bucket_chances`, and of each one program, every one as likely. They are told in rising order of their scores, in
    the hint of the assignment. A program that scored above 0 enters the library, at first `metadata["variants"]`,
    pairs of program and score. Where fewer buckets are known, fewer are shown.

    Attributes:
        score: the name of what counts. width: of a bucket. temperature: of the softmax. most: programs that are kept
            for a scenario; of more the lowest go.
        metrics: `rollout/exemplars` shown on average, `rollout/library` programs known of a scenario.
    """

    samples: int = 8
    exemplars: int = 2
    score: str = "speedup"
    width: float = 0.25
    temperature: float = 1.0
    most: int = 64

    def __post_init__(self) -> None:
        if self.samples < 1 or self.exemplars < 0 or self.most < 1:
            raise ConfigurationError("samples and most must be at least 1, and exemplars at least 0")
        if self.width <= 0 or self.temperature <= 0:
            raise ConfigurationError("width and temperature must be above 0")

    def init(self) -> State:
        return {"library": {}}

    async def collect_with(
        self,
        state: State,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> tuple[Experience, State]:
        """The samples in assignment order, and the library with what they found."""
        library: dict[str, dict[str, float]] = {name: dict(known) for name, known in state["library"].items()}
        told, shown = [], 0
        for asking in asked:
            known = library.setdefault(unmarked(asking.scenario.id), dict(asking.scenario.metadata.get("variants", ())))
            drawn = self.drawn(known, key.derive("exemplars", asking.scenario.id))
            shown += len(drawn)
            hint = "\n".join([*([asking.hint] if asking.hint else []), *(exemplar(*one) for one in drawn)])
            told.append(replace(asking, samples=self.samples, hint=hint or None))
        played = [one for group in await groups(play, told) for one in group]
        await score(played)
        for one in played:
            self._keep(library[unmarked(one.scenario.id)], one)
        sizes = [len(library[unmarked(asking.scenario.id)]) for asking in asked]
        count = max(1, len(asked))
        figures = {"rollout/exemplars": shown / count, "rollout/library": sum(sizes) / count}
        return Experience(played, metrics=figures), {"library": library}

    def drawn(self, library: Mapping[str, float], key: Key) -> list[tuple[str, float]]:
        """The exemplars with their scores, in rising order."""
        left, rng = buckets(library, self.width), key.numpy()
        centre = sums.mean([*library.values()]) if library else 0.0
        found: list[str] = []
        while left and len(found) < self.exemplars:
            means = [sums.mean([library[program] for program in bucket]) for bucket in left]
            place = int(rng.choice(len(left), p=bucket_chances(means, centre, self.temperature)))
            bucket = left.pop(place)
            found.append(bucket[int(rng.integers(len(bucket)))])
        return sorted(((program, library[program]) for program in found), key=lambda one: one[1])

    def _keep(self, known: dict[str, float], one: Trajectory) -> None:
        given = one.scores.get(self.score)
        worth = None if given is None else given.value
        if isinstance(worth, (int, float)) and worth > 0:
            program = program_in(one.answer)
            # What is measured twice keeps its lower score, as what is measured twice at once does.
            known[program] = min(float(worth), known.get(program, math.inf))
            if len(known) > self.most:
                del known[min(known, key=lambda name: (known[name], name))]


def exemplar(program: str, score: float) -> str:
    """How an earlier program is told."""
    return f"Score {score:g}:\n{program}"


# ---------------------------------------------------------------- what is asked


class FasterLoops(TextTask):
    """Functions of n that sum over a loop, to be written so that they take less.

    A scenario's metadata hold `reference`, the source; `variants`, the reference and another right program with their
    scores, which a library begins with; and `demonstration`, a right program of any speed. A success is a program that
    is faster than the reference.

    Args:
        shown: how many prompts, as a share, tell two right programs with their scores from the start, so that who
            imitates knows such prompts.
    """

    def __init__(self, shown: float = 0.0) -> None:
        if not 0 <= shown <= 1:
            raise ConfigurationError(f"task faster-loops: shown lies in 0 to 1, not {shown:g}")
        self.name = "faster-loops" + (f"?shown={shown:g}" if shown else "")
        self.shown = shown
        self._reward = Speedup()

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("faster-loops", split, number).numpy()
        while split_of((programs := drawn(rng))[0]) != split:
            pass
        plain = Scenario("", "", metadata={"reference": programs[0]})
        scored = [(one, self._reward.verify(one, plain) or 0.0) for one in programs]
        told = {
            "reference": programs[0],
            "variants": scored[:2],
            "demonstration": programs[int(rng.integers(len(programs)))],
        }
        lines = [f"Faster:\n{programs[0]}"]
        if rng.random() < self.shown:
            lines += [exemplar(*scored[place]) for place in sorted(rng.permutation(len(scored))[:2].tolist())]
        return Scenario(f"{self.name}/{split}/{number}", "\n".join(lines), metadata=told, seed=number)

    @property
    def rewards(self) -> Sequence[Reward]:
        return (self._reward,)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 80}

    def verify(self, text: str, scenario: Scenario) -> float | None:
        return self._reward.verify(text, scenario)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`runs`: whether it runs and is right; `faster`: whether it is faster, too."""
        worth = self.verify(trajectory.answer, trajectory.scenario) or 0.0
        return {"runs": float(worth > 0), "faster": float(worth > 1)}

    def label(self, trajectory: Trajectory) -> str | None:
        """Programs have no word by which they agree."""
        return None

    def success(self, trajectory: Trajectory) -> float:
        """1 for a program that is right and faster than the reference."""
        return float((self.verify(trajectory.answer, trajectory.scenario) or 0.0) > 1)


def drawn(rng: np.random.Generator) -> list[str]:
    """A sum over a loop, and the same with less in the loop, little in it, and without one."""
    a, b = rng.integers(2, 10, size=2).tolist()
    head, loop = "def f(n):\n s=0\n for i in range(n):\n  ", "\n return "
    return [
        f"{head}s=s+{a}*i+{b}{loop}s",
        f"{head}s=s+{a}*i{loop}s+{b}*n",
        f"{head}s=s+i{loop}{a}*s+{b}*n",
        f"def f(n):\n return {a}*n*(n-1)//2+{b}*n",
    ]


def from_settings(name: str, settings: Mapping[str, str]) -> FasterLoops:
    """The task with these settings."""
    return FasterLoops(**checked(name, settings, {"shown": float}))


FASTER_LOOPS = TaskForm(
    name="faster-loops",
    description="functions with a loop to be written so that they take fewer operations",
    make=from_settings,
)


# ---------------------------------------------------------------- how it is learnt

CUDA_L1_SELF = REINFORCE.but(
    name="cuda-l1-self",
    title="CUDA-L1's second stage: what runs and is right is learnt, whatever its speed",
    source="Li et al., CUDA-L1, arXiv:2507.14111",
    family="agents",
    formula="L = -1/N sum_i [runs and is right] sum_t log pi(a_it | s_it)",
    conventions={
        **REINFORCE.conventions,
        "samples": "8 of each program; those that fail count 0, so nothing is learnt from them",
        "reward": "1 or 0; speed is not read",
    },
    task="faster-loops",
    curriculum=Weighted(pool=64),
    **{"rollout.samples": 8, "rewards": (Runs(),)},
)


CUDA_L1 = GRPO_KL.but(
    name="cuda-l1",
    title="Contrastive reinforcement learning: earlier programs with their scores in the prompt",
    source="Li et al., CUDA-L1, arXiv:2507.14111; small loops in the place of CUDA kernels",
    family="agents",
    catalogue_ids=("cuda-l1",),
    axes=("search", "reward", "objective"),
    formula=GRPO_KL.formula + ",  r = t_ref/t or 0,  R = clip((r - mu)/sigma, -1.5, 1.5),  "
    "x = task + programs of 2 buckets with their scores,  P(B_i) ~ exp((s_i - mu_s)/tau)",
    conventions={
        **GRPO_KL.conventions,
        "stages": "a plan: sft on faster-loops?shown=0.5, cuda-l1-self, cuda-l1; the paper's imitation shows none",
        "exemplars": "2, of different buckets of 0.25, temperature 1, told in rising order under the prompt; the paper "
        "asks for an analysis before the program besides",
        "library": "of every scenario, at first the reference and one right variant; 64 programs at most. Evaluation "
        "shows none",
        "reward": "operations of the reference over the program's at n = 8, 16 and 32; right at these and at 6 numbers "
        "drawn anew; measured twice, 12 times each, medians of averages of 3, agreeing within 0.1, else no opinion; "
        "rewards.0.meter = seconds times both in the sandbox, the order drawn",
        "rounding": "to two decimals towards 1",
        "cheating": "programs of a language without memory between calls, clocks or late values; others score 0. The "
        "paper has a model that checks, and a list of known cheats",
        "smoothing": "mu and sigma over the step's samples that count",
        "curriculum": "a pool of 64 programs, so that each comes again and its library grows",
    },
    task="faster-loops",
    curriculum=Weighted(pool=64),
    rollout=Contrastive(),
    rewards=(Speedup(),),
    shaping=(SmoothedReward(),),
)
