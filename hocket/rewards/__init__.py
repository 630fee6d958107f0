"""How good a trajectory is, how several scores become one reward, and edits of it."""

from hocket.rewards.adaptive_kl import AdaptiveKLInReward
from hocket.rewards.agreement_votes import VoteReward
from hocket.rewards.calibrated import CalibratedReward
from hocket.rewards.calls import CallMatch
from hocket.rewards.checklist import Checklist, EndsWith, HasSection, InOrder, Mentions, WordRange
from hocket.rewards.choices import SubsetMatch
from hocket.rewards.combine import Gated, NormalisedSum, RuleOverModel, WeightedByTask, WeightedSum
from hocket.rewards.conformance import Conformance
from hocket.rewards.curves import AsymmetricCurve
from hocket.rewards.diversity import RedundancyDiscount, RoleDiversity
from hocket.rewards.early_exit import DecayingExits
from hocket.rewards.formats import FormatGrade
from hocket.rewards.frozen_scale import FrozenScale
from hocket.rewards.functions import FunctionReward, load_reward, load_rewards
from hocket.rewards.graded import Closeness, EntityMatch, IntervalIoU
from hocket.rewards.group_length import SpreadLength
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
from hocket.rewards.noise import AppealedCorrection, NoiseCorrection
from hocket.rewards.opinions import Opinions, RewardError
from hocket.rewards.paraphrases import GroupSimilarity
from hocket.rewards.router import Routed
from hocket.rewards.shaping import KLInReward, MaskTruncated, OverlongPenalty
from hocket.rewards.spans import SegmentsByText, SpanRewards
from hocket.rewards.steps import StepScores
from hocket.rewards.surplus import DropSurplusNegatives
from hocket.rewards.tags import TagFormat
from hocket.rewards.thinking import ThinkingPenalties
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
    "Closeness",
    "Conformance",
    "ContrastBonus",
    "CosineLength",
    "DecayingExits",
    "DropSurplusNegatives",
    "EndsWith",
    "EntityMatch",
    "ExactMatch",
    "FormatGrade",
    "FrozenScale",
    "FunctionReward",
    "Gated",
    "GroupSimilarity",
    "HasSection",
    "InOrder",
    "IntervalIoU",
    "KLInReward",
    "KeySteps",
    "LanguageShare",
    "LengthBand",
    "LengthOnceRight",
    "ListGain",
    "LongerIsBetter",
    "MaskTruncated",
    "Mentions",
    "NoiseCorrection",
    "NoisyJudge",
    "NormalisedSum",
    "Opinions",
    "OrderedStages",
    "OverlongPenalty",
    "RedundancyDiscount",
    "RelativeLength",
    "RewardError",
    "RoleDiversity",
    "Routed",
    "RuleOverModel",
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
    "ToolEfficiency",
    "UnlikelinessReward",
    "VoteReward",
    "WeightedByTask",
    "WeightedSum",
    "WordRange",
    "load_reward",
    "load_rewards",
]
