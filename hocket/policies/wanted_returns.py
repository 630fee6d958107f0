"""Policies that are conditioned on the return that is still wanted: decision transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.stored_rows import STEP, TO_GO
from hocket.policies.control_attention import WindowBody, layers_of, linear
from hocket.policies.control_heads import NEVER, Categorical, DiagonalGaussian, Head
from hocket.policies.control_parts import ControlPart, Links, PartHost

_TIMES = 1024
"""Places in an episode with an embedding of their own; later ones share the last."""


class DecisionTransformer(WindowBody):
    """Causal attention over `R_1, s_1, a_1, R_2, s_2, ..`, whose output at `s_t` is read (Chen et al., 2106.01345).

    An input is what is seen, the return still wanted, the action before, and the place in the episode:
    `[.., O + 1 + A + 1]`. Tokens of one decision share the embedding of its place.

    Attributes:
        wanted: the return that is wanted at the beginning of an episode; NaN as long as it is unknown.
    """

    wanted: Tensor

    def __init__(self, sights: int, actions: int, hidden: tuple[int, ...], *, window: int, key: Key) -> None:
        super().__init__(sights + actions + 2, window)
        self.sizes = [sights, 1, actions, 1]
        width, self.blocks = layers_of(hidden, key)
        self.of_seen, self.of_return = linear(sights, width, key.derive("seen")), linear(1, width, key.derive("return"))
        self.of_action = linear(actions, width, key.derive("action"))
        self.times = nn.Parameter(0.02 * torch.randn(_TIMES, width, generator=key.derive("times").torch()))
        self.first, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.log_std: nn.Parameter | None = None
        self.after = linear(width, actions, key.derive("after"))
        self.register_buffer("wanted", torch.tensor(torch.nan))

    def states(self, rows: Tensor) -> Tensor:
        """What the last block gives at every decision of windows `[B, L, I]`: `[B, L, width]`."""
        sights, to_go, before, step = torch.split(rows, self.sizes, -1)
        place = step[..., 0].long().clamp(0, _TIMES - 1)
        moment, earlier = self.times[place], self.times[(place - 1).clamp(min=0)]
        tokens = [self.of_action(before) + earlier, self.of_return(to_go) + moment, self.of_seen(sights) + moment]
        # The action before a window's first decision is no part of the window.
        x = self.first(torch.stack(tokens, 2).flatten(1, 2)[:, 1:])
        for block in self.blocks:
            x = block(x)
        read: Tensor = self.last(x)[:, 1::3]
        return read

    def read(self, rows: Tensor) -> Tensor:
        outputs: Tensor = self.after(self.states(rows))
        return outputs


@dataclass(frozen=True)
class _Conditioned:
    """The form of actions of a decision transformer: a categorical, or a Gaussian with a learnt deviation."""

    make: Callable[[], nn.Module]
    draws: int
    stated: Mapping[str, Any]

    def actor(self, link: Links) -> nn.Module:
        return self.make()

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> Head:
        log_std = cast(DecisionTransformer, actor).log_std
        if log_std is None:
            return Categorical(outputs if allowed is None else outputs.masked_fill(~allowed, NEVER))
        return DiagonalGaussian(outputs, log_std.expand_as(outputs))

    def config(self) -> Mapping[str, Any]:
        return self.stated


@dataclass(frozen=True)
class WantedReturn(ControlPart):
    """An actor that reads a window of returns still wanted, observations and actions: a `DecisionTransformer`.

    In an episode the return still wanted begins at `wanted` and falls by what is paid. In learning it is what the
    recorded episode paid from there on.

    Attributes:
        window: decisions that are read, the present one included.
        wanted: of an episode; None is the largest of the episodes that are learnt from.
        scale: returns are divided by it before they are read.
    """

    window: int = 20
    wanted: float | None = None
    scale: float = 1000.0

    needed: ClassVar[str] = "a window of wanted returns, observations and actions"
    advice: ClassVar[str] = "use bc"
    recurrent: ClassVar[bool] = True
    reads_rewards: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.window < 1 or not self.scale > 0:
            raise ValueError(f"window must be at least 1 and scale positive, not {self.window} and {self.scale}")

    def begin(self, host: PartHost) -> None:
        if host.action_form is not None or host.network.body != "perceptron" or host.network.normalise:
            raise ConfigurationError(
                "a decision transformer has a body of its own, for one choice or a vector; drop network.body and "
                "network.normalise, or use ppo"
            )
        stated = {"conditioned": [self.window, self.scale]}
        host.module.log_std = None  # The actor has its own.
        host.action_form = _Conditioned(lambda: self.network(host), 1 if host.discrete else host.actions, stated)
        host.remake_actor()

    def network(self, host: PartHost) -> DecisionTransformer:
        """The actor, its weights drawn from the policy's key."""
        made = self._made(host.observations, host.actions, host.hidden, host.key.derive("actor"))
        if not host.discrete:
            made.log_std = nn.Parameter(torch.full((host.actions,), -0.5))
        if self.wanted is not None:
            made.wanted.fill_(self.wanted)
        return made

    def _made(self, sights: int, actions: int, hidden: tuple[int, ...], key: Key) -> DecisionTransformer:
        return DecisionTransformer(sights, actions, hidden, window=self.window, key=key)

    def carries(self, host: PartHost) -> int:
        return host.actions + 2

    def step(self, host: PartHost, sights: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        to_go, before, step = torch.split(carried, [1, host.actions, 1], 1)
        wanted = torch.nan_to_num(_actor(host).wanted)
        to_go = torch.where(step == 0, wanted, to_go)
        read = torch.cat([sights, to_go / self.scale, before, step], 1)
        return read, torch.cat([to_go, before, step + 1], 1)

    def acted(self, host: PartHost, action: Tensor, carried: NDArray[np.float32]) -> None:
        carried[:, 1:-1] = _vector(host, action).numpy()

    def paid(self, host: PartHost, rewards: NDArray[np.float64], carried: NDArray[np.float32]) -> None:
        carried[:, 0] -= rewards

    def read(self, host: PartHost, batch: Batch, chosen: Tensor, sights: Tensor, *, critic: bool) -> Tensor:
        to_go, step = (column.read(batch, "a decision transformer") for column in (TO_GO, STEP))
        if self.wanted is None:
            self._raise_wanted(_actor(host), to_go[step == 0])
        earlier = (chosen - 1).clamp(min=0)
        follows = (step[chosen] > 0) & (batch.turn[earlier] == batch.turn[chosen])
        before = _vector(host, batch.action[earlier]) * follows[:, None]
        return torch.cat([sights, to_go[chosen, None] / self.scale, before, step[chosen, None].to(sights.dtype)], 1)

    @staticmethod
    def _raise_wanted(actor: DecisionTransformer, returns: Tensor) -> None:
        if len(returns):
            actor.wanted.copy_(torch.fmax(actor.wanted, returns.max()))


def _actor(host: PartHost) -> DecisionTransformer:
    return cast(DecisionTransformer, host.module.actor)


def _vector(host: PartHost, action: Tensor) -> Tensor:
    """Actions as they are read, `[B, A]`: one-hot, or within their range."""
    if host.discrete:
        return functional.one_hot(action.long(), host.actions).float()
    return action.float().clamp(-1.0, 1.0)
