"""S-GRPO: a group is one thought, cut off at several places and answered (Dai et al., arXiv:2505.07686).

`SerialGroup` cuts and lets the policy answer; `DecayingExits` pays each right answer half of what the one before it
got, so the earliest sufficient thought earns most. Advantages are centred, not divided.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hocket.core.batch import Batch
from hocket.core.columns import InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.core.signals import RIGHT, counted_trajectories, returns
from hocket.methods.base.conventions import CENTRED, RIGHT_ANSWERS
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.base.grpo import GRPO
from hocket.rewards.members import with_return
from hocket.rollout.branches import ANSWER, CLOSED, NUMBERED, continued, ending_tokens, only_turn, thinking_span
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Shaping, Split, Tokenizer, tokenizer_of
from hocket.tasks.arithmetic import expression_of, question_of, verify, working
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Assignment, Experience, Message, Scenario, Trajectory, Turn


def adopt(turn: Turn, source: Turn, length: int) -> None:
    """Makes the first `length` decisions of `turn`, copied from `source`, decisions of the policy again.

    They were imposed when the response was continued, but the policy had sampled them, with these log-probs.
    """
    length = min(length, len(turn), len(source))
    forced = np.zeros(len(turn), np.bool_) if turn.forced is None else turn.forced.copy()
    forced[:length] = False if source.forced is None else source.forced[:length]
    turn.forced = forced
    if turn.logp is not None and source.logp is not None:
        turn.logp = np.concatenate([source.logp[:length], turn.logp[length:]])


@dataclass(frozen=True)
class SerialGroup(Rollout):
    """A group of one chain: cut at places drawn uniformly along its thought, ended there, and answered.

    S-GRPO (arXiv 2505.07686). The chain is sampled once; `samples - 1` copies of it are cut at different places, a
    phrase that ends thinking is appended, and the policy answers. The full chain completes the group, which is ordered
    front to back: columns `exit` (0 first) and `chain` say how. The kept part of the chain was the policy's own
    choice and is learnt from; the phrase was imposed and is not. A thought with fewer places than cuts is cut more
    than once at some, and a response without a thought is ended where it begins.

    Attributes:
        samples: members of a group, the full chain included. chains: groups of this kind per scenario.
        phrase: what ends thinking; a leading `</think>` is dropped where no thought is open.
        answer_tokens: the most tokens of an answer after a cut.
    """

    samples: int = 9
    chains: int = 1
    phrase: str = CLOSED + ANSWER
    answer_tokens: int = 32

    def __post_init__(self) -> None:
        if self.samples < 2 or self.chains < 1 or self.answer_tokens < 1:
            raise ValueError(
                f"samples must be at least 2, chains and answer_tokens at least 1, not {self.samples}, {self.chains} "
                f"and {self.answer_tokens}"
            )

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """Per scenario and chain the exits from front to back, then the full chain."""
        tokenizer = tokenizer_of(play)
        chains = await play([replace(asking, samples=self.chains) for asking in asked])
        exits = [
            self._exits(asked[number // self.chains], chain, tokenizer, key) for number, chain in enumerate(chains)
        ]
        answers = iter(await play([asking for cuts in exits for asking, _, _ in cuts]))
        found: list[Trajectory] = []
        for number, (chain, cuts) in enumerate(zip(chains, exits, strict=True)):
            for place, (_, source, kept) in enumerate(cuts):
                answer = next(answers)
                if answer.turns:
                    adopt(answer.turns[0], source, kept)
                answer.info |= {CHAIN.name: number % self.chains, EXIT.name: place}
                found.append(answer)
            chain.info |= {CHAIN.name: number % self.chains, EXIT.name: len(cuts)}
            found.append(chain)
        await score(found)
        return Experience(found)

    def _exits(
        self, asking: Assignment, chain: Trajectory, tokenizer: Tokenizer | None, key: Key
    ) -> list[tuple[Assignment, Turn, int]]:
        """For each cut of a chain: what to ask, the turn it is cut from, and how many of its tokens are kept."""
        turn = only_turn(chain)
        if turn is None:
            return []
        begin, end = thinking_span(tokenizer, turn.action)
        places = list(range(begin, max(end, begin + 1)))
        rng = key.derive("exits", asking.scenario.id, chain.sample).numpy()
        drawn = rng.choice(places, self.samples - 1, replace=len(places) < self.samples - 1)
        cuts = sorted(int(place) for place in drawn)
        found = []
        for number, cut in enumerate(cuts):
            tokens = [*turn.action[:cut].tolist(), *ending_tokens(tokenizer, turn.action, cut, self.phrase, turn.text)]
            first = asking.first + NUMBERED + chain.sample * self.samples + number
            found.append((continued(asking, tokens, first=first, more=self.answer_tokens), turn, cut))
        return found


@dataclass(frozen=True)
class DecayingExits(Shaping):
    """A right answer earns `base^-(n - 1)`, n the number of right answers up to and including it; a wrong one 0.

    S-GRPO (arXiv 2505.07686), base 2. Answers of a scenario are ordered by column `exit`, earliest first, apart for
    each `chain`; `hocket.rollout.SerialGroup` writes both. Where nothing is written the order is that of assignment.
    """

    base: float = 2.0
    least: float = RIGHT

    def __post_init__(self) -> None:
        if self.base < 1:
            raise ValueError(f"base must be at least 1, so that later answers earn no more, not {self.base}")

    def __call__(self, batch: Batch) -> Batch:
        good = (counted_trajectories(batch) & (returns(batch) >= self.least)).tolist()
        rows = range(batch.trajectories)
        exits, chains = EXIT.rows(batch), CHAIN.rows(batch)
        order, scenario = batch.order.tolist(), batch.scenario.tolist()
        seen: dict[tuple[int, object], int] = {}
        reward = torch.zeros(batch.trajectories, dtype=torch.float64)
        for row in sorted(rows, key=lambda row: (order[row] if exits[row] is None else exits[row], order[row])):
            if good[row]:
                serial = (scenario[row], chains[row])
                seen[serial] = seen.get(serial, 0) + 1
                reward[row] = self.base ** -(seen[serial] - 1)
        return with_return(batch, reward)


CHAIN = InfoColumn("chain", "Which of the scenario's chains the answer was taken from.")
EXIT = InfoColumn("exit", "At which exit of its chain the answer was taken, the earliest first.")


# ---------------------------------------------------------------- what is asked

LESSONS = 60
"""Supervised steps after which the shipped model always thinks, and often further than it needs to."""

THEN = {"steps": 40, "update.lr": 2.5e-4, "evaluation.n": 100}
"""Settings for training after the lessons."""


class LengthySums(TextTask):
    """Sums of three or four terms below 50, with lessons in thinking too long.

    A thought of the lessons is the sum worked out, and then worked out again up to `again` times, each number of times
    equally often: the first working is enough. Such a model stands in for one that reasons at length.

    Args:
        again: how often a thought is repeated at most.
        exits: the share of the lessons' thoughts that break off anywhere, with the total so far as the answer.
    """

    def __init__(self, again: int = 2, exits: float = 0.0) -> None:
        if again < 0 or not 0 <= exits <= 1:
            raise ConfigurationError(
                f"task lengthy-sums: again must be at least 0, and exits a share in [0, 1], not {again} and {exits:g}"
            )
        settings = [f"again={again}"] * (again != 2) + [f"exits={exits:g}"] * (exits != 0)
        self.name = "lengthy-sums" + ("?" + "&".join(settings) if settings else "")
        self.again, self.exits = again, exits

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("lengthy-sums", split, number).numpy()
        while split_of(question := question_of(expression_of(terms := drawn_terms(rng)))) != split:
            pass
        metadata = {"thought": working(terms)}
        return Scenario(f"lengthy-sums/{split}/{number}", question, str(sum(terms)), metadata=metadata, seed=number)

    def verify(self, text: str, scenario: Scenario) -> float:
        return verify(text, scenario.answer)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 128}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`again`: how often the working is repeated."""
        return {**super().describe(trajectory), "again": float(trajectory.answer.count(";"))}

    @property
    def lessons(self) -> Lessons:
        """Thoughts that are too long, with right answers."""
        taught = "to think a sum through, and often again"
        return Lessons(taught, LESSONS, self._lesson, schedule="cosine", then=lambda recipe: THEN, needed=True)

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        worked, answer = str(scenario.metadata["thought"]), str(scenario.answer)
        thoughts = ";".join([worked] * (1 + int(rng.integers(self.again + 1))))
        if rng.random() < self.exits:
            thoughts = thoughts[: int(rng.integers(1, len(thoughts)))]
            totals = re.findall(r"(?:^|=)(-?\d+)(?=[-+;])", thoughts[: len(worked)] + ";")
            answer = totals[-1] if len(thoughts) < len(worked) else answer
        reply: Message = {"role": "assistant", "content": f"<think>{thoughts}</think><answer>{answer}</answer>"}
        return [Lesson(scenario.messages, (reply,))]


def drawn_terms(rng: np.random.Generator) -> list[int]:
    """Three or four terms below 50: the first positive, every later one added or subtracted evenly."""
    sizes = rng.integers(1, 50, size=int(rng.integers(3, 5))).tolist()
    return [size if place == 0 or rng.random() < 0.5 else -size for place, size in enumerate(sizes)]


def from_settings(name: str, settings: Mapping[str, str]) -> LengthySums:
    """The task with these settings."""
    return LengthySums(**checked(name, settings, {"again": int, "exits": float}))


LENGTHY_SUMS = TaskForm(
    name="lengthy-sums",
    description="sums that lessons teach to think through too often, e.g. lengthy-sums?again=2&exits=0.4",
    make=from_settings,
)


S_GRPO = DR_GRPO.but(
    name="s-grpo",
    title="Serial-group decaying-reward policy optimisation",
    source="Dai et al., S-GRPO: Early Exit via Reinforcement Learning in Reasoning Models, arXiv:2505.07686",
    catalogue_ids=("s-grpo",),
    axes=("rollout", "reward", "credit"),
    formula="R_i = 2^-(n_i - 1) if right else 0, n_i right answers up to and including i;  A_i = R_i - mean R",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        **RIGHT_ANSWERS,
        "serial group": "one chain per scenario, 8 cuts drawn from the places of its thought, and the chain",
        "prefixes": "learnt from in every member that keeps them; the imposed phrase is not",
        "aggregation": "mean over a member's decisions, then over members",
    },
    task="lengthy-sums?exits=0.4",
    rollout=SerialGroup(samples=9),
    shaping=(DecayingExits(),),
    **{"objective.aggregate": "sequence-mean"},
)
