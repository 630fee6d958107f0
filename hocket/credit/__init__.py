"""Who gets how much: advantages, value targets and pairs; and corrections for experience of another policy.

Credits and corrections are pure and compute in float64, whatever the precision of the batch. Occurrences of weight 0
(forced decisions, greedy baselines, filtered trajectories) enter no statistic. A decision shared by several
trajectories is credited once in each.
"""

from hocket.credit.corrections import MaskedImportance, TruncatedImportance
from hocket.credit.gae import GAE
from hocket.credit.group import GroupRelative
from hocket.credit.pairs import AllPairs, BestAgainstWorst
from hocket.credit.reinforce import GreedyBaseline, ReturnToGo, RunningMean, Uniform

__all__ = [
    "GAE",
    "AllPairs",
    "BestAgainstWorst",
    "GreedyBaseline",
    "GroupRelative",
    "MaskedImportance",
    "ReturnToGo",
    "RunningMean",
    "TruncatedImportance",
    "Uniform",
]
