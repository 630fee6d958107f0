"""A controller as an ONNX file: raw observations in, the environment's greedy actions out."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from hocket.apps.use.environment_form import EnvironmentForm
from hocket.core.errors import ConfigurationError
from hocket.policies.control import ControlPolicy
from hocket.policies.control_bodies import Carrying

INSTALL = "pip install 'hocket[onnx]'"


class GreedyController(nn.Module):
    """The greedy decision of a controller as one module: what it reads is normalised, what it decides is converted.

    Of observations `[B, ..]` as the environment gives them, and the state `[B, carries]` of a controller that has one,
    it gives actions `[B]` or `[B, A]` as the environment takes them; the logits `[B, A]` of discrete actions, by which
    callers can draw or mask; and the new state.
    """

    def __init__(self, policy: ControlPolicy, form: EnvironmentForm) -> None:
        super().__init__()
        self.policy, self.form = policy, form
        self.network = self.policy.module
        self.register_buffer("identity", torch.from_numpy(self.form.identity), persistent=False)
        self.first_action = int(getattr(self.form.actions, "start", 0)) if self.policy.discrete else 0
        low, high = _bounds(self.form.actions, self.policy.actions)
        for name, values in (("low", low), ("high", high)):
            self.register_buffer(name, torch.from_numpy(values), persistent=False)

    def forward(self, observation: Tensor, state: Tensor | None = None) -> tuple[Tensor, ...]:
        read = self.policy.as_read(self._rows(observation))
        carried = read.new_zeros(read.shape[0], 0) if state is None else state
        actor = self.network.actor
        end = actor.carries if isinstance(actor, Carrying) else 0
        states: list[Tensor] = []
        for part in self.policy.attached:
            start, end = end, end + part.carries(self.policy)
            read, after = part.step(self.policy, read, carried[:, start:end])
            states.append(after)
        if isinstance(actor, Carrying):
            outputs, after = actor.step(read, carried[:, : actor.carries])
            states.insert(0, after)
        else:
            outputs = actor(read)
        new_state = (torch.cat(states, 1),) if self.policy.carries else ()
        if self.policy.discrete:
            return outputs.argmax(-1) + self.first_action, outputs, *new_state
        return self._vector(outputs), *new_state

    def _rows(self, observation: Tensor) -> Tensor:
        """Flat rows `[B, O]` with the agent's number at their end."""
        if self.form.shape == ():
            rows = nn.functional.one_hot(observation - self.form.first, self.form.size).float()
        else:
            rows = observation.flatten(1)
        if not len(self.form.identity):
            return rows
        identity = cast(Tensor, self.identity)
        return torch.cat([rows, identity.expand(rows.shape[0], -1)], 1)

    def _vector(self, action: Tensor) -> Tensor:
        """Vectors in the environment's range."""
        if self.form.actions is None:
            return action
        low, high = cast(Tensor, self.low), cast(Tensor, self.high)
        bounded = low.isfinite() & high.isfinite()
        bottom, top = torch.where(bounded, low, -1.0), torch.where(bounded, high, 1.0)
        centre = 0.5 * (bottom + top)
        return torch.minimum(torch.maximum(centre + (top - centre) * action, low), high)


def write_onnx(policy: ControlPolicy, form: EnvironmentForm, file: Path, properties: Mapping[str, str]) -> Path:
    """Writes a controller into one file, for batches of any size; returns its path.

    Inputs are `observation` and, of a controller with memory, `state`, zeros at the beginning of an episode. Outputs
    are `action`, `logits` of discrete actions, and `new_state`. A `Dict` observation goes in flat. The
    `properties` are kept in the file.

    Raises:
        ConfigurationError: without the packages, for a folder that is not there, and for actions in parts.
    """
    if policy.action_form is not None:
        raise ConfigurationError(
            f"policy {policy.name!r}: its actions have several parts, which are drawn one after another and cannot be "
            "written as ONNX; use hocket.load(RUN).act"
        )
    if policy.network.body == "pointer":
        raise ConfigurationError(
            f"policy {policy.name!r}: it encodes rows when an episode begins, which cannot be written as ONNX; use "
            "hocket.load(RUN).act"
        )
    if not file.parent.is_dir():
        raise ConfigurationError(f"{file}: there is no folder {file.parent}; make it first")
    try:
        import onnx
        import onnxscript
    except ImportError as error:
        raise ConfigurationError(f"ONNX needs the packages onnx and onnxscript ({error}): {INSTALL}") from None
    del onnxscript  # torch's exporter writes with it.
    batch = torch.export.Dim("batch")
    names, shapes, arguments = ["observation"], [{0: batch}], [_example(form)]
    outputs = ["action", *(["logits"] if policy.discrete else [])]
    if policy.carries:
        names, outputs = [*names, "state"], [*outputs, "new_state"]
        shapes.append({0: batch})
        arguments.append(torch.zeros(2, policy.carries))
    module = GreedyController(policy, form).eval()
    program: Any = _quietly(
        lambda: torch.onnx.export(
            # Strictly: in the other mode the length of a batch, `len(rows)`, becomes a constant.
            torch.export.export(module, tuple(arguments), dynamic_shapes=tuple(shapes), strict=True),
            input_names=names,
            output_names=outputs,
            dynamic_shapes=tuple(shapes),
            dynamo=True,
            verbose=False,
        )
    )
    model = program.model_proto
    onnx.helper.set_model_props(model, {"producer": "hocket", **properties})
    onnx.checker.check_model(model)
    file.write_bytes(model.SerializeToString())
    return file


def _example(form: EnvironmentForm) -> Tensor:
    """A batch of two observations."""
    if form.shape == ():
        return torch.full((2,), form.first, dtype=torch.int64)
    return torch.zeros(2, *form.shape)


def _bounds(space: Any, size: int) -> tuple[Any, Any]:
    """The ends of a space of vectors, as float32 `[A]`."""
    if not hasattr(space, "low"):
        return np.full(size, -np.inf, np.float32), np.full(size, np.inf, np.float32)
    return tuple(np.asarray(end, np.float32).reshape(-1) for end in (space.low, space.high))  # type: ignore[return-value]


def _quietly(work: Any) -> Any:
    """Runs the exporter without its remarks on its own versions."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()
    finally:
        logger.setLevel(level)
