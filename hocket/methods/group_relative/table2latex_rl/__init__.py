"""table2latex_rl: the method, its world (task) and the code of tables (tabular)."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
