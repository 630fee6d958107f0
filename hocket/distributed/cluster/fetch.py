"""Work that goes on in a thread while a device computes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext

import torch


class Fetch:
    """Work in a thread, beside what is computed on a device. On CUDA it has a stream of its own."""

    def __init__(self, work: Callable[[], object], device: torch.device) -> None:
        self._error: BaseException | None = None
        self._device, cuda = device, device.type == "cuda"
        self._stream = torch.cuda.Stream(self._device) if cuda else None  # type: ignore[no-untyped-call]
        if self._stream is not None:  # What had this memory before is done with it first.
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
        self._thread = threading.Thread(target=self._run, args=(work,), name="ahead", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            with torch.no_grad(), nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
                work()
        except BaseException as error:
            self._error = error

    def wait(self) -> None:
        """Returns when it is over; raises what it raised."""
        self._thread.join()
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
        if self._error is not None:
            raise self._error
