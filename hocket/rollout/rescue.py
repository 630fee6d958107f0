"""When all samples of a scenario fail: help, the least that works, and a success in the place of a failure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from hocket.core import sums
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.signals import RIGHT
from hocket.rollout.demonstrations import demonstrated
from hocket.rollout.dynamic import total
from hocket.rollout.groups import groups
from hocket.rollout.independent import Independent
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Stage, Tokenizer, tokenizer_of
from hocket.types import Assignment, Experience, Score, Trajectory

HELPED = InfoColumn("helped", "The rung of help, from 1, that a sample was made with; absent where it had none.")


class Help(Stage):
    """A rung: how a scenario is asked again, with what it knows of its own solution."""

    room = "rollout"

    bare: bool = False
    """Whether an answer counts as one to the plain prompt; see `Rescued`."""

    def asked(self, asking: Assignment, words: Tokenizer | None) -> Assignment | None:
        """The scenario asked with help; None where there is none to give."""
        raise NotImplementedError


@dataclass(frozen=True)
class HintInPrompt(Help):
    """A line under the prompt with the first `share` of what the metadata tell in `column`.

    Help is the first `floor(share n)` of n characters of a text, or of n parts of a list, which are joined by spaces;
    where that is nothing the rung is passed over. Prompts are never learnt from, so the hint carries no gradient.

    Attributes:
        column: `answer` and `demonstration` are the scenario's answer where the metadata have none.
        lead: what stands before the hint. bare: whether the answer counts as one to the plain prompt.
    """

    column: str = "hints"
    share: float = 1.0
    lead: str = "Hint: "
    bare: bool = False

    def __post_init__(self) -> None:
        _check_share(self.share)

    @property
    def reads_metadata(self) -> frozenset[str]:
        return frozenset({self.column})

    def asked(self, asking: Assignment, words: Tokenizer | None) -> Assignment | None:
        part = _first(_known(asking, self.column), self.share)
        if not part:
            return None
        line = self.lead + (part if isinstance(part, str) else " ".join(map(str, part)))
        return replace(asking, hint=line if asking.hint is None else f"{asking.hint}\n{line}", source="helped")


@dataclass(frozen=True)
class HintAsPrefix(Help):
    """The response begins with the first `share` of what the metadata tell in `column`, imposed; for any policy.

    Imposed are the first `floor(share n)` of the text's n tokens (a list of texts is one, spaces between), or of a list
    of actions; where that is nothing, or leaves no room to go on, the rung is passed over. Imposed tokens carry no
    gradient and count in no denominator.
    """

    column: str = "demonstration"
    share: float = 0.5

    def __post_init__(self) -> None:
        _check_share(self.share)

    @property
    def reads_metadata(self) -> frozenset[str]:
        return frozenset({self.column})

    def asked(self, asking: Assignment, words: Tokenizer | None) -> Assignment | None:
        content = _known(asking, self.column)
        if isinstance(content, (tuple, list)) and content and isinstance(content[0], Mapping):
            content = content[0].get("content")  # Of a conversation, the words that it begins with.
        if isinstance(content, (tuple, list)) and any(isinstance(part, str) for part in content):
            content = " ".join(map(str, content))
        if isinstance(content, str):
            content = None if words is None else words.encode(content, asking.prefix)
        begun = (*asking.prefix, *(int(token) for token in _first(content, self.share) or ()))
        room = asking.decoding.max_tokens if asking.budget is None else min(asking.budget, asking.decoding.max_tokens)
        if len(begun) == len(asking.prefix) or len(begun) >= room:
            return None
        return replace(asking, prefix=begun, source="helped")


@dataclass(frozen=True)
class Reference(Help):
    """The scenario's `metadata["demonstration"]`, else its answer as text, in the place of a sample: source `expert`.

    The probability of this answer under its author is unknown, so the learner's own log-probs stand in.
    """

    reads_metadata: ClassVar[frozenset[str]] = frozenset({"demonstration"})

    def asked(self, asking: Assignment, words: Tokenizer | None) -> Assignment | None:
        scenario = asking.scenario
        if scenario.metadata.get("demonstration") is None and scenario.answer is None:
            return None
        return replace(asking, scenario=demonstrated(scenario), source="expert")


@dataclass(frozen=True)
class Rescued(Rollout):
    """`samples` per scenario; where none succeeds, a ladder of helps is climbed to the least that works.

    A group has failed when no sample's `score` (None: the sum of all, before weights) reaches `success`. It is asked
    again with the first rung's help, `tries` times, then with the next one's, until some try succeeds; draws depend on
    scenario, rung and try alone, so the rung is the one that playing all of them would find. `take` failures, the first
    by number, give way to the rung's first successes. A group that succeeded, and one that no rung helps, stays as it
    is, byte for byte. What gave way and all other tries are discarded. The ledger counts unaided samples alone, those
    that gave way among them.

    A helped sample keeps the prompt and the imposed tokens it was made with, so it is on-policy. A rung that is `bare`
    has it read again behind the plain prompt, as an expert's answer whose probability is unknown.

    Attributes:
        ladder: helps, the least first. samples: the first, unaided ones.
        take: at most so many are replaced; None has all tries of the rung take the group's place, right or wrong; then
            a last rung that fails as well leaves the group as it was.
        beside: nobody gives way: successes stand beside the group, as a group of their own (the scenario's id is
            another, its origin the scenario), so that they are compared with no failure.
        tries: of each rung; None is as many as samples. after: steps without any help, at the beginning of a run.
        metrics: `rollout/failed` groups, of these `rollout/rescued`; `rollout/rung`, the mean rung that worked;
            `rollout/tries` with help.

    Raises:
        ValueError: for an empty ladder.
    """

    ladder: tuple[Help, ...] = field(default_factory=lambda: (Reference(),))
    samples: int = 8
    take: int | None = 1
    beside: bool = False
    tries: int | None = 1
    success: float = RIGHT
    score: str | None = None
    after: int = 0

    def __post_init__(self) -> None:
        if not self.ladder:
            raise ValueError("ladder must hold a help at least, such as {type: hocket.rollout.Reference}; it is empty")
        for name in ("samples", "take", "tries"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.after < 0:
            raise ValueError(f"after must be at least 0 steps, not {self.after}")

    def at(self, step: int) -> Rollout:
        """Independent samples as long as there is no help."""
        return self if step > self.after else Independent(self.samples)

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
        """The groups in the order asked, rescued ones in place."""
        samples = await groups(play, [replace(asking, samples=self.samples) for asking in asked])
        await score([trajectory for group in samples for trajectory in group])
        failed = [number for number, group in enumerate(samples) if not any(map(self._right, group))]
        discarded, rungs, tried, open_ = list[Trajectory](), list[int](), 0, failed
        for rung, help_ in enumerate(self.ladder, start=1):
            tries = await self._tries(rung, help_, {number: asked[number] for number in open_}, play, score)
            tried += sum(map(len, tries.values()))
            for number, group in tries.items():
                works = any(map(self._right, group))
                discarded += self._exchanged(samples[number], group) if works else group
                rungs += [rung] if works else []
            open_ = [number for number in open_ if not any(map(self._right, tries.get(number, ())))]
        metrics = {
            "rollout/failed": float(len(failed)),
            "rollout/rescued": float(len(rungs)),
            "rollout/tries": float(tried),
            **({"rollout/rung": sum(rungs) / len(rungs)} if rungs else {}),
        }
        return Experience([trajectory for group in samples for trajectory in group], discarded, metrics)

    def _right(self, trajectory: Trajectory) -> bool:
        earned = (total(score) for name, score in trajectory.scores.items() if self.score in (None, name))
        return trajectory.failure is None and sums.total(earned) >= self.success

    async def _tries(
        self, rung: int, help_: Help, asked: dict[int, Assignment], play: Play, score: Grade
    ) -> dict[int, list[Trajectory]]:
        """The answers with a rung's help, scored, by group; groups that it cannot help are left out."""
        words, size = tokenizer_of(play), self.tries or self.samples
        offered = {number: help_.asked(asking, words) for number, asking in asked.items()}
        wanted = {
            number: replace(assignment, samples=size, first=assignment.first + self.samples + (rung - 1) * size)
            for number, assignment in offered.items()
            if assignment is not None
        }
        tries = dict(zip(wanted, await groups(play, list(wanted.values())), strict=True))
        everything = [trajectory for group in tries.values() for trajectory in group]
        if everything:
            await score(everything)
        if help_.bare:
            tries = {number: await self._reread(asked[number], group, play) for number, group in tries.items()}
        for trajectory in (trajectory for group in tries.values() for trajectory in group):
            HELPED.write(trajectory, rung)
        return tries

    async def _reread(self, asking: Assignment, group: Sequence[Trajectory], play: Play) -> list[Trajectory]:
        """What succeeded with help as answers to the plain prompt, their scores kept; failures as they are."""
        good = [place for place, sample in enumerate(group) if self._right(sample) and len(sample.turns) == 1]
        known = asking.scenario.metadata
        again = await groups(
            play,
            [
                replace(
                    asking,
                    scenario=replace(asking.scenario, metadata={**known, "demonstration": group[place].text}),
                    samples=1,
                    first=group[place].sample,
                    source="expert",
                )
                for place in good
            ],
        )
        answers = list(group)
        for place, (answer,) in zip(good, again, strict=True):
            answer.scenario, answer.scores = asking.scenario, dict[str, Score](group[place].scores)
            answers[place] = answer
        return answers

    def _exchanged(self, group: list[Trajectory], tries: list[Trajectory]) -> list[Trajectory]:
        """Puts successes in the place of failures; what is not learnt from."""
        if self.take is None and not self.beside:
            failures, group[:] = list(group), tries
            return failures
        chosen = [trajectory for trajectory in tries if self._right(trajectory)][: self.take]
        rest = [trajectory for trajectory in tries if not any(trajectory is other for other in chosen)]
        if self.beside:
            for entry in chosen:
                entry.scenario = replace(entry.scenario, id=f"{entry.scenario.id} with help", origin=entry.scenario.id)
            group += chosen
            return rest
        failures = group[: len(chosen)]
        group[: len(chosen)] = chosen[: len(group)]
        return [*failures, *rest, *chosen[len(failures) :]]


def _known(asking: Assignment, column: str) -> Any:
    """What a scenario tells under a name; an answer shows itself."""
    value, answer = asking.scenario.metadata.get(column), asking.scenario.answer
    return str(answer) if value is None and answer is not None and column in ("answer", "demonstration") else value


def _first(value: Any, share: float) -> Sequence[Any] | None:
    """The first `floor(share n)` of n characters or parts; None of anything else."""
    if not isinstance(value, (str, tuple, list)):
        return None
    # A share such as 0.3 of 10 is 3, though 0.3 * 10 may come out below it.
    return value[: math.floor(share * len(value) + 1e-9)]


def _check_share(share: float) -> None:
    if not 0 < share <= 1:
        raise ValueError(f"share must lie in (0, 1], not {share}")
