"""The tower of a model that reads pictures or sounds: its own learning rate, and how far each part of a model moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from hocket.core.errors import ConfigurationError
from hocket.stages import Metrics, Policy

READ = 4096
"""Numbers of a weight that are compared, evenly spread."""


def with_tower_rate(optimiser: torch.optim.Optimizer, policy: Policy) -> torch.optim.Optimizer:
    """The optimiser with the weights of the policy's tower in groups of their own, at the tower's rate.

    Raises:
        ConfigurationError: when the recipe's optimiser has other weights than the policy.
    """
    rate, tower = getattr(policy, "tower_lr", None), _tower(policy)
    if rate is None or tower is None:
        return optimiser
    weights = {id(weight) for weight in tower.parameters()}
    groups = list(optimiser.param_groups)
    if not any(id(weight) in weights for group in groups for weight in group["params"]):
        raise ConfigurationError(
            f"tower.lr: the recipe's update makes steps of {type(optimiser).__name__} that have no rate for each part; "
            "drop tower.lr"
        )
    optimiser.param_groups.clear()
    for mine in (False, True):
        for group in groups:
            chosen = [weight for weight in group["params"] if (id(weight) in weights) is mine]
            if chosen:
                optimiser.add_param_group({**group, "params": chosen, "lr": rate if mine else group["lr"]})
    return optimiser


def moving(policy: Policy, update: Callable[[], Metrics]) -> Metrics:
    """The metrics of an update, and `moved/PART` where a tower is trained.

    It is the root mean square of the changes of a part's weights, over that of the weights, in at most `READ` numbers
    of each.
    """
    if getattr(policy, "tower_lr", None) is None:
        return update()
    before = dict(_parts(policy))
    metrics = update()
    return metrics | {f"moved/{name}": _distance(before[name], after) for name, after in _parts(policy)}


def _tower(policy: Policy) -> nn.ModuleDict | None:
    tower: nn.ModuleDict | None = getattr(policy, "tower", None)
    return tower


def _parts(policy: Policy) -> Iterator[tuple[str, list[Tensor]]]:
    """Samples of the weights of each part: the language model, and those of the tower by their names in the model."""
    tower = _tower(policy)
    parts: Mapping[str, nn.Module] = {
        "language": policy.module.get_submodule("model"),
        **({} if tower is None else tower),
    }
    for name, part in parts.items():
        yield name, [_sample(weight.detach()) for weight in part.parameters() if weight.requires_grad]


def _sample(weight: Tensor) -> Tensor:
    flat = weight.flatten()
    return flat[:: max(1, -(-len(flat) // READ))].clone()


def _distance(before: list[Tensor], after: list[Tensor]) -> float:
    pairs = list(zip(before, after, strict=True))
    change = sum(float((new.double() - old.double()).square().sum()) for old, new in pairs)
    size = sum(float(old.double().square().sum()) for old, _ in pairs)
    return math.sqrt(change / size) if size else 0.0
