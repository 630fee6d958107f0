"""What searches over texts do where the best texts are known, and on a small real task: Evidence in docs/search.md.

    python benchmarks/search_evidence.py optimum coins graphs trees --out DIR      # minutes of one core; needs gepa
    hocket optimise --task "benchmarks/search_evidence.py:Sentences?file=FILE" --model smollm2 --searcher reflective

Predicted, before any of it was run:

optimum: every searcher needs fewer target calls to the best texts than random mutation of what it changes.
coins: where scores are coins, or the critic's verdicts are, nothing is gained.
graphs: within 2 % of the best of 4096 graphs, by measuring at most 20 % of so many, on seeds that no claim uses.
trees: a tree over models is ahead of the best of n of the best one, with 48 calls by more than with 12, on such seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import numpy as np

from hocket.agents.search.gepa import Gepa
from hocket.agents.search.plain import Reflective
from hocket.agents.search.searcher import CaseResult, SearchBench, Searcher, Spent, Trial, search
from hocket.agents.tools.recall import called_up
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.texts import Texts
from hocket.lab.texts_worlds import Tactical, contrasting
from hocket.methods.agents.rmm import ReflectiveMemory
from hocket.methods.search.claims import mass, optagent, toa
from hocket.methods.search.compass_smac.method import SkillSynthesis
from hocket.methods.search.mars_prompt import Socratic
from hocket.methods.search.optagent.graph_world import evaluating
from hocket.methods.search.optagent.method import VerbalGraph
from hocket.methods.search.training_free_grpo import SemanticAdvantage
from hocket.stages import Split
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask
from hocket.types import Scenario

KINDS, TACTICS, CASES = 6, 4, 24
"""Kinds of question, tactics of which one is right for each, and cases to practise on and to choose by."""

BUDGET, SHORT = 200_000, 1000
"""Target calls: to come to the best, and where there is nothing to find."""

Reflects = Callable[[str], str]
_LESSON = re.compile(r"kind (\d+): tactic (\d+)")


# ---------------------------------------------------------------- a world of hidden rules


@dataclass(frozen=True)
class Hidden(Tactical):
    """`Tactical` whose lessons may stand in the prompt, in the library, as far as it is called up, or in skills.

    A user says what was right. The best texts have the right lesson for every kind, and nothing but scores and users
    tell which it is.
    """

    skills: Mapping[str, str] = field(default_factory=dict)
    drills: Sequence[str] = ("assert isinstance({skill}({}), int)",)

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        played = super().play(texts, cases, samples, first=first, greedy=greedy, key=key)
        return [replace(one, expected=f"tactic {self.right[one.case % len(self.right)]}") for one in played]

    @staticmethod
    def lesson(texts: Texts, kind: int) -> int | None:
        library, question = texts.library, f"A case of kind {kind}."
        if texts.recall is not None:
            library = tuple(library[place] for place in called_up(texts.recall, question, library))
        told = lessons("\n".join((texts.prompts.get("policy", ""), *library, *(texts.skills or {}).values())))
        return told.get(kind)


@dataclass(frozen=True)
class Coins:
    """A target whose scores, and whose users' right answers, are drawn anew: they tell nothing of the texts."""

    of: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of, name)

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        found = []
        for place, one in enumerate(self.of.play(texts, cases, samples, first=first, greedy=greedy, key=key)):
            draw = key.derive("coin", texts.digest, one.case, first, place % samples).numpy()
            score, right = float(draw.random() < 1 / TACTICS), f"tactic {draw.integers(TACTICS)}"
            found.append(
                replace(one, score=score, expected=right if one.expected.startswith("tactic") else one.expected)
            )
        return found


def hidden(seed: int) -> Hidden:
    return Hidden(tuple(Key.of(seed).derive("right").numpy().integers(0, TACTICS, KINDS).tolist()))


def lessons(text: str) -> dict[int, int]:
    """The tactic of each kind, by the first lesson on it."""
    return {int(kind): int(tactic) for kind, tactic in reversed(_LESSON.findall(text))}


def written(told: Mapping[int, int]) -> str:
    return "\n".join(f"kind {kind}: tactic {told[kind]}" for kind in sorted(told))


def skill(kind: int, tactic: int) -> str:
    return f'def kind_{kind}(view):\n    "kind {kind}: tactic {tactic}"\n    return {tactic}\n'


# ---------------------------------------------------------------- who reflects: rules, which know what they are shown


@dataclass
class Author:
    """Rewrites after failures: the first that is shown is answered by another tactic. Draws anew each time."""

    seed: int
    draw: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.draw = Key.of(self.seed).derive("author").numpy()

    def __call__(self, question: str) -> str:
        kind, tactic = self.another(question)
        return written({**lessons(question), kind: tactic})

    def another(self, question: str) -> tuple[int, int]:
        """A kind that failed, and a tactic that did not."""
        shown = [part for part in question.split("A case of kind ")[1:] if "This is right" not in part]
        failed = [(int(part[0]), int(re.findall(r"tactic (\d)", part)[0])) for part in shown]
        kind = failed[0][0]
        wrong = {tactic for one, tactic in failed if one == kind}
        return kind, int(self.draw.choice([tactic for tactic in range(TACTICS) if tactic not in wrong]))


class Programmer(Author):
    """Writes the skill instead."""

    def __call__(self, question: str) -> str:
        return skill(*self.another(question.partition("What they said")[2]))


@dataclass
class School(Author):
    """MARS's seats: the teacher guesses at a tactic for the kind of its step, the critic knows with chance `critic`."""

    right: Sequence[int] = ()
    critic: float = 1.0

    def __call__(self, question: str) -> str:
        if question.startswith("You are the planner"):
            return "\n".join(f"{kind + 1}. kind {kind}" for kind in range(KINDS))
        if question.startswith("You are the teacher"):
            kind = re.findall(r"step at hand: kind (\d)", question)[0]
            return f"Is it kind {kind}: tactic {self.draw.integers(TACTICS)}?"
        asked = lessons(question.rpartition("question: ")[2])
        if question.startswith("You are the critic"):
            ((kind, tactic),) = asked.items()
            good = (self.right[kind] == tactic) == (self.draw.random() < self.critic)
            return "ACCEPT" if good else "REJECT"
        return written({**lessons(question.partition("The teacher's question")[0]), **asked})


def remembering(question: str) -> str:
    """RMM's: what the user said was right, and never the same as another memory."""
    if question.startswith("A new memory"):
        return "ADD"
    kind, tactic = re.findall(r"kind (\d)\.", question)[0], re.findall(r"tactic (\d)", question)[-1]
    return f"kind {kind}: tactic {tactic}"


# ---------------------------------------------------------------- random mutation of whatever a searcher changes

Change = Callable[[Texts, np.random.Generator], Texts]


@dataclass(frozen=True)
class Mutated(Searcher):
    """`random-mutation` of anything: one thing of the best is changed blindly, and kept when better on development."""

    change: Change
    patience: int = 300

    def search(self, bench: SearchBench) -> None:
        draw, idle = bench.key.derive("mutated").numpy(), 0
        while idle < self.patience:
            best, known = bench.best, len(bench.trials)
            bench.measure(self.change(best.texts, draw), "mutated", best)
            idle = 0 if len(bench.trials) > known else idle + 1


def _lesson(draw: np.random.Generator) -> tuple[int, int]:
    return int(draw.integers(KINDS)), int(draw.integers(TACTICS))


def in_prompt(texts: Texts, draw: np.random.Generator) -> Texts:
    kind, tactic = _lesson(draw)
    return replace(texts, prompts={"policy": written({**lessons(texts.prompts.get("policy", "")), kind: tactic})})


def in_library(texts: Texts, draw: np.random.Generator) -> Texts:
    kind, tactic = _lesson(draw)
    return replace(texts, library=tuple(written({**lessons("\n".join(texts.library)), kind: tactic}).splitlines()))


def in_skills(texts: Texts, draw: np.random.Generator) -> Texts:
    kind, tactic = _lesson(draw)
    return replace(texts, skills={**(texts.skills or {}), f"kind_{kind}": skill(kind, tactic)})


def in_graph(texts: Texts, draw: np.random.Generator) -> Texts:
    """One edge is turned, and as often as not another."""
    edges = optagent.every(optagent.team(0))
    there = frozenset(edges if texts.edges is None else texts.edges)
    turned = {edges[place] for place in draw.permutation(len(edges))[: draw.geometric(0.5)].tolist()}
    return replace(texts, edges=tuple(sorted(there ^ turned)))


# ---------------------------------------------------------------- the searchers


@dataclass(frozen=True)
class Case:
    """A searcher in a world whose best is known.

    Attributes:
        searcher, blind: it, and random mutation of what it changes. world, reflects: by seed. goal: the score sought.
        accuracy: the true one of texts.
    """

    searcher: Searcher
    blind: Searcher
    world: Callable[[int], Any] = hidden
    reflects: Callable[[int], Reflects] = Author
    goal: Callable[[int], float] = lambda seed: 1.0
    seeds: int = 20

    def run(self, seed: int, searcher: Searcher, budget: int = BUDGET, coins: bool = False) -> SearchBench:
        """A search until the goal is met; with `coins` to its end, by scores that tell nothing."""
        goal, world = math.inf if coins else self.goal(seed), self.world(seed)

        def met(trial: Trial) -> None:
            if trial.number and trial.score >= goal - 1e-9:
                raise Spent

        target = Coins(world) if coins else world
        key = Key.of(seed).derive("evidence")
        bench = SearchBench(target, self.reflects(seed), Texts(), key, budget, CASES, CASES, observe=met)
        search(bench, searcher)
        return bench


def schooled(critic: float) -> Callable[[int], Reflects]:
    return lambda seed: School(seed, hidden(seed).right, critic)


LONG = Socratic(turns=20, patience=200)
CRITICAL = Case(LONG, Mutated(in_prompt), reflects=schooled(1.0))
GRAPHS = Case(
    VerbalGraph(),
    Mutated(in_graph),
    optagent.team,
    lambda seed: evaluating,
    lambda seed: 0.98 * optagent.exhaustive(seed),
)
TEAMS = Case(mass.ENOUGH, mass.Blind(), mass.world, mass.varying, lambda seed: 0.98 * mass.world(seed).best(mass.MOST))
EVERY: Mapping[str, Case] = {
    "reflective": Case(Reflective(patience=50), Mutated(in_prompt)),
    "gepa": Case(Gepa(proposals=2000), Mutated(in_prompt)),
    "mars-prompt": CRITICAL,
    "training-free-grpo": Case(SemanticAdvantage(batch=6), Mutated(in_library), reflects=lambda seed: contrasting),
    "rmm": Case(ReflectiveMemory(), Mutated(in_library), reflects=lambda seed: remembering),
    "compass-smac": Case(SkillSynthesis(proposals=200, patience=50), Mutated(in_skills), reflects=Programmer, seeds=10),
    "optagent": GRAPHS,
    "mass": TEAMS,
}


# ---------------------------------------------------------------- what is measured

Row = dict[str, Any]


def calls(bench: SearchBench, goal: float) -> float:
    """Target calls until some version met the goal; infinitely many where none did."""
    return next((one.spent for one in bench.trials if one.score >= goal - 1e-9), math.inf)


def ranged(values: Sequence[float]) -> str:
    return f"{median(values):g} ({min(values):g} to {max(values):g})"


def optimum() -> list[Row]:
    """Calls to the best texts, of every searcher and of random mutation in the same worlds."""
    rows: list[Row] = []
    for name, case in EVERY.items():
        found, blind = (
            [calls(case.run(seed, one), case.goal(seed)) for seed in range(case.seeds)]
            for one in (case.searcher, case.blind)
        )
        fewer = sum(a < b for a, b in zip(found, blind, strict=True))
        rows.append({"searcher": name, "calls": ranged(found), "random mutation": ranged(blind)})
        rows[-1] |= {"fewer in": f"{fewer} of {case.seeds}", "as predicted": median(found) < median(blind)}
        told(rows[-1])
    return rows


def coins() -> list[Row]:
    """Gains by scores that are coins, and calls with a critic or evaluators that are."""
    rows: list[Row] = []
    guessing = {"mars-prompt, its critic a coin too": replace(CRITICAL, reflects=schooled(0.5))}
    for name, case in {**EVERY, **guessing}.items():
        if case.world is not hidden:
            continue
        pairs = [gain(case, seed) for seed in range(case.seeds)]
        gains, true = ([pair[n] for pair in pairs] for n in (0, 1))
        error = stdev(gains) / math.sqrt(len(gains))
        rows.append({"searcher": name, "gain from coins": f"{fmean(gains):+.3f}", "standard error": f"{error:.3f}"})
        rows[-1] |= {"gain from scores": f"{fmean(true):+.3f}", "as predicted": fmean(gains) < 2 * error}
        told(rows[-1])
    critics = {
        "mars-prompt, critic": (CRITICAL, replace(CRITICAL, reflects=schooled(0.5)), replace(LONG, critic=False)),
        "optagent, evaluators": (GRAPHS, replace(GRAPHS, reflects=tossing), GRAPHS.searcher),
    }
    for name, (knowing, coin, without) in critics.items():
        none = replace(knowing, searcher=without, reflects=silent if knowing is GRAPHS else knowing.reflects)
        spent = [
            [calls(one.run(seed, one.searcher), one.goal(seed)) for seed in range(one.seeds)]
            for one in (knowing, coin, none)
        ]
        saved = [math.log(b / a) for a, b in zip(spent[1], spent[2], strict=True)]
        error = stdev(saved) / math.sqrt(len(saved))
        rows.append({"searcher": name, "knows": ranged(spent[0]), "a coin": ranged(spent[1]), "none": ranged(spent[2])})
        rows[-1] |= {"as predicted": fmean(saved) < 2 * error}
        told(rows[-1])
    return rows


def gain(case: Case, seed: int) -> tuple[float, float]:
    """What a search gained in truth, by coins and by scores."""
    found = []
    for tossed in (True, False):
        bench = case.run(seed, case.searcher, SHORT, coins=tossed)
        found.append(case.world(seed).accuracy(bench.best.texts) - case.world(seed).accuracy(Texts()))
    return found[0], found[1]


def silent(seed: int) -> Reflects:
    """OPTAGENT's evaluators that grade nothing."""
    return lambda question: "KEEP"


def tossing(seed: int) -> Reflects:
    """OPTAGENT's evaluators that grade by a coin, and its controller, who goes by these grades."""
    draw = Key.of(seed).derive("tossing").numpy()

    def reflect(question: str) -> str:
        if "You control" in question:
            return evaluating(question)
        edges = re.findall(r"\w+ < \w+", question.partition("Connections (reader < read): ")[2])
        return "\n".join(f"{edge}: {int(draw.integers(-1, 2)):+d}" for edge in edges)

    return reflect


def graphs() -> list[Row]:
    """Graphs measured to the search's end, and how far the best is behind the best of all, on other seeds."""
    seeds = range(len(optagent.SEEDS), len(optagent.SEEDS) + 16)
    behind = [1 - optagent.accuracy(seed) / optagent.exhaustive(seed) for seed in seeds]
    share = [len(optagent.found(seed).trials) / 4096 for seed in seeds]
    row: Row = {"seeds": len(seeds), "behind": ranged(behind), "share of 4096 measured": ranged(share)}
    row["as predicted"] = max(behind) < 0.02 and max(share) <= 0.2
    told(row)
    return [row]


def trees() -> list[Row]:
    """The tree's lead over the best of n of the best model, with few and with many calls, on other seeds."""
    rows: list[Row] = []
    seeds = range(6, 18)
    for rival in ("best model, best of n", "all seats, best of n", "fixed pipeline", "beam"):
        leads = [[toa.outcomes(seed)["tree"][n] - toa.outcomes(seed)[rival][n] for seed in seeds] for n in (0, 1)]
        growth = [late - early for early, late in zip(*leads, strict=True)]
        clear = all(fmean(one) > 2 * stdev(one) / math.sqrt(len(one)) for one in (*leads, growth))
        rows.append(
            {
                "rival": rival,
                **{f"lead at {n}": f"{fmean(one):+.3f}" for n, one in zip(toa.BUDGETS, leads, strict=True)},
            }
        )
        rows[-1] |= {"as predicted": clear if rival != "beam" else None}
        told(rows[-1])
    return rows


def told(row: Row) -> None:
    print(" | ".join(f"{name}: {value}" for name, value in row.items()), flush=True)


# ---------------------------------------------------------------- a small real task

CLEAR, LONGEST = 1.5, 160
"""Sentences of at most so many characters that people rated at least so far from neutral, of 4."""


class Sentences(TextTask):
    """Is a sentence positive or negative? A file of VADER's data, lines of number, mean rating in [-4, 4] and sentence.

    As many of either kind, by turns, in an order drawn from `seed`. An answer is right whose first word of the two is.
    """

    def __init__(self, file: str, seed: int = 0) -> None:
        if not Path(file).is_file():
            raise ConfigurationError(
                f"task Sentences: {file} is missing; give ?file=amazonReviewSnippets_GroundTruth.txt"
            )
        self.name = f"{__file__}:Sentences?file={file}&seed={seed}"
        lines = [line.split("\t") for line in Path(file).read_text("latin-1").splitlines()]
        rated = [(float(rating), sentence) for _, rating, sentence in lines if len(sentence) <= LONGEST]
        kinds = {
            "positive": [sentence for rating, sentence in rated if rating >= CLEAR],
            "negative": [sentence for rating, sentence in rated if rating <= -CLEAR],
        }
        for word, sentences in kinds.items():
            order = Key.of(seed).derive("sentences", word).numpy().permutation(len(sentences)).tolist()
            kinds[word] = [sentences[place] for place in order]
        self.rows: dict[str, list[tuple[str, str]]] = {"train": [], "eval": []}
        for pair in zip(*kinds.values(), strict=False):
            for word, sentence in zip(kinds, pair, strict=True):
                self.rows["eval" if split_of(sentence) == "eval" else "train"].append((sentence, word))

    def size(self, split: Split) -> int:
        return len(self.rows[split])

    def scenario(self, split: Split, number: int) -> Scenario:
        sentence, word = self.rows[split][number]
        prompt = f"Review: {sentence}\nIs this review positive or negative?"
        return Scenario(f"sentences/{split}/{number}", prompt, word)

    def verify(self, text: str, scenario: Scenario) -> float:
        said = re.search("positive|negative", text.lower())
        return float(said is not None and said[0] == scenario.answer)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 8}


EXPERIMENTS: Mapping[str, Callable[[], list[Row]]] = {
    "optimum": optimum,
    "coins": coins,
    "graphs": graphs,
    "trees": trees,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="+", choices=list(EXPERIMENTS))
    parser.add_argument("--out", type=Path, default=Path("runs/search_evidence"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.experiments:
        print(f"\n{name}", flush=True)
        (asked.out / f"{name}.json").write_text(json.dumps(EXPERIMENTS[name](), indent=1))


if __name__ == "__main__":
    main()
