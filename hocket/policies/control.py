"""Small networks that control: the same `Policy` protocol as language models, over observation vectors.

The batch's `observation[u]` holds the observations `[L, O]` before each of turn u's L decisions.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.evaluating import policy_decisions
from hocket.core.keys import Key
from hocket.policies.beliefs import belief_outputs
from hocket.policies.control_bodies import Carrying
from hocket.policies.control_central import JointState
from hocket.policies.control_choices import Choices
from hocket.policies.control_factory import Sight, made
from hocket.policies.control_heads import NEVER, Categorical, DiagonalGaussian, Head
from hocket.policies.control_networks import ActorCritic, Normaliser, reader
from hocket.policies.control_parts import ActionForm, ControlPart, EvaluatedRows, NetworkRequest
from hocket.policies.control_pointer import Pointers
from hocket.policies.settings import NetworkSettings, other_network
from hocket.policies.spaces import Spaces
from hocket.policies.turns import at_ends, before, of_whole_turns, sequences
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_ROWS = 32768
"""Decisions in one forward and backward pass: at 64 hidden units some 50 MB of activations."""
_FIRST_LOG_STD = -0.5
"""Initial log standard deviation, in units of half an action's range."""


class ControlPolicy:
    """An actor and, once `require`d, a separate critic: networks whose body `network.body` says.

    Discrete actions are categorical, `[L]` long. Continuous ones are a diagonal Gaussian in units where an action's
    range is [-1, 1], `[L, A]` float32, recorded before any clipping, so that log-probs are exact. Actions that the
    environment forbids have probability 0, in the sample and in every log-prob, entropy and KL of that decision.

    Stages bring further parts, which are `attached`: a critic of the joint state, a belief of what was seen (see
    `hocket.policies.control_parts`). Worlds bring forms of actions and of sight that networks of their own read.

    A recurrent body carries a state along the decisions of a turn, from 0; who samples holds it (`carries`, `sample`),
    and learning computes it anew from each turn's beginning, so mini-batches are of whole trajectories.

    With `network.normalise` the networks read what they see less its running mean over its running deviation. Both are
    of all decisions learnt from so far and change by `observe` alone, after an update: a batch is learnt from with the
    numbers that it was sampled with. They are weights like others: saved, copied, and sent with them. Without it,
    pictures are read scaled by their `ranges`, unless the policy was saved before that was so.
    """

    default_lr = 1e-3
    twice_differentiable = True

    def __init__(
        self,
        spaces: Spaces,
        *,
        key: Key,
        hidden: Sequence[int] | None = None,
        name: str = "policy",
        network: NetworkSettings | None = None,
    ) -> None:
        self.name = name
        self.network = network or NetworkSettings()
        self.version = 0
        self.observations, self.actions, self.discrete = spaces.observations, spaces.actions, spaces.discrete
        self.hidden = tuple(self.network.hidden if hidden is None else hidden)
        self.spaces = spaces
        self.joint: int = getattr(spaces, "joint", 0)
        self.action_form: ActionForm | None = getattr(spaces, "action_form", None)
        if choices := getattr(spaces, "choices", ()):
            self.action_form = Choices(tuple(choices))
        self.sight = Sight.of(spaces)
        if self.sight.slots is not None and self.sight.slots.pointers > 1:
            self.action_form = Pointers((self.sight.slots.count,) * self.sight.slots.pointers)
        self.attached: tuple[ControlPart, ...] = ()
        self.key = key
        log_std = None if self.discrete else torch.full((self.actions,), _FIRST_LOG_STD)
        self.device = torch.device("cpu")
        self._module = ActorCritic(self._actor(), log_std)
        self._module.seen = reader(self.observations, getattr(spaces, "ranges", ()), normalise=self.network.normalise)
        self._cache: dict[str, tuple[object, Tensor]] = {}

    @classmethod
    def for_task(cls, task: Spaces, *, key: Key, name: str = "policy", network: NetworkSettings | None = None) -> Self:
        """A fresh policy for a task's spaces, its weights drawn from `key`."""
        return cls(task, key=key, name=name, network=network)

    def move(self, device: torch.device) -> None:
        """Has the networks compute on a device from now on.

        Raises:
            ConfigurationError: where a part, or a form of actions or sight, computes on the processor.
        """
        forms = (*self.attached, self.action_form, self.sight.form, "its memory" if self.carries else None)
        part = next((form for form in forms if form is not None), None)
        if device.type != "cpu" and part is not None:
            name = part if isinstance(part, str) else type(part).__name__
            raise ConfigurationError(f"policy {self.name!r}: {name} computes on the processor; use --device cpu")
        self.device = device
        self._module.to(device)
        self._cache.clear()

    def _network(self, outputs: int, purpose: str, gain: float, more: int = 0) -> nn.Module:
        offset = sum(part.before(self) for part in self.attached) if purpose == "critic" else 0
        inputs = offset + self.observations + sum(part.behind(self) for part in self.attached) + more
        wanted = NetworkRequest(inputs, outputs, offset, purpose == "actor", gain)
        return made(self.network, self.hidden, self.sight, wanted, self.key.derive(purpose)).to(self.device)

    def _actor(self) -> nn.Module:
        """A network with an output for every choice, or what the form of actions says."""
        if self.action_form is None:
            return self._network(self.actions, "actor", 0.01)
        return self.action_form.actor(lambda outputs, purpose, more: self._network(outputs, purpose, 0.01, more))

    def remake_actor(self) -> None:
        """Draws the actor anew, as it is now to be."""
        self._module.actor = self._actor()

    @property
    def densities(self) -> bool:
        """Whether actions have log-probs; those that a critic chose among samples have none."""
        return getattr(self.action_form, "densities", True)

    @property
    def recurrent(self) -> bool:
        """Whether what it decides depends on what was seen before."""
        return self.network.remembers or any(part.recurrent for part in self.attached)

    @property
    def granularity(self) -> Level:
        """Observations are whole, so any decisions may share a mini-batch, unless something is carried along them."""
        return Level.TRAJECTORY if self.recurrent else Level.DECISION

    @property
    def carries(self) -> int:
        """Numbers carried from decision to decision; 0 where each depends on what is seen then alone."""
        return self._own + sum(part.carries(self) for part in self.attached)

    @property
    def _own(self) -> int:
        """What the actor's own body carries."""
        return self._module.actor.carries if isinstance(self._module.actor, Carrying) else 0

    @property
    def module(self) -> ActorCritic:
        return self._module

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """The weights by part: `actor`, and `critic` and what else is attached; see `hocket.update.parts`."""
        critic = [weight for name in self._critics for weight in self._weights(name)]
        groups = {name: self._weights(held) for part in self.attached for name, held in part.groups.items()}
        others = {id(weight) for weight in (*critic, *(weight for group in groups.values() for weight in group))}
        parts = {"actor": [weight for weight in self._module.parameters() if id(weight) not in others]}
        return {**parts, **({"critic": critic} if critic else {}), **groups}

    def slow_parts(self) -> dict[str, tuple[list[nn.Parameter], list[nn.Parameter]]]:
        """By name the weights of every slow copy, and those that it follows; see `hocket.update.following`."""
        pairs = {slow: learnt for part in self.attached for slow, learnt in part.slow.items()}
        return {slow: (self._weights(slow), self._weights(learnt)) for slow, learnt in pairs.items()}

    @property
    def _critics(self) -> tuple[str, ...]:
        """The names of the modules that values alone need."""
        return ("critic", *(name for part in self.attached for name in part.critics))

    def _weights(self, name: str) -> list[nn.Parameter]:
        module: nn.Module | None = getattr(self._module, name, None)
        return [] if module is None else list(module.parameters())

    def require(self, needs: frozenset[Quantity]) -> None:
        """Adds the critic, and those of attached parts, when a value is needed."""
        if Quantity.VALUE in needs and self._module.critic is None:
            self._module.critic = self._network(1, "critic", 1.0)
            for part in self.attached:
                part.add_critics(self)

    def attach(self, part: ControlPart) -> None:
        """Adds a part; nothing where it is there.

        Raises:
            ConfigurationError: where it does not go with what this policy reads, does or has.
        """
        if part in self.attached:
            return
        if self.device.type != "cpu":
            raise ConfigurationError(
                f"policy {self.name!r}: {type(part).__name__} computes on the processor; use --device cpu"
            )
        part.begin(self)
        self.attached = (*self.attached, part)
        if part.behind(self):
            self.remake_actor()

    def centralise(self) -> None:
        """Lets the critic that `require` will add read the joint state beside the observation.

        Raises:
            ConfigurationError: where there is no joint state, or a critic without it.
        """
        self.attach(JointState())

    # ------------------------------------------------------------ acting

    @property
    def draws(self) -> int:
        """Uniforms per decision."""
        if self.action_form is not None:
            return self.action_form.draws
        return 1 if self.discrete else self.actions

    def sample(
        self,
        observations: NDArray[np.float32],
        uniforms: NDArray[np.float64],
        temperature: NDArray[np.float32],
        allowed: NDArray[np.bool_] | None = None,
        carried: NDArray[np.float32] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Acts in B states: actions `[B]` or `[B, A]`, `[B, parts]` where they have parts, and their log-probs `[B]`.

        `observations` `[B, O]`, `uniforms` `[B, draws]`, `temperature` `[B]`, where 0 takes the mode (log-probs are
        then those at temperature 1); `allowed` `[B, A]`, some in every row, keeps discrete actions to a set. What is
        `carried` `[B, carries]`, 0 before an episode's first decision, is replaced by what is carried on. Row i depends
        on row i alone, for a given B.
        """
        greedy = temperature == 0
        with torch.inference_mode():
            plain = bool((temperature == 1).all())
            action, logp = self.act(
                self._here(observations),
                self._here(uniforms),
                allowed=None if allowed is None else self._here(allowed),
                carried=carried,
                temperature=None if plain else self._here(np.where(greedy, np.float32(1), temperature)),
                greedy=self._here(greedy) if greedy.any() else None,
            )
        return action.cpu().numpy(), logp.cpu().numpy()

    def _here(self, rows: NDArray[Any]) -> Tensor:
        """Numbers where the networks are."""
        held = torch.from_numpy(rows)
        if self.device.type == "cuda":
            return held.pin_memory().to(self.device, non_blocking=True)
        return held.to(self.device)

    def act(
        self,
        observations: Tensor,
        uniforms: Tensor,
        *,
        allowed: Tensor | None = None,
        carried: NDArray[np.float32] | None = None,
        temperature: Tensor | None = None,
        greedy: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """`sample` of tensors on the policy's device, which is not waited for.

        `temperature` `[B]` is above 0, and None where all are 1; rows that are `greedy` `[B]` take the mode.
        """
        head = self._head(self._acting(self.as_read(observations), carried), allowed)
        if temperature is not None:
            head = head.tempered(temperature)
        action = head.draw(uniforms)
        if greedy is not None:
            action = torch.where(greedy if action.dim() == 1 else greedy[:, None], head.mode(), action)
        if carried is not None:
            for part, held in self._carried(carried):
                part.acted(self, action, held)
        return action, head.logp(action)

    def _acting(self, inputs: Tensor, carried: NDArray[np.float32] | None) -> Tensor:
        """The actor's outputs; `carried` is changed in place."""
        actor = self._module.actor
        if carried is None:
            if self.carries:
                raise ValueError(f"policy {self.name!r} remembers: give what it carries")
            carried = np.zeros((len(inputs), 0), np.float32)
        for part, held in self._carried(carried):
            inputs, state = part.step(self, inputs, torch.from_numpy(held))
            held[:] = state.numpy()
        if not isinstance(actor, Carrying):
            return actor(inputs)  # type: ignore[no-any-return]
        outputs, state = actor.step(inputs, torch.from_numpy(carried[:, : self._own]))
        carried[:, : self._own] = state.numpy()
        return outputs

    def _carried(self, carried: NDArray[np.float32]) -> Iterable[tuple[ControlPart, NDArray[np.float32]]]:
        """Each part with what it carries, a view."""
        end = self._own
        for part in self.attached:
            start, end = end, end + part.carries(self)
            yield part, carried[:, start:end]

    @property
    def reads_rewards(self) -> bool:
        """Whether `paid` must be called after every decision."""
        return any(part.reads_rewards for part in self.attached)

    def paid(self, rewards: NDArray[np.float64], carried: NDArray[np.float32]) -> None:
        """Lets the parts that read rewards change what is carried; `rewards` `[B]` are of the last decision."""
        for part, held in self._carried(carried):
            part.paid(self, rewards, held)

    def as_read(self, observations: Tensor) -> Tensor:
        """Observations as the networks read them: scaled, or normalised."""
        return observations if self._module.seen is None else self._module.seen(observations)

    def _head(self, outputs: Tensor, allowed: Tensor | None = None, taken: Tensor | None = None) -> Head:
        """The distribution; `taken` are the actions along which some forms of actions measure it."""
        if self.action_form is not None:
            return self.action_form.head(outputs, self._module.actor, allowed, taken)
        if self._module.log_std is None:
            return Categorical(outputs if allowed is None else outputs.masked_fill(~allowed, NEVER))
        return DiagonalGaussian(outputs, self._module.log_std.expand_as(outputs))

    # ------------------------------------------------------------ learning

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        if self.recurrent and len(decisions) > _ROWS:
            return of_whole_turns(batch.turn[decisions], decisions, _ROWS)
        return [decisions[start : start + _ROWS] for start in range(0, len(decisions), _ROWS)]

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        """See `Policy.evaluate`.

        Raises:
            ValueError: for `VALUE` before `require`, and for `KL_EXACT` without a `ControlPolicy` as reference.
        """
        wanted, size, dealt = frozenset(needs), batch.decisions, batch
        every = torch.arange(size)
        places = chosen = every if decisions is None else decisions
        complete = torch.equal(places, every)
        action = (batch.action if complete else batch.action[places]).to(self.device)
        if (taken := batch.taken) is not None:
            batch, chosen = taken.whole, taken.decision if complete else taken.decision[places]
        allowed = self._allowed(batch, chosen)
        outputs = self._along(self._module.actor, batch, chosen)
        head = self._decided(batch, chosen, allowed, outputs)

        def scattered(values: Tensor) -> Tensor:
            values = values.cpu()  # Batches are on the processor.
            return values if complete else values.new_zeros(size, *values.shape[1:]).index_put((places,), values)

        value = scattered(self._values(batch, chosen)) if Quantity.VALUE in wanted else None
        kl = None
        if Quantity.KL_EXACT in wanted:
            if not isinstance(reference, ControlPolicy):
                raise ValueError("an exact KL needs a ControlPolicy as reference")
            with torch.no_grad():
                other: Any = reference._decided(batch, chosen, allowed)
            kl = scattered(head.kl(other))
        more = dict[str, Tensor]()
        for part in self.attached:
            if wanted & part.quantities:
                inputs = self._read(batch, chosen, critic=False)
                rows = EvaluatedRows(dealt, places, inputs, outputs, head, action)
                more |= {name.value: scattered(values) for name, values in part.evaluated(self, wanted, rows).items()}
        return Evaluation(
            logp=scattered(head.logp(action)),
            entropy=scattered(head.entropy()) if Quantity.ENTROPY in wanted else None,
            value=value,
            kl_exact=kl,
            belief=belief_outputs(self, batch, chosen) if Quantity.BELIEF in wanted else None,
            **more,
        )

    def _decided(self, batch: Batch, chosen: Tensor, allowed: Tensor | None, outputs: Tensor | None = None) -> Head:
        """The distributions that the chosen decisions were drawn from, as they are now, by the actor's `outputs`."""
        if outputs is None:
            outputs = self._along(self._module.actor, batch, chosen)
        head = self._head(outputs, allowed, None if self.action_form is None else batch.action[chosen])
        if batch.temperature is None or bool((batch.temperature == 1).all()):
            return head
        return head.tempered(batch.temperature[batch.turn[chosen]].to(outputs))

    def _along(self, network: nn.Module, batch: Batch, chosen: Tensor, *, critic: bool = False) -> Tensor:
        """What a network gives at the chosen decisions, `[K, outputs]`, from what it reads before each."""
        if not isinstance(network, Carrying):
            return network(self._read(batch, chosen, critic=critic))  # type: ignore[no-any-return]
        index, place = sequences(batch, chosen)
        rows = self._read(batch, index.flatten(), critic=critic).reshape(*index.shape, -1)
        return network(rows)[place]  # type: ignore[no-any-return]

    def _read(self, batch: Batch, chosen: Tensor, *, critic: bool) -> Tensor:
        """What actor or critic read before the chosen decisions, `[K, I]`: what is seen, and what parts join to it."""
        inputs = self.as_read(self.observed(batch)[chosen])
        for part in self.attached:
            inputs = part.read(self, batch, chosen, inputs, critic=critic)
        return inputs

    def _allowed(self, batch: Batch, chosen: Tensor) -> Tensor | None:
        """Which actions the chosen decisions were kept to, `[K, A]` bool; None where none was kept to any."""
        if not any(mask is not None for mask in batch.allowed):
            return None
        lengths = torch.bincount(batch.turn, minlength=batch.turns).tolist()
        rows = [
            mask if mask is not None and mask.shape == (length, self.actions) else np.ones((length, self.actions), bool)
            for mask, length in zip(batch.allowed, lengths, strict=True)
        ]
        return torch.from_numpy(np.concatenate(rows))[chosen].to(self.device)

    def _values(self, batch: Batch, chosen: Tensor) -> Tensor:
        values = self._along(self._critic, batch, chosen, critic=True).squeeze(-1)
        for part in self.attached:
            values = part.values(self, batch, chosen, values)
        return values

    @property
    def _critic(self) -> nn.Module:
        if self._module.critic is None:
            raise ValueError(f"policy {self.name!r} has no critic: call require({{Quantity.VALUE}}) first")
        return self._module.critic

    def cached(self, name: str, source: object, make: Callable[[], Tensor]) -> Tensor:
        """What `make` gives, made once for a `source` until weights or statistics change.

        Every mini-batch and epoch of a step shares the sequences of its batch, so they are joined once.
        """
        held = self._cache.get(name)
        if held is None or held[0] is not source:
            held = self._cache[name] = (source, make())
        return held[1]

    def observed(self, batch: Batch) -> Tensor:
        """The observation before each decision, `[T, O]`; 0 for turns of other shapes, which others decided."""
        return self.cached("observation", batch.observation, lambda: self._joined(batch))

    def _joined(self, batch: Batch) -> Tensor:
        lengths = torch.bincount(batch.turn, minlength=batch.turns).tolist()
        blank = np.zeros((max(lengths, default=0), self.observations), np.float32)
        rows = [
            numbers if numbers.shape == (length, self.observations) else blank[:length]
            for numbers, length in zip(batch.observation, lengths, strict=True)
        ]
        joined = np.concatenate([np.asarray(row, np.float32) for row in rows] or [blank])
        return torch.from_numpy(joined).to(self.device)

    def final_values(self, batch: Batch) -> Tensor:
        """Values of final states of trajectories cut short `[N]`, without gradient; 0 where the task itself ended."""
        values = torch.zeros(batch.trajectories)
        states = batch.final_state or [None] * batch.trajectories
        open_ended = (batch.truncated & ~batch.terminated).tolist()
        # A part of another shape is another policy's, whose critic reads it.
        sees = (self.observations,)
        rows = [
            row
            for row, state in enumerate(states)
            if open_ended[row] and state is not None and np.asarray(state).shape == sees
        ]
        if rows:
            last = self.as_read(self._here(np.stack([np.asarray(states[row], np.float32) for row in rows])))
            joined = last
            for part in self.attached:
                joined = part.read_last(self, batch, rows, last, joined)
            with torch.no_grad():
                ended = self._ended(batch, rows, joined)
            for part in self.attached:
                ended = part.last_values(self, ended)
            values[rows] = ended.cpu()
        return values

    def _ended(self, batch: Batch, rows: Sequence[int], final: Tensor) -> Tensor:
        """Values of what the critic reads last in these trajectories, `[R, I]`, after all that it read before."""
        critic = self._critic
        if not isinstance(critic, Carrying):
            return critic(final).squeeze(-1)  # type: ignore[no-any-return]
        earlier = (self._read(batch, path, critic=True) for path in before(batch, rows))
        ends = [torch.cat([read, end[None]]) for read, end in zip(earlier, final, strict=True)]
        return at_ends(critic, ends).squeeze(-1)

    def observe(self, batch: Batch) -> None:
        """Counts what this policy saw in a batch among what it normalises by, and lets attached parts do so.

        The learner calls it after an update.
        """
        self._cache.clear()
        scaler = self._module.seen
        if self.attached or isinstance(scaler, Normaliser):
            mine = policy_decisions(batch, self.name)
            for part in self.attached:
                part.observe(self, batch, mine)
            if isinstance(scaler, Normaliser):
                scaler.observe(self.observed(batch)[mine])

    # ------------------------------------------------------------ copies and files

    def frozen_copy(self) -> ControlPolicy:
        clone = copy.copy(self)
        clone._module = copy.deepcopy(self._module, {id(scaler): scaler for scaler in self._module.scalers})
        clone._module.requires_grad_(False)
        clone._cache = {}
        return clone

    def _sizes(self) -> dict[str, int]:
        """The sizes that weights depend on."""
        sizes: Mapping[str, int] | None = getattr(self.sight.form, "sizes", None)
        if sizes is not None:
            return dict(sizes)
        slots = self.sight.slots
        if self.network.body != "pointer" or slots is None:
            return {"observations": self.observations, "actions": self.actions}
        return {"own": self.observations - slots.count * slots.size, "row": slots.size, "pointers": slots.pointers}

    def _config(self) -> dict[str, Any]:
        return {
            **self._sizes(),
            "discrete": self.discrete,
            "hidden": list(self.hidden),
            **{name: value for part in self.attached for name, value in part.config(self).items()},
            **({} if self.action_form is None else self.action_form.config()),
            **({"normalise": True} if self.network.normalise else {}),
            **({"activation": self.network.activation} if self.network.activation != "tanh" else {}),
            **({"scaled": True} if self._module.scaled else {}),
            **({"body": self.network.body} if self.network.body != "perceptron" else {}),
            **({"window": self.network.window} if self.network.body == "attention" else {}),
            **({} if self.sight.form is None else self.sight.form.config()),
        }

    def save(self, folder: Path) -> None:
        """Writes `model.safetensors` (critic included, if there is one) and `config.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.detach().contiguous() for name, value in self._module.state_dict().items()}
        save_file(tensors, folder / WEIGHTS)
        (folder / CONFIG).write_text(json.dumps(self._config(), indent=2) + "\n")

    def _read_alike(self, stored: Any, config: Mapping[str, Any]) -> bool:
        """Whether a saved network differs in the number of rows that it is shown alone, on which no weight depends."""
        slots = self.sight.slots
        if slots is None or self.network.body not in ("sets", "equivariant") or not isinstance(stored, dict):
            return False
        shown = stored.get("observations")
        fits = isinstance(shown, int) and not (shown - self.observations) % slots.size
        return fits and {**stored, "observations": self.observations} == config

    def _check_sizes(self, tensors: Mapping[str, Tensor], folder: Path) -> None:
        """Refuses weights of other sizes than this network's.

        Raises:
            ConfigurationError: naming the first.
        """
        shapes = {name: weight.shape for name, weight in self._module.state_dict().items()}
        for name, weight in tensors.items():
            if name in shapes and weight.shape != shapes[name]:
                raise ConfigurationError(
                    f"{folder / WEIGHTS}: {name} has the shape {list(weight.shape)} (here {list(shapes[name])}), as "
                    "more than the number of rows differs between the two tasks; use one that shows all else alike "
                    "(ids=false)"
                )

    def load(self, folder: Path) -> None:
        """Reads what `save` wrote; a critic in the file is added here too.

        A network over rows (bodies `sets` and `equivariant`) may have been trained with another number of them.

        Raises:
            ConfigurationError: when a file is missing, damaged, or of a network of another shape.
        """
        try:
            stored = json.loads((folder / CONFIG).read_text())
            tensors = load_file(folder / WEIGHTS)
        except (OSError, ValueError, SafetensorError) as error:
            raise ConfigurationError(f"{folder} holds no readable controller: {error}") from error
        plain = isinstance(stored, dict) and "scaled" not in stored and self._module.read_plainly()
        config = self._config()
        if stored != config and not self._read_alike(stored, config):
            raise ConfigurationError(f"{folder / CONFIG} {other_network(stored, config)}")
        if any(name.startswith("critic.") for name in tensors):
            self.require(frozenset({Quantity.VALUE}))
        if stored != config and not plain:
            self._check_sizes(tensors, folder)
        absent = self._module.load_state_dict(tensors, strict=False).missing_keys
        self._cache.clear()
        anew: tuple[str, ...] = getattr(self.sight.form, "anew", ())
        spared = tuple(f"{name}." for name in (*self._critics, *(("seen", "whole") if plain else ()), *anew))
        if any(not name.startswith(spared) for name in absent):
            raise ConfigurationError(f"{folder / WEIGHTS} lacks {absent[0]}; the file is not a whole controller")
