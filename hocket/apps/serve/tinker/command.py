"""`hocket serve MODEL --tinker`."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.host import ApplicationHost, require
from hocket.core.errors import ConfigurationError


class TinkerServer:
    """Serves a model by Tinker's API from when it is made until `close`.

    Attributes:
        address: `http://HOST:PORT`, what `TINKER_BASE_URL` should be. model: by which name clients ask for it.

    Args:
        where, name: the base model's folder, and its name.
        folder: for checkpoints.
        keys: one of which a client must send; with none, clients of this machine need no key.

    Raises:
        ConfigurationError: when a package is missing, the model is unfit or the address cannot be had.
    """

    def __init__(
        self,
        where: str,
        name: str,
        folder: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        keys: Sequence[str] = (),
        seed: int = 0,
        bounds: Bounds | None = None,
    ) -> None:
        require_tinker()
        from hocket.apps.serve.tinker.app import build_app
        from hocket.apps.serve.tinker.service import TinkerService

        self.model = name
        bounds = bounds or Bounds(body_bytes=2**26)
        service = TinkerService(where, name, folder, seed=seed, most_tokens=bounds.tokens)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hocket-tinker", daemon=True)
        self._thread.start()
        app = functools.partial(build_app, service, self._loop, bounds, keys=keys)
        self._host = ApplicationHost(app, host=host, port=port, bounds=bounds)
        self.address = self._host.address

    def close(self) -> None:
        """Stops listening and ends what computes."""
        self._host.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def require_tinker() -> None:
    """Raises `ConfigurationError` unless the extra is installed."""
    require()
    try:
        import tinker.proto.tinker_public_pb2
    except ImportError as error:
        raise ConfigurationError(f"--tinker needs {error.name}: pip install 'hocket[tinker]'") from error
    del tinker
