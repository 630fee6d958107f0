"""How a policy is made or adapted, as configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class LoraSettings:
    """Low-rank adapters (Hu et al. 2021) instead of full fine-tuning, through `peft`.

    Attributes:
        rank: r. alpha: the update is scaled by alpha / rank. dropout: on the adapter's input; 0 keeps sampler and
            learner alike.
        targets: names of layers or weights, ends of their names, or patterns (`*experts*`, `*router*`); `all-linear` is
            every linear layer but the head, and so is None. Experts are often no layers but weights `[E, H, N]`.
        rslora: scales by alpha / sqrt(rank) (Kalajdzievski 2023). dora: trains the norms of the weights' rows beside
            their directions (Liu et al. 2024).
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    targets: tuple[str, ...] | None = None
    rslora: bool = False
    dora: bool = False

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"rank must be at least 1, not {self.rank}")


@dataclass(frozen=True)
class TowerSettings:
    """What of a model reads pictures or sounds, tower and projector.

    Attributes:
        lr: its learning rate, which follows the update's schedule; None leaves it as it is, so that each picture is
            encoded once a run.
    """

    lr: float | None = None

    def __post_init__(self) -> None:
        if self.lr is not None and not 0 < self.lr < math.inf:
            raise ValueError(f"lr must be positive and finite, not {self.lr}")


@dataclass(frozen=True)
class NetworkSettings:
    """What the small networks of control policies are.

    Attributes:
        body: `perceptron`; `recurrent`, whose last hidden layer is carried from decision to decision of an episode and
            begins at 0 in each; `attention`, which reads a window of the latest ones; `convolution`, for what is seen
            as a grid; `sets`, for others that are seen row by row, in any order; `equivariant`, the same for a world
            that may be turned, with it; `pointer`, for actions that are rows: it encodes them once in an episode, and
            runs on any number of them.
        hidden: units of each hidden layer, those after the filters where it is a `convolution`; the first ones read the
            agent's own numbers, and as many every row, where it reads rows.
        activation: what stands between the layers of a `perceptron`, `tanh` or `relu`.
        window: how many decisions `attention` reads, the present one included.
        normalise: whether they read what they see less its running mean, over its running deviation.
    """

    body: Literal["perceptron", "recurrent", "attention", "convolution", "sets", "equivariant", "pointer"] = (
        "perceptron"
    )
    hidden: tuple[int, ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"
    normalise: bool = False
    window: int = 20

    def __post_init__(self) -> None:
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"hidden must be numbers of units of at least 1, not {list(self.hidden)}")
        if self.window < 1:
            raise ValueError(f"window must be at least 1, not {self.window}")

    @property
    def remembers(self) -> bool:
        """Whether a decision depends on earlier ones of its episode, or on what was computed at them."""
        return self.body in ("recurrent", "attention", "pointer")


def other_network(stored: Any, config: Mapping[str, Any]) -> str:
    """What a saved configuration describes in the place of the network with the configuration `config`, in words."""
    if not isinstance(stored, Mapping) or "model_type" in stored or not set(stored) & set(config):
        return "is no control network's but a model of another kind, as of words; use a task that it was trained for"
    parts = [name for name in {**config, **stored} if stored.get(name) != config.get(name)]
    differing = ", ".join(f"{name} = {stored.get(name)!r} (here {config.get(name)!r})" for name in parts)
    return f"describes another network: {differing}; use the task and the network settings that it was trained with"
