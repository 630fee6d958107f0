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
    from hocket.engine.vllm import VLLMServerEngine
    from hocket.engine.vllm_offline import VLLMEngine
    from hocket.policies.causal_lm import CausalLM

_OF_KINDS = {
    "python": ("vllm",),
    "dtype": ("vllm",),
    "memory": ("vllm",),
    "compiled": ("vllm",),
    "url": ("vllm-server",),
    "model": ("vllm-server",),
    "folder": ("vllm-server",),
    "processed": ("vllm-server",),
    "journal": ("vllm-server",),
    "tolerance": ("vllm", "vllm-server"),
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
        self._served: str | None = None
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
                f"engine.kind = {kind}: policy {policy.name!r} reads pictures, which only the local engine gives it; "
                "use engine.kind = local"
            )
        return self._child(policy) if kind == "vllm" else self._server(policy)

    def _beside(self, policy: CausalLM) -> LocalEngine:
        beside = next((engine for engine in self._local if batch_together(engine.policy, policy)), None)
        settings = {"max_rows": self._settings.max_rows, "drafts": self._settings.drafts}
        self._local.append(LocalEngine(policy, **settings, barrier=self._barrier, beside=beside))
        return self._local[-1]

    def _child(self, policy: CausalLM) -> VLLMEngine:
        from hocket.engine.vllm_offline import ChildSettings, VLLMEngine, find_python

        settings = self._settings
        return VLLMEngine(
            policy,
            stops=policy.stop_ids,
            python=find_python(settings.python),
            settings=ChildSettings(dtype=settings.dtype, memory=settings.memory, compiled=settings.compiled),
            tolerance=settings.tolerance,
            max_rows=settings.max_rows,
            barrier=self._barrier,
        )

    def _server(self, policy: CausalLM) -> VLLMServerEngine:
        from hocket.engine.handover import handover_folder, tolerance_for
        from hocket.engine.remote_http import Endpoint
        from hocket.engine.vllm import VLLMServerEngine

        settings = self._settings
        if self._served is not None:
            raise ConfigurationError(
                f"engine.kind = vllm-server: one server cannot hold both policy {self._served!r} and {policy.name!r}; "
                "use engine.kind = vllm, which starts a process for each"
            )
        self._served = policy.name
        assert settings.url is not None
        name = settings.model if settings.model is not None else _only_model(settings.url)
        folder = Path(settings.folder) if settings.folder is not None else handover_folder(policy)
        engine = VLLMServerEngine(
            Endpoint(settings.url, name, concurrency=settings.max_rows),
            policy,
            folder=folder,
            stops=policy.stop_ids,
            tolerance=tolerance_for(policy) if settings.tolerance is None else settings.tolerance,
            processed=settings.processed,
            journal=self._journal,
            barrier=self._barrier,
        )
        if settings.folder is None:
            weakref.finalize(engine, shutil.rmtree, folder, ignore_errors=True)
        return engine


def _check(config: Config) -> None:
    settings = config.engine
    for name, kinds in _OF_KINDS.items():
        if settings.kind not in kinds and getattr(settings, name) != getattr(EngineSettings(), name):
            raise ConfigurationError(
                f"engine.{name} is for engine.kind {' and '.join(kinds)}, but engine.kind is {settings.kind}; drop one"
            )
    if settings.kind != "local" and config.overlap:
        raise ConfigurationError(f"overlap is for engine.kind local, not for {settings.kind}; drop one of them")
    if settings.kind != "vllm-server":
        return
    if settings.url is None:
        raise ConfigurationError("engine.kind = vllm-server needs engine.url, the server's address up to and with /v1")
    if not settings.processed and config.decoding.temperature != 1.0:
        raise ConfigurationError(
            f"decoding.temperature = {config.decoding.temperature}: a vLLM server tells log-probs at temperature 1 "
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
