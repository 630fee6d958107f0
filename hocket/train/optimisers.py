"""Optimisers that hold less than AdamW in fp32, and Muon; each makes the steps that the recipe's own would make.

AdamW: Loshchilov & Hutter 2019. Moments of 8 bits in blocks: after Dettmers et al. 2022, with powers in the place of
their table. Muon: Jordan et al. 2024, on matrices; everything else takes AdamW. Weights in bf16 are rounded at random
by their distance (so that small updates are not lost on average), or follow fp32 masters.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.stages import Policy
from hocket.train.settings import OptimiserSettings

BLOCK = 256
"""Numbers of a moment that share a scale."""

SMALL = 4096
"""Tensors of fewer numbers keep moments in fp32."""

_ITERATIONS, _COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)
"""Of Muon's Newton-Schulz iteration."""


class Moment8:
    """A moment in one byte a number: in blocks, as a power of its share of the block's largest.

    A root spreads the numbers near 0, where most of a moment is. A second moment is rounded up, so that no step is
    divided by too little.
    """

    @staticmethod
    def pack(value: Tensor, *, signed: bool) -> tuple[Tensor, Tensor]:
        """Bytes `[B, BLOCK]` and scales `[B]` of a tensor."""
        flat = value.flatten()
        blocks = torch.nn.functional.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
        scale = blocks.abs().amax(1)
        share = blocks / scale.clamp_min(torch.finfo(torch.float32).tiny)[:, None]
        if signed:
            return (share.abs().sqrt() * 127).round().copysign(share).to(torch.int8), scale
        return (share.sqrt().sqrt() * 255).ceil().clamp_max(255).to(torch.uint8), scale

    @staticmethod
    def unpack(codes: Tensor, scale: Tensor, shape: torch.Size) -> Tensor:
        """The fp32 tensor of `shape`."""
        share = codes.float()
        share = share.abs() * share / 127**2 if codes.dtype is torch.int8 else (share / 255) ** 4
        return (share * scale[:, None]).flatten()[: shape.numel()].view(shape)


class LeanOptimiser(torch.optim.Optimizer):
    """AdamW, or Muon on matrices, whose state takes as little as the settings say.

    Args:
        groups: parameter groups with `lr`, `betas`, `eps` and `weight_decay`, as AdamW's.
        settings: see `OptimiserSettings`. key: what random rounding is drawn from, with the number of the step.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], settings: OptimiserSettings, key: Key) -> None:
        self._settings, self._key = settings, key
        super().__init__(groups, {})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update from the gradients at hand."""
        loss = None if closure is None else closure()
        number = 0
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, group, number)
                number += 1
        return loss

    def _update(self, weight: Tensor, group: dict[str, Any], number: int) -> None:
        state = self.state[weight]
        state["step"] = int(state.get("step", 0)) + 1
        gradient = weight.grad.float()  # type: ignore[union-attr]
        wide = self._whole(weight, state)
        wide.mul_(1 - group["lr"] * group["weight_decay"])
        if self._settings.kind == "muon" and weight.ndim == 2 and not group.get("vectors", False):
            self._muon(wide, gradient, group, state)
        else:
            self._adam(wide, gradient, group, state)
        if weight.dtype is torch.float32:
            return
        if self._settings.rounding == "masters":
            weight.copy_(wide)
            state["master"] = self._away(wide)
        else:
            generator = self._key.derive(state["step"], number).torch(weight.device)
            weight.copy_(rounded_at_random(wide, generator))

    def _whole(self, weight: Tensor, state: dict[str, Any]) -> Tensor:
        """The weight in fp32: itself, its master, or a copy for this step."""
        if weight.dtype is torch.float32:
            return weight
        return state["master"].to(weight.device) if "master" in state else weight.float()

    def _adam(self, whole: Tensor, gradient: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        first, second = group["betas"]
        mean = self._moment("exp_avg", gradient, state).lerp_(gradient, 1 - first)
        square = self._moment("exp_avg_sq", gradient, state).mul_(second).addcmul_(gradient, gradient, value=1 - second)
        size = group["lr"] / (1 - first ** state["step"])
        root = square.sqrt().div_(math.sqrt(1 - second ** state["step"])).add_(group["eps"])
        whole.addcdiv_(mean, root, value=-size)
        self._keep("exp_avg", mean, state, signed=True)
        self._keep("exp_avg_sq", square, state, signed=False)

    def _muon(self, whole: Tensor, gradient: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        first = group["betas"][0] if group["betas"][0] != 0.9 else 0.95  # AdamW's usual value is not Muon's.
        mean = self._moment("momentum_buffer", gradient, state).lerp_(gradient, 1 - first)
        update = orthogonal(gradient.lerp(mean, first))
        # The scale in which a step moves a weight as far as AdamW's: root mean square 0.2 (Liu et al. 2025).
        whole.add_(update, alpha=-group["lr"] * 0.2 * math.sqrt(max(whole.shape)))
        self._keep("momentum_buffer", mean, state, signed=True)

    def _moment(self, name: str, like: Tensor, state: dict[str, Any]) -> Tensor:
        """A moment in fp32 beside the weight, zero at first; the state itself where that is kept so."""
        if name not in state:
            return torch.zeros_like(like)
        held = state[name]
        if f"{name}_scale" in state:
            return Moment8.unpack(held.to(like.device), state[f"{name}_scale"].to(like.device), like.shape)
        return cast(Tensor, held.to(like.device))

    def _keep(self, name: str, value: Tensor, state: dict[str, Any], *, signed: bool) -> None:
        if self._settings.kind == "adamw8bit" and value.numel() >= SMALL:
            codes, scale = Moment8.pack(value, signed=signed)
            state[name], state[f"{name}_scale"] = self._away(codes), self._away(scale)
        else:
            state[name] = self._away(value)

    def _away(self, value: Tensor) -> Tensor:
        """Where the state is held: beside the weights, or in the host's memory."""
        return value.to("cpu") if self._settings.host else value

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores `state_dict()`; torch's own would give moments the type of the weights."""
        for group, stored in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({name: value for name, value in stored.items() if name != "params"})
        weights = [weight for group in self.param_groups for weight in group["params"]]
        self.state.clear()
        for number, held in state_dict["state"].items():
            weight = weights[int(number)]
            self.state[weight] = {
                name: self._away(value.to(weight.device)) if isinstance(value, Tensor) else copy.copy(value)
                for name, value in held.items()
            }


def rounded_at_random(whole: Tensor, generator: torch.Generator) -> Tensor:
    """fp32 numbers in bf16, each up or down with the probability of its distance, so that the mean is exact."""
    noise = torch.randint(0, 2**16, whole.shape, generator=generator, device=whole.device, dtype=torch.int32)
    bits = (whole.contiguous().view(torch.int32) + noise) & -(2**16)
    return torch.where(whole.isfinite(), bits.view(torch.float32), whole).bfloat16()


def orthogonal(matrix: Tensor) -> Tensor:
    """A matrix whose singular values are near 1, with the singular vectors of `matrix` (Newton-Schulz)."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.t()
    x = wide / wide.norm().clamp_min(1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = x @ x.t()
        x = a * x + (b * gram + c * gram @ gram) @ x
    result: Tensor = x if wide is matrix else x.t()
    return result


def fitted(optimiser: torch.optim.Optimizer, policy: Policy, settings: OptimiserSettings, key: Key) -> Any:
    """The recipe's optimiser, or the one that `settings` names with its rates and weights.

    Raises:
        ConfigurationError: when the recipe's is not AdamW, or steps are prepared by hooks that another would lose.
    """
    stored = {weight.dtype for group in optimiser.param_groups for weight in group["params"]}
    if settings.kind == "adamw" and not settings.host and stored <= {torch.float32, torch.float64}:
        return optimiser
    if not optimiser.state_dict()["param_groups"] or not isinstance(optimiser, torch.optim.AdamW):
        raise ConfigurationError(
            f"optimiser.kind = {settings.kind!r}: the recipe's update makes steps of {type(optimiser).__name__}, and "
            "only AdamW's can be replaced; leave optimiser and weights as they are"
        )
    if optimiser._optimizer_step_pre_hooks:
        raise ConfigurationError(
            f"optimiser.kind = {settings.kind!r}: the recipe's update paces the parts of its policy, which holds for "
            "AdamW in fp32 alone; leave optimiser and weights as they are"
        )
    names = ("lr", "betas", "eps", "weight_decay", "params")
    groups = [{name: group[name] for name in names} for group in optimiser.param_groups]
    if settings.kind == "muon":
        groups = [part for group in groups for part in _split(group, _outside(policy))]
    return LeanOptimiser(groups, settings, key)


def _outside(policy: Policy) -> set[int]:
    """Matrices that are no layer's: embeddings and heads, whose rows stand for tokens."""
    return {
        id(weight) for name, weight in policy.module.named_parameters() if not any(map(str.isdigit, name.split(".")))
    }


def _split(group: dict[str, Any], outside: set[int]) -> list[dict[str, Any]]:
    """Matrices of layers, and everything else, which takes AdamW."""
    matrices = [weight for weight in group["params"] if weight.ndim == 2 and id(weight) not in outside]
    chosen = {id(weight) for weight in matrices}
    others = [weight for weight in group["params"] if id(weight) not in chosen]
    parts = [{**group, "params": matrices}, {**group, "params": others, "vectors": True}]
    return [part for part in parts if part["params"]]
