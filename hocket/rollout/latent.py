"""Samples whose thoughts are partly latent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.rollout.independent import Independent


@dataclass(frozen=True)
class LatentThoughts(Independent):
    """`samples` of every scenario from a policy whose thoughts mix tokens with latents (HRPO, arXiv 2505.18454).

    Policies of other kinds are refused: without gates the method would be another one.
    """

    needs_latents: ClassVar[bool] = True
