"""LLM-PySC2: a real-time strategy game for language models, in text both ways (arXiv:2411.05348).

A benchmark, so no recipe. What a commander is shown, the form of orders and messages, how they are read, and why one
is refused is `hocket.methods.marl.llm_pysc2.orders`; the task is `command:3v3` (`hocket.methods.marl.llm_pysc2.world`).
StarCraft is a program that no package has, and its interface, pysc2 4.0.0, does not load under Python 3.11, so a
skirmish on a grid stands behind the same contract: another game gives a `Picture` and carries out an `Order`.

Of the release here are the forms `<Name(arguments)>` with tags and places, selected units, points of the screen,
messages to a commander and on channels, notes on the kinds of units, reports of what was refused, and commanders asked
side by side. Building, training, research and abilities have nothing to act on in a skirmish, and pictures of the
screen are not shown.
"""

from __future__ import annotations

from hocket.core.analyses import Analysis

LLM_PYSC2 = Analysis(
    name="llm-pysc2",
    title="Commanders of a strategy game who read and write text",
    where="docs/control.md",
    kind="benchmark",
)
