"""Past selves of a run's learners: taken as it goes on, seated as guests, kept in its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, cast

import torch
from torch import Tensor

from hocket.casting import Cast, PastSelves
from hocket.core.columns import GUESTS
from hocket.errors import ConfigurationError
from hocket.keys import Key
from hocket.stages import Player, Policy, State
from hocket.train.learner import Learner
from hocket.train.team_metrics import earned_by_role
from hocket.types import Trajectory
from hocket.workflows import TextPlayer
from hocket.workflows.episode import Episode
from hocket.workflows.team import Seat


@dataclass
class PastSelf:
    """A snapshot of a policy after `step` steps, in a seat; and games with it, later ones counting more."""

    step: int
    policy: Policy
    seat: Seat
    games: float = 0.0
    won: float = 0.0

    @property
    def name(self) -> str:
        """What its turns say."""
        return self.seat.policy

    @property
    def beaten(self) -> float:
        """The share of games that the learner won."""
        return self.won / self.games if self.games else 0.5

    def played(self, won: float, decay: float) -> None:
        """Counts a game, won to this share."""
        self.games, self.won = decay * self.games + 1.0, decay * self.won + won


@dataclass
class Pool:
    """The past selves of one policy, and how many ever were to enter."""

    selves: list[PastSelf] = field(default_factory=list)
    entered: int = 0


@dataclass
class Population:
    """The pools of a run, by policy; empty where its cast asks for none."""

    pools: dict[str, Pool] = field(default_factory=dict)

    def seated(self, player: Player, seating: Cast, learners: Mapping[str, Learner], step: int, key: Key) -> Player:
        """The player with guests in some of its episodes, after the snapshots due before `step` have entered.

        Raises:
            ConfigurationError: as `check`.
        """
        trained = check(player, seating, learners)
        if not isinstance(seating, PastSelves) or not isinstance(player, TextPlayer) or len(trained) < 2:
            return player
        if seating.due(step):
            for name in dict.fromkeys(trained.values()):
                seat = next(player.seats[role] for role, policy in trained.items() if policy == name)
                self._enter(seating, learners[name], seat, step - 1, key.derive("past", name))
        return replace(player, guests=Guests(seating, self.pools, player.seats, trained))

    def _enter(self, seating: PastSelves, learner: Learner, seat: Seat, step: int, key: Key) -> None:
        """Takes a snapshot as it is after `step` steps."""
        pool = self.pools.setdefault(learner.policy.name, Pool())
        place = seating.place(pool.entered, key.derive(pool.entered))
        pool.entered += 1
        if place is not None and place < len(pool.selves):
            pool.selves[place] = _retaken(pool.selves[place], learner.policy, step)
        elif place is not None:
            pool.selves.append(_taken(learner.policy, seat, step))

    def record(self, trajectories: Sequence[Trajectory], seating: Cast, weights: Mapping[str, float]) -> None:
        """Counts who won the games with guests."""
        if not isinstance(seating, PastSelves):
            return
        of = {one.name: one for pool in self.pools.values() for one in pool.selves}
        for trajectory in trajectories:
            guests: Mapping[str, str] = GUESTS.get(trajectory, {})
            if guests and trajectory.failure is None:
                won = _won(trajectory, guests, weights)
                for name in guests.values():
                    of[name].played(won, seating.decay)

    # ------------------------------------------------------------ state

    def state(self, learners: Mapping[str, Learner]) -> State:
        """All of it but what the base of an adapter holds."""
        return {
            name: {
                "entered": pool.entered,
                "selves": [
                    {"step": one.step, "games": one.games, "won": one.won, "weights": weights}
                    for one in pool.selves
                    for weights in [dict(_weights(one.policy, learners[name].policy))]
                ],
            }
            for name, pool in self.pools.items()
        }

    def restore(self, state: State, player: Player, learners: Mapping[str, Learner]) -> None:
        """The inverse of `state`."""
        for name, kept in state.items():
            policy = learners[name].policy
            seat = next(seat for seat in cast(TextPlayer, player).seats.values() if seat.policy == name)
            pool = self.pools[name] = Pool(entered=int(kept["entered"]))
            for one in kept["selves"]:
                past = _taken(policy, seat, int(one["step"]))
                past.games, past.won = float(one["games"]), float(one["won"])
                with torch.no_grad():
                    for place, weight in _weights(past.policy, policy):
                        weight.copy_(one["weights"][place])
                pool.selves.append(past)


@dataclass(frozen=True)
class Guests:
    """Who takes which seats in an episode; a function of the episode's key."""

    seating: PastSelves
    pools: Mapping[str, Pool]
    usual: Mapping[str, Seat]
    trained: Mapping[str, str]

    @property
    def seats(self) -> list[Seat]:
        """Of all past selves."""
        return [one.seat for pool in self.pools.values() for one in pool.selves]

    def __call__(self, episode: Episode) -> dict[str, Seat]:
        key = (episode.common if self.seating.alike else episode.draws).derive("guests")
        found = {}
        for role in self.seating.visited(list(self.trained), key):
            selves = self.pools[self.trained[role]].selves
            odds = self.seating.odds([one.beaten for one in selves])
            past = selves[int(key.derive(role).numpy().choice(len(selves), p=odds))]
            found[role] = replace(past.seat, decoding=self.usual[role].decoding)
        return found


def check(player: Player, seating: Cast, learners: Mapping[str, Learner], *, overlap: int = 0) -> dict[str, str]:
    """The policy of each role that a policy in training plays.

    Raises:
        ConfigurationError: when what samples cannot hold the past selves that the cast asks for.
    """
    seats = player.seats if isinstance(player, TextPlayer) else {}
    trained = {
        role: seat
        for role, seat in seats.items()
        if seat.learns and seat.policy in learners and not learners[seat.policy].frozen
    }
    here = not overlap and all(hasattr(seat.engine, "like") for seat in trained.values())
    if isinstance(seating, PastSelves) and not here:
        raise ConfigurationError(
            "cast PastSelves samples from snapshots in this process; leave overlap at 0 and engine.kind local"
        )
    return {role: seat.policy for role, seat in trained.items()}


def _taken(policy: Policy, seat: Seat, step: int) -> PastSelf:
    """A new snapshot of a policy as it is."""
    # With adapters a reference is the base, and no snapshot.
    copied: Policy = getattr(policy, "snapshot", policy.frozen_copy)()
    engine: Any = seat.engine
    past = replace(seat, policy=_named(policy, step), engine=engine.like(copied), learns=False)
    return PastSelf(step, copied, past)


def _retaken(old: PastSelf, policy: Policy, step: int) -> PastSelf:
    """A new snapshot in the place of an old one, which is overwritten: engines and their memory stay."""
    now = dict(policy.module.named_parameters())
    with torch.no_grad():
        for name, weight in _weights(old.policy, policy):
            weight.copy_(now[name])
    old.policy.version = policy.version
    return PastSelf(step, old.policy, replace(old.seat, policy=_named(policy, step)))


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
    theirs = fmean(earned.get(role, 0.0) for role in guests)
    own = fmean([earned.get(role, 0.0) for role in sorted(roles - set(guests))] or [0.0])
    return 0.5 if own == theirs else float(own > theirs)
