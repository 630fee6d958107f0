"""Registries of what files of methods declare, by name; naming them imports none."""

from __future__ import annotations

from hocket.core.discovery import Registry, constant

RECIPES = Registry("recipe", ("hocket.methods",), constant("Recipe", r"\w+\.but"))
"""Every recipe of `hocket.methods` and of installed packages; `hocket.recipes` finds them."""

ANALYSES = Registry("analysis", ("hocket.methods",), constant("Analysis"))
"""Catalogue rows that are no recipe."""
