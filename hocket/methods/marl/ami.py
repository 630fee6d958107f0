"""Adversarial minority influence: one member of a team learns to mislead the others (Li et al., arXiv:2302.03322).

An attacker sits in place of one agent of a trained team whose policies stay as they are and are not read: what it
knows of them is a model `f_i(a_i' | s, a)` of each victim's next move, fitted to moves it saw (`AdversarialInfluence`).
To minus the victims' reward two terms are added. *Influence* is how far the model's prediction for the move that the
attacker made lies from its mean over the moves that it might have made: only what the attacker changes in its victims
counts, and not, as in mutual information, what they change in it. *Target* is how much likelier its move makes the
action of each victim that is worst for them in the long run, by their returns after each action, fitted as well.

A plan trains the team first, each agent a policy of its own; `OneAttacks` then lets nobody but the attacker learn:

    hocket train --task mpe:spread?agents=2 --cast separate \
        --plan '[{recipe: ippo, steps: 30}, {recipe: ami, steps: 30}]'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from hocket.core.batch import Batch
from hocket.core.casting import Separate
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.signals import paid_at_decisions, rewards_by_occurrence
from hocket.methods.marl.ippo import IPPO
from hocket.policies.control_networks import Perceptron
from hocket.stages import Hook, HookContext, Shaping, State

HIDDEN, RATE = (64, 64), 3e-3
"""Of the two fitted networks: layers, and the step of Adam."""


def one_sided(logits: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """What an attacker's move changes in the next move of a victim.

    Args:
        logits: of the victim's next move, for each move that the attacker might make, `[R, A, V]`.
        chosen: the attacker's move, `[R]`.

    Returns:
        The total variation between the prediction for that move and its mean over all moves, `[R]`, in [0, 1], and how
        much likelier than in the mean each action of the victim is made, `[R, V]`.
    """
    predicted = torch.softmax(logits.double(), -1)
    moved = predicted[torch.arange(len(chosen)), chosen] - predicted.mean(1)
    return 0.5 * moved.abs().sum(-1), moved


@dataclass(frozen=True)
class Meeting:
    """Where attacker and victims of a batch move at once; of each row the occurrences, times one step apart.

    Attributes:
        attacker: its occurrence, `[R]`. victims: theirs at the same time, `[R, n]`; -1 where one has left.
        after: theirs one time later, `[R, n]`; -1 where there is none.
    """

    attacker: NDArray[np.int64]
    victims: NDArray[np.int64]
    after: NDArray[np.int64]


def meeting(batch: Batch, attacker: str) -> Meeting:
    """The moves of an attacker (empty: the first agent) beside those of all others, in order of its occurrences."""
    seen = batch.occurrences
    agents = batch.names["agent"]
    attacker = attacker or agents[0]
    if len(agents) < 2 or batch.time is None:
        raise ConfigurationError("ami attacks a team that acts at once, and here is none; choose a task as mpe:spread")
    if attacker not in agents:
        raise ConfigurationError(f"shaping.0.attacker: there is no agent {attacker!r} here{nearest(attacker, agents)}")
    agent = batch.agent[batch.turn[seen.decision]].numpy()
    time, row = batch.time[seen.decision].numpy(), seen.trajectory.numpy()
    place = np.full((len(agents), batch.trajectories, int(time.max(initial=0)) + 2), -1)
    place[agent, row, time] = np.arange(len(agent))
    own = agents.index(attacker)
    mine = np.flatnonzero(agent == own)
    others = [code for code in range(len(agents)) if code != own]
    victims = np.stack([place[code, row[mine], time[mine]] for code in others], 1)
    if len(mine) and (victims < 0).all():
        raise ConfigurationError("ami compares moves made at once, and here agents move in turn; drop sequenced=true")
    after = np.stack([place[code, row[mine], time[mine] + 1] for code in others], 1)
    return Meeting(mine, victims, np.where(victims >= 0, after, -1))


@dataclass(frozen=True)
class AdversarialInfluence(Shaping):
    """The attacker's rewards: `-mean_i r_i + influence sum_i TV_i + target sum_i (p_i(w_i) - mean p_i(w_i))`.

    `p_i` is the model of victim i's next action and `w_i` the action after which, at the next joint state, the fitted
    discounted return of the victims' mean reward is least. Both networks see the joint state and who the victim is, the
    model also every agent's move; on each batch they take `fits` steps of Adam (step 0.003, moments anew) before they
    are read. Rewards of others stay. Stateful: the weights of both.

    Attributes:
        attacker: who it is; empty for the first agent. influence, target: coefficients; with both 0 nothing is fitted.
        discount: of the returns. fits: see above.
    """

    attacker: str = ""
    influence: float = 0.3
    target: float = 0.3
    discount: float = 0.95
    fits: int = 20

    def __post_init__(self) -> None:
        if self.influence < 0 or self.target < 0 or not 0 <= self.discount <= 1 or self.fits < 1:
            raise ValueError(
                "influence and target must be at least 0, discount in [0, 1] and fits at least 1, not "
                f"{self.influence}, {self.target}, {self.discount} and {self.fits}"
            )

    def init(self) -> State:
        """Nothing is known of anybody yet."""
        return {}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        met = meeting(batch, self.attacker)
        earned = rewards_by_occurrence(batch)
        here = torch.from_numpy(met.victims >= 0)
        theirs = torch.where(here, earned[torch.from_numpy(met.victims).clamp(min=0)], 0.0)
        reward = -theirs.sum(1) / here.shape[1]
        if self.influence or self.target:
            bonus, state = self.bonus(batch, met, theirs.mean(1), state)
            reward = reward + bonus
        values = earned.clone()
        values[torch.from_numpy(met.attacker)] = reward
        return paid_at_decisions(batch, values), state

    def bonus(self, batch: Batch, met: Meeting, shared: Tensor, state: State) -> tuple[Tensor, State]:
        """Both terms `[R]` float64, and the fitted weights. `shared` `[R]` is the victims' mean reward."""
        told = _told(batch, met, int(state.get("moves", 0)))
        kept = state if state.get("moves") == told.moves else {}
        following = _following(batch, met, shared, self.discount)[told.row]
        scaled = ((following - following.mean()) / (following.std(correction=0) + 1e-8)).float()

        def surprise(logits: Tensor) -> Tensor:
            return functional.cross_entropy(logits, told.answer)

        def error(values: Tensor) -> Tensor:
            return (values.gather(1, told.answer[:, None]).squeeze(1) - scaled).square().mean()

        model = _fitted("model", kept.get("model"), told.joined(), told.moves, surprise, self.fits)
        harm = _fitted("harm", kept.get("harm"), told.alone(), told.moves, error, self.fits)
        with torch.no_grad():
            logits = torch.stack([model(told.joined(move)) for move in range(told.moves)], 1)
            change, moved = one_sided(logits, told.own)
            worst = harm(told.alone()).argmin(-1)
        paid = self.influence * change + self.target * moved[torch.arange(len(worst)), worst]
        found = torch.zeros(len(met.attacker), dtype=torch.float64).index_add_(0, told.row, paid)
        weights = {name: dict(one.state_dict()) for name, one in (("model", model), ("harm", harm))}
        return found, {"moves": told.moves, **weights}


@dataclass(frozen=True)
class _Told:
    """Pairs of an attacker's move and a victim's next one.

    Attributes:
        row: of the meeting, `[P]`. who: the victim, one-hot, `[P, n]`. joint, later: the joint states before both
            moves, `[P, S]`. own: the attacker's move, `[P]`. others: all victims' at its time, one-hot, `[P, n * A]`.
        answer: the victim's next move, `[P]`. moves: A.
    """

    row: Tensor
    who: Tensor
    joint: Tensor
    later: Tensor
    own: Tensor
    others: Tensor
    answer: Tensor
    moves: int

    def joined(self, move: int | None = None) -> Tensor:
        """What the model reads `[P, I]`, the attacker's move being `move` where that is given."""
        own = self.own if move is None else torch.full_like(self.own, move)
        return torch.cat([self.joint, functional.one_hot(own, self.moves).float(), self.others, self.who], 1)

    def alone(self) -> Tensor:
        """What the returns after a victim's next move are fitted on, `[P, I]`."""
        return torch.cat([self.later, self.who], 1)


def _told(batch: Batch, met: Meeting, least: int) -> _Told:
    """`least` moves there are at least."""
    if not batch.joint or any(one is None for one in batch.joint):
        raise ConfigurationError("ami models victims by the joint state, and this world offers none; choose another")
    if batch.action.is_floating_point():
        raise ConfigurationError("ami compares the moves that an attacker might make; choose a world of discrete moves")
    states = torch.from_numpy(np.concatenate([np.asarray(one, np.float32) for one in batch.joint]))
    decision = batch.occurrences.decision
    action = batch.action[decision].long()
    moves = max(least, int(action.max()) + 1, *(one.shape[1] for one in batch.allowed if one is not None))
    row, victim = (torch.from_numpy(one) for one in np.nonzero(met.after >= 0))
    own, victims, after = (torch.from_numpy(one) for one in (met.attacker, met.victims, met.after))
    others = torch.where(victims >= 0, action[victims.clamp(min=0)] + 1, 0)
    return _Told(
        row=row,
        who=functional.one_hot(victim, victims.shape[1]).float(),
        joint=states[decision[own[row]]],
        later=states[decision[after[row, victim]]],
        own=action[own[row]],
        others=functional.one_hot(others[row], moves + 1)[..., 1:].flatten(1).float(),
        answer=action[after[row, victim]],
        moves=moves,
    )


def _following(batch: Batch, met: Meeting, shared: Tensor, discount: float) -> Tensor:
    """The victims' discounted mean reward from the time after each of the attacker's moves on, `[R]` float64."""
    row = batch.occurrences.trajectory[torch.from_numpy(met.attacker)].tolist()
    found, after = torch.zeros(len(row), dtype=torch.float64), 0.0
    paid = shared.tolist()
    for number in reversed(range(len(row))):
        last = number + 1 == len(row) or row[number + 1] != row[number]
        after = 0.0 if last else paid[number + 1] + discount * after
        found[number] = after
    return found


def _fitted(
    name: str,
    weights: Mapping[str, Tensor] | None,
    inputs: Tensor,
    outputs: int,
    loss: Callable[[Tensor], Tensor],
    fits: int,
) -> Perceptron:
    """A network with these weights, or new ones, after `fits` steps."""
    network = Perceptron((inputs.shape[1], *HIDDEN, outputs), last_gain=0.01, key=Key.of(0).derive("ami", name))
    if weights is not None:
        network.load_state_dict(weights)
    steps = torch.optim.Adam(network.parameters(), lr=RATE)
    with torch.enable_grad():
        for _ in range(fits):
            steps.zero_grad()
            torch.autograd.backward(loss(network(inputs)))
            steps.step()
    return network


@dataclass(frozen=True)
class OneAttacks(Hook):
    """Nobody but `attacker` learns; empty for the first agent.

    Raises:
        ConfigurationError: when it has no policy of its own.
    """

    attacker: str = ""

    def check(self, run: HookContext) -> None:
        super().check(run)
        if len(run.trained) < 2 or self._name(run) not in run.trained:
            raise ConfigurationError(
                f"recipe {run.method} lets {self.attacker or 'one agent'} alone learn, and the policies here are "
                f"{', '.join(run.trained)}{nearest(self.attacker, run.trained)}; choose a task of several agents, such "
                "as mpe:spread, add --cast separate, and name an agent of it in hooks.0.attacker, if any"
            )

    def _name(self, run: HookContext) -> str:
        return self.attacker or next(iter(run.trained))

    def withheld(self, run: HookContext) -> frozenset[str]:
        return frozenset(run.trained) - {self._name(run)}


AMI = IPPO.but(
    name="ami",
    title="Adversarial minority influence",
    source="Li et al., Attacking Cooperative MARL by Adversarial Minority Influence, arXiv:2302.03322",
    catalogue_ids=("ami",),
    axes=("system", "team", "reward"),
    formula="attacker's r = -mean_i r_i + 0.3 sum_i TV(p_i(. | s, a), mean_b p_i(. | s, b)) "
    "+ 0.3 sum_i [p_i(w_i | s, a) - mean_b p_i(w_i | s, b)],  p_i fitted,  w_i = argmin_w of i's fitted return",
    conventions={
        **IPPO.conventions,
        "agents": "each has a policy of its own; one attacks, the others are as the phase before left them",
        "distance": "total variation, and the counterfactual moves count alike",
        "model": "perceptrons of 64 and 64 units, 20 steps of Adam on each batch, fitted before they are read",
        "target": "the action of the least fitted return of the victims; the paper trains a second policy to choose it",
        "coefficients": "0.3 and 0.3; the paper's differ by task",
        "attacker's start": "the weights of the member that it replaces",
    },
    note="on spread with two agents it harms the team no more than an attacker paid minus their reward alone: the "
    "paper's lead over that is not seen here; target actions come from a fitted value, where the paper trains a policy",
    task="mpe:spread?agents=2",
    requires=(Requirement.AGENTS,),
    shaping=(AdversarialInfluence(),),
    cast=Separate(),
    hooks=(OneAttacks(),),
)
