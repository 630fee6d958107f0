"""A recipe that learns: read from the atlas, whose runs are of the recipe as shipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hocket.lab.claims import atlas
from hocket.lab.claims.atlas import MARGIN, AtlasRun, Standing, standing
from hocket.lab.claims.finding import Finding

if TYPE_CHECKING:
    from hocket.recipe import Recipe


@dataclass(frozen=True)
class Learning:
    """What is read: the runs of a recipe on a task, beside those of another.

    Attributes:
        task: by name; the recipe's own when None. steps: of the runs; the most that there are when None.
        seeds: how many runs are needed, from seed 0. beside: the recipe that it is compared with, by name; None for its
            parent, and its own name for none.
        margin: how much worse it may be, in points of a share, or as a share of the other's gain in return.
        better: it must be better by more than the interval.
        metric: what the paper improves where that is not return, and the sign of the change: `("length/mean", -1)`. It
            must have changed so against the other at the end, in place of (b) and (c).
    """

    recipe: Recipe
    task: str | None = None
    steps: int | None = None
    seeds: int = 2
    beside: str | None = None
    margin: float = MARGIN
    better: bool = False
    metric: tuple[str, int] | None = None

    @property
    def rival(self) -> str | None:
        """The recipe that it is compared with."""
        other = self.beside or self.recipe.parent
        return None if other == self.recipe.name else other

    @property
    def place(self) -> str:
        """The task."""
        return self.task or self.recipe.task or "sums"

    @property
    def sentence(self) -> str:
        """The claim."""
        steps = f" --steps {self.steps}" if self.steps else ""
        words = (
            f"`hocket train --recipe {self.recipe.name} --task {self.place}{steps}` diverges in none of {self.seeds} "
        )
        words += "runs"
        if self.metric is not None:
            name, sign = self.metric
            return f"{words}, and its {name} ends {'higher' if sign > 0 else 'lower'} than that of {self.rival}."
        words += " and solves more unseen scenarios than before, by more than the interval"
        if self.rival is None:
            return f"{words}."
        least = "more" if self.better else f"not fewer, by more than {self.margin:g},"
        return f"{words}; {least} than {self.rival} at equal samples."

    def __call__(self) -> Finding:
        ours = self._runs(self.recipe.name)
        theirs = [] if self.rival is None else self._runs(self.rival)
        for name, runs in ((self.recipe.name, ours), (self.rival, theirs)):
            if name is not None and len(runs) < self.seeds:
                filled = f"hocket atlas --fill --recipes {self.recipe.name} --seeds {self.seeds}"
                return Finding(
                    False, f"the atlas has {len(runs)} of {self.seeds} runs of {name}; `{filled}` makes them"
                )
        failure = next((run for run in [*ours, *theirs] if run.failure), None)
        if failure is not None:
            return Finding(False, f"{failure.recipe}, seed {failure.seed}: {failure.failure}")
        result = standing(ours, theirs)
        assert result is not None
        if self.metric is not None:
            return self._measured(result, *self.metric)
        better = not self.better or (result.beside is not None and result.beside.low > 0)
        return Finding(result.sound and result.rose and result.keeps_up(self.margin) and better, in_words(result))

    def _runs(self, recipe: str) -> list[AtlasRun]:
        return [run for run in atlas.current(recipe, self.place, self.steps) if run.seed < self.seeds]

    def _measured(self, result: Standing, name: str, sign: int) -> Finding:
        lacking = [run.recipe for run in [*result.runs, *result.rival] if name not in run.metrics]
        if lacking:
            return Finding(False, f"the runs of {lacking[0]} have no metric {name}")
        ours, theirs = ([run.metrics[name][1] for run in runs] for runs in (result.runs, result.rival))
        pairs = list(zip(ours, theirs, strict=False))
        holds = bool(pairs) and all(sign * (mine - other) > 0 for mine, other in pairs)
        figures = "; ".join(f"{mine:.4g} and {other:.4g} of {self.rival}" for mine, other in pairs)
        return Finding(holds and result.sound, f"{name} {figures}, {in_words(result)}")


def in_words(result: Standing) -> str:
    """The figures of a standing in a line."""
    parts = [f"{result.before.value:.3g} → {result.final}"]
    parts += [f"sampled {result.sampled}"] if result.sampled is not None else []
    if result.beside is not None:
        parts.append(f"{result.beside} against {result.rival[0].recipe} at equal samples")
    gradients = [run.gradient for run in result.runs if run.gradient is not None]
    parts += [f"largest gradient norm {max(gradients):.2g}"] if gradients else []
    blown = sorted({name for run in result.runs for name in run.diverged})
    parts += [f"diverged: {', '.join(blown)}"] if blown else []
    parts.append(f"{len(result.runs)} {'seed' if len(result.runs) == 1 else 'seeds'}")
    return ", ".join(parts)
