"""GTR: thoughts are corrected and imitated while actions are reinforced (Wei et al., arXiv:2503.08525).

Outcome rewards alone let an agent's thoughts lose their variety and their hold on what is seen. At every turn a
corrector looks at the thought beside the observation and rewrites it where it is wrong; the rewritten ones gather in a
data set that grows from step to step, as in DAgger, and a part of it is imitated in each step beside PPO on the agent's
own turns (`GuidedThoughts`). PPO sees nothing of what is imitated (`Unguided`): with alpha 0 it is PPO.

The form of the loss, the mask over the action of an imitated reply and the data set are those of the released code
(weit123/GTR). There the corrector is a larger model that sees the picture; `SolvedPoints` is an exact solver of the
game of 24 points in words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.markup import THOUGHT
from hocket.core.requirements import Requirement
from hocket.methods.agents.gtr.task import thought_of
from hocket.methods.agents.gtr.world import Joined, read, solution
from hocket.methods.base.ppo import PPO
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.subset import Among
from hocket.rollout.branches import CLOSED, tokens_covering
from hocket.rollout.groups import groups
from hocket.rollout.remembering import RememberingRollout
from hocket.stages import Credit, Grade, LedgerView, More, Play, Stage, State, Stateful, Tokenizer, tokenizer_of
from hocket.types import Assignment, Experience, Scenario, Trajectory, Turn

GUIDED = InfoColumn("guided", "True for a corrected thought that is imitated.")


class Corrector(Stage):
    """Judges a thought by what the agent was shown, and says what should have been thought."""

    room = "rollout"

    def __call__(self, turn: Turn) -> str | None:
        """The right thought, its tags around it; None where the agent's own is right or none can be given."""
        raise NotImplementedError


_STEP = re.compile(r"([-+*/]\d+)=(-?\d+)", re.ASCII)
_BEGUN = re.compile(r"-?\d+", re.ASCII)


@dataclass(frozen=True)
class SolvedPoints(Corrector):
    """The exact solver of the game of 24 points: a thought is right that joins all cards left to the number.

    A reply without a closed thought is corrected as well. Where the number is out of reach nothing is said.
    """

    def __call__(self, turn: Turn) -> str | None:
        seen = read(str(turn.prompt[-1]["content"])) if turn.prompt else None
        way = None if seen is None else solution(seen)
        if seen is None or way is None:
            return None
        said = THOUGHT.search(turn.text)
        return None if said is not None and comes_out(seen, said[1]) else thought_of(seen, way)


def comes_out(seen: Joined, thought: str) -> bool:
    """Whether a chain of totals such as `3*8=24*1=24` begins where the cards stand, is right, and makes the number."""
    begun = _BEGUN.match(thought)
    if begun is None:
        return False
    now = seen if seen.total is not None else seen.after(begun[0])
    if now is None or now.total != int(begun[0]):
        return False
    place = begun.end()
    while place < len(thought):
        step = _STEP.match(thought, place)
        after = None if step is None else now.after(step[1])
        if step is None or after is None or after.total != int(step[2]):
            return False
        now, place = after, step.end()
    return not now.left and now.total == now.target


@dataclass(frozen=True)
class GuidedThoughts(RememberingRollout):
    """`samples` episodes per scenario, and `imitated` of all thoughts that a corrector rewrote so far in the run.

    GTR (arXiv 2503.08525). Every turn of this step's episodes is shown to the corrector; a rewritten thought is kept
    with its prompt and with what the agent said after its own, the newest `kept` of them. Drawn ones are read as
    answers to their prompts, source `expert`, column `guided`, without a score; the thought is learnt, what follows it
    is imposed, as the release masks the action.

    Attributes:
        metrics: `thoughts/corrected`, the share of turns; `thoughts/kept`; `thoughts/distinct`, the share of turns
            whose thought no earlier turn of the step had.
    """

    samples: int = 4
    corrector: Corrector = SolvedPoints()
    imitated: int = 64
    kept: int = 4096

    def __post_init__(self) -> None:
        if self.samples < 1 or self.imitated < 0 or self.kept < 1:
            raise ValueError(
                f"samples and kept must be at least 1 and imitated at least 0, not {self.samples}, {self.kept} and "
                f"{self.imitated}"
            )

    def init(self) -> State:
        return {"thoughts": []}

    async def collect_with(
        self,
        state: State,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> tuple[Experience, State]:
        """The episodes in the order asked, then the thoughts that are imitated."""
        found = await groups(play, [replace(one, samples=self.samples) for one in asked])
        played = [one for group in found for one in group]
        await score(played)
        turns = list({id(turn): turn for one in played if one.failure is None for turn in one.turns}.values())
        rewritten = [noted for turn in turns if (noted := self._corrected(turn)) is not None]
        thoughts = [*state["thoughts"], *rewritten][-self.kept :]
        drawn = key.derive("thoughts").numpy().permutation(len(thoughts))[: self.imitated].tolist()
        taught = await self._taught([thoughts[place] for place in drawn], asked, play)
        said = [thought[1] if (thought := THOUGHT.search(turn.text)) else "" for turn in turns]
        metrics = {
            "thoughts/corrected": len(rewritten) / max(len(turns), 1),
            "thoughts/distinct": len(set(said)) / max(len(turns), 1),
            "thoughts/kept": float(len(thoughts)),
        }
        return Experience([*played, *taught], metrics=metrics), {"thoughts": thoughts}

    def _corrected(self, turn: Turn) -> State | None:
        thought = self.corrector(turn)
        if thought is None:
            return None
        own = turn.text.rpartition(CLOSED)[2]
        return {"prompt": [dict(message) for message in turn.prompt], "thought": thought, "said": thought + own}

    async def _taught(self, drawn: Sequence[State], asked: Sequence[Assignment], play: Play) -> list[Trajectory]:
        """Rewritten thoughts as answers to their prompts."""
        words = tokenizer_of(play)
        if not drawn or words is None:
            return []
        wanted = [
            replace(
                asked[0],
                scenario=Scenario(f"thought {n}", tuple(one["prompt"]), metadata={"demonstration": one["said"]}),
                samples=1,
                source="expert",
            )
            for n, one in enumerate(drawn)
        ]
        found = [one for group in await groups(play, wanted) for one in group]
        for one, noted in zip(found, drawn, strict=True):
            GUIDED.write(one, True)
            _impose_rest(one.turns[-1], str(noted["thought"]), words)
        return found


def _impose_rest(turn: Turn, thought: str, words: Tokenizer) -> None:
    """Has a reply's decisions after its thought imposed, so that they are not learnt."""
    length = tokens_covering(words, turn.action, len(thought))
    turn.forced = np.arange(len(turn.action)) >= length


@dataclass(frozen=True)
class Unguided(Credit):
    """`of` for the agent's own turns, as though nothing were imitated; what is imitated gets advantage 0."""

    of: Credit = PPO.credit

    def __post_init__(self) -> None:
        if self.of.pairs or isinstance(self.of, Stateful):
            raise ValueError(f"of must be a credit of advantages without memory, not {type(self.of).__name__}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages, and targets where `of` gives any, `[E]` float64."""
        seen = batch.occurrences
        own = ~torch.tensor([bool(one) for one in GUIDED.rows(batch)], dtype=torch.bool)[seen.trajectory]
        given = self.of(batch.restricted(own))
        advantage, weight = torch.zeros(len(seen), dtype=torch.float64), seen.weight.clone()
        advantage[own], weight[own] = given.advantage.double(), given.weight.to(weight.dtype)
        target = None
        if given.target is not None:
            target = torch.zeros(len(seen), dtype=torch.float64)
            target[own] = given.target.double()
        return replace(seen, advantage=advantage, weight=weight, target=target)


GTR = PPO.but(
    name="gtr",
    title="GTR: guided thoughts beside reinforced actions",
    source="Wei et al., arXiv:2503.08525; weit123/GTR",
    family="agents",
    catalogue_ids=("gtr",),
    axes=("reward", "objective", "policy"),
    formula="L = L_PPO + alpha mean_t -log pi(z_t | o, z_<t),  (o, z) from all thoughts z that were rewritten so far",
    conventions={
        **PPO.conventions,
        "alpha": "1 (regularisers.1.coefficient), as released: the losses are added",
        "corrector": "the exact solver (rollout.corrector = {type: FILE.py:CLASS} for another); the paper asks GPT-4o",
        "imitated": "64 thoughts a step, drawn from the newest 4096, mean over their tokens; the release draws as many "
        "as it learns turns",
        "action of an imitated reply": "the agent's own, masked",
        "PPO": "over all tokens of a reply with one value each; the release has a value per turn and weighs the "
        "log-prob of the thought by 0.5",
        "format": "an unreadable reply earns -1 and ends the episode, as an illegal move does; the release pays half "
        "of a success for the form besides, and ends episodes that leave the corrector's formula",
        "reply without a thought": "corrected as well; the release passes it over",
        "updates per batch": "4 epochs of the whole batch",
        "start": "the shipped base has never played: --lessons 150, or a phase of sft on lessons:points24?cards=3",
        "collapse": "where moves do not follow thoughts at first (points24?cards=3&led=0) and steps are large; guided "
        "thoughts last there, but hardly a hand is won in 80 steps either way. Where moves follow, thoughts of 30 "
        "steps of plain PPO lost nearly half of their variety and half came out (guided: 98 %, and less variety), but "
        "still told the situation, and guided ones succeeded more (98 against 82 %)",
    },
    note="where plain PPO's thoughts collapse with the shipped base, guided ones are kept, but hardly a hand is won "
    "in 80 steps either way (0 and 0 to 3 %); where guided ones succeeded more (98 against 82 %), none collapsed",
    task="points24?cards=3",
    requires=(Requirement.TURN_REWARDS,),
    rollout=GuidedThoughts(),
    credit=Unguided(),
    objective=Among(of=PPO.objective, column=GUIDED.name, chosen=False),
    regularisers=(
        Among(of=PPO.regularisers[0], column=GUIDED.name, chosen=False),
        Among(of=NegativeLogLikelihood("token-mean"), column=GUIDED.name, chosen=True, coefficient=1.0),
    ),
    **{"update.minibatches": 1},
)
