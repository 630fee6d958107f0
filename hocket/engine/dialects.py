"""What kinds of servers call the same things: questions and answers by token ids, weights, adapters, pauses, sleep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hocket.engine.remote_fields import LONGEST
from hocket.engine.remote_http import EndpointError, Unfinished
from hocket.engine.remote_wire import ServerAnswer, finish_of, read_tokens, tells_logp, tokens_body
from hocket.engine.requests import Request
from hocket.types import Decoding

Ask = Callable[[str, Mapping[str, Any]], Any]
"""Posts a body to a path below the server's root; returns the answer. Raises HocketError when the server refuses."""


@dataclass(frozen=True)
class PartialAnswer:
    """Tokens and log-probs of an answer. `finish` is None if the server broke it off."""

    answer: ServerAnswer
    finish: str | None


class Dialect(Protocol):
    """A kind of server."""

    name: str
    start: str
    """How to start a server that takes weights."""
    versioned: bool
    """Whether questions go below `/v1`."""

    def question(self, request: Request, model: str, adapter: str | None, stops: Sequence[int]) -> dict[str, Any]:
        """The body of a question by token ids."""
        ...

    @property
    def path(self) -> str:
        """Where questions go, below `/v1` or the root."""
        ...

    def read(self, answer: Any) -> ServerAnswer:
        """The content of a complete answer; raises `Unfinished` for any other."""
        ...

    def read_part(self, answer: Any) -> PartialAnswer:
        """The content of an answer that may have been broken off."""
        ...

    def tells_logp(self, decoding: Decoding, *, processed: bool) -> bool:
        """Whether log-probs in answers are those of the distribution drawn from."""
        ...

    def pause(self, ask: Ask, *, abort: bool) -> None:
        """Stops the server's work; requests under way are broken off, or finished first."""
        ...

    def resume(self, ask: Ask) -> None: ...

    def load(self, ask: Ask, folder: str, version: int) -> None:
        """Has the server load the weights in a folder and forget keys and values of others."""
        ...

    def hand(self, ask: Ask, update: Mapping[str, Any], version: int) -> None:
        """Has the server take weights from memory of the device."""
        ...

    def adapt(self, ask: Ask, name: str, folder: str, earlier: str | None) -> None:
        """Has the server take an adapter, in the place of an earlier one."""
        ...

    def sleep(self, ask: Ask, level: int) -> None: ...

    def wake(self, ask: Ask, part: str) -> None:
        """Gives the server its memory of `weights` or of `kv_cache` again."""
        ...


class VLLMDialect:
    """`vllm serve`, in its development mode."""

    name = "vLLM"
    start = "start it with VLLM_SERVER_DEV_MODE=1 and let it read the folder of the weights"
    versioned = True
    path = "/completions"

    def question(self, request: Request, model: str, adapter: str | None, stops: Sequence[int]) -> dict[str, Any]:
        return tokens_body(request, adapter or model, stops)

    def read(self, answer: Any) -> ServerAnswer:
        return read_tokens(answer)

    def read_part(self, answer: Any) -> PartialAnswer:
        choices = answer.get("choices") if isinstance(answer, Mapping) else None
        choice = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(choice, Mapping) and choice.get("finish_reason") == "abort":
            part = read_tokens({"choices": [{**choice, "finish_reason": "length"}]})
            return PartialAnswer(part, None)
        complete = read_tokens(answer)
        return PartialAnswer(complete, complete["finish"])

    def tells_logp(self, decoding: Decoding, *, processed: bool) -> bool:
        return tells_logp(decoding, processed=processed)

    def pause(self, ask: Ask, *, abort: bool) -> None:
        ask(f"/pause?mode={'abort' if abort else 'wait'}", {})

    def resume(self, ask: Ask) -> None:
        ask("/resume", {})

    def load(self, ask: Ask, folder: str, version: int) -> None:
        ask("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": folder}})
        _forget(ask("/reset_prefix_cache", {}))

    def hand(self, ask: Ask, update: Mapping[str, Any], version: int) -> None:
        ask("/init_weight_transfer_engine", {"init_info": {}})
        ask("/start_weight_update", {})
        ask("/update_weights", {"update_info": dict(update)})
        ask("/finish_weight_update", {"weight_version": str(version)})
        _forget(ask("/reset_prefix_cache", {}))

    def adapt(self, ask: Ask, name: str, folder: str, earlier: str | None) -> None:
        ask("/v1/load_lora_adapter", {"lora_name": name, "lora_path": folder})
        if earlier is not None:
            ask("/v1/unload_lora_adapter", {"lora_name": earlier})

    def sleep(self, ask: Ask, level: int) -> None:
        ask(f"/sleep?level={level}", {})

    def wake(self, ask: Ask, part: str) -> None:
        ask(f"/wake_up?tags={part}", {})


class SGLangDialect:
    """`python -m sglang.launch_server`. Its log-probs are at the temperature, and of the whole vocabulary."""

    name = "SGLang"
    start = "let it read the folder of the weights"
    versioned = False
    path = "/generate"

    def question(self, request: Request, model: str, adapter: str | None, stops: Sequence[int]) -> dict[str, Any]:
        body = tokens_body(request, model, stops)
        settings = {name: body[name] for name in body if name not in _OUTSIDE}
        settings["max_new_tokens"] = body[LONGEST]
        settings["sampling_seed"] = body["seed"]
        settings["no_stop_trim"] = True
        settings["n"] = 1
        asking: dict[str, Any] = {"input_ids": body["prompt"], "sampling_params": settings, "return_logprob": True}
        return asking if adapter is None else asking | {"lora_path": adapter}

    def read(self, answer: Any) -> ServerAnswer:
        part = self.read_part(answer)
        if part.finish is None:
            raise Unfinished("the server broke the answer off")
        return part.answer

    def read_part(self, answer: Any) -> PartialAnswer:
        meta = answer.get("meta_info") if isinstance(answer, Mapping) else None
        if not isinstance(meta, Mapping):
            raise EndpointError(f"the server's answer has no meta_info: {str(answer)[:200]}")
        reason = meta.get("finish_reason")
        reason = reason.get("type") if isinstance(reason, Mapping) else reason
        places = meta.get("output_token_logprobs")
        if not isinstance(places, list) or not all(_is_place(place) for place in places):
            raise EndpointError(f"the server gave no log-probs with its tokens: {str(places)[:100]}")
        tokens = [place[1] for place in places]
        listed = answer.get("output_ids")
        if listed is not None and listed != tokens:
            raise EndpointError("the server's tokens are others than those of its log-probs")
        finish = None if reason == "abort" else finish_of(reason)
        content: ServerAnswer = {
            "text": str(answer.get("text", "")),
            "tokens": tokens,
            "logp": [float(place[0]) for place in places],
            "finish": finish or "length",
        }
        return PartialAnswer(content, finish)

    def tells_logp(self, decoding: Decoding, *, processed: bool) -> bool:
        return processed or decoding.greedy or not decoding.truncates

    def pause(self, ask: Ask, *, abort: bool) -> None:
        ask("/pause_generation", {"mode": "abort" if abort else "retract"})

    def resume(self, ask: Ask) -> None:
        ask("/continue_generation", {})

    def load(self, ask: Ask, folder: str, version: int) -> None:
        _succeeded(
            ask(
                "/update_weights_from_disk",
                {"model_path": folder, "flush_cache": True, "weight_version": str(version)},
            )
        )

    def hand(self, ask: Ask, update: Mapping[str, Any], version: int) -> None:
        raise EndpointError("SGLang reads no handles of vLLM's; set engine.transfer to files")

    def adapt(self, ask: Ask, name: str, folder: str, earlier: str | None) -> None:
        _succeeded(ask("/load_lora_adapter", {"lora_name": name, "lora_path": folder}))
        if earlier is not None:
            _succeeded(ask("/unload_lora_adapter", {"lora_name": earlier}))

    def sleep(self, ask: Ask, level: int) -> None:
        ask("/release_memory_occupation", {"tags": ["kv_cache", "weights"]})

    def wake(self, ask: Ask, part: str) -> None:
        ask("/resume_memory_occupation", {"tags": [part]})


_OUTSIDE = {
    "model",
    "prompt",
    LONGEST,
    "seed",
    "logprobs",
    "return_token_ids",
    "include_stop_str_in_output",
}
"""Fields of OpenAI's protocol that are no sampling parameters of SGLang's."""

DIALECTS: Mapping[str, Dialect] = {"vllm-server": VLLMDialect(), "sglang-server": SGLangDialect()}
"""By the kind of engine."""


def _is_place(place: Any) -> bool:
    """Whether a value is SGLang's triple of log-prob, token and text."""
    return isinstance(place, list) and len(place) >= 2 and type(place[0]) in (int, float) and type(place[1]) is int


def _succeeded(answer: Any) -> None:
    if isinstance(answer, Mapping) and answer.get("success") is False:
        raise EndpointError(f"the server refused: {answer.get('message') or answer.get('error_message')}")


def _forget(answer: Any) -> None:
    if isinstance(answer, Mapping) and answer.get("success") is False:
        raise EndpointError("the server could not clear the prefix cache of the old weights")
