"""Past selves of a run's policies: taken as it goes on, seated as guests, kept in its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from hocket.agents.workflows.episode import Episode
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor
from hocket.core import sums
from hocket.core.columns import GUESTS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult, earned_by_role
from hocket.hooks.control_selves import SeatsPolicies, copied, guests_of, payoff, restored, seated, seats_of, weights_of
from hocket.hooks.meta_solvers import nash
from hocket.stages import Hook, HookContext, Player, Policy, State
from hocket.types import Trajectory


@dataclass
class PastSelf:
    """A snapshot of a policy after `step` steps, in a seat; and games with it, later ones counting more."""

    step: int
    policy: Policy
    actor: Actor | None = None
    games: float = 0.0
    won: float = 0.0

    @property
    def name(self) -> str:
        """What its turns say."""
        return self.policy.name if self.actor is None else self.actor.policy

    @property
    def beaten(self) -> float:
        """The share of games that the policy in training won."""
        return self.won / self.games if self.games else 0.5

    def played(self, won: float, decay: float) -> None:
        """Counts a game, won to this share."""
        self.games, self.won = decay * self.games + 1.0, decay * self.won + won


@dataclass
class Pool:
    """The past selves of one policy, and how many ever were to enter.

    `payoffs` are what each earns against each, by place, where a meta-solver reads them.
    """

    selves: list[PastSelf] = field(default_factory=list)
    entered: int = 0
    payoffs: list[list[float]] = field(default_factory=list)


Pools = dict[str, Pool]
"""The pools of a run, by policy."""


@dataclass(frozen=True)
class PastSelves(Hook):
    """In a share of the episodes a frozen past self of the policy sits in one seat, and only the others learn.

    Every `every` steps, and before the first one, a snapshot of each trained policy enters its pool. Guests drawn
    uniformly from a pool that is uniform over the past make the opponent of fictitious self-play (Heinrich et al. 2015;
    for learnt policies Bansal et al., arXiv 1710.03748). With `hardness` h it is prioritised (Vinyals et al. 2019):
    a snapshot against which the policy wins a share p of its games is drawn with weight (1 - p)^h.

    A game is won where the learning seats earned more per seat in their turns than the guests, a draw counts half, and
    a snapshot not met yet counts as drawn with. Games count less by the factor `decay` with every later one.

    Snapshots are taken in this process, and a checkpoint keeps of them all but what the base of an adapter holds.

    Control policies play a whole step in the same seats, so a step has guests or none. A policy in several seats gives
    one of them away; where each has one, one policy is drawn whose past self plays in its place. With `meta` = `nash`
    snapshots are drawn as in a Nash equilibrium of the zero-sum game among them (double oracle, McMahan et al. 2003;
    Lanctot et al., arXiv 1711.00832), whose table is played when a snapshot enters; `games` draws by `hardness`.

    Attributes:
        every: steps between snapshots. keep: the most snapshots of a policy, in memory and in checkpoints.
        share: of the episodes that have guests, each by a draw of its own.
        pool: who leaves a full pool: `latest`, the oldest; `reservoir`, as reservoir sampling draws it, so that the
            pool is a uniform sample of all snapshots so far.
        hardness: h above; 0 draws uniformly.
        guests: seats that past selves take, never all that learn; where only one role learns there are none.
        alike: whether the samples of a scenario meet the same guests, so that they are compared under equal terms.
        meta: what decides who is drawn, see above. matches: episodes of each pair in the table.
    """

    every: int = 10
    keep: int = 8
    share: float = 0.5
    pool: Literal["latest", "reservoir"] = "reservoir"
    hardness: float = 0.0
    guests: int = 1
    alike: bool = False
    decay: float = 0.99
    meta: Literal["games", "nash"] = "games"
    matches: int = 100

    def __post_init__(self) -> None:
        if self.meta not in ("games", "nash"):
            raise ValueError(f"meta must be 'games' or 'nash', not {self.meta!r}")
        for name in ("every", "keep", "guests", "matches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("share", "decay"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be a share in [0, 1], not {getattr(self, name)}")
        if self.pool not in ("latest", "reservoir"):
            raise ValueError(f"pool must be 'latest' or 'reservoir', not {self.pool!r}")
        if self.hardness < 0:
            raise ValueError(f"hardness must be at least 0, not {self.hardness}")

    def due(self, step: int) -> bool:
        """Whether snapshots enter before `step` (from 1)."""
        return (step - 1) % self.every == 0

    def place(self, entered: int, key: Key) -> int | None:
        """Which place of the pool the next snapshot takes after `entered` others; None where it does not enter."""
        if entered < self.keep:
            return entered
        if self.pool == "latest":
            return entered % self.keep
        drawn = int(key.numpy().integers(entered + 1))
        return drawn if drawn < self.keep else None

    def odds(self, won: Sequence[float]) -> list[float]:
        """How likely each snapshot is drawn, given the shares of games won against them."""
        weights = [(1.0 - share) ** self.hardness for share in won]
        total = sum(weights)
        return [weight / total for weight in weights] if total > 0 else [1.0 / len(won)] * len(won)

    def visited(self, roles: Sequence[str], key: Key) -> list[str]:
        """The roles that guests take in an episode; none in the others."""
        rng = key.numpy()
        if rng.random() >= self.share:
            return []
        return [roles[place] for place in rng.permutation(len(roles))[: min(self.guests, len(roles) - 1)]]

    # ------------------------------------------------------------ around a step

    def check(self, run: HookContext) -> None:
        if isinstance(run.player, SeatsPolicies):
            super().check(run)
            seats = seats_of(run.player, run.trained)
            if self.meta == "nash" and (
                [len(agents) for agents in seats.values()] != [2] or len(run.player.seats) != 2
            ):
                raise ConfigurationError(
                    "meta = nash is for games of two seats that one policy in training plays; set cast to shared, or "
                    "meta to games"
                )
            return
        if not isinstance(run.player, TextPlayer):
            raise ConfigurationError(
                f"PastSelves of recipe {run.method} seats snapshots in the roles of a workflow or the seats of a joint "
                f"world, and task {run.task.name} has neither; choose another recipe"
            )
        if self.meta == "nash":
            raise ConfigurationError("meta = nash plays matches of control policies; set meta to games")
        self._trained(run)

    def _trained(self, run: HookContext) -> dict[str, str]:
        """The policy of each role that a policy in training plays."""
        actors = run.player.actors if isinstance(run.player, TextPlayer) else {}
        trained = _trained_roles(actors, run.trained)
        if run.overlap or not all(hasattr(actors[role].engine, "like") for role in trained):
            raise ConfigurationError(
                "PastSelves samples from snapshots in this process; leave overlap at 0 and engine.kind local"
            )
        return trained

    def begin(self, run: HookContext, earlier: State | None) -> Pools:
        return self.restore(earlier, run) if earlier else {}

    async def before(self, run: HookContext, step: int, memory: Pools) -> Pools:
        """Takes the snapshots that are due."""
        if isinstance(run.player, SeatsPolicies):
            return await self._before_control(run, run.player, step, memory)
        trained, player = self._trained(run), run.player
        if not isinstance(player, TextPlayer) or len(trained) < 2 or not self.due(step):
            return memory
        for name in dict.fromkeys(trained.values()):
            actor = next(player.actors[role] for role, policy in trained.items() if policy == name)
            pool = memory.setdefault(name, Pool())
            self._enter(pool, run.trained[name], actor, step - 1, run.key.derive("past", name))
        return memory

    def _enter(self, pool: Pool, policy: Policy, actor: Actor, step: int, key: Key) -> None:
        """Takes a snapshot as it is after `step` steps."""
        place = self.place(pool.entered, key.derive(pool.entered))
        pool.entered += 1
        if place is not None and place < len(pool.selves):
            pool.selves[place] = _retaken(pool.selves[place], policy, step)
        elif place is not None:
            pool.selves.append(_taken(policy, actor, step))

    async def _before_control(self, run: HookContext, player: SeatsPolicies, step: int, memory: Pools) -> Pools:
        seats = seats_of(player, run.trained)
        if sum(map(len, seats.values())) < 2 or not self.due(step):
            return memory
        for name, agents in seats.items():
            pool, key = memory.setdefault(name, Pool()), run.key.derive("past", name)
            place = self.place(pool.entered, key.derive(pool.entered))
            pool.entered += 1
            if place is None:
                continue
            policy = run.trained[name]
            pool.selves[place : place + 1] = [PastSelf(step - 1, copied(policy, _named(policy, step - 1)))]
            if self.meta == "nash":
                await self._match(run, pool, place, agents, key.derive("matches", step))
        return memory

    async def _match(self, run: HookContext, pool: Pool, place: int, agents: list[str], key: Key) -> None:
        """Plays a new snapshot's row and column of the table."""
        size = len(pool.selves)
        held = [[*row, 0.0][:size] for row in [*pool.payoffs, [0.0] * size][:size]]
        for other in range(size):
            if other != place:
                pair = pool.selves[place].policy, pool.selves[other].policy
                held[place][other] = await payoff(run, agents, pair, self.matches, key.derive(other))
                held[other][place] = -held[place][other]
        pool.payoffs = held

    def _seat_control(self, player: Player, run: HookContext, step: int, memory: Pools) -> Player:
        rng, held = run.key.derive("former", step).numpy(), cast(SeatsPolicies, player)
        if rng.random() >= self.share:
            return player
        policies, taken = dict[str, Policy](), dict[str, str]()
        seats = seats_of(held, run.trained)
        for name in guests_of(seats, rng):
            past, agents = self._drawn(memory[name], rng), list(seats[name])
            policies[past.name] = past.policy
            for _ in range(min(self.guests, max(len(agents) - 1, 1))):
                taken[agents.pop(int(rng.integers(len(agents))))] = past.name
        return seated(player, policies, taken)

    def _drawn(self, pool: Pool, rng: np.random.Generator) -> PastSelf:
        """A snapshot of a pool."""
        if self.meta == "games" and not self.hardness:
            return sorted(pool.selves, key=lambda past: past.step)[int(rng.integers(len(pool.selves)))]
        if self.meta == "nash":
            odds = nash(np.array(pool.payoffs))[0].tolist()
        else:
            odds = self.odds([past.beaten for past in pool.selves])
        return pool.selves[int(rng.choice(len(pool.selves), p=odds))]

    def seat(self, player: Player, run: HookContext, step: int, memory: Pools) -> Player:
        """The player with guests in some of its episodes."""
        if isinstance(player, SeatsPolicies):
            return self._seat_control(player, run, step, memory)
        if not isinstance(player, TextPlayer):
            return player
        trained = _trained_roles(player.actors, run.trained)
        return player if len(trained) < 2 else replace(player, guests=Guests(self, memory, player.actors, trained))

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Pools) -> Pools:
        """Counts who won the games with guests."""
        if result.experience is None:
            return memory
        selves = {member.name: member for pool in memory.values() for member in pool.selves}
        for trajectory in [*result.experience.trajectories, *result.experience.discarded]:
            guests: Mapping[str, str] = GUESTS.get(trajectory, {})
            if isinstance(run.player, SeatsPolicies):
                guests = {turn.agent: turn.policy for turn in trajectory.turns if turn.policy in selves}
            if guests and trajectory.failure is None:
                won = _won(trajectory, guests, run.weights)
                for name in guests.values():
                    selves[name].played(won, self.decay)
        return memory

    # ------------------------------------------------------------ state

    def state(self, memory: Pools, run: HookContext) -> State:
        """All of it but what the base of an adapter holds."""
        return {
            name: {
                "entered": pool.entered,
                "selves": [
                    {"step": member.step, "games": member.games, "won": member.won, "weights": weights}
                    for member in pool.selves
                    for weights in [_state_of(member, run.trained[name])]
                ],
                **({"payoffs": pool.payoffs} if pool.payoffs else {}),
            }
            for name, pool in memory.items()
        }

    def restore(self, state: State, run: HookContext) -> Pools:
        pools: Pools = {}
        for name, record in state.items():
            policy = run.trained[name]
            if isinstance(run.player, SeatsPolicies):
                pools[name] = Pool([_copy_of(policy, past) for past in record["selves"]], int(record["entered"]))
                pools[name].payoffs = [list(map(float, row)) for row in record.get("payoffs", ())]
                continue
            actor = next(actor for actor in cast(TextPlayer, run.player).actors.values() if actor.policy == name)
            pool = pools[name] = Pool(entered=int(record["entered"]))
            for snapshot in record["selves"]:
                past = _taken(policy, actor, int(snapshot["step"]))
                past.games, past.won = float(snapshot["games"]), float(snapshot["won"])
                with torch.no_grad():
                    for place, weight in _weights(past.policy, policy):
                        weight.copy_(snapshot["weights"][place])
                pool.selves.append(past)
        return pools


@dataclass(frozen=True)
class Guests:
    """Who takes which seats in an episode; a function of the episode's key."""

    hook: PastSelves
    pools: Mapping[str, Pool]
    usual: Mapping[str, Actor]
    trained: Mapping[str, str]

    @property
    def actors(self) -> list[Actor]:
        """Of all past selves."""
        held = [member.actor for pool in self.pools.values() for member in pool.selves]
        return [actor for actor in held if actor is not None]

    def __call__(self, episode: Episode) -> dict[str, Actor]:
        key = (episode.common if self.hook.alike else episode.draws).derive("guests")
        guests = {}
        for role in self.hook.visited(list(self.trained), key):
            selves = self.pools[self.trained[role]].selves
            odds = self.hook.odds([member.beaten for member in selves])
            past = selves[int(key.derive(role).numpy().choice(len(selves), p=odds))]
            assert past.actor is not None
            guests[role] = replace(past.actor, decoding=self.usual[role].decoding)
        return guests


def _state_of(member: PastSelf, policy: Policy) -> State:
    """The weights of a snapshot that a checkpoint keeps."""
    return weights_of(member.policy) if member.actor is None else dict(_weights(member.policy, policy))


def _copy_of(policy: Policy, one: State) -> PastSelf:
    """A past self of a control policy, from a checkpoint."""
    copy = restored(policy, _named(policy, int(one["step"])), one["weights"])
    return PastSelf(int(one["step"]), copy, None, float(one["games"]), float(one["won"]))


def _trained_roles(actors: Mapping[str, Actor], trained: Mapping[str, Policy]) -> dict[str, str]:
    """The policy of each role that a policy in training plays."""
    return {role: actor.policy for role, actor in actors.items() if actor.learns and actor.policy in trained}


def _taken(policy: Policy, actor: Actor, step: int) -> PastSelf:
    """A new snapshot of a policy as it is."""
    # With adapters a reference is the base, and no snapshot.
    copied: Policy = getattr(policy, "snapshot", policy.frozen_copy)()
    engine: Any = actor.engine
    past = replace(actor, policy=_named(policy, step), engine=engine.like(copied), learns=False)
    return PastSelf(step, copied, past)


def _retaken(old: PastSelf, policy: Policy, step: int) -> PastSelf:
    """A new snapshot in the place of an old one, which is overwritten: engines and their memory stay."""
    weights = dict(policy.module.named_parameters())
    with torch.no_grad():
        for name, weight in _weights(old.policy, policy):
            weight.copy_(weights[name])
    old.policy.version = policy.version
    assert old.actor is not None
    return PastSelf(step, old.policy, replace(old.actor, policy=_named(policy, step)))


def _named(policy: Policy, step: int) -> str:
    """No trained policy may be called so."""
    return f"{policy.name}@{step}"


def _weights(past: Policy, policy: Policy) -> Iterator[tuple[str, Tensor]]:
    """The weights of a snapshot that training changes."""
    changing = {name for name, weight in policy.module.named_parameters() if weight.requires_grad}
    for name, weight in past.module.named_parameters():
        if name in changing:
            yield name, weight.detach()


def _won(trajectory: Trajectory, guests: Mapping[str, str], weights: Mapping[str, float]) -> float:
    """1 where those who learn earned more per seat than the guests, 1/2 where as much."""
    earned = earned_by_role(trajectory, weights)
    roles = {turn.role or turn.agent for turn in trajectory.turns} | set(guests)
    theirs = sums.mean([earned.get(role, 0.0) for role in guests])
    ours = sums.mean([earned.get(role, 0.0) for role in sorted(roles - set(guests))] or [0.0])
    return 0.5 if ours == theirs else float(ours > theirs)
