"""How good a trajectory is, how several scores become one reward, and edits of it."""

from hocket.rewards.adaptive_kl import AdaptiveKLInReward
from hocket.rewards.agreement_votes import VoteReward
from hocket.rewards.calibrated import CalibratedReward
from hocket.rewards.calls import CallMatch
from hocket.rewards.checklist import Checklist, EndsWith, HasSection, InOrder, Mentions, WordRange
from hocket.rewards.choices import SubsetMatch
from hocket.rewards.code_tests import CodeTests
from hocket.rewards.combine import Gated, NormalisedSum, RuleOverModel, WeightedByTask, WeightedSum
from hocket.rewards.conformance import Conformance
from hocket.rewards.consultation import Compliance, DiagnosisQuality, QuestionInformation
from hocket.rewards.crowd import CrowdReward
from hocket.rewards.curves import AsymmetricCurve
from hocket.rewards.database_hash import DatabaseMatch
from hocket.rewards.decisive_turns import DecisiveTurns
from hocket.rewards.diversity import RedundancyDiscount, RoleDiversity
from hocket.rewards.early_exit import DecayingExits
from hocket.rewards.entropy_history import EntropyHistory
from hocket.rewards.formats import FormatGrade
from hocket.rewards.frozen_scale import FrozenScale
from hocket.rewards.functions import FunctionReward, load_reward, load_rewards
from hocket.rewards.gated import GatedAccumulation
from hocket.rewards.graded import Closeness, EntityMatch, IntervalIoU
from hocket.rewards.group_length import SpreadLength
from hocket.rewards.information_gain import InformationGain
from hocket.rewards.judge import NoisyJudge, TextJudge
from hocket.rewards.key_steps import KeySteps, OrderedStages
from hocket.rewards.language import LanguageShare
from hocket.rewards.length import (
    BudgetLength,
    CosineLength,
    LengthOnceRight,
    LongerIsBetter,
    RelativeLength,
    StandardisedLength,
)
from hocket.rewards.length_band import LengthBand
from hocket.rewards.likelihood_rank import UnlikelinessReward
from hocket.rewards.lists import ListGain
from hocket.rewards.message_cost import MessageCost
from hocket.rewards.noise import AppealedCorrection, NoiseCorrection
from hocket.rewards.opinions import Opinions, RewardError
from hocket.rewards.paraphrases import GroupSimilarity
from hocket.rewards.polling import GroupConsistency
from hocket.rewards.progress import LearningProgress
from hocket.rewards.readability import Readability
from hocket.rewards.router import Routed
from hocket.rewards.shaping import KLInReward, MaskTruncated, OverlongPenalty
from hocket.rewards.spans import SegmentsByText, SpanRewards
from hocket.rewards.sql import (
    ClauseMatch,
    ExecutionMatch,
    JudgeFailures,
    NgramOverlap,
    SchemaLinking,
    ValidSyntax,
)
from hocket.rewards.steps import StepScores
from hocket.rewards.surplus import DropSurplusNegatives
from hocket.rewards.tags import TagFormat
from hocket.rewards.thinking import ThinkingPenalties
from hocket.rewards.tool_answer import ToolAnswer
from hocket.rewards.tool_calls import ContrastBonus, SearchTable, ToolEfficiency
from hocket.rewards.verifiers import ExactMatch, TaskVerifier

__all__ = [
    "AdaptiveKLInReward",
    "AppealedCorrection",
    "AsymmetricCurve",
    "BudgetLength",
    "CalibratedReward",
    "CallMatch",
    "Checklist",
    "ClauseMatch",
    "Closeness",
    "CodeTests",
    "Compliance",
    "Conformance",
    "ContrastBonus",
    "CosineLength",
    "CrowdReward",
    "DatabaseMatch",
    "DecayingExits",
    "DecisiveTurns",
    "DiagnosisQuality",
    "DropSurplusNegatives",
    "EndsWith",
    "EntityMatch",
    "EntropyHistory",
    "ExactMatch",
    "ExecutionMatch",
    "FormatGrade",
    "FrozenScale",
    "FunctionReward",
    "Gated",
    "GatedAccumulation",
    "GroupConsistency",
    "GroupSimilarity",
    "HasSection",
    "InOrder",
    "InformationGain",
    "IntervalIoU",
    "JudgeFailures",
    "KLInReward",
    "KeySteps",
    "LanguageShare",
    "LearningProgress",
    "LengthBand",
    "LengthOnceRight",
    "ListGain",
    "LongerIsBetter",
    "MaskTruncated",
    "Mentions",
    "MessageCost",
    "NgramOverlap",
    "NoiseCorrection",
    "NoisyJudge",
    "NormalisedSum",
    "Opinions",
    "OrderedStages",
    "OverlongPenalty",
    "QuestionInformation",
    "Readability",
    "RedundancyDiscount",
    "RelativeLength",
    "RewardError",
    "RoleDiversity",
    "Routed",
    "RuleOverModel",
    "SchemaLinking",
    "SearchTable",
    "SegmentsByText",
    "SpanRewards",
    "SpreadLength",
    "StandardisedLength",
    "StepScores",
    "SubsetMatch",
    "TagFormat",
    "TaskVerifier",
    "TextJudge",
    "ThinkingPenalties",
    "ToolAnswer",
    "ToolEfficiency",
    "UnlikelinessReward",
    "ValidSyntax",
    "VoteReward",
    "WeightedByTask",
    "WeightedSum",
    "WordRange",
    "load_reward",
    "load_rewards",
]
