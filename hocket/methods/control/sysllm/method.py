"""SySLLM: what an agent's policy is like, written by a language model that reads its episodes (arXiv:2503.10509).

Every decision of recorded episodes is a line of text (`hocket.methods.control.sysllm.captions`). A language model is
shown the environment and the transcripts of some episodes at a time, writes what is typical of the agent there, and
merges these summaries into one. No gradient is involved. The paper leaves room for the merge's form: here it is a tree,
`fan` summaries at a time, whose wording asks for what most of them agree on.

Two pieces are ours, for summaries that nobody has to take on trust. Sentences of some forms are checked against the
record by counting (`hocket.methods.control.sysllm.statements`), and those that it refutes are struck out. And `Miner`
answers the same prompts in the language model's place, by counting what they show. `identify` is a blind reader: it
knows the agents by other episodes alone, and gives each summary to the agent whose episodes agree with it most.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hocket.agents.search.searcher import check_wording
from hocket.core.errors import ConfigurationError, HocketError
from hocket.methods.control.sysllm.captions import Episode, Log, episodes_in, transcript
from hocket.methods.control.sysllm.statements import Statement, Tally, Total, holds, read, sentences
from hocket.methods.control.sysllm.summaries import Ask, Said, Summariser, Summary, SummaryMethod
from hocket.methods.control.sysllm.summaries_task import CHUNK as SHORT_CHUNK
from hocket.methods.control.sysllm.summaries_task import FAN
from hocket.methods.control.sysllm.summaries_task import MERGE as SHORT_MERGE

CHUNK = """{about}
What it may do: {actions}.
What may come of that: {events}.

An agent was recorded there. Each line is a decision: what it sees; what it does; what comes of it; its pay.

{transcript}

Write what is typical of this agent: what it is after, what it prefers, what it avoids. Use the words of the record, one
sentence a line, in these forms:
It mostly {does}.
It never {happens}.
When it sees {sees}, it mostly {does}.
Instead of mostly and never you may write always or seldom, or count: It {happens} in 3 of 4 episodes."""

MERGE = """{about}

Summaries of one agent, each of other episodes of it:

{summaries}

Merge them into one summary: keep what most of them agree on, one sentence a line, in the same forms.{limit}"""

LIMIT = "\nAt most {most} sentences."


@dataclass(frozen=True)
class SySLLM(Summariser):
    """See the module.

    Attributes:
        lines: of transcript in a prompt, in whole episodes, at least one. fan: summaries that are merged at a time.
        most: sentences of the whole summary. chunk, merge: what is asked, if in other words.
    """

    lines: int = 60
    fan: int = 8
    most: int = 12
    chunk: str = CHUNK
    merge: str = MERGE

    def __post_init__(self) -> None:
        for name, least in (("lines", 1), ("fan", 2), ("most", 1)):
            if getattr(self, name) < least:
                raise ConfigurationError(f"method.{name} = {getattr(self, name)}: it must be at least {least}")
        for name, usual in (("chunk", CHUNK), ("merge", MERGE)):
            check_wording(name, getattr(self, name), usual, "method")

    def summarise(self, log: Log, ask: Ask | None = None) -> Summary:
        """See `Summariser`; without a language model `Miner` answers.

        Raises:
            HocketError: when nothing was recorded, or the model says nothing at all.
        """
        if not any(log.episodes):
            raise HocketError("nothing was recorded, so there is nothing to summarise")
        answer, tally = ask or Miner().answers, Tally(log)
        log = replace(log, does=tally.actions, happens=tally.events)
        parts = self._asked(answer, [self._chunk(log, part) for part in self.chunks(log.episodes)])
        level = parts
        while len(level) > self.fan:
            groups = [level[first : first + self.fan] for first in range(0, len(level), self.fan)]
            level = self._asked(answer, [self._merge(log, group, "") for group in groups])
        (whole,) = self._asked(answer, [self._merge(log, level, LIMIT.format(most=self.most))])
        return Summary(_judged(tally, whole)[: self.most], tuple(parts))

    def chunks(self, episodes: Iterable[Episode]) -> list[list[Episode]]:
        """Episodes that are read together, in order: as many as there is room for, at least one."""
        found: list[list[Episode]] = []
        for episode in episodes:
            if not found or sum(map(len, found[-1])) + len(episode) > self.lines:
                found.append([])
            found[-1].append(episode)
        return found

    def identify(self, summaries: Sequence[Sequence[str]], logs: Sequence[Log]) -> tuple[int, ...]:
        """See `Summariser`: of all ways to give each summary a record, the one with the most agreement."""
        tallies = [Tally(log) for log in logs]
        fit = [[agreement(summary, tally) for tally in tallies] for summary in summaries]
        ways = itertools.permutations(range(len(logs)), len(summaries))
        return max(ways, key=lambda way: math.fsum(fit[one][other] for one, other in enumerate(way)))

    def _chunk(self, log: Log, part: Sequence[Episode]) -> str:
        shown = {"does": log.does[0], "happens": (*log.happens, "ends")[0], "sees": (*part[0][0].sees, "it")[0]}
        told = {"actions": ", ".join(log.does), "events": ", ".join(log.happens) or "nothing that has a name"}
        return self.chunk.format(about=log.about, transcript=transcript(part), **told, **shown)

    def _merge(self, log: Log, parts: Sequence[str], limit: str) -> str:
        return self.merge.format(about=log.about, summaries="\n\n".join(parts), limit=limit)

    def _asked(self, answer: Ask, prompts: Sequence[str]) -> list[str]:
        said = [one for one in answer(prompts) if one]
        if not said:
            longest = max(map(len, prompts))
            raise HocketError(
                f"the model said nothing to any of {len(prompts)} prompts of up to {longest} characters; where its "
                "context is too short, lower --method.lines, and --budget where a single episode is too long"
            )
        return said


def _judged(tally: Tally, text: str) -> tuple[Said, ...]:
    """Every sentence once, with its verdict."""
    return tuple(Said(one, tally.verdict(one)) for one in dict.fromkeys(sentences(text)))


def agreement(summary: Sequence[str], tally: Tally) -> float:
    """How well a record agrees with a summary that was written of another: the mean over its sentences, from 0 to 1.

    A count is a share, which agrees by how near the record's own is; a word of how often holds or does not. Totals and
    what the record has no words for say nothing; without any sentence left it is 0.
    """
    found = []
    for sentence in summary:
        said = read(sentence)
        counted = None if said is None or isinstance(said, Total) else tally.count(said)
        if counted is None or not isinstance(said, Statement):
            continue
        k, n, _ = counted
        if said.count is None:
            found.append(float(n > 0 and holds(said.how, k, n)))
        elif n and said.count[1]:
            found.append(1 - abs(said.count[0] / said.count[1] - k / n))
    return math.fsum(found) / len(found) if found else 0.0


# ---------------------------------------------------------------- in the language model's place


class Miner:
    """Answers the prompts of `SySLLM` by counting what they show, and nothing else.

    Of a transcript it writes every count there is; counts of several summaries it adds up, which is what the whole
    would have given. Where few sentences are wanted it keeps totals, what comes of decisions, and then what is most
    telling (`telling`).
    """

    def answers(self, prompts: Sequence[str]) -> list[str | None]:
        """Its answer to each."""
        return ["\n".join(self._counts(prompt)) or None for prompt in prompts]

    def _counts(self, prompt: str) -> list[str]:
        if episodes := episodes_in(prompt):
            does, happens = (_listed(prompt, what) for what in ("What it may do", "What may come of that"))
            return _counted(Tally(Log("", tuple(episodes), does, happens)))
        limit = re.search(r"^At most (\d+) sentences", prompt, re.MULTILINE)
        return _merged(sentences(prompt), None if limit is None else int(limit[1]))


def _listed(prompt: str, what: str) -> tuple[str, ...]:
    """What stands behind such words in a prompt."""
    found = re.search(rf"^{what}: (.*)\.$", prompt, re.MULTILINE)
    return tuple(found[1].split(", ")) if found is not None and "nothing that has a name" not in found[1] else ()


def _counted(tally: Tally) -> list[str]:
    """Every count of a record, in sentences."""
    said = [Statement(what) for what in (*tally.events, *tally.actions)]
    said += [Statement(what, before=other) for what, other in itertools.permutations(tally.events, 2)]
    said += [Statement(what, when=when) for when in tally.sees for what in tally.actions]
    told = [tally.total(what).text for what in ("earns", "makes")]
    for one in said:
        if (counted := tally.count(one)) is not None:
            told.append(replace(one, count=counted[:2]).text(counted[2]))
    return told


def _merged(told: Sequence[str], most: int | None) -> list[str]:
    """Counts of several summaries in one, those of the same added up; at most so many sentences."""
    totals: dict[str, list[Total]] = {}
    counts: dict[tuple[Statement, str], tuple[int, int]] = {}
    for sentence in told:
        said = read(sentence)
        if isinstance(said, Total):
            totals.setdefault(said.what, []).append(said)
        elif said is not None and said.count is not None:
            what = replace(said, count=None), sentence.rstrip(".").rpartition(" ")[2]
            k, n = counts.get(what, (0, 0))
            counts[what] = k + said.count[0], n + said.count[1]
    found = [_together(group).text for group in totals.values()]
    chosen = list(counts) if most is None else telling(counts)[: max(0, most - len(found))]
    return [*found, *(replace(one, count=counts[one, unit]).text(unit) for one, unit in chosen)]


def _together(group: Sequence[Total]) -> Total:
    low, high = min(one.low for one in group), max(one.high for one in group)
    return Total(group[0].what, sum(one.episodes for one in group), math.fsum(one.sum for one in group), low, high)


def telling(counts: Mapping[tuple[Statement, str], tuple[int, int]]) -> list[tuple[Statement, str]]:
    """Counts in the order in which they tell most: what came of decisions, then the others.

    These are ordered by how many standard deviations they are from what would be expected of chance: of two events each
    as often before the other, of actions each as often, and in a situation an action as often as in all.
    """
    plain = {one.what: (k, n) for (one, unit), (k, n) in counts.items() if unit == "decisions" and not one.when}

    def surprise(of: tuple[Statement, str]) -> float:
        (one, _), (k, n) = of, counts[of]
        base = plain.get(one.what, (0, 0)) if one.when else (0, 0)
        chance = base[0] / base[1] if base[1] else 0.5 if one.before else 1 / max(1, len(plain))
        spread = math.sqrt(chance * (1 - chance) * n)
        return abs(k - chance * n) / spread if spread else 0.0

    events = [of for of in counts if of[1] == "episodes" and not of[0].before]
    return [*events, *sorted((of for of in counts if of not in events), key=surprise, reverse=True)]


SYSLLM = SummaryMethod(
    name="sysllm",
    description="a language model reads episodes chunk by chunk and merges what it wrote; sentences are checked",
    summariser=SySLLM(),
    source="arXiv:2503.10509",
)

SYSLLM_SHORT = SummaryMethod(
    name="sysllm-short",
    description="the same an episode at a time, in words short enough for a model that was taught by lessons:summaries",
    summariser=SySLLM(lines=1, fan=FAN, chunk=SHORT_CHUNK, merge=SHORT_MERGE),
    source="arXiv:2503.10509",
)
