"""bardec-pomdp: the method, and what it alone uses (betrayal, dilemmas, dilemmas_task, gathering, task, traitor)."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
