"""Small networks that control: the same `Policy` protocol as language models, over observation vectors.

The batch's `observation[u]` holds the observations `[L, O]` before each of turn u's L decisions.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

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
from hocket.core.worlds import Factors, Ranges
from hocket.policies.beliefs import BeliefForm, Beliefs, Paths
from hocket.policies.control_bodies import Recurrent
from hocket.policies.control_factors import Chain, Parts
from hocket.policies.control_graphs import check_networks
from hocket.policies.control_heads import Categorical, DiagonalGaussian
from hocket.policies.control_made import Sight, Wanted, made
from hocket.policies.control_networks import ActorCritic, Normaliser, Perceptron, reader
from hocket.policies.settings import NetworkSettings, other_network
from hocket.policies.spaces import Spaces
from hocket.policies.turns import at_ends, before, of_whole_turns, sequences
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_ROWS = 32768
"""Decisions in one forward and backward pass: at 64 hidden units some 50 MB of activations."""
NEVER = -1e9
"""The logit of an action that is not allowed: its probability is 0 exactly, and no gradient passes."""
_FIRST_LOG_STD = -0.5
"""Initial log standard deviation, in units of half an action's range."""


class ControlPolicy:
    """An actor and, once `require`d, a separate critic: networks whose body `network.body` says.

    Discrete actions are categorical, `[L]` long. Continuous ones are a diagonal Gaussian in units where an action's
    range is [-1, 1], `[L, A]` float32, recorded before any clipping, so that log-probs are exact. Actions that the
    environment forbids have probability 0, in the sample and in every log-prob, entropy and KL of that decision.

    The critic reads the observation; a `central` one reads the joint state of all agents beside it, the agent-specific
    global state of Yu et al. (arXiv 2103.01955). What acts never sees the joint state.

    A recurrent body carries a state along the decisions of a turn, from 0; who samples holds it (`carries`, `sample`),
    and learning computes it anew from each turn's beginning, so mini-batches are of whole trajectories.

    A policy that `believe`s has a part that sums up what its agent has seen; actor and critic read that beside what is
    seen now, and learn nothing of it: see `hocket.policies.beliefs`.

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
        self.joint: int = getattr(spaces, "joint", 0)
        self.central = False
        self.post: int = getattr(spaces, "post", 0)
        self._after = getattr(spaces, "after", None)
        self.factors: Factors | None = getattr(spaces, "factors", None)
        self.chained = False
        self.foresees = False
        self.sight = Sight.of(spaces)
        if self.sight.layout is not None:
            check_networks(self.network)
        self._key = key
        self._form: BeliefForm | None = None
        self._believes = 0
        log_std = None if self.discrete else torch.full((self.actions,), _FIRST_LOG_STD)
        self._module = ActorCritic(self._actor(), log_std)
        self._joint_ranges: Ranges = getattr(spaces, "joint_ranges", ())
        self._module.seen = reader(self.observations, getattr(spaces, "ranges", ()), normalise=self.network.normalise)
        self._gathered: tuple[Sequence[NDArray[Any]], Tensor] | None = None
        self._gathered_joint: tuple[Sequence[NDArray[Any] | None], Tensor] | None = None
        self._believed: tuple[Sequence[NDArray[Any]], Tensor] | None = None

    @classmethod
    def for_task(cls, task: Spaces, *, key: Key, name: str = "policy", network: NetworkSettings | None = None) -> Self:
        """A fresh policy for a task's spaces, its weights drawn from `key`."""
        return cls(task, key=key, name=name, network=network)

    def _network(self, outputs: int, purpose: str, gain: float, more: int = 0) -> nn.Module:
        offset = self.joint if self.central and purpose == "critic" else 0
        inputs = offset + self.observations + self._believes + more
        wanted = Wanted(inputs, outputs, offset, purpose == "actor", gain)
        return made(self.network, self.hidden, self.sight, wanted, self._key.derive(purpose))

    def _actor(self) -> nn.Module:
        """A network with an output for every choice; of a chain one for each part, which reads the parts before."""
        if not self.chained or self.factors is None:
            return self._network(self.actions, "actor", 0.01)
        sizes, links = self.factors.sizes, list[nn.Module]()
        for part, size in enumerate(sizes):
            links.append(self._network(size, "actor" if part == 0 else f"part {part}", 0.01, sum(sizes[:part])))
        return Chain(links, sizes)

    @property
    def recurrent(self) -> bool:
        """Whether what it decides depends on what was seen before."""
        return self.network.body == "recurrent" or self._form is not None

    @property
    def _beliefs(self) -> Beliefs | None:
        return cast(Beliefs | None, self._module.beliefs)

    @property
    def granularity(self) -> Level:
        """Observations are whole, so any decisions may share a mini-batch, unless something is carried along them."""
        return Level.TRAJECTORY if self.recurrent else Level.DECISION

    @property
    def carries(self) -> int:
        """Numbers carried from decision to decision; 0 where each depends on what is seen then alone."""
        beliefs = self._beliefs
        return self._own + (0 if beliefs is None else beliefs.acting.carries)

    @property
    def _own(self) -> int:
        """What the actor's own body carries."""
        return self._module.actor.carries if isinstance(self._module.actor, Recurrent) else 0

    @property
    def module(self) -> ActorCritic:
        return self._module

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """The weights by part: `actor`, and `critic` and `belief` where there is one; see `hocket.update.parts`."""
        critics = (self._module.critic, self._module.after)
        critic = [weight for one in critics if one is not None for weight in one.parameters()]
        belief = [] if self._beliefs is None else list(self._beliefs.parameters())
        others = {id(weight) for weight in (*critic, *belief)}
        found = {"actor": [weight for weight in self._module.parameters() if id(weight) not in others]}
        return {**found, **({"critic": critic} if critic else {}), **({"belief": belief} if belief else {})}

    def require(self, needs: frozenset[Quantity]) -> None:
        """Adds the critic when a value is needed."""
        if Quantity.VALUE in needs and self._module.critic is None:
            self._module.critic = self._network(1, "critic", 1.0)
            if self.foresees:
                sizes = (self.post, *self.hidden, 1)
                self._module.after = Perceptron(sizes, last_gain=1.0, key=self._key.derive("after"))

    def centralise(self) -> None:
        """Lets the critic that `require` will add read the joint state beside the observation.

        Raises:
            ConfigurationError: where there is no joint state.
        """
        if not self.joint:
            raise ConfigurationError(
                "a central critic reads the joint state of all agents, and this environment offers none; use ippo, "
                "whose critic reads what its agent sees"
            )
        if self._module.critic is not None and not self.central:
            raise ConfigurationError(f"policy {self.name!r} has a critic of its observations already; train it anew")
        self.central = True
        self._module.whole = reader(self.joint, self._joint_ranges, normalise=self.network.normalise)

    def foresee(self) -> None:
        """Has `require` add a critic of post-decision states: a decision's value is then the smaller of both critics'.

        Raises:
            ConfigurationError: where the environment knows no such states.
        """
        if not self.post:
            raise ConfigurationError(
                "a critic of post-decision states reads what a decision leads to before chance, which this environment "
                "does not tell; use ppo, or a world with `post` and `after` such as lots:sizing"
            )
        if self._module.critic is not None and not self.foresees:
            raise ConfigurationError(f"policy {self.name!r} has a single critic already; train it anew")
        self.foresees = True

    def believe(self, form: BeliefForm) -> None:
        """Gives actor and critic a belief to read, made anew from the policy's key; nothing if it has this one.

        Raises:
            ConfigurationError: where a critic or another belief is there already.
        """
        if self._form == form:
            return
        if self._module.critic is not None or self._form is not None:
            raise ConfigurationError(
                f"policy {self.name!r} has {'another belief' if self._form else 'a critic without a belief'} already; "
                "train it anew"
            )
        key = self._key.derive("belief")
        learnt = form.build(self.observations, self.actions, discrete=self.discrete, key=key)
        self._form, self._believes, self._module.beliefs = form, learnt.size, Beliefs(learnt)
        self._module.actor = self._actor()

    def embody(self, body: Any) -> None:
        """Makes the networks anew with this body, as `network.body` would have; nothing where they have it.

        Raises:
            ConfigurationError: where it cannot read what is seen, or there is a critic of another body already.
        """
        if self.network.body == body:
            return
        if self._module.critic is not None or self.factors is not None:
            raise ConfigurationError(
                f"policy {self.name!r} has a critic, or actions in parts, of another body than {body}; train it anew"
            )
        self.network = replace(self.network, body=body)
        self._module.actor = self._actor()

    def chain(self) -> None:
        """Draws every part of an action given those before it, by a network of its own; nothing where it does.

        Raises:
            ConfigurationError: where actions have no parts, or the body carries something along.
        """
        if self.factors is None:
            raise ConfigurationError(
                "a chain of parts needs actions that have parts, a function and its arguments, and this environment's "
                "have none; use a2c, or a world such as rts:beacon"
            )
        if self.network.body == "recurrent":
            raise ConfigurationError(
                "network.body = recurrent carries no chain of parts; use perceptron or convolution"
            )
        if not self.chained:
            self.chained = True
            self._module.actor = self._actor()

    # ------------------------------------------------------------ acting

    @property
    def draws(self) -> int:
        """Uniforms per decision."""
        if self.factors is not None:
            return len(self.factors.sizes)
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
            kept = None if allowed is None else torch.from_numpy(allowed)
            outputs = self._acting(self._seen(torch.from_numpy(observations)), carried)
            head = self._head(outputs, kept)
            if not (temperature == 1).all():
                head = head.tempered(torch.from_numpy(np.where(greedy, np.float32(1), temperature)))
            action = head.draw(torch.from_numpy(uniforms))
            if greedy.any():
                chosen = torch.from_numpy(greedy if action.dim() == 1 else greedy[:, None])
                action = torch.where(chosen, head.mode(), action)
            logp = head.logp(action)
        return action.numpy(), logp.numpy()

    def _acting(self, seen: Tensor, carried: NDArray[np.float32] | None) -> Tensor:
        """The actor's outputs; `carried` is changed in place."""
        actor, beliefs = self._module.actor, self._beliefs
        if self.carries and carried is None:
            raise ValueError(f"policy {self.name!r} remembers: give what it carries")
        if beliefs is not None:
            assert carried is not None
            belief, state = beliefs.acting.step(seen, torch.from_numpy(carried[:, self._own :]))
            carried[:, self._own :] = state.numpy()
            seen = torch.cat([seen, belief], 1)
        if not isinstance(actor, Recurrent):
            return actor(seen)  # type: ignore[no-any-return]
        assert carried is not None
        outputs, state = actor.step(seen, torch.from_numpy(carried[:, : self._own]))
        carried[:, : self._own] = state.numpy()
        return outputs

    def _seen(self, observations: Tensor) -> Tensor:
        """As the networks read them."""
        return observations if self._module.seen is None else self._module.seen(observations)

    def _head(
        self, outputs: Tensor, allowed: Tensor | None = None, taken: Tensor | None = None
    ) -> Categorical | DiagonalGaussian | Parts:
        """The distribution; `taken` are the actions along which a chain's entropy is measured."""
        if self.factors is not None:
            actor = self._module.actor
            return Parts(outputs, self.factors, allowed, actor if isinstance(actor, Chain) else None, taken)
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
        wanted, size = frozenset(needs), batch.decisions
        every = torch.arange(size)
        places = chosen = every if decisions is None else decisions
        whole = torch.equal(places, every)
        action = batch.action if whole else batch.action[places]
        if (taken := batch.taken) is not None:
            batch, chosen = taken.whole, taken.decision if whole else taken.decision[places]
        kept = self._allowed(batch, chosen)
        head = self._decided(batch, chosen, kept)

        def scattered(values: Tensor) -> Tensor:
            return values if whole else torch.zeros(size, dtype=values.dtype).index_put((places,), values)

        value = scattered(self._values(batch, chosen)) if Quantity.VALUE in wanted else None
        kl = None
        if Quantity.KL_EXACT in wanted:
            if not isinstance(reference, ControlPolicy):
                raise ValueError("an exact KL needs a ControlPolicy as reference")
            with torch.no_grad():
                other: Any = reference._decided(batch, chosen, kept)
            kl = scattered(head.kl(other))
        return Evaluation(
            logp=scattered(head.logp(action)),
            entropy=scattered(head.entropy()) if Quantity.ENTROPY in wanted else None,
            value=value,
            kl_exact=kl,
            belief=self._told(batch, chosen) if Quantity.BELIEF in wanted else None,
        )

    def _told(self, batch: Batch, chosen: Tensor) -> Tensor:
        """What the belief that is learnt tells its loss at the chosen decisions, `[T, D]`, 0 elsewhere."""
        if self._beliefs is None:
            raise ValueError(f"policy {self.name!r} has no belief: call believe first")
        index, place = sequences(batch, chosen)
        seen = self._seen(self.observed(batch))[index]
        key = self._key.derive("told", batch.step)
        told = self._beliefs.learnt.told(Paths(seen, batch.action[index], index, key))[place]
        return told.new_zeros(batch.decisions, told.shape[1]).index_put((chosen,), told)

    def beliefs(self, batch: Batch) -> Tensor:
        """What the policy that acts believes before each decision of a batch, `[T, size]`, without gradient."""
        if self._beliefs is None:
            raise ValueError(f"policy {self.name!r} has no belief: call believe first")
        if self._believed is None or self._believed[0] is not batch.observation:
            index, place = sequences(batch, torch.arange(batch.decisions))
            with torch.no_grad():
                found = self._beliefs.acting(self._seen(self.observed(batch))[index])[place]
            self._believed = (batch.observation, found)
        return self._believed[1]

    def _decided(self, batch: Batch, chosen: Tensor, allowed: Tensor | None) -> Categorical | DiagonalGaussian | Parts:
        """The distributions that the chosen decisions were drawn from, as they are now."""
        outputs = self._along(self._module.actor, batch, chosen, self._read)
        head = self._head(outputs, allowed, batch.action[chosen] if self.chained else None)
        if batch.temperature is None or bool((batch.temperature == 1).all()):
            return head
        return head.tempered(batch.temperature[batch.turn[chosen]].to(outputs.dtype))

    def _along(
        self, network: nn.Module, batch: Batch, chosen: Tensor, read: Callable[[Batch, Tensor], Tensor]
    ) -> Tensor:
        """What a network gives at the chosen decisions, `[K, outputs]`, from what it reads before each."""
        if not isinstance(network, Recurrent):
            return network(read(batch, chosen))  # type: ignore[no-any-return]
        index, place = sequences(batch, chosen)
        rows = read(batch, index.flatten()).reshape(*index.shape, -1)
        return network(rows)[place]  # type: ignore[no-any-return]

    def _read(self, batch: Batch, chosen: Tensor) -> Tensor:
        """What the actor reads before the chosen decisions, `[K, O]`, and what it believes then, where it does."""
        seen = self._seen(self.observed(batch)[chosen])
        return seen if self._beliefs is None else torch.cat([seen, self.beliefs(batch)[chosen]], 1)

    def _allowed(self, batch: Batch, chosen: Tensor) -> Tensor | None:
        """Which actions the chosen decisions were kept to, `[K, A]` bool; None where none was kept to any."""
        if not any(one is not None for one in batch.allowed):
            return None
        lengths = torch.bincount(batch.turn, minlength=batch.turns).tolist()
        rows = [
            one if one is not None and one.shape == (length, self.actions) else np.ones((length, self.actions), bool)
            for one, length in zip(batch.allowed, lengths, strict=True)
        ]
        return torch.from_numpy(np.concatenate(rows))[chosen]

    def _valued(self, batch: Batch, chosen: Tensor) -> Tensor:
        """What the critic reads before the chosen decisions, `[K, O]` or, when central, `[K, S + O]`."""
        read = self._read(batch, chosen)
        return torch.cat([self._whole(self._joint(batch)[chosen]), read], 1) if self.central else read

    def _whole(self, joint: Tensor) -> Tensor:
        """Joint states as the critic reads them."""
        return joint if self._module.whole is None else self._module.whole(joint)

    def _joint(self, batch: Batch) -> Tensor:
        """The joint state before each decision, `[T, S]`; 0 for turns of other worlds."""
        if self._gathered_joint is None or self._gathered_joint[0] is not batch.joint:
            lengths = torch.bincount(batch.turn, minlength=batch.turns).tolist()
            given = batch.joint
            if not given:
                raise ConfigurationError(
                    "a central critic reads the joint state, which these turns were recorded without"
                )
            rows = [
                state if state is not None and state.shape == (length, self.joint) else np.zeros((length, self.joint))
                for state, length in zip(given, lengths, strict=True)
            ]
            joined = torch.from_numpy(np.concatenate(rows or [np.zeros((0, self.joint))]).astype(np.float32))
            self._gathered_joint = (batch.joint, joined)
        return self._gathered_joint[1]

    def _values(self, batch: Batch, chosen: Tensor) -> Tensor:
        values = self._along(self._critic, batch, chosen, self._valued).squeeze(-1)
        return values if self._module.after is None else torch.minimum(values, self.post_values(batch, chosen))

    def post_values(self, batch: Batch, chosen: Tensor) -> Tensor:
        """What the critic of post-decision states says of the chosen decisions, `[K]`; see `foresee`."""
        assert self._after is not None
        assert self._module.after is not None
        rows = self._after(self.observed(batch)[chosen].numpy(), batch.action[chosen].numpy())
        values: Tensor = self._module.after(torch.from_numpy(rows)).squeeze(-1)
        return values

    @property
    def _critic(self) -> nn.Module:
        if self._module.critic is None:
            raise ValueError(f"policy {self.name!r} has no critic: call require({{Quantity.VALUE}}) first")
        return self._module.critic

    def observed(self, batch: Batch) -> Tensor:
        """The observation before each decision, `[T, O]`; 0 for turns of other shapes, which others decided."""
        if self._gathered is None or self._gathered[0] is not batch.observation:
            lengths = torch.bincount(batch.turn, minlength=batch.turns).tolist()
            blank = np.zeros((max(lengths, default=0), self.observations), np.float32)
            rows = [
                seen if seen.shape == (length, self.observations) else blank[:length]
                for seen, length in zip(batch.observation, lengths, strict=True)
            ]
            joined = np.concatenate([np.asarray(row, np.float32) for row in rows] or [blank])
            # Every mini-batch and epoch of a step shares this sequence, so it is joined once.
            self._gathered = (batch.observation, torch.from_numpy(joined))
        return self._gathered[1]

    def final_values(self, batch: Batch) -> Tensor:
        """Values of final states of trajectories cut short `[N]`, without gradient; 0 where the task itself ended."""
        values = torch.zeros(batch.trajectories)
        states = batch.final_state or [None] * batch.trajectories
        open_ended = (batch.truncated & ~batch.terminated).tolist()
        # A part of another shape is another policy's, whose critic reads it.
        sees = (self.observations,)
        found = [
            row
            for row, state in enumerate(states)
            if open_ended[row] and state is not None and np.asarray(state).shape == sees
        ]
        if found:
            joined = self._seen(torch.from_numpy(np.stack([np.asarray(states[row], np.float32) for row in found])))
            if self._beliefs is not None:
                joined = torch.cat([joined, self._last_beliefs(batch, found, joined)], 1)
            if self.central:
                whole = [np.asarray(batch.final_joint[row], np.float32) for row in found]
                joined = torch.cat([self._whole(torch.from_numpy(np.stack(whole))), joined], 1)
            with torch.no_grad():
                values[found] = self._ended(batch, found, joined)
        return values

    def _ended(self, batch: Batch, rows: Sequence[int], final: Tensor) -> Tensor:
        """Values of what the critic reads last in these trajectories, `[R, I]`, after all that it read before."""
        critic = self._critic
        if not isinstance(critic, Recurrent):
            return critic(final).squeeze(-1)  # type: ignore[no-any-return]
        earlier = (self._valued(batch, own) for own in before(batch, rows))
        ends = [torch.cat([read, end[None]]) for read, end in zip(earlier, final, strict=True)]
        return at_ends(critic, ends).squeeze(-1)

    def _last_beliefs(self, batch: Batch, rows: Sequence[int], final: Tensor) -> Tensor:
        """What is believed when `final` `[R, O]` was seen last in these trajectories, `[R, size]`."""
        assert self._beliefs is not None
        seen = self._seen(self.observed(batch))
        ends = [torch.cat([seen[own], end[None]]) for own, end in zip(before(batch, rows), final, strict=True)]
        with torch.no_grad():
            return at_ends(self._beliefs.acting, ends)

    def observe(self, batch: Batch) -> None:
        """Counts what this policy saw in a batch among what it normalises by, and lets what was learnt of beliefs act.

        The learner calls it after an update.
        """
        if self._beliefs is not None:
            self._beliefs.go_on()
        self._believed, seen, whole = None, self._module.seen, self._module.whole
        if isinstance(seen, Normaliser):
            mine = policy_decisions(batch, self.name)
            seen.observe(self.observed(batch)[mine])
            if isinstance(whole, Normaliser):
                whole.observe(self._joint(batch)[mine])

    # ------------------------------------------------------------ copies and files

    def frozen_copy(self) -> ControlPolicy:
        clone = copy.copy(self)
        clone._module = copy.deepcopy(self._module, {id(one): one for one in self._module.scalers})
        clone._module.requires_grad_(False)
        clone._gathered = clone._gathered_joint = clone._believed = None
        return clone

    def _config(self) -> dict[str, Any]:
        return {
            "observations": self.observations,
            "actions": self.actions,
            "discrete": self.discrete,
            "hidden": list(self.hidden),
            **({"joint": self.joint} if self.central else {}),
            **({"post": self.post} if self.foresees else {}),
            **({"factors": list(self.factors.sizes), "chained": self.chained} if self.factors is not None else {}),
            **({"belief": repr(self._form)} if self._form is not None else {}),
            **({"normalise": True} if self.network.normalise else {}),
            **({"scaled": True} if self._module.scaled else {}),
            **({"body": self.network.body} if self.network.body != "perceptron" else {}),
            **({"layout": list(self.sight.layout.parts)} if self.sight.layout is not None else {}),
            **({"words": self.sight.commands.words} if self.sight.commands is not None else {}),
        }

    def save(self, folder: Path) -> None:
        """Writes `model.safetensors` (critic included, if there is one) and `config.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: value.detach().contiguous() for name, value in self._module.state_dict().items()}
        save_file(tensors, folder / WEIGHTS)
        (folder / CONFIG).write_text(json.dumps(self._config(), indent=2) + "\n")

    def load(self, folder: Path) -> None:
        """Reads what `save` wrote; a critic in the file is added here too.

        Raises:
            ConfigurationError: when a file is missing, damaged, or of a network of another shape.
        """
        try:
            found = json.loads((folder / CONFIG).read_text())
            tensors = load_file(folder / WEIGHTS)
        except (OSError, ValueError, SafetensorError) as error:
            raise ConfigurationError(f"{folder} holds no readable controller: {error}") from error
        plain = isinstance(found, dict) and "scaled" not in found and self._module.read_plainly()
        if found != self._config():
            raise ConfigurationError(f"{folder / CONFIG} {other_network(found, self._config())}")
        if any(name.startswith("critic.") for name in tensors):
            self.require(frozenset({Quantity.VALUE}))
        absent = self._module.load_state_dict(tensors, strict=False).missing_keys
        self._believed = None
        spared = ("critic.", "after.", "seen.", "whole.")[: 4 if plain else 2]
        if any(not name.startswith(spared) for name in absent):
            raise ConfigurationError(f"{folder / WEIGHTS} lacks {absent[0]}; the file is not a whole controller")
