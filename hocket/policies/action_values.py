"""Action values of control policies: critics of state and action, their slow copies, and a temperature.

Objectives ask for these parts, and read the quantities `ACTION_VALUE`, `BACKUP`, `PATHWISE` and `TEMPERATURE`. Backups
move with the slow copies, so they are computed for every mini-batch, never in credit. One backward pass serves all
parts: the critics' weights are constants in the actor's loss, and so all parts step at the same time.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.stored_rows import ALLOWED_THEN, FOLLOWING, GOES_ON, NOISE, PAID
from hocket.policies.control_heads import NEVER, DiagonalGaussian, Head
from hocket.policies.control_networks import ACTIVATIONS
from hocket.policies.control_parts import ActionForm, ControlPart, EvaluatedRows, Links, PartHost
from hocket.policies.value_heads import Greedy, NoisyAction, SquashedGaussian, UniformBox
from hocket.types import Quantity


class Critics(nn.Module):
    """K perceptrons as one stack of matrices: `[B, I]` to `[B, K]`, for one output each.

    Initial weights are uniform within one over the root of the inputs, as in `torch.nn.Linear`.
    """

    def __init__(self, count: int, sizes: Sequence[int], *, activation: str, key: Key) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for layer, (narrow, wide) in enumerate(itertools.pairwise(sizes)):
            bound, generator = 1 / math.sqrt(narrow), key.derive("layer", layer).torch()
            for held, shape in ((self.weights, (count, narrow, wide)), (self.biases, (count, 1, wide))):
                held.append(nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator)))

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Values `[B, K]`; `frozen` takes the weights as constants."""
        return self.outputs(x, frozen=frozen).squeeze(-1).t()

    def outputs(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """What each gives, `[K, B, outputs]`."""
        weights, biases = (cast(dict[str, Tensor], held._parameters).values() for held in (self.weights, self.biases))
        layers = list(zip(weights, biases, strict=True))
        if frozen:
            layers = [(weight.detach(), bias.detach()) for weight, bias in layers]
        x = x.expand(layers[0][0].shape[0], *x.shape)
        for weight, bias in layers[:-1]:
            x = self.activation(torch.baddbmm(bias, x, weight))
        return torch.baddbmm(layers[-1][1], x, layers[-1][0])


class Temperature(nn.Module):
    """A positive number, by its logarithm."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(math.log(value)))


class Explorer(nn.Module):
    """A network that counts the decisions its policy has made, for exploration that ends."""

    decisions: Tensor

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("decisions", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)  # type: ignore[no-any-return]


class ValuePart(ControlPart):
    """What parts with action values share: an actor that explores, slow copies, and rows that a store has drawn."""

    advice: ClassVar[str] = "use a recipe of policy gradients, such as ppo"
    slow: ClassVar[Mapping[str, str]] = {}
    """By module of a slow copy, the module that it follows."""

    def _check(self, host: PartHost, *, discrete: bool) -> None:
        """Raises an error for a policy whose actions or body do not go with action values."""
        if host.discrete != discrete or host.action_form is not None:
            kind = (
                "vectors" if not host.discrete else "several choices" if host.action_form else "one of several choices"
            )
            instead = "sac, td3 or ddpg" if not host.discrete else "ppo" if host.action_form else "dqn"
            needs = "a value for each of several choices" if discrete else "actions that are vectors of real numbers"
            raise ConfigurationError(
                f"policy {host.name!r}: this recipe needs {needs}, and the task's actions are {kind}; use {instead}"
            )
        if host.network.remembers:
            raise ConfigurationError(
                f"network.body = {host.network.body} remembers what was seen before, and single rows of a store have "
                "no before; use perceptron, or ppo"
            )

    def observe(self, host: PartHost, batch: Batch, mine: Tensor) -> None:
        actor = host.module.actor
        if isinstance(actor, Explorer):
            actor.decisions += len(mine)


def slow_copy(module: nn.Module) -> nn.Module:
    """A copy that no gradient trains."""
    return copy.deepcopy(module).requires_grad_(False)


# ---------------------------------------------------------------- one of several choices


@dataclass(frozen=True)
class Choosing:
    """The form of actions that are chosen by their values, epsilon-greedily."""

    choices: int
    duelling: bool
    first: float
    last: float
    over: int

    draws: ClassVar[int] = 1

    def actor(self, link: Links) -> nn.Module:
        return Explorer(link(self.choices + self.duelling, "actor", 0))

    def epsilon(self, actor: Explorer) -> Tensor:
        """The present share of random choices."""
        progress = (actor.decisions / self.over).clamp(max=1.0)
        return self.first + (self.last - self.first) * progress

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> Greedy:
        return Greedy.of(self.values(outputs), float(self.epsilon(cast(Explorer, actor))), allowed)

    def values(self, outputs: Tensor) -> Tensor:
        """Action values `[B, A]`."""
        if not self.duelling:
            return outputs
        advantage = outputs[:, 1:]
        return outputs[:, :1] + advantage - advantage.mean(1, keepdim=True)

    def config(self) -> Mapping[str, Any]:
        return {"duelling": self.duelling}


@dataclass(frozen=True)
class ChoiceValues(ValuePart):
    """The actor's outputs are action values, which are acted on epsilon-greedily: DQN.

    Attributes:
        double: the backup takes the value of the action that the learnt network prefers (Double DQN).
        duelling: outputs are a state's value and the advantages of actions, less their mean.
        first, last, over: epsilon falls from `first` to `last` in a line over so many decisions.
    """

    double: bool = True
    duelling: bool = False
    first: float = 1.0
    last: float = 0.05
    over: int = 5000

    needed: ClassVar[str] = "a value for each of several choices"
    groups: ClassVar[Mapping[str, str]] = {"slow": "slow"}
    slow: ClassVar[Mapping[str, str]] = {"slow": "actor"}
    quantities: ClassVar[frozenset[Quantity]] = frozenset({Quantity.ACTION_VALUE, Quantity.BACKUP})

    def begin(self, host: PartHost) -> None:
        self._check(host, discrete=True)
        host.action_form = Choosing(host.actions, self.duelling, self.first, self.last, self.over)
        host.remake_actor()
        host.module.slow = slow_copy(host.module.actor)

    def evaluated(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        head = cast(Greedy, rows.head)
        quantities: dict[Quantity, Tensor] = {}
        if Quantity.ACTION_VALUE in wanted:
            quantities[Quantity.ACTION_VALUE] = head.values.gather(1, rows.action.long()[:, None])
        if Quantity.BACKUP in wanted:
            with torch.no_grad():
                quantities[Quantity.BACKUP] = backed_up(rows, self.best(host, rows))
        return quantities

    def best(self, host: PartHost, rows: EvaluatedRows) -> Tensor:
        """The slow value of the best action in the state that follows, `[K]`."""
        form = cast(Choosing, host.action_form)
        later = following(host, rows)
        values = form.values(cast(nn.Module, host.module.slow)(later))
        choice = form.values(host.module.actor(later)) if self.double else values
        if ALLOWED_THEN.name in rows.batch.annotations:
            choice = choice.masked_fill(~rows.column(ALLOWED_THEN), NEVER)
        return values.gather(1, choice.argmax(1, keepdim=True)).squeeze(1)


def following(host: PartHost, rows: EvaluatedRows) -> Tensor:
    """What is observed after the rows, as networks read it."""
    return host.as_read(rows.column(FOLLOWING)[:, : host.observations])


def backed_up(rows: EvaluatedRows, value: Tensor) -> Tensor:
    """`paid + goes_on * value`, `[K]`."""
    return rows.column(PAID) + rows.column(GOES_ON) * value


# ---------------------------------------------------------------- vectors


@dataclass(frozen=True)
class _Vectors:
    """The form of actions that are vectors, with a head of `make`."""

    size: int
    outputs: int
    random: int
    make: Callable[[Tensor], Head]
    named: str

    @property
    def draws(self) -> int:
        return self.size

    def actor(self, link: Links) -> nn.Module:
        return Explorer(link(self.outputs, "actor", 0))

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> Head:
        head = self.make(outputs)
        return UniformBox(head.mode()) if float(cast(Explorer, actor).decisions) < self.random else head

    def config(self) -> Mapping[str, Any]:
        return {"head": self.named}


@dataclass(frozen=True)
class VectorValues(ValuePart):
    """Critics of state and action beside an actor whose actions are vectors in [-1, 1].

    Actions beyond the range are clipped as environments do, before a critic reads them.

    Attributes:
        ensemble: how many critics. random: the first decisions are uniform in the range.
    """

    ensemble: int = 2
    random: int = 100

    needed: ClassVar[str] = "critics of state and action"
    groups: ClassVar[Mapping[str, str]] = {"critics": "critics", "slow": "slow"}
    slow: ClassVar[Mapping[str, str]] = {"slow": "critics"}

    def begin(self, host: PartHost) -> None:
        self._check(host, discrete=False)
        host.module.log_std = None
        sizes = (host.observations + host.actions, *host.hidden, 1)
        made = Critics(self.ensemble, sizes, activation=host.network.activation, key=host.key.derive("critics"))
        host.module.critics = made
        host.module.slow = slow_copy(made)
        host.action_form = self._form(host)
        host.remake_actor()

    def _form(self, host: PartHost) -> ActionForm:
        """The form of actions; the critics are there."""
        raise NotImplementedError

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {"action_values": self.ensemble}

    def evaluated(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        quantities: dict[Quantity, Tensor] = {}
        if Quantity.ACTION_VALUE in wanted:
            quantities[Quantity.ACTION_VALUE] = critics_of(host)(joined(rows.seen, rows.action))
        if Quantity.BACKUP in wanted:
            with torch.no_grad():
                quantities[Quantity.BACKUP] = self._backup(host, rows)
        return {**quantities, **self._of_actor(host, wanted, rows)}

    def _backup(self, host: PartHost, rows: EvaluatedRows) -> Tensor:
        raise NotImplementedError

    def _of_actor(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        raise NotImplementedError


def critics_of(host: PartHost, name: str = "critics") -> Critics:
    """The critics, or their slow copy `slow`."""
    return cast(Critics, getattr(host.module, name))


def joined(seen: Tensor, action: Tensor) -> Tensor:
    """What critics read, `[K, O + A]`."""
    return torch.cat([seen, action.to(seen.dtype).clamp(-1.0, 1.0)], 1)


@dataclass(frozen=True)
class SoftValues(VectorValues):
    """A squashed Gaussian, whose value counts its entropy: SAC.

    Attributes:
        temperature: of the entropy, at first. learnt: whether it is trained towards `target_entropy`, in nats; None is
            minus the dimensions of the action.
    """

    temperature: float = 1.0
    learnt: bool = True
    target_entropy: float | None = None

    groups: ClassVar[Mapping[str, str]] = {**VectorValues.groups, "temperature": "temperature"}
    quantities: ClassVar[frozenset[Quantity]] = frozenset(
        {Quantity.ACTION_VALUE, Quantity.BACKUP, Quantity.PATHWISE, Quantity.TEMPERATURE}
    )

    def _form(self, host: PartHost) -> _Vectors:
        return _Vectors(host.actions, 2 * host.actions, self.random, SquashedGaussian.of, "squashed")

    def begin(self, host: PartHost) -> None:
        super().begin(host)
        host.module.temperature = Temperature(self.temperature).requires_grad_(self.learnt)

    def _alpha(self, host: PartHost) -> Tensor:
        return cast(Temperature, host.module.temperature).log

    def _backup(self, host: PartHost, rows: EvaluatedRows) -> Tensor:
        later = following(host, rows)
        action, logp = SquashedGaussian.of(host.module.actor(later)).reached(rows.column(NOISE)[:, 1])
        value = critics_of(host, "slow")(joined(later, action)).amin(1)
        return backed_up(rows, value - self._alpha(host).exp() * logp)

    def _of_actor(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        quantities: dict[Quantity, Tensor] = {}
        if not wanted & {Quantity.PATHWISE, Quantity.TEMPERATURE}:
            return quantities
        action, logp = SquashedGaussian.of(rows.outputs).reached(rows.column(NOISE)[:, 0])
        alpha = self._alpha(host)
        if Quantity.PATHWISE in wanted:
            value = critics_of(host)(joined(rows.seen, action), frozen=True).amin(1)
            quantities[Quantity.PATHWISE] = alpha.exp().detach() * logp - value
        if Quantity.TEMPERATURE in wanted:
            target = -float(host.actions) if self.target_entropy is None else self.target_entropy
            quantities[Quantity.TEMPERATURE] = -alpha * (logp.detach() + target)
        return quantities


@dataclass(frozen=True)
class ConservativeValues(SoftValues):
    """`SoftValues` whose critics also give a soft maximum over actions, which a loss can hold down: CQL.

    It is the logarithm of a sum over actions, estimated from `samples` uniform ones, as many of the policy, and as many
    of the policy in the state that follows, each divided by its density. The store's `noises` are 2 + 3 `samples`.

    Attributes:
        random: of recorded decisions none need to be uniform, so 0.
    """

    samples: int = 10
    random: int = 0

    quantities: ClassVar[frozenset[Quantity]] = SoftValues.quantities | {Quantity.CONSERVATIVE}

    def _of_actor(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        quantities = dict(super()._of_actor(host, wanted, rows))
        if Quantity.CONSERVATIVE in wanted:
            actions, density = self._drawn(host, rows)
            critics, count = critics_of(host), actions.shape[1]
            observed = rows.seen[:, None].expand(-1, count, -1).flatten(0, 1)
            values = critics(joined(observed, actions.flatten(0, 1))).reshape(len(rows.seen), count, -1)
            recorded = critics(joined(rows.seen, rows.action))
            quantities[Quantity.CONSERVATIVE] = (values - density[..., None]).logsumexp(1) - recorded
        return quantities

    @torch.no_grad()
    def _drawn(self, host: PartHost, rows: EvaluatedRows) -> tuple[Tensor, Tensor]:
        """Actions `[K, 3 samples, A]` and the logarithms of their densities `[K, 3 samples]`."""
        noise = rows.column(NOISE)[:, 2:]
        if noise.shape[1] != 3 * self.samples:
            raise ConfigurationError(
                f"{self.samples} samples of this policy read {2 + 3 * self.samples} noises a row, and the store draws "
                f"{2 + noise.shape[1]}; set store.noises to {2 + 3 * self.samples}"
            )
        uniform, *others = torch.split(noise, self.samples, 1)
        drawn = [2 * torch.special.ndtr(uniform) - 1]
        density = [torch.full(uniform.shape[:2], -math.log(2.0) * host.actions, dtype=noise.dtype)]
        for outputs, normal in zip((rows.outputs, host.module.actor(following(host, rows))), others, strict=True):
            repeated = outputs.repeat_interleave(self.samples, 0)
            action, logp = SquashedGaussian.of(repeated).reached(normal.flatten(0, 1))
            drawn.append(action.reshape(uniform.shape))
            density.append(logp.reshape(uniform.shape[:2]))
        return torch.cat(drawn, 1), torch.cat(density, 1)


@dataclass(frozen=True)
class DeterministicValues(VectorValues):
    """A deterministic actor, that acts with noise: DDPG, and TD3 with two critics and noise in the backup.

    Attributes:
        noise: the deviation of what is acted, in units of half an action's range. smoothing: that of the backup's
            action, cut off at `cutoff`; 0 takes the slow actor's own.
    """

    noise: float = 0.1
    smoothing: float = 0.2
    cutoff: float = 0.5

    groups: ClassVar[Mapping[str, str]] = {**VectorValues.groups, "slow_actor": "slow_actor"}
    slow: ClassVar[Mapping[str, str]] = {**VectorValues.slow, "slow_actor": "actor"}
    quantities: ClassVar[frozenset[Quantity]] = frozenset({Quantity.ACTION_VALUE, Quantity.BACKUP, Quantity.PATHWISE})

    def _form(self, host: PartHost) -> _Vectors:
        return _Vectors(
            host.actions, host.actions, self.random, lambda out: NoisyAction.of(out, self.noise), "deterministic"
        )

    def begin(self, host: PartHost) -> None:
        super().begin(host)
        host.module.slow_actor = slow_copy(host.module.actor)

    def _backup(self, host: PartHost, rows: EvaluatedRows) -> Tensor:
        later = following(host, rows)
        action = torch.tanh(cast(nn.Module, host.module.slow_actor)(later))
        if self.smoothing:
            action = action + (self.smoothing * rows.column(NOISE)[:, 1]).clamp(-self.cutoff, self.cutoff)
        return backed_up(rows, critics_of(host, "slow")(joined(later, action)).amin(1))

    def _of_actor(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        if Quantity.PATHWISE not in wanted:
            return {}
        action = torch.tanh(rows.outputs)
        return {Quantity.PATHWISE: -critics_of(host)(joined(rows.seen, action), frozen=True)[:, 0]}


@dataclass(frozen=True)
class ImplicitValues(VectorValues):
    """A Gaussian whose mean is within the range, and a value of the state beside the critics, which they back up: IQL.

    Attributes:
        random: of recorded decisions none need to be uniform, so 0.
    """

    random: int = 0

    groups: ClassVar[Mapping[str, str]] = {**VectorValues.groups, "state_value": "state_value"}
    quantities: ClassVar[frozenset[Quantity]] = frozenset(
        {Quantity.ACTION_VALUE, Quantity.BACKUP, Quantity.STATE_VALUE}
    )

    def _form(self, host: PartHost) -> _Vectors:
        return _Vectors(host.actions, 2 * host.actions, self.random, _within_range, "gaussian")

    def begin(self, host: PartHost) -> None:
        super().begin(host)
        sizes, key = (host.observations, *host.hidden, 1), host.key.derive("state value")
        host.module.state_value = Critics(1, sizes, activation=host.network.activation, key=key)

    def _backup(self, host: PartHost, rows: EvaluatedRows) -> Tensor:
        return backed_up(rows, critics_of(host, "state_value")(following(host, rows))[:, 0])

    def _of_actor(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        if Quantity.STATE_VALUE not in wanted:
            return {}
        with torch.no_grad():
            best = critics_of(host, "slow")(joined(rows.seen, rows.action)).amin(1)
        value = critics_of(host, "state_value")(rows.seen)[:, 0]
        return {Quantity.STATE_VALUE: torch.stack([value, best], 1)}


def _within_range(outputs: Tensor) -> DiagonalGaussian:
    """A Gaussian of an actor's outputs `[B, 2 A]`, its mean within [-1, 1]."""
    mean, log_std = outputs.chunk(2, -1)
    return DiagonalGaussian(torch.tanh(mean), log_std.clamp(-5.0, 2.0))
