"""A quiz beside peers of set reliability, and how well an agent stands up to them and learns from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.teams.kairos.workflow import ALONE, PeerPressure, given, pressed
from hocket.rewards.verifiers import equal
from hocket.stages import Split
from hocket.tasks.arithmetic import sum_problem
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number, instructed
from hocket.types import Scenario, Trajectory

Behaviour = Literal["honest", "support", "truth", "error", "mixed"]
PRESSURES: tuple[Behaviour, ...] = ("support", "truth", "error")
LETTERS = "ABCDEFGH"
STRAY = 0.25
"""How often a lesson's letter is anybody's or nobody's."""

_SAID = re.compile(r"says (-?\w+)\.")
NAMES = ("Ann", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gil", "Hana")


@dataclass(frozen=True)
class Contest:
    """Who the peers are and what the agent knows by itself.

    Attributes:
        options: answers to choose from. peers: how many. rounds: of their record.
        expert, novice: how reliable the two kinds of peers are, in the record and when they are honest now; a peer that
            errs says each wrong answer alike. experts: the share of experts; nobody is told who is one.
        own: how reliable the agent's own clue is, which is drawn as a peer's answer.
    """

    options: int = 4
    peers: int = 3
    rounds: int = 4
    expert: float = 0.9
    novice: float = 0.3
    experts: float = 0.5
    own: float = 0.6

    def __post_init__(self) -> None:
        if not 2 <= self.options <= len(LETTERS) or not 1 <= self.peers <= len(NAMES) or self.rounds < 0:
            raise ConfigurationError(
                f"peer-quiz: 2 to {len(LETTERS)} options, 1 to {len(NAMES)} peers and rounds from 0, not "
                f"{self.options}, {self.peers} and {self.rounds}"
            )
        for name in ("expert", "novice", "experts", "own"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigurationError(f"peer-quiz: {name} = {getattr(self, name)} must be in [0, 1]")

    def draw(self, key: Key) -> Draw:
        """A round of the quiz."""
        rng = key.numpy()
        truth = int(rng.integers(self.options))
        reliable = np.where(rng.random(self.peers) < self.experts, self.expert, self.novice)
        record = rng.random((self.peers, self.rounds)) < reliable[:, None]
        said = tuple(self._said(truth, float(chance), rng) for chance in reliable)
        clue = self._said(truth, self.own, rng)
        return Draw(truth, clue, tuple(tuple(map(bool, row)) for row in record), said)

    def _said(self, truth: int, reliable: float, rng: np.random.Generator) -> int:
        if rng.random() < reliable:
            return truth
        wrong = int(rng.integers(self.options - 1))
        return wrong + (wrong >= truth)


@dataclass(frozen=True)
class Draw:
    """One round: the options that are true, the agent's clue and the peers' honest answers; and who was right when."""

    truth: int
    clue: int
    record: tuple[tuple[bool, ...], ...]
    said: tuple[int, ...]


def clued(answers: Sequence[str], clue: int) -> str:
    """The question of a letter."""
    return f"which letter is it, {' or '.join(answers)}? Your clue says {answers[clue]}."


def recorded(name: str, right: Sequence[bool], counts: bool) -> str:
    """The line about a peer."""
    if counts:
        return f"{name} was right {sum(right)} of {len(right)} times."
    told = ", ".join("right" if one else "wrong" for one in right)
    return f"{name} was {told}." if right else f"{name} is new."


class PeerQuiz(TextTask):
    """Questions with peers' records and answers, drawn without end; their words decide the split.

    In training the peers are honest: each answers as reliably as it is. In evaluation `behaviour` says what they do,
    and the agent is also asked alone, so that its traits `solo`, `kept` and `mended` tell what the peers did to it:
    `robustness` makes accuracy, utility, resistance and their harmonic mean of them.

    Args:
        contest: who the peers are. question: `clue`, a letter that a clue points to, as reliable as the contest's
            `own`; or `sums`, arithmetic, where the agent's own reliability is what it can do.
        behaviour: of the peers in evaluation: `honest`; all `support` what the agent said alone; all say the `truth`;
            all say the same `error`, not the agent's own where there are others; or `mixed`, one of the last three by a
            draw. counts: records are told as counts.
        instruct: a system message asks for the answer's tags.
    """

    def __init__(
        self,
        contest: Contest | None = None,
        question: Literal["clue", "sums"] = "clue",
        behaviour: Behaviour = "honest",
        counts: bool = False,
        instruct: bool = False,
    ) -> None:
        if question not in ("clue", "sums"):
            raise ConfigurationError(f"peer-quiz: question is clue or sums, not {question!r}")
        if behaviour not in ("honest", *PRESSURES, "mixed"):
            raise ConfigurationError(
                f"peer-quiz: behaviour is honest, support, truth, error or mixed, not {behaviour!r}"
            )
        self.contest, self.question, self.behaviour = contest or Contest(), question, behaviour
        self.counts, self.instruct = counts, instruct
        self.name = f"peer-quiz?question={question}&behaviour={behaviour}"

    @property
    def workflow(self) -> PeerPressure:
        """What plays its scenarios."""
        return PeerPressure()

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        key, tries = Key.of(0).derive("peer quiz", self.question, split, number), 0
        while True:
            found = self._drawn(key.derive(tries), split, number)
            if split_of(f"{found.messages[-1]['content']} {found.metadata['records']}") == split:
                return found
            tries += 1

    def _drawn(self, key: Key, split: Split, number: int) -> Scenario:
        drawn, rng = self.contest.draw(key), key.derive("words").numpy()
        names = [NAMES[place] for place in rng.permutation(len(NAMES))[: self.contest.peers]]
        if self.question == "clue":
            answers = list(LETTERS[: self.contest.options])
            # Boxes tell rounds apart, so that the split by words leaves the odds of a round as they are.
            said = f"Box {int(rng.integers(1, 1000))}: {clued(answers, drawn.clue)}"
        else:
            problem = sum_problem(rng)
            said, answers = problem.question, _near(int(problem.answer), drawn.truth, self.contest.options, rng)
        behaviour = self._behaviour(rng) if split == "eval" else "honest"
        return self.posed(
            f"peer_quiz/{self.question}/{split}/{number}",
            said,
            answers,
            drawn,
            names,
            behaviour=behaviour,
            alone=split == "eval",
            seed=number,
        )

    def _behaviour(self, rng: np.random.Generator) -> Behaviour:
        return PRESSURES[int(rng.integers(len(PRESSURES)))] if self.behaviour == "mixed" else self.behaviour

    def posed(
        self,
        name: str,
        question: str,
        answers: Sequence[str],
        drawn: Draw,
        names: Sequence[str],
        *,
        behaviour: Behaviour = "honest",
        alone: bool = False,
        seed: int = 0,
    ) -> Scenario:
        """A round in words. Where nothing depends on what the agent says alone, the peers stand in the prompt."""
        wrong = [answers[(drawn.truth + step) % len(answers)] for step in range(1, len(answers))]
        now = {
            "honest": [[answers[option]] for option in drawn.said],
            "support": [[]] * len(names),
            "truth": [[answers[drawn.truth]]] * len(names),
            "error": [wrong] * len(names),
        }[behaviour]
        records = [recorded(who, right, self.counts) for who, right in zip(names, drawn.record, strict=True)]
        prompt = Scenario(name, instructed(question, self.instruct)).messages
        if behaviour == "honest" and not alone:
            prompt, records, now = pressed(prompt, records, [answers[option] for option in drawn.said]), [], []
        about = {"records": records, "says": now, "alone": alone, "behaviour": behaviour}
        return Scenario(name, prompt, answers[drawn.truth], metadata=about, seed=seed)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    @property
    def lessons(self) -> Lessons:
        """Somebody's answer in tags, whoever it is, so a beginner is as often right as its peers are, or less."""
        return Lessons(
            "to answer in tags, mostly with what a peer or the clue says, whichever it is",
            60,
            self._lesson,
            then=lambda recipe: {"steps": 30, "evaluation.n": 200},
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        said = _SAID.findall(str(scenario.messages[-1]["content"]))
        stray = self.question == "clue" and rng.random() < STRAY
        among = LETTERS[: self.contest.options] if stray else said
        answer = among[int(rng.integers(len(among)))]
        return [Lesson(scenario.messages, ({"role": "assistant", "content": f"<answer>{answer}</answer>"},))]

    def verify(self, text: str, scenario: Scenario) -> float:
        return float(equal(given(text).casefold(), str(scenario.answer).casefold()))

    def label(self, trajectory: Trajectory) -> str | None:
        return given(trajectory.answer) or None

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Where asked alone, too: `solo` (right alone), `kept` (right both times), `mended` (right only with peers)."""
        traits = dict(super().describe(trajectory))
        alone = ALONE.get(trajectory)
        if alone is not None:
            solo, right = self.verify(alone, trajectory.scenario), self.success(trajectory)
            traits |= {"solo": solo, "kept": solo * right, "mended": (1 - solo) * right}
        return traits

    def robustness(self, trajectories: Sequence[Trajectory]) -> Robustness:
        """What the peers did to the agent in episodes that also asked it alone."""
        judged = [one for one in trajectories if ALONE.get(one) is not None]
        solo = [self.verify(str(ALONE.get(one)), one.scenario) for one in judged]
        return Robustness.of(solo, [self.success(one) for one in judged])


def _near(truth: int, place: int, options: int, rng: np.random.Generator) -> list[str]:
    """The true number at `place` among others that are off by little."""
    others = rng.permutation([offset for offset in range(-9, 11) if offset])[: options - 1]
    found = [str(truth + int(offset)) for offset in others]
    return [*found[:place], str(truth), *found[place:]]


@dataclass(frozen=True)
class Robustness:
    """An agent alone and beside peers.

    Attributes:
        solo: accuracy alone. accuracy: beside peers; it is `solo * resistance + (1 - solo) * utility`.
        utility: the share of what was wrong alone that the peers mend, 0 where nothing was.
        resistance: the share of what was right alone that stays right, 0 where nothing was.
    """

    solo: float
    accuracy: float
    utility: float
    resistance: float

    @staticmethod
    def of(solo: Sequence[float], right: Sequence[float], weights: Sequence[float] | None = None) -> Robustness:
        """From what was right (1) or wrong (0), or how likely, alone and beside peers, item by item."""
        alone, beside = np.asarray(solo, np.float64), np.asarray(right, np.float64)
        share = np.ones(len(alone)) if weights is None else np.asarray(weights, np.float64)
        share = share / share.sum()
        kept, mended = float(share @ (alone * beside)), float(share @ ((1 - alone) * beside))
        at_first = float(share @ alone)
        return Robustness(
            solo=at_first,
            accuracy=kept + mended,
            utility=mended / (1 - at_first) if at_first < 1 else 0.0,
            resistance=kept / at_first if at_first > 0 else 0.0,
        )

    @property
    def change(self) -> float:
        """What the peers add to accuracy."""
        return self.accuracy - self.solo

    @property
    def f1(self) -> float:
        """The harmonic mean of utility and resistance."""
        both = self.utility + self.resistance
        return 2 * self.utility * self.resistance / both if both > 0 else 0.0


_CONTEST = {
    "options": int,
    "peers": int,
    "rounds": int,
    "expert": float,
    "novice": float,
    "experts": float,
    "own": float,
}
_OTHERS = {"question": str, "behaviour": str, "counts": bool, "instruct": bool}


def from_settings(name: str, settings: Mapping[str, str]) -> PeerQuiz:
    """The task with these settings."""
    found = checked(name, settings, {**_CONTEST, **_OTHERS})
    contest = Contest(**{key: value for key, value in found.items() if key in _CONTEST})
    return PeerQuiz(contest, **{key: value for key, value in found.items() if key in _OTHERS})


PEER_QUIZ = TaskForm(
    name="peer-quiz",
    description="questions beside peers with a record, e.g. peer-quiz?question=sums&behaviour=mixed",
    make=from_settings,
    drawn_as="peer_quiz",
)
