"""Who gets how much: advantages, value targets and pairs; and corrections for experience of another policy.

Credits and corrections are pure and compute in float64, whatever the precision of the batch. Occurrences of weight 0
(forced decisions, greedy baselines, filtered trajectories) enter no statistic. A decision shared by several
trajectories is credited once in each.
"""

from hocket.credit.conflict import ConflictTokens
from hocket.credit.corrections import MaskedImportance, TruncatedImportance
from hocket.credit.entropy import EntropyLifted, EntropyScaled
from hocket.credit.gae import GAE
from hocket.credit.group import GroupRelative, StepRelative
from hocket.credit.mixed import DeviationUnlessAllRight
from hocket.credit.normalisations import BetaDensity, MixedDeviation
from hocket.credit.pairs import AllPairs, BestAgainstWorst, PreferenceLevels, ShortestAgainstLonger
from hocket.credit.parts import EachScore
from hocket.credit.places import PlanAndSolution, TagBonus
from hocket.credit.positions import PlaceWeighted
from hocket.credit.progress import ProgressBonus
from hocket.credit.reference import ReferenceMargin, RememberedBaseline
from hocket.credit.refined import Refined
from hocket.credit.reinforce import GreedyBaseline, ReturnToGo, RunningMean, Uniform
from hocket.credit.reweighting import ExponentialWeight, LoweredBaseline
from hocket.credit.segments import RankRelative
from hocket.credit.selection import DownSampled, Pruned
from hocket.credit.semantic import SemanticEntropy
from hocket.credit.tempered import RewardWhereTempered
from hocket.credit.thinking import MaskDecision
from hocket.credit.verdicts import Verdicts
from hocket.credit.weights import Difficulty, LogisticAccuracy, NoiseAware, SignalShare

__all__ = [
    "GAE",
    "AllPairs",
    "BestAgainstWorst",
    "BetaDensity",
    "ConflictTokens",
    "DeviationUnlessAllRight",
    "Difficulty",
    "DownSampled",
    "EachScore",
    "EntropyLifted",
    "EntropyScaled",
    "ExponentialWeight",
    "GreedyBaseline",
    "GroupRelative",
    "LogisticAccuracy",
    "LoweredBaseline",
    "MaskDecision",
    "MaskedImportance",
    "MixedDeviation",
    "NoiseAware",
    "PlaceWeighted",
    "PlanAndSolution",
    "PreferenceLevels",
    "ProgressBonus",
    "Pruned",
    "RankRelative",
    "ReferenceMargin",
    "Refined",
    "RememberedBaseline",
    "ReturnToGo",
    "RewardWhereTempered",
    "RunningMean",
    "SemanticEntropy",
    "ShortestAgainstLonger",
    "SignalShare",
    "StepRelative",
    "TagBonus",
    "TruncatedImportance",
    "Uniform",
    "Verdicts",
]
