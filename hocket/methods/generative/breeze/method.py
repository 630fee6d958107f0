"""BREEZE: goals are named after training (Zheng et al., arXiv:2510.15382).

F and B are learnt from records without rewards, so that F(s, a, z)' B(s') is how densely the policy of task z visits s'
after a, relative to the records, with a discount. Over the K rows of a mini-batch, M_ij = F(s_i, a_i, z_i)' B(s'_j),

    1/2 mean_{j != i} (M_ij - gamma M-_ij)^2 - M_ii + 10 (mean_{j != i} (B_i' B_j)^2 - 2 B_i' B_i),

M- by the smaller of two slow F, at the best of a few actions of the policy. Whatever a goal pays, r(s'), its task is
z = E[r(s') B(s')], of which the length is set to sqrt(d), and Q_z = F' z. What BREEZE adds keeps to recorded actions:

    V_z(s) is an upper expectile of Q_z over them;   Q_z is drawn, weakly, to B(s')' C^-1 z + gamma V_z(s'), C = E[B B']
    the policy is a denoiser by state and task whose squared error is weighted by exp(beta (Q_z - V_z)).

In play the best of N samples by Q_z acts. Formulas and constants are those of the authors' code. The task of a goal is
read from recorded states that it labels with what it pays there (`labelled`), once the weights are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.stored_rows import FOLLOWING, GOES_ON, NOISE
from hocket.methods.base.bc import BC
from hocket.objectives.action_values import CriticLoss, ExpectileLoss
from hocket.policies.action_values import Critics, ValuePart, critics_of, following, joined, slow_copy
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import EvaluatedRows, Links, PartHost
from hocket.policies.value_heads import ChosenCandidate
from hocket.rollout.transitions import Transitions
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms
from hocket.update.following import FollowingStep


def schedule(steps: int) -> Tensor:
    """The share of variance that each step leaves, alpha, `[steps]`: variance-preserving, from 0.1 to 10."""
    times = torch.arange(1, steps + 1, dtype=torch.float64)
    return torch.exp(-0.1 / steps - 0.5 * (10 - 0.1) * (2 * times - 1) / steps**2)


class ForwardMap(nn.Module):
    """Two F that share their trunk: a token of state and task and one of state and action attend to each other."""

    def __init__(
        self, sights: int, actions: int, size: int, width: int, *, activation: Literal["tanh", "relu"], key: Key
    ) -> None:
        super().__init__()

        def made(name: str, *sizes: int) -> Perceptron:
            return Perceptron(sizes, last_gain=1.0, key=key.derive(name), activation=activation)

        self.of_task, self.of_action = (
            made("task", sights + size, width, width),
            made("action", sights + actions, width, width),
        )
        self.attend = made("attend", width, 3 * width)
        self.first, self.second = made("first", 2 * width, width, size), made("second", 2 * width, width, size)

    def forward(self, seen: Tensor, action: Tensor, task: Tensor) -> Tensor:
        """`[2, B, d]` of states `[B, O]`, actions `[B, A]` and tasks `[B, d]`."""
        tokens = torch.stack([self.of_task(torch.cat([seen, task], 1)), self.of_action(joined(seen, action))], 1)
        query, key, value = self.attend(tokens).chunk(3, -1)
        share = (query @ key.transpose(1, 2) / key.shape[-1] ** 0.5).softmax(-1)
        both = (tokens + share @ value).flatten(1)
        return torch.stack([self.first(both), self.second(both)])


class BackwardMap(nn.Module):
    """B, of length sqrt(d)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, seen: Tensor) -> Tensor:
        return scaled(self.network(seen))


def scaled(task: Tensor) -> Tensor:
    """Vectors `[.., d]` with length sqrt(d)."""
    unit: Tensor = normalize(task, dim=-1)
    return unit * float(task.shape[-1] ** 0.5)


class TaskDenoiser(nn.Module):
    """A network that predicts the noise in actions by state and task.

    Its own output is what it reads: a distribution is made of that.

    Attributes:
        labelled: recorded states `[N, O]` as networks read them, and what the goal pays there, `[N]`: no weights.
    """

    def __init__(
        self, network: nn.Module, maps: tuple[ForwardMap, BackwardMap], labelled: tuple[Tensor, Tensor], steps: int
    ) -> None:
        super().__init__()
        self.network, self.alpha, self.left = network, schedule(steps), schedule(steps).cumprod(0)
        self.labelled, self._maps = labelled, maps  # Modules of the policy; a copy of its modules copies all together.

    def forward(self, seen: Tensor) -> Tensor:
        return seen

    def noised(self, action: Tensor, noise: Tensor, step: Tensor) -> Tensor:
        """Actions `[B, A]` with noise at steps `[B]`."""
        left = self.left[step][:, None]
        return (left.sqrt() * action + (1 - left).sqrt() * noise).to(action.dtype)

    def predicted(self, seen: Tensor, task: Tensor, noisy: Tensor, step: Tensor) -> Tensor:
        """The noise in noisy actions at steps `[B]`, `[B, A]`."""
        time = step[:, None].to(seen.dtype) / len(self.alpha)
        noise: Tensor = self.network(torch.cat([seen, task, noisy, time], 1))
        return noise

    def denoised(self, seen: Tensor, task: Tensor, normals: Tensor) -> Tensor:
        """Actions `[B, A]` by normals `[B, steps, A]`: the first is noise, the others are added after all steps but the
        last."""
        action, steps = normals[:, 0], len(self.alpha)
        for step in reversed(range(steps)):
            alpha, left = float(self.alpha[step]), float(self.left[step])
            noise = self.predicted(seen, task, action, torch.full((len(seen),), step))
            action = (action - (1 - alpha) / (1 - left) ** 0.5 * noise) / alpha**0.5
            if step:
                action = action + (1 - alpha) ** 0.5 * normals[:, steps - step]
            action = action.clamp(-1.0, 1.0)
        return action

    @torch.no_grad()
    def task(self) -> Tensor:
        """z of the goal, `[d]`: E[r(s) B(s)] over the labelled states, of length sqrt(d)."""
        states, paid = self.labelled
        return scaled(paid @ self._maps[1](states) / len(paid))

    @torch.no_grad()
    def chosen(self, seen: Tensor, task: Tensor, normals: Tensor) -> Tensor:
        """The best of N actions by Q_z, `[B, A]`, for tasks `[B, d]`, by normals `[B, N, steps, A]`."""
        count = normals.shape[1]
        states, tasks = seen.repeat_interleave(count, 0), task.repeat_interleave(count, 0)
        actions = self.denoised(states, tasks, normals.flatten(0, 1))
        value = (self._maps[0](states, actions, tasks) * tasks).sum(-1).amin(0).reshape(len(seen), count)
        return actions.reshape(len(seen), count, -1)[torch.arange(len(seen)), value.argmax(1)]


@dataclass(frozen=True)
class TaskForm:
    """The form of actions that are denoised by a task, and chosen among N.

    Attributes:
        size: A. samples: N. usual: the normals of greedy play. labelled: see `TaskDenoiser`.
    """

    size: int
    samples: int
    steps: int
    dimensions: int
    maps: tuple[ForwardMap, BackwardMap]
    labelled: tuple[Tensor, Tensor]
    usual: Tensor

    densities: ClassVar[bool] = False

    @property
    def draws(self) -> int:
        return self.samples * self.steps * self.size

    def actor(self, link: Links) -> TaskDenoiser:
        network = link(self.size, "denoiser", self.size + self.dimensions + 1)
        return TaskDenoiser(network, self.maps, self.labelled, self.steps)

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> ChosenCandidate:
        network, shape = cast(TaskDenoiser, actor), (len(outputs), self.samples, self.steps, self.size)

        def choose(normals: Tensor) -> Tensor:
            return network.chosen(outputs, network.task().expand(shape[0], -1), normals.reshape(shape))

        return ChosenCandidate(self.usual, choose, shape[0])

    def config(self) -> Mapping[str, Any]:
        return {
            "head": "denoised by task",
            "samples": self.samples,
            "denoising_steps": self.steps,
            "d": self.dimensions,
        }


@dataclass(frozen=True)
class ForwardBackward(ValuePart):
    """F and B with slow copies, a value of state and task, and an actor that denoises by both.

    Rows join one decision. Each has a task of its own: of a random direction, or B of another row. `DYNAMICS` `[K, 2]`
    are the losses of F and B and of the orthogonality of B, a row's part in each. Greedy play takes the same noise
    everywhere.

    Attributes:
        dimensions: d. mixed: the share of tasks that are B of another row. samples: N, of which the best acts.
        followers: of as many the best follows in the backup. steps: of denoising.
    """

    dimensions: int = 32
    mixed: float = 0.5
    samples: int = 64
    followers: int = 3
    steps: int = 5

    needed: ClassVar[str] = "representations of what will be visited"
    groups: ClassVar[Mapping[str, str]] = {
        name: name for name in ("forward_map", "backward_map", "slow_forward", "slow_backward", "state_value")
    }
    slow: ClassVar[Mapping[str, str]] = {"slow_forward": "forward_map", "slow_backward": "backward_map"}
    quantities: ClassVar[frozenset[Quantity]] = frozenset(
        {Quantity.ACTION_VALUE, Quantity.BACKUP, Quantity.STATE_VALUE, Quantity.DENOISING, Quantity.DYNAMICS}
    )

    def __post_init__(self) -> None:
        if min(self.samples, self.followers, self.steps, self.dimensions) < 1 or not 0 <= self.mixed <= 1:
            raise ValueError(
                "samples, followers, steps and dimensions must be at least 1 and mixed lie in [0, 1], not "
                f"{self.samples}, {self.followers}, {self.steps}, {self.dimensions} and {self.mixed}"
            )

    def begin(self, host: PartHost) -> None:
        self._check(host, discrete=False)
        labels = getattr(host.spaces, "labelled", None)
        if labels is None:
            raise ConfigurationError(
                f"policy {host.name!r}: this recipe reads a goal from recorded states with what the task pays there, "
                "and this task labels none; choose a task with labelled(), such as goals:point"
            )
        host.module.log_std = None
        sights, size, key, activation = host.observations, self.dimensions, host.key, host.network.activation
        forward = ForwardMap(
            sights, host.actions, size, host.hidden[-1], activation=activation, key=key.derive("forward")
        )
        backward = BackwardMap(
            Perceptron((sights, *host.hidden, size), last_gain=1.0, key=key.derive("backward"), activation=activation)
        )
        host.module.forward_map, host.module.slow_forward = forward, slow_copy(forward)
        host.module.backward_map, host.module.slow_backward = backward, slow_copy(backward)
        sizes = (sights + size, *host.hidden, 1)
        host.module.state_value = Critics(1, sizes, activation=activation, key=key.derive("state value"))
        usual = torch.randn(self.samples * self.steps * host.actions, generator=Key.of(0).derive("candidates").torch())
        states, paid = (torch.as_tensor(column, dtype=torch.float32) for column in labels())
        host.action_form = TaskForm(
            host.actions, self.samples, self.steps, size, (forward, backward), (states, paid), usual
        )
        host.remake_actor()

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {"dimensions": self.dimensions}

    def evaluated(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        drawn = self._drawn(host, rows)
        every = host.as_read(FOLLOWING.read(rows.batch, "the policy")[:, : host.observations])
        reached = cast(BackwardMap, host.module.backward_map)(every)  # B(s') of the whole mini-batch, [T, d].
        task = self._tasks(rows, drawn, reached.detach())
        forward = cast(ForwardMap, host.module.forward_map)(rows.seen, rows.action, task)
        value = (forward * task).sum(-1)
        quantities = {Quantity.ACTION_VALUE: value.t()}
        if Quantity.STATE_VALUE in wanted:
            state = critics_of(host, "state_value")(torch.cat([rows.seen, task], 1))[:, 0]
            quantities[Quantity.STATE_VALUE] = torch.stack([state, value.detach().amin(0)], 1)
        if Quantity.BACKUP in wanted:
            quantities[Quantity.BACKUP] = self._backup(host, rows, task, reached.detach())
        if Quantity.DYNAMICS in wanted:
            losses = self._occupancy(host, rows, drawn, every, task, forward, reached)
            quantities[Quantity.DYNAMICS] = torch.stack([losses, _orthogonality(reached, rows.places)], 1)
        if Quantity.DENOISING in wanted:
            quantities[Quantity.DENOISING] = self._error(host, rows, drawn, task)
        return quantities

    def _drawn(self, host: PartHost, rows: EvaluatedRows) -> list[Tensor]:
        """Normals of each row: of the noise in its action, its level, its action that follows, its task, its kind."""
        sizes = [host.actions, 1, self.followers * self.steps * host.actions, self.dimensions, 1]
        noise = rows.column(NOISE).flatten(1)
        if noise.shape[1] < sum(sizes):
            raise ConfigurationError(
                f"a row of this recipe takes {sum(sizes)} normals, and the store draws {noise.shape[1]}; set "
                f"store.noises to {-(-sum(sizes) // host.actions)}"
            )
        return list(torch.split(noise[:, : sum(sizes)], sizes, 1))

    def _tasks(self, rows: EvaluatedRows, drawn: list[Tensor], reached: Tensor) -> Tensor:
        """The task of each row, `[K, d]`."""
        other = reached.roll(1, 0)[rows.places]
        return torch.where(torch.special.ndtr(drawn[4]) < self.mixed, other, scaled(drawn[3]))

    @torch.no_grad()
    def _backup(self, host: PartHost, rows: EvaluatedRows, task: Tensor, reached: Tensor) -> Tensor:
        """B(s')' C^-1 z, the reward of which z is the task, and the value of what follows, `[K]`."""
        spread = reached.t() @ reached / len(reached) + 1e-4 * torch.eye(self.dimensions)
        paid: Tensor = (torch.linalg.solve(spread, reached[rows.places].t()).t() * task).sum(1)
        later: Tensor = critics_of(host, "state_value")(torch.cat([following(host, rows), task], 1))[:, 0]
        return paid + rows.column(GOES_ON) * later

    def _occupancy(
        self,
        host: PartHost,
        rows: EvaluatedRows,
        drawn: list[Tensor],
        every: Tensor,
        task: Tensor,
        forward: Tensor,
        reached: Tensor,
    ) -> Tensor:
        """Of both F, 1/2 mean_{j != i} (M_ij - gamma M-_ij)^2 - M_ii, `[K]`."""
        with torch.no_grad():
            later, actor = following(host, rows), cast(TaskDenoiser, host.module.actor)
            normals = drawn[2].reshape(len(later), self.followers, self.steps, -1)
            action = actor.chosen(later, task, normals)
            slow = cast(ForwardMap, host.module.slow_forward)(later, action, task)
            target = (slow @ cast(BackwardMap, host.module.slow_backward)(every).t()).amin(0)
        visited = forward @ reached.t()
        gap = (visited - rows.column(GOES_ON)[:, None] * target).square().sum(0)
        diagonal = torch.arange(len(rows.places)), rows.places
        return 0.5 * _of_others(gap, rows.places) - visited.sum(0)[diagonal]

    def _error(self, host: PartHost, rows: EvaluatedRows, drawn: list[Tensor], task: Tensor) -> Tensor:
        """The squared error of the predicted noise, `[K]`."""
        network = cast(TaskDenoiser, host.module.actor)
        step = (torch.special.ndtr(drawn[1][:, 0]) * self.steps).long().clamp(max=self.steps - 1)
        noisy = network.noised(rows.action.clamp(-1.0, 1.0), drawn[0], step)
        return (network.predicted(rows.seen, task, noisy, step) - drawn[0]).square().sum(1)


def _of_others(values: Tensor, places: Tensor) -> Tensor:
    """The mean of each row of `[K, T]` without the column at its place, `[K]`."""
    return (values.sum(1) - values[torch.arange(len(places)), places]) / max(values.shape[1] - 1, 1)


def _orthogonality(reached: Tensor, places: Tensor) -> Tensor:
    """mean_{j != i} (B_i' B_j)^2 - 2 B_i' B_i at rows of these places, `[K]`."""
    product = reached[places] @ reached.t()
    return _of_others(product.square(), places) - 2 * product[torch.arange(len(places)), places]


@dataclass(frozen=True)
class _OfRecords(Objective):
    """A loss of recorded rows: the mean over them. A row's part reads the others of its mini-batch by itself."""

    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False
    learns_from_rows: ClassVar[bool] = True

    def _mean(self, value: Tensor, batch: Batch, metrics: Mapping[str, Tensor]) -> Terms:
        occurrences = batch.occurrences
        weight = occurrences.weight.to(value.dtype)
        return Terms(value[occurrences.decision], weight / weight.count_nonzero().clamp(min=1), metrics=metrics)


@dataclass(frozen=True)
class OccupancyLoss(_OfRecords):
    """Minimises the loss of F and B, with that of the orthogonality of B; see the module.

    Attributes:
        orthogonality: its coefficient.
    """

    orthogonality: float = 10.0

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.DYNAMICS})

    def __post_init__(self) -> None:
        if self.orthogonality < 0:
            raise ValueError(f"orthogonality must be at least 0, not {self.orthogonality}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        visits, spread = now.get(Quantity.DYNAMICS).unbind(1)
        metrics = {"maps/visits": visits.detach().mean(), "maps/orthogonality": spread.detach().mean()}
        return self._mean(visits + self.orthogonality * spread, batch, metrics)


@dataclass(frozen=True)
class WeightedDenoising(_OfRecords):
    """Minimises min(exp(beta (Q_z - V_z)), most) times the squared error of the predicted noise.

    Attributes:
        beta: how much better actions count. most: the largest weight.
    """

    beta: float = 0.05
    most: float = 100.0

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.DENOISING, Quantity.STATE_VALUE})

    def __post_init__(self) -> None:
        if self.beta < 0 or not self.most > 0:
            raise ValueError(f"beta must be at least 0 and most positive, not {self.beta} and {self.most}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        value, best = now.get(Quantity.STATE_VALUE).detach().unbind(1)
        weight = (self.beta * (best - value)).exp().clamp(max=self.most)
        return self._mean(weight * now.get(Quantity.DENOISING), batch, {"actor/weight": weight.mean()})


BREEZE = BC.but(
    name="breeze",
    title="Zero-shot control: forward-backward representations with in-sample values and a denoiser",
    source="Towards Robust Zero-Shot Reinforcement Learning, Zheng et al., arXiv:2510.15382; the authors' code",
    family="actor-critic",
    catalogue_ids=("breeze",),
    axes=("policy", "objective", "data"),
    formula="L = sum_k 1/2 mean_{j != i} (F_k(s_i, a_i, z_i)' B(s'_j) - gamma min_k F-_k(s'_i, a'_i, z_i)' B-(s'_j))^2 "
    "- F_k(s_i, a_i, z_i)' B(s'_i) + 10 (mean_{j != i} (B_i' B_j)^2 - 2 B_i' B_i) + omega / 2 sum_k (Q_k - "
    "B(s')' C^-1 z - gamma V_z(s'))^2 + |tau - 1(Q < V)| (Q - V_z)^2 + min(exp(beta (Q - V)), 100) "
    "|eps - eps_t(s, a_t, z)|^2,  Q_k = F_k' z, Q = min_k Q_k, z = sqrt(d) E[r B] / |E[r B]|",
    conventions={
        **BC.conventions,
        "tasks": "half are random directions and half B of another row, all of length sqrt(d); d is 32, and 50 in the "
        "authors' code",
        "C": "of the mini-batch, with 1e-4 more on its diagonal",
        "constants": "tau 0.99, omega 0.001, beta 0.05, 64 samples in play, as in the authors' code",
        "the action that follows": "the best of 3 samples of the policy; the authors take 1 to 9, and in some "
        "settings a recorded one for a tenth of rows",
        "networks": "F attends between two tokens once, where the authors' does twice with norms and dropout; B is a "
        "perceptron, where the authors' is a transformer of one token, which has nothing to attend to",
        "slow copies": "of F and B, rate 0.01; the authors' denoiser has one, too, which acts",
        "rate": "0.001 for thousands of gradients; the authors' is 0.0001, for a million",
        "log-probs": "none are recorded, for what is chosen has no density",
    },
    note="a point in a room and records of our own stand in for ExORL and D4RL Kitchen",
    task="goals:point",
    store=Transitions(gradients_per_step=500, begin=1, rows=256, noises=33, gamma=0.9),
    objective=CriticLoss(ForwardBackward(), coefficient=0.0005),
    regularisers=(OccupancyLoss(), ExpectileLoss(tau=0.99), WeightedDenoising()),
    update=FollowingStep(lr=1e-3, clip_norm=None, rate=0.01),
)
