"""Toys of several claims: consultations."""

from __future__ import annotations

_SOURCE = "catalogue; Feng et al., arXiv 2505.19630, and the authors' code"
