"""Log-probs of given text from an OpenAI-compatible server: vLLM's `prompt_logprobs` of `/completions`.

Several sequences go into one request. Each place but the first comes back with its own token's log-prob and with the
likeliest tokens there. What a teacher answers is learnt from, so every number is checked.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.engine.remote_fields import NEUTRAL
from hocket.engine.remote_http import EndpointError, Unfinished

EXCESS = 1e-3
"""By how much a server's probabilities may sum to more than 1, as some round."""


@dataclass(frozen=True)
class ScoredText:
    """Of the tokens of a sequence behind its first `start` ones, at temperature 1 in nats.

    Attributes:
        logp: of the tokens themselves, `[M]`. top, top_logp: the likeliest ones of each place, best first, `[M, k]`.
    """

    logp: NDArray[np.float32]
    top: NDArray[np.int32]
    top_logp: NDArray[np.float32]

    def plain(self) -> dict[str, Any]:
        """As plain data for a journal."""
        columns = {"logp": self.logp, "top": self.top, "top_logp": self.top_logp}
        return {"k": self.top.shape[1]} | {
            name: base64.b64encode(column.tobytes()).decode() for name, column in columns.items()
        }

    @staticmethod
    def of_plain(plain: Mapping[str, Any]) -> ScoredText:
        """The inverse of `plain`."""
        logp, top_logp = (np.frombuffer(base64.b64decode(plain[name]), np.float32) for name in ("logp", "top_logp"))
        shape, top = (len(logp), int(plain["k"])), np.frombuffer(base64.b64decode(plain["top"]), np.int32)
        return ScoredText(logp, top.reshape(shape), top_logp.reshape(shape))


def scoring_body(model: str, sequences: Sequence[Sequence[int]], top: int) -> dict[str, Any]:
    """The body for `/completions` that asks for the log-probs of `sequences` of token ids and `top` likeliest tokens.

    A server writes at least one token, which is not read.
    """
    return {
        "model": model,
        "prompt": [list(sequence) for sequence in sequences],
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": top,
        **NEUTRAL,
    }


def read_scores(
    answer: Any, sequences: Sequence[Sequence[int]], starts: Sequence[int], top: int, texts: Mapping[int, str]
) -> list[ScoredText]:
    """The scores of each sequence behind its first `starts` tokens.

    Args:
        texts: the text of every token asked about, by the student's tokenizer.

    Raises:
        Unfinished: when log-probs of some tokens are missing; the request is repeated.
        ConfigurationError: when they can never be right: no log-probs of prompts at all, probabilities that sum to more
            than 1, the likeliest tokens without the token itself, fewer than asked for, or another tokenizer.
    """
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    if not isinstance(choices, list) or len(choices) != len(sequences):
        count = len(choices) if isinstance(choices, list) else "no"
        raise EndpointError(f"the teacher gave {count} answers to {len(sequences)} sequences")
    by_index = sorted(choices, key=lambda choice: int(choice.get("index", 0)))
    return [
        _scores(choice.get("prompt_logprobs"), sequence, start, top, texts)
        for choice, sequence, start in zip(by_index, sequences, starts, strict=True)
    ]


def _scores(places: Any, sequence: Sequence[int], start: int, top: int, texts: Mapping[int, str]) -> ScoredText:
    if not isinstance(places, list):
        raise ConfigurationError(
            "the server gives no log-probs of prompts (prompt_logprobs), which a teacher needs; serve it with vLLM or "
            "with hocket serve"
        )
    if len(places) != len(sequence) or not all(isinstance(place, Mapping) for place in places[start:]):
        known = sum(isinstance(place, Mapping) for place in places)
        raise Unfinished(f"the teacher gave log-probs of {known} of {len(sequence) - 1} tokens")
    _check_tokenizer(places, sequence, start, texts)
    rows = [_place(place, sequence[start + n], top) for n, place in enumerate(places[start:])]
    return ScoredText(
        np.array([row[0] for row in rows], np.float32),
        np.array([row[1] for row in rows], np.int32).reshape(len(rows), top),
        np.array([row[2] for row in rows], np.float32).reshape(len(rows), top),
    )


def _place(place: Mapping[str, Any], token: int, top: int) -> tuple[float, list[int], list[float]]:
    """The log-prob of `token`, and the likeliest tokens of its place with theirs."""
    try:
        likely = sorted(((float(entry["logprob"]), -int(name)) for name, entry in place.items()), reverse=True)
    except (KeyError, TypeError, ValueError) as error:
        raise EndpointError(f"the teacher's log-probs are not in vLLM's form: {str(place)[:100]}") from error
    mine = next((logp for logp, name in likely if -name == token), None)
    if mine is None:
        raise ConfigurationError(
            f"the teacher's {len(likely)} likeliest tokens lack the token {token} that stands there; "
            "use a server that gives its log-prob besides, as vLLM does"
        )
    total = math.fsum(math.exp(logp) for logp, _ in likely)
    if not total <= 1 + EXCESS:
        raise ConfigurationError(
            f"the teacher's probabilities at one token sum to {total:.3f}, and they may sum to 1 at most; its "
            "log-probs must be those of the model at temperature 1 (vLLM: --logprobs-mode raw_logprobs)"
        )
    if len(likely) < top:
        raise ConfigurationError(
            f"the teacher gave {len(likely)} likeliest tokens of the {top} asked for; lower the count of the "
            "divergence, or raise the server's limit (vLLM: --max-logprobs)"
        )
    best = likely[:top]
    return mine, [-name for _, name in best], [logp for logp, _ in best]


def _check_tokenizer(places: Sequence[Any], sequence: Sequence[int], start: int, texts: Mapping[int, str]) -> None:
    """Compares the texts of tokens, where the server gives them and they are whole characters."""
    for place, token in zip(places[start:], sequence[start:], strict=True):
        entry = place.get(str(token))
        text = entry.get("decoded_token") if isinstance(entry, Mapping) else None
        if isinstance(text, str) and _differ(text, texts[token]):
            raise ConfigurationError(
                f"the teacher's tokenizer differs: token {token} is {text!r} there and {texts[token]!r} for the "
                "student; choose a teacher with the student's tokenizer"
            )


def _differ(first: str, second: str) -> bool:
    """Whether two tokenizers mean different tokens; some leave out spaces and control tokens when they decode."""
    left, right = (text.replace("▁", " ").replace("Ġ", " ").replace("Ċ", "\n").strip() for text in (first, second))
    return bool(left and right) and "\ufffd" not in left + right and left != right
