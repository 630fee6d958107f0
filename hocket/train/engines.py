"""Which engine samples a policy that is trained here, as configured."""

from __future__ import annotations

import shutil
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.engine.barrier import Barrier
from hocket.engine.local import LocalEngine
from hocket.engine.remote import EngineJournal
from hocket.engine.requests import Engine
from hocket.policies.batching import batch_together
from hocket.policies.vision import vision_of
from hocket.train.settings import Config, EngineSettings

if TYPE_CHECKING:
    from hocket.engine.server_engine import ServerEngine
    from hocket.engine.vllm_offline import VLLMEngine
    from hocket.policies.causal_lm import CausalLM

SERVERS = ("vllm-server", "sglang-server")
"""Kinds of engines that are servers."""

_ELSEWHERE = ("vllm", *SERVERS)

_OF_KINDS = {
    "python": ("vllm",),
    "dtype": _ELSEWHERE,
    "memory": ("vllm",),
    "compiled": ("vllm",),
    "arguments": ("vllm",),
    "devices": ("vllm",),
    "merged": _ELSEWHERE,
    "sleep": _ELSEWHERE,
    "transfer": ("vllm", "vllm-server"),
    "url": SERVERS,
    "model": SERVERS,
    "folder": SERVERS,
    "timeout": SERVERS,
    "processed": ("vllm-server",),
    "journal": SERVERS,
    "tolerance": _ELSEWHERE,
}
"""Which settings of an engine mean something to which kinds."""


class Engines:
    """Makes the engines of one run's own policies.

    Args:
        config: of the run.
        barrier: shared by all engines of the run.
        journal: of the run.

    Raises:
        ConfigurationError: when the settings of the engine do not fit together.
    """

    def __init__(self, config: Config, barrier: Barrier, journal: EngineJournal | None = None) -> None:
        self._settings = config.engine
        self._barrier = barrier
        self._journal = journal if config.engine.journal else None
        self._served: ServerEngine | None = None
        self._local: list[LocalEngine] = []
        _check(config)

    def of(self, policy: CausalLM) -> Engine:
        """A new engine for a policy; in this process policies on one base sample together.

        Raises:
            ConfigurationError: when there is no such engine here, or it cannot sample this policy.
        """
        kind = self._settings.kind
        if kind == "local":
            return self._beside(policy)
        if vision_of(policy.model) is not None:
            raise ConfigurationError(
                f"engine.kind = {kind}: policy {policy.name!r} reads pictures or sounds, which only the local engine "
                "gives it; use engine.kind = local"
            )
        return self._child(policy) if kind == "vllm" else self._server(policy)

    def _beside(self, policy: CausalLM) -> LocalEngine:
        beside = next((engine for engine in self._local if batch_together(engine.policy, policy)), None)
        settings = {"max_rows": self._settings.max_rows, "drafts": self._settings.drafts}
        self._local.append(LocalEngine(policy, **settings, barrier=self._barrier, beside=beside))
        return self._local[-1]

    def _child(self, policy: CausalLM) -> VLLMEngine:
        from hocket.engine.vllm_offline import ChildSettings, VLLMEngine
        from hocket.engine.vllm_process import find_python

        settings = self._settings
        return VLLMEngine(
            policy,
            stops=policy.stop_ids,
            python=find_python(settings.python),
            settings=ChildSettings(
                dtype=settings.dtype,
                memory=settings.memory,
                compiled=settings.compiled,
                more=settings.arguments,
                devices=",".join(map(str, settings.devices)) or None,
                merged=settings.merged,
                sleeps=settings.sleep,
                handles=settings.transfer == "handles",
            ),
            tolerance=settings.tolerance,
            max_rows=settings.max_rows,
            barrier=self._barrier,
        )

    def _server(self, policy: CausalLM) -> ServerEngine:
        from hocket.engine.dialects import DIALECTS
        from hocket.engine.handover import dtype_for, handover_folder
        from hocket.engine.remote_http import Endpoint
        from hocket.engine.server_engine import ServerEngine, ServerSettings

        settings = self._settings
        urls = addresses(settings)
        names = [settings.model] * len(urls) if settings.model is not None else [_only_model(url) for url in urls]
        folder = handover_folder(policy) if settings.folder is None else Path(settings.folder)
        engine = ServerEngine(
            [
                Endpoint(url, name, concurrency=settings.max_rows, timeout=settings.timeout)
                for url, name in zip(urls, names, strict=True)
            ],
            policy,
            dialect=DIALECTS[settings.kind],
            settings=ServerSettings(
                dtype=settings.dtype or dtype_for(policy),
                folder=folder if self._served is None else folder / policy.name,
                tolerance=settings.tolerance,
                processed=settings.processed,
                merged=settings.merged,
                sleeps=settings.sleep,
                handles=settings.transfer == "handles",
            ),
            stops=policy.stop_ids,
            journal=self._journal,
            barrier=self._barrier,
        )
        if settings.folder is None:
            weakref.finalize(engine, shutil.rmtree, folder, ignore_errors=True)
        if self._served is not None and (engine.rank is None or self._served.rank is None):
            raise ConfigurationError(
                f"engine.kind = {settings.kind}: one server cannot hold both policy {self._served.policy.name!r} and "
                f"{policy.name!r} unless both are adapters; add --lora.rank 16, or use engine.kind = vllm, which "
                "starts a process for each"
            )
        self._served = engine
        return engine


def addresses(settings: EngineSettings) -> list[str]:
    """The addresses of the servers."""
    return [url.strip() for url in (settings.url or "").split(",") if url.strip()]


def _check(config: Config) -> None:
    settings = config.engine
    for name, kinds in _OF_KINDS.items():
        if settings.kind not in kinds and getattr(settings, name) != getattr(EngineSettings(), name):
            raise ConfigurationError(
                f"engine.{name} is for engine.kind {' and '.join(kinds)}, but engine.kind is {settings.kind}; drop one"
            )
    if settings.kind not in SERVERS:
        return
    if not addresses(settings):
        raise ConfigurationError(
            f"engine.kind = {settings.kind} needs engine.url, the server's address up to and with /v1"
        )
    if config.overlap and not config.samplers:
        raise ConfigurationError(
            f"overlap = {config.overlap}: this process and the one that samples would give {settings.kind} weights of "
            "two versions; add --cluster local --samplers 1"
        )
    if settings.kind == "vllm-server" and not settings.processed and config.decoding.temperature != 1.0:
        raise ConfigurationError(
            f"decoding.temperature = {config.decoding.temperature}: a vLLM server gives log-probs at temperature 1 "
            "unless it is started with --logprobs-mode processed_logprobs; do that and set engine.processed true"
        )


def _only_model(url: str) -> str:
    """The name of the only model of a server.

    Raises:
        ConfigurationError: when nobody listens there, or it has several models or does not tell.
    """
    from hocket.engine.remote_http import Endpoint

    try:
        listed = Endpoint(url, "", retries=2).ask("/models", None, Key.of(0))
        names = [str(model["id"]) for model in listed["data"]]
    except ConfigurationError as error:
        raise ConfigurationError(f"engine.url: {error}") from error
    except (HocketError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"engine.url = {url!r} does not list its models ({error}); set engine.model"
        ) from error
    if len(names) != 1:
        raise ConfigurationError(f"engine.url = {url!r} has {len(names)} models; choose by engine.model: {names}")
    return names[0]
