"""A recipe that learns: read from the atlas, whose runs are of the recipe as shipped."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.lab.claims import atlas
from hocket.lab.claims.atlas import MARGIN, AtlasRun, Standing, standing
from hocket.lab.claims.finding import Finding
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
        said = (
            f"`hocket train --recipe {self.recipe.name} --task {self.place}{steps}` diverges in none of {self.seeds} "
        )
        said += "runs"
        if self.metric is not None:
            name, sign = self.metric
            return f"{said}, and its {name} ends {'higher' if sign > 0 else 'lower'} than that of {self.rival}."
        said += " and solves more unseen scenarios than before, by more than the interval"
        if self.rival is None:
            return f"{said}."
        least = "more" if self.better else f"not fewer, by more than {self.margin:g},"
        return f"{said}; {least} than {self.rival} at equal samples."

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
        found = standing(ours, theirs)
        assert found is not None
        if self.metric is not None:
            return self._measured(found, *self.metric)
        better = not self.better or (found.beside is not None and found.beside.low > 0)
        return Finding(found.sound and found.rose and found.keeps_up(self.margin) and better, in_words(found))

    def _runs(self, recipe: str) -> list[AtlasRun]:
        return [run for run in atlas.current(recipe, self.place, self.steps) if run.seed < self.seeds]

    def _measured(self, found: Standing, name: str, sign: int) -> Finding:
        lacking = [run.recipe for run in [*found.runs, *found.rival] if name not in run.metrics]
        if lacking:
            return Finding(False, f"the runs of {lacking[0]} have no metric {name}")
        ours, theirs = ([run.metrics[name][1] for run in runs] for runs in (found.runs, found.rival))
        pairs = [(one, other) for one, other in zip(ours, theirs, strict=False)]
        holds = bool(pairs) and all(sign * (one - other) > 0 for one, other in pairs)
        said = "; ".join(f"{one:.4g} and {other:.4g} of {self.rival}" for one, other in pairs)
        return Finding(holds and found.sound, f"{name} {said}, {in_words(found)}")


def in_words(found: Standing) -> str:
    """The figures of a standing in a line."""
    parts = [f"{found.before.value:.3g} → {found.final}"]
    parts += [f"sampled {found.sampled}"] if found.sampled is not None else []
    if found.beside is not None:
        parts.append(f"{found.beside} against {found.rival[0].recipe} at equal samples")
    gradients = [run.gradient for run in found.runs if run.gradient is not None]
    parts += [f"largest gradient norm {max(gradients):.2g}"] if gradients else []
    blown = sorted({name for run in found.runs for name in run.diverged})
    parts += [f"diverged: {', '.join(blown)}"] if blown else []
    parts.append(f"{len(found.runs)} {'seed' if len(found.runs) == 1 else 'seeds'}")
    return ", ".join(parts)
