"""How an architecture turns queries and keys by their positions: read from its rotary embedding."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

STATIC_ROTARY = frozenset({"default", "linear", "llama3", "yarn", "ntk_alpha", "proportional"})
"""Rotary embeddings whose angles depend on the position alone."""


class UnknownPart(Exception):
    """The architecture has a part that no form knows."""


def _hybrid(module: Any, config: Any, kind: str | None) -> bool:
    return config.sliding_window is not None and kind != "sliding_attention"


_NO_POSITIONS: dict[str, Callable[[Any, Any, str | None], bool]] = {
    "afmoe": lambda module, config, kind: kind != "sliding_attention",
    "cohere2": lambda module, config, kind: kind != "sliding_attention",
    "cohere2_moe": lambda module, config, kind: kind != "sliding_attention" and not module.force_rope,
    "exaone4": _hybrid,
    "exaone_moe": _hybrid,
    "flint": lambda module, config, kind: kind != "sliding_attention",
    "kolibri1": _hybrid,
}
"""Architectures that leave the positions out in some layers, and say so in their forward pass alone."""


def rotary_of(trunk: Any) -> Any:
    """The rotary embedding of a decoder."""
    return trunk.rotary_emb if hasattr(trunk, "rotary_emb") else trunk.pos_emb


def table_of(rotary: Any, module: Any, config: Any, kind: str | None) -> str | None:
    """The name of the table of angles of a layer of this kind; None where it has no positions."""
    without = _NO_POSITIONS.get(config.model_type)
    if not getattr(module, "use_rope", True) or (without is not None and without(module, config, kind)):
        return None
    return kind if kind is not None and kind in table_names(rotary) else ""


def table_names(rotary: Any) -> list[str]:
    """Kinds of layers with tables of their own."""
    return list(getattr(rotary, "layer_types", ()))


def pair_angles(
    rotary: Any, name: str, positions: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Cosines and sines `[S, R / 2]` of the R numbers of a head that turn, for positions below `positions`."""
    places = torch.arange(positions, device=device)[None]
    arguments = (name,) if name else ()
    with torch.no_grad():
        angles = rotary(torch.zeros(1, dtype=dtype, device=device), places, *arguments)
        parts = (angles.real, angles.imag) if isinstance(angles, Tensor) else angles
        cosine, sine = (part[0] for part in parts)
    pairs = frequencies(rotary, name).numel()
    if cosine.shape[1] == 2 * pairs:  # As two halves, or each angle twice.
        step = slice(pairs) if cosine[:, :pairs].equal(cosine[:, pairs:]) else slice(None, None, 2)
        cosine, sine = cosine[:, step], sine[:, step]
    return cosine.to(dtype), sine.to(dtype)


def frequencies(rotary: Any, name: str) -> Tensor:
    """Of a table, one for each pair of numbers that turn together."""
    buffer = getattr(rotary, f"{name}_inv_freq" if name else "inv_freq", None)
    if not isinstance(buffer, Tensor) or not buffer.numel() or buffer.is_meta:
        raise UnknownPart
    return buffer


def interleaves(module: Any, rotary: Any) -> bool:
    """Whether an architecture turns neighbours, by its own `rotate_half`, or as complex numbers."""
    if is_complex(rotary):
        return True
    rotate = getattr(sys.modules[type(module).__module__], "rotate_half", None)
    return rotate is not None and rotate(torch.arange(4.0)).tolist() == [-1.0, 0.0, -3.0, 2.0]


def is_complex(rotary: Any) -> bool:
    """Whether angles are complex numbers, of which two neighbours in a head are one."""
    if not hasattr(sys.modules[type(rotary).__module__], "apply_rotary_emb"):
        return False
    return isinstance(rotary(torch.zeros(1), torch.zeros(1, 1, dtype=torch.long)), Tensor)


def longest_static(rotary: Any, config: Any) -> int:
    """Tokens up to which all tables stay the same."""
    kinds = rotary.rope_type if isinstance(rotary.rope_type, dict) else {"": rotary.rope_type}
    return min((static_up_to(kind, config) for kind in kinds.values()), default=sys.maxsize)


def whole_chunk(config: Any) -> int:
    """Tokens up to which attention in chunks is whole, and scores are not scaled by the position."""
    chunk = getattr(config, "attention_chunk_size", None) or sys.maxsize
    tuned = getattr(config, "attn_temperature_tuning", False)
    parameters = getattr(config, "rope_parameters", None) or {}
    scaled = parameters["original_max_position_embeddings"] if parameters.get("llama_4_scaling_beta") else sys.maxsize
    return int(min(chunk, scaled, config.floor_scale - 1 if tuned else sys.maxsize))


def static_up_to(kind: str, config: Any) -> int:
    """Tokens up to which a kind of rotary embedding has the angles it begins with."""
    parameters = getattr(config, "rope_parameters", None) or {}
    if kind in STATIC_ROTARY or (kind == "dynamic" and parameters.get("alpha")):
        return sys.maxsize
    if kind == "longrope":
        return int(parameters.get("original_max_position_embeddings") or config.max_position_embeddings)
    return int(config.max_position_embeddings) if kind == "dynamic" else 0
