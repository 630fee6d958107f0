"""The atlas: what recipes learnt as shipped, a line a run, kept beside their methods in `methods/GROUP/atlas.jsonl`.

`hocket atlas --fill` makes the runs. A line is of the recipe's code as it was then; of other code it is stale.
"""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, variance
from typing import Any, Literal

from hocket.core.intervals import Z95
from hocket.core.names import RECIPES
from hocket.lab.claims.digests import ATLAS, METHODS, digest
from hocket.lab.claims.kept_lines import lines_of, replace_lines

WORDS, PAIRS, TURNS, TOOLS = "words", "pairs", "turns", "tools"
CONTROL, TEAM = "control", "team of controllers"

COMMON: Mapping[str, tuple[str, int]] = {
    WORDS: ("reasoning-gym:chain_sum?min_terms=3&max_terms=4", 60),
    PAIRS: ("graded-sums", 40),
    TURNS: ("maze?width=3&height=3&steps=10&reading=number", 80),
    TOOLS: ("calculator?digits=5", 40),
    CONTROL: ("gym:CartPole-v1", 16),
    TEAM: ("mpe:spread", 60),
}
"""The task that recipes of a kind have in common, and the steps of a run on it."""

POINTS = 20
"""A kept curve has about so many points at most."""

GRADIENT = 1e6
"""A gradient norm beyond this counts as divergence, wherever it began."""

MARGIN = 0.05
"""How much worse than its parent a recipe may end, in points of a share, or as a share of the parent's gain."""

Figure = tuple[float, float, float]
"""A value and the ends of its 95 % interval over problems."""

Budget = Literal["answers", "seconds", "step"]


@dataclass(frozen=True)
class CurvePoint:
    """A measurement on unseen scenarios, after so many steps, answers, tokens and processor seconds of training."""

    step: int
    answers: int
    tokens: int
    seconds: float
    value: float


@dataclass(frozen=True)
class AtlasRun:
    """A recipe on a task, as shipped.

    Attributes:
        recipe, task, seed, steps: what `hocket train` is started with. lessons: supervised steps before.
        settings: flags of a run that is not the library's, the model among them.
        key: a digest of all settings and the recipe's code. code: of the latter alone. beside: the recipe that it is
            compared with on this task. declared: whether the recipe names this task, or has no other.
            rival: whether it ran there only for others to be compared with.
        measure: of `before`, `final` and `curve`, greedy on unseen scenarios. n: how many of them. share: whether it is
            a share in [0, 1].
        sampled: what `before` and `final` are for sampled answers; None where success is no share.
        reward: mean reward of the samples by step, thinned. gradient: its largest norm, None without any.
        diverged: metrics that blew up, and the step. metrics: of each the mean over the first and the last quarter.
        answers, tokens, seconds: sampled for training, and processor time without measurements.
        ended: why it ended before its steps. failure: why there is no result.
    """

    recipe: str
    task: str
    seed: int
    steps: int
    key: str
    code: str = ""
    beside: str = ""
    declared: bool = False
    lessons: int = 0
    measure: str = ""
    share: bool = True
    n: int = 0
    before: Figure = (math.nan, math.nan, math.nan)
    final: Figure = (math.nan, math.nan, math.nan)
    sampled: tuple[Figure, Figure] | None = None
    curve: tuple[CurvePoint, ...] = ()
    reward: tuple[tuple[int, float], ...] = ()
    gradient: float | None = None
    diverged: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    answers: int = 0
    tokens: int = 0
    seconds: float = 0.0
    ended: str = ""
    failure: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    rival: bool = False

    @property
    def command(self) -> str:
        """What starts an equal run."""
        more = {**self.settings, **({"lessons": self.lessons} if self.lessons else {})}
        flags = "".join(f" --{name} {shlex.quote(str(value))}" for name, value in more.items())
        return (
            f"hocket train --recipe {self.recipe} --task '{self.task}' --steps {self.steps} --seed {self.seed}{flags}"
        )

    @property
    def sound(self) -> bool:
        """Whether nothing blew up."""
        return not self.diverged and (self.gradient is None or self.gradient <= GRADIENT)

    def at(self, budget: Budget, amount: float) -> float:
        """The value after `amount` of a budget, straight between measurements, level before and after them."""
        known = [(float(getattr(point, budget)), point.value) for point in self.curve]
        after = next((place for place, (used, _) in enumerate(known) if used >= amount), len(known) - 1)
        (x, y), (left, low) = known[after], known[max(0, after - 1)]
        if amount >= x or x == left:
            return y
        return low + (y - low) * max(0.0, amount - left) / (x - left)

    def area(self, budget: Budget, amount: float) -> float:
        """The mean height of the curve until `amount` of a budget is used."""
        if amount <= 0:
            return self.curve[0].value
        inside = [float(getattr(point, budget)) for point in self.curve]
        places = [0.0, *(place for place in inside if 0 < place < amount), amount]
        heights = [self.at(budget, place) for place in places]
        parts = zip(places, places[1:], heights, heights[1:], strict=False)
        return sum((right - left) * (low + high) / 2 for left, right, low, high in parts) / amount

    def to_json(self) -> dict[str, Any]:
        """As kept, without what is empty."""
        plain = {**asdict(self), "curve": [list(asdict(point).values()) for point in self.curve]}
        if self.failure:
            return {
                name: plain[name] for name in ("recipe", "task", "seed", "steps", "key", "code", "beside", "failure")
            }
        for flag in ("declared", "rival"):
            if not plain[flag]:
                del plain[flag]
        return {name: value for name, value in plain.items() if value not in ("", {}, None)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> AtlasRun:
        """The run that `to_json` made a line of."""
        listed: dict[str, Any] = {name: tuple(data[name]) for name in ("before", "final") if name in data}
        if "sampled" in data:
            listed["sampled"] = tuple(tuple(of) for of in data["sampled"])
        listed["curve"] = tuple(CurvePoint(*point) for point in data.get("curve", ()))
        listed["reward"] = tuple((step, value) for step, value in data.get("reward", ()))
        pairs = {name: (first, last) for name, (first, last) in data.get("metrics", {}).items()}
        return AtlasRun(**{**data, **listed, "metrics": pairs})


# ---------------------------------------------------------------- what is kept


def runs_of(recipe: str) -> list[AtlasRun]:
    """The kept runs of a recipe of the library, whatever code they are of."""
    file = file_of(recipe)
    return [] if file is None else read(file, recipe)


def read(file: Path, recipe: str) -> list[AtlasRun]:
    """The runs of a recipe in a file."""
    return [AtlasRun.from_json({"recipe": recipe, **line}) for line in lines_of(file, recipe)]


def keep(file: Path, run: AtlasRun) -> None:
    """Keeps a run in the place of that of the same task, number of steps and seed."""
    others = [other for other in read(file, run.recipe) if _place(other) != _place(run)]
    ordered = sorted([*others, run], key=_place)
    lines = [{name: value for name, value in line.to_json().items() if name != "recipe"} for line in ordered]
    replace_lines(file, run.recipe, lines)


def _place(run: AtlasRun) -> tuple[str, int, int]:
    return run.task, run.steps, run.seed


def file_of(recipe: str) -> Path | None:
    """Where the runs of a recipe of the library are kept; None of a user's."""
    declared = RECIPES.own.get(recipe)
    return None if declared is None else METHODS / declared.module.split(".")[2] / ATLAS


@functools.cache
def code_of(recipe: str) -> str:
    """A digest of the recipe's method and the pieces it uses; empty of a user's."""
    declared = RECIPES.own.get(recipe)
    return "" if declared is None else digest(declared.module)


def fresh(run: AtlasRun) -> bool:
    """Whether the recipe's code is what it was."""
    return run.code == code_of(run.recipe)


def current(recipe: str, task: str, steps: int | None = None, file: Path | None = None) -> list[AtlasRun]:
    """The runs of a recipe on a task that are of its present code, by seed; those with the most steps by default."""
    runs = runs_of(recipe) if file is None else read(file, recipe)
    known = [run for run in runs if run.task == task and fresh(run)]
    wanted = max((run.steps for run in known), default=0) if steps is None else steps
    return [run for run in known if run.steps == wanted]


# ---------------------------------------------------------------- what it says


@dataclass(frozen=True)
class FigureInterval:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Standing:
    """What the runs of a recipe on a task say, of the seeds that it and `rival` share where there is one.

    Attributes:
        runs, rival: by seed. before, final: greedy, on unseen scenarios. gain: final minus before.
        sampled: the final figure of sampled answers, `sampled_gain` how much it rose, and `sampled_beside` minus the
            rival's, where both sampled about as many answers; None where it is not measured.
        beside: final minus the rival's where the smaller of both numbers of answers is used up; `sooner` the same of
            the mean height of the curves until there, `in_time` of processor seconds. None without a rival.
    """

    runs: Sequence[AtlasRun]
    rival: Sequence[AtlasRun]
    before: FigureInterval
    final: FigureInterval
    gain: FigureInterval
    sampled: FigureInterval | None
    sampled_gain: FigureInterval | None
    sampled_beside: FigureInterval | None
    beside: FigureInterval | None
    sooner: FigureInterval | None
    in_time: FigureInterval | None

    @property
    def sound(self) -> bool:
        """Whether nothing diverged."""
        return all(run.sound for run in self.runs)

    @property
    def rose(self) -> bool:
        """Whether unseen success rose by more than its interval, greedy or sampled."""
        return self.gain.low > 0 or (self.sampled_gain is not None and self.sampled_gain.low > 0)

    def keeps_up(self, margin: float = MARGIN) -> bool:
        """Whether it is neither greedy nor sampled worse than its rival, by more than the margin and the interval."""
        gaps = [gap for gap in (self.beside, self.sampled_beside) if gap is not None]
        return not any(gap.value < -margin * self.scale and gap.high < 0 for gap in gaps)

    @property
    def scale(self) -> float:
        """What a margin is a share of: 1 for shares, the rival's gain for returns."""
        if self.runs[0].share or not self.rival:
            return 1.0
        return abs(fmean(run.final[0] - run.before[0] for run in self.rival))

    @property
    def differs(self) -> bool:
        """Whether any run is another than that beside it; if none is, the recipe's own part did nothing."""
        pairs = list(zip(self.runs, self.rival, strict=False))
        return not pairs or any(_numbers(run) != _numbers(rival) for run, rival in pairs)

    @property
    def learns(self) -> bool:
        """Whether it learns by the rule of the catalogue."""
        return self.sound and self.rose and self.keeps_up()


def _numbers(run: AtlasRun) -> tuple[object, ...]:
    """What a run came to, without times."""
    return (*((point.step, point.value) for point in run.curve), *run.reward)


def standing(runs: Iterable[AtlasRun], rival: Iterable[AtlasRun] = ()) -> Standing | None:
    """What runs on one task say; None without a finished one."""
    ours = {run.seed: run for run in runs if not run.failure}
    theirs = {run.seed: run for run in rival if not run.failure}
    if not ours:
        return None
    shared = sorted(ours.keys() & theirs.keys())
    mine, other = list(ours.values()), [theirs[seed] for seed in shared]
    beside = sooner = in_time = None
    if shared:
        pairs = [(ours[seed], theirs[seed]) for seed in shared]
        beside, in_time = _beside(pairs, "answers"), _beside(pairs, "seconds")
        sooner = _beside(pairs, "answers", AtlasRun.area)
    return Standing(
        mine,
        other,
        _level([run.before for run in mine], mine[0].share),
        _level([run.final for run in mine], mine[0].share),
        _spread([run.final[0] - run.before[0] for run in mine], [_both(run.final, run.before) for run in mine]),
        *_sampled(mine, [(ours[seed], theirs[seed]) for seed in shared]),
        beside,
        sooner,
        in_time,
    )


def standings(recipe: str, file: Path | None = None) -> dict[str, Standing]:
    """What the runs of a recipe say by task, beside the recipe that they name; those in `file`, else the library's.

    They are compared with runs that began after as many lessons.
    """
    by_task = {}
    for task in dict.fromkeys(run.task for run in (runs_of(recipe) if file is None else read(file, recipe))):
        runs = current(recipe, task, file=file)
        rival = next((run.beside for run in runs if run.beside), "")
        others = current(rival, task, runs[0].steps, file) if rival else []
        result = standing(runs, [other for other in others if other.lessons == runs[0].lessons])
        if result is not None:
            by_task[task] = result
    return by_task


def _beside(
    pairs: Sequence[tuple[AtlasRun, AtlasRun]],
    budget: Budget,
    read_at: Callable[[AtlasRun, Budget, float], float] = AtlasRun.at,
) -> FigureInterval:
    """The differences at the smaller of both budgets; in steps where one samples nothing."""
    gaps = []
    for ours, theirs in pairs:
        of: Budget = budget if ours.answers and theirs.answers else "step"
        amount = min(float(getattr(run.curve[-1], of)) for run in (ours, theirs))
        gaps.append(read_at(ours, of, amount) - read_at(theirs, of, amount))
    return _spread(gaps, [_both(ours.final, theirs.final) for ours, theirs in pairs])


ALIKE = 0.1
"""By what share numbers of answers may differ for final figures to be compared."""


def _sampled(
    runs: Sequence[AtlasRun], pairs: Sequence[tuple[AtlasRun, AtlasRun]]
) -> tuple[FigureInterval | None, FigureInterval | None, FigureInterval | None]:
    """The final figure of sampled answers, its rise, and its difference from the rival's."""
    known = [run.sampled for run in runs if run.sampled is not None]
    if len(known) < len(runs):
        return None, None, None
    final = _level([last for _, last in known], runs[0].share)
    gain = _spread([last[0] - first[0] for first, last in known], [_both(first, last) for first, last in known])
    alike = all(abs(ours.answers - theirs.answers) <= ALIKE * theirs.answers for ours, theirs in pairs)
    both = [(ours.sampled[1], theirs.sampled[1]) for ours, theirs in pairs if ours.sampled and theirs.sampled]
    if not both or len(both) < len(pairs) or not alike:
        return final, gain, None
    return final, gain, _spread([ours[0] - theirs[0] for ours, theirs in both], [_both(*pair) for pair in both])


def _level(figures: Sequence[Figure], share: bool) -> FigureInterval:
    """The mean of figures; one keeps its interval, and shares stay between 0 and 1."""
    if len(figures) == 1:
        return FigureInterval(*figures[0])
    mean = _spread([figure[0] for figure in figures], [_error(figure) for figure in figures])
    return FigureInterval(mean.value, max(0.0, mean.low), min(1.0, mean.high)) if share else mean


def _spread(values: Sequence[float], errors: Sequence[float]) -> FigureInterval:
    """The mean, with the larger of the errors that the scenarios and the seeds tell of."""
    among = math.sqrt(sum(error**2 for error in errors)) / len(errors)
    seeds = math.sqrt(variance(values) / len(values)) if len(values) > 1 else 0.0
    mean, half = fmean(values), Z95 * max(among, seeds)
    return FigureInterval(mean, mean - half, mean + half)


def _error(figure: Figure) -> float:
    """The standard error that an interval stands for."""
    _, low, high = figure
    return (high - low) / (2 * Z95) if math.isfinite(high - low) else 0.0


def _both(one: Figure, other: Figure) -> float:
    return math.hypot(_error(one), _error(other))


def thinned(run: AtlasRun) -> AtlasRun:
    """With curves of `POINTS` points at most, the first and the last among them."""
    return replace(run, curve=tuple(_some(run.curve)), reward=tuple(_some(run.reward)))


def _some(points: Sequence[Any]) -> list[Any]:
    if len(points) <= POINTS:
        return list(points)
    return [points[round(place * (len(points) - 1) / (POINTS - 1))] for place in range(POINTS)]
