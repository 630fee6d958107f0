"""Who gets how much: advantages, value targets and pairs; and corrections for experience of another policy.

Credits and corrections are pure and compute in float64, whatever the precision of the batch. Occurrences of weight 0
(forced decisions, greedy baselines, filtered trajectories) enter no statistic. A decision shared by several
trajectories is credited once in each.
"""

from hocket.credit.agent_turns import PromptRelative
from hocket.credit.alternating import AlternatingCredit
from hocket.credit.apart import Apart
from hocket.credit.best_of import BestAbove
from hocket.credit.conflict import ConflictTokens
from hocket.credit.corrections import MaskedImportance, TruncatedImportance
from hocket.credit.each_agent import EachAgent
from hocket.credit.entropy import EntropyLifted, EntropyScaled
from hocket.credit.gae import GAE
from hocket.credit.group import GroupRelative, StepRelative
from hocket.credit.intents import IntentPairs
from hocket.credit.message_values import MessageValues
from hocket.credit.mixed import DeviationUnlessAllRight
from hocket.credit.modules import ModuleRelative
from hocket.credit.normalisations import BetaDensity, MixedDeviation
from hocket.credit.pairs import AllPairs, BestAgainstWorst, PreferenceLevels, ShortestAgainstLonger
from hocket.credit.parts import EachScore
from hocket.credit.places import PlanAndSolution, TagBonus
from hocket.credit.plan_pairs import PlanPairs
from hocket.credit.positions import PlaceWeighted
from hocket.credit.progress import ProgressBonus
from hocket.credit.rank_consistency import RankConsistent
from hocket.credit.reference import ReferenceMargin, RememberedBaseline
from hocket.credit.refined import Refined
from hocket.credit.reinforce import GreedyBaseline, ReturnToGo, RunningMean, Uniform
from hocket.credit.reweighting import ExponentialWeight, LoweredBaseline
from hocket.credit.segment_pairs import SegmentPairs
from hocket.credit.segments import RankRelative
from hocket.credit.selection import DownSampled, Pruned
from hocket.credit.semantic import SemanticEntropy
from hocket.credit.sequence import AgentGAE
from hocket.credit.sibling_turns import SiblingTurns
from hocket.credit.tempered import RewardWhereTempered
from hocket.credit.thinking import MaskDecision
from hocket.credit.trajectory_graph import MergedEdges
from hocket.credit.turn_level import EpisodeAndTurn, TurnAndOutcome, TurnRelative
from hocket.credit.turn_pairs import BestTurnAgainstWorst
from hocket.credit.value_steps import ValueSteps
from hocket.credit.verdicts import Verdicts
from hocket.credit.weights import Difficulty, LogisticAccuracy, NoiseAware, SignalShare

__all__ = [
    "GAE",
    "AgentGAE",
    "AllPairs",
    "AlternatingCredit",
    "Apart",
    "BestAbove",
    "BestAgainstWorst",
    "BestTurnAgainstWorst",
    "BetaDensity",
    "ConflictTokens",
    "DeviationUnlessAllRight",
    "Difficulty",
    "DownSampled",
    "EachAgent",
    "EachScore",
    "EntropyLifted",
    "EntropyScaled",
    "EpisodeAndTurn",
    "ExponentialWeight",
    "GreedyBaseline",
    "GroupRelative",
    "IntentPairs",
    "LogisticAccuracy",
    "LoweredBaseline",
    "MaskDecision",
    "MaskedImportance",
    "MergedEdges",
    "MessageValues",
    "MixedDeviation",
    "ModuleRelative",
    "NoiseAware",
    "PlaceWeighted",
    "PlanAndSolution",
    "PlanPairs",
    "PreferenceLevels",
    "ProgressBonus",
    "PromptRelative",
    "Pruned",
    "RankConsistent",
    "RankRelative",
    "ReferenceMargin",
    "Refined",
    "RememberedBaseline",
    "ReturnToGo",
    "RewardWhereTempered",
    "RunningMean",
    "SegmentPairs",
    "SemanticEntropy",
    "ShortestAgainstLonger",
    "SiblingTurns",
    "SignalShare",
    "StepRelative",
    "TagBonus",
    "TruncatedImportance",
    "TurnAndOutcome",
    "TurnRelative",
    "Uniform",
    "ValueSteps",
    "Verdicts",
]
