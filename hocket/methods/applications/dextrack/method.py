"""DexTrack: one controller that tracks many references, by RL and by demonstrations that it helps to find itself.

Every few steps a round of the flywheel adds demonstrations, actions that track a reference of training:

1. what the present controller tracks by itself is a demonstration, in place of an earlier one that earns less;
2. for some references without one, those that were tried least, actions are searched from what the controller does,
   directly or by `homotopy`, through versions with less gravity; first by the chain that led to the demonstration of
   the most similar reference, then by the others.

Between rounds a share of the episodes of references with demonstrations are these, and imitated, `-log pi(a | s)`
(`Imitation`); in all others the controller learns by PPO from its own decisions.

The abstract states flywheel, RL with imitation, and homotopy; residual actions that add up on the reference are those
of the authors' code. Chosen here: less gravity as the easier version, the cross-entropy method for a reference, and the
most similar reference's chain first in place of the paper's learnt generator of chains. Two fingers in a plane stand in
for a hand; their objects are heavy, because of lighter ones (.2 to 1.2 kg) PPO alone learns to track many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.credit.forced_decisions import TaughtToo
from hocket.methods.applications.dextrack.homotopy import CHAINS, Controller, Tracks, played, solved
from hocket.methods.applications.dextrack.world import HALF, LENGTH, MIDDLE, Array, Grip, reference
from hocket.methods.base.ppo import PPO
from hocket.objectives.imitation import Imitation
from hocket.objectives.value import ValueLoss
from hocket.rollout.joint import JointPlayer
from hocket.stages import Hook, HookContext, Player, State
from hocket.types import Assignment, End, Score, Trajectory, Turn


def greedy(player: JointPlayer) -> Controller:
    """What a player's policy does at temperature 0."""
    policy = next(iter(player.policies.values()))

    def act(observations: NDArray[np.float32]) -> Array:
        count = len(observations)
        drawn, cold = np.full((count, policy.draws), 0.5), np.zeros(count, np.float32)
        return np.clip(np.asarray(policy.sample(observations, drawn, cold)[0], np.float64), -1, 1)

    return act


def similar(number: int, others: Sequence[int]) -> int:
    """Which of the references of training is most similar: in mass and width, offset, heights and tilts."""

    def features(each: int) -> Array:
        drawn = reference(2 * each)
        return np.concatenate([(drawn.thing - MIDDLE) / HALF, 4 * drawn.path[[20, LENGTH], 0]])

    return min(others, key=lambda other: float(((features(other) - features(number)) ** 2).sum()))


@dataclass
class TaughtPlayer(JointPlayer):
    """A `JointPlayer`, a share of whose episodes of references with demonstrations are these, with forced decisions.

    Attributes:
        shown: demonstrations, and the row of each reference's. share: of episodes that they replace. luck: of the step.
    """

    shown: tuple[Mapping[int, int], Tracks] | None = None
    share: float = 0.0
    luck: Key = field(default_factory=lambda: Key.of(0))

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        rows = {place: row for place, each in enumerate(assignments) if (row := self._row(place, each)) is not None}
        free = [each for place, each in enumerate(assignments) if place not in rows]
        rest = iter(await super().play(free, key=key))
        return [
            self._demonstration(each, sample, rows[place]) if place in rows else next(rest)
            for place, each in enumerate(assignments)
            for sample in range(each.first, each.first + each.samples)
        ]

    def _row(self, place: int, assignment: Assignment) -> int | None:
        """The row of the demonstration that takes the place of an assignment's episodes, if any."""
        if self.shown is None or self.luck.derive(place).numpy().random() >= self.share:
            return None
        seed = cast(Grip, self.world).number(int(assignment.scenario.seed or 0))
        return None if seed % 2 else self.shown[0].get(seed // 2)

    def _demonstration(self, assignment: Assignment, sample: int, row: int) -> Trajectory:
        assert self.shown is not None
        tracks, ((name, policy),) = self.shown[1], self.policies.items()
        turn = Turn(
            agent=self.world.agents[0],
            policy=name,
            observation=tracks.observations[row, :-1],
            action=tracks.actions[row].astype(np.float32),
            logp=np.zeros(LENGTH, np.float32),
            version=np.full(LENGTH, policy.version, np.int64),
            forced=np.ones(LENGTH, bool),
            finish="truncated",
            decoding=assignment.decoding,
            time=np.arange(LENGTH),
            end=End(False, True, tracks.observations[row, -1]),
        )
        return Trajectory(
            scenario=assignment.scenario,
            turns=[turn],
            sample=sample,
            scores={"reward": Score(tracks.rewards[row], Level.DECISION)},
            truncated=True,
            final_state=tracks.observations[row, -1],
            source=assignment.source,
        )


@dataclass(frozen=True)
class Flywheel(Hook):
    """Rounds that add demonstrations, and episodes that are these; see the module.

    Attributes:
        every: steps from round to round, of which the first is before the first step. tries: references of a round.
        rounds, population: of a search. share: of the episodes of references with demonstrations. homotopy: whether
            chains are tried; else direct search alone.
    """

    every: int = 8
    tries: int = 8
    rounds: int = 30
    population: int = 32
    share: float = 0.25
    homotopy: bool = True

    def __post_init__(self) -> None:
        if self.every < 1 or self.tries < 0 or self.rounds < len(CHAINS[-1]) or self.population < 2:
            raise ValueError(
                f"every is at least 1, tries at least 0, rounds at least {len(CHAINS[-1])} and population at least 2, "
                f"not {self.every}, {self.tries}, {self.rounds} and {self.population}"
            )
        if not 0 <= self.share <= 1:
            raise ValueError(f"share is {self.share}; it is a share of episodes, from 0 to 1")

    def check(self, run: HookContext) -> None:
        super().check(run)
        if not isinstance(run.player, JointPlayer) or not isinstance(run.player.world, Grip):
            raise ConfigurationError(
                f"recipe {run.method} tracks references, and task {run.task.name} has none; use --task grip"
            )

    def begin(self, run: HookContext, earlier: State | None) -> Any:
        """No demonstrations; those of an earlier phase, if there was one."""
        if earlier:
            return earlier
        count = cast(Grip, cast(JointPlayer, run.player).world).references
        return {
            "actions": torch.zeros(count, LENGTH, 3, dtype=torch.float64),
            "chain": torch.full((count,), -1),
            "tried": torch.zeros(count, dtype=torch.int64),
            "chains": torch.zeros((), dtype=torch.int64),
        }

    async def before(self, run: HookContext, step: int, memory: Any) -> Any:
        """A round of the flywheel, before every so many steps."""
        if (step - 1) % self.every:
            return memory
        joint = cast(JointPlayer, run.player)
        world, act = cast(Grip, joint.world), greedy(joint)
        held = {name: part.numpy().copy() for name, part in memory.items()}
        mine = played(world, 2 * np.arange(world.references), act)
        known = held["chain"] >= 0
        earlier = played(world, 2 * np.arange(world.references), held["actions"]).earned
        better = mine.tracked & (~known | (mine.earned > earlier))
        held["actions"][better] = mine.actions[better]
        held["chain"][better & ~known] = 0
        waiting = np.flatnonzero(held["chain"] < 0)
        for number in waiting[np.argsort(held["tried"][waiting], kind="stable")][: self.tries].tolist():
            key = run.key.derive("search", step, number)
            self._search(world, number, act, held, key)
        return {name: torch.from_numpy(part) for name, part in held.items()}

    def _search(self, world: Grip, number: int, act: Controller, held: dict[str, NDArray[Any]], key: Key) -> None:
        """Looks for actions that track one reference, and records them in place."""
        known = np.flatnonzero(held["chain"] >= 0).tolist()
        first = int(held["chain"][similar(number, known)]) if known and self.homotopy else 0
        chains = CHAINS if self.homotopy else CHAINS[:1]
        actions, chain, tries = solved(world, 2 * number, act, chains, first, self.rounds, self.population, key)
        held["tried"][number] += 1
        held["chains"] += tries
        if chain >= 0:
            held["actions"][number], held["chain"][number] = actions, chain

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        joint = cast(JointPlayer, player)
        known = np.flatnonzero(memory["chain"].numpy() >= 0)
        if not len(known):
            return player
        tracks = played(cast(Grip, joint.world), 2 * known, memory["actions"].numpy()[known])
        held = {each.name: getattr(joint, each.name) for each in fields(joint)}
        shown = ({number: row for row, number in enumerate(known.tolist())}, tracks)
        return TaughtPlayer(**held, shown=shown, share=self.share, luck=run.key.derive("shown", step))

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        result.metrics["flywheel/demonstrations"] = float((memory["chain"] >= 0).sum())
        result.metrics["flywheel/by homotopy"] = float((memory["chain"] >= 1).sum())
        result.metrics["flywheel/chains"] = float(memory["chains"])
        return memory


DEXTRACK = PPO.but(
    name="dextrack",
    title="DexTrack: a tracking controller from RL, imitation and demonstrations by homotopy",
    source="DexTrack: Towards Generalizable Neural Tracking Control for Dexterous Manipulation from Human References, "
    "arXiv:2502.09614",
    catalogue_ids=("dextrack",),
    axes=("data", "objective", "policy"),
    formula="L = ppo - 1/T sum_(t of a demonstration) log pi(a_t | s_t),  a demonstration of a reference: base_k = "
    "argmax R_(g_k)(base_(k-1) + residual) along g_1 < .. < g_K = 1 of gravity, base_0 by pi, if it tracks",
    conventions={
        **PPO.conventions,
        "rounds of the flywheel": "before steps 1, 9, 17, ..; 8 references of 32 are searched in each",
        "search": "the cross-entropy method, 30 rounds of 32 for a whole chain; it and the order of chains stand in "
        "for the paper's learnt generator of chains",
        "chains": "gravity 1; .5, 1; .2, .4, .6, .8, 1; first that of the most similar reference with a demonstration",
        "imitation": "a quarter of the episodes of references with demonstrations; over the number of all decisions",
        "easier versions": "less gravity, our own choice",
        "world": "two fingers in a vertical plane stand in for a hand of 22 joints and people's recorded motions; "
        "objects have .7 to 1.2 kg, because of those of .2 to 1.2 kg PPO alone learns to track many",
    },
    task="grip",
    credit=TaughtToo(),
    regularisers=(ValueLoss(coefficient=0.5, aggregate="token-mean"), Imitation()),
    hooks=(Flywheel(),),
)
