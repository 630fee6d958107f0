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

PASS_BYTES = 2**26
"""The least that Tinker's clients may send at once: their passes hold whole batches."""


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
    from hocket.apps.serve.app import build_app
    from hocket.apps.serve.current import CurrentBackend
    from hocket.apps.serve.source import ModelSource

    bounds = Bounds(tokens=options.max_tokens, requests=options.max_requests, body_bytes=options.max_body)
    with until_asked_to_end() as end:
        backend = CurrentBackend(
            ModelSource.of(path, pairs, trust=options.trust), bounds=bounds, keys=keys, seed=options.seed, say=say
        )
        try:
            app = functools.partial(build_app, backend, bounds, local_only=not keys)
            with ApplicationHost(app, host=options.host, port=options.port, bounds=bounds) as host:
                address = {"url": f"{host.address}/v1", "models": backend.models(), "weights": backend.weights()}
                ready({**address, "keys": len(keys)})
                end.wait()
        finally:
            backend.close()


def serve_tinker(
    options: argparse.Namespace, pairs: Sequence[tuple[str, Any]], *, ready: Callable[[dict[str, Any]], None]
) -> None:
    """Serves Tinker's training API for a run's newest weights or a model, until a signal asks to end."""
    from hocket.apps.serve.tinker.command import TinkerServer
    from hocket.train.models import model_folder

    if pairs:
        raise ConfigurationError(f"--{pairs[0][0]}: clients of --tinker bring their own settings; drop it")
    keys = _keys(options)
    if any(not key.startswith("tml-") for key in keys):
        raise ConfigurationError("Tinker's client sends only keys that begin with tml-; choose such a key")
    where = model_folder(options.run, options.runs)
    name = options.name or (options.run if options.run in ("nano", "smollm2") else Path(where).name or where)
    folder = Path(options.folder or Path(options.runs) / "tinker")
    bounds = Bounds(tokens=options.max_tokens, body_bytes=max(options.max_body, PASS_BYTES), work_seconds=None)
    with until_asked_to_end() as end:
        server = TinkerServer(
            where, name, folder, host=options.host, port=options.port, keys=keys, seed=options.seed, bounds=bounds
        )
        with server:
            ready({"url": server.address, "models": [server.model], "weights": where, "keys": len(keys)})
            end.wait()


def _keys(options: argparse.Namespace) -> list[str]:
    """The keys that callers may send.

    Raises:
        ConfigurationError: when a key is none, or other machines could ask without one or guess it.
    """
    keys = list(options.key)
    if options.key_variable is not None:
        key = os.environ.get(options.key_variable, "")
        if not key:
            raise ConfigurationError(f"--key-variable {options.key_variable}: the environment has no such variable")
        keys.append(key)
    if any(not key.strip() or not key.isascii() or key != key.strip() for key in keys):
        raise ConfigurationError("a key must be ASCII text without space around it")
    if is_loopback(options.host):
        return keys
    if not keys:
        raise ConfigurationError(
            f"--host {options.host} can be reached from other machines, so a key is required: --key-variable NAME "
            "takes it from the environment (or --key KEY)"
        )
    if any(len(key) < LEAST_KEY for key in keys):
        raise ConfigurationError(
            f"--host {options.host} can be reached from other machines, and a key of fewer than {LEAST_KEY} characters "
            "can be guessed; make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return keys


@contextmanager
def until_asked_to_end() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and SIGHUP set."""
    end = threading.Event()
    with asked_to_end(lambda number: end.set()):
        yield end
