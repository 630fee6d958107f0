"""Long-Short: a model that thinks at length and one that thinks briefly write one solution (arXiv:2505.11827).

The two write in turns (`LongShort`): the first thinks the hard steps in `<think>..</think>`, the second does the rest
in `<answer>..</answer>`, or hands back with `</rethink>`. Both are trained at once, each compared with itself, on the
team's verdict, the form of its own turns, and the length of what it wrote itself (`OwnLength`), as in the authors'
release. Which thoughts are worth their tokens, `importances` estimates from continuations; the paper's formula was not
at hand, reviews of it name the rate of right continuations behind each thought and a factor that falls with length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.casting import Separate
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_sum
from hocket.core.signals import REWARD, RIGHT
from hocket.credit.each_agent import EachAgent
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.long_short.task import AGAIN, ANSWERS, THINKS
from hocket.rewards.lengths import spread_length
from hocket.rewards.shaping import added
from hocket.rollout.branches import CLOSED, continued
from hocket.rollout.groups import groups
from hocket.rollout.replay_store import worth
from hocket.stages import Grade, Play, Shaping
from hocket.types import Assignment, Scenario

DONE = "</answer>"
"""How the one who answers ends the solution."""

_FORMS = {
    "long": re.compile(r"\s*<think>(?=[^<]*[^<\s])[^<]*</think>\s*"),
    "short": re.compile(r"\s*<answer>(?=[^<]*[^<\s])[^<]*(</answer>|</rethink>)\s*"),
}


def well_formed(role: str, text: str) -> bool:
    """Whether a turn is one filled pair of its role's tags, and nothing else."""
    return _FORMS[role].fullmatch(text) is not None


@dataclass(frozen=True)
class LongShort(Workflow):
    """Two write one solution in turns, each going on from all that was written, until an answer is closed.

    Long-Short (arXiv 2505.11827). What stands already begins the response of whose turn it is, imposed, so nobody
    learns from another's words. A turn ends with the role's closing tag, with its end of turn, or at its longest.
    Rewards are `right`, the verdict on the whole, and per turn `form`, shared out so that a role whose turns are all
    well formed earns `form`.

    Attributes:
        rounds: turns of each at most. form: weight of the form. thought: the most tokens of a thought; None is the
            run's own limit.
    """

    name = "long-short"
    description = "one thinks at length, one does the rest and may ask for more thought (Long-Short)"

    rounds: int = 3
    form: float = 1.0
    thought: int | None = None

    roles = ("long", "short")
    scores = True

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.form < 0 or (self.thought is not None and self.thought < 1):
            raise ConfigurationError(
                f"workflow long-short: rounds and thought are at least 1, form at least 0, not {self.rounds}, "
                f"{self.thought} and {self.form}"
            )

    @property
    def prompts(self) -> Mapping[str, str]:
        return {"long": THINKS, "short": ANSWERS}

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said, tokens, text = list[tuple[str, Reply, bool]](), tuple[int, ...](), ""
        most = team.assignment.decoding.max_tokens
        for _ in range(self.rounds):
            for role, longest, ends in (("long", self.thought or most, (CLOSED,)), ("short", most, (AGAIN, DONE))):
                reply = await self._turn(team, role, tokens, longest, ends)
                own = reply.text[len(text) :]
                said.append((role, reply, well_formed(role, own)))
                text, tokens = reply.text, _spoken(reply, own)
            if not own.endswith(AGAIN):
                break
        turns = {role: sum(who == role for who, _, _ in said) for role in self.roles}
        formed = {reply: self.form * good / turns[role] for role, reply, good in said}
        return Outcome(answer=text, rewards={"right": team.verify(text)}, turn_rewards={"form": formed})

    async def _turn(self, team: Team, role: str, tokens: tuple[int, ...], longest: int, ends: tuple[str, ...]) -> Reply:
        decoding = team.assignment.decoding
        further = replace(decoding, max_tokens=len(tokens) + longest, stop=(*decoding.stop, *ends))
        return await team[role].fresh()(asked(team.assignment), prefix=tokens, decoding=further)


def _spoken(reply: Reply, own: str) -> tuple[int, ...]:
    """What stands after a reply, of which `own` is new, without an end of turn, behind which nobody goes on."""
    written = tuple(int(token) for token in reply.tokens)
    ended = reply.finish == "stop" and not own.endswith((CLOSED, AGAIN, DONE))
    return written[:-1] if ended else written


@dataclass(frozen=True)
class OwnLength(Shaping):
    """Adds `weight c` for each role, c the place of its own length among the scenario's samples (`spread_length`).

    The authors' release of Long-Short (arXiv 2505.11827), after Kimi k1.5: 1/2 for the shortest to -1/2 for the
    longest where the team was right, at most 0 where it was wrong. A role's length is its decisions that may be learnt
    from, over all its turns; c is paid at its last turn. The verdict is the reward of the whole trajectory.

    Attributes:
        least: the team was right when that reward is at least this.
    """

    weight: float = 1.0
    least: float = RIGHT

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ValueError(f"weight must be at least 0, not {self.weight}")

    def __call__(self, batch: Batch) -> Batch:
        seen, group = batch.occurrences, GroupBy("scenario")(batch)
        verdict = REWARD[Level.TRAJECTORY]
        earned = batch.scores[verdict].values if verdict in batch.scores else torch.zeros(batch.trajectories)
        own, change = (seen.weight != 0) & ~batch.forced[seen.decision], torch.zeros(batch.turns, dtype=torch.float64)
        role = batch.role[batch.turn[seen.decision]]
        for code in torch.unique(role[own]).tolist():
            mine = own & (role == code)
            length = segment_sum(mine.double(), seen.trajectory, batch.trajectories)
            wrote = length > 0
            place = spread_length(length[wrote], (earned >= self.least)[wrote], group.index[wrote], group.size)
            change[_last_turn(batch, mine)[wrote]] += place
        return added(batch, Level.TURN, self.weight * change)


def _last_turn(batch: Batch, mine: Tensor) -> Tensor:
    """The turn of each trajectory's last occurrence of those chosen, `[N]`; -1 without one."""
    seen = batch.occurrences
    last = torch.full((batch.trajectories,), -1, dtype=torch.long)
    last[seen.trajectory[mine]] = batch.turn[seen.decision[mine]]
    return last


@dataclass(frozen=True)
class Importance:
    """What a thought adds to the rate of right answers, for what it costs.

    Attributes:
        right, right_before: of `samples` continuations behind the thought, and behind those before it.
        tokens: of the thought. whole: of the chain.
    """

    right: int
    right_before: int
    samples: int
    tokens: int
    whole: int

    @property
    def effect(self) -> float:
        """The change of the rate of right continuations, in [-1, 1]."""
        return (self.right - self.right_before) / self.samples

    @property
    def decay(self) -> float:
        """The share of the chain that the thought leaves to others, in [0, 1)."""
        return 1 - self.tokens / self.whole

    @property
    def score(self) -> float:
        """`effect decay`, in (-1, 1): the bounded importance; the form of the decay is ours."""
        return self.effect * self.decay

    @property
    def error(self) -> float:
        """The standard error of the score: both rates are binomial and drawn apart."""
        rates = (self.right / self.samples, self.right_before / self.samples)
        return self.decay * math.sqrt(sum(rate * (1 - rate) for rate in rates) / self.samples)


async def importances(
    asking: Assignment,
    thoughts: Sequence[Sequence[int]],
    *,
    play: Play,
    score: Grade,
    samples: int,
    opening: Sequence[int] = (),
    closing: Sequence[int] = (),
    more: int,
) -> list[Importance]:
    """The importance of each thought of a chain, by `samples` answers at once behind none, one, two, ... of them.

    Args:
        thoughts: their tokens. opening, closing: tokens before the first thought and behind the last that is kept.
        more: the most tokens of an answer.
    """
    cuts = [[token for one in thoughts[:kept] for token in one] for kept in range(len(thoughts) + 1)]
    wanted = [
        continued(asking, (*opening, *cut, *closing), first=asking.first + place * samples, samples=samples, more=more)
        for place, cut in enumerate(cuts)
    ]
    found = await groups(play, wanted)
    await score([one for group in found for one in group])
    right = [sum(one.failure is None and worth(one) >= RIGHT for one in group) for group in found]
    whole = max(1, len(cuts[-1]))
    return [
        Importance(right[place + 1], right[place], samples, len(thought), whole)
        for place, thought in enumerate(thoughts)
    ]


LONG_SHORT = GRPO.but(
    name="long-short",
    title="Long-Short: long and short thoughts by two models in turns",
    source="Ning et al., Not All Thoughts are Generated Equal, arXiv:2505.11827, and the authors' release",
    family="data-and-rollout",
    catalogue_ids=("long-short",),
    axes=("team", "reward", "credit"),
    formula="R_role = right + [all its turns in its tags] + c_role,  c = 1/2 - (l - min l)/(max l - min l), at most 0 "
    "if wrong, l its own tokens;  A_role = (R_role - mean)/(std + eps) among the same role's",
    conventions={
        **GRPO.conventions,
        "weights": "1 each for verdict, form and length, as in the release",
        "length": "a role's decisions over all its turns; the release counts characters of one turn",
        "form": "<think>..</think>, and <answer>..</answer> or <answer>..</rethink>, filled; shared out over the "
        "role's turns",
        "who learns": "both at every step, a policy each; the release trains them one after the other",
        "turns": "at most 3 of each (workflow long-short?rounds=)",
        "warm start": "the task's lessons (--lessons 150): steps always told, what is asked and checks half of the "
        "time; the measured importance of thoughts puts steps above both",
        "importance": "(rate of right answers behind the thought less that before it) (1 - its share of the chain's "
        "tokens); the paper's exact form is not known",
    },
    note="that the pair keeps the long model's accuracy with under half of its tokens was seen on tables alone: the "
    "shipped nano, after its lessons, fell from 36 to 3 of 100 unseen sums in 20 steps; the form of the importance is "
    "ours, and nothing uses it in training",
    task="shared-sums",
    requires=(Requirement.AGENTS,),
    workflow="long-short",
    cast=Separate(),
    shaping=(OwnLength(),),
    credit=EachAgent(GRPO.credit),
)
