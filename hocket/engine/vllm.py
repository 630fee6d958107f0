"""Sampling a policy that is trained here from a vLLM server, which gets its weights anew whenever they change."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save_file

from hocket.engine.lobby import Lobby
from hocket.engine.remote import Journal, RemoteEngine
from hocket.engine.remote_http import Endpoint
from hocket.engine.remote_wire import read_tokens, tokens_body
from hocket.engine.requests import Request
from hocket.errors import ConfigurationError, HocketError
from hocket.evaluating import evaluate_detached
from hocket.packing import pack
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM

_HEAD = "lm_head.weight"
_PROBE = 16


class VLLMServerEngine(RemoteEngine):
    """Samples a `CausalLM` from a vLLM server, always with its current weights, tokens and log-probs exact.

    Before the first request after the policy's `version` has changed, its weights go through a folder that the server
    can read too, and the server reloads them in place. Then log-probs of a fresh sample are compared with the
    policy's own, because a reload that leaves a tensor behind is silent: with tied embeddings vLLM keeps the old
    output head unless the head is written out beside them, as is done here.

    The server must run with `VLLM_SERVER_DEV_MODE=1` (which opens its reload calls to all who reach it), on the model
    that the policy was loaded from, in the same precision.

    Args:
        endpoint: the server, up to and with `/v1`, and its model.
        policy: whose weights are sampled.
        folder: where weights are handed over; overwritten.
        stops: ids that end a response.
        tolerance: the largest gap in nats allowed between the server's log-probs and the policy's. In fp32 it is
            about 1e-5; in bf16 it reaches 0.3.
        processed, journal, lobby: see `RemoteEngine`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        policy: CausalLM,
        *,
        folder: Path,
        stops: Sequence[int],
        tolerance: float = 1e-3,
        processed: bool = False,
        journal: Journal | None = None,
        lobby: Lobby | None = None,
    ) -> None:
        super().__init__(
            endpoint,
            encode=lambda text: policy.tokenizer(text, add_special_tokens=False)["input_ids"],
            tokens=True,
            stops=stops,
            processed=processed,
            journal=journal,
            lobby=lobby,
        )
        if not endpoint.url.rstrip("/").endswith("/v1"):
            raise ConfigurationError(f"endpoint {endpoint.url}: the address of a vLLM server ends with /v1")
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
        return super()._asked(path, body, request)

    def _sync(self, request: Request) -> None:
        """Hands over the weights and checks that the server uses them.

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
        if not self.gap <= self.tolerance:
            raise ConfigurationError(
                f"after the weights were handed over, log-probs of the vLLM server at {self.endpoint.url} differ from "
                f"the policy's by {self.gap:.3g} nats (tolerance {self.tolerance:g}): it uses other weights or another "
                "precision; start it on the policy's model with the same dtype"
            )
        self._synced = self.version = self.policy.version

    def _measured(self, request: Request) -> float:
        """The largest gap between the server's and the policy's log-probs on a fresh sample, nats."""
        probe = Request(request.tokens, Decoding(max_tokens=_PROBE), request.key.derive("probe"))
        body = tokens_body(probe, self.endpoint.model, self._stops)
        answer = read_tokens(self.endpoint.ask("/completions", body, probe.key))
        if answer["tokens"] is None or answer["logp"] is None:
            raise ConfigurationError(
                f"the server at {self.endpoint.url} returns no token ids and log-probs; it must be vLLM 0.10 or later"
            )
        turn = Turn(
            agent=self.policy.name,
            policy=self.policy.name,
            observation=np.array(request.tokens, np.int64),
            action=np.array(answer["tokens"], np.int64),
        )
        batch = pack([Trajectory(Scenario("probe"), [turn])])
        now = evaluate_detached(self.policy, batch, {Quantity.LOGP}, torch.arange(batch.decisions))
        return float((now.logp.double() - torch.tensor(answer["logp"], dtype=torch.float64)).abs().max())


def write_weights(policy: CausalLM, folder: Path) -> None:
    """Writes a model folder for a server: merged weights, without the value head, the output head written out."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.safetensors*"):
        old.unlink()
    policy.save(folder)
    (folder / "value_head.safetensors").unlink(missing_ok=True)
    head = policy.model.get_output_embeddings()
    if not policy.model.config.tie_word_embeddings or head is None:
        return
    save_file({_HEAD: head.weight.detach().cpu().clone()}, folder / "lm_head.safetensors")
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        listed = json.loads(index.read_text())
        listed["weight_map"][_HEAD] = "lm_head.safetensors"
        index.write_text(json.dumps(listed))
