"""Studies: recipes compared on the same tasks, base, budget and seeds, with honest intervals."""

from __future__ import annotations

from hocket.studies.study import Entry, Measure, Study, Tuning, read

__all__ = ["Entry", "Measure", "Study", "Tuning", "read"]
