"""Who gets how much: advantages, value targets and pairs; and corrections for experience of another policy.

Credits and corrections are pure and compute in float64, whatever the precision of the batch. Occurrences of weight 0
(forced decisions, greedy baselines, filtered trajectories) enter no statistic. A decision shared by several
trajectories is credited once in each.
"""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
