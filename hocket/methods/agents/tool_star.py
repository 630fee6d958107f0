"""Tool-Star: a cold start on its own traces, then GRPO with a bonus for both tools by turns with DPO (Dong et al.).

arXiv:2505.16410. `tool-star-sft` makes the data (`OwnTraces`): answers without tools, answers with them, and answers
into which a hint has put a call. What the rules of `sound` leave of the right ones is imitated, without tools where
these are not needed. `tool-star-rl` asks what is not solved without tools (`HardPart`); its reward (`ToolAnswer` of
`hocket.rewards.tool_answer`) punishes bad form and adds 0.1 to a rewarded answer that called both search and Python.
`tool-star` follows every 30 such steps by 10 of DPO on its own best and worst answers (`AlternatingCredit`,
`AlternatingObjective`). The whole is a plan, `examples/tool_star.yaml`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hocket.agents.tools.protocol import Call, read_calls
from hocket.core.columns import CALLS, TOOL_CALLS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.credit.alternating import AlternatingCredit
from hocket.methods.agents.tapo_tool import TAPO_TOOL
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.sft import SFT
from hocket.objectives.alternating import AlternatingObjective
from hocket.rewards.tool_answer import ToolAnswer, well_tagged
from hocket.rollout.dynamic import total
from hocket.rollout.groups import groups
from hocket.rollout.reference import asked_of_reference
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Stage, tokenizer_of
from hocket.types import Assignment, Experience, Message, Replay, Trajectory

# ---------------------------------------------------------------- which traces are good


@dataclass(frozen=True)
class Trace:
    """An answer to a question with what tools said on the way.

    Attributes:
        episode: as it was played. hinted: whether a hint began a call in it.
    """

    episode: Trajectory
    hinted: bool = False

    @property
    def said(self) -> tuple[Message, ...]:
        """All messages after the question."""
        told, calls = list[Message](), CALLS.get(self.episode, ())
        for place, turn in enumerate(self.episode.turns):
            told.append({"role": "assistant", "content": turn.text})
            told += [{"role": "tool", "content": one["result"]} for one in calls if one["turn"] == place]
        return tuple(told)

    @property
    def replies(self) -> list[str]:
        return [turn.text for turn in self.episode.turns]

    @property
    def calls(self) -> list[Call]:
        return [call for reply in self.replies for call in read_calls(reply)]

    @property
    def right(self) -> bool:
        """Whether its scores, before weights, come to a right answer's."""
        return self.episode.failure is None and sum(map(total, self.episode.scores.values())) >= 1

    def sound(self, most: int) -> bool:
        """The rules of quality: at most `most` calls, no call twice, and the form.

        That is: calls can be read, tags are closed, and an answer ends it all (`well_tagged`).
        """
        made = {(call.name, json.dumps(call.arguments, sort_keys=True)) for call in self.calls}
        read = all(call.problem is None for call in self.calls)
        return read and len(self.calls) <= most and len(made) == len(self.calls) and well_tagged(self.replies)


def _different(traces: Sequence[Trace]) -> list[Trace]:
    return list({json.dumps(one.said): one for one in reversed(traces)}.values())[::-1]


# ---------------------------------------------------------------- what is solved without tools


@dataclass(frozen=True)
class DirectTrial(Stage):
    """Whether the policy as it was before training solves a question without tools.

    It is asked for one reply, `tries` times. Replies that call do not count; solved is what at least `share` of the
    others answer rightly.

    Attributes:
        line: stands under the question and asks for an answer without tools; None where nothing does.
    """

    room = "rollout"

    tries: int = 8
    share: float = 0.5
    line: str | None = None

    def __post_init__(self) -> None:
        if self.tries < 1 or not 0 < self.share <= 1:
            raise ValueError(f"tries must be at least 1 and share in (0, 1], not {self.tries} and {self.share}")

    async def answers(self, asked: Sequence[Assignment], play: Play, score: Grade) -> list[list[Trace]]:
        """The replies to each question, scored.

        Raises:
            ConfigurationError: where decisions are no words.
        """
        if tokenizer_of(play) is None:
            raise ConfigurationError("Tool-Star weighs words and calls of tools; choose a task of text like reckoning")
        played = await groups(play, [replace(asked_of_reference(one, self.tries, self.line), turns=1) for one in asked])
        await score([one for group in played for one in group])
        return [[Trace(one) for one in group] for group in played]

    def solved(self, answers: Sequence[Trace]) -> bool:
        """Whether the question with these answers is."""
        direct = [one.right for one in answers if not one.calls]
        return bool(direct) and sum(direct) >= self.share * len(direct)


# ---------------------------------------------------------------- the two parts of the data


@dataclass(frozen=True)
class OwnTraces(Rollout):
    """Traces of the policy as it was before training (or the run's teacher), which the policy imitates.

    Each question is tried without tools (`direct`), `samples` times with them, and once for each hint: an episode is
    put back to where its last reply's answer begins, and goes on from the call that the hint begins there. All
    different traces that are right and `sound` are kept: those without calls where the question is solved directly,
    else those with calls, and none where neither solves it.

    Attributes:
        line: stands under the question and asks for the use of tools; None where nothing does.
        hints: how the calls begin that are forced. most: calls of a trace.
        metrics: the questions' shares `rollout/direct`, `rollout/tools` and `rollout/unsolved`, by what solves them;
            of right traces with calls `rollout/unsound`; of those kept `rollout/hinted`.
    """

    samples: int = 4
    direct: DirectTrial = DirectTrial()
    line: str | None = None
    hints: tuple[str, ...] = ('<tool_call>{"name": "search"', '<tool_call>{"name": "python"')
    most: int = 3

    plays_reference: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.samples < 1 or self.most < 1:
            raise ValueError(f"samples and most must be at least 1, not {self.samples} and {self.most}")

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
        """What is kept, question by question; what was sampled is discarded."""
        direct = await self.direct.answers(asked, play, score)
        played = await groups(play, [asked_of_reference(one, self.samples, self.line) for one in asked])
        await score([one for group in played for one in group])
        plain = [[Trace(one) for one in group] for group in played]
        hinted = await self._hinted(asked, plain, play, score)
        kept, solved, right = list[tuple[Assignment, Trace]](), list[str](), list[Trace]()
        for asking, *tried in zip(asked, direct, plain, hinted, strict=True):
            known, good = self._good(*tried)
            right += good
            found = _different([one for one in good if one.sound(self.most)])
            kept += [(asking, one) for one in found]
            solved.append(known if found else "unsolved")
        metrics = {f"rollout/{how}": solved.count(how) / len(solved) for how in ("direct", "tools", "unsolved")}
        metrics["rollout/unsound"] = _share([not one.sound(self.most) for one in right])
        metrics["rollout/hinted"] = _share([one.hinted for _, one in kept])
        sampled = [one.episode for rows in (direct, plain, hinted) for group in rows for one in group]
        return Experience(await _imitated(kept, play), sampled, metrics)

    def _good(
        self, direct: Sequence[Trace], plain: Sequence[Trace], hinted: Sequence[Trace]
    ) -> tuple[str, list[Trace]]:
        """What solves a question, and the right traces of that kind."""
        easy = self.direct.solved(direct)
        tried = direct if easy else [*plain, *hinted]
        return "direct" if easy else "tools", [one for one in tried if one.right and bool(one.calls) is not easy]

    async def _hinted(
        self, asked: Sequence[Assignment], plain: Sequence[Sequence[Trace]], play: Play, score: Grade
    ) -> list[list[Trace]]:
        """The hinted traces of each question, each hint in another episode as long as there are any."""
        words, found = tokenizer_of(play), [list[Trace]() for _ in asked]
        wanted = list[tuple[int, Assignment]]()
        for (place, asking), (number, hint) in itertools.product(enumerate(asked), enumerate(self.hints)):
            tried = plain[place][number % self.samples].episode
            reply, answers, _ = tried.text.partition("<answer>")
            if not answers or read_calls(tried.text):
                continue  # It ended without an answer.
            assert words is not None, "the direct trial refuses"
            again = Replay(tuple(tried.turns[:-1]), sample=tried.sample)
            one = replace(asked_of_reference(asking, 1, self.line), replay=again, prefix=words.encode(reply + hint))
            wanted.append((place, replace(one, first=asking.first + self.samples + number)))
        played = await groups(play, [one for _, one in wanted])
        await score([one for group in played for one in group])
        for (place, _), (episode,) in zip(wanted, played, strict=True):
            found[place].append(Trace(episode, hinted=True))
        return found


def _share(those: Sequence[bool]) -> float:
    return sum(those) / max(1, len(those))


async def _imitated(kept: Sequence[tuple[Assignment, Trace]], play: Play) -> list[Trajectory]:
    """The traces as demonstrations of the plain questions."""

    def shown(number: int, asking: Assignment, trace: Trace) -> Assignment:
        told = {**asking.scenario.metadata, "demonstration": list(trace.said)}
        return replace(
            asking, scenario=replace(asking.scenario, metadata=told), samples=1, first=number, source="expert"
        )

    given = await groups(play, [shown(number, *one) for number, one in enumerate(kept)])
    for (asking, trace), (one,) in zip(kept, given, strict=True):
        one.scenario, one.scores = asking.scenario, dict(trace.episode.scores)
        for column in (TOOL_CALLS, CALLS):
            if column.present(trace.episode):
                column.write(one, column.get(trace.episode))
    return [one for group in given for one in group]


@dataclass(frozen=True)
class HardPart(Rollout):
    """`samples` of each question that is not solved without tools; the others are left out.

    Attributes:
        metrics: `rollout/direct`, the share of the questions that are left out.
    """

    samples: int = 8
    direct: DirectTrial = DirectTrial()

    plays_reference: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")

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
        """The groups of the hard questions; answers without tools are discarded."""
        direct = await self.direct.answers(asked, play, score)
        easy = [self.direct.solved(answers) for answers in direct]
        hard = [replace(one, samples=self.samples) for one, solved in zip(asked, easy, strict=True) if not solved]
        found = await play(hard) if hard else []
        await score(found)
        aside = [one.episode for answers in direct for one in answers]
        return Experience(found, aside, {"rollout/direct": _share(easy)})


# ---------------------------------------------------------------- recipes

TOOL_STAR_RL = GRPO.but(
    name="tool-star-rl",
    title="Tool-Star, reinforcement learning alone: a bonus for answers reached with both kinds of tools",
    source="Dong et al., arXiv:2505.16410, and the authors' reward code",
    family="agents",
    axes=("reward", "data"),
    formula="R_i = -1 if malformed, else s_i + 0.1 [s_i > 0 and both tools were called];  " + GRPO.formula,
    conventions={
        **GRPO.conventions,
        "form": TAPO_TOOL.conventions["form"].partition(";")[0],
        "s": "1 if equal, else the F1 of words, as the authors' code has for questions; metadata grade names another",
        "tools": "rewards.0.tools = (search, python), by name; a call counts whatever came of it",
        "workflow": "the task's, or --workflow tool-use",
        "tool output": TAPO_TOOL.conventions["tool output"],
        "hard part": "questions that the policy before this phase does not answer rightly in half of 8 replies without "
        "a call; chosen here",
        "hack": "the bonus is paid on questions that need no tool, too: where such are asked and calls are tried, they "
        "rise",
    },
    task="reckoning",
    requires=(Requirement.TOOLS,),
    rollout=HardPart(),
    rewards=(ToolAnswer(grade="f1", tools=("search", "python"), bonus=0.1),),
)


TOOL_STAR_SFT = SFT.but(
    name="tool-star-sft",
    title="Tool-Star, cold start: imitation of its own sound traces, with tools where these are needed",
    source=TOOL_STAR_RL.source,
    family="agents",
    axes=("data",),
    formula=f"{SFT.formula} over right traces with at most 3 calls, none twice, in good form",
    conventions={
        **SFT.conventions,
        "who samples": "the policy before this phase, anew at every visit; --teacher MODEL another",
        "prompts": "no line under a question asks for tools or for none, as the shipped model follows no such; for "
        "others rollout.line and rollout.direct.line",
        "hints": "the beginning of a call of each tool, put where the last reply would have answered",
        "quality": "at most 3 calls, no call twice, calls that can be read, tags closed and an answer at the end",
        "difficulty": "direct traces where half of 8 replies without a call are right, traces with calls where only "
        "those are, none where neither is; the last two are the part for reinforcement learning",
    },
    task="reckoning",
    requires=(Requirement.TOOLS,),
    rollout=OwnTraces(),
    rewards=(ToolAnswer(grade="f1"),),
)


TOOL_STAR = TOOL_STAR_RL.but(
    name="tool-star",
    title="Tool-Star: reinforcement learning and self-critic preference learning by turns",
    catalogue_ids=("tool-star",),
    axes=("data", "reward", "objective"),
    formula=f"{TOOL_STAR_RL.formula};  after every 30 steps 10 of {ONLINE_DPO.formula}",
    conventions={
        **TOOL_STAR_RL.conventions,
        "rounds": "30 steps of RL, then 10 of DPO, and so on, chosen here",
        "pairs": "best against worst of 8 answers by the same reward, one pair per hard question, none where all are "
        "equal; of easy questions, where pairs may prefer needless calls, there are none",
        "reference": "the policy before training, also in later phases; beta = 0.1",
        "cold start": "tool-star-sft, the phase before in examples/tool_star.yaml",
    },
    credit=AlternatingCredit((GRPO.credit, GRPO.credit, GRPO.credit, ONLINE_DPO.credit), every=10),
    objective=AlternatingObjective((GRPO.objective, GRPO.objective, GRPO.objective, ONLINE_DPO.objective), every=10),
)
