"""Credit: advantages, value targets and pairs, and corrections for experience of another policy.

Credits and corrections are pure. They compute in float64, whatever the precision of the batch. Occurrences of weight 0
(forced decisions, greedy baselines, filtered trajectories) enter no statistic. A decision shared by several
trajectories gets credit once in each.
"""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
