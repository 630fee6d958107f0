"""Architectures that are no policies: known from the configuration, so that no weights are read in vain."""

from __future__ import annotations

from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.policies.vision import FAMILIES, REFUSED

UNFIT = {
    "blt": "reads bytes in patches that another model cuts",
    "cpmant": "reads tokens that come later",
    "gemma4_assistant": "drafts for another model, whose states it reads",
    "gemma4_unified_assistant": "drafts for another model, whose states it reads",
    "moshi": "writes sound beside its text",
    "musicgen": "writes sound, not text",
    "musicgen_melody": "writes sound, not text",
    "prophetnet": "reads tokens that come later",
    "reformer": "hashes the whole sequence, so that a token's numbers depend on those that come later",
    "xlm": "transformers can use as an encoder only",
    "xlnet": "reads tokens that come later",
}
"""Architectures with a causal head that are none by themselves, and why."""

_ALWAYS_DECODERS = frozenset(
    {
        "bart",
        "bigbird_pegasus",
        "blenderbot",
        "blenderbot-small",
        "gpt_neox",
        "gpt_neox_japanese",
        "marian",
        "mbart",
        "mvp",
        "pegasus",
        "plbart",
        "trocr",
    }
)
"""Architectures that attend backwards whatever their `is_decoder` says."""


def check_architecture(config: Any, where: str) -> None:
    """Refuses a model that does not write text from left to right.

    Raises:
        ConfigurationError: naming the architecture, or the setting that makes it read later tokens.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    kind = str(config.model_type)
    if kind in REFUSED:
        raise ConfigurationError(
            f"model {where!r} is of architecture {kind!r}, which {REFUSED[kind]}, and that is not computed here; "
            f"choose a model of {', '.join(sorted(FAMILIES))}"
        )
    if kind not in UNFIT and type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ConfigurationError(
            f"model {where!r} is of architecture {kind!r}, which transformers has no causal language model for; choose "
            "a model that writes text from left to right"
        )
    if kind in UNFIT:
        raise ConfigurationError(
            f"model {where!r} is of architecture {kind!r}, which {UNFIT[kind]}; choose a causal language model"
        )
    setting = _unset(config, kind)
    if setting is not None:
        raise ConfigurationError(
            f"model {where!r} has {setting} in its config.json, so that every token would read those that come later; "
            "choose a causal language model, or correct the setting"
        )
    if kind == "doge" and config.keep_window_size < config.max_position_embeddings:
        raise ConfigurationError(
            f"model {where!r} has keep_window_size = {config.keep_window_size} in its config.json, less than its "
            f"context of {config.max_position_embeddings} tokens, so that its numbers depend on how sequences are "
            "padded; choose another model, or a max_position_embeddings of the same size"
        )
    if kind == "xmod" and not config.default_language:
        raise ConfigurationError(f"model {where!r} has no default_language in its config.json; name one there")


def _unset(config: Any, kind: str) -> str | None:
    """The setting by which a configuration attends in both directions; None where it does not."""
    bidirectional = getattr(config, "use_bidirectional_attention", None)
    if bidirectional is True or bidirectional == "all":
        return f"use_bidirectional_attention = {str(bidirectional).lower()}"
    encodes = getattr(config, "is_decoder", None) is False and kind not in _ALWAYS_DECODERS
    return "is_decoder = false" if encodes else None
