"""Sampling of a trained policy from a vLLM server, which gets the policy's weights whenever they change."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hocket.core.errors import ConfigurationError, HocketError
from hocket.engine.barrier import Barrier
from hocket.engine.handover import FP32, check_gap, log_prob_gap, probe_of, write_weights
from hocket.engine.remote import EngineJournal, RemoteEngine
from hocket.engine.remote_http import Endpoint
from hocket.engine.remote_wire import read_tokens, tokens_body
from hocket.engine.requests import Request, Sample

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM


class VLLMServerEngine(RemoteEngine):
    """Samples a `CausalLM` from a vLLM server, always with its current weights, tokens and log-probs exact.

    Before the first request after a change of the policy's `version`, the weights are written to a folder that the
    server can read, and the server reloads them in place. Then log-probs of a fresh sample are compared with the
    policy's, because a reload that misses a tensor is silent: with tied embeddings vLLM keeps the old output head
    unless the head is in the folder, as it is here.

    The journal's keys contain the version, so other weights answer the same question again. Each sample records the
    version that wrote it.

    The server must run with `VLLM_SERVER_DEV_MODE=1` (which opens its reload calls to everyone who can reach it), on
    the model from which the policy was loaded, in the same precision.

    Args:
        endpoint: the server, up to and with `/v1`, and its model.
        policy: the sampled policy.
        folder: the folder of the weights; it is overwritten.
        stops: ids that end a response.
        tolerance: the largest gap in nats allowed between the server's log-probs and the policy's. In fp32 it is
            about 1e-5; in bf16 it reaches 0.3.
        processed, journal, barrier: see `RemoteEngine`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        policy: CausalLM,
        *,
        folder: Path,
        stops: Sequence[int],
        tolerance: float = FP32,
        processed: bool = False,
        journal: EngineJournal | None = None,
        barrier: Barrier | None = None,
    ) -> None:
        super().__init__(
            replace(endpoint, exact=True),
            encode=lambda text: policy.tokenizer(text, add_special_tokens=False)["input_ids"],
            tokens=True,
            stops=stops,
            processed=processed,
            journal=journal,
            barrier=barrier,
        )
        if not endpoint.url.rstrip("/").endswith("/v1"):
            raise ConfigurationError(f"endpoint {endpoint.url}: the address of a vLLM server must end with /v1")
        self.policy = policy
        self.folder = folder
        self.tolerance = tolerance
        self.gap = 0.0
        self._control = replace(endpoint, url=endpoint.url.rstrip("/").removesuffix("/v1"))
        self._synced: int | None = None
        self._syncing = threading.Lock()

    def _asked(self, path: str, body: dict[str, Any], request: Request) -> dict[str, Any]:
        with self._syncing:
            if self._synced != self.policy.version:
                self._sync(request)
            version = self.version
        return {**super()._asked(path, body, request), "version": version}

    def _kept(self, entry: str) -> dict[str, Any] | None:
        return super()._kept(f"{entry}@{self.policy.version}")

    def _keep(self, entry: str, outcome: dict[str, Any]) -> None:
        super()._keep(f"{entry}@{outcome['version']}", outcome)

    def _sample(self, request: Request, outcome: dict[str, Any]) -> Sample:
        return replace(super()._sample(request, outcome), version=outcome["version"])

    def _sync(self, request: Request) -> None:
        """Sends the weights and checks that the server uses them.

        Raises:
            ConfigurationError: when the server does not let its weights be changed, or uses others afterwards.
        """
        write_weights(self.policy, self.folder)
        reload = {"method": "reload_weights", "kwargs": {"weights_path": str(self.folder.resolve())}}
        try:
            self._control.ask("/collective_rpc", reload, request.key)
            self._control.ask("/reset_prefix_cache", {}, request.key)
        except HocketError as error:
            raise ConfigurationError(
                f"the vLLM server at {self.endpoint.url} did not take new weights ({error}); start it with "
                "VLLM_SERVER_DEV_MODE=1 and let it read the folder of the weights"
            ) from error
        self.gap = self._measured(request)
        fix = "start it on the policy's model with the same dtype"
        check_gap(self.gap, self.tolerance, f"the vLLM server at {self.endpoint.url}", fix)
        self._synced = self.version = self.policy.version

    def _measured(self, request: Request) -> float:
        """The largest gap between the server's and the policy's log-probs on a fresh sample, nats."""
        probe = probe_of(request)
        body = tokens_body(probe, self.endpoint.model, self._stops)
        answer = self.endpoint.read("/completions", body, probe.key, read_tokens)
        if answer["tokens"] is None or answer["logp"] is None:
            raise ConfigurationError(
                f"the server at {self.endpoint.url} returns no token ids and log-probs; it must be vLLM 0.10 or later"
            )
        return log_prob_gap(self.policy, probe.tokens, answer["tokens"], answer["logp"])
