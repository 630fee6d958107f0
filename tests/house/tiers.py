"""The parts of the package by dotted prefix of module; the longest prefix that fits decides."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "hocket"

TIERS: Mapping[str, tuple[str, ...]] = {
    "engine": (
        *("hocket", "hocket.core", "hocket.curriculum", "hocket.rollout", "hocket.rewards", "hocket.credit"),
        *(
            "hocket.objectives",
            "hocket.update",
            "hocket.hooks",
            "hocket.policies",
            "hocket.policies.kernels",
            "hocket.engine",
        ),
        *(
            "hocket.train",
            "hocket.agents.workflows",
            "hocket.agents.tools",
            "hocket.agents.environments",
            "hocket.agents.search",
            "hocket.tasks",
        ),
    ),
    "distributed": ("hocket.distributed.cluster", "hocket.distributed.swarm"),
    "apps": (
        "hocket.apps.cli",
        "hocket.apps.report",
        "hocket.apps.studies",
        "hocket.apps.serve",
        "hocket.apps.play",
        "hocket.apps.live",
        "hocket.apps.use",
        "hocket.apps.init",
        "hocket.apps.launch",
    ),
    "lab": ("hocket.lab", "hocket.lab.exact", "hocket.nano"),
    "zoo": ("hocket.zoo",),
    "methods": ("hocket.methods",),
}
"""`hocket` itself is for the files directly in it."""

CLAIMS = "claims"
"""The tier of modules of the methods that stand in folders of this name."""

GENERAL = ("engine", "distributed", "apps", "lab")
"""Everything outside methods and zoo."""


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the package by its name; templates are projects of their own."""
    files = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        if "templates" not in parts[:-1]:
            files[".".join(parts).removesuffix(".__init__")] = file
    return files


@cache
def texts() -> Mapping[str, str]:
    """The source of every module."""
    return {module: file.read_text(encoding="utf-8") for module, file in modules().items()}


@cache
def tier(module: str) -> str | None:
    """The part that a module belongs to; None where the table has none."""
    fitting = {
        prefix: name
        for name, prefixes in TIERS.items()
        for prefix in prefixes
        if f"{module}.".startswith(f"{prefix}.") and (prefix != "hocket" or module.count(".") < 2)
    }
    if not fitting:
        return None
    name = fitting[max(fitting, key=len)]
    return CLAIMS if name == "methods" and CLAIMS in module.split(".") else name
