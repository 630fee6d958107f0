"""What a claim is, how a method's file of claims states it, and what came of it."""

from __future__ import annotations

import contextlib
import io
import re
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hocket.lab.claims.finding import Finding

if TYPE_CHECKING:
    from hocket.lab.hand_formulas import Loss, Rule
    from hocket.recipe import Recipe

__all__ = ["Check", "Claims", "Finding", "Verdict"]


@dataclass(frozen=True)
class Check:
    """One claim of a catalogue row, and what puts it to the test.

    Attributes:
        row: the catalogue id. claim: what should hold, a sentence a reader of the paper recognises.
        run: puts it to the test. An exception counts as a claim that does not hold.
        source: where the claim stands (paper, equation), or that it was derived here.
        slow: takes more than a few seconds (it trains something). shipped: runs the recipe as a user does.
        learns: measures what the recipe learns in runs as a user makes them.
    """

    row: str
    claim: str
    run: Callable[[], Finding]
    source: str = ""
    slow: bool = False
    shipped: bool = False
    learns: bool = False

    def __call__(self) -> Verdict:
        """Runs it."""
        started = time.perf_counter()
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # A claim that trains would show its progress.
                finding = self.run()
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
            finding = Finding(False, f"{type(error).__name__} at {place}: {error}")
        seconds = time.perf_counter() - started
        return Verdict(
            self.row, self.claim, bool(finding.holds), finding.saw, seconds, self.shipped, learns=self.learns
        )


@dataclass(frozen=True)
class Verdict:
    """What a check found. `seconds` are wall-clock; `shipped` and `learns` as of the check; `made_from` a digest of the
    code, and of the runs that were read.
    """

    row: str
    claim: str
    holds: bool
    saw: str
    seconds: float
    shipped: bool = False
    made_from: str = ""
    learns: bool = False

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        return {name: value for name, value in asdict(self).items() if name != "made_from"}


class Claims(list[Check]):
    """The claims of one catalogue row, in the order in which its file states them.

        claim = Claims("gigpo", "arXiv:2505.10978")

        @claim("With w = 0 it is GRPO.")
        def without_weight_it_is_grpo() -> Finding: ...

        claim.reduces("At the old policy its gradient is GRPO's.", GIGPO, GRPO, gap=0.0)
        claim.constants("The paper's constants are the recipe's.", GIGPO, {"credit.weight": 1.0}, "table 4")
        claim.shipped(GIGPO, "credit", task="maze")
        claim.learns(GIGPO, task="maze", steps=40)

    `source` is where a claim stands that names no place of its own.
    """

    def __init__(self, row: str, source: str = "") -> None:
        super().__init__()
        self.row, self.source = row, source

    def __call__(
        self, sentence: str, source: str = "", *, slow: bool = False, learns: bool = False
    ) -> Callable[[Callable[[], Finding]], Callable[[], Finding]]:
        """Decorates what puts `sentence` to the test.

        `learns`: it runs the recipe as shipped and measures what its paper is for, where that is not success.
        """

        def stated(run: Callable[[], Finding]) -> Callable[[], Finding]:
            self.append(Check(self.row, sentence, run, source or self.source, slow, learns=learns))
            return run

        return stated

    def by_hand(
        self,
        sentence: str,
        recipe: Recipe,
        formula: Loss,
        *names: str | int,
        source: str = "",
        credit: Rule | None = None,
        state: Mapping[str, Any] | None = None,
        limit: float = 1e-12,
        slow: bool = False,
        **rows: Any,
    ) -> None:
        """States that advantages, loss, gradient and metrics are those that `formula` counts from recorded rows.

        `names` and `rows` are those of `hocket.lab.hand_formulas.stale_rows`, the others as of
        `hocket.lab.hand_formulas.off`.
        """
        from hocket.lab.hand_formulas import off, stale_rows, standardised

        def run() -> Finding:
            drawn = stale_rows(*(names or (self.row,)), **rows)
            gaps = [off(recipe, batch, formula, credit or standardised, state) for batch in drawn]
            return Finding(max(gaps) < limit, f"off by hand {max(gaps):.3e}, {len(gaps)} batches")

        self.append(Check(self.row, sentence, run, source or self.source, slow))

    def reduces(
        self,
        sentence: str,
        recipe: Recipe,
        to: Recipe,
        *names: str | int,
        source: str = "",
        count: int = 20,
        **settings: Any,
    ) -> None:
        """States that two recipes have equal gradients on random batches; `settings` are of `random_document`."""
        from hocket.lab.claims.comparisons import same_gradient

        def run() -> Finding:
            return same_gradient(recipe, to, count, *names, **settings)

        self.append(Check(self.row, sentence, run, source or self.source))

    def constants(self, sentence: str, recipe: Recipe, values: Mapping[str, Any], source: str = "") -> None:
        """States the settings of a recipe by dotted path; a value that is a type stands for its instances."""
        from hocket.core.components import value_at

        def run() -> Finding:
            actual = {path: value_at(recipe, path) for path in values}
            others = [f"{path} = {value!r}" for path, value in actual.items() if not _is(value, values[path])]
            shown = ", ".join(others) or ", ".join(f"{path} = {_short(value)}" for path, value in actual.items())
            return Finding(not others, shown)

        self.append(Check(self.row, sentence, run, source or self.source))

    def refuses(self, sentence: str, make: Callable[[], object], match: str, source: str = "") -> None:
        """States that `make` raises one of hocket's errors, or a `ValueError`, in whose message `match` is found."""
        from hocket.core.errors import HocketError

        def run() -> Finding:
            try:
                result = make()
            except (HocketError, ValueError) as error:
                return Finding(re.search(match, str(error)) is not None, str(error))
            return Finding(False, f"not refused: {_short(result)}")

        self.append(Check(self.row, sentence, run, source or self.source))

    def shipped(self, recipe: Recipe, *slots: str, **how: Any) -> None:
        """States that the recipe as a user runs it is what its paper says: its own part acts, and changes the gradient.

        `slots` are set back to what the parent has there, to see what they do; `how` are further fields of
        `hocket.lab.claims.shipped_check.Shipment`. In a call of its own, at the margin of the file.
        """
        from hocket.lab.claims.shipped_check import Shipment  # Loads all that trains, which few claims need.

        shipment = Shipment(recipe, slots, **how)
        self.append(Check(self.row, shipment.sentence, shipment, self.source, slow=True, shipped=True))

    def learns(self, recipe: Recipe, **how: Any) -> None:
        """States that the recipe as a user runs it learns: nothing diverges, unseen success rises by more than its
        interval, and it is not worse than its parent at equal samples by more than a margin.

        It reads the runs of the atlas (`hocket atlas --fill`) and makes none. `how` are further fields of
        `hocket.lab.claims.learns_check.Learning`. In a call of its own, at the margin of the file.
        """
        from hocket.lab.claims.learns_check import Learning

        learning = Learning(recipe, **how)
        self.append(Check(self.row, learning.sentence, learning, self.source, learns=True))

    def searched(self, method: Any, reflect: Callable[[str], str], **settings: Any) -> None:
        """States the same of a searcher, run by `hocket optimise` on the shipped model.

        `reflect` answers in the reflecting model's place; `settings` are those of
        `hocket.train.optimise.run.SearchSettings`.
        """
        from hocket.lab.claims.search_check import SearchCheck

        check = SearchCheck(method, reflect, settings)
        self.append(Check(self.row, check.sentence, check, self.source, slow=True, shipped=True))

    def solved(self, method: Any, without: Mapping[str, Any], **how: Any) -> None:
        """States the same of a solver, run by `hocket solve`: `without` are settings that take its own part away.

        `how` are further fields of `hocket.lab.claims.solver_check.SolverCheck`.
        """
        from hocket.lab.claims.solver_check import SolverCheck

        check = SolverCheck(method, without, **how)
        self.append(Check(self.row, check.sentence, check, self.source, slow=True, shipped=True))

    def spares(self, mutant: str, reason: str) -> None:
        """Says why the claims may hold for a wrong version of the method, by its name (`hocket recipes --mutate`).

        `hocket.lab.claims.survey` reads it from the file: texts as they stand, or the name of one.
        """


def _is(actual: object, wanted: object) -> bool:
    return isinstance(actual, wanted) if isinstance(wanted, type) else bool(actual == wanted)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
