"""The skills that a squad begins with, as an expert would show them: programs, as
`hocket.methods.search.compass_smac.skills` has them.

A view is plain data: `at` and `size`, row and column, of the map; `health`; `allies` and `foes`, the known, nearest
first, each with `gap` (rows and columns from here), `far` (the larger of both), `health`, `seen` (from here) and `go`,
the step that leads nearer; foes with their `number` and `hit`, the attack on them where they are in reach, else None;
and `legal`, the actions that are possible now: stay, north, south, west, east, `attack NUMBER`.
"""

from __future__ import annotations

from collections.abc import Mapping

HOLD = """def hold(view):
    "attack the weakest foe in reach, else stay"
    near = [foe for foe in view["foes"] if foe["hit"]]
    return min(near, key=lambda foe: foe["health"])["hit"] if near else "stay"
"""

HUNT = """def hunt(view):
    "attack the weakest foe in reach, else go to the nearest that is known"
    near = [foe for foe in view["foes"] if foe["hit"]]
    if near:
        return min(near, key=lambda foe: foe["health"])["hit"]
    return view["foes"][0]["go"] if view["foes"] else "stay"
"""

GATHER = """def gather(view):
    "join the nearest ally"
    return view["allies"][0]["go"] if view["allies"] and view["allies"][0]["far"] > 1 else "stay"
"""

RETREAT = """def retreat(view):
    "fall back to the west"
    return "west" if "west" in view["legal"] else "stay"
"""

CHARGE = """def charge(view):
    "attack the nearest foe, or go there"
    foes = view["foes"]
    return (foes[0]["hit"] or foes[0]["go"]) if foes else "stay"
"""
"""Not among those that a squad begins with: what a beginner writes where it has no `hunt`."""

SKILLS: Mapping[str, str] = {"hold": HOLD, "hunt": HUNT, "gather": GATHER, "retreat": RETREAT}
"""By name; the first is what runs where nothing was chosen."""
