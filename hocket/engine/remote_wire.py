"""The OpenAI protocol: requests as JSON bodies, and the content of answers."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from hocket.core.errors import ConfigurationError
from hocket.core.media import FIRST, MEDIA
from hocket.core.pictures import data_url
from hocket.engine.remote_fields import drawing
from hocket.engine.remote_http import EndpointError, Unfinished
from hocket.engine.requests import ContextFull, Request
from hocket.types import Decoding


class ServerAnswer(TypedDict):
    """A server's answer as plain data.

    `tokens` are the sampled tokens and `logp` their log-probs (nats); None if the server does not return them.
    """

    text: str
    tokens: list[int] | None
    logp: list[float] | None
    finish: Literal["stop", "length"]


def text_body(request: Request, model: str) -> dict[str, Any]:
    """The body for `/chat/completions`.

    Raises:
        ConfigurationError: when the request needs token ids, which this protocol lacks.
    """
    for what, value in (("a prefix", request.prefix), ("decoding.banned", request.decoding.banned)):
        if value:
            raise ConfigurationError(
                f"model {model!r} gets text, but {what} names token ids; give its role a tokenizer, or drop {what}"
            )
    messages = [{**message, "content": _with_urls(message.get("content"))} for message in request.messages]
    if not messages:
        raise ConfigurationError(f"model {model!r} gets text, so a request needs messages")
    return {"model": model, "messages": messages, **drawing(request, request.decoding.max_tokens)}


def _with_urls(content: Any) -> Any:
    """Content with pictures as data URLs and sounds as `input_audio`, as OpenAI's protocol has them."""
    if not isinstance(content, list):
        return content
    return [_with_data(part) for part in content]


def _with_data(part: Any) -> Any:
    if part.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": data_url(MEDIA.data(part["image"]))}}
    if part.get("type") == "audio":
        data = base64.b64encode(MEDIA.data(part["audio"])).decode()
        return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    return part


def tokens_body(request: Request, model: str, stops: Sequence[int]) -> dict[str, Any]:
    """The body for `/completions` with token ids in and out, in vLLM's dialect; `stops` are ids that end a response.

    Raises:
        ContextFull: when the prefix fills the response.
    """
    if max(request.tokens, default=0) >= FIRST:
        raise ConfigurationError(
            f"model {model!r} gets token ids, and a picture or sound has none there; drop its role's tokenizer, so "
            "that it gets text and media"
        )
    left = request.decoding.max_tokens - len(request.prefix)
    if left < 1:
        raise ContextFull(f"a prefix of {len(request.prefix)} tokens fills the response; raise max_tokens")
    body = {
        "model": model,
        "prompt": [*request.tokens, *request.prefix],
        **drawing(request, left),
        "logprobs": 1,
        "return_token_ids": True,
        "stop_token_ids": list(stops),
        "include_stop_str_in_output": True,
        "skip_special_tokens": False,
    }
    if request.decoding.banned:
        body["logit_bias"] = {str(token): -100 for token in request.decoding.banned}
    return body


def read_text(answer: Any) -> ServerAnswer:
    """The content of an answer of `/chat/completions`.

    If the server omits the stop string that ended the answer, but names it, it is appended.

    Raises:
        Unfinished: when the answer is truncated.
        EndpointError: when it has no text.
    """
    choice = _choice(answer)
    finish = finish_of(choice.get("finish_reason"))
    message = choice.get("message")
    text = message.get("content") if isinstance(message, Mapping) else None
    if text is None and finish == "length":
        text = ""  # The whole budget went into thoughts that the server does not show.
    if not isinstance(text, str):
        raise EndpointError(f"the server answered without text: {str(choice)[:200]}")
    stop = choice.get("stop_reason")
    if isinstance(stop, str) and finish == "stop" and not text.endswith(stop):
        text += stop
    return {"text": text, "tokens": None, "logp": None, "finish": finish}


def read_tokens(answer: Any) -> ServerAnswer:
    """The content of an answer of `/completions`: token ids if the server returns them, else text.

    Raises:
        Unfinished: when the answer is truncated.
        EndpointError: when it has neither tokens nor text, or not one log-prob per token.
    """
    choice = _choice(answer)
    finish = finish_of(choice.get("finish_reason"))
    text, tokens = choice.get("text"), choice.get("token_ids")
    if not isinstance(text, str):
        raise EndpointError(f"the server answered without text: {str(choice)[:200]}")
    if tokens is None:
        return {"text": text, "tokens": None, "logp": None, "finish": finish}
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise EndpointError(f"the server's token ids are no integers: {str(tokens)[:100]}")
    logp = (choice.get("logprobs") or {}).get("token_logprobs")
    if logp is not None and (len(logp) != len(tokens) or not all(type(value) in (int, float) for value in logp)):
        raise EndpointError(f"the server gave {len(tokens)} tokens but {len(logp)} log-probs, or some are no numbers")
    return {"text": text, "tokens": tokens, "logp": logp, "finish": finish}


def tells_logp(decoding: Decoding, *, processed: bool = False) -> bool:
    """Whether a server's log-probs are those of the distribution drawn from.

    Servers report those of the model (at temperature 1, without truncation) unless they `processed` them.
    """
    return processed or decoding.greedy or (decoding.temperature == 1.0 and not decoding.truncates)


def _choice(answer: Any) -> Mapping[str, Any]:
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise EndpointError(f"the server's answer has no choices: {str(answer)[:200]}")
    return choices[0]


_ENDS: Mapping[str, Literal["stop", "length"]] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_length", "max_output_tokens", "model_length"), "length"),
}
"""The servers' names for the two ends of an answer: finished, or cut off by a limit."""


def finish_of(reason: Any) -> Literal["stop", "length"]:
    """The end of an answer by a server's word for it.

    Raises:
        Unfinished: when it ended for another reason, or the server gives none.
    """
    known = _ENDS.get(reason.casefold()) if isinstance(reason, str) else None
    if known is not None:
        return known
    if reason is None:
        raise Unfinished("the server does not say why the answer ended (no finish_reason), so it may be truncated")
    raise Unfinished(f"the server truncated the answer: finish_reason is {str(reason)[:60]!r}, not 'stop' or 'length'")
