"""A decoding step with constant shapes, which an accelerator replays as a recorded graph.

A step of a large model is some thousand short operations. Launching them one by one takes longer than computing them,
unless they are recorded once as a CUDA graph and replayed. The tensors of a graph keep their addresses and shapes, so
the step's inputs (the tokens, and where they are written) are copied into tensors of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

WARM = 3
"""Steps that run operation by operation before the recording: they load what the operations need."""

Body = Callable[..., Tensor]
"""From the inputs, tensors on the device, to logits `[R, V]`."""


class FixedStep:
    """Runs a step, and records it once its shapes are stable. Without a CUDA device it only runs the step.

    The logits are a tensor of the recording and change with the next step.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[Tensor] = []
        self._logits: Tensor

    def forget(self) -> None:
        """Drops the recording: shapes or places of tensors have changed."""
        self._calls, self._graph = 0, None

    def __call__(self, body: Body, *inputs: Tensor) -> Tensor:
        """Logits of the body, which is the same until `forget`, as are the shapes of its inputs."""
        if self._graph is None:
            self._calls += 1
            if self._calls <= WARM or self._device.type != "cuda":
                return body(*(value.to(self._device) for value in inputs))
            self._graph = self._recorded(body, inputs)
        for held, value in zip(self._inputs, inputs, strict=True):
            held.copy_(value)
        self._graph.replay()
        return self._logits

    def _recorded(self, body: Body, inputs: Sequence[Tensor]) -> torch.cuda.CUDAGraph:
        """A recording of the body; nothing is computed yet."""
        self._inputs = [value.to(self._device, copy=True) for value in inputs]
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            # Other threads, such as a learner, may use the device at the same time.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                self._logits = body(*self._inputs)
            finally:
                graph.capture_end()
        current.wait_stream(stream)
        return graph
