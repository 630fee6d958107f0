"""SAPO: nodes of a swarm learn from each other's answers (Sharing is Caring, arXiv:2509.08721).

Every node owns its model, its prompts and its verifier. A batch has I groups of its own (`curriculum.prompts`) and J
drawn uniformly from what others shared (`OwnAndShared`): text, which it encodes anew, scores with its own reward and
learns from as though it had sampled it. Nothing else is exchanged. `hocket swarm` trains the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hocket.core import sums
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.rollout.dynamic import has_signal, total
from hocket.rollout.groups import groups
from hocket.rollout.sharing import Publication, Sharing, received_group, sharing_of
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Trajectory


@dataclass(frozen=True)
class OwnAndShared(Rollout):
    """`samples` trajectories of every scenario asked, published, and `shared` groups that others published.

    Received groups are drawn uniformly without replacement from what the node holds, and scored by the node's own
    rewards. Fewer are taken where fewer can be had. Without a swarm (`hocket.rollout.sharing`) there are none.

    Attributes:
        samples: trajectories of a scenario. shared: groups of others in a batch, J.
        drop: leave out received groups whose scores are all equal, which have no advantage, and draw others.
        publish: what the others are told.
    """

    lengths: ClassVar[tuple[str, ...]] = ()

    samples: int = 8
    shared: int = 4
    drop: bool = True
    publish: Publication = Publication()

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if self.shared < 0:
            raise ValueError(f"shared must be at least 0, not {self.shared}")

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
        """The node's own groups, then those of others; metrics count what was taken and left."""
        own = await groups(play, [replace(one, samples=self.samples) for one in asked])
        flat = [one for group in own for one in group]
        await score(flat)
        metrics = {"reward/own": sums.mean(_earned(flat))} if flat else {}
        sharing = sharing_of(play)
        if sharing is None:
            return Experience(flat, metrics=metrics)
        sharing.publish(self.publish(own, key.derive("publish")))
        taken, left = await self._drawn(sharing, asked, play, score, key.derive("shared"))
        theirs = [one for group in taken for one in group]
        metrics |= {"shared/groups": float(len(taken)), **left}
        if theirs:
            metrics["reward/shared"] = sums.mean(_earned(theirs))
        return Experience([*flat, *theirs], metrics=metrics)

    async def _drawn(
        self, sharing: Sharing, asked: Sequence[Assignment], play: Play, score: Grade, key: Key
    ) -> tuple[list[list[Trajectory]], dict[str, float]]:
        """Up to `shared` groups in a random order, and how many were passed over."""
        held, taken = sharing.received(), list[list[Trajectory]]()
        left = {"shared/without_signal": 0.0, "shared/unreadable": 0.0}
        for place in key.numpy().permutation(len(held)) if asked else ():
            if len(taken) == self.shared:
                break
            group = await received_group(held[int(place)], asked[0], play)
            if group is None:
                left["shared/unreadable"] += 1
                continue
            await score(group)
            if self.drop and not has_signal(group):
                left["shared/without_signal"] += 1
                continue
            taken.append(group)
        return taken, left


def _earned(trajectories: Sequence[Trajectory]) -> list[float]:
    """All scores of each, before weights and shaping."""
    return [sum(total(score) for score in one.scores.values()) for one in trajectories]


SAPO_SWARM = GRPO.but(
    name="sapo-swarm",
    title="Swarm sampling: groups of one's own and groups that others shared",
    source="Sharing is Caring: Efficient LM Post-Training with Collective RL Experience Sharing, arXiv:2509.08721",
    catalogue_ids=("sapo-swarm",),
    axes=("system", "rollout"),
    formula="batch = I own groups + J groups drawn uniformly from others' with a non-zero advantage; then GRPO",
    conventions={
        **GRPO.conventions,
        "mix": "curriculum.prompts = I = 4 own groups, rollout.shared = J = 4; `hocket swarm --own I --shared J`",
        "what is shared": "every own group: question, right answer, metadata, answers as text; no reward, no token ids",
        "dropping": "received groups without signal are dropped before drawing (rollout.drop), as in the paper's runs; "
        "the released swarm does not",
        "a received answer's ratio": "the learner's own log-probs before the update stand in: ratio 1",
        "same question": "a received group is never joined with an own group of the same question",
        "how long a group is held": "until the node's next step; a message older than its sender's newest is late",
    },
    requires=(Requirement.SHARED,),
    rollout=OwnAndShared(samples=8, shared=4),
    **{"curriculum.prompts": 4},
)
