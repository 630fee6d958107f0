"""Actions in parts: a function, then the arguments that it takes, as StarCraft's are (arXiv 1708.04782).

`pi(a | s) = pi(a_0 | s) prod_l pi(a_l | a_<l, s)`: a chain of networks of which each reads the parts before its own, or
one network for all, whose arguments know the function by what it takes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.errors import ConfigurationError
from hocket.policies.control_parts import ControlPart, Links, PartHost


@dataclass(frozen=True)
class Factors:
    """An action in parts: a function, then its arguments, each of its own choices; an `ActionForm`.

    Actions are `[B, parts]` whole numbers; what is allowed of each part stands after what is allowed of those before.

    Attributes:
        sizes: choices of every part, the function's first.
        takes: of every function, which of the other parts are arguments of it. Those that are not are 0.
        chained: whether every part is drawn given those before it, by a network of its own.
    """

    sizes: tuple[int, ...]
    takes: tuple[tuple[bool, ...], ...]
    chained: bool = False

    def __post_init__(self) -> None:
        if len(self.takes) != self.sizes[0] or any(len(row) != len(self.sizes) - 1 for row in self.takes):
            raise ValueError(
                f"{self.sizes[0]} functions and {len(self.sizes) - 1} arguments need as many rows of takes"
            )

    @property
    def draws(self) -> int:
        return len(self.sizes)

    def actor(self, link: Links) -> nn.Module:
        if not self.chained:
            return link(sum(self.sizes), "actor", 0)
        links = (
            link(size, "actor" if part == 0 else f"part {part}", sum(self.sizes[:part]))
            for part, size in enumerate(self.sizes)
        )
        return Chain(list(links), self.sizes)

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> Parts:
        return Parts(outputs, self, allowed, actor if isinstance(actor, Chain) else None, taken)

    def config(self) -> Mapping[str, Any]:
        return {"factors": list(self.sizes), "chained": self.chained}


@dataclass(frozen=True)
class Chained(ControlPart):
    """Every part of an action is drawn given those before it, by a network of its own."""

    needed: ClassVar[str] = "actions in parts, each drawn given those before"
    advice: ClassVar[str] = "choose a task such as rts:beacon"

    def begin(self, host: PartHost) -> None:
        if not isinstance(host.action_form, Factors):
            raise ConfigurationError(
                "a chain of parts needs actions that have parts, a function and its arguments, and this environment's "
                "have none; use a2c, or a world such as rts:beacon"
            )
        if host.network.remembers:
            raise ConfigurationError(
                f"network.body = {host.network.body} carries no chain of parts; use perceptron or convolution"
            )
        host.action_form = replace(host.action_form, chained=True)
        host.remake_actor()


class Chain(nn.Module):
    """Networks for the parts of an action; each reads what is seen `[B, O]` and one-hots of all parts before it.

    Called, it gives what is seen: the networks are asked part by part.
    """

    def __init__(self, links: Sequence[nn.Module], sizes: Sequence[int]) -> None:
        super().__init__()
        self.links, self.sizes = nn.ModuleList(links), tuple(sizes)

    def forward(self, seen: Tensor) -> Tensor:
        return seen

    def logits(self, seen: Tensor, before: Tensor) -> Tensor:
        """Of the part that follows those `before` `[B, l]` long: `[B, sizes[l]]`."""
        told = [functional.one_hot(one, size).to(seen) for one, size in zip(before.T, self.sizes, strict=False)]
        given: Tensor = self.links[before.shape[1]](torch.cat([seen, *told], 1))
        return given


@dataclass(frozen=True)
class Parts:
    """A distribution over actions `[B, parts]` long: a function, then its arguments.

    Every part is a categorical over what is allowed of it; a part that the function does not take is 0. At temperature
    t every conditional is tempered, so a joint action's odds are not those of the whole density to the power 1/t.

    Attributes:
        outputs: logits of all parts side by side, `[B, A]`; with a `chain`, what that reads. factors: which parts there
            are. allowed: what may be chosen of each part, `[B, A]` bool, some of every part; None for all.
        taken: actions, `[B, parts]`, along which a chain's entropy is measured. temperature: `[B]`, None for 1.
    """

    outputs: Tensor
    factors: Factors
    allowed: Tensor | None = None
    chain: Chain | None = None
    taken: Tensor | None = None
    temperature: Tensor | None = None

    def tempered(self, temperature: Tensor) -> Parts:
        return replace(self, temperature=temperature)

    @property
    def takes(self) -> Tensor:
        """Of every function whether it takes each part, itself included: `[F, parts]` bool."""
        rows = torch.tensor(self.factors.takes, dtype=torch.bool, device=self.outputs.device)
        return torch.cat([rows.new_ones(len(rows), 1), rows.reshape(len(rows), -1)], 1)

    def conditional(self, before: Tensor) -> Tensor:
        """Log-probs of the part after those `before` `[B, l]`: `[B, sizes[l]]`, minus infinity where it may not be."""
        part, sizes = before.shape[1], self.factors.sizes
        here = slice(sum(sizes[:part]), sum(sizes[: part + 1]))
        logits = self.outputs[:, here] if self.chain is None else self.chain.logits(self.outputs, before)
        if self.temperature is not None:
            logits = logits / self.temperature[:, None]
        kept = torch.ones_like(logits, dtype=torch.bool) if self.allowed is None else self.allowed[:, here]
        if part:
            nothing = torch.arange(sizes[part], device=kept.device) == 0
            kept = torch.where(self.takes[before[:, 0], part, None], kept, nothing)
        return torch.log_softmax(logits.masked_fill(~kept, -torch.inf), -1)

    def _along(self, action: Tensor) -> list[Tensor]:
        """The conditionals of every part, given the parts of `action` before it."""
        return [self.conditional(action[:, :part]) for part in range(len(self.factors.sizes))]

    def logp(self, action: Tensor) -> Tensor:
        """Log-prob of whole actions `[B, parts]`: the sum over their parts, `[B]`."""
        action = action.long()
        found = [row.gather(1, action[:, part, None]) for part, row in enumerate(self._along(action))]
        return torch.cat(found, 1).sum(1)

    def entropy(self) -> Tensor:
        """`[B]`, over all joint actions; of a chain the sum of the conditionals' entropies along the actions `taken`.

        Over actions that this head draws the mean of that sum is the entropy.
        """
        if self.chain is None:
            return self._expected([_entropy(row) for row in self._apart()])
        if self.taken is None:
            raise ValueError("a chain's entropy is measured along the actions taken, and there are none")
        return torch.stack([_entropy(row) for row in self._along(self.taken.long())]).sum(0)

    def kl(self, other: Parts) -> Tensor:
        """KL(self || other) over all joint actions, `[B]`.

        Raises:
            ConfigurationError: of a chain, for its joint actions are too many to count.
        """
        if self.chain is not None:
            raise ConfigurationError(
                "an exact KL runs over all actions, which are too many where each part is drawn given those before; "
                "use a recipe without one, such as a2c or ppo"
            )
        pairs = zip(self._apart(), other._apart(), strict=True)
        return self._expected([(one.exp() * _finite(one - two)).sum(-1) for one, two in pairs])

    def _apart(self) -> list[Tensor]:
        """The log-probs of every part where it is taken; without a chain they depend on nothing else."""
        sizes = self.factors.sizes
        found = []
        for part in range(len(sizes)):
            function = int(self.takes[:, part].int().argmax())
            found.append(self.conditional(self.outputs.new_full((len(self.outputs), part), function).long()))
        return found

    def _expected(self, of_parts: Sequence[Tensor]) -> Tensor:
        """The sum of what is known of each part `[B]`, weighted by how likely a function is drawn that takes it."""
        chance = self.conditional(self.outputs.new_zeros(len(self.outputs), 0).long()).exp()
        used = chance @ self.takes.to(chance)
        return (used * torch.stack(list(of_parts), 1)).sum(1)

    def mode(self) -> Tensor:
        """The likeliest function, then of each part the likeliest given those before."""
        return self._chosen(lambda part, logp: logp.argmax(-1))

    def draw(self, uniforms: Tensor) -> Tensor:
        """Part by part the choice at its quantile, `uniforms` `[B, parts]`: as `Categorical.draw`."""

        def at(part: int, logp: Tensor) -> Tensor:
            mass = logp.double().exp().cumsum(-1)
            return (uniforms[:, part, None].double() * mass[:, -1:] >= mass).sum(-1).clamp(max=logp.shape[-1] - 1)

        return self._chosen(at)

    def _chosen(self, choose: Callable[[int, Tensor], Tensor]) -> Tensor:
        action = self.outputs.new_zeros(len(self.outputs), 0).long()
        for part in range(len(self.factors.sizes)):
            action = torch.cat([action, choose(part, self.conditional(action))[:, None]], 1)
        return action


def _finite(logp: Tensor) -> Tensor:
    """0 where it is minus infinity, or both of a difference are: such choices have probability 0."""
    return torch.where(torch.isfinite(logp), logp, torch.zeros_like(logp))


def _entropy(logp: Tensor) -> Tensor:
    """Of categoricals `[B, C]`, in nats: `[B]`."""
    return -(logp.exp() * _finite(logp)).sum(-1)
