"""`hocket serve`."""

from __future__ import annotations

import argparse
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hocket.apps.serve.addresses import is_loopback
from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.host import ApplicationHost, require
from hocket.core.ending import asked_to_end
from hocket.core.errors import ConfigurationError

LEAST_KEY = 16
"""Characters of a key that other machines can try."""


def serve(
    path: Path,
    options: argparse.Namespace,
    pairs: Sequence[tuple[str, Any]],
    *,
    ready: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
) -> None:
    """Serves the run or model in a folder until a signal asks to end. `ready` is told where, `say` what changes."""
    require()
    keys = _keys(options)
    if not keys and not is_loopback(options.host):
        raise ConfigurationError(
            f"--host {options.host} can be reached from other machines, so a key is required: --key-variable NAME "
            "takes it from the environment (or --key KEY)"
        )
    if not is_loopback(options.host) and any(len(key) < LEAST_KEY for key in keys):
        raise ConfigurationError(
            f"--host {options.host} can be reached from other machines, and a key of fewer than {LEAST_KEY} characters "
            "can be guessed; make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    from hocket.apps.serve.app import build_app
    from hocket.apps.serve.current import CurrentBackend
    from hocket.apps.serve.source import ModelSource

    bounds = Bounds(tokens=options.max_tokens, requests=options.max_requests, body_bytes=options.max_body)
    with _asked_to_end() as end:
        backend = CurrentBackend(
            ModelSource.of(path, pairs, trust=options.trust), bounds=bounds, keys=keys, seed=options.seed, say=say
        )
        try:
            app = functools.partial(build_app, backend, bounds, local_only=not keys)
            with ApplicationHost(app, host=options.host, port=options.port, bounds=bounds) as host:
                told = {"url": f"{host.address}/v1", "models": backend.models(), "weights": backend.weights()}
                ready({**told, "keys": len(keys)})
                end.wait()
        finally:
            backend.close()


def _keys(options: argparse.Namespace) -> list[str]:
    found = list(options.key)
    if options.key_variable is not None:
        key = os.environ.get(options.key_variable, "")
        if not key:
            raise ConfigurationError(f"--key-variable {options.key_variable}: the environment has no such variable")
        found.append(key)
    if any(not key.strip() or not key.isascii() or key != key.strip() for key in found):
        raise ConfigurationError("a key must be ASCII text without space around it")
    return found


@contextmanager
def _asked_to_end() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and SIGHUP set."""
    end = threading.Event()
    with asked_to_end(lambda number: end.set()):
        yield end
