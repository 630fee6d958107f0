"""apriel-1-5-15b-thinker: the survey, and a command that makes models deeper."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
