"""What is minimised. Regularisers are objectives too; terms add."""

from hocket.objectives.adaptive_clip import AdaptiveClip
from hocket.objectives.alternating import AlternatingObjective
from hocket.objectives.among import Among
from hocket.objectives.discriminative import Discriminative
from hocket.objectives.divergence import ExactKL, KLToReference
from hocket.objectives.drift import ClipDrift, DriftSurrogate, TanhDrift
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.entropy_corridor import EntropyCorridor
from hocket.objectives.geometric import GeometricMean
from hocket.objectives.importance import ClippedImportanceWeight
from hocket.objectives.learnt_drift import LearntDrift
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.masked import MaskedPolicyGradient
from hocket.objectives.message_value import MessageValueLoss
from hocket.objectives.negative_aware import NegativeAwareLikelihood
from hocket.objectives.path_consistency import PathConsistency
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.preference import DPO
from hocket.objectives.proximity import HingeTrustRegion, KLToOld, LogRatioPenalty
from hocket.objectives.quadratic import QuadraticDrift
from hocket.objectives.regression import AdvantageRegression
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.objectives.trust_region import ForwardKLDrift
from hocket.objectives.turn_ratio import TurnSurrogate
from hocket.objectives.value import ValueLoss

__all__ = [
    "DPO",
    "AdaptiveClip",
    "AdvantageRegression",
    "AlternatingObjective",
    "Among",
    "ClipDrift",
    "ClippedImportanceWeight",
    "ClippedSurrogate",
    "Discriminative",
    "DriftSurrogate",
    "EntropyBonus",
    "EntropyCorridor",
    "ExactKL",
    "ForwardKLDrift",
    "GeometricMean",
    "HingeTrustRegion",
    "KLToOld",
    "KLToReference",
    "LearntDrift",
    "LogRatioPenalty",
    "MaskedPolicyGradient",
    "MessageValueLoss",
    "NegativeAwareLikelihood",
    "NegativeLogLikelihood",
    "PathConsistency",
    "PolicyGradient",
    "QuadraticDrift",
    "TanhDrift",
    "TurnSurrogate",
    "ValueLoss",
]
