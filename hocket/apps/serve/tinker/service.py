"""What stands behind Tinker's API: sessions, their training models, and futures of what they fields for."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hocket.agents.workflows.chat import Chat
from hocket.apps.serve.prompt_scores import score_prompts
from hocket.apps.serve.refusals import Refusal
from hocket.apps.serve.tinker import bodies, wire
from hocket.apps.serve.tinker.checkpoints import CheckpointFolder, Room
from hocket.apps.serve.tinker.samplers import SamplerPool, SamplerWeights, adapted_policy
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.engine.requests import Request
from hocket.policies.causal_lm import CausalLM
from hocket.policies.lora import save_adapter
from hocket.policies.settings import LoraSettings
from hocket.policies.shapes import text_config
from hocket.policies.shared_base import SharedBaseCache
from hocket.train.training_engine import TrainingEngine, check_tokens
from hocket.types import Decoding

_LOG = logging.getLogger("hocket.apps.serve")

ALPHA = 32.0
"""Tinker's scale of an adapter's update, over its rank."""

SILENT_SECONDS = 600.0
"""After so long without a sign of life a session ends; its clients send one every ten seconds."""

KEPT_ANSWERS = 4096
KEPT_SNAPSHOTS = 16
"""Of a model: weights without a name that can still be sampled from."""


class Failed(HocketError):
    """A request that failed; `category` is the protocol's: whose fault it was."""

    def __init__(self, message: str, category: str) -> None:
        super().__init__(message)
        self.category = category


@dataclass(frozen=True)
class RequestAnswer:
    """What a request came to: a protocol buffer, or JSON."""

    proto: bytes | None = None
    document: Mapping[str, Any] | None = None


@dataclass(eq=False)
class _Tenant:
    """A training model of a client."""

    model: str
    engine: TrainingEngine
    lora: LoraSettings
    order: asyncio.Lock = field(default_factory=asyncio.Lock)
    saves: int = 0
    snapshots: dict[str, SamplerWeights] = field(default_factory=dict)
    named: float = field(default_factory=time.time)


class TinkerService:
    """Answers the protocol's requests. All methods run in one event loop, in which the models compute.

    Args:
        where, name: the base model: its folder, and what clients call it.
        folder: for checkpoints.
        seed: of samples whose request has none.
        most_tokens: of a sample that names no limit.
    """

    def __init__(self, where: str, name: str, folder: Path, *, seed: int = 0, most_tokens: int = 1024) -> None:
        self.where, self.name = where, name
        self._most = most_tokens
        self._key = Key.of(seed).derive("tinker")
        self._base_cache = SharedBaseCache()
        self._plain = LoraSettings(rank=1, alpha=ALPHA)
        probe = adapted_policy(where, self._plain, self._key, self._base_cache, "base")
        self.context = probe.context_length
        sizes = text_config(probe.model.config)
        self._widest, self._words = int(sizes.hidden_size), int(sizes.vocab_size)
        self._stops = Chat(probe.tokenizer).stops
        self._stop_ids = frozenset({*self._stops, *probe.stop_ids})
        self._pool = SamplerPool(where, self._base_cache, self._stops)
        self._files = CheckpointFolder(folder, name)
        self._tenants: dict[str, _Tenant] = {}
        self._sessions: dict[str, float] = {}
        self._samplers: dict[str, SamplerWeights] = {}
        self._answers: dict[str, asyncio.Task[RequestAnswer]] = {}
        self._numbers = itertools.count(1)
        self._tokenizer = probe.tokenizer

    # ------------------------------------------------------------ sessions and what is known of them

    def capabilities(self) -> Mapping[str, Any]:
        about = {"model_name": self.name, "max_context_length": self.context, "trainable": True, "sampleable": True}
        return {"supported_models": [about]}

    def open_session(self) -> Mapping[str, Any]:
        self._sweep()
        names = (f"session-{self._key.derive('session', number).word:016x}" for number in self._numbers)
        session = next(name for name in names if not self._files.holds(name))
        self._sessions[session] = time.monotonic()
        return {"type": "create_session", "session_id": session}

    def heartbeat(self, session: str) -> Mapping[str, Any]:
        self._alive(session)
        self._sessions[session] = time.monotonic()
        return {"type": "session_heartbeat"}

    def finish(self, session: str) -> Mapping[str, Any]:
        """Ends a session: its models are unloaded, what they saved stays."""
        self._sessions.pop(session, None)
        for model in [model for model in self._tenants if model.startswith(f"{session}:")]:
            del self._tenants[model]
        for sampler in [sampler for sampler in self._samplers if sampler.startswith(f"{session}:")]:
            del self._samplers[sampler]
        return {}

    def info(self, model: str) -> Mapping[str, Any]:
        tenant = self._tenant(model)
        data = {"arch": self._architecture(tenant), "model_name": self.name, "tokenizer_id": self.where}
        about = {"model_id": model, "is_lora": True, "lora_rank": tenant.lora.rank, "model_name": self.name}
        return {"type": "get_info", "model_data": data, **about}

    def weights_info(self, address: str) -> Mapping[str, Any]:
        _, lora = self._files.find(address)
        parts = lora.targets or ("attn", "mlp")
        trained = {f"train_{part}": any(part in target for target in parts) for part in ("attn", "mlp")}
        return {"base_model": self.name, "is_lora": True, "lora_rank": lora.rank, "train_unembed": False, **trained}

    def training_run(self, model: str) -> Mapping[str, Any]:
        tenant = self._tenants.get(model)
        saved = self.checkpoints(model)
        if tenant is None and not saved:
            raise Refusal(404, f"there is no training run {model!r}", code="not_found")
        latest = {
            kind: [entry for entry in saved if entry["checkpoint_type"] == kind] for kind in ("training", "sampler")
        }
        return {
            "training_run_id": model,
            "base_model": self.name,
            "model_owner": "local",
            "is_lora": True,
            "lora_rank": None if tenant is None else tenant.lora.rank,
            "last_request_time": _moment(time.time() if tenant is None else tenant.named),
            "last_checkpoint": latest["training"][-1] if latest["training"] else None,
            "last_sampler_checkpoint": latest["sampler"][-1] if latest["sampler"] else None,
        }

    def checkpoints(self, model: str) -> list[Mapping[str, Any]]:
        kinds = {"weights": "training", "sampler_weights": "sampler"}
        return [
            {
                "checkpoint_id": f"{room}/{name}",
                "checkpoint_type": kinds[room],
                "time": _moment(folder.stat().st_mtime),
                "tinker_path": f"tinker://{model}/{room}/{name}",
                "size_bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
            }
            for room, name, folder in self._files.names(model)
        ]

    # ------------------------------------------------------------ training

    def create(self, body: bodies.CreateModel) -> str:
        """Begins to make a training model; the id of the request."""
        self._alive(body.session_id)
        self._check_base(body.base_model)
        shape = body.lora_config or bodies.LoraConfig()
        parts = {"attn": shape.train_attn, "mlp": shape.train_mlp}
        targets = None if all(parts.values()) else tuple(f"*{part}*" for part, on in parts.items() if on)
        if targets == ():
            raise Refusal(422, "train_attn and train_mlp are both off: nothing would be trained", code="bad_lora")
        if shape.rank > self._widest:
            words = f"rank is {shape.rank}, and the layers are {self._widest} wide: ask for less"
            raise Refusal(422, words, code="bad_lora")
        model = f"{body.session_id}:train:{body.model_seq_id}"
        lora = LoraSettings(rank=shape.rank, alpha=ALPHA, targets=targets)

        async def work() -> RequestAnswer:
            self._add(model, lora, body.model_seq_id if shape.seed is None else shape.seed)
            return RequestAnswer(document={"model_id": model, "type": "create_model"})

        return self._begin(f"{model}:create", work)

    def load(self, body: bodies.LoadWeights) -> str:
        """Begins to read weights back, into a model or a new one; the id of the request."""
        number = body.seq_id if body.session_id is None else body.model_seq_id
        if number is None:
            raise Refusal(422, "send seq_id with model_id, or model_seq_id with session_id", code="bad_request")
        if body.session_id is not None:
            return self._create_from(body, body.session_id, number)
        tenant = self._tenant(body.model_id or "")

        async def work() -> RequestAnswer:
            folder, lora = self._files.find(body.path)
            if lora != tenant.lora:
                raise Failed(f"{body.path} holds an adapter of another shape than {tenant.model}", "user")
            tenant.engine.load(folder, optimiser=body.optimizer)
            return _loaded(tenant.model, body.path)

        return self._in_turn(tenant, number, work)

    def _create_from(self, body: bodies.LoadWeights, session: str, number: int) -> str:
        self._alive(session)
        model = f"{session}:train:{number}"
        folder, lora = self._files.find(body.path)

        async def work() -> RequestAnswer:
            self._add(model, lora, number).engine.load(folder, optimiser=body.optimizer)
            return _loaded(model, body.path)

        return self._begin(f"{model}:create", work)

    def unload(self, model: str) -> str:
        """Lets go of a training model; the id of the request."""
        self._tenants.pop(model, None)

        async def work() -> RequestAnswer:
            return RequestAnswer(document={"model_id": model, "type": "unload_model"})

        return self._begin(f"{model}:unload", work)

    def train(self, request: wire.TrainingPass) -> str:
        """Begins a pass over examples; the id of the request."""
        tenant = self._tenant(request.model)

        async def work() -> RequestAnswer:
            engine = tenant.engine
            if request.forward_only:
                return RequestAnswer(proto=wire.written_pass(engine.forward(request.examples, request.loss)))
            return RequestAnswer(proto=wire.written_pass(engine.forward_backward(request.examples, request.loss)))

        return self._in_turn(tenant, request.number, work)

    def step(self, body: bodies.OptimStep) -> str:
        """Begins a step of AdamW; the id of the request. A number that is not finite is left out of its metrics."""
        tenant, adam = self._tenant(body.model_id), body.adam_params

        async def work() -> RequestAnswer:
            metrics = tenant.engine.step(
                adam.learning_rate,
                betas=(adam.beta1, adam.beta2),
                eps=adam.eps,
                weight_decay=adam.weight_decay,
                clip_norm=adam.grad_clip_norm or None,
            )
            finite = {name.replace("/", "_"): value for name, value in metrics.items() if math.isfinite(value)}
            return RequestAnswer(document={"metrics": finite})

        return self._in_turn(tenant, body.seq_id, work)

    def save(self, body: bodies.SaveWeights) -> str:
        """Begins to write weights and the optimiser's state; the id of the request."""
        tenant, name = self._tenant(body.model_id), body.path or f"step-{body.seq_id}"

        async def work() -> RequestAnswer:
            address = self._write(tenant, "weights", name, body.user_metadata, overwrite=body.overwrite)
            return RequestAnswer(document={"path": address, "type": "save_weights"})

        return self._in_turn(tenant, body.seq_id, work)

    def save_for_sampler(self, body: bodies.SaveWeightsForSampler) -> str:
        """Begins to keep weights to sample from: under a name on disk, or in memory; the id of the request."""
        tenant = self._tenant(body.model_id)
        session, place = tenant.model.partition(":")[0], body.sampling_session_seq_id

        async def work() -> RequestAnswer:
            if body.path is not None:
                address = self._write(tenant, "sampler_weights", body.path, body.user_metadata)
                return RequestAnswer(document={"path": address, "type": "save_weights_for_sampler"})
            tenant.saves += 1
            weights = SamplerWeights.of(f"{tenant.model}:{tenant.saves}", tenant.lora, tenant.engine.policy)
            sampler = f"{session}:sample:{place if place is not None else f'{tenant.model}-{tenant.saves}'}"
            self._samplers[sampler] = tenant.snapshots[sampler] = weights
            while len(tenant.snapshots) > KEPT_SNAPSHOTS:
                oldest = next(iter(tenant.snapshots))
                del tenant.snapshots[oldest], self._samplers[oldest]
            return RequestAnswer(document={"sampling_session_id": sampler, "type": "save_weights_for_sampler"})

        return self._in_turn(tenant, body.seq_id, work)

    # ------------------------------------------------------------ sampling

    def open_sampler(self, body: bodies.CreateSamplingSession) -> Mapping[str, Any]:
        """A sampler of the base, or of a checkpoint."""
        self._alive(body.session_id)
        sampler = f"{body.session_id}:sample:{body.sampling_session_seq_id}"
        if body.model_path is not None:
            folder, lora = self._files.find(body.model_path)
            self._samplers[sampler] = SamplerWeights(body.model_path, lora, folder=folder)
        else:
            self._check_base(body.base_model or "")
            self._samplers[sampler] = SamplerWeights("base", self._plain)
        return {"type": "create_sampling_session", "sampling_session_id": sampler}

    def sampler_info(self, sampler: str) -> Mapping[str, Any]:
        weights = self._sampler(sampler)
        address = weights.name if weights.folder is not None else None
        return {"sampler_id": sampler, "base_model": self.name, "model_path": address}

    def sample(self, body: bodies.SampleBody) -> Mapping[str, Any]:
        """Begins to sample; the id of the request, and ids of its sequences."""
        sampler = body.sampling_session_id
        weights, prompt = self._sampler(sampler), wire.tokens_of(body.prompt)
        # One that the model cannot read would take with it the answers of others in its batch.
        check_tokens(prompt, self._words)
        unserved = {
            "topk_sample_logprobs": body.topk_sample_logprobs,
            "prompt_alt_tokens_k": body.prompt_alt_tokens_k,
            "target_prompt_logprobs": body.target_prompt_logprobs is not None,
        }
        refused = next((name for name, wanted in unserved.items() if wanted), None)
        if refused is not None:
            raise Refusal(422, f"{refused} is not served here", code="bad_request")
        name = f"{sampler}:{next(self._numbers) if body.seq_id is None else body.seq_id}"
        seed = body.sampling_params.seed
        key = self._key.derive(name) if seed is None else self._key.derive("seed", seed)
        decoding = self._decoding(body.sampling_params)

        async def work() -> RequestAnswer:
            requests = [Request(prompt, decoding, key.derive(sample)) for sample in range(body.num_samples)]
            samples = await self._pool.sample(weights, requests)
            scored = await self._scored(weights, prompt, body)
            return RequestAnswer(proto=wire.written_samples(samples, *scored))

        sequences = [f"{name}:{sample}" for sample in range(body.num_samples)]
        return {"request_id": self._begin(name, work), "sample_sequence_ids": sequences}

    async def _scored(self, weights: SamplerWeights, prompt: tuple[int, ...], body: bodies.SampleBody) -> Any:
        """Log-probs of the prompt, and its likeliest tokens, where they are asked for."""
        top, last = body.topk_prompt_logprobs, body.prompt_logprobs_last_n
        if not (body.prompt_logprobs or top):
            return None, None
        async with self._pool.policy(weights) as slot:
            logp, best = _read(slot.policy, prompt, top)
        if last is not None:
            logp[: max(0, len(logp) - last)] = np.nan
        return logp, best

    # ------------------------------------------------------------ futures

    async def result(self, request: str, seconds: float) -> RequestAnswer | None:
        """What a request came to, None if that is not known within `seconds`.

        Raises:
            Refusal: when there is no such request.
            Failed: when it failed.
        """
        task = self._answers.get(request)
        if task is None:
            raise Refusal(410, f"there is no request {request!r}, or its answer is no longer kept", code="gone")
        done, _ = await asyncio.wait([task], timeout=seconds)
        return task.result() if done else None

    def cancel(self, request: str) -> Mapping[str, Any]:
        """Gives a sample up that nobody waits for."""
        task = self._answers.pop(request, None)
        if task is not None:
            task.cancel()
        return {}

    def _begin(self, request: str, work: Callable[[], Awaitable[RequestAnswer]]) -> str:
        """Begins a request; one that is sent again is the same one."""
        if request not in self._answers:
            task = asyncio.get_running_loop().create_task(_careful(work))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # Raised for whoever asks.
            self._answers[request] = task
            ended = [name for name, task in self._answers.items() if task.done()]
            for name in ended[: max(0, len(ended) - KEPT_ANSWERS)]:
                del self._answers[name]
        return request

    def _in_turn(self, tenant: _Tenant, number: int, work: Callable[[], Awaitable[RequestAnswer]]) -> str:
        """A request of a model, after its earlier ones; a failed one changes nothing of the model."""

        async def turn() -> RequestAnswer:
            async with tenant.order:  # Fair: in the order of arrival, which is that of the numbers.
                await asyncio.sleep(0)
                return await work()

        tenant.named = time.time()
        return self._begin(f"{tenant.model}:{number}", turn)

    # ------------------------------------------------------------ small things

    def _add(self, model: str, lora: LoraSettings, seed: int) -> _Tenant:
        policy = adapted_policy(self.where, lora, self._key.derive("adapter", seed), self._base_cache, "policy")
        policy.end_of_turn = tuple(self._stops)
        self._tenants[model] = _Tenant(model, TrainingEngine(policy), lora)
        return self._tenants[model]

    def _write(
        self, tenant: _Tenant, room: Room, name: str, metadata: Mapping[str, Any] | None, *, overwrite: bool = False
    ) -> str:
        """Writes a checkpoint beside its place and moves it there, so that a broken one is never found."""
        address, folder = self._files.place(tenant.model, room, name, overwrite=overwrite)
        unfinished = folder.with_name(f".{name}.tmp")
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            if room == "weights":
                tenant.engine.save(unfinished)
            else:
                save_adapter(tenant.engine.policy.model, unfinished / "adapter")
            self._files.describe(unfinished, tenant.lora, metadata)
            shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)
        except OSError as error:
            raise Failed(
                f"the checkpoint {address} could not be written: {error.strerror or error}", "server"
            ) from None
        return address

    def _decoding(self, asked: bodies.SamplingParams) -> Decoding:
        return Decoding(
            temperature=asked.temperature,
            top_k=asked.top_k if asked.top_k > 0 else None,
            top_p=asked.top_p,
            max_tokens=self._most if asked.max_tokens is None else asked.max_tokens,
            stop=self._stop_strings(asked.stop),
        )

    def _stop_strings(self, stop: str | list[str | int] | None) -> tuple[str, ...]:
        """Stops as texts. The tokens that end a turn always end a sample."""
        if stop is None:
            return ()
        if stop == []:
            raise Refusal(422, "stop = [] switches the end of text off, which is not served here", code="bad_request")
        stops = [stop] if isinstance(stop, str) else [item for item in stop if item not in self._stop_ids]
        check_tokens([item for item in stops if isinstance(item, int)], self._words)
        return tuple(item if isinstance(item, str) else self._tokenizer.decode([item]) for item in stops)

    def _check_base(self, base: str) -> None:
        if base not in (self.name, self.where):
            raise Refusal(404, f"there is no model {base!r}; this server has {self.name!r}", code="model_not_found")

    def _alive(self, session: str) -> None:
        if session not in self._sessions:
            raise Refusal(410, f"the session {session!r} has ended, or never was", code="session_ended")

    def _sweep(self) -> None:
        """Ends sessions whose clients have gone away."""
        late = time.monotonic() - SILENT_SECONDS
        for session in [session for session, heard in self._sessions.items() if heard < late]:
            self.finish(session)

    def _tenant(self, model: str) -> _Tenant:
        if model not in self._tenants:
            raise Refusal(404, f"there is no model {model!r}; create it first", code="model_not_found")
        return self._tenants[model]

    def _sampler(self, sampler: str) -> SamplerWeights:
        if sampler not in self._samplers:
            raise Refusal(404, f"there is no sampler {sampler!r}, or its weights are no longer kept", code="not_found")
        return self._samplers[sampler]

    def _architecture(self, tenant: _Tenant) -> str:
        return str(tenant.engine.policy.model.config.model_type)


async def _careful(work: Callable[[], Awaitable[RequestAnswer]]) -> RequestAnswer:
    """Does work, with the protocol's category where it fails."""
    try:
        return await work()
    except Failed:
        raise
    except Refusal as refusal:
        raise Failed(str(refusal), "user") from None
    except (HocketError, ValueError) as error:
        raise Failed(str(error), "user") from None
    except Exception as error:
        _LOG.exception("a request of a client failed")
        raise Failed(f"{type(error).__name__}: {error}", "server") from None


def _loaded(model: str, address: str) -> RequestAnswer:
    return RequestAnswer(document={"path": address, "model_id": model, "type": "load_weights"})


def _read(policy: CausalLM, prompt: tuple[int, ...], top: int) -> tuple[Any, Any]:
    """The log-prob of each token of a prompt `[P]`, NaN for the first, and the `top` likeliest `[P - 1, k]`."""
    (scores,) = score_prompts(policy, [prompt], top)
    logp = np.concatenate([np.full(min(1, len(prompt)), np.nan, np.float32), scores.logp])
    return logp, (scores.top, scores.top_logp) if top and len(prompt) > 1 else None


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
