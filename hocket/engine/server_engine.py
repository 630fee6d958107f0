"""Sampling of a trained policy from servers, which get the policy's weights whenever they change."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.notices import say
from hocket.engine.barrier import Barrier
from hocket.engine.continuation import joined, lengthened, remainder
from hocket.engine.device_handles import device_handles
from hocket.engine.dialects import Dialect, PartialAnswer
from hocket.engine.handover import (
    Dtype,
    check_gap,
    handed_adapter,
    log_prob_gap,
    probe_of,
    tolerance_for,
    write_weights,
)
from hocket.engine.remote import EngineJournal, RemoteEngine
from hocket.engine.remote_http import Endpoint, EndpointError, RequestsFailed, ServerAbsent, Unfinished
from hocket.engine.requests import ContextFull, Request, ResponseStart, Sample
from hocket.engine.stops import StopStrings
from hocket.policies.lora import save_adapter
from hocket.types import Decoding

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM


class TransferBroken(RequestsFailed):
    """A server took its weights in part, or not at all."""


_BROKEN = 5
"""How often in a row a server may break off an answer before its first token."""


@dataclass(frozen=True)
class ServerSettings:
    """How servers are given weights.

    Attributes:
        dtype: the precision of the servers, in which weights are written.
        folder: of the weights; it is overwritten.
        tolerance: the largest gap in nats allowed between a server's log-probs and the policy's; None takes 1e-3, or
            0.5 if either side computes in bf16.
        processed: the servers' log-probs are already those of the distribution drawn from.
        merged: hands over an adapter merged into the weights instead of as an adapter.
        sleeps: has the servers free their devices while the policy learns.
        handles: hands over the weights by handles to this process's memory of the device, not by files.
    """

    dtype: Dtype
    folder: Path
    tolerance: float | None = None
    processed: bool = False
    merged: bool = False
    sleeps: bool = False
    handles: bool = False


@dataclass(eq=False)
class _Server:
    """One server.

    Attributes:
        questions: where it answers. control: its root, for calls that must not be repeated by themselves.
        synced: the version of the weights that it has. adapter: the name of the adapter that it has.
        lost: it did not answer. under_way: its open requests. recent: the last one.
        context: its longest sequence, once it is needed.
    """

    questions: Endpoint
    control: Endpoint
    synced: int | None = None
    adapter: str | None = None
    asleep: bool = False
    lost: bool = False
    under_way: int = 0
    recent: Request | None = None
    context: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        return self.control.ask(path, body, Key.of(0))


class ServerEngine(RemoteEngine):
    """Samples a `CausalLM` from servers, always with its current weights, tokens and log-probs exact.

    Before a server's first request after a change of the policy's `version`, it is paused and gets the weights: the
    adapter alone if there is one, else all, from a folder that it can read or by handles to memory of the device. Then
    log-probs of a fresh sample are compared with the policy's, because a transfer that misses a tensor is silent: with
    tied embeddings vLLM keeps the old output head unless the head is in the folder, as it is here. A transfer that
    breaks off is repeated once as a whole.

    A request goes to the server with the fewest. If a server does not answer, the others take its requests until the
    weights change.

    The journal's keys contain the version, so other weights answer the same question again. Each sample records the
    versions that wrote it.

    Attributes:
        interrupted: whether unfinished responses go on under new weights; see `renew`.

    Args:
        endpoints: the servers and their model.
        policy: the sampled policy.
        dialect: the kind of servers.
        settings: how they are given weights.
        stops: ids that end a response.
        journal, barrier: see `RemoteEngine`.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        policy: CausalLM,
        *,
        dialect: Dialect,
        settings: ServerSettings,
        stops: Sequence[int],
        journal: EngineJournal | None = None,
        barrier: Barrier | None = None,
    ) -> None:
        super().__init__(
            replace(endpoints[0], exact=True),
            encode=lambda text: policy.tokenizer(text, add_special_tokens=False)["input_ids"],
            tokens=True,
            stops=stops,
            processed=settings.processed,
            journal=journal,
            barrier=barrier,
        )
        self.policy = policy
        self.settings = settings
        self.interrupted = False
        self.max_rows = self.endpoint.concurrency
        self.gap = 0.0
        self.rank = None if settings.merged else handed_adapter(policy)
        self.tolerance = settings.tolerance or tolerance_for(policy, settings.dtype)
        self._dialect = dialect
        self._strings = StopStrings(policy.tokenizer)
        self._servers = [self._server(endpoint) for endpoint in endpoints]
        self._name = f"{policy.name}-{uuid.uuid4().hex[:8]}"
        self._written: int | None = None
        self._writing = threading.Lock()
        self._counting = threading.Lock()
        self._tried = policy.version

    @property
    def context_length(self) -> int | None:
        return self.policy.context_length

    def renew(self) -> None:
        """Gives servers with open requests the policy's weights; these requests are broken off and go on with them."""
        for server in self._servers:
            with server.lock:
                if server.under_way and server.recent is not None and server.synced not in (None, self.policy.version):
                    try:
                        self._sync(server, server.recent)
                    except (ServerAbsent, RequestsFailed) as error:
                        self._leave(server, error)

    def rest(self) -> None:
        """Has the servers free their devices until the next request, if `settings.sleeps`: the policy learns now."""
        for server in self._servers if self.settings.sleeps else ():
            with server.lock:
                if server.synced is None:
                    continue
                level = 1 if self.rank is not None else 2  # Without an adapter all weights are handed over again.
                try:
                    self._dialect.sleep(server.ask, level)
                except (ServerAbsent, RequestsFailed) as error:
                    self._leave(server, error)
                    continue
                server.asleep = True
                server.synced = server.synced if level == 1 else None

    # ------------------------------------------------------------ asking

    def _question(self, request: Request) -> tuple[str, dict[str, Any]]:
        rest = remainder(request, request.decoding.max_tokens)
        return self._dialect.path, self._dialect.question(rest, self.endpoint.model, None, self._stops)

    def _asked(self, path: str, body: dict[str, Any], request: Request) -> dict[str, Any]:
        begun, broken = request.begun, 0
        while True:
            server = self._chosen()
            try:
                version, part = self._part(server, replace(request, begun=begun))
            except (ServerAbsent, RequestsFailed) as error:
                if not self._leave(server, error):
                    return self._failed(error)
                continue
            except ContextFull as full:
                return {"full": str(full), "version": self.policy.version}
            except ConfigurationError:
                raise
            except HocketError as error:
                return self._failed(error)
            finally:
                with self._counting:
                    server.under_way -= 1
            self._worked = True
            if part.finish is not None and version != server.synced:
                continue  # Weights changed meanwhile, and nothing tells which ones wrote it.
            if part.finish is not None:
                outcome: dict[str, Any] = {"answer": part.answer, "version": version}
                return outcome if begun is request.begun else outcome | {"begun": _plain(begun)}
            tokens, logp = part.answer["tokens"], part.answer["logp"]
            broken = 0 if tokens else broken + 1
            if broken > _BROKEN:
                return self._failed(EndpointError(f"{server.questions.url} broke an answer off {broken} times"))
            if tokens and logp and not request.prefix and self._tells_logp(request.decoding):
                begun = lengthened(begun, tokens, logp, version)

    def _failed(self, error: HocketError) -> dict[str, Any]:
        if isinstance(error, (ServerAbsent, TransferBroken)) or not self._worked:  # No episode could succeed.
            raise error if isinstance(error, ConfigurationError) else ConfigurationError(str(error)) from error
        return {"failure": str(error), "version": self.policy.version}

    def _part(self, server: _Server, request: Request) -> tuple[int, PartialAnswer]:
        """What a server answers to the rest of a request, and the version of the weights that it had at the start."""
        with server.lock:
            if server.synced != self.policy.version:
                self._sync(server, request)
            version, adapter, server.recent = self.policy.version, server.adapter, request
        rest = remainder(request, request.decoding.max_tokens)
        return version, self._answer(server, rest, adapter, whole=not self.interrupted)

    def _answer(self, server: _Server, rest: Request, adapter: str | None, *, whole: bool) -> PartialAnswer:
        body = self._dialect.question(rest, server.questions.model, adapter, self._stops)

        def understand(document: Any) -> PartialAnswer:
            if not whole:
                part = self._dialect.read_part(document)
            else:
                answer = self._dialect.read(document)
                part = PartialAnswer(answer, answer["finish"])
            if part.finish is not None and part.answer["tokens"] == []:
                raise Unfinished("the server's answer is empty")
            return part

        part = server.questions.read(self._dialect.path, body, rest.key, understand)
        self._check(server, rest, part)
        return part

    def _check(self, server: _Server, rest: Request, part: PartialAnswer) -> None:
        """Refuses answers that end by a setting of the server's own.

        Raises:
            ConfigurationError: naming it.
        """
        tokens, where = part.answer["tokens"], server.questions.url
        if part.finish is None and not tokens:
            return
        if tokens is None or part.answer["logp"] is None:
            needs = "it must be vLLM 0.10 or later" if self._dialect.name == "vLLM" else "it must be SGLang"
            raise ConfigurationError(f"the server at {where} returns no token ids and log-probs; {needs}")
        wanted = rest.decoding.max_tokens - len(rest.prefix)
        fix = "start it with --generation-config vllm" if self._dialect.name == "vLLM" else "correct its settings"
        if part.finish == "length" and len(tokens) != wanted:
            length = len(rest.tokens) + len(rest.prefix) + len(tokens)
            if len(tokens) > wanted or length < self._context(server):
                raise ConfigurationError(
                    f"the server at {where} ended an answer after {len(tokens)} of {wanted} tokens, although its "
                    "context had room: it has a limit of its own, as from max_new_tokens of its model's "
                    f"generation_config; {fix}"
                )
        if part.finish == "stop" and not rest.decoding.stop and tokens[-1] not in self._stops:
            raise ConfigurationError(
                f"the server at {where} ended an answer at token {tokens[-1]}, which ends no response of this run: "
                f"it has a stop of its own, as from its model's generation_config; {fix}"
            )

    def _context(self, server: _Server) -> int:
        """The longest sequence of a server, by its own word or the policy's."""
        if server.context is None:
            listed = server.control.ask("/v1/models", None, Key.of(0))
            limits = [model.get("max_model_len") for model in listed.get("data", ()) if isinstance(model, Mapping)]
            lengths = [length for length in (*limits, self.policy.context_length) if isinstance(length, int)]
            server.context = min(lengths, default=2**62)
        return server.context

    # ------------------------------------------------------------ choosing

    def _server(self, endpoint: Endpoint) -> _Server:
        root = endpoint.url.rstrip("/").removesuffix("/v1")
        if not endpoint.url.rstrip("/").endswith("/v1"):
            raise ConfigurationError(
                f"endpoint {endpoint.url}: the address of a {self._dialect.name} server must end with /v1"
            )
        questions = replace(endpoint, exact=True, url=endpoint.url if self._dialect.versioned else root)
        return _Server(questions, replace(endpoint, url=root, retries=0))

    def _chosen(self) -> _Server:
        """The server for the next request, which counts as under way there."""
        with self._counting:
            if self._tried != self.policy.version:
                self._tried = self.policy.version
                for server in self._servers:
                    server.lost = False
            live = [server for server in self._servers if not server.lost] or self._servers
            server = min(live, key=lambda server: server.under_way)
            server.under_way += 1
            return server

    def _leave(self, server: _Server, error: HocketError) -> bool:
        """Asks a server no more until the weights change; whether another one is left."""
        with self._counting:
            fresh, server.lost, server.synced = not server.lost, True, None
            left = any(not each.lost for each in self._servers)
        if fresh and left:
            say(f"{error}; the other servers take its requests until the weights change")
        return left

    # ------------------------------------------------------------ weights

    def _sync(self, server: _Server, request: Request) -> None:
        """Hands the weights over and checks with a request that the server uses them. Its lock is held.

        Raises:
            ConfigurationError: when the server does not let its weights be changed, or uses others afterwards.
            TransferBroken: when the transfer broke off twice.
        """
        where = f"the {self._dialect.name} server at {server.questions.url}"
        try:
            self._transfer(server)
        except (ServerAbsent, ContextFull):
            raise
        except EndpointError as error:
            say(f"a transfer of weights broke off ({error}); it is repeated")
            try:
                self._transfer(server)
            except EndpointError as again:
                server.synced = None
                raise TransferBroken(
                    f"{where} did not take new weights, twice ({again}); it may hold a part of them and is left "
                    "paused: restart it and resume the run"
                ) from again
        except ConfigurationError as error:
            raise ConfigurationError(f"{where} did not take new weights ({error}); {self._dialect.start}") from error
        self.gap = self._measured(server, request)
        check_gap(self.gap, self.tolerance, where, "start it on the policy's model with the same dtype")
        server.synced = self.version = self.policy.version

    def _transfer(self, server: _Server) -> None:
        dialect, ask, version = self._dialect, server.ask, self.policy.version
        if server.asleep:
            dialect.wake(ask, "weights")
        pauses = self.rank is None or self.interrupted  # Another adapter has another name.
        if pauses:
            dialect.pause(ask, abort=self.interrupted)
        if self.rank is not None:
            name = f"{self._name}-{version}"
            if server.adapter != name:
                dialect.adapt(ask, name, str(self._folder()), server.adapter)
                server.adapter = name
        elif self.settings.handles:
            with device_handles(self.policy, self.settings.dtype) as update:
                dialect.hand(ask, update, version)
        else:
            dialect.load(ask, str(self._folder()), version)
        if server.asleep:
            dialect.wake(ask, "kv_cache")
            server.asleep = False
        if pauses:
            dialect.resume(ask)

    def _folder(self) -> Path:
        """The folder with the present weights, or the present adapter."""
        folder = self.settings.folder.resolve()
        with self._writing:
            if self._written != self.policy.version:
                if self.rank is None:
                    write_weights(self.policy, folder, self.settings.dtype)
                else:
                    with self.policy.residence.whole():
                        save_adapter(self.policy.model, folder)
                self._written = self.policy.version
        return folder

    def _measured(self, server: _Server, request: Request) -> float:
        """The largest gap between the server's and the policy's log-probs on a fresh sample, nats."""
        probe = probe_of(request)
        answer = self._answer(server, probe, server.adapter, whole=True).answer
        tokens, logp = answer["tokens"], answer["logp"]
        assert tokens is not None
        assert logp is not None
        return log_prob_gap(self.policy, probe.tokens, tokens, logp)

    # ------------------------------------------------------------ remembering and understanding

    def _kept(self, entry: str) -> dict[str, Any] | None:
        return super()._kept(f"{entry}@{self.policy.version}")

    def _keep(self, entry: str, outcome: dict[str, Any]) -> None:
        super()._keep(f"{entry}@{outcome['version']}", outcome)

    def _tells_logp(self, decoding: Decoding) -> bool:
        return self._dialect.tells_logp(decoding, processed=self.settings.processed)

    def _sample(self, request: Request, outcome: dict[str, Any]) -> Sample:
        if "begun" in outcome:
            tokens, logp, version = outcome["begun"]
            begun = ResponseStart(np.array(tokens, np.int64), np.array(logp, np.float32), np.array(version, np.int64))
            request = replace(request, begun=begun)
        rest = super()._sample(remainder(request, request.decoding.max_tokens), outcome)
        return joined(request, replace(rest, version=outcome["version"]), self._strings)


def _plain(begun: ResponseStart | None) -> list[list[Any]]:
    """The beginning of a response as plain data, for the journal."""
    assert begun is not None
    return [begun.tokens.tolist(), begun.logp.tolist(), begun.version.tolist()]
